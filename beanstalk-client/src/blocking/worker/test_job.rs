//! Jobs for tests of handlers.

use std::sync::Arc;

use queue_core::lock;

use super::context::JobContext;
use crate::{Job, JobStats, LostReason, job_context::test_job};

/// A job for testing a handler without a worker or a server.
///
/// It stands in for the worker: touches are confirmed and counted, and the test decides when the reservation is lost or
/// the worker stops.
///
/// ```
/// use beanstalk_client::{Error, Job, LostReason, Outcome, blocking::{JobContext, TestJob}};
///
/// fn send(job: &JobContext) -> Result<Outcome, Error> {
///     job.touch()?;
///     Ok(if job.body.is_empty() { Outcome::bury() } else { Outcome::Delete })
/// }
///
/// let test = TestJob::new(Job::for_test(7, "ann"));
/// assert_eq!(send(&test.context())?, Outcome::Delete);
/// assert_eq!(test.touches(), 1);
/// test.lose(LostReason::ConnectionLost);
/// assert!(send(&test.context()).is_err());
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug)]
pub struct TestJob(JobContext);

test_job!();
