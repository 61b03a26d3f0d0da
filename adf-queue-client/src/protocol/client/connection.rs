//! The connection of a link, and its successors.

use std::{
    io, mem,
    time::{Duration, Instant},
};

use queue_core::{
    Awaits, ConnectionError, Epoch, Expects, Health, IdleCheck, Io, Life, Limit, Loss, Need,
    Protocol, Pulse, Role, after, earliest, exchange,
};

use super::{
    Link,
    ask::{Ask, AskAnswer},
    link::{Waiter, only_one_stream},
    pulls::UnclaimedMessage,
    task::{RequestName, TaskStage},
};
use crate::{
    Deadline, Error, ErrorKind, Fate, QueueName, RequestId, Result,
    protocol::{
        Action, Encoding, Refusal, Success,
        session::{Event, Session},
    },
};

/// No further request is handed to the connection while this many bytes wait to be written.
const ENOUGH_OUTGOING: usize = 1 << 20;
/// Maximum number of abandoned pulls in flight, plus messages kept for the next caller. Above it the connection is
/// closed, which gives all of them back.
pub(super) const MAX_SPARE: usize = 1024;
/// How long the end of a connection may take after the server was notified.
const LEAVING: Duration = Duration::from_secs(1);

impl Role for Link {
    type Failure = Error;

    fn exchange(&mut self, io: &mut Io<Error>, now: Instant) -> Pulse {
        self.is_urgent = false;
        let pulse = exchange(self, io, now);
        io.wake.append(&mut self.woken);
        self.later.append_to(&mut io.later);
        pulse
    }
}

impl Protocol for Link {
    fn life(&mut self) -> &mut Life<Error> {
        &mut self.life
    }

    /// Starts on a new connection, which is not upgraded yet.
    fn connected(&mut self, io: &mut Io<Error>, now: Instant) {
        self.epoch = Some(Epoch::next());
        self.counted = (0, 0);
        self.heard = Some((io.received(), now));
        (self.since, self.has_answers) = (Some(now), false);
        self.idle_check = IdleCheck::new(now);
        self.beyond_limit.clear();
        self.metrics.connected();
        let Link { encoding, host, options, random, .. } = self;
        match Session::new(*encoding, host, options.max_message_size, random) {
            Ok(session) => self.session = Some(session),
            Err(error) => self.life.close_with(error),
        }
    }

    /// Delivers everything that has arrived.
    fn receive(&mut self, io: &mut Io<Error>, now: Instant) -> Result<()> {
        self.note(io, now);
        while let Some(session) = &mut self.session
            && let Some(event) = session.take(io)?
        {
            self.handle(event, now);
        }
        let is_too_much =
            self.pulls.spare > MAX_SPARE || self.pulls.kept_bytes > self.options.max_message_size;
        if is_too_much && self.session.is_some() {
            let why = "too many pulls were abandoned, so the connection was closed to return their messages";
            return Err(Error::new(ErrorKind::ConnectionLost, Fate::Unknown, why));
        }
        Ok(())
    }

    fn ended(&mut self, why: io::Error, _: &mut Io<Error>, _: Instant) -> Result<()> {
        if self.leave_by.is_none() {
            return Err(Error::lost(why));
        }
        // The server may close first.
        self.session = None;
        Ok(())
    }

    fn lost(&mut self, loss: Loss<Error>, io: &mut Io<Error>, _: Instant) {
        self.lose(loss, io);
    }

    /// So is one that has answered and lasted, though nothing was settled on it.
    fn is_good(&mut self, now: Instant) -> bool {
        let has_lasted = self.since.is_some_and(|since| Health::has_lasted(since, now));
        self.life.has_served() || (self.has_answers && has_lasted)
    }

    /// Ends what is late, and says what to do next.
    fn needs(&mut self, io: &mut Io<Error>, now: Instant) -> Need {
        if self.may_be_in_time(io, now) {
            return Need::Look;
        }
        self.expire(now);
        self.pulls.look_in_time(now);
        if self.is_leaving {
            return self.take_leave(io, now);
        }
        if self.session.is_some() {
            let look = self.idle_check.look_first(self.has_something_to_send(), io, now);
            return look.unwrap_or(Need::Use(None));
        }
        if !self.can_dial {
            for number in self.all_tasks() {
                self.finish(number, Err(only_one_stream()));
            }
        }
        if self.unfinished == 0 {
            // An attempt in progress is no longer needed.
            self.life.unwant();
            return Need::Close(None);
        }
        Need::Use(self.next_limit())
    }

