//! The caller's current goal and its progress.

use std::time::{Duration, Instant};

use queue_core::{Io, LateCheck};

use super::{ClientSession, IDLE};
use crate::{
    Error,
    protocol::{ServerWait, Ticket},
};

/// The caller's current goal.
#[derive(Debug)]
pub(super) struct Task {
    pub(super) goal: TaskGoal,
    pub(super) stage: TaskStage,
    /// When it was first polled.
    pub(super) began: Option<Instant>,
    /// Its total deadline.
    pub(super) total: Option<Instant>,
    /// How many connections may still be made for it.
    pub(super) attempts: u32,
    /// The error of the last attempt.
    pub(super) last: Option<Error>,
    /// When to check the connection before it is used.
    pub(super) look: Option<Instant>,
    /// Set when it has waited for an earlier reserve as long as it may. The reply may have arrived unread.
    pub(super) late_check: LateCheck,
    /// How long it has waited for an earlier reserve.
    pub(super) spent: Duration,
}

#[derive(Debug)]
pub(super) enum TaskGoal {
    Connection,
    /// A connection that accepts commands and has no replies outstanding.
    Quiet,
    /// Whether the connection is still good.
    Look,
    /// The reply to the command in the frames.
    Call,
    /// The reply to a queued command, which is not repeated.
    Reply {
        name: Option<&'static str>,
        /// For a pipeline: since when the reply is awaited.
        pipelined: Option<Option<Instant>>,
    },
}

#[derive(Clone, Copy, Debug)]
pub(super) enum TaskStage {
    /// For a connection, or for nothing.
    Waiting,
    /// For the reply to an earlier reserve, which the server may hold back for this long.
    TakingOver(Ticket, ServerWait),
    /// For the reply to a touch of the job that an earlier reserve brought.
    Confirming { ticket: Ticket, sent: Instant, is_own: bool },
    /// For the reply to the command itself.
    Sent(Ticket, ServerWait),
}

impl TaskStage {
    /// The awaited reply.
    pub(super) fn ticket(self) -> Option<Ticket> {
        match self {
            TaskStage::Waiting => None,
            TaskStage::TakingOver(ticket, _)
            | TaskStage::Confirming { ticket, .. }
            | TaskStage::Sent(ticket, _) => Some(ticket),
        }
    }
}

impl Task {
    pub(super) fn new(goal: TaskGoal, attempts: u32) -> Self {
        Task {
            goal,
            stage: TaskStage::Waiting,
            began: None,
            total: None,
            attempts,
            last: None,
            look: None,
            late_check: LateCheck::default(),
            spent: Duration::ZERO,
        }
    }

    pub(super) fn is_late(&self, now: Instant) -> bool {
        self.total.is_some_and(|total| total <= now)
    }
}

impl ClientSession {
    /// Starts the clock of a task at its first poll: a call that was never polled has done nothing.
    pub(super) fn start(&mut self, io: &Io<Error>, now: Instant) {
        if self.task.as_ref().is_none_or(|task| task.began.is_some()) {
            return;
        }
        let is_silent = self.is_silent(io, now);
        let Some(task) = &mut self.task else { return };
        task.began = Some(now);
        if matches!(task.goal, TaskGoal::Quiet | TaskGoal::Call) {
            self.health.hurry(now);
        }
        match task.goal {
            TaskGoal::Look => task.look = Some(now),
            TaskGoal::Connection | TaskGoal::Quiet | TaskGoal::Call => {
                let total = || now.checked_add(self.options.total_timeout?);
                // The second command of a pair has the rest of the pair's time.
                task.total = task.total.or_else(total);
                if self.is_pair {
                    self.pair_total = task.total;
                }
                let is_idle = |at: Instant| now.saturating_duration_since(at) > IDLE;
                let is_idle = self.used_at.replace(now).is_some_and(is_idle);
                task.look = (is_idle || is_silent).then_some(now);
            }
            TaskGoal::Reply { .. } => {}
        }
    }
}
