//! The client as a state machine without sockets: one caller, one command at a time, and one connection after another.

mod connection;
mod task;
#[cfg(test)]
mod tests;
mod wait;

use std::time::{Duration, Instant};

use queue_core::{Deadlines, Health, Io, Operation, Pulse, Role, earliest};

use self::{
    connection::ConnectionFlags,
    task::{Task, TaskGoal, TaskStage},
    wait::{AbandonedReserve, LastReceived, WaitSlices},
};
use super::{
    Command, Effect, Reserve, Response, ServerWait, Session, Ticket, session::EncodedCommand,
};
use crate::{
    ConnectOptions, Deadline, Error, ErrorKind, Fate, Result, trace, work::options::RESERVE_WAIT,
};

/// Decides everything about a client's connection: when to make it, what to send, which reply belongs to whom, what
/// became of a command, and what to do about dropped calls.
///
/// The caller states a goal ([`begin`](Self::begin) and its like), has a wire move the bytes, and takes the outcome
/// ([`reply`](Self::reply), [`ready`](Self::ready)). A new goal drops an earlier one that was not awaited: what was
/// sent of it stays in step, and what was not sent is forgotten.
///
/// ```text
///            ┌──────────── no connection, or an old one ◄──────────────┐
///            ▼                                                          │ not sent whole, and
///  begin ──► Waiting ──► TakingOver ──► Confirming ──► Sent ──► outcome │ may be repeated
///                │        an earlier     its job, by     │              │
///                │        reserve        a touch         └──────────────┘
///                └──────────── no reserve ──────────────► Sent
/// ```
#[derive(Debug)]
pub(crate) struct ClientSession {
    pub(crate) session: Session,
    pub(crate) options: ConnectOptions,
    /// Whether there is an address to connect to; false for a client of a given stream.
    can_reconnect: bool,
    line: ConnectionFlags,
    health: Health,
    deadlines: Deadlines,
    /// When the connection was last known to be good, or a call began.
    used_at: Option<Instant>,
    heard: LastReceived,
    leftover: AbandonedReserve,
    /// The command to send, and the one to send in the same write.
    frames: [EncodedCommand; 2],
    is_pair: bool,
    /// The slices of a reserve that waits for as long as it takes.
    slices: Option<WaitSlices>,
    /// Deadline of a pair as a whole.
    pair_total: Option<Instant>,
    second: Option<Ticket>,
    task: Option<Task>,
    outcome: Option<Result<Option<Response>>>,
}

/// After this time without an answer, the connection is checked before it is used again.
const IDLE: Duration = Duration::from_secs(1);

/// The goals of the caller.
impl ClientSession {
    pub(crate) fn new(options: ConnectOptions, can_reconnect: bool) -> Self {
        ClientSession {
            session: Session::new(options.max_body_size),
            can_reconnect,
            line: ConnectionFlags::default(),
            health: Health::new(options.retry, Some(options.connecting_timeout())),
            deadlines: Deadlines::new(Some(options.reply_timeout), Some(options.write_timeout)),
            options,
            used_at: None,
            heard: LastReceived::default(),
            leftover: AbandonedReserve::default(),
            frames: [EncodedCommand::default(), EncodedCommand::default()],
            is_pair: false,
            slices: None,
            pair_total: None,
            second: None,
            task: None,
            outcome: None,
        }
    }

    /// Asks for a new connection, with one attempt that begins now.
    pub(crate) fn connect(&mut self) {
        if self.session.metrics().connections > 0 {
            self.session.close();
        }
        self.line.is_over = true;
        self.want(TaskGoal::Connection, 1);
    }

    /// Asks for a connection that accepts commands and has no replies outstanding.
    pub(crate) fn prepare(&mut self) {
        self.want(TaskGoal::Quiet, self.attempts());
    }

    /// Asks whether the connection is still good.
    pub(crate) fn look(&mut self) {
        self.want(TaskGoal::Look, 0);
    }

