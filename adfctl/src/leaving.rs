//! Messages that leave the queue for the output: written first, and deleted once they have arrived there.

use adf_queue_client::Delivery;
use ctl_core::bulk::Bulk;
use ctl_core::commands::leaving::Source;
use ctl_core::error::CliError;
use ctl_core::output::Handover;

use crate::link::Link;
use crate::messages::{label, record};
use crate::taker::Taker;

/// A queue that messages leave.
pub struct Queue<'a> {
    /// The connection that pulls them.
    pub link: &'a mut Link,
    /// How long to wait for them.
    pub taker: Taker,
}

impl Source for Queue<'_> {
    type Job = Delivery;
    type Key = usize;

    fn next(&mut self, most: usize) -> Result<Vec<Delivery>, CliError> {
        self.taker.next(self.link, most)
    }

    fn hand_over(
        &mut self,
        out: &mut Handover<'_, usize>,
        messages: Vec<Delivery>,
        are_last: bool,
        bulk: &mut Bulk,
    ) -> Result<(), CliError> {
        hand_over(self.link, out, messages, are_last, bulk)
    }

    fn nothing(&mut self) -> CliError {
        self.taker.nothing()
    }
}

/// Hands over pulled messages and deletes them; after the last ones, ends the list.
///
/// # Errors
/// Write and connection failures; a signal. Messages that have not arrived are then put back.
pub fn hand_over(
    link: &mut Link,
    out: &mut Handover<'_, usize>,
    messages: Vec<Delivery>,
    are_last: bool,
    bulk: &mut Bulk,
) -> Result<(), CliError> {
    let name = |(place, one): (usize, &Delivery)| (record(one), label(one), place);
    let records: Vec<_> = messages.iter().enumerate().map(name).collect();
    let mut pulled: Vec<Option<Delivery>> = messages.into_iter().map(Some).collect();
    let mut leave = |arrived: Vec<usize>| {
        for place in arrived {
            let Some(message) = pulled.get_mut(place).and_then(Option::take) else { continue };
            bulk.count(label(&message), link.delete(&message))?;
        }
        Ok(())
    };
    let handed = out.take(records, are_last, &mut leave);
    let left: Vec<Delivery> = pulled.into_iter().flatten().collect();
    handed.map_err(|error| link.give_back_after(&left, error))
}
