//! The worker role of one connection, without socket or clock.

mod abilities;
mod grabs;
mod jobs;
mod letters;

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    task::Waker,
    time::{Duration, Instant},
};

use bytes::BytesMut;
use queue_core::{Claims, Health, JobLimit, Later, Measures, earliest, emptied, written};

use self::abilities::AbilityChange;
pub(crate) use self::letters::Letter;
use super::{
    assignment::{Assignment, Grab},
    budget::Budget,
    confirm::{Confirmations, Question},
    dialect::Dialect,
    refusals::Refusals,
    work::Settled,
};
use crate::{
    Address, ClientId, Epoch, Error, FunctionName, Origin,
    names::{keys::Keys, short::ShortId},
    protocol::{Packet, PacketType, packet::request},
};

/// The worker role on successive connections to one server: [`reopen`](Self::reopen) starts the next.
///
/// It requests jobs while there is room, sleeps on the server when there are none, and is woken for new ones:
///
/// ```text
///              GRAB_JOB*                        NO_JOB, no other grab under way
///   awake ───────────────► JOB_ASSIGN*   awake ─────────────────────────────────► PRE_SLEEP: asleep
///     ▲                                                                                      │
///     └───────────── NOOP, or a job was finished, or it is time to look again ───────────────┘
/// ```
///
/// * gearmand looks for jobs of the function first that was announced last. So the functions are announced together, the
///   first one last, before the first grab or barrier; one that comes later is announced at once, and served first until
///   the next connection.
/// * It withdraws a function only behind the answers to its grabs, since the server would give their jobs to others.
/// * NOOP wakes only a sleeping worker; at any other time it has no meaning. When NOOP is followed by NO_JOB
///   repeatedly, the worker waits a while before it asks: gearmand can be in a state in which this would go on forever.
/// * The number of grabs in flight doubles while they bring jobs, up to the number of free slots.
/// * The server does not acknowledge results, but it answers in order: the answer to a later grab or echo shows that it
///   accepted a result, and an ERROR before that answer that it did not.
/// * With a [`JobLimit`] it never requests more jobs than are left.
/// * A server that does not know a kind of grab answers with an ERROR or closes the connection twice, and the newest
///   kind not within a second; then an older kind is tried. On later connections the kind that worked is used first,
///   for an hour.
/// * An exception is followed by a WORK_FAIL where the server has refused all but the oldest kind of grab: for Perl's
///   Gearman::Server an exception does not end a job. For all others it does.
/// * When every kind is refused, it asks again after a growing delay, until a grab is answered.
/// * A job that fails becomes a dead letter first, if there is a function for that: the same connection submits it, and
///   the job ends once that is confirmed. If the server refuses it, the job is given back.
/// * After a job was given back it requests no more. It is [spent](Self::is_spent) when its other jobs have ended: the
///   server runs the job again once the connection is closed. The next connection announces the functions of such jobs
///   first, so that those of others have their turn.
/// * A handler that continues after its connection was lost keeps its slot until it has ended, and no other run of the
///   same job starts before that. The same applies to a job that returns because its announced timeout has passed.
#[derive(Debug)]
pub struct WorkerSession {
    origin: Origin,
    opened: Instant,
    outgoing: BytesMut,
    /// Number of bytes queued on this connection.
    queued: u64,
    /// Number of packets queued since the last call of `take_commands`.
    commands: u64,
    client_id: Option<ClientId>,
    /// The functions known to the server, with the timeouts of their jobs.
    functions: HashMap<FunctionName, Option<Duration>, Keys>,
    /// The functions and their timeouts, in the order in which they were registered.
    abilities: Vec<(FunctionName, Option<Duration>)>,
    /// What the server has yet to be told of them.
    changes: VecDeque<AbilityChange>,
    places: usize,
    dialect: Dialect,
    /// Whether the server has answered a grab on this connection.
    is_grab_proven: bool,
    /// Whether this connection has brought a job.
    has_brought_job: bool,
    /// Whether the last connection has brought jobs, and none of them has ended.
    was_in_vain: bool,
    /// Unanswered grabs that were replaced by others. Their answers may still arrive.
    given_up: VecDeque<Grab>,
    /// How many grabs of kind `Uniq` were sent on this connection, and how many JOB_ASSIGN_UNIQ have come.
    unique: (u64, u64),
    pub(super) confirmations: Confirmations,
    /// Maximum number of grabs in flight.
    window: usize,
    /// The jobs that this connection holds.
    running: HashMap<ShortId, HeldJob, Keys>,
    /// Jobs that may not start yet.
    waiting: Vec<Assignment>,
    /// Jobs that were assigned to this connection again while they run here, because their timeout has passed.
    again: Vec<Assignment>,
    /// Jobs of earlier connections whose handlers are still running.
    going_on: Vec<(Epoch, ShortId)>,
    /// Number of jobs left to the server, which gets them back when the connection closes.
    left: usize,
    /// The function of dead letters, and those that the server has not confirmed yet, in order.
    dead_letter: Option<FunctionName>,
    letters: VecDeque<Letter>,
    /// Those that are confirmed or refused.
    posted: Vec<Letter>,
    /// Whether a job was given back on this connection.
    is_returning: bool,
    /// The functions of the jobs that were given back on this connection.
    set_back: Vec<FunctionName>,
    /// How many connections have given a job back since a job has ended.
    pub(super) fruitless: u32,
    rest: IdleState,
    regrab: Duration,
    /// How long to wait for the answer to a kind of grab that the server may not know.
    silence: Duration,
    budget: Budget,
    refusals: Refusals,
    /// Whether the functions are announced: on this connection, or on the next one as soon as it is there.
    has_announced: bool,
    is_started: bool,
    is_stopping: bool,
    pub(super) limit: Option<Claims>,
    /// The observer of grabs and results.
    pub(crate) measures: Measures,
}

