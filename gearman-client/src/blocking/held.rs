//! Jobs held by a blocking worker: those of handlers, and those taken manually.

use std::{ops::Deref, sync::Arc, time::Duration};

use queue_core::{Signal, lock, sync::Mutex};

use super::lane::{LanePump, SharedLane};
use crate::{
    JobHandle, LostReason, Result,
    protocol::{Assignment, Report},
    work::script::Script,
};

/// Jobs dropped by their holders, with their lanes. They have to be failed.
pub(super) type DroppedJobs = Arc<Mutex<Vec<(usize, JobHandle)>>>;

/// The context passed to a handler: the job, and methods to report on it.
pub struct JobContext<'a> {
    pub(super) assignment: &'a Assignment,
    pub(super) place: HandlerPlace<'a>,
    pub(super) stopping: &'a Signal,
}

/// Where a handler runs.
pub(super) enum HandlerPlace<'a> {
    /// In the thread that moves the bytes of the connection.
    Here(&'a mut LanePump),
    /// In a separate thread.
    Aside(&'a SharedLane),
    /// In a [test](super::TestJob).
    Test(&'a Script),
}

impl JobContext<'_> {
    /// Reports the job's progress to its submitters (`WORK_STATUS`).
    ///
    /// # Errors
    ///
    /// `JobLost`; `InvalidInput` when `denominator` is 0; a connection failure.
    pub fn status(&mut self, numerator: u64, denominator: u64) -> Result<()> {
        self.say(Report::Status(numerator, denominator))
    }

    /// Sends partial data to the submitters (`WORK_DATA`).
    ///
    /// # Errors
    ///
    /// `JobLost`; a connection failure.
    pub fn data(&mut self, data: impl AsRef<[u8]>) -> Result<()> {
        self.say(Report::Data(data.as_ref()))
    }

    /// Sends the submitters a warning (`WORK_WARNING`).
    ///
    /// # Errors
    ///
    /// `JobLost`; a connection failure.
    pub fn warning(&mut self, data: impl AsRef<[u8]>) -> Result<()> {
        self.say(Report::Warning(data.as_ref()))
    }

    fn say(&mut self, report: Report<'_>) -> Result<()> {
        match &mut self.place {
            HandlerPlace::Here(lane) => lane.report(&self.assignment.handle, report),
            HandlerPlace::Aside(shared_lane) => shared_lane.report(&self.assignment.handle, report),
            HandlerPlace::Test(script) => script.say(&self.assignment.handle, report),
        }
    }

    /// Whether the job now belongs to other workers, as far as can be seen without waiting: the connection that
    /// delivered it is gone, or the [grace](crate::WorkerOptions::grace) of a stop has passed, so that its outcome will
    /// not be sent; or its announced timeout has expired.
    #[must_use]
    pub fn is_lost(&mut self) -> bool {
        match &mut self.place {
            HandlerPlace::Here(lane) => lane.is_lost(&self.assignment.handle),
            HandlerPlace::Aside(shared_lane) => {
                shared_lane.lost_reason(&self.assignment.handle).is_some()
            }
            HandlerPlace::Test(script) => script.lost_reason().is_some(),
        }
    }

    /// Waits at most `timeout` until the connection that delivered the job is gone, the
    /// [grace](crate::WorkerOptions::grace) of a stop has passed, or the job's announced timeout expires, and returns
    /// which; `None` if the worker still holds the job.
    #[must_use]
    pub fn wait_lost(&mut self, timeout: Duration) -> Option<LostReason> {
        let job = &self.assignment.handle;
        match &mut self.place {
            HandlerPlace::Here(lane) => lane.wait_lost(job, timeout),
            HandlerPlace::Aside(shared_lane) => shared_lane.wait_lost(job, timeout),
            HandlerPlace::Test(script) => script.wait_lost(timeout),
        }
    }

    /// Whether the worker was told to stop.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.stopping.is_set()
    }

    /// Waits until the worker is told to stop, at most for `timeout`; returns whether it was. A long-running handler
    /// can then finish early.
    #[must_use]
    pub fn wait_stopping(&self, timeout: Duration) -> bool {
        self.stopping.wait_timeout(timeout)
    }
}

impl Deref for JobContext<'_> {
    type Target = Assignment;

    fn deref(&self) -> &Assignment {
        self.assignment
    }
}

/// A job that was taken manually. Dropping it without ending it fails the job when the worker is next used.
#[must_use = "the job has to be completed or failed"]
#[derive(Debug)]
pub struct GrabbedJob {
    pub(super) assignment: Assignment,
    pub(super) lane: usize,
    /// `None` once it has ended.
    pub(super) dropped: Option<DroppedJobs>,
}

impl Deref for GrabbedJob {
    type Target = Assignment;

    fn deref(&self) -> &Assignment {
        &self.assignment
    }
}

impl Drop for GrabbedJob {
    fn drop(&mut self) {
        if let Some(dropped) = self.dropped.take() {
            let mut dropped = lock(&dropped);
            dropped.push((self.lane, self.assignment.handle.clone()));
        }
    }
}