    /// Asks for the connection to be closed, and for the next one to start with the defaults.
    pub(crate) fn forget(&mut self) {
        self.session.forget();
        self.want(TaskGoal::Look, 0);
    }

    /// Asks for a command to be carried out.
    pub(crate) fn begin<C: Command>(&mut self, command: &C) {
        let [first, _] = &mut self.frames;
        first.encode(command);
        self.begin_frame(false);
    }

    /// Asks for a job, however long that takes: one timed reserve after the other, so that a server that falls silent
    /// is noticed.
    pub(crate) fn begin_reserve(&mut self) {
        self.begin(&Reserve);
        self.slices = Some(WaitSlices::new(self.options.retry.delays()));
    }

    /// Asks for two commands to be carried out, in one write if possible. The first outcome is that of the first
    /// command.
    pub(crate) fn begin_pair<A: Command, B: Command>(&mut self, first: &A, second: &B) {
        let [one, two] = &mut self.frames;
        one.encode(first);
        two.encode(second);
        self.pair_total = None;
        self.begin_frame(true);
    }

    /// Asks for the second command of a pair, once the first has its outcome.
    pub(crate) fn begin_second(&mut self) {
        let [first, second] = &mut self.frames;
        match self.second.take() {
            Some(ticket) => {
                let goal = TaskGoal::Reply { name: Some(second.name), pipelined: None };
                let wait = second.wait;
                self.want(goal, 0);
                self.await_ticket(ticket, wait);
            }
            None => {
                std::mem::swap(first, second);
                self.begin_frame(false);
            }
        }
        if let Some(task) = &mut self.task {
            task.total = self.pair_total.take();
        }
    }

    /// Asks for the reply to a queued command of a pipeline. Only one reply is awaited at a time.
    pub(crate) fn await_reply(&mut self, ticket: Ticket, wait: ServerWait) {
        let since =
            match &self.task {
                Some(Task {
                    goal: TaskGoal::Reply { pipelined: Some(since), .. }, stage, ..
                }) if stage.ticket() == Some(ticket) => *since,
                _ => None,
            };
        self.want(TaskGoal::Reply { name: None, pipelined: Some(since) }, 0);
        self.await_ticket(ticket, wait);
    }

    /// The outcome of a command.
    pub(crate) fn reply(&mut self) -> Option<Result<Response>> {
        match self.outcome.take()? {
            Ok(response) => response.map(Ok),
            Err(error) => Some(Err(error)),
        }
    }

    /// The outcome of a request for a connection.
    pub(crate) fn ready(&mut self) -> Option<Result<()>> {
        Some(self.outcome.take()?.map(drop))
    }

    /// Decodes a command's reply, and counts failures.
    pub(crate) fn conclude<C: Command>(
        &mut self,
        command: &C,
        outcome: Result<Response>,
        operation: &mut Operation,
    ) -> Result<C::Reply> {
        let reply = outcome.and_then(|response| {
            trace::reply(operation, &response);
            self.session.decode(command, response)
        });
        self.count::<C, _>(&reply);
        trace::ended(operation, &reply);
        reply
    }

    /// The same for the first command of a pair. After its own error, the second one can still be awaited; a
    /// connection error ends both.
    pub(crate) fn conclude_first<C: Command>(
        &mut self,
        command: &C,
        outcome: Result<Response>,
        [first, second]: [&mut Operation; 2],
    ) -> Result<Result<C::Reply>> {
        match outcome {
            Ok(response) => Ok(self.conclude(command, Ok(response), first)),
            Err(error) => {
                let outcome = Err(error);
                self.count::<C, _>(&outcome);
                trace::ended(first, &outcome);
                trace::ended(second, &outcome);
                outcome
            }
        }
    }

    /// The error of a caller that waits for an outcome without a goal.
    pub(crate) fn over() -> Error {
        closed("no request is pending on this connection")
    }

