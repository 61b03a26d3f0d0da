//! The worker role of one connection, without its socket and its clock.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::{Buf, BytesMut};

use super::{
    assignment::{Assignment, Grab},
    budget::{Budget, Refusals},
    confirm::Confirmations,
    dialect::Dialect,
    limit::{Ask, JobLimit, SHARED},
    work::{End, Report, Settled, job_lost},
};
use crate::{
    Address, ClientId, Error, ErrorKind, FunctionName, JobHandle, Origin,
    keys::Keys,
    protocol::{Epoch, Packet, PacketType, packet::request, request::refusal},
    short::Short,
    text::Decimal,
};

/// The worker role on the connections to one server, one after the other: [`reopen`](Self::reopen) begins the next.
///
/// It asks for jobs while there is room, sleeps on the server when there is none, and is told of new ones:
///
/// ```text
///              GRAB_JOB*                        NO_JOB, no other grab under way
///   awake ───────────────► JOB_ASSIGN*   awake ─────────────────────────────────► PRE_SLEEP: asleep
///     ▲                                                                                      │
///     └───────────── NOOP, or a job was finished, or it is time to look again ───────────────┘
/// ```
///
/// * NOOP wakes only a sleeper; at any other time it says nothing new. When NOOP is followed by NO_JOB again and again
///   the worker waits a while before it asks: gearmand can be in a state where it would go on for ever.
/// * The number of grabs under way doubles as long as they bring jobs, up to the number of free places.
/// * The server does not acknowledge results. It answers in order, though: the answer to a later grab or echo shows that
///   a result was taken, and an ERROR before it that it was not.
/// * With a [`JobLimit`] it never asks for more jobs than are left.
/// * A server that does not know a kind of grab answers with an ERROR, or not within a second, or closes the connection,
///   twice: then an older kind is tried. What a server has answered is asked first on later connections, for an hour.
/// * An exception is followed by a WORK_FAIL where the server has refused all but the oldest kind of grab: for Perl's
///   Gearman::Server an exception does not end a job. For all others it does.
/// * When every kind is refused, it asks again after a time that doubles, until a grab is answered.
/// * A handler that goes on after its connection was lost keeps its place until it has ended, and no other run of the
///   same job begins before that; nor does one of a job that came again because its announced time was over.
#[derive(Debug)]
pub struct WorkerSession {
    origin: Origin,
    opened: Instant,
    outgoing: BytesMut,
    /// How many bytes were queued on this connection.
    queued: u64,
    /// How many packets were queued since somebody asked.
    commands: u64,
    client_id: Option<ClientId>,
    functions: HashSet<FunctionName, Keys>,
    /// The same with their timeouts, as each new connection is told them.
    abilities: Vec<(FunctionName, Option<Duration>)>,
    places: usize,
    dialect: Dialect,
    /// Whether the server has answered a grab on this connection.
    is_grab_proven: bool,
    /// Whether this connection has brought a job.
    has_brought_job: bool,
    /// Grabs without an answer, instead of which others were sent. An answer may still come.
    given_up: VecDeque<Grab>,
    confirmations: Confirmations,
    /// How many grabs may be under way.
    window: usize,
    /// The jobs that this connection holds.
    running: HashMap<Short, Held, Keys>,
    /// Those among them that may not begin yet.
    waiting: Vec<Assignment>,
    /// Jobs that came again while they run here: their time was over, and the server gave them to this connection.
    again: Vec<Assignment>,
    /// Jobs of earlier connections whose handlers go on.
    going_on: Vec<(Epoch, Short)>,
    /// Jobs that nobody will end: they go back to the server when the connection closes.
    left: usize,
    rest: Rest,
    regrab: Duration,
    /// How long a kind of grab that the server may not know is waited for.
    silence: Duration,
    budget: Budget,
    refusals: Refusals,
    is_started: bool,
    is_stopping: bool,
    limit: Option<JobLimit>,
}

