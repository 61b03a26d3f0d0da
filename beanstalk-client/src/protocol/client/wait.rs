//! Deadlines, and reserves whose callers are gone.

use std::time::{Duration, Instant};

use queue_core::{Backoff, Io, Pulse, after, earliest};

use super::{ClientSession, Task, TaskGoal, TaskStage, named};
use crate::{
    Deadline, Error, ErrorKind, Fate, Result,
    protocol::{Command, Effect, ReserveWithTimeout, Response, ServerWait, Ticket, Touch, is_gone},
    work::options::RESERVE_WAIT,
};

/// How long a job is certainly held after the sending of a touch that the server carried out: no time to run is shorter
/// than a second.
const HELD: Duration = Duration::from_millis(250);

/// A reserve whose caller is gone. Later reserves wait for its reply, each for its own timeout. Each of these waits is
/// too short to tell a slow reply from a dead connection; their sum, including the time between them, is not.
#[derive(Debug, Default)]
pub(super) struct AbandonedReserve {
    of: Option<Ticket>,
    since: Option<Instant>,
    received: u64,
    /// Nothing was read for a while.
    is_left: bool,
}

impl AbandonedReserve {
    pub(super) fn nobody_waits(&mut self) {
        self.is_left = true;
    }

    /// Since when this reply is awaited. If data arrived between reads, the rest has the full time again, because a
    /// long reply only gets as far as the socket buffers hold.
    fn since(&mut self, ticket: Ticket, received: u64, now: Instant) -> Instant {
        if self.of != Some(ticket) {
            *self = AbandonedReserve { of: Some(ticket), since: None, received, is_left: false };
        } else if self.is_left && received > self.received {
            (self.since, self.is_left) = (None, false);
        }
        if !self.is_left {
            self.received = received;
        }
        *self.since.get_or_insert(now)
    }
}

/// The slices of a reserve that waits for as long as it takes.
#[derive(Debug)]
pub(super) struct WaitSlices {
    /// When the current one was sent.
    pub(super) began: Option<Instant>,
    /// After slices that the server ended far too early, and would end too early again.
    delays: Backoff,
    not_before: Option<Instant>,
}

impl WaitSlices {
    pub(super) fn new(delays: Backoff) -> Self {
        WaitSlices { began: None, delays, not_before: None }
    }

    /// The server has ended one without a job.
    pub(super) fn ended(&mut self, now: Instant) {
        let took = self.began.map(|began| now.saturating_duration_since(began));
        if took.is_some_and(|took| took < RESERVE_WAIT / 2) {
            self.not_before = Some(after(now, self.delays.next_delay()));
        } else {
            self.delays.reset();
        }
    }

    /// When the next one may be sent, if not yet.
    pub(super) fn pauses_until(&self, now: Instant) -> Option<Instant> {
        self.not_before.filter(|at| *at > now)
    }
}

/// When bytes were last received on a connection.
#[derive(Debug, Default)]
pub(super) struct LastReceived {
    received: u64,
    at: Option<Instant>,
}

impl LastReceived {
    pub(super) fn follow(&mut self, io: &Io<Error>, now: Instant) {
        if io.received() != self.received {
            *self = LastReceived { received: io.received(), at: Some(now) };
        }
    }
}

impl ClientSession {
    /// Whether the reply to a command whose caller is gone is overdue, as far as was read: no caller waited for it, so
    /// no deadline has ended the connection. A command sent on it would only wait in turn.
    pub(super) fn is_silent(&self, io: &Io<Error>, now: Instant) -> bool {
        let Some(wait) = self.session.oldest_wait().filter(|_| io.is_drained()) else {
            return false;
        };
        io.written_at()
            .max(self.heard.at)
            .zip(reply_time(self.options.reply_timeout, wait))
            .and_then(|(since, time)| since.checked_add(time))
            .is_some_and(|due| due <= now)
    }