    pub(crate) fn count<C: Command, T>(&mut self, outcome: &Result<T>) {
        if let Err(error) = outcome {
            self.session.metrics_mut().failed(error.kind());
            trace::failed(&self.options.address, C::NAME, error);
        }
    }

    pub(crate) fn set_reply_timeout(&mut self, timeout: Duration) {
        self.options.server.reply_timeout = timeout;
        self.deadlines = Deadlines::new(Some(timeout), Some(self.options.write_timeout));
    }

    fn begin_frame(&mut self, is_pair: bool) {
        self.is_pair = is_pair;
        self.want(TaskGoal::Call, self.attempts());
    }

    /// How many connections may be made for a call. The client's first connection is not a retry.
    fn attempts(&self) -> u32 {
        let first = u32::from(self.session.metrics().connections == 0);
        self.options.retry.attempts().saturating_add(first)
    }

    fn want(&mut self, goal: TaskGoal, attempts: u32) {
        self.leftover.nobody_waits();
        (self.outcome, self.slices) = (None, None);
        self.task = Some(Task::new(goal, attempts));
    }

    fn await_ticket(&mut self, ticket: Ticket, wait: ServerWait) {
        self.enter(TaskStage::Sent(ticket, wait));
    }

    fn enter(&mut self, stage: TaskStage) {
        self.deadlines.reset();
        if let Some(task) = &mut self.task {
            task.stage = stage;
        }
    }
}

impl Role for ClientSession {
    type Failure = Error;

    fn exchange(&mut self, io: &mut Io<Error>, now: Instant) -> Pulse {
        if self.health.is_new(io) {
            self.connected(io, now);
        }
        self.session.follow(io);
        self.heard.follow(io, now);
        self.start(io, now);
        if let Err(error) = self.read(io, now) {
            self.lose(error, io, now);
        }
        self.take_end(io, now);
        if let Err(error) = self.deadline(io, now) {
            self.lose(error, io, now);
        }
        let paused = self.advance(io, now);
        self.session.queue_in(io);
        paused.unwrap_or_else(|| self.go(io, now))
    }
}

impl ClientSession {
    /// Reads the replies that have arrived, up to the awaited one. Those to dropped calls also show a good server.
    fn read(&mut self, io: &mut Io<Error>, now: Instant) -> Result<()> {
        let read = self.read_replies(io, now);
        if self.session.take_answered() {
            self.health.proven();
            self.line.has_served = true;
        }
        read
    }

    fn read_replies(&mut self, io: &mut Io<Error>, now: Instant) -> Result<()> {
        self.take_over(io);
        self.pass_over_dropped(io);
        while let Some(Task { goal, stage, .. }) = &self.task
            && let Some(ticket) = stage.ticket()
        {
            // Bytes that arrive before anything was sent answer nothing. Leave them.
            if self.session.is_open() && !self.session.may_be_answered() {
                break;
            }
            // A command is written whole even if it is refused early. Only a pipeline cannot afford that.
            let may_be_early = matches!(goal, TaskGoal::Reply { pipelined: Some(_), .. });
            if self.session.is_open() && !may_be_early && !self.session.is_sent(ticket) {
                self.session.pass_over_in(ticket, io)?;
                break;
            }
            let Some(response) = self.session.reply_in(ticket, io)? else { break };
            self.used_at = Some(now);
            if let Some(task) = &mut self.task {
                task.look = None;
            }
            self.answered(response, now);
            self.take_over(io);
        }
        self.pass_over_dropped(io);
        Ok(())
    }

    /// Reads the replies to dropped calls. If one violates the protocol, only the connection is lost.
    fn pass_over_dropped(&mut self, io: &mut Io<Error>) {
        if let Some(Task {
            goal: TaskGoal::Call | TaskGoal::Quiet, stage: TaskStage::Waiting, ..
        }) = &self.task
            && self.session.is_open()
        {
            let _ = self.session.pass_over_all_in(io);
        }
    }

