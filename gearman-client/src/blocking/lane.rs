//! One server of a blocking worker: its connection, and the state shared by the holders of its jobs.

use std::{
    collections::VecDeque,
    sync::{Arc, PoisonError},
    time::{Duration, Instant},
};

use queue_core::{
    Io, Pulse, after,
    blocking::{Drive, Wire},
    earliest, lock, now,
    sync::{Condvar, Mutex, MutexGuard, thread},
};

use crate::{
    Address, ConnectOptions, Error, FunctionName, JobHandle, LostReason, Result, WorkerOptions,
    protocol::{Assignment, JobEnd, PacketType, Report, worker::lane::Lane as Role},
    work::{events::EventReporter, handle::Gauge, options::LaneShare},
};

/// A server, and the wire of the thread that moves its bytes.
pub(crate) struct LanePump {
    pub(crate) address: Arc<Address>,
    pub(super) share: LaneShare,
    pub(super) shared_lane: Arc<SharedLane>,
    wire: Wire<Error>,
    /// Jobs that arrived and were not taken yet.
    inbox: VecDeque<Assignment>,
}

/// The worker role for one server, shared by threads: one moves its bytes, and others hold its jobs.
pub(super) struct SharedLane {
    state: Mutex<LaneState>,
    /// Signals a result of the last exchange.
    changed: Condvar,
    pub(super) gauge: Gauge,
    pub(super) reporter: EventReporter,
}

struct LaneState {
    role: Role,
    /// Number of threads that wait for a change.
    waiting: usize,
}

/// Maximum time to look through what has arrived.
const LOOK: Duration = Duration::from_millis(10);

/// The shortest possible wait on a socket.
const GLANCE: Duration = Duration::from_millis(1);

impl SharedLane {
    fn lock(&self) -> MutexGuard<'_, LaneState> {
        // A panic leaves nothing in the state half done.
        lock(&self.state)
    }

    pub(super) fn with<T>(&self, step: impl FnOnce(&mut Role) -> T) -> T {
        step(&mut self.lock().role)
    }

    /// Waits until `done` returns something, while another thread moves the bytes, or until the time.
    pub(super) fn wait<T>(
        &self,
        until: Option<Instant>,
        mut done: impl FnMut(&mut Role) -> Option<T>,
    ) -> Option<T> {
        let mut state = self.lock();
        loop {
            if let Some(outcome) = done(&mut state.role) {
                return Some(outcome);
            }
            let left = until.map_or(Duration::MAX, |at| at.saturating_duration_since(now()));
            if left.is_zero() {
                return None;
            }
            state.waiting += 1;
            let waited = self.changed.wait_timeout(state, left);
            (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
            state.waiting -= 1;
        }
    }

    /// Why a job is lost, as far as known.
    pub(super) fn lost_reason(&self, job: &JobHandle) -> Option<LostReason> {
        self.with(|role| role.lost_reason(job, now()))
    }

    /// When to check whether a job's timeout has passed, at most after `timeout`.
    fn lost_by(&self, job: &JobHandle, timeout: Duration) -> Instant {
        let end = after(now(), timeout);
        self.with(|role| role.session.held_until(job)).map_or(end, |until| until.min(end))
    }

    /// Waits at most `timeout` until a job is lost, while another thread moves the bytes; returns why.
    pub(super) fn wait_lost(&self, job: &JobHandle, timeout: Duration) -> Option<LostReason> {
        let until = self.lost_by(job, timeout);
        let lost = self.wait(Some(until), |role| role.lost_reason(job, now()));
        lost.or_else(|| self.lost_reason(job))
    }

    /// Queues a report about a job once there is room for it. Another thread writes it.
    pub(super) fn report(&self, job: &JobHandle, report: Report<'_>) -> Result<()> {
        self.wait(None, |role| role.has_room().then_some(()));
        self.with(|role| role.session.report(job, report))
    }

    /// Ends a job once there is room for its result. Another thread writes it.
    pub(super) fn finish(&self, job: &JobHandle, end: JobEnd<'_>) -> Result<()> {
        self.wait(None, |role| role.has_room().then_some(()));
        self.with(|role| role.session.finish(job, end, now()))
    }
}