    /// The next deadline, or the error of one that has passed.
    pub(super) fn deadline(&mut self, io: &Io<Error>, now: Instant) -> Result<Option<Instant>> {
        let Some(task) = &mut self.task else { return Ok(None) };
        if task.is_late(now) {
            return Err(match (&task.goal, task.last.take()) {
                // A connection made on request is not part of a call.
                (TaskGoal::Connection, Some(error)) => error,
                (TaskGoal::Connection, None) => self.options.timed_out(Deadline::Connect).into(),
                (_, last) => Error::from(self.options.timed_out(Deadline::Total)).after(last),
            });
        }
        let (total, began, stage) = (task.total, task.began.unwrap_or(now), task.stage);
        if let Some(at) = self.pipeline_deadline(io, now)? {
            return Ok(at);
        }
        let (ticket, wait, own) = match stage {
            TaskStage::Waiting => return Ok(total),
            TaskStage::TakingOver(ticket, wait) => {
                let since = self.leftover.since(ticket, io.received(), now);
                let overdue = reply_time(self.options.reply_timeout, wait)
                    .and_then(|time| since.checked_add(time))
                    .filter(|at| *at > now || !self.leftover.is_left || io.has_looked_since(began));
                if overdue.is_some_and(|at| at <= now) {
                    return Err(self.options.timed_out(Deadline::Reply).into());
                }
                let patience = self.patience(wait, began).filter(|at| *at > now);
                (None, wait, earliest([overdue, patience]))
            }
            TaskStage::Confirming { ticket, .. } => (Some(ticket), ServerWait::None, None),
            TaskStage::Sent(ticket, wait) => (Some(ticket), wait, None),
        };
        let holds = ticket.filter(|ticket| self.session.is_sent(*ticket)).map(|_| match wait {
            ServerWait::None => Duration::ZERO,
            ServerWait::AtMost(time) => time,
            ServerWait::Forever => Duration::MAX,
        });
        let due = self.deadlines.check(io, holds, false, now);
        let due = due.map_err(|late| self.deadlines.error(late))?;
        Ok(earliest([total, due, own]))
    }

    /// A pipeline's reply has its time from when it is awaited, not from the previous reply, because nothing is read
    /// while the caller is busy elsewhere. The time includes that of a write, if something remained to be written then.
    fn pipeline_deadline(
        &mut self,
        io: &Io<Error>,
        now: Instant,
    ) -> Result<Option<Option<Instant>>> {
        let Some(Task { goal: TaskGoal::Reply { pipelined: Some(since), .. }, stage, .. }) =
            &mut self.task
        else {
            return Ok(None);
        };
        let TaskStage::Sent(_, wait) = *stage else { return Ok(None) };
        let is_written = self.session.unsent() == 0 && io.is_drained();
        let since = *since.get_or_insert(now);
        let reply = reply_time(self.options.reply_timeout, wait);
        let at = |from: Instant| reply.and_then(|time| from.checked_add(time));
        if is_written {
            return match at(io.written_at().map_or(since, |written| written.max(since))) {
                Some(at) if at <= now => Err(self.options.timed_out(Deadline::Reply).into()),
                at => Ok(Some(at)),
            };
        }
        match at(since).and_then(|at| at.checked_add(self.options.write_timeout)) {
            Some(at) if at <= now => Err(self.options.timed_out(Deadline::Write).into()),
            // The write may still be answered in time.
            end => Ok(Some(earliest([end, at(now)]))),
        }
    }

    /// Stops waiting for an earlier reserve after the command's own time, and leaves that reserve to the next command.
    /// Checks once more whether the reply has arrived before it stops.
    pub(super) fn lose_patience(&mut self, io: &Io<Error>, now: Instant) -> Option<Pulse> {
        let Some(Task { stage: TaskStage::TakingOver(_, earlier), began, .. }) = &self.task else {
            return None;
        };
        let (earlier, began) = (*earlier, began.unwrap_or(now));
        if self.leftover.is_left && io.is_drained() && !io.has_looked_since(began) {
            return Some(Pulse::Look);
        }
        let end = self.patience(earlier, began)?;
        if end > now || !io.is_drained() {
            return None;
        }
        let overdue = self.task.as_mut().map(|task| &mut task.late_check);
        if overdue.is_some_and(|overdue| overdue.may_be_here(io, now)) {
            return Some(Pulse::Look);
        }
        match self.takes_over() {
            true => self.settle(Ok(Some(Response::TimedOut))),
            false => self.give_up(still_waits()),
        }
        None
    }

    /// Whether the command takes over the job of an earlier reserve, instead of only waiting for that reserve to end.
    pub(super) fn takes_over(&self) -> bool {
        let [first, _] = &self.frames;
        first.effect == Effect::Reserve && !self.touches()
    }

    /// Until when the command waits for the outcome of an earlier reserve: a reserve for its own time, a touch for that
    /// of a reply. `None` where the server answers at once.
    fn patience(&self, earlier: ServerWait, began: Instant) -> Option<Instant> {
        let [first, _] = &self.frames;
        match (first.wait, earlier) {
            (_, ServerWait::None | ServerWait::AtMost(Duration::ZERO)) => None,
            _ if !self.takes_over() => began.checked_add(self.options.reply_timeout),
            (ServerWait::Forever, _) => None,
            (ServerWait::AtMost(time), _) => began.checked_add(time),
            (ServerWait::None, _) => Some(began),
        }
    }