    /// Waits for an earlier reserve whose caller is gone: a reserve takes over its job, and a touch keeps the
    /// connection, which a half-close would end. After a job reserved by its id the connection is closed, because the
    /// caller of `reserve_job` has to know what it holds.
    fn take_over(&mut self, io: &Io<Error>) {
        let Some(Task { goal: TaskGoal::Call, stage: TaskStage::Waiting, .. }) = &self.task else {
            return;
        };
        if !(io.is_open() && self.session.is_open()) {
            return;
        }
        let [first, _] = &self.frames;
        let by_id = || self.session.unanswered_reserve_job();
        let earlier = match first.effect {
            _ if self.touches() => by_id().or_else(|| self.session.abandoned_reserve()),
            Effect::Reserve if !self.is_joined() => {
                by_id().or_else(|| self.session.unanswered_reserve())
            }
            Effect::Reserve | Effect::ReserveJob => by_id(),
            _ => None,
        };
        if let Some((ticket, wait)) = earlier {
            self.enter(TaskStage::TakingOver(ticket, wait));
        }
    }

    /// Whether the frames include a touch, which is useless on a connection that ends after it.
    fn touches(&self) -> bool {
        let [first, second] = &self.frames;
        first.effect == Effect::Touch || (self.is_pair && second.effect == Effect::Touch)
    }

    /// Whether both frames go out in one write. A reserve waits for the leftovers of an earlier one, and no command
    /// that reserves is sent on a connection that ends after it.
    fn is_joined(&self) -> bool {
        let [first, second] = &self.frames;
        let waits = first.effect == Effect::Reserve
            || matches!(second.effect, Effect::Reserve | Effect::ReserveJob);
        self.is_pair && !(waits && self.session.has_leftover_reserve())
    }

    /// Makes progress towards a connection and on it. Returns a pulse when there is nothing to write for now.
    fn advance(&mut self, io: &mut Io<Error>, now: Instant) -> Option<Pulse> {
        let Some(Task { goal, stage: TaskStage::Waiting, look, .. }) = &self.task else {
            return None;
        };
        let (is_look, look) = (matches!(goal, TaskGoal::Look), *look);
        let [first, _] = &self.frames;
        let wants_it_idle = match goal {
            TaskGoal::Quiet => true,
            TaskGoal::Call => first.effect == Effect::ReserveJob,
            TaskGoal::Connection | TaskGoal::Look | TaskGoal::Reply { .. } => false,
        };
        if wants_it_idle && self.session.abandoned_reserve().is_some() {
            self.session.close();
        }
        if !io.is_open() || !self.session.is_open() || self.session.has_unsolicited_bytes_in(io) {
            self.session.close();
            self.leave_line(now);
            if is_look {
                self.settle(Ok(None));
                return None;
            }
            return Some(if io.is_open() { Pulse::Close(None) } else { self.dial(now) });
        }
        if look.is_some() && io.looked_at() < look {
            return Some(if self.is_silent(io, now) { Pulse::Look } else { Pulse::Peek });
        }
        if self.is_silent(io, now) {
            self.session.close();
            self.leave_line(now);
            if let Some(task) = &mut self.task {
                task.last = Some(self.options.timed_out(Deadline::Reply).into());
            }
            return Some(Pulse::Close(None));
        }
        if let Some(at) = self.slices.as_ref().and_then(|slices| slices.pauses_until(now)) {
            let total = self.task.as_ref().and_then(|task| task.total);
            return Some(Pulse::Go(earliest([Some(at), total])));
        }
        if let Err(error) = self.send(now) {
            self.settle(Err(error));
        }
        None
    }

