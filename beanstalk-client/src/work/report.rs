//! Reports of a worker: counters, states, events.

use std::{fmt, time::Duration};

use queue_core::{DurationText, counted};

use crate::{Address, Error, JobId, Poison};

queue_core::worker_report! {
    /// Outcomes of a worker's jobs.
    pub struct WorkerReport {
        /// Deleted.
        pub finished: u64,
        /// Released by their handler, or because they failed.
        pub released: u64,
        /// Buried by their handler, because they failed too often, or without being run.
        pub buried: u64,
        /// Put into the [dead-letter tube](crate::WorkerOptions::dead_letter) instead.
        pub dead_lettered: u64,
        /// Given back by a stop without an outcome, with their priority unchanged.
        pub abandoned: u64,
        /// The reservation ended before there was an outcome: another worker runs the job again.
        pub lost: u64,
        /// The outcome was sent, but the connection was lost before the acknowledgement.
        pub unknown: u64,
        /// Slots that have [given up](WorkerEventKind::GivenUp) their server: it may have more jobs.
        pub given_up: u64,
        /// Servers to which no connection was ever made, once the worker has ended with them.
        pub never_connected: u64,
    }
}

impl WorkerReport {
    /// The number of jobs that have ended.
    #[must_use]
    pub fn total(&self) -> u64 {
        let ours = self.finished + self.released + self.buried + self.dead_lettered;
        ours + self.abandoned + self.lost + self.unknown
    }

    pub(crate) fn count(&mut self, fate: JobFate) {
        let count = match fate {
            JobFate::Deleted => &mut self.finished,
            JobFate::Released(_) => &mut self.released,
            JobFate::Buried => &mut self.buried,
            JobFate::DeadLettered => &mut self.dead_lettered,
            JobFate::Abandoned => &mut self.abandoned,
            JobFate::Lost(_) => &mut self.lost,
            JobFate::Unknown => &mut self.unknown,
        };
        *count += 1;
    }
}

impl fmt::Display for WorkerReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let WorkerReport { finished, released, buried, abandoned, lost, unknown, .. } = self;
        write!(f, "{finished} finished, {released} released, {buried} buried, ")?;
        if self.dead_lettered > 0 {
            write!(f, "{} dead-lettered, ", self.dead_lettered)?;
        }
        write!(f, "{abandoned} abandoned, {lost} lost, {unknown} unknown")?;
        if self.given_up > 0 {
            write!(f, ", {} given up", counted(self.given_up, "slot"))?;
        }
        match self.never_connected {
            0 => Ok(()),
            servers => write!(f, ", {} never connected", counted(servers, "server")),
        }
    }
}

/// How a job ended for this worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case")
)]
#[non_exhaustive]
pub enum JobFate {
    /// The server has deleted it.
    Deleted,
    /// The server has it back, ready or delayed by this.
    Released(#[cfg_attr(feature = "serde", serde(with = "queue_core::seconds"))] Duration),
    /// The server has buried it.
    Buried,
    /// It is in the [dead-letter tube](crate::WorkerOptions::dead_letter).
    DeadLettered,
    /// Given back by a stop, without an outcome.
    Abandoned,
    /// The reservation ended before there was an outcome.
    Lost(LostReason),
    /// The outcome was sent, but not acknowledged.
    Unknown,
}

impl fmt::Display for JobFate {
    /// The [word](Self::word).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

impl JobFate {
    /// One word: `deleted`, `released`, `buried`, `dead-lettered`, `abandoned`, `lost` or `unknown`.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            JobFate::Deleted => "deleted",
            JobFate::Released(_) => "released",
            JobFate::Buried => "buried",
            JobFate::DeadLettered => "dead-lettered",
            JobFate::Abandoned => "abandoned",
            JobFate::Lost(_) => "lost",
            JobFate::Unknown => "unknown",
        }
    }
}

/// Why a reservation ended before its job did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case")
)]
#[non_exhaustive]
pub enum LostReason {
    /// Its time to run expired.
    TimeToRun,
    /// The server said `NOT_FOUND`: the job went to another worker, or was deleted.
    NotFound,
    /// The server refused twice to extend it.
    Refused,
    /// The connection that held it is gone.
    ConnectionLost,
    /// The worker was stopped, and its grace has passed.
    Stopped,
}

impl fmt::Display for LostReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LostReason::TimeToRun => "its time to run expired",
            LostReason::NotFound => "the server has deleted it or given it to others",
            LostReason::Refused => "the server refused to prolong the reservation",
            LostReason::ConnectionLost => "the connection was lost",
            LostReason::Stopped => "the worker was stopped",
        })
    }
}

/// An event of a worker. With the feature `serde` it can only be serialized, because it holds errors of this process.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct WorkerEvent {
    /// The server concerned.
    pub server: Address,
    /// The number of the slot, from 0.
    pub slot: usize,
    /// What happened.
    pub what: WorkerEventKind,
}

impl fmt::Display for WorkerEvent {
    /// Formats the server, the slot and the event on one line. It quotes the message of a handler's error.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let WorkerEvent { server, slot, what } = self;
        write!(f, "{server}, slot {slot}: {what}")
    }
}