    fn send(&mut self, io: &mut Io<Error>, now: Instant) -> Awaits {
        if self.leave_by.is_some() {
            return Awaits { expects: Expects::End, ..Awaits::default() };
        }
        let ping_at = self.ping(now);
        self.queue(io);
        let Some(session) = &mut self.session else { return Awaits::default() };
        if session.take_answered() {
            self.life.answered();
        }
        let is_idle = self.unfinished == 0 && !session.is_waiting() && io.is_drained();
        let answer = session.is_due(io).then_some(Duration::ZERO);
        let until = earliest([ping_at, self.next_limit(), self.pulls.next_look()]);
        let expects = if is_idle && self.is_open() { Expects::Nothing } else { Expects::Data };
        Awaits { answer, until, expects }
    }
}

impl Link {
    /// Whether the outcome of a task that has reached its limit may have arrived in time, while nobody was reading.
    fn may_be_in_time(&mut self, io: &Io<Error>, now: Instant) -> bool {
        let is_late = self.is_open() && self.next_limit().is_some_and(|at| at <= now);
        if !is_late {
            self.beyond_limit.clear();
        }
        is_late && self.beyond_limit.may_be_here(io, now)
    }

    /// Counts the traffic in both directions.
    fn note(&mut self, io: &Io<Error>, now: Instant) {
        if self.session.is_none() {
            return;
        }
        let (sent, received) = self.counted;
        self.metrics.bytes_out += io.sent() - sent;
        self.metrics.bytes_in += io.received() - received;
        self.counted = (io.sent(), io.received());
        if self.heard.is_none_or(|(known, _)| known != io.received()) {
            self.heard = Some((io.received(), now));
        }
    }

    fn handle(&mut self, event: Event<Waiter>, now: Instant) {
        match event {
            Event::Open => self.opened(),
            Event::Pong(waiter) => {
                self.prove();
                if let Some(Waiter::Task(number)) = waiter {
                    self.finish(number, Ok(AskAnswer::Yes));
                }
            }
            Event::Answer { waiter, id, number, outcome } => {
                self.metrics.replies += 1;
                self.has_answers = true;
                if self.is_proof(&waiter, &outcome, now) {
                    self.prove();
                }
                self.note_pulls(&waiter, number, &outcome);
                self.answer(waiter, id, outcome, now);
            }
            Event::InRun { waiter, place, outcome } => {
                self.metrics.replies += 1;
                self.prove();
                if let Waiter::Task(number) = waiter {
                    let outcome = outcome.map(AskAnswer::Success).map_err(Error::from);
                    self.settle_place(number, place, outcome.and_then(AskAnswer::pushed));
                }
            }
        }
    }

    /// The server has upgraded the connection.
    fn opened(&mut self) {
        self.life.ready();
        let is_ready = |number: &u64| {
            self.tasks.get(number).is_some_and(|task| matches!(task.ask, Ask::Ready))
        };
        let ready: Vec<u64> = self.queued.iter().filter(is_ready).collect();
        for number in ready {
            self.finish(number, Ok(AskAnswer::Yes));
        }
    }

    /// Whether this answer shows that the server is well. A count before a pull, and any count of a caller that only
    /// pulls, does not on a young connection: the server may close it at each pull. Nor does a message of such a
    /// caller, or its copy as a dead letter, before it is settled: the server may close it at each settlement.
    fn is_proof(&self, waiter: &Waiter, outcome: &Result<Success, Refusal>, now: Instant) -> bool {
        let is_before_more = match outcome {
            Ok(Success::Counted(_)) => self.is_patient || matches!(waiter, Waiter::Check(_)),
            Ok(Success::Delivered(_) | Success::Pushed(_)) => self.is_patient,
            _ => false,
        };
        !is_before_more || self.since.is_some_and(|since| Health::has_lasted(since, now))
    }

    /// A complete exchange shows that the server is alive: the next connection may follow without a delay, and waiting
    /// tasks get all attempts again.
    fn prove(&mut self) {
        if !self.life.has_served() {
            self.life.served();
            self.last_error = None;
            self.tasks.values_mut().for_each(|task| task.tries = 0);
        }
    }

    /// Notes what the answer to the request with this number shows about the pulls of its queue.
    fn note_pulls(&mut self, waiter: &Waiter, number: u64, outcome: &Result<Success, Refusal>) {
        if let Waiter::Check(queue) = waiter {
            self.pulls.checked(queue);
        }
        let queue = match waiter {
            Waiter::Task(task) => self.tasks.get(task).and_then(|task| task.ask.queue()),
            Waiter::Pull(queue) | Waiter::Check(queue) | Waiter::Look(queue, _) => Some(queue),
        };
        if let Some(queue) = queue {
            self.pulls.answered(queue, number, outcome);
        }
    }

