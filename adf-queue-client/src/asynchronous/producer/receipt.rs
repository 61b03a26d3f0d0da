//! Receipts for accepted pushes.

use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll, ready},
};

use queue_core::ConnectionError;
use tokio::task::JoinHandle;

use crate::{Error, MessageId, Result};

/// The answer to a push, as a future: the number of the message in the queue of the server that took it. Dropping it
/// discards only the answer: the message is still pushed. A failure is then counted in the
/// [report](crate::ProducerReport).
///
/// Returned by [`Producer::enqueue`](super::Producer::enqueue).
///
/// # Cancel safety
///
/// Awaiting it by reference is cancel-safe.
#[must_use = "whether the message was pushed is known only from the answer"]
pub struct Receipt {
    task: Option<JoinHandle<Result<MessageId>>>,
}

impl Receipt {
    pub(super) fn new(task: JoinHandle<Result<MessageId>>) -> Self {
        Receipt { task: Some(task) }
    }
}

impl Future for Receipt {
    type Output = Result<MessageId>;

    /// # Panics
    ///
    /// Never; once it has returned the answer, it stays pending forever.
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(task) = &mut self.task else { return Poll::Pending };
        let ended = ready!(Pin::new(task).poll(cx));
        self.task = None;
        Poll::Ready(ended.unwrap_or_else(|_| Err(Error::abandoned())))
    }
}

impl fmt::Debug for Receipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receipt").finish_non_exhaustive()
    }
}