/// A job that the connection holds.
#[derive(Debug, Clone, Copy)]
struct Held {
    /// Whether a handler has begun with it.
    has_begun: bool,
    /// When the time is over that was announced for it, if one was: the server gives it to others then.
    until: Option<Instant>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rest {
    Awake,
    /// PRE_SLEEP was sent.
    Asleep(Instant),
    /// Nothing is asked before.
    Paused(Instant),
}

/// What an answer to a grab is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Answer {
    /// The oldest grab that is waited for.
    Expected,
    /// One that was given up.
    Late,
}

impl WorkerSession {
    /// The state of a connection that was just made to this server, with room for so many jobs at once. A sleeping
    /// worker looks for jobs every `regrab` even if nothing wakes it.
    #[must_use]
    pub fn new(
        server: Arc<Address>,
        places: usize,
        grab: Grab,
        regrab: Duration,
        now: Instant,
    ) -> Self {
        WorkerSession {
            origin: Origin { server, epoch: Epoch::next() },
            opened: now,
            outgoing: BytesMut::new(),
            queued: 0,
            commands: 0,
            client_id: None,
            functions: HashSet::default(),
            abilities: Vec::new(),
            places: places.max(1),
            dialect: Dialect::new(grab),
            is_grab_proven: false,
            has_brought_job: false,
            given_up: VecDeque::new(),
            confirmations: Confirmations::default(),
            window: 1,
            running: HashMap::default(),
            waiting: Vec::new(),
            again: Vec::new(),
            going_on: Vec::new(),
            left: 0,
            rest: Rest::Awake,
            regrab,
            silence: SILENCE,
            budget: Budget::new(now),
            refusals: Refusals::default(),
            is_started: false,
            is_stopping: false,
            limit: None,
        }
    }

    /// How long an answer is waited for before the connection is given up. A server that does not know a kind of grab, and
    /// says nothing, is asked with an older one well before that.
    pub fn set_reply_timeout(&mut self, timeout: Duration) {
        self.silence = SILENCE.min(timeout / 2);
    }

    /// The connection was made anew: the server is told who this is and what it can do. What was learnt of the server
    /// is kept, and so is what goes on.
    pub fn reopen(&mut self, now: Instant) {
        self.close();
        self.origin.epoch = Epoch::next();
        self.opened = now;
        self.has_brought_job = false;
        (self.queued, self.commands) = (0, 0);
        self.is_grab_proven = false;
        self.confirmations.reopen();
        self.window = 1;
        self.rest = Rest::Awake;
        self.budget = Budget::new(now);
        self.dialect.reconnected(now);
        if let Some(id) = self.client_id.clone() {
            self.set_client_id(&id);
        }
        for (function, timeout) in std::mem::take(&mut self.abilities) {
            self.announce(&function, timeout);
            self.abilities.push((function, timeout));
        }
    }

    /// Names the worker (SET_CLIENT_ID).
    pub fn set_client_id(&mut self, id: &ClientId) {
        self.client_id = Some(id.clone());
        self.put(PacketType::SetClientId, &[], id.as_bytes());
    }

    /// Registers a function (CAN_DO), or one whose jobs the server gives to others after `timeout` (CAN_DO_TIMEOUT, in
    /// whole milliseconds, rounded up). A function that is registered already is not registered twice on a connection.
    pub fn can_do(&mut self, function: &FunctionName, timeout: Option<Duration>) {
        self.abilities.retain(|(known, _)| known != function);
        self.abilities.push((function.clone(), timeout));
        if self.functions.insert(function.clone()) {
            self.announce(function, timeout);
        }
    }

    fn announce(&mut self, function: &FunctionName, timeout: Option<Duration>) {
        match timeout {
            None => self.put(PacketType::CanDo, &[], function.as_bytes()),
            Some(timeout) => {
                let milliseconds = timeout.as_nanos().div_ceil(1_000_000);
                let milliseconds = Decimal::new(milliseconds.min(MAX_TIMEOUT_MS) as u64);
                let arguments = [function.as_bytes()];
                self.put(PacketType::CanDoTimeout, &arguments, milliseconds.as_bytes());
            }
        }
    }

    /// Takes a function back (CANT_DO).
    ///
    /// # Errors
    ///
    /// `InvalidInput` while jobs are running: the server would give those of the function to others.
    pub fn cant_do(&mut self, function: &FunctionName) -> Result<(), Error> {
        self.refuse_while_running("CANT_DO")?;
        self.functions.remove(function);
        self.abilities.retain(|(known, _)| known != function);
        self.put(PacketType::CantDo, &[], function.as_bytes());
        Ok(())
    }

