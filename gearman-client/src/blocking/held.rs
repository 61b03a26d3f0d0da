//! Jobs that a blocking worker holds: as a handler sees one, and taken by hand.

use std::{
    ops::Deref,
    sync::{Arc, Mutex, PoisonError},
};

use super::lane::Lane;
use crate::{
    JobHandle, Result,
    protocol::{Assignment, Report},
};

/// Jobs whose holder dropped them, to be failed, each with its lane.
pub(super) type Dropped = Arc<Mutex<Vec<(usize, JobHandle)>>>;

/// What a handler is given: the job, and ways to report on it.
pub struct JobContext<'a> {
    pub(super) assignment: &'a Assignment,
    pub(super) lane: &'a mut Lane,
}

impl JobContext<'_> {
    /// Tells the submitters how far the job is (`WORK_STATUS`).
    ///
    /// # Errors
    ///
    /// `JobLost`; `InvalidInput` when `denominator` is 0; a failure of the connection.
    pub fn status(&mut self, numerator: u64, denominator: u64) -> Result<()> {
        self.lane.report(&self.assignment.handle, Report::Status(numerator, denominator))
    }

    /// Sends the submitters a piece of the result (`WORK_DATA`).
    ///
    /// # Errors
    ///
    /// `JobLost`; a failure of the connection.
    pub fn data(&mut self, data: impl AsRef<[u8]>) -> Result<()> {
        self.lane.report(&self.assignment.handle, Report::Data(data.as_ref()))
    }

    /// Sends the submitters a warning (`WORK_WARNING`).
    ///
    /// # Errors
    ///
    /// `JobLost`; a failure of the connection.
    pub fn warning(&mut self, data: impl AsRef<[u8]>) -> Result<()> {
        self.lane.report(&self.assignment.handle, Report::Warning(data.as_ref()))
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
            let mut dropped = dropped.lock().unwrap_or_else(PoisonError::into_inner);
            dropped.push((self.lane, self.assignment.handle.clone()));
        }
    }
}
