//! What the caller waits for, and how far it is.

use std::time::{Duration, Instant};

use queue_core::Overdue;

use super::{ClientSession, IDLE};
use crate::{
    Error,
    protocol::{ServerWait, Ticket},
};

/// What the caller waits for.
#[derive(Debug)]
pub(super) struct Task {
    pub(super) goal: Goal,
    pub(super) stage: Stage,
    /// When it was asked for first.
    pub(super) began: Option<Instant>,
    /// The end of the whole.
    pub(super) total: Option<Instant>,
    /// How many connections may still be made for it.
    pub(super) attempts: u32,
    /// What the last attempt came to.
    pub(super) last: Option<Error>,
    /// A look at the connection from then on is wanted before it is used.
    pub(super) look: Option<Instant>,
    /// It has waited for an earlier reserve as long as it may, whose reply may be here.
    pub(super) overdue: Overdue,
    /// How long it waited for an earlier reserve.
    pub(super) spent: Duration,
}

#[derive(Debug)]
pub(super) enum Goal {
    /// A new connection.
    Connection,
    /// A connection that takes commands, and on which nothing is waited for.
    Quiet,
    /// To know whether the connection is good.
    Look,
    /// The reply to the command in the frames.
    Call,
    /// The reply to a command that is queued, and is not repeated.
    Reply {
        name: Option<&'static str>,
        /// Of a pipeline: since when it is waited for.
        pipelined: Option<Option<Instant>>,
    },
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Stage {
    /// For a connection, or for nothing any more.
    Waiting,
    /// For the reply to an earlier reserve, which the server may hold back so long.
    TakingOver(Ticket, ServerWait),
    /// For the reply to a touch of the job that came for an earlier reserve.
    Confirming { ticket: Ticket, sent: Instant, is_own: bool },
    /// For the reply to the command itself.
    Sent(Ticket, ServerWait),
}

impl Stage {
    /// The reply that is waited for.
    pub(super) fn ticket(self) -> Option<Ticket> {
        match self {
            Stage::Waiting => None,
            Stage::TakingOver(ticket, _)
            | Stage::Confirming { ticket, .. }
            | Stage::Sent(ticket, _) => Some(ticket),
        }
    }
}

impl Task {
    pub(super) fn new(goal: Goal, attempts: u32) -> Self {
        Task {
            goal,
            stage: Stage::Waiting,
            began: None,
            total: None,
            attempts,
            last: None,
            look: None,
            overdue: Overdue::default(),
            spent: Duration::ZERO,
        }
    }

    pub(super) fn is_late(&self, now: Instant) -> bool {
        self.total.is_some_and(|total| total <= now)
    }
}

impl ClientSession {
    /// The time of a task begins when it is first asked about: a call that was never polled has done nothing.
    pub(super) fn start(&mut self, now: Instant) {
        let Some(task) = self.task.as_mut().filter(|task| task.began.is_none()) else { return };
        task.began = Some(now);
        match task.goal {
            Goal::Look => task.look = Some(now),
            Goal::Connection | Goal::Quiet | Goal::Call => {
                let total = || now.checked_add(self.options.total_timeout?);
                // The second of a pair has what the first one has left.
                task.total = task.total.or_else(total);
                if self.is_pair {
                    self.pair_total = task.total;
                }
                let is_idle = |at: Instant| now.saturating_duration_since(at) > IDLE;
                task.look = self.used_at.replace(now).filter(|at| is_idle(*at)).and(Some(now));
            }
            Goal::Reply { .. } => {}
        }
    }
}