    /// Takes all functions back (RESET_ABILITIES).
    ///
    /// # Errors
    ///
    /// `InvalidInput` while jobs are running: the server would give them to others.
    pub fn reset_abilities(&mut self) -> Result<(), Error> {
        self.refuse_while_running("RESET_ABILITIES")?;
        self.functions.clear();
        self.abilities.clear();
        self.put(PacketType::ResetAbilities, &[], b"");
        Ok(())
    }

    fn refuse_while_running(&self, command: &'static str) -> Result<(), Error> {
        if self.running.is_empty() {
            return Ok(());
        }
        let why = "the server would give the running jobs to others: finish them first";
        Err(Error::invalid(why).with_command(command))
    }

    /// Takes at most the jobs that this limit allows.
    pub fn set_limit(&mut self, limit: JobLimit) {
        self.limit = Some(limit);
    }

    /// Whether somebody counts the jobs that it takes.
    #[cfg(any(feature = "tokio", feature = "blocking"))]
    pub(super) fn has_limit(&self) -> bool {
        self.limit.is_some()
    }

    /// Begins to ask for jobs.
    pub fn start(&mut self) {
        self.is_started = true;
    }

    /// Asks for no further job. Grabs under way may still bring some.
    pub fn stop(&mut self) {
        self.is_stopping = true;
        // The first run's result ends it: the server counts it as this connection's again.
        self.again.clear();
        for job in std::mem::take(&mut self.waiting) {
            self.leave(&job.handle);
        }
    }