/// What happened.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum WorkerEventKind {
    /// A connection was made, and has its watch list.
    Connected,
    /// No connection could be made, or it was lost; or no thread could be started for the slot. The slot retries,
    /// unless the worker stops. Each kind of error is reported once until a connection succeeds.
    Disconnected(Error),
    /// The slot has ended because its server could not be reached; only
    /// [until there are no jobs](crate::WorkerOptions::until_empty).
    GivenUp,
    /// A different server is at this address: its job ids are its own, and start again at 1.
    ServerReplaced,
    /// The server refused an essential request, and the slot requests no job until the pause has passed. Pauses grow
    /// like reconnect delays until a request succeeds; each is reported once. A refusal that ends the connection is
    /// reported as [`Disconnected`](Self::Disconnected) instead.
    Refused {
        /// The command.
        command: &'static str,
        /// The word of the reply, such as `NOT_FOUND`. `TIMED_OUT` counts as a refusal if it arrives far too early.
        reply: &'static str,
        /// The number of consecutive pauses without a success, including this one.
        in_a_row: u32,
        /// The length of the pause.
        #[cfg_attr(feature = "serde", serde(with = "queue_core::seconds"))]
        pause: Duration,
    },
    /// A job's time to run is 3 s or less: a slow moment is enough to lose it, even with the heartbeat. Reported once
    /// for each connection.
    ShortTimeToRun {
        /// The job.
        job: JobId,
        /// Its time to run.
        #[cfg_attr(feature = "serde", serde(with = "queue_core::seconds"))]
        ttr: Duration,
    },
    /// The heartbeat of a job came late by a third of its time to run or more, perhaps too late: a handler blocks the
    /// thread that the runtime needs, or the process or the machine stood still. A handler that blocks belongs in
    /// `Worker::register_blocking`, or in tokio's `block_in_place`.
    LateHeartbeat {
        /// The job.
        job: JobId,
        /// How late.
        #[cfg_attr(feature = "serde", serde(with = "queue_core::seconds"))]
        late: Duration,
    },
    /// A job was given to the handler.
    Started(JobId),
    /// A handler failed with this message, panicked, or gave a [reason](crate::Outcome::because) for its decision.
    Failed {
        /// The job.
        job: JobId,
        /// The message of the error or the reason.
        error: String,
    },
    /// A job is buried, or put into the dead-letter tube, without being run.
    Poisoned {
        /// The job.
        job: JobId,
        /// Why.
        why: Poison,
    },
    /// A job was moved to the [dead-letter tube](crate::WorkerOptions::dead_letter), which has its unmodified body.
    /// [`Settled`](Self::Settled) follows.
    DeadLettered {
        /// The job.
        job: JobId,
        /// Why: the message of the handler's error, panic or decision, at most 4 KiB of it, or why it was not run.
        reason: String,
        /// How often it was reserved, without the deferrals known to this worker.
        attempts: u64,
    },
    /// A job has ended.
    Settled {
        /// The job.
        job: JobId,
        /// How it ended.
        fate: JobFate,
    },
}

impl fmt::Display for WorkerEventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WorkerEventKind::Connected => f.write_str("connected"),
            WorkerEventKind::Disconnected(error) => {
                write!(f, "disconnected: {}", error.to_string().escape_debug())
            }
            WorkerEventKind::GivenUp => f.write_str("given up: the server cannot be reached"),
            WorkerEventKind::ServerReplaced => f.write_str("another server is at this address"),
            WorkerEventKind::Refused { command, reply, in_a_row, pause } => {
                let pause = DurationText::rounded(*pause);
                write!(f, "{command} was answered {reply} ({in_a_row} in a row), waiting {pause}")
            }
            WorkerEventKind::ShortTimeToRun { job, ttr } => {
                write!(f, "job {job} has a time to run of only {}", DurationText(*ttr))
            }
            WorkerEventKind::LateHeartbeat { job, late } => {
                write!(f, "the heartbeat of job {job} was {} late", DurationText::rounded(*late))
            }
            WorkerEventKind::Started(job) => write!(f, "job {job} started"),
            WorkerEventKind::Failed { job, error } => {
                write!(f, "job {job} failed: {}", error.escape_debug())
            }
            WorkerEventKind::Poisoned { job, why } => {
                write!(f, "job {job} is not run: {why}")
            }
            WorkerEventKind::DeadLettered { job, reason, attempts } => {
                let (times, reason) = (counted(*attempts, "attempt"), reason.escape_debug());
                write!(f, "job {job} went to the dead-letter tube after {times}: {reason}")
            }
            WorkerEventKind::Settled { job, fate } => match fate {
                JobFate::Lost(reason) => write!(f, "job {job} {fate}: {reason}"),
                fate => write!(f, "job {job} {fate}"),
            },
        }
    }
}

/// The state of a slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case")
)]
#[non_exhaustive]
pub enum SlotState {
    /// Connecting.
    #[default]
    Connecting,
    /// Waiting before it connects again.
    BackingOff,
    /// Waiting for a job.
    Waiting,
    /// The number of jobs that it holds.
    Busy(usize),
    /// Ended.
    Ended,
}

impl fmt::Display for SlotState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            SlotState::Connecting => "connecting",
            SlotState::BackingOff => "backing off",
            SlotState::Waiting => "waiting",
            SlotState::Busy(held) => return write!(f, "busy with {held}"),
            SlotState::Ended => "ended",
        })
    }
}

/// A slot and its state.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct SlotStatus {
    /// The server it takes jobs from.
    pub server: Address,
    /// Its state.
    pub state: SlotState,
    /// Whether it never had a connection.
    pub never_connected: bool,
}

impl fmt::Display for SlotStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.server, self.state)?;
        if self.never_connected { f.write_str(", never connected") } else { Ok(()) }
    }
}
