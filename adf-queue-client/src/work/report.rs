//! Reports of a worker: counters and events.

use std::{fmt, time::Duration};

use queue_core::DurationText;

use crate::{Address, Error, MessageId, QueueName};

queue_core::worker_report! {
    /// Outcomes of a worker's messages.
    pub struct WorkerReport {
        /// Deleted.
        pub deleted: u64,
        /// Returned: by their handler's decision, because the handler failed, or because they were delivered too often.
        pub returned: u64,
        /// Moved to the dead-letter queue.
        pub dead_lettered: u64,
        /// Given back by a stop before their handler had started.
        pub abandoned: u64,
        /// Lost before there was a decision: they belong to another client, or are gone.
        pub lost: u64,
        /// The request was sent, but the connection was lost before the answer.
        pub unknown: u64,
        /// Servers that were [given up](WorkerEventKind::GivenUp): they may have more messages.
        pub given_up: u64,
        /// Servers to which no connection was ever made, once the worker has ended with them.
        pub never_connected: u64,
    }
}

impl WorkerReport {
    /// The number of messages that have ended.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.deleted
            + self.returned
            + self.dead_lettered
            + self.abandoned
            + self.lost
            + self.unknown
    }

    pub(crate) fn count(&mut self, fate: JobFate) {
        let count = match fate {
            JobFate::Deleted => &mut self.deleted,
            JobFate::ReturnedLeft | JobFate::ReturnedRight => &mut self.returned,
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
        let WorkerReport { deleted, returned, dead_lettered, abandoned, lost, unknown, .. } = self;
        write!(
            f,
            "{deleted} deleted, {returned} returned, {dead_lettered} dead-lettered, {abandoned} abandoned, \
             {lost} lost, {unknown} unknown"
        )?;
        for (servers, what) in
            [(self.given_up, "given up"), (self.never_connected, "never connected")]
        {
            if servers > 0 {
                write!(f, ", {} {what}", queue_core::counted(servers, "server"))?;
            }
        }
        Ok(())
    }
}

/// How a message ended for this worker.
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
    /// It was returned to the left end of its queue.
    ReturnedLeft,
    /// It was returned to the right end of its queue.
    ReturnedRight,
    /// It was moved to the dead-letter queue.
    DeadLettered,
    /// Given back by a stop before its handler had started.
    Abandoned,
    /// Lost before there was a decision.
    Lost(LostReason),
    /// The request was sent, but the connection was lost, or the worker stopped, before the answer.
    Unknown,
}

impl fmt::Display for JobFate {
    /// The [word](Self::word).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

impl JobFate {
    /// One word: `deleted`, `returned`, `dead-lettered`, `abandoned`, `lost` or `unknown`.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            JobFate::Deleted => "deleted",
            JobFate::ReturnedLeft | JobFate::ReturnedRight => "returned",
            JobFate::DeadLettered => "dead-lettered",
            JobFate::Abandoned => "abandoned",
            JobFate::Lost(_) => "lost",
            JobFate::Unknown => "unknown",
        }
    }
}

/// Why a worker has lost a message although its handler is still running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case")
)]
#[non_exhaustive]
pub enum LostReason {
    /// The connection that delivered it is gone, and the server has given it to another client.
    ConnectionLost,
    /// The worker was stopped and its grace has passed, or it was dropped.
    Stopped,
    /// The server reports that it was not pulled on this connection.
    NotPulled,
    /// Its queue was deleted, and the message with it.
    QueueDeleted,
}

impl fmt::Display for LostReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LostReason::ConnectionLost => "the connection was lost",
            LostReason::Stopped => "the worker was stopped",
            LostReason::NotPulled => "the server does not know that it was pulled",
            LostReason::QueueDeleted => "its queue was deleted",
        })
    }
}

queue_core::server_event! {
    /// An event of a worker. With the feature `serde` it can only be serialized, because it holds errors of this process.
    ///
    /// As text, it quotes the message of a handler's error.
    WorkerEvent: WorkerEventKind, Address
}

