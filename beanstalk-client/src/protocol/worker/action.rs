//! What a worker's slot has decided, for the face that runs its handlers.

use std::time::Instant;

use crate::{ErrorKind, Job, JobStats, LostReason, TubeName, WorkerEventKind};

/// Names a job that a slot holds: an id can come twice, while a handler still runs the job that it lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct JobKey(pub(super) u64);

/// A job for the handler.
#[derive(Debug)]
#[non_exhaustive]
pub struct Taken {
    /// Its name in what follows.
    pub key: JobKey,
    /// The job.
    pub job: Job,
    /// Its tube, where the worker takes jobs from one only.
    pub tube: Option<TubeName>,
    /// Its counters, if they were read.
    pub stats: Option<Box<JobStats>>,
    /// When the reservation ends, if the time to run is known.
    pub end: Option<Instant>,
}

/// What is to be done, in this order.
#[derive(Debug)]
#[non_exhaustive]
pub enum Action {
    /// Give this job to the handler, behind those that it has.
    Run(Taken),
    /// Show this to the handler of a job.
    Update(JobKey, Change),
    /// End this job's handler, if that can be done from outside.
    Abort(JobKey),
    /// Give back the jobs that no handler has begun with: none of them is to be run any more.
    HandBack,
    /// The connection has its watch list; the server has this id.
    Connected(String),
    /// Tell whoever listens.
    Tell(WorkerEventKind),
}

/// What is new about a reservation.
#[derive(Debug)]
#[non_exhaustive]
pub enum Change {
    /// It was prolonged, until then if the time to run is known.
    Touched(Option<Instant>),
    /// A touch was refused, though the job is still held. The next one is tried at the next third.
    TouchRefused(ErrorKind),
    /// The counters of the job are known, and with them the reservation's end.
    Known(Box<JobStats>, Option<Instant>),
    /// It is over. The handler may go on, but its outcome will not be sent.
    Lost(LostReason),
}