    /// Handles the reply to the earlier reserve.
    pub(super) fn taken_over(&mut self, response: Response, now: Instant) {
        let Some(Task { stage: TaskStage::TakingOver(_, earlier), began, spent, .. }) =
            &mut self.task
        else {
            return;
        };
        let began = began.unwrap_or(now);
        *spent = now.saturating_duration_since(began);
        let (is_by_id, earlier) = (*earlier == ServerWait::None, *earlier);
        let takes_over = self.takes_over();
        let is_over = takes_over && self.patience(earlier, began).is_some_and(|end| end <= now);
        match response {
            // This job will not be run: closing gives it back with its priority unchanged.
            Response::Reserved(_) if is_by_id => self.leave_to_the_server(),
            Response::BodyTooLarge { .. } | Response::BodyDamaged { .. }
                if is_by_id || !takes_over =>
            {
                self.leave_to_the_server();
            }
            Response::Reserved(job) => {
                self.session.keep_orphan(job);
                self.enter(TaskStage::Waiting);
            }
            outcome @ (Response::DeadlineSoon
            | Response::BodyTooLarge { .. }
            | Response::BodyDamaged { .. })
                if takes_over && !is_by_id =>
            {
                self.settle(Ok(Some(outcome)));
            }
            _ if is_over => self.settle(Ok(Some(Response::TimedOut))),
            _ => self.enter(TaskStage::Waiting),
        }
    }

    /// Closes the connection, and continues on the next one.
    fn leave_to_the_server(&mut self) {
        self.session.close_after_replies();
        self.enter(TaskStage::Waiting);
    }

    /// Has the server confirm that the oldest orphan is still held: its time to run started when the server assigned
    /// it. Only one touch is in flight at a time, however many calls are dropped while they wait for it, and the
    /// session keeps the job until it is answered.
    pub(super) fn confirm(&mut self, now: Instant) -> Result<()> {
        let (ticket, sent) = self.session.touch_orphan(now).map_err(named(Touch::NAME))?;
        self.enter(TaskStage::Confirming { ticket, sent, is_own: sent == now });
        Ok(())
    }

    /// Handles the reply to the touch.
    pub(super) fn confirmed(
        &mut self,
        response: Response,
        sent: Instant,
        is_own: bool,
        now: Instant,
    ) {
        let Some(touch) = self.session.orphan().map(Touch::new) else {
            return self.enter(TaskStage::Waiting);
        };
        match self.session.decode(&touch, response) {
            // The reply to a leftover touch may be older than that.
            Ok(()) if is_own || now.saturating_duration_since(sent) < HELD => {
                let job = self.session.take_orphan();
                self.settle(Ok(job.map(Response::Reserved)));
            }
            Ok(()) => self.enter(TaskStage::Waiting),
            Err(error) => {
                self.session.take_orphan();
                match is_gone(&error) {
                    true => self.enter(TaskStage::Waiting),
                    false => self.settle(Err(error)),
                }
            }
        }
    }

    /// Sends a reserve for this part of its time.
    pub(super) fn send_timed(&mut self, part: Duration) -> Result<()> {
        let [first, _] = &self.frames;
        let command = ReserveWithTimeout::new(part).map_err(named(first.name))?;
        let ticket = self.session.send(&command).map_err(named(first.name))?;
        self.enter(TaskStage::Sent(ticket, command.server_wait()));
        Ok(())
    }
}

/// How long a reply may take; `None` for no limit.
fn reply_time(reply: Duration, wait: ServerWait) -> Option<Duration> {
    match wait {
        ServerWait::None => Some(reply),
        ServerWait::AtMost(time) => Some(time.saturating_add(reply)),
        ServerWait::Forever => None,
    }
}

/// The server would carry out a touch only after the reserve has ended, and closing the connection would give the job
/// back.
fn still_waits() -> Error {
    Error::new(
        ErrorKind::Timeout(Deadline::Reply),
        Fate::NotSent,
        "a dropped reserve is still pending on this connection and blocks later commands; the job is still reserved: reserve again, or finish the job",
    )
}

/// The rest of a reserve's timeout after waiting for an earlier one; `None` if the difference is below the server's
/// resolution of whole seconds.
pub(super) fn rest_of(wait: ServerWait, spent: Duration) -> Option<Duration> {
    match wait {
        ServerWait::AtMost(time) if spent >= Duration::from_secs(1) => {
            Some(time.saturating_sub(spent))
        }
        _ => None,
    }
}
