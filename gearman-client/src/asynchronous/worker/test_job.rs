//! Jobs for tests of handlers.

use std::sync::Arc;

use super::context::{HandlerPlace, JobContext};
use crate::{Assignment, JobEvent, LostReason, work::script::Script};

/// A job for testing a handler without a worker or a server.
///
/// It stands in for the worker: it records what the handler reports, and the test decides when the job is lost or the
/// worker stops.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use gearman_client::{Assignment, Error, JobContext, JobEvent, LostReason, TestJob};
///
/// async fn reverse(job: JobContext) -> Result<Vec<u8>, Error> {
///     job.data("working").await?;
///     Ok(job.workload.iter().rev().copied().collect())
/// }
///
/// let test = TestJob::new(Assignment::for_test("reverse".try_into()?, "abc"));
/// assert_eq!(reverse(test.context()).await?, b"cba");
/// assert_eq!(test.said(), [JobEvent::Data("working".into())]);
/// test.lose(LostReason::ConnectionLost);
/// assert!(reverse(test.context()).await.is_err());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct TestJob {
    assignment: Arc<Assignment>,
    script: Arc<Script>,
}

impl TestJob {
    /// A job that was just assigned to a worker.
    #[must_use]
    pub fn new(assignment: Assignment) -> Self {
        TestJob { assignment: Arc::new(assignment), script: Arc::default() }
    }

    /// The context to pass to the handler.
    #[must_use]
    pub fn context(&self) -> JobContext {
        let place = HandlerPlace::Test(Arc::clone(&self.script));
        JobContext { assignment: Arc::clone(&self.assignment), place }
    }

    /// The handler's reports to the submitters, in order.
    #[must_use]
    pub fn said(&self) -> Vec<JobEvent> {
        self.script.said()
    }

    /// Marks the job as lost for this reason.
    pub fn lose(&self, reason: LostReason) {
        self.script.lose(reason);
    }

    /// Tells the handler that its worker is stopping.
    pub fn stop(&self) {
        self.script.stopping.set();
    }
}
