//! The message context passed to handlers.

use std::{fmt, ops::Deref, sync::Arc, time::Duration};

use queue_core::Signal;

use super::MessageLoss;
use crate::{Address, Delivery, LostReason};

/// The context passed to a handler: the message and its state. Cloning is cheap.
///
/// The handler's return value decides how to settle the message ([`Outcome`](crate::Outcome)).
#[derive(Clone)]
pub struct JobContext {
    delivery: Arc<Delivery>,
    attempts: u16,
    server: Arc<Address>,
    loss: Arc<MessageLoss>,
    stopping: Arc<Signal>,
}

impl JobContext {
    pub(crate) fn new(
        delivery: Delivery,
        attempts: u16,
        server: Arc<Address>,
        loss: Arc<MessageLoss>,
        stopping: Arc<Signal>,
    ) -> Self {
        JobContext { delivery: Arc::new(delivery), attempts, server, loss, stopping }
    }

    /// How often the message was delivered to be handled, this time included: without the
    /// [deferrals](crate::Outcome::Defer) that this worker remembers. It counts towards
    /// [`max_duplications`](crate::WorkerOptions::max_duplications).
    #[must_use]
    pub fn attempts(&self) -> u16 {
        self.attempts
    }

    /// How often this worker has [deferred](crate::Outcome::Defer) the message before, as far as it remembers. The
    /// server counts these deliveries like the others.
    #[must_use]
    pub fn deferrals(&self) -> u64 {
        self.delivery.duplications().saturating_sub(self.attempts).into()
    }

    /// The server that it came from.
    #[must_use]
    pub fn server(&self) -> &Address {
        &self.server
    }

    /// Whether the message now belongs to another worker, usually because the connection that delivered it is gone. The
    /// handler's decision is then not sent.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.loss.reason().is_some()
    }

    /// Waits until the message belongs to another worker, and returns the reason. Use it in `select!` to abandon the
    /// work.
    ///
    /// # Cancel safety
    ///
    /// Dropping it does no harm.
    #[cfg(feature = "tokio")]
    pub async fn lost(&self) -> LostReason {
        self.loss.signal.wait().await;
        self.loss.reason().unwrap_or(LostReason::ConnectionLost)
    }

    /// Blocks until the message belongs to another worker, at most for `timeout`, and returns the reason; `None` if
    /// this worker still has it.
    #[must_use]
    pub fn wait_lost(&self, timeout: Duration) -> Option<LostReason> {
        // The reason shows whether it was in time.
        let _ = self.loss.signal.wait_timeout(timeout);
        self.loss.reason()
    }

    /// Whether the worker was told to stop, or its run has ended. The handler may still finish, within the
    /// [grace](crate::WorkerOptions::grace).
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.stopping.is_set()
    }

    /// Waits until the worker is told to stop, or its run ends. A long-running handler can then finish early.
    ///
    /// # Cancel safety
    ///
    /// Dropping it does no harm.
    #[cfg(feature = "tokio")]
    pub async fn stopping(&self) {
        self.stopping.wait().await;
    }

    /// Blocks until the worker is told to stop, or its run ends, at most for `timeout`; returns whether it was.
    #[must_use]
    pub fn wait_stopping(&self, timeout: Duration) -> bool {
        self.stopping.wait_timeout(timeout)
    }
}

impl Deref for JobContext {
    type Target = Delivery;

    fn deref(&self) -> &Delivery {
        &self.delivery
    }
}

impl fmt::Debug for JobContext {
    /// Bodies may be secret and large, so only their length is shown.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobContext")
            .field("queue", self.queue())
            .field("message_id", &self.message_id())
            .field("duplications", &self.duplications())
            .field("body", &format_args!("{} bytes", self.body().len()))
            .finish_non_exhaustive()
    }
}
