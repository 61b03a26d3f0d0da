//! The slot's decisions, for the face that runs its handlers.

use std::time::Instant;

use crate::{ErrorKind, Job, JobStats, LostReason, TubeName, WorkerEventKind};

/// Identifies a job that a slot holds. A job id is not enough: the same job can come again while a handler still runs
/// its lost predecessor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct JobKey(pub(super) u64);

/// A job for the handler.
#[derive(Debug)]
#[non_exhaustive]
pub struct HandlerJob {
    /// Its key in later calls.
    pub key: JobKey,
    /// The job.
    pub job: Job,
    /// Its tube.
    pub tube: TubeName,
    /// Its counters, if they were read.
    pub stats: Option<Box<JobStats>>,
    /// When the reservation ends, if the time to run is known.
    pub end: Option<Instant>,
}

/// The tasks of the face, in this order.
#[derive(Debug)]
#[non_exhaustive]
pub enum Action {
    /// Give this job to the handler, after those that it already has.
    Run(HandlerJob),
    /// Show this change to the handler of a job.
    Update(JobKey, ReservationChange),
    /// Abort this job's handler, if the face can do that.
    Abort(JobKey),
    /// Give back the jobs whose handlers have not started: none of them is to be run.
    HandBack,
    /// The connection has its watch list. Carries the id of its server.
    Connected(String),
    /// Report this event.
    Tell(WorkerEventKind),
}

/// A change of a reservation.
#[derive(Debug)]
#[non_exhaustive]
pub enum ReservationChange {
    /// It was extended; until then, if the time to run is known.
    Touched(Option<Instant>),
    /// A touch was refused although the job is still held. The next one is due after another third of the time to run.
    TouchRefused(ErrorKind),
    /// The job's counters were read, and with them the end of the reservation.
    Known(Box<JobStats>, Option<Instant>),
    /// It has ended. The handler may continue, but its outcome will not be sent.
    Lost(LostReason),
}
