//! Jobs that a blocking worker holds: as a handler sees one, and taken by hand.

use std::{ops::Deref, sync::Arc, time::Duration};

use queue_core::{Signal, lock, sync::Mutex};

use super::lane::{Lane, Post};
use crate::{
    JobHandle, LostReason, Result,
    protocol::{Assignment, Report},
    work::script::Script,
};

/// Jobs whose holder dropped them, to be failed, each with its lane.
pub(super) type Dropped = Arc<Mutex<Vec<(usize, JobHandle)>>>;

/// What a handler is given: the job, and ways to report on it.
pub struct JobContext<'a> {
    pub(super) assignment: &'a Assignment,
    pub(super) place: Place<'a>,
    pub(super) stopping: &'a Signal,
}

/// Where a handler runs.
pub(super) enum Place<'a> {
    /// In the thread that moves the bytes of the connection.
    Here(&'a mut Lane),
    /// In a thread of its own.
    Aside(&'a Post),
    /// In the [test](super::TestJob) of a handler.
    Test(&'a Script),
}

impl JobContext<'_> {
    /// Tells the submitters how far the job is (`WORK_STATUS`).
    ///
    /// # Errors
    ///
    /// `JobLost`; `InvalidInput` when `denominator` is 0; a failure of the connection.
    pub fn status(&mut self, numerator: u64, denominator: u64) -> Result<()> {
        self.say(Report::Status(numerator, denominator))
    }

    /// Sends the submitters a piece of the result (`WORK_DATA`).
    ///
    /// # Errors
    ///
    /// `JobLost`; a failure of the connection.
    pub fn data(&mut self, data: impl AsRef<[u8]>) -> Result<()> {
        self.say(Report::Data(data.as_ref()))
    }

    /// Sends the submitters a warning (`WORK_WARNING`).
    ///
    /// # Errors
    ///
    /// `JobLost`; a failure of the connection.
    pub fn warning(&mut self, data: impl AsRef<[u8]>) -> Result<()> {
        self.say(Report::Warning(data.as_ref()))
    }

    fn say(&mut self, report: Report<'_>) -> Result<()> {
        match &mut self.place {
            Place::Here(lane) => lane.report(&self.assignment.handle, report),
            Place::Aside(post) => post.report(&self.assignment.handle, report),
            Place::Test(script) => script.say(&self.assignment.handle, report),
        }
    }

    /// Whether the connection that delivered the job is gone, as far as can be seen without waiting, so that its
    /// outcome will not be sent, or the job's announced timeout has expired: the job is for other workers to run.
    #[must_use]
    pub fn is_lost(&mut self) -> bool {
        match &mut self.place {
            Place::Here(lane) => lane.is_lost(&self.assignment.handle),
            Place::Aside(post) => post.lost_reason(&self.assignment.handle).is_some(),
            Place::Test(script) => script.lost_reason().is_some(),
        }
    }

    /// Waits until the connection that delivered the job is gone, or its announced timeout expires, at most for
    /// `timeout`, and returns which; `None` if the job is still this worker's.
    #[must_use]
    pub fn wait_lost(&mut self, timeout: Duration) -> Option<LostReason> {
        let job = &self.assignment.handle;
        match &mut self.place {
            Place::Here(lane) => lane.wait_lost(job, timeout),
            Place::Aside(post) => post.wait_lost(job, timeout),
            Place::Test(script) => script.wait_lost(timeout),
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

/// A job that was taken by hand. Dropped without an end, it is failed when the worker is next used.
#[must_use = "the job has to be completed or failed"]
#[derive(Debug)]
pub struct GrabbedJob {
    pub(super) assignment: Assignment,
    pub(super) lane: usize,
    /// `None` once it has ended.
    pub(super) dropped: Option<Dropped>,
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
