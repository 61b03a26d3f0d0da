//! Messages for tests of handlers.

use std::sync::Arc;

use queue_core::Signal;

use super::{JobContext, MessageLoss};
use crate::{Address, Delivery, LostReason};

/// A message for testing a handler without a worker or a server.
///
/// It stands in for the worker: the test decides when the message is lost or the worker stops.
///
/// ```
/// use adf_queue_client::{Outcome, Delivery, JobContext, LostReason, TestJob};
///
/// fn send(job: &JobContext) -> Outcome {
///     if job.is_lost() || job.is_stopping() { Outcome::ReturnLeft } else { Outcome::Delete }
/// }
///
/// let test = TestJob::new(Delivery::for_test("/mail".try_into()?, "ann"));
/// assert_eq!(send(&test.context()), Outcome::Delete);
/// test.lose(LostReason::ConnectionLost);
/// assert_eq!(send(&test.context()), Outcome::ReturnLeft);
/// # Ok::<(), adf_queue_client::Error>(())
/// ```
#[derive(Debug)]
pub struct TestJob {
    context: JobContext,
    loss: Arc<MessageLoss>,
    stopping: Arc<Signal>,
}

impl TestJob {
    /// A message from a server at the default address.
    #[must_use]
    pub fn new(delivery: Delivery) -> Self {
        let (loss, stopping) = (Arc::<MessageLoss>::default(), Arc::<Signal>::default());
        let server = Arc::new(Address::default());
        let attempts = delivery.duplications();
        let context = JobContext::new(delivery, attempts, server, loss.clone(), stopping.clone());
        TestJob { context, loss, stopping }
    }

    /// The context to pass to the handler.
    #[must_use]
    pub fn context(&self) -> JobContext {
        self.context.clone()
    }

    /// Marks the message as lost for this reason.
    pub fn lose(&self, reason: LostReason) {
        self.loss.set(reason);
    }

    /// Tells the handler that its worker is stopping.
    pub fn stop(&self) {
        self.stopping.set();
    }
}
