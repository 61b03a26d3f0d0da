//! The worker role of one connection, without its socket and its clock.

use std::{
    collections::HashSet,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::{Buf, BytesMut};

use crate::{
    Address, ClientId, Error, ErrorKind, FunctionName, JobHandle, Origin,
    keys::Keys,
    protocol::{
        Assignment, Epoch, Grab, Packet, PacketType,
        budget::Budget,
        confirm::Confirmations,
        limit::{Ask, JobLimit, SHARED},
        packet::request,
        request::refusal,
        work::{End, Report, Settled, job_lost},
    },
    short::Short,
    text::Decimal,
};

/// The worker role of one connection.
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
#[derive(Debug)]
pub struct WorkerSession {
    origin: Origin,
    outgoing: BytesMut,
    /// How many packets were queued since somebody asked.
    commands: u64,
    functions: HashSet<FunctionName, Keys>,
    places: usize,
    grab: Grab,
    /// Whether the server has answered a grab of this kind.
    is_grab_proven: bool,
    confirmations: Confirmations,
    /// How many grabs may be under way.
    window: usize,
    running: HashSet<Short, Keys>,
    /// Jobs that nobody will end: they go back to the server when the connection closes.
    left: usize,
    rest: Rest,
    regrab: Duration,
    budget: Budget,
    is_started: bool,
    is_stopping: bool,
    limit: Option<JobLimit>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rest {
    Awake,
    /// PRE_SLEEP was sent.
    Asleep(Instant),
    /// Nothing is asked before.
    Paused(Instant),
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
            outgoing: BytesMut::new(),
            commands: 0,
            functions: HashSet::default(),
            places: places.max(1),
            grab,
            is_grab_proven: false,
            confirmations: Confirmations::default(),
            window: 1,
            running: HashSet::default(),
            left: 0,
            rest: Rest::Awake,
            regrab,
            budget: Budget::new(now),
            is_started: false,
            is_stopping: false,
            limit: None,
        }
    }

    /// Names the worker (SET_CLIENT_ID).
    pub fn set_client_id(&mut self, id: &ClientId) {
        self.put(PacketType::SetClientId, &[], id.as_bytes());
    }

    /// Registers a function (CAN_DO), or one whose jobs the server gives to others after `timeout` (CAN_DO_TIMEOUT, in
    /// whole milliseconds, rounded up). A function that is registered already is not registered twice.
    pub fn can_do(&mut self, function: &FunctionName, timeout: Option<Duration>) {
        if !self.functions.insert(function.clone()) {
            return;
        }
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

    /// Begins to ask for jobs.
    pub fn start(&mut self) {
        self.is_started = true;
    }

    /// Asks for no further job. Grabs under way may still bring some.
    pub fn stop(&mut self) {
        self.is_stopping = true;
    }

    /// Whether no job is running and none can come any more.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        self.is_stopping && self.running.is_empty() && self.confirmations.grabs() == 0
    }

    /// Sends ECHO_REQ: its answer confirms everything before. Gives a number for [`is_past`](Self::is_past).
    pub fn send_barrier(&mut self, now: Instant) -> u64 {
        self.put(PacketType::EchoReq, &[], b"");
        self.confirmations.asked(false, now)
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
        let free = self.places.saturating_sub(self.running.len() + self.left);
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
        self.put(self.grab.packet_type(), &[], b"");
        self.confirmations.asked(true, now);
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
                self.answered_grab(packet.packet_type)?;
                self.give_back(1);
                self.window = 1;
                if self.confirmations.grabs() == 0 && !self.is_stopping {
                    self.put(PacketType::PreSleep, &[], b"");
                    self.rest = Rest::Asleep(now.checked_add(self.regrab).unwrap_or(now));
                }
            }
            PacketType::JobAssign | PacketType::JobAssignUniq | PacketType::JobAssignAll => {
                self.answered_grab(packet.packet_type)?;
                if let Some(limit) = &self.limit {
                    limit.take();
                }
                self.window = (self.window * 2).min(self.places);
                self.budget.refill(now);
                let known = |name: &[u8]| self.functions.get(name).cloned();
                let job = Assignment::parse(packet, &self.origin, known)?;
                self.running.insert(job.handle.short());
                return Ok(Some(job));
            }
            PacketType::EchoRes => self.confirmations.answered(packet.packet_type, false)?,
            PacketType::Error => self.refused(packet, now),
            other => {
                return Err(Error::protocol(format!("{other} came, which answers no request")));
            }
        }
        Ok(None)
    }

    fn answered_grab(&mut self, by: PacketType) -> Result<(), Error> {
        self.confirmations.answered(by, true)?;
        self.is_grab_proven = true;
        Ok(())
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
        if !self.is_grab_proven && self.confirmations.withdraw_grab() {
            self.fall_back(now);
        }
    }

    /// Asks with an older kind of grab.
    fn fall_back(&mut self, now: Instant) {
        self.give_back(1);
        if let Some(older) = self.grab.fallback() {
            self.grab = older;
            self.rest = Rest::Awake;
            self.poll(now);
        }
    }

    /// The oldest question got no answer in time. Some servers leave a grab that they do not know unanswered: then an
    /// older kind is tried, and this gives `true`. Otherwise the connection is out of step.
    pub fn give_up_waiting(&mut self, now: Instant) -> bool {
        let may_be_unknown = !self.is_grab_proven && self.grab != Grab::Plain;
        let is_unknown_grab = may_be_unknown && self.confirmations.withdraw_grab();
        if is_unknown_grab {
            self.fall_back(now);
        }
        is_unknown_grab
    }

    /// Since when the oldest question waits for its answer.
    #[must_use]
    pub fn waiting_since(&self) -> Option<Instant> {
        self.confirmations.waiting_since()
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
        let handle = self.let_go(job)?;
        match end {
            End::Complete(data) => self.put_work(PacketType::WorkComplete, handle, data),
            End::Exception(data) => self.put_work(PacketType::WorkException, handle, data),
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
        if self.let_go(job).is_ok() {
            self.left += 1;
        }
    }

    /// Whether the job is still this connection's.
    #[must_use]
    pub fn holds(&self, job: &JobHandle) -> bool {
        self.held(job).is_ok()
    }

    fn let_go(&mut self, job: &JobHandle) -> Result<Short, Error> {
        let handle = job.short();
        if job.epoch() == Some(self.origin.epoch) && self.running.remove(&handle) {
            return Ok(handle);
        }
        Err(job_lost(job))
    }

    fn held(&self, job: &JobHandle) -> Result<Short, Error> {
        let handle = job.short();
        if job.epoch() == Some(self.origin.epoch) && self.running.contains(&handle) {
            return Ok(handle);
        }
        Err(job_lost(job))
    }

    fn put_work(&mut self, packet_type: PacketType, handle: Short, data: &[u8]) {
        self.put(packet_type, &[handle.as_bytes()], data);
        self.confirmations.told(packet_type);
    }

    fn put(&mut self, packet_type: PacketType, arguments: &[&[u8]], last: &[u8]) {
        request(&mut self.outgoing, packet_type, arguments, last);
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
        self.confirmations.close(self.running.len() + self.left);
        self.running.clear();
        self.left = 0;
        self.outgoing.clear();
    }

    /// How many jobs this connection holds.
    #[must_use]
    pub fn running(&self) -> usize {
        self.running.len()
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

/// The longest timeout that is sent: gearmand takes up to 20 digits, and keeps 31 bits.
const MAX_TIMEOUT_MS: u128 = i32::MAX as u128;

/// The largest outgoing buffer that is kept.
const KEEP_OUTGOING: usize = 256 * 1024;
