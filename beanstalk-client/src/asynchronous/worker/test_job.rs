//! Jobs for tests of handlers.

use std::sync::Arc;

use queue_core::Signal;

use super::context::{Answerer, ContextInner, JobContext};
use crate::{
    Address, Job, JobStats, LostReason, TubeName,
    protocol::{HandlerJob, JobKey, ReservationChange},
    work::view::test_stats,
};

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

impl TestJob {
    /// A job of the tube `default`, reserved for the first time, with a time to run of one minute.
    #[must_use]
    pub fn new(job: Job) -> Self {
        let (stats, tube) = (test_stats(&job).map(Box::new), TubeName::default());
        let taken = HandlerJob { key: JobKey::default(), job, tube, stats, end: None };
        let server = Arc::new(Address::default());
        let test = TestJob(JobContext(ContextInner::new(
            taken,
            0,
            server,
            Answerer::Test,
            Signal::default().into(),
        )));
        test.0.confirm_touch();
        test.0.update(|view| view.touches = 0);
        test
    }

    /// The context to pass to the handler.
    #[must_use]
    pub fn context(&self) -> JobContext {
        self.0.clone()
    }

    /// Sets what [`stats`](JobContext::stats) and [`tube`](JobContext::tube) return. Use [`JobStats::parse`] for text
    /// in the server's format.
    pub fn set_stats(&self, stats: JobStats) {
        self.0.update(|view| {
            view.tube = stats.tube.clone();
            view.stats = Some(Box::new(stats));
        });
    }

    /// The number of times that the handler extended its reservation.
    #[must_use]
    pub fn touches(&self) -> u64 {
        self.0.touches()
    }

    /// Ends the reservation.
    pub fn lose(&self, reason: LostReason) {
        self.0.update(|view| view.apply(ReservationChange::Lost(reason)));
    }

    /// Tells the handler that its worker is stopping.
    pub fn stop(&self) {
        self.0.stop();
    }
}