    fn answer(
        &mut self,
        waiter: Waiter,
        id: RequestId,
        outcome: Result<Success, Refusal>,
        now: Instant,
    ) {
        match (waiter, outcome) {
            (Waiter::Task(number), outcome) => self.settle(number, outcome, now),
            (Waiter::Pull(queue), Ok(Success::Delivered(delivered))) => {
                self.put(&queue, UnclaimedMessage { id, delivered });
            }
            (Waiter::Check(queue), Ok(_)) if self.pulls.is_lacking(&queue) => self.pull(&queue),
            (Waiter::Look(queue, caller), outcome) => {
                self.pulls.look_again(&queue, now);
                let task = self.tasks.get(&caller);
                let is_pulling = task.is_some_and(|task| matches!(task.stage, TaskStage::Pulling));
                match outcome {
                    Ok(Success::Counted(0)) => {}
                    // The ready messages have not woken the pull that the caller has joined: another pull gets them.
                    Ok(_) if is_pulling => self.pull(&queue),
                    Err(refusal) if is_pulling => self.refuse(caller, refusal, &id),
                    _ => {}
                }
            }
            (Waiter::Pull(_) | Waiter::Check(_), Ok(_)) => {}
            (Waiter::Pull(queue) | Waiter::Check(queue), Err(refusal)) => {
                if let Some(caller) = self.pulls.first_caller(&queue) {
                    self.refuse(caller, refusal, &id);
                }
            }
        }
    }

    /// The server refuses the pull of a caller.
    fn refuse(&mut self, caller: u64, refusal: Refusal, id: &RequestId) {
        let error = Error::from(refusal).with_request(Action::Pull, id);
        self.finish(caller, Err(error));
    }

    /// Handles the answer to a request of a task, whose caller may be gone.
    fn settle(&mut self, number: u64, outcome: Result<Success, Refusal>, now: Instant) {
        let Some(task) = self.tasks.get(&number) else { return };
        if let TaskStage::Checking(name) = &task.stage
            && outcome.is_ok()
        {
            let name = *name;
            return self.send_request(number, name);
        }
        let outcome = match (&task.ask, outcome) {
            (Ask::TryPull(queue), Ok(Success::Counted(ready))) => {
                let queue = queue.clone();
                return self.pull_soon(number, &queue, ready, now);
            }
            (_, outcome) => outcome.map(AskAnswer::Success).map_err(Error::from),
        };
        self.finish(number, outcome);
    }

    /// If messages are ready, pulls one, unless other clients are faster.
    fn pull_soon(&mut self, number: u64, queue: &QueueName, ready: u32, now: Instant) {
        if let Some(kept) = self.pulls.take_kept(queue) {
            return self.give(number, queue, kept);
        }
        if ready == 0 {
            return self.finish(number, Ok(AskAnswer::Nothing));
        }
        let soon = now.checked_add(self.options.reply_timeout);
        self.limit_more(number, Limit::until(Deadline::Reply, soon));
        if let Some(task) = self.tasks.get_mut(&number) {
            task.stage = TaskStage::Pulling;
        }
        // The messages have not woken the pulls that wait.
        let has_spare = self.pulls.has_spare(queue);
        self.pulls.join(queue, number);
        if has_spare {
            self.pull(queue);
        }
    }

    fn pull(&mut self, queue: &QueueName) {
        let sent = self.send_for(Action::Pull, queue, Waiter::Pull(queue.clone()));
        if let Some(number) = sent {
            self.pulls.sent(queue, number);
        }
    }

    /// Sends a request that belongs to no task. It was validated when its task started. Returns its number on the
    /// connection.
    fn send_for(&mut self, action: Action, queue: &QueueName, waiter: Waiter) -> Option<u64> {
        let session = self.session.as_mut()?;
        self.metrics.commands += 1;
        Some(session.send((action, self.ids.next()), queue.as_str(), b"", waiter))
    }

    /// Ends what has taken too long.
    pub(crate) fn expire(&mut self, now: Instant) {
        while let Some((at, number)) = self.limits.first()
            && at <= now
        {
            self.limits.pop();
            let Some(task) = self.tasks.get(&number) else { continue };
            let outcome = match &task.stage {
                TaskStage::Pulling if self.is_open() => Ok(AskAnswer::Nothing),
                TaskStage::Pulling => Err(self.why_not().with_fate(Fate::NotSent)),
                // A request handed to the connection goes out in full, including its unwritten part.
                TaskStage::Sent(_) | TaskStage::Pinging => {
                    Err(task.limit.error().with_fate(Fate::Unknown).into())
                }
                TaskStage::PushBatch(batch) if batch.is_sent => {
                    Err(task.limit.error().with_fate(Fate::Unknown).into())
                }
                _ => Err(task.limit.error().with_fate(Fate::NotSent).into()),
            };
            self.finish(number, outcome);
        }
    }