/// A job that the connection holds.
#[derive(Debug)]
struct HeldJob {
    function: FunctionName,
    /// Whether its handler has started.
    has_begun: bool,
    /// When its announced timeout passes, if it has one: the server then gives it to another worker.
    until: Option<Instant>,
    /// The job and the number of its runs as far as known, if it is to become a dead letter when it fails.
    to_keep: Option<Box<(Assignment, u32)>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum IdleState {
    Awake,
    /// PRE_SLEEP was sent.
    Asleep(Instant),
    /// Nothing is requested before this.
    Paused(Instant),
}

/// The grab that an answer belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AnsweredGrab {
    /// The oldest grab in flight.
    Expected,
    /// One that was given up.
    Late,
}

impl WorkerSession {
    /// The state of a new connection to this server, with room for `slots` jobs at once. A sleeping worker polls for
    /// jobs every `regrab` even if nothing wakes it.
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
            functions: HashMap::default(),
            abilities: Vec::new(),
            changes: VecDeque::new(),
            places: places.max(1),
            dialect: Dialect::new(grab),
            is_grab_proven: false,
            has_brought_job: false,
            was_in_vain: false,
            given_up: VecDeque::new(),
            unique: (0, 0),
            confirmations: Confirmations::default(),
            window: 1,
            running: HashMap::default(),
            waiting: Vec::new(),
            again: Vec::new(),
            going_on: Vec::new(),
            left: 0,
            dead_letter: None,
            letters: VecDeque::new(),
            posted: Vec::new(),
            is_returning: false,
            set_back: Vec::new(),
            fruitless: 0,
            rest: IdleState::Awake,
            regrab,
            silence: SILENCE,
            budget: Budget::new(now),
            refusals: Refusals::default(),
            has_announced: false,
            is_started: false,
            is_stopping: false,
            limit: None,
            measures: Measures::default(),
        }
    }

    /// How long to wait for an answer before the connection is given up. If a server does not answer a kind of grab
    /// that it does not know, an older one is tried well before that.
    pub fn set_reply_timeout(&mut self, timeout: Duration) {
        self.silence = SILENCE.min(timeout / 2);
    }

    /// Starts on a new connection: the server is told the worker's id and functions. What was learnt about the server
    /// is kept, and so are running jobs.
    pub fn reopen(&mut self, now: Instant) {
        self.close();
        self.origin.epoch = Epoch::next();
        self.opened = now;
        self.was_in_vain =
            std::mem::take(&mut self.has_brought_job) && !self.confirmations.has_results;
        (self.queued, self.commands) = (0, 0);
        self.is_grab_proven = false;
        self.confirmations.reopen();
        self.window = 1;
        self.rest = IdleState::Awake;
        self.budget = Budget::new(now);
        self.dialect.reconnected(now);
        if let Some(id) = self.client_id.clone() {
            self.set_client_id(&id);
        }
        self.functions.clear();
        if self.has_announced {
            self.announce_all();
        }
    }

    /// Its function, if it has only one.
    pub(super) fn only_function(&self) -> Option<&FunctionName> {
        match self.abilities.as_slice() {
            [(only, _)] => Some(only),
            _ => None,
        }
    }

    /// Takes at most the number of jobs that this limit allows.
    pub fn set_limit(&mut self, limit: JobLimit) {
        self.limit = Some(Claims::new(limit));
    }

    /// Hands out what must not happen under a lock: observers of grabs and results are told, and tasks that wait for the
    /// last job of a limit are woken.
    pub(super) fn hand_out(&mut self, later: &mut Later, wake: &mut Vec<Waker>) {
        self.confirmations.later.append_to(later);
        if let Some(limit) = &mut self.limit {
            limit.append_woken_to(wake);
        }
    }

    /// Announces the functions, and starts requesting jobs.
    pub fn start(&mut self) {
        self.is_started = true;
        self.announce_first();
    }

    /// Requests no further job. Grabs in flight may still bring some.
    pub fn stop(&mut self) {
        self.is_stopping = true;
        self.leave_waiting();
    }

    /// Whether no job is running and none can arrive any more.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        self.is_stopping && self.running.is_empty() && self.confirmations.grabs == 0
    }

    /// Whether a job was given back, and no other is running and none can arrive any more.
    #[must_use]
    pub fn is_spent(&self) -> bool {
        self.is_returning && self.running.is_empty() && self.confirmations.grabs == 0
    }

    /// Sends ECHO_REQ, whose answer confirms everything before it. Returns a number for [`is_past`](Self::is_past).
    pub fn send_barrier(&mut self, now: Instant) -> u64 {
        self.announce_first();
        self.put(PacketType::EchoReq, &[], b"");
        self.confirmations.asked(Question::Echo, self.queued, None, now)
    }

    /// Whether the barrier with this number was answered.
    #[must_use]
    pub fn is_past(&self, barrier: u64) -> bool {
        self.confirmations.is_past(barrier)
    }

    /// Whether results or reports are unconfirmed.
    #[must_use]
    pub fn has_unconfirmed(&self) -> bool {
        self.confirmations.has_unconfirmed()
    }

    /// Requests jobs, or sleeps, when it is time to. Returns when to call it again if nothing arrives before.
    pub fn poll(&mut self, now: Instant) -> Option<Instant> {
        while self.silent_until().is_some_and(|until| until <= now) {
            self.skip_grab(now);
        }
        earliest([self.advance(now), self.silent_until()])
    }

    /// Handles a packet; returns the job that it brings.
    ///
    /// # Errors
    ///
    /// `Protocol` when the packet answers nothing. The connection is unusable then.
    pub fn accept(&mut self, packet: &Packet, now: Instant) -> Result<Option<Assignment>, Error> {
        match packet.packet_type {
            PacketType::Noop => {
                if let IdleState::Asleep(_) = self.rest {
                    self.rest = match self.budget.spend(now) {
                        Ok(()) => IdleState::Awake,
                        Err(until) => IdleState::Paused(until),
                    };
                }
            }
            PacketType::NoJob => {
                let (answer, observation) = self.answered_grab(packet.packet_type, now)?;
                self.confirmations.grabbed(observation, None);
                if answer == AnsweredGrab::Late {
                    return Ok(None);
                }
                self.give_back(1);
                self.window = 1;
                if self.confirmations.grabs == 0 && !self.is_stopping && !self.is_returning {
                    self.put(PacketType::PreSleep, &[], b"");
                    self.rest = IdleState::Asleep(queue_core::after(now, self.regrab));
                }
            }
            PacketType::JobAssign | PacketType::JobAssignUniq | PacketType::JobAssignAll => {
                let (job, timeout, answer) = self.assigned(packet, 0, now)?;
                return Ok(self.take(job, timeout, answer, now));
            }
            PacketType::EchoRes => {
                if self.may_be_unknown() && self.confirmations.next_grab().is_some() {
                    // Answers come in order, so the grab before it will get none.
                    self.skip_grab(now);
                }
                self.confirmations.answered(packet.packet_type, now)?;
            }
            PacketType::JobCreated => {
                self.confirmations.answered(packet.packet_type, now)?;
                self.letter_is_confirmed(now);
            }
            PacketType::Error => self.refused(packet, now),
            other => {
                return Err(Error::protocol(format!(
                    "unexpected {other}, which matches no request"
                )));
            }
        }
        Ok(None)
    }

    /// Whether this connection was good: a job of it has ended, it has brought a job and the last one did not so in
    /// vain, or it has lasted and answered its requests. After any other, the next connection has to wait: a server that
    /// breaks each connection once it has brought a job would run it thousands of times a second.
    #[must_use]
    pub fn is_proven(&self, now: Instant) -> bool {
        self.confirmations.has_results
            || (self.has_brought_job && !self.was_in_vain)
            || (Health::has_lasted(self.opened, now) && self.confirmations.has_answers)
    }

    /// Since when the oldest request has been next in line for an answer: when it was sent, or when the answer before
    /// it arrived.
    #[must_use]
    pub fn waiting_since(&self) -> Option<Instant> {
        self.confirmations.waiting_since()
    }

    fn put(&mut self, packet_type: PacketType, arguments: &[&[u8]], last: &[u8]) {
        let before = self.outgoing.len();
        request(&mut self.outgoing, packet_type, arguments, last);
        self.queued += (self.outgoing.len() - before) as u64;
        self.commands += 1;
        self.confirmations.count();
    }

    /// The next bytes to write.
    #[must_use]
    pub fn outgoing(&self) -> &[u8] {
        &self.outgoing
    }

    /// Records that the transport took the first `n` outgoing bytes.
    pub fn sent(&mut self, n: usize) {
        written(&mut self.outgoing, n);
    }

    /// Swaps the outgoing bytes for an empty buffer, so that they can be written while more are queued.
    pub fn swap_outgoing(&mut self, empty: &mut BytesMut) {
        emptied(empty);
        std::mem::swap(&mut self.outgoing, empty);
    }

    /// Number of packets queued since the last call.
    pub fn take_commands(&mut self) -> u64 {
        std::mem::take(&mut self.commands)
    }

    /// The fates of results since the last call.
    pub fn settled(&mut self) -> impl Iterator<Item = Settled> {
        self.confirmations.settled()
    }

    /// The connection is lost or closed, so nothing more can be sent for its jobs.
    pub fn close(&mut self) {
        self.give_back(self.confirmations.grabs);
        if !self.is_grab_proven && self.confirmations.waiting_grab().is_some() {
            // A server that answered no kind of grab has shown nothing.
            match self.given_up.is_empty() {
                true => self.dialect.closed(),
                false => self.dialect.forget(),
            }
        }
        self.given_up.clear();
        self.unique = (0, 0);
        self.confirmations.close(self.running.len() + self.left);
        let epoch = self.origin.epoch;
        self.letters.clear();
        let begun = self.running.drain().filter(|(_, held)| held.has_begun);
        self.going_on.extend(begun.map(|(handle, _)| (epoch, handle)));
        self.waiting.clear();
        self.again.clear();
        self.changes.clear();
        self.left = 0;
        self.is_returning = false;
        self.outgoing.clear();
    }

    /// Number of jobs that this connection holds and may run.
    #[must_use]
    pub fn running(&self) -> usize {
        self.running.len() - self.waiting.len()
    }

    /// Whether no handler runs, not even for a job of an earlier connection.
    pub(super) fn is_idle(&self) -> bool {
        self.running.is_empty() && self.going_on.is_empty()
    }

    /// Whether the server has no job for it: it has answered NO_JOB, and will send NOOP for the next one.
    #[must_use]
    pub fn is_asleep(&self) -> bool {
        matches!(self.rest, IdleState::Asleep(_))
    }

    /// Whether no job can come for now: the server has none, or was told of no function.
    pub(super) fn has_no_work(&self) -> bool {
        let has_no_function = self.functions.is_empty() && self.changes.is_empty();
        self.is_asleep() || self.is_started && has_no_function
    }

    /// The server and the number of this connection.
    #[must_use]
    pub fn origin(&self) -> &Origin {
        &self.origin
    }
}

impl Drop for WorkerSession {
    fn drop(&mut self) {
        self.give_back(self.confirmations.grabs);
    }
}

/// Maximum wait for a server that never answered a kind of grab, before an older kind is tried.
const SILENCE: Duration = Duration::from_secs(1);

/// gearmand raises shorter timeouts to this.
const LEAST_TIMEOUT: Duration = Duration::from_secs(1);

/// The longest timeout that is sent: gearmand accepts up to 20 digits, and keeps 31 bits.
const MAX_TIMEOUT_MS: u128 = i32::MAX as u128;
