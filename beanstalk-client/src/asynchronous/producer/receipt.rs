//! The answer to a put that was accepted, when it comes.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use queue_core::Operation;

use crate::{Inserted, Result, produce::shared::SharedOutbox, protocol::producer::SlotId, trace};

/// The answer to a put: a future. Dropping it passes the answer over; the put is carried out even so.
///
/// Made by [`Producer::enqueue`](super::Producer::enqueue) and [`try_put`](super::Producer::try_put).
///
/// # Cancel safety
///
/// Waiting for it by reference loses nothing when it is dropped.
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
    /// Never; after the answer was given it is pending for ever.
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