/// The role as seen by the thread that moves its bytes.
struct PumpedLane<'a> {
    shared_lane: &'a SharedLane,
    inbox: &'a mut VecDeque<Assignment>,
}

impl queue_core::Role for PumpedLane<'_> {
    type Failure = Error;

    fn exchange(&mut self, io: &mut Io<Error>, now: Instant) -> Pulse {
        let mut state = self.shared_lane.lock();
        let pulse = state.role.exchange(io, now);
        let (jobs, news) = state.role.take();
        self.shared_lane.gauge.update(|seen| seen.follow(&mut state.role, &news));
        let has_waiting = state.waiting > 0;
        drop(state);
        match self.inbox.is_empty() {
            true => *self.inbox = jobs.into(),
            false => self.inbox.extend(jobs),
        }
        if has_waiting {
            self.shared_lane.changed.notify_all();
        }
        news.iter().for_each(|news| self.shared_lane.reporter.notify_of(news));
        pulse
    }
}

impl LanePump {
    pub(super) fn new(options: ConnectOptions, share: LaneShare, worker: &WorkerOptions) -> Self {
        let address = Arc::new(options.address.clone());
        let role = worker.lane(&address, &options, share.slots);
        let shared_lane = SharedLane {
            state: Mutex::new(LaneState { role, waiting: 0 }),
            changed: Condvar::new(),
            gauge: Gauge::default(),
            reporter: EventReporter::new(address.clone(), &options, worker),
        };
        // A server that takes no connection must not hold up a stop, nor the jobs of other servers.
        let wire = Wire::aside(&options);
        let shared_lane = Arc::new(shared_lane);
        LanePump { address, share, shared_lane, wire, inbox: VecDeque::new() }
    }

    pub(super) fn with<T>(&self, step: impl FnOnce(&mut Role) -> T) -> T {
        self.shared_lane.with(step)
    }

    /// Moves bytes until `done` returns something, or until the time. Also `None` when the lane has ended.
    fn call<T>(
        &mut self,
        until: Option<Instant>,
        mut done: impl FnMut(&mut Role, &VecDeque<Assignment>) -> Option<T>,
    ) -> Option<T> {
        loop {
            let LanePump { shared_lane, inbox, wire, .. } = self;
            let mut pumped = PumpedLane { shared_lane, inbox };
            let moved = wire.drive(&mut pumped, until, |pumped| {
                pumped.shared_lane.with(|role| done(role, pumped.inbox))
            });
            match moved {
                Drive::Done(outcome) => return Some(outcome),
                Drive::Late | Drive::Over => return None,
                Drive::Rest(at) => {
                    let at = earliest([at, until])?;
                    thread::sleep(at.saturating_duration_since(now()));
                }
            }
        }
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.with(|role| role.is_open())
    }

    /// Why the last attempt to connect failed, if it did.
    pub(super) fn failure(&self) -> Option<Error> {
        self.with(|role| role.connection()).and_then(Result::err)
    }

    /// Connects, unless an attempt has already ended.
    pub(crate) fn connect(&mut self) -> Result<()> {
        self.with(Role::want);
        self.call(None, |role, _| role.connection()).unwrap_or(Ok(()))
    }

    pub(super) fn can_do(&mut self, function: &FunctionName, timeout: Option<Duration>) {
        if self.share.serves(function) {
            self.with(|role| role.session.can_do(function, timeout));
            // A failed lane reconnects when jobs are requested.
            let _ = self.flush();
        }
    }

    pub(crate) fn refuse_while_running(&self, command: PacketType) -> Result<()> {
        self.with(|role| role.session.refuse_while_running(command))
    }

    pub(crate) fn cant_do(&mut self, function: &FunctionName) -> Result<()> {
        self.with(|role| role.session.cant_do(function))?;
        let _ = self.flush();
        Ok(())
    }