    /// Whether no job is running and none can come any more.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        self.is_stopping && self.running.is_empty() && self.confirmations.grabs() == 0
    }

    /// Sends ECHO_REQ: its answer confirms everything before. Gives a number for [`is_past`](Self::is_past).
    pub fn send_barrier(&mut self, now: Instant) -> u64 {
        self.put(PacketType::EchoReq, &[], b"");
        self.confirmations.asked(None, self.queued, now)
    }

    /// Whether the barrier with this number was answered.
    #[must_use]
    pub fn is_past(&self, barrier: u64) -> bool {
        self.confirmations.is_past(barrier)
    }

    /// Whether results or reports are not confirmed yet.
    #[must_use]
    pub fn has_unconfirmed(&self) -> bool {
        self.confirmations.has_unconfirmed()
    }

    /// Asks for jobs, or sleeps, as it is time to. Gives when to be called again, if nothing comes before.
    pub fn poll(&mut self, now: Instant) -> Option<Instant> {
        while self.silent_until().is_some_and(|until| until <= now) {
            self.skip_grab(now);
        }
        let due = self.advance(now);
        [due, self.silent_until()].into_iter().flatten().min()
    }

    /// When a grab that a server may not know has waited long enough for its answer.
    fn silent_until(&self) -> Option<Instant> {
        let is_new = self.may_be_unknown() && !self.dialect.is_learnt();
        let asked = self.confirmations.waiting_grab().filter(|_| is_new)?;
        asked.checked_add(self.silence)
    }

    /// Whether the kind of grab that is asked with may be one that the server does not know.
    fn may_be_unknown(&self) -> bool {
        !self.is_grab_proven && self.dialect.has_older()
    }

    /// Gives up the answer to a grab: an older kind is next.
    fn skip_grab(&mut self, now: Instant) {
        let Some(grab) = self.confirmations.withdraw_grab(now) else { return };
        self.given_up.push_back(grab);
        self.give_back(1);
        self.dialect.step_down();
        self.rest = Rest::Awake;
    }

    fn advance(&mut self, now: Instant) -> Option<Instant> {
        if !self.is_started || self.is_stopping || self.functions.is_empty() {
            return None;
        }
        match self.rest {
            Rest::Awake => {}
            Rest::Asleep(until) | Rest::Paused(until) if until > now => return Some(until),
            Rest::Asleep(_) => self.rest = Rest::Awake,
            Rest::Paused(_) => {
                // This is the wake-up that was put off.
                let _ = self.budget.spend(now);
                self.rest = Rest::Awake;
            }
        }
        let taken = self.running.len() + self.left + self.going_on.len();
        let free = self.places.saturating_sub(taken);
        while self.confirmations.grabs() < self.window.min(free) {
            match self.limit.as_ref().map_or(Ask::Granted, JobLimit::ask) {
                Ask::Granted => self.ask(now),
                // Its own answers call again anyway.
                Ask::Later if self.confirmations.grabs() > 0 => return None,
                Ask::Later => return now.checked_add(SHARED),
                Ask::Never => return None,
            }
        }
        None
    }

    fn ask(&mut self, now: Instant) {
        let grab = self.dialect.grab();
        self.put(grab.packet_type(), &[], b"");
        self.confirmations.asked(Some(grab), self.queued, now);
    }

    /// Takes a packet; gives the job that it brings.
    ///
    /// # Errors
    ///
    /// `Protocol` when the packet answers nothing. The connection cannot be used any further then.
    pub fn accept(&mut self, packet: &Packet, now: Instant) -> Result<Option<Assignment>, Error> {
        match packet.packet_type {
            PacketType::Noop => {
                if let Rest::Asleep(_) = self.rest {
                    self.rest = match self.budget.spend(now) {
                        Ok(()) => Rest::Awake,
                        Err(until) => Rest::Paused(until),
                    };
                }
            }
            PacketType::NoJob => {
                if self.answered_grab(packet.packet_type, now)? == Answer::Late {
                    return Ok(None);
                }
                self.give_back(1);
                self.window = 1;
                if self.confirmations.grabs() == 0 && !self.is_stopping {
                    self.put(PacketType::PreSleep, &[], b"");
                    self.rest = Rest::Asleep(now.checked_add(self.regrab).unwrap_or(now));
                }
            }
            PacketType::JobAssign | PacketType::JobAssignUniq | PacketType::JobAssignAll => {
                let answer = self.answered_grab(packet.packet_type, now)?;
                self.window = (self.window * 2).min(self.places);
                self.budget.refill(now);
                self.has_brought_job = true;
                let known = |name: &[u8]| self.functions.get(name).cloned();
                let job = Assignment::parse(packet, &self.origin, known)?;
                return Ok(self.take(job, answer, now));
            }
            PacketType::EchoRes => {
                if self.may_be_unknown() && self.confirmations.next_grab().is_some() {
                    // Answers come in order: the grab before it gets none.
                    self.skip_grab(now);
                }
                self.confirmations.answered(packet.packet_type, false, now)?;
            }
            PacketType::Error => self.refused(packet, now),
            other => {
                return Err(Error::protocol(format!("{other} came, which answers no request")));
            }
        }
        Ok(None)
    }

    /// Takes a job that came, unless it has to wait for another or nobody may take it any more.
    fn take(&mut self, job: Assignment, answer: Answer, now: Instant) -> Option<Assignment> {
        let is_allowed =
            self.limit.as_ref().is_none_or(|limit| limit.take(answer == Answer::Expected));
        if !is_allowed {
            self.left += 1;
            return None;
        }
        if self.running.contains_key(&job.handle.short()) {
            self.again.push(job);
            return None;
        }
        let may_begin = self.may_begin(&job);
        self.hold(&job, now);
        if may_begin {
            return Some(job);
        }
        self.waiting.push(job);
        None
    }

    fn hold(&mut self, job: &Assignment, now: Instant) {
        let timeout =
            self.abilities.iter().find(|(function, _)| *function == job.function).and_then(|a| a.1);
        let timeout = timeout.filter(|timeout| !timeout.is_zero());
        let until = timeout.and_then(|timeout| now.checked_add(timeout.max(LEAST_TIMEOUT)));
        self.running.insert(job.handle.short(), Held { has_begun: false, until });
    }

    /// Whether there is a place for a job, and no earlier run of it goes on.
    fn may_begin(&self, job: &Assignment) -> bool {
        let handle = job.handle.short();
        self.running() < self.places && self.going_on.iter().all(|(_, going)| *going != handle)
    }

    /// A job that had to wait, and may begin now.
    pub fn released(&mut self) -> Option<Assignment> {
        let at = self.waiting.iter().position(|job| self.may_begin(job))?;
        Some(self.waiting.remove(at))
    }

    /// A handler has begun with a job: until the job is [finished](Self::finish) it keeps its place, even when the
    /// connection is lost before that.
    pub fn begin(&mut self, job: &JobHandle) {
        if job.epoch() == Some(self.origin.epoch)
            && let Some(held) = self.running.get_mut(&job.short())
        {
            held.has_begun = true;
        }
    }

    fn answered_grab(&mut self, by: PacketType, now: Instant) -> Result<Answer, Error> {
        let named = Grab::answered_with(by);
        let late = match (named, self.confirmations.next_grab()) {
            (Some(named), Some(next)) if named == next => None,
            (None, Some(_)) => None,
            // What brings no reducer may answer a grab for all as well.
            (Some(named), _) => self.given_up.iter().position(|grab| named.may_answer(*grab)),
            (None, None) => (!self.given_up.is_empty()).then_some(0),
        };
        let (grab, answer) = match late.and_then(|at| self.given_up.drain(..=at).next_back()) {
            Some(grab) => {
                self.confirmations.step(now);
                // No more than that is shown for certain.
                (Some(named.map_or(grab, |named| named.min(grab))), Answer::Late)
            }
            None => (self.confirmations.answered(by, true, now)?, Answer::Expected),
        };
        if let Some(grab) = grab {
            self.dialect.understood(grab, now);
        }
        self.refusals.reset();
        self.is_grab_proven = true;
        Ok(answer)
    }

    /// Whether this connection was good: it has brought a job, or has lasted and its questions were answered. Others are
    /// to be followed by the next after a while.
    #[must_use]
    pub fn is_proven(&self, now: Instant) -> bool {
        let has_lasted = now.saturating_duration_since(self.opened) >= LASTED;
        self.has_brought_job || (has_lasted && self.confirmations.has_answers())
    }

    /// Grabs have not brought a job.
    fn give_back(&self, grabs: usize) {
        if let Some(limit) = &self.limit {
            limit.give_back(grabs as u64);
        }
    }

    /// An ERROR is about a result, or about a kind of grab that the server does not know. It never takes the place of
    /// the answer to a grab that the server knows.
    fn refused(&mut self, packet: &Packet, now: Instant) {
        let error = refusal(packet);
        if error.kind() == ErrorKind::JobNotFound {
            return self.confirmations.rejected(&packet.body);
        }
        // The oldest question is answered first.
        if self.is_grab_proven {
            return;
        }
        if self.given_up.pop_front().is_some() {
            return self.confirmations.step(now);
        }
        if self.confirmations.withdraw_grab(now).is_some() {
            self.give_back(1);
            self.rest = if self.dialect.step_down() {
                Rest::Awake
            } else {
                let until = now.checked_add(self.refusals.next_delay());
                until.map_or(Rest::Awake, Rest::Paused)
            };
            self.poll(now);
        }
    }

    /// The oldest question got no answer in time. Some servers leave a grab that they do not know unanswered: then an
    /// older kind is tried, and this gives `true`. Otherwise the connection is out of step.
    pub fn give_up_waiting(&mut self, now: Instant) -> bool {
        let is_unknown_grab = self.may_be_unknown() && self.confirmations.waiting_grab().is_some();
        if is_unknown_grab {
            self.skip_grab(now);
            self.poll(now);
        }
        is_unknown_grab
    }

    /// Since when the oldest question waits for its answer: it was asked then, or the answer before it came.
    #[must_use]
    pub fn waiting_since(&self) -> Option<Instant> {
        self.confirmations.waiting_since()
    }

    /// Whether a connection that has taken so many bytes waits for the answer to a question.
    #[cfg(any(feature = "tokio", feature = "blocking"))]
    pub(super) fn is_waiting(&self, sent: u64) -> bool {
        self.confirmations.is_waiting(sent)
    }

    /// How many answers have come, and how many questions were given up, in all: when it grows, a barrier may be past.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.confirmations.steps()
    }

    /// Reports on a job: WORK_STATUS, WORK_DATA or WORK_WARNING.
    ///
    /// # Errors
    ///
    /// `JobLost` when this connection does not hold the job; `InvalidInput` for a progress of 0 parts: it kills the
    /// `gearman` program that waits for it.
    pub fn report(&mut self, job: &JobHandle, report: Report<'_>) -> Result<(), Error> {
        let handle = self.held(job)?;
        match report {
            Report::Status(_, 0) => {
                let why = "a progress of 0 parts is not valid: it ends some clients";
                return Err(Error::invalid(why).with_command(PacketType::WorkStatus.name()));
            }
            Report::Status(numerator, denominator) => {
                let (numerator, denominator) = (Decimal::new(numerator), Decimal::new(denominator));
                let arguments = [handle.as_bytes(), numerator.as_bytes()];
                self.put(PacketType::WorkStatus, &arguments, denominator.as_bytes());
                self.confirmations.told(PacketType::WorkStatus);
            }
            Report::Data(data) => self.put_work(PacketType::WorkData, handle, data),
            Report::Warning(data) => self.put_work(PacketType::WorkWarning, handle, data),
        }
        Ok(())
    }

    /// Ends a job, and asks for the next one: both go out in one write.
    ///
    /// # Errors
    ///
    /// `JobLost` when this connection does not hold the job.
    pub fn finish(&mut self, job: &JobHandle, end: End<'_>, now: Instant) -> Result<(), Error> {
        let handle = self.let_go(job, now)?;
        match end {
            End::Complete(data) => self.put_work(PacketType::WorkComplete, handle, data),
            End::Exception(data) => {
                self.put_work(PacketType::WorkException, handle, data);
                if self.dialect.is_oldest() {
                    // It passes the exception on, and lets the job run on.
                    self.put(PacketType::WorkFail, &[], handle.as_bytes());
                    self.confirmations.repeated(PacketType::WorkFail);
                }
            }
            End::Fail => {
                self.put(PacketType::WorkFail, &[], handle.as_bytes());
                self.confirmations.told(PacketType::WorkFail);
            }
        }
        if let Rest::Asleep(_) = self.rest {
            self.rest = Rest::Awake;
        }
        self.poll(now);
        Ok(())
    }

    /// Nobody will end this job. It goes back to the server when the connection closes, which need not wait for it.
    pub fn leave(&mut self, job: &JobHandle) {
        if job.epoch() == Some(self.origin.epoch) && self.running.remove(&job.short()).is_some() {
            self.left += 1;
        } else {
            self.end_elsewhere(job);
        }
    }

    /// Nobody will end any of its jobs.
    #[cfg(feature = "blocking")]
    pub(super) fn leave_all(&mut self) {
        self.left += self.running.len();
        self.running.clear();
        self.waiting.clear();
    }

    /// Whether the job is still this connection's.
    #[must_use]
    pub fn holds(&self, job: &JobHandle) -> bool {
        self.held(job).is_ok()
    }

    /// When the time is over that the server was told a job may take, if it was told one. It gives the job to others then
    /// and says nothing; the answer to the result shows that it has.
    #[must_use]
    pub fn held_until(&self, job: &JobHandle) -> Option<Instant> {
        let is_here = job.epoch() == Some(self.origin.epoch);
        self.running.get(&job.short()).filter(|_| is_here).and_then(|held| held.until)
    }

    /// Takes a job off the connection, to end it.
    fn let_go(&mut self, job: &JobHandle, now: Instant) -> Result<Short, Error> {
        let handle = job.short();
        if job.epoch() == Some(self.origin.epoch) && self.running.remove(&handle).is_some() {
            let Some(at) = self.again.iter().position(|again| again.handle.short() == handle)
            else {
                return Ok(handle);
            };
            // The server would take this result for that of the second run, which can begin now.
            let again = self.again.remove(at);
            self.hold(&again, now);
            self.waiting.push(again);
            self.confirmations.reject();
        } else {
            self.end_elsewhere(job);
        }
        Err(job_lost(job))
    }

    /// A handler of an earlier connection has ended: its place is free.
    fn end_elsewhere(&mut self, job: &JobHandle) {
        let handle = job.short();
        let is_it = |going: &(Epoch, Short)| job.epoch() == Some(going.0) && going.1 == handle;
        if let Some(at) = self.going_on.iter().position(is_it) {
            self.going_on.swap_remove(at);
        }
    }

    fn held(&self, job: &JobHandle) -> Result<Short, Error> {
        let handle = job.short();
        if job.epoch() == Some(self.origin.epoch) && self.running.contains_key(&handle) {
            return Ok(handle);
        }
        Err(job_lost(job))
    }

    fn put_work(&mut self, packet_type: PacketType, handle: Short, data: &[u8]) {
        self.put(packet_type, &[handle.as_bytes()], data);
        self.confirmations.told(packet_type);
    }

    fn put(&mut self, packet_type: PacketType, arguments: &[&[u8]], last: &[u8]) {
        let before = self.outgoing.len();
        request(&mut self.outgoing, packet_type, arguments, last);
        self.queued += (self.outgoing.len() - before) as u64;
        self.commands += 1;
        self.confirmations.count();
    }

    /// The bytes to write next.
    #[must_use]
    pub fn outgoing(&self) -> &[u8] {
        &self.outgoing
    }

    /// Notes that the transport took the first `n` outgoing bytes.
    pub fn sent(&mut self, n: usize) {
        let n = n.min(self.outgoing.len());
        self.outgoing.advance(n);
        if self.outgoing.is_empty() && self.outgoing.capacity() > KEEP_OUTGOING {
            self.outgoing = BytesMut::new();
        }
    }

    /// Exchanges the outgoing bytes for an empty buffer, so that they can be written while more are queued.
    pub fn swap_outgoing(&mut self, empty: &mut BytesMut) {
        empty.clear();
        if empty.capacity() > KEEP_OUTGOING {
            *empty = BytesMut::new();
        }
        std::mem::swap(&mut self.outgoing, empty);
    }

    /// How many packets were queued since it was last asked.
    pub fn take_commands(&mut self) -> u64 {
        std::mem::take(&mut self.commands)
    }

    /// What became of results since it was last asked.
    pub fn settled(&mut self) -> impl Iterator<Item = Settled> {
        self.confirmations.settled()
    }

    /// The connection is lost or closed: nothing can be sent for its jobs any more.
    pub fn close(&mut self) {
        self.give_back(self.confirmations.grabs());
        if !self.is_grab_proven && self.confirmations.waiting_grab().is_some() {
            // A server that was silent to every kind has shown nothing.
            match self.given_up.is_empty() {
                true => self.dialect.closed(),
                false => self.dialect.forget(),
            }
        }
        self.given_up.clear();
        self.confirmations.close(self.running.len() + self.left);
        let epoch = self.origin.epoch;
        let begun = self.running.drain().filter(|(_, held)| held.has_begun);
        self.going_on.extend(begun.map(|(handle, _)| (epoch, handle)));
        self.waiting.clear();
        self.again.clear();
        self.left = 0;
        self.outgoing.clear();
    }

    /// How many results were lost with their connections, in all.
    #[cfg(any(feature = "tokio", feature = "blocking"))]
    pub(super) fn unknown(&self) -> u64 {
        self.confirmations.unknown()
    }

    /// How many jobs this connection holds that may run.
    #[must_use]
    pub fn running(&self) -> usize {
        self.running.len() - self.waiting.len()
    }

    /// The server and the number of this connection.
    #[must_use]
    pub fn origin(&self) -> &Origin {
        &self.origin
    }
}

impl Drop for WorkerSession {
    fn drop(&mut self) {
        self.give_back(self.confirmations.grabs());
    }
}

/// A server that answers and then closes, again and again, gets no further.
const LASTED: Duration = Duration::from_secs(1);

/// How long a server that never answered a kind of grab is waited for, at most, before an older kind is tried.
const SILENCE: Duration = Duration::from_secs(1);

/// What gearmand makes of a shorter timeout.
const LEAST_TIMEOUT: Duration = Duration::from_secs(1);

/// The longest timeout that is sent: gearmand takes up to 20 digits, and keeps 31 bits.
const MAX_TIMEOUT_MS: u128 = i32::MAX as u128;

/// The largest outgoing buffer that is kept.
const KEEP_OUTGOING: usize = 256 * 1024;
