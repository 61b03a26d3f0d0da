//! Messages that leave the queue for the output: written first, and deleted when they have arrived there.

use adf_queue_client::Delivery;
use ctl_core::bulk::Bulk;
use ctl_core::error::CliError;
use ctl_core::messages::Messages;
use ctl_core::output::{Handover, List};
use ctl_core::signals::Interrupts;

use crate::link::Link;
use crate::messages::{label, record};

/// Writes messages and deletes those that have arrived. When it fails, the others are put back.
pub struct Leaving<'a> {
    out: Handover<'a, usize>,
}

impl<'a> Leaving<'a> {
    /// Messages leave by this list.
    ///
    /// # Errors
    /// A list that is sorted: exit 2.
    pub fn new(
        list: List<'a>,
        interrupts: Interrupts,
        messages: &Messages,
    ) -> Result<Self, CliError> {
        Ok(Self { out: Handover::new(list, interrupts, messages)? })
    }

    /// How many messages should be pulled at once, `most` at most.
    pub fn window(&mut self, most: usize) -> usize {
        self.out.window(most)
    }

    /// Hands messages over and deletes them.
    ///
    /// # Errors
    /// Failures of writing or of the connection; a signal. What has not arrived is put back then.
    pub fn take(
        &mut self,
        link: &mut Link,
        messages: Vec<Delivery>,
        bulk: &mut Bulk,
    ) -> Result<(), CliError> {
        self.hand_over(link, messages, bulk, false)
    }

    /// As [`Leaving::take`] for the last messages, whose reader may wait for the end of this process, and ends the list.
    ///
    /// # Errors
    /// As [`Leaving::take`].
    pub fn take_last(
        mut self,
        link: &mut Link,
        messages: Vec<Delivery>,
        bulk: &mut Bulk,
    ) -> Result<(), CliError> {
        self.hand_over(link, messages, bulk, true)
    }

    /// Ends the list.
    ///
    /// # Errors
    /// Failures of writing.
    pub fn finish(mut self) -> Result<(), CliError> {
        self.out.finish(&mut |_| Ok(()))
    }

    fn hand_over(
        &mut self,
        link: &mut Link,
        messages: Vec<Delivery>,
        bulk: &mut Bulk,
        are_last: bool,
    ) -> Result<(), CliError> {
        let records: Vec<_> = messages.iter().map(|one| (record(one), label(one))).collect();
        let mut pulled: Vec<Option<Delivery>> = messages.into_iter().map(Some).collect();
        let mut handed = Ok(());
        {
            let mut leave = leave(link, &mut pulled, bulk);
            for (place, (record, name)) in records.into_iter().enumerate() {
                handed = handed.and_then(|()| self.out.push(record, name, place, &mut leave));
            }
            handed = handed.and_then(|()| match are_last {
                true => self.out.finish(&mut leave),
                false => self.out.settle(&mut leave),
            });
        }
        let left: Vec<Delivery> = pulled.into_iter().flatten().collect();
        handed.map_err(|error| link.give_back_after(&left, error))
    }
}

/// Deletes messages that have arrived.
fn leave<'a>(
    link: &'a mut Link,
    pulled: &'a mut [Option<Delivery>],
    bulk: &'a mut Bulk,
) -> impl FnMut(Vec<usize>) -> Result<(), CliError> + use<'a> {
    move |arrived| {
        for place in arrived {
            let Some(message) = pulled.get_mut(place).and_then(Option::take) else { continue };
            match link.delete(&message) {
                Ok(()) => bulk.success(),
                Err(error) => bulk.failure(label(&message), error)?,
            }
        }
        Ok(())
    }
}
