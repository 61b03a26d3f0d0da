//! Receipts for accepted puts.

use std::{fmt, sync::Arc};

use queue_core::Operation;

use super::ProducerShared;
use crate::{Inserted, Result, protocol::producer::SlotId, trace};

/// The answer to a put. Dropping it discards only the answer: the job is still put. A failure is then counted in the
/// [report](crate::ProducerReport), and is the event [`Failed`](crate::ProducerEventKind::Failed).
///
/// Returned by [`Producer::enqueue`](super::Producer::enqueue) and [`try_put`](super::Producer::try_put).
#[must_use = "whether the job was put is known only from the answer"]
pub struct Receipt {
    shared: Arc<ProducerShared>,
    slot: Option<SlotId>,
    operation: Operation,
}

impl Receipt {
    pub(super) fn new(shared: Arc<ProducerShared>, slot: SlotId, operation: Operation) -> Self {
        Receipt { shared, slot: Some(slot), operation }
    }

    /// Waits for the answer.
    ///
    /// # Errors
    ///
    /// See [the fate of a put](super::Producer#the-fate-of-a-put).
    pub fn wait(mut self) -> Result<Inserted> {
        let slot = self.slot.take().unwrap_or(SlotId::MAX);
        let span = self.operation.span().clone();
        let answer = span
            .run(|| self.shared.wait(Some(slot), |outbox, waker| outbox.poll_answer(slot, waker)));
        trace::inserted(&mut self.operation, &answer);
        answer
    }
}

impl Drop for Receipt {
    fn drop(&mut self) {
        if let Some(slot) = self.slot {
            self.shared.outbox.with(|outbox| outbox.abandon(slot));
        }
    }
}

impl fmt::Debug for Receipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receipt").finish_non_exhaustive()
    }
}
