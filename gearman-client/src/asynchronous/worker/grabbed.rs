//! Jobs that are taken manually.

use std::{
    future::poll_fn,
    ops::Deref,
    sync::Arc,
    task::{Poll, ready},
};

use queue_core::now;

use super::context::{HandlerPlace, JobContext};
use crate::{
    JobHandle, Result,
    asynchronous::lane::LaneDriver,
    protocol::{Assignment, JobEnd, WorkerSession},
    work::events::EventReporter,
};

/// A job that was taken manually. Dropping it without ending it fails the job.
#[must_use = "the job has to be completed or failed"]
pub struct GrabbedJob {
    context: JobContext,
    unended: UnendedJob,
}

/// A job without its workload. Dropping it without ending it fails the job.
struct UnendedJob {
    handle: JobHandle,
    lane: Arc<LaneDriver>,
    has_ended: bool,
}

impl GrabbedJob {
    pub(crate) fn new(assignment: Assignment, lane: Arc<LaneDriver>) -> Self {
        let place = HandlerPlace::LaneDriver(Arc::clone(&lane));
        let unended = UnendedJob { handle: assignment.handle.clone(), lane, has_ended: false };
        GrabbedJob { context: JobContext { assignment: Arc::new(assignment), place }, unended }
    }

    pub(crate) fn context(&self) -> JobContext {
        self.context.clone()
    }

    /// A handler starts with it.
    pub(crate) fn begin(&self) {
        self.unended.lane.look(|role| role.session.begin(&self.unended.handle));
    }

    /// A ledger knows how often it was run.
    pub(crate) fn attempted(&self, times: u32) {
        self.unended.lane.look(|role| role.session.attempted(&self.unended.handle, times));
    }

    pub(crate) fn reporter(&self) -> &EventReporter {
        &self.unended.lane.reporter
    }

    pub(super) fn is_held(&self) -> bool {
        self.unended.lane.look(|role| role.holds(&self.unended.handle))
    }

    /// Gives the job back to the server, which runs it again, here or elsewhere, once this connection has closed: see
    /// [`Failure::give_back`](crate::Failure::give_back). A lost job is the server's already.
    pub fn give_back(mut self) {
        self.unended.has_ended = true;
        self.unended.lane.end_job(&self.unended.handle, JobEnd::GiveBack);
    }

    /// Leaves the job to the server: its worker is stopping, and has not started it.
    pub(crate) fn leave(mut self) {
        self.unended.has_ended = true;
        self.unended.lane.change(|role| role.session.leave(&self.unended.handle));
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

    pub(crate) fn end(self, end: JobEnd<'_>) -> impl Future<Output = Result<()>> {
        let GrabbedJob { context, mut unended } = self;
        // The memory of a large workload may serve the result, where new memory would cost more than copying it.
        drop(context);
        poll_fn(move |cx| {
            let UnendedJob { handle, lane, .. } = &unended;
            let finish = |session: &mut WorkerSession| session.finish(handle, end, now());
            let outcome = ready!(lane.poll_with_room(cx, finish));
            unended.has_ended = true;
            Poll::Ready(outcome)
        })
    }
}

impl Deref for GrabbedJob {
    type Target = JobContext;

    fn deref(&self) -> &JobContext {
        &self.context
    }
}

impl Drop for UnendedJob {
    fn drop(&mut self) {
        if !self.has_ended {
            self.lane.end_job(&self.handle, JobEnd::Fail);
        }
    }
}

impl std::fmt::Debug for GrabbedJob {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("GrabbedJob").field(&self.context.assignment).finish()
    }
}
