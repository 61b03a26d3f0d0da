//! Messages that leave the queue for the output: written first, and deleted once they have arrived there.

use adf_queue_client::Delivery;
use ctl_core::bulk::Bulk;
use ctl_core::error::CliError;
use ctl_core::output::Handover;

use crate::link::Link;
use crate::messages::{label, record};

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