    /// Why there is no connection.
    fn why_not(&self) -> Error {
        let known = self.last_error.as_ref().map(Error::share);
        known.unwrap_or_else(|| self.options.timed_out(Deadline::Connect).into())
    }

    fn next_limit(&self) -> Option<Instant> {
        self.limits.first().map(|(at, _)| at)
    }

    fn has_something_to_send(&self) -> bool {
        let has_queued =
            self.is_open() && (!self.queued.is_empty() || self.pulls.lacking().is_some());
        has_queued || self.session.as_ref().is_some_and(Session::is_queued)
    }

    /// Sends a ping if nothing has arrived for a while; otherwise returns when to.
    fn ping(&mut self, now: Instant) -> Option<Instant> {
        let session = self.session.as_mut().filter(|session| session.is_open())?;
        if session.is_pinging() {
            return None;
        }
        let (_, heard_at) = self.heard?;
        let at = heard_at.checked_add(self.options.ping_interval?)?;
        if at > now {
            return Some(at);
        }
        session.ping(None);
        None
    }

    /// Hands over what is due.
    fn queue(&mut self, io: &mut Io<Error>) {
        while let Some(session) = &mut self.session
            && session.is_open()
            && session.unwritten(io) < ENOUGH_OUTGOING
        {
            if let Some((caller, queue)) = self.pulls.take_look() {
                self.send_for(Action::Count, &queue, Waiter::Look(queue.clone(), caller));
                continue;
            }
            // In the order of their callers, so that pushes without end do not hold up a pull.
            let lacking = self.pulls.lacking();
            let is_next = |number: &u64| lacking.as_ref().is_none_or(|(caller, _)| number < caller);
            if let Some(number) = self.queued.first().filter(is_next) {
                self.queued.remove(number);
                self.send_task(number);
            } else if let Some((_, queue)) = lacking {
                match self.encoding {
                    Encoding::Binary => self.pull(&queue),
                    // A JSON pull from a missing queue crashes the server.
                    Encoding::Json => {
                        self.pulls.checks(&queue);
                        self.send_for(Action::Count, &queue, Waiter::Check(queue.clone()));
                    }
                }
            } else {
                break;
            }
        }
        if let Some(session) = &mut self.session {
            session.hand_over(io);
        }
    }

    fn send_task(&mut self, number: u64) {
        let Some(task) = self.tasks.get_mut(&number) else { return };
        if let (TaskStage::PushBatch(batch), Some(session)) = (&mut task.stage, &mut self.session) {
            self.metrics.commands += batch.undone as u64;
            session.send_run(batch.first, batch.open(), Waiter::Task(number));
            batch.is_sent = true;
            return;
        }
        let TaskStage::Queued(name) = mem::replace(&mut task.stage, TaskStage::Pinging) else {
            return;
        };
        if let Some(name) = &name {
            self.names.remove(name);
        }
        match name {
            Some(name) if name.0 == Action::Pull && self.encoding == Encoding::Json => {
                task.stage = TaskStage::Checking(name);
                if let Some(queue) = task.ask.queue().cloned() {
                    self.send_for(Action::Count, &queue, Waiter::Task(number));
                }
            }
            Some(name) => self.send_request(number, name),
            None => {
                self.metrics.commands += 1;
                if let Some(session) = &mut self.session {
                    session.ping(Some(Waiter::Task(number)));
                }
            }
        }
    }

    fn send_request(&mut self, number: u64, name: RequestName) {
        let (Some(task), Some(session)) = (self.tasks.get_mut(&number), &mut self.session) else {
            return;
        };
        self.metrics.commands += 1;
        let queue = task.ask.queue().map_or("", QueueName::as_str);
        session.send(name, queue, task.ask.body(), Waiter::Task(number));
        task.stage = TaskStage::Sent(name);
        task.epoch = self.epoch;
    }

    /// No caller is left: notifies the server without waiting, because it does not answer.
    fn take_leave(&mut self, io: &mut Io<Error>, now: Instant) -> Need {
        let Some(session) = self.session.as_mut().filter(|session| session.is_open()) else {
            return Need::Over;
        };
        let by = *self.leave_by.get_or_insert_with(|| {
            session.close();
            after(now, LEAVING)
        });
        session.hand_over(io);
        if io.is_drained() || by <= now { Need::Over } else { Need::Use(Some(by)) }
    }
}