/// What happened.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum WorkerEventKind {
    /// A connection was made.
    Connected,
    /// No connection could be made, or it was lost. The worker retries, unless it stops. Each kind of error is reported
    /// once until a connection succeeds.
    Disconnected(Error),
    /// The server was left out because it could not be reached; only
    /// [until its queues are empty](crate::WorkerOptions::until_empty).
    GivenUp,
    /// A queue cannot be pulled from, or the dead-letter queue cannot be pushed to, usually because it does not exist:
    /// only `createqueue` creates queues. It is retried after a growing pause.
    Refused {
        /// The queue.
        queue: QueueName,
        /// The server's refusal.
        error: Error,
        /// How long the queue is paused.
        #[cfg_attr(feature = "serde", serde(with = "queue_core::seconds"))]
        pause: Duration,
    },
    /// A handler starts with a message.
    Started {
        /// Its queue.
        queue: QueueName,
        /// Its number there.
        message: MessageId,
    },
    /// A handler failed or panicked.
    Failed {
        /// The message's queue.
        queue: QueueName,
        /// Its number there.
        message: MessageId,
        /// The unmodified message of the handler's error or panic. It may quote the message.
        error: String,
    },
    /// A message was [delivered too often](crate::WorkerOptions::max_duplications), and is not run.
    Poisoned {
        /// Its queue.
        queue: QueueName,
        /// Its number there.
        message: MessageId,
        /// How often it was delivered.
        duplications: u16,
    },
    /// A message was moved to the [dead-letter queue](crate::WorkerOptions::dead_letter), which has its unmodified body.
    /// [`Settled`](Self::Settled) follows.
    DeadLettered {
        /// The queue that it was pulled from.
        queue: QueueName,
        /// Its number there.
        message: MessageId,
        /// Why: the message of the handler's error, panic or decision, at most 4 KiB of it, or the number of deliveries.
        reason: String,
        /// How often it was delivered, without the deliveries after which it was deferred.
        attempts: u32,
    },
    /// The outcome of a message.
    Settled {
        /// Its queue.
        queue: QueueName,
        /// Its number there.
        message: MessageId,
        /// How it ended.
        fate: JobFate,
    },
}

impl fmt::Display for WorkerEventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = |queue: &QueueName, message: &MessageId| {
            format!("message {message} of {}", queue.as_str().escape_debug())
        };
        match self {
            WorkerEventKind::Connected => f.write_str("connected"),
            WorkerEventKind::Disconnected(error) => {
                write!(f, "disconnected: {}", error.to_string().escape_debug())
            }
            WorkerEventKind::GivenUp => f.write_str("given up: the server cannot be reached"),
            WorkerEventKind::Refused { queue, error, pause } => {
                let (queue, error) = (queue.as_str().escape_debug(), error.to_string());
                write!(
                    f,
                    "{queue} is refused, waiting {}: {}",
                    DurationText::rounded(*pause),
                    error.escape_debug()
                )
            }
            WorkerEventKind::Started { queue, message } => {
                write!(f, "{} started", of(queue, message))
            }
            WorkerEventKind::Failed { queue, message, error } => {
                write!(f, "{} failed: {}", of(queue, message), error.escape_debug())
            }
            WorkerEventKind::Poisoned { queue, message, duplications } => {
                write!(
                    f,
                    "{} is not run: it was delivered {duplications} times",
                    of(queue, message)
                )
            }
            WorkerEventKind::DeadLettered { queue, message, reason, attempts } => {
                let times = queue_core::counted(u64::from(*attempts), "attempt");
                let (of, reason) = (of(queue, message), reason.escape_debug());
                write!(f, "{of} went to the dead-letter queue after {times}: {reason}")
            }
            WorkerEventKind::Settled { queue, message, fate } => match fate {
                JobFate::Lost(reason) => write!(f, "{} {fate}: {reason}", of(queue, message)),
                fate => write!(f, "{} {fate}", of(queue, message)),
            },
        }
    }
}
