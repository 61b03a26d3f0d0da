//! Jobs for tests of handlers.

use super::held::{HandlerPlace, JobContext};
use crate::{Assignment, JobEvent, LostReason, work::script::Script};

/// A job for testing a handler without a worker or a server.
///
/// It stands in for the worker: it records what the handler reports, and the test decides when the job is lost or the
/// worker stops.
///
/// ```
/// use gearman_client::{Assignment, Error, JobEvent, LostReason, blocking::{JobContext, TestJob}};
///
/// fn reverse(job: &mut JobContext<'_>) -> Result<Vec<u8>, Error> {
///     job.data("working")?;
///     Ok(job.workload.iter().rev().copied().collect())
/// }
///
/// let test = TestJob::new(Assignment::for_test("reverse".try_into()?, "abc"));
/// assert_eq!(reverse(&mut test.context())?, b"cba");
/// assert_eq!(test.said(), [JobEvent::Data("working".into())]);
/// test.lose(LostReason::ConnectionLost);
/// assert!(reverse(&mut test.context()).is_err());
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug)]
pub struct TestJob {
    assignment: Assignment,
    script: Script,
}

impl TestJob {
    /// A job that was just assigned to a worker.
    #[must_use]
    pub fn new(assignment: Assignment) -> Self {
        TestJob { assignment, script: Script::default() }
    }

    /// The context to pass to the handler.
    #[must_use]
    pub fn context(&self) -> JobContext<'_> {
        let (place, stopping) = (HandlerPlace::Test(&self.script), &self.script.stopping);
        JobContext { assignment: &self.assignment, place, stopping }
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
