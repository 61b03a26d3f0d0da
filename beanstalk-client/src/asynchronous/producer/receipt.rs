//! Receipts for accepted puts.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use queue_core::Operation;

use crate::{Inserted, Result, produce::shared::SharedOutbox, protocol::producer::SlotId, trace};

/// The answer to a put, as a future. Dropping it discards only the answer: the job is still put. A failure is then
/// counted in the [report](crate::ProducerReport), and is the event [`Failed`](crate::ProducerEventKind::Failed).
///
/// Returned by [`Producer::enqueue`](super::Producer::enqueue) and [`try_put`](super::Producer::try_put).
///
/// # Cancel safety
///
/// Awaiting it by reference is cancel-safe.
#[must_use = "whether the job was put is known only from the answer"]
pub struct Receipt {
    shared: Arc<SharedOutbox>,
    slot: Option<SlotId>,
    operation: Operation,
}

impl Receipt {
    pub(super) fn new(
        shared: Arc<SharedOutbox>,
        slot: Option<SlotId>,
        operation: Operation,
    ) -> Self {
        Receipt { shared, slot, operation }
    }
}

impl Future for Receipt {
    type Output = Result<Inserted>;

    /// # Panics
    ///
    /// Never; once it has returned the answer, it stays pending forever.
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(slot) = self.slot else { return Poll::Pending };
        let answer = ready!(self.shared.with(|outbox| outbox.poll_answer(slot, cx.waker())));
        self.slot = None;
        trace::inserted(&mut self.operation, &answer);
        Poll::Ready(answer)
    }
}

impl Drop for Receipt {
    fn drop(&mut self) {
        if let Some(slot) = self.slot {
            self.shared.with(|outbox| outbox.abandon(slot));
        }
    }
}

impl fmt::Debug for Receipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receipt").finish_non_exhaustive()
    }
}
