//! Jobs that are taken manually.

use std::{future::poll_fn, ops::Deref, sync::Arc};

use super::context::{HandlerPlace, JobContext};
use crate::{
    Result,
    asynchronous::lane::LaneDriver,
    protocol::{Assignment, JobEnd},
    work::events::EventReporter,
};

/// A job that was taken manually. Dropping it without ending it fails the job.
#[must_use = "the job has to be completed or failed"]
pub struct GrabbedJob {
    context: JobContext,
    lane: Arc<LaneDriver>,
    has_ended: bool,
}

impl GrabbedJob {
    pub(crate) fn new(assignment: Assignment, lane: Arc<LaneDriver>) -> Self {
        let place = HandlerPlace::LaneDriver(Arc::clone(&lane));
        let context = JobContext { assignment: Arc::new(assignment), place };
        GrabbedJob { context, lane, has_ended: false }
    }

    pub(crate) fn context(&self) -> JobContext {
        self.context.clone()
    }

    /// A handler starts with it.
    pub(crate) fn begin(&self) {
        self.lane.begin(&self.context.assignment.handle);
    }

    /// A ledger knows how often it was run.
    pub(crate) fn attempted(&self, times: u32) {
        self.lane.attempted(&self.context.assignment.handle, times);
    }

    pub(crate) fn reporter(&self) -> &EventReporter {
        self.lane.reporter()
    }

    pub(super) fn is_held(&self) -> bool {
        self.lane.holds(&self.context.assignment.handle)
    }

    /// Gives the job back to the server, which runs it again, here or elsewhere, once this connection has closed: see
    /// [`Failure::give_back`](crate::Failure::give_back). A lost job is the server's already.
    pub fn give_back(mut self) {
        self.has_ended = true;
        self.lane.end_job(&self.context.assignment.handle, JobEnd::GiveBack);
    }

    /// Leaves the job to the server: its worker is stopping, and has not started it.
    pub(crate) fn leave(mut self) {
        self.has_ended = true;
        self.lane.leave_job(&self.context.assignment.handle);
    }

    /// Ends the job with its result (`WORK_COMPLETE`), and requests the next one in the same write.
    ///
    /// The server does not acknowledge results: `Ok` means that the result is on its way. The worker's report shows its
    /// fate at the end.
    ///
    /// # Errors
    ///
    /// `JobLost` when the connection that held the job is gone.
    ///
    /// # Cancel safety
    ///
    /// If it is dropped before it is ready, the job fails.
    pub async fn complete(self, result: impl AsRef<[u8]>) -> Result<()> {
        self.end(JobEnd::Complete(result.as_ref())).await
    }

    /// Ends the job as failed (`WORK_FAIL`).
    ///
    /// # Errors
    ///
    /// As [`complete`](Self::complete).
    ///
    /// # Cancel safety
    ///
    /// If it is dropped before it is ready, the job fails.
    pub async fn fail(self) -> Result<()> {
        self.end(JobEnd::Fail).await
    }

    /// Ends the job as failed, with a description of the error (`WORK_EXCEPTION`).
    ///
    /// # Errors
    ///
    /// As [`complete`](Self::complete).
    ///
    /// # Cancel safety
    ///
    /// If it is dropped before it is ready, the job fails.
    pub async fn exception(self, what: impl AsRef<[u8]>) -> Result<()> {
        self.end(JobEnd::Exception(what.as_ref())).await
    }

    pub(crate) async fn end(mut self, end: JobEnd<'_>) -> Result<()> {
        let assignment = &self.context.assignment;
        let outcome = poll_fn(|cx| self.lane.poll_finish(cx, &assignment.handle, end)).await;
        self.has_ended = true;
        outcome
    }
}

impl Deref for GrabbedJob {
    type Target = JobContext;

    fn deref(&self) -> &JobContext {
        &self.context
    }
}

impl Drop for GrabbedJob {
    fn drop(&mut self) {
        if !self.has_ended {
            self.lane.end_job(&self.context.assignment.handle, JobEnd::Fail);
        }
    }
}

impl std::fmt::Debug for GrabbedJob {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("GrabbedJob").field(&self.context.assignment).finish()
    }
}
