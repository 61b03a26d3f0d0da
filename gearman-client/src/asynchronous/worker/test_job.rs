//! A job for the test of a handler.

use std::sync::Arc;

use super::context::{JobContext, Place};
use crate::{Assignment, JobEvent, LostReason, work::script::Script};

/// A job for the test of a handler, without a worker and without a server.
///
/// It plays the worker's part: what the handler reports is kept, and the test says when the job is lost or the worker stops.
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
    /// A job that a worker has just been given.
    #[must_use]
    pub fn new(assignment: Assignment) -> Self {
        TestJob { assignment: Arc::new(assignment), script: Arc::default() }
    }

    /// What the handler is given.
    #[must_use]
    pub fn context(&self) -> JobContext {
        let place = Place::Test(Arc::clone(&self.script));
        JobContext { assignment: Arc::clone(&self.assignment), place }
    }

    /// What the handler has reported to the submitters, in order.
    #[must_use]
    pub fn said(&self) -> Vec<JobEvent> {
        self.script.said()
    }

    /// Has the job be lost.
    pub fn lose(&self, reason: LostReason) {
        self.script.lose(reason);
    }

    /// Tells the handler that its worker is to stop.
    pub fn stop(&self) {
        self.script.stopping.set();
    }
}
