//! When a connection is made, and what happens to a command when one is lost.

use std::{io, time::Instant};

use queue_core::{End, Io, Pulse, earliest};

use super::{ClientSession, TaskGoal, TaskStage, closed, named};
use crate::{
    Deadline, Error, Fate,
    error::lost,
    protocol::{Command, Touch, session::ended},
    trace,
};

/// State of the current connection, or of the last one.
#[derive(Debug)]
pub(super) struct ConnectionFlags {
    /// Whether the server has answered on it.
    pub(super) has_served: bool,
    /// Whether its sending side ends after the queued bytes.
    pub(super) is_ending: bool,
    /// Whether its end was counted.
    pub(super) is_over: bool,
}

impl Default for ConnectionFlags {
    fn default() -> Self {
        ConnectionFlags { has_served: false, is_ending: false, is_over: true }
    }
}

impl ClientSession {
    /// Starts on a new connection, on which the commands that restore the used tube and the watch list come first.
    pub(super) fn connected(&mut self, io: &mut Io<Error>, now: Instant) {
        if self.session.metrics().connections > 0 || !self.session.is_open() {
            self.session.reopen();
        }
        self.session.metrics_mut().connected();
        io.limit(self.session.largest_reply());
        self.line = ConnectionFlags { has_served: false, is_ending: false, is_over: false };
        (self.leftover, self.heard) = Default::default();
        self.used_at = Some(now);
        let Some(task) = &mut self.task else { return };
        task.attempts = task.attempts.saturating_sub(1);
        task.look = None;
        if matches!(task.goal, TaskGoal::Connection) {
            self.settle(Ok(None));
        }
    }

    /// Asks for a connection if there is something to send, or fails with the reason why there can be none.
    pub(super) fn dial(&mut self, now: Instant) -> Pulse {
        loop {
            let Some(task) = &mut self.task else { return Pulse::Close(None) };
            if !self.can_reconnect {
                self.give_up(closed(
                    "the connection is closed, and a client made from a stream cannot reconnect",
                ));
            } else if task.attempts == 0 {
                let error = task.last.take().unwrap_or_else(|| {
                    closed("the connection is closed, and the retry policy does not allow reconnecting")
                });
                self.give_up(error);
            } else if self.health.is_overdue(now) {
                self.not_connected(self.options.timed_out(Deadline::Connect).into(), now);
            } else {
                let total = task.total;
                let pulse = match task.goal {
                    // The caller asked for this connection explicitly.
                    TaskGoal::Connection => self.health.attempt(0, now),
                    _ => self.health.dial(0, now),
                };
                return match pulse {
                    Pulse::Dial { server, by, ask } => {
                        Pulse::Dial { server, by: earliest([by, total]), ask }
                    }
                    wait => Pulse::Close(earliest([wait.until(), total])),
                };
            }
        }
    }

    /// Handles the end of a connection, or a failed attempt to make one.
    pub(super) fn take_end(&mut self, io: &mut Io<Error>, now: Instant) {
        let is_cut = !self.session.is_at_boundary_in(io);
        let end = match io.take_end() {
            None => return,
            Some(End::NotConnected(error)) => return self.not_connected(error, now),
            Some(End::Lost(error)) => error,
            Some(End::Abandoned) => io::ErrorKind::BrokenPipe.into(),
        };
        let awaits_a_reply = self.task.as_ref().is_some_and(|task| task.stage.ticket().is_some());
        if awaits_a_reply && end.kind() != io::ErrorKind::UnexpectedEof {
            return self.lose(lost(end), io, now);
        }
        if awaits_a_reply && is_cut {
            return self.lose(ended(), io, now);
        }
        self.session.end_of_stream();
        match self.read(io, now) {
            Err(error) => self.lose(error, io, now),
            Ok(()) => self.leave_line(now),
        }
    }

    fn not_connected(&mut self, error: Error, now: Instant) {
        let began = self.task.as_ref().and_then(|task| task.began);
        if began.is_some_and(|began| self.health.is_dialing_since_before(began)) {
            // Its caller is gone, and the connection may have ended long ago.
            return self.health.lost();
        }
        self.failed(now);
        if let Some(task) = &mut self.task {
            task.attempts = task.attempts.saturating_sub(1);
            task.last = Some(error);
        }
    }

    /// Gives the connection up. A command that definitely did not arrive is repeated on the next one, if allowed.
    pub(super) fn lose(&mut self, error: Error, io: &mut Io<Error>, now: Instant) {
        let Some(stage) = self.task.as_ref().map(|task| task.stage) else { return };
        let Some(ticket) = stage.ticket() else { return self.give_up(error) };
        let error = match (stage, self.session.fail(ticket, error)) {
            (TaskStage::TakingOver(..), error) if !self.takes_over() => {
                error.with_fate(Fate::NotSent)
            }
            (_, error) => error,
        };
        self.leave_line(now);
        match stage {
            _ if self.may_repeat(&error, now) => self.repeat(error, io),
            TaskStage::Confirming { .. } => self.give_up(error.with_command(Touch::NAME)),
            _ => self.give_up(error),
        }
    }

    fn may_repeat(&self, error: &Error, now: Instant) -> bool {
        let [first, second] = &self.frames;
        let acts_on_a_job = first.job.is_some() || (self.is_pair && second.job.is_some());
        self.task.as_ref().is_some_and(|task| {
            matches!((&task.goal, task.stage), (TaskGoal::Call, TaskStage::Sent(..)))
                && task.attempts > 0
                && !task.is_late(now)
        }) && error.fate() == Fate::NotSent
            && self.can_reconnect
            && !acts_on_a_job
    }

    /// Takes the command back to send it on the next connection.
    fn repeat(&mut self, error: Error, io: &mut Io<Error>) {
        let [first, second] = &mut self.frames;
        if self.second.take().is_some() {
            second.bytes = io.take_back(second.len);
        }
        first.bytes = io.take_back(first.len);
        self.enter(TaskStage::Waiting);
        if let Some(task) = &mut self.task {
            task.last = Some(error);
        }
    }

    /// Fails the current task.
    pub(super) fn give_up(&mut self, error: Error) {
        let error = match self.name() {
            Some(name) => named(name)(error),
            None => error,
        };
        self.settle(Err(error));
    }

    /// Counts the end of the connection once.
    pub(super) fn leave_line(&mut self, now: Instant) {
        if std::mem::replace(&mut self.line.is_over, true) {
            return;
        }
        match self.line.has_served {
            true => self.health.lost(),
            false => self.failed(now),
        }
    }

    fn failed(&mut self, now: Instant) {
        self.health.failed(now);
        if let Some(at) = self.health.quarantine(now) {
            trace::backing_off(&self.options.address, at.saturating_duration_since(now));
        }
    }
}