    /// Asks the pump to move bytes until the next deadline.
    fn go(&mut self, io: &Io<Error>, now: Instant) -> Pulse {
        if let Some(over) = self.lose_patience(io, now) {
            return over;
        }
        if self.task.is_none() {
            return match io.is_open() && self.session.is_in_use() {
                true => Pulse::Rest(None),
                false => Pulse::Close(None),
            };
        }
        // The next exchange reports a deadline that has already passed.
        let until = self.deadline(io, now).unwrap_or(Some(now));
        match self.line.is_ending {
            true => Pulse::HalfClose(until),
            false => Pulse::Go(until),
        }
    }

    /// Sends the commands of the goal. An error is their outcome, and the connection stays.
    fn send(&mut self, now: Instant) -> Result<()> {
        let Some(task) = &self.task else { return Ok(()) };
        let spent = task.spent;
        if !matches!(task.goal, TaskGoal::Call) {
            self.settle(Ok(None));
            return Ok(());
        }
        let joined = self.is_joined();
        let [first, second] = &mut self.frames;
        if !joined && first.effect == Effect::Reserve {
            if self.session.orphan().is_some() {
                return self.confirm(now);
            }
            if let Some(slices) = &mut self.slices {
                slices.began = Some(now);
                return self.send_timed(RESERVE_WAIT);
            }
            if let Some(rest) = wait::rest_of(first.wait, spent) {
                return self.send_timed(rest);
            }
        }
        let ends_a_wait = self.session.abandoned_reserve().is_some();
        if joined {
            self.session.refuse_lost_reservation(second.job).map_err(named(first.name))?;
        }
        let (wait, name) = (first.wait, first.name);
        let ticket = self.session.send_frame(first).map_err(named(name))?;
        self.second = match joined {
            true => Some(self.session.send_frame(second).map_err(named(name))?),
            false => None,
        };
        if ends_a_wait {
            // On a half-closed connection the server stops waiting, runs what it has read, and closes.
            self.session.close_after_replies();
            self.line.is_ending = true;
        }
        self.await_ticket(ticket, wait);
        Ok(())
    }

    /// Handles the awaited reply.
    fn answered(&mut self, response: Response, now: Instant) {
        let Some(task) = &self.task else { return };
        match task.stage {
            TaskStage::TakingOver(..) => self.taken_over(response, now),
            TaskStage::Confirming { sent, is_own, .. } => {
                self.confirmed(response, sent, is_own, now);
            }
            TaskStage::Sent(..)
                if matches!(response, Response::Reserved(_) | Response::Touched)
                    && !self.session.is_open() =>
            {
                self.given_back();
            }
            TaskStage::Sent(..) => match &mut self.slices {
                Some(slices) if response == Response::TimedOut => {
                    slices.ended(now);
                    self.enter(TaskStage::Waiting);
                }
                _ => self.settle(Ok(Some(response))),
            },
            TaskStage::Waiting => {}
        }
    }

    /// The outcome of a reserve whose job goes back to the server, because its connection is not used again.
    fn given_back(&mut self) {
        let why =
            "the connection that holds the job is closed, which gives the job back; reserve again";
        self.give_up(Error::new(ErrorKind::JobLost, Fate::Unknown, why));
    }

    fn settle(&mut self, outcome: Result<Option<Response>>) {
        self.task = None;
        let address = &self.options.address;
        self.outcome = Some(outcome.map_err(|error| error.with_server(address)));
    }

    /// The wire verb to name in errors of the current task.
    fn name(&self) -> Option<&'static str> {
        let [first, _] = &self.frames;
        match &self.task.as_ref()?.goal {
            TaskGoal::Call => Some(first.name),
            TaskGoal::Reply { name, .. } => *name,
            TaskGoal::Connection | TaskGoal::Quiet | TaskGoal::Look => None,
        }
    }
}

/// Names the command in an error that does not have one.
fn named(name: &'static str) -> impl FnOnce(Error) -> Error {
    move |error| error.with_command(name)
}

/// The error for a missing connection that may not be replaced.
fn closed(why: &'static str) -> Error {
    Error::new(ErrorKind::ConnectionLost, Fate::NotSent, why)
}
