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
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use beanstalk_client::{Job, JobContext, LostReason, Outcome, TestJob};
///
/// async fn send(job: JobContext) -> Result<Outcome, beanstalk_client::Error> {
///     job.touch().await?;
///     Ok(if job.body.is_empty() { Outcome::bury() } else { Outcome::Delete })
/// }
///
/// let test = TestJob::new(Job::for_test(7, "ann"));
/// assert_eq!(send(test.context()).await?, Outcome::Delete);
/// assert_eq!(test.touches(), 1);
/// test.lose(LostReason::ConnectionLost);
/// assert!(send(test.context()).await.is_err());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct TestJob(JobContext);

test_job!();
