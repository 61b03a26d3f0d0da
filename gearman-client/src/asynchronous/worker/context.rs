//! The job context passed to handlers.

use std::{future::poll_fn, ops::Deref, sync::Arc};

use queue_core::Signal;

use crate::{
    LostReason, Result,
    asynchronous::lane::LaneDriver,
    protocol::{Assignment, Report, WorkerSession},
    work::script::Script,
};

/// The context passed to a handler: the job, and methods to report on it. Cloning is cheap.
#[derive(Clone)]
pub struct JobContext {
    pub(super) assignment: Arc<Assignment>,
    pub(super) place: HandlerPlace,
}

/// Where the handler runs.
#[derive(Clone)]
pub(super) enum HandlerPlace {
    LaneDriver(Arc<LaneDriver>),
    /// In a [test](super::TestJob).
    Test(Arc<Script>),
}

impl JobContext {
    /// Reports the job's progress to its submitters (`WORK_STATUS`).
    ///
    /// # Errors
    ///
    /// `JobLost`; `InvalidInput` when `denominator` is 0.
    ///
    /// # Cancel safety
    ///
    /// If it is dropped before it is ready, it has sent nothing.
    pub async fn status(&self, numerator: u64, denominator: u64) -> Result<()> {
        self.say(Report::Status(numerator, denominator)).await
    }

    /// Sends partial data to the submitters (`WORK_DATA`).
    ///
    /// # Errors
    ///
    /// `JobLost`.
    ///
    /// # Cancel safety
    ///
    /// If it is dropped before it is ready, it has sent nothing.
    pub async fn data(&self, data: impl AsRef<[u8]>) -> Result<()> {
        self.say(Report::Data(data.as_ref())).await
    }

    /// Sends the submitters a warning (`WORK_WARNING`).
    ///
    /// # Errors
    ///
    /// `JobLost`.
    ///
    /// # Cancel safety
    ///
    /// If it is dropped before it is ready, it has sent nothing.
    pub async fn warning(&self, data: impl AsRef<[u8]>) -> Result<()> {
        self.say(Report::Warning(data.as_ref())).await
    }

    /// Whether the job now belongs to other workers: the connection that delivered it is gone, or the
    /// [grace](crate::WorkerOptions::grace) of a stop has passed, so that its outcome will not be sent; or its announced
    /// timeout has expired.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        match &self.place {
            HandlerPlace::LaneDriver(lane) => lane.why_lost(&self.assignment.handle).is_some(),
            HandlerPlace::Test(script) => script.lost_reason().is_some(),
        }
    }

    /// Waits until the connection that delivered the job is gone, the [grace](crate::WorkerOptions::grace) of a stop has
    /// passed, or the job's announced timeout expires, and returns which. Use it in `select!` to abandon the work.
    ///
    /// # Cancel safety
    ///
    /// Dropping it does no harm.
    pub async fn lost(&self) -> LostReason {
        match &self.place {
            HandlerPlace::LaneDriver(lane) => lane.lost(&self.assignment.handle).await,
            HandlerPlace::Test(script) => script.lost().await,
        }
    }

    /// Whether the worker was told to stop, or has ended. The job may still finish, within the
    /// [grace](crate::WorkerOptions::grace).
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.stop_signal().is_set()
    }

    /// Waits until the worker is told to stop, or ends. A long-running handler can then finish early, within the
    /// [grace](crate::WorkerOptions::grace).
    ///
    /// # Cancel safety
    ///
    /// Dropping it does no harm.
    pub async fn stopping(&self) {
        self.stop_signal().wait().await;
    }

    fn stop_signal(&self) -> &Signal {
        match &self.place {
            HandlerPlace::LaneDriver(lane) => &lane.dispatch.stopping,
            HandlerPlace::Test(script) => &script.stopping,
        }
    }

    async fn say(&self, report: Report<'_>) -> Result<()> {
        let job = &self.assignment.handle;
        match &self.place {
            HandlerPlace::LaneDriver(lane) => {
                let say = |session: &mut WorkerSession| session.report(job, report);
                poll_fn(|cx| lane.poll_with_room(cx, say)).await
            }
            HandlerPlace::Test(script) => script.say(job, report),
        }
    }
}

impl Deref for JobContext {
    type Target = Assignment;

    fn deref(&self) -> &Assignment {
        &self.assignment
    }
}

impl std::fmt::Debug for JobContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("JobContext").field(&self.assignment).finish()
    }
}