    pub(crate) fn reset_abilities(&mut self) -> Result<()> {
        self.with(|role| role.session.reset_abilities())?;
        let _ = self.flush();
        Ok(())
    }

    /// Whether a request is unanswered.
    pub(super) fn is_asking(&self) -> bool {
        self.with(|role| role.is_open() && role.session.waiting_since().is_some())
    }

    pub(super) fn next(&mut self) -> Option<Assignment> {
        self.inbox.pop_front()
    }

    pub(super) fn has_jobs(&self) -> bool {
        !self.inbox.is_empty()
    }

    /// Connects if it is time to, requests jobs, and reads until one has arrived or the time has come.
    pub(super) fn receive(&mut self, until: Instant) {
        // Read what has already arrived in any case.
        let until = until.max(now() + GLANCE);
        self.call(Some(until), |_, inbox| (!inbox.is_empty()).then_some(()));
    }

    /// The same without waiting between two attempts to connect.
    pub(super) fn look_for_jobs(&mut self, until: Instant) {
        if self.is_connected() {
            return self.receive(until);
        }
        let LanePump { shared_lane, inbox, wire, .. } = self;
        let mut pumped = PumpedLane { shared_lane, inbox };
        wire.drive(&mut pumped, Some(until.max(now() + GLANCE)), |pumped| {
            pumped.shared_lane.with(|role| role.is_open().then_some(()))
        });
    }

    /// Writes queued bytes, including due requests for jobs.
    ///
    /// # Errors
    ///
    /// Why the connection is gone, if it is.
    pub(super) fn flush(&mut self) -> Result<()> {
        let epoch = self.with(|role| role.is_open().then(|| role.session.origin().epoch));
        if epoch.is_none() {
            return Ok(());
        }
        let LanePump { shared_lane, inbox, wire, .. } = self;
        wire.push(&mut PumpedLane { shared_lane, inbox });
        let is_same =
            |role: &mut Role| role.is_open() && Some(role.session.origin().epoch) == epoch;
        match self.with(is_same) {
            true => Ok(()),
            false => self.with(|role| Err(role.why_lost())),
        }
    }

    pub(super) fn report(&mut self, job: &JobHandle, report: Report<'_>) -> Result<()> {
        self.with(|role| role.session.report(job, report))?;
        self.flush()
    }

    /// Ends a job and requests another one. Both are queued.
    pub(super) fn finish(&mut self, job: &JobHandle, end: JobEnd<'_>) -> Result<()> {
        self.with(|role| role.session.finish(job, end, now()))
    }

    /// Whether this connection has lost a job, or its time has expired, as far as can be seen without waiting.
    pub(super) fn is_lost(&mut self, job: &JobHandle) -> bool {
        let since = now();
        self.with(Role::look);
        self.call(Some(since + LOOK), |role, _| (!role.is_looking()).then_some(()));
        self.shared_lane.lost_reason(job).is_some()
    }

    /// Waits at most `timeout` until this connection has lost a job, or its time has expired; returns why.
    pub(super) fn wait_lost(&mut self, job: &JobHandle, timeout: Duration) -> Option<LostReason> {
        let until = self.shared_lane.lost_by(job, timeout.max(GLANCE));
        let lost = self.call(Some(until), |role, _| role.lost_reason(job, now()));
        lost.or_else(|| self.shared_lane.lost_reason(job))
    }

    /// Fails if results were lost with a connection and no barrier has reported that yet; they then count as reported.
    pub(crate) fn check_losses(&self) -> Result<()> {
        self.with(Role::check_losses)
    }

    /// Waits for the answer to an echo, which shows that the server has read everything before it.
    pub(crate) fn barrier(&mut self) -> Result<()> {
        let barrier = self.with(|role| role.barrier(now()));
        self.call(None, |role, _| role.is_past(barrier)).unwrap_or(Ok(()))
    }

    /// Makes sure that the server has accepted all results, and closes the connection.
    pub(super) fn end(&mut self) {
        self.call(None, |_, _| None::<()>);
    }
}
