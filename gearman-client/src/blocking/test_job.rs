//! A job for the test of a handler.

use super::held::{JobContext, Place};
use crate::{Assignment, JobEvent, LostReason, work::script::Script};

/// A job for the test of a handler, without a worker and without a server.
///
/// It plays the worker's part: what the handler reports is kept, and the test says when the job is lost or the worker stops.
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
    /// A job that a worker has just been given.
    #[must_use]
    pub fn new(assignment: Assignment) -> Self {
        TestJob { assignment, script: Script::default() }
    }

    /// What the handler is given.
    #[must_use]
    pub fn context(&self) -> JobContext<'_> {
        let (place, stopping) = (Place::Test(&self.script), &self.script.stopping);
        JobContext { assignment: &self.assignment, place, stopping }
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
