//! One connection of an async worker: what its driver and the holders of its jobs share.

use std::{
    future::poll_fn,
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use tokio::{
    sync::Notify,
    time::{sleep, timeout_at},
};

use queue_core::{Stream, Wakers, now};

use crate::{
    Address, ConnectOptions, ConnectionState, Error, FunctionName, GrabbedJob, JobHandle,
    LostReason, Result, WorkerOptions,
    deadline::Limit,
    dispatch::Dispatch,
    driver::{Driver, Io, Pulse, Served},
    protocol::{Assignment, Backoff, Decoder, End, Epoch, Magic, Packet, Report, WorkerSession},
    trace,
    worker_events::Teller,
    worker_view::Gauge,
};

/// The worker role towards one server.
pub(crate) struct Lane {
    options: ConnectOptions,
    pub(crate) address: Arc<Address>,
    dispatch: Arc<Dispatch>,
    state: Mutex<State>,
    gauge: Gauge,
    teller: Teller,
    /// Tells handlers that a connection is gone.
    losses: Notify,
    /// Wakes the task when it is stopped while it connects or waits before that.
    nudge: Notify,
    with_barrier: bool,
}

struct State {
    session: WorkerSession,
    is_open: bool,
    /// The driver, when it sleeps.
    driver: Option<Waker>,
    /// Jobs' holders that wait for room in the outgoing buffer, or callers for the first connection.
    waiting: Wakers,
    /// Callers that wait for an echo.
    barriers: Wakers,
    is_stopping: bool,
    /// Everything is given up at once.
    is_cut: bool,
    has_sent_barrier: bool,
    backoff: Backoff,
    is_proven: bool,
    /// How many attempts to connect have failed.
    failures: u64,
    last_error: Option<Error>,
    gauge: Gauge,
    /// How many results nobody confirms, as the last barrier has told.
    told_unknown: u64,
}

/// No further report or result is taken while so many bytes wait to be written.
const ENOUGH_OUTGOING: usize = 1 << 20;

impl Lane {
    pub(crate) fn new(
        options: ConnectOptions,
        worker: &WorkerOptions,
        dispatch: Arc<Dispatch>,
    ) -> Arc<Self> {
        let address = Arc::new(options.address.clone());
        let gauge = Gauge::default();
        let state = State {
            session: worker.session(&address, options.reply_timeout),
            is_open: false,
            driver: None,
            waiting: Wakers::default(),
            barriers: Wakers::default(),
            is_stopping: false,
            is_cut: false,
            has_sent_barrier: false,
            backoff: options.retry.delays(),
            is_proven: true,
            failures: 0,
            last_error: None,
            gauge: gauge.clone(),
            told_unknown: 0,
        };
        Arc::new(Lane {
            options,
            teller: Teller::new(address.clone(), worker),
            address,
            dispatch,
            state: Mutex::new(state),
            gauge,
            losses: Notify::new(),
            nudge: Notify::new(),
            with_barrier: worker.barrier,
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing in the state is left half done by a panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a connection until the lane is stopped.
    pub(crate) async fn run(self: Arc<Self>) {
        let mut wait = None;
        loop {
            let error = match self.unless_stopped(self.connect_after(wait)).await {
                None => None,
                Some(Ok(stream)) => {
                    let epoch = self.opened();
                    let decoder = Decoder::new(Magic::Response, self.options.max_packet_size);
                    let mut driver =
                        Driver::new(self.clone(), epoch, stream, decoder, &self.options);
                    poll_fn(|cx| driver.poll(cx)).await
                }
                Some(Err(error)) => Some(error),
            };
            wait = self.closed(error);
            if wait.is_none() {
                return;
            }
        }
    }

    async fn connect_after(&self, wait: Option<Duration>) -> Result<Box<dyn Stream>> {
        if let Some(wait) = wait {
            sleep(wait).await;
        }
        self.gauge.is(ConnectionState::Connecting);
        self.options.connect(self.options.connect_limit(Limit::never())).await
    }

    /// What comes of a step, or `None` when the lane is stopped before.
    async fn unless_stopped<T>(&self, step: impl Future<Output = T>) -> Option<T> {
        let mut step = pin!(step);
        let mut stopped = pin!(self.stopped());
        poll_fn(|cx| match stopped.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(None),
            Poll::Pending => step.as_mut().poll(cx).map(Some),
        })
        .await
    }

    async fn stopped(&self) {
        while !self.is_stopped() {
            self.nudge.notified().await;
        }
    }

    fn is_stopped(&self) -> bool {
        let state = self.lock();
        state.is_stopping || state.is_cut
    }

    /// Starts a session on a new connection.
    fn opened(&self) -> Epoch {
        let mut state = self.lock();
        state.session.reopen(now());
        let epoch = state.session.origin().epoch;
        state.is_open = true;
        self.gauge.connected();
        state.wake_waiting();
        drop(state);
        self.teller.connected();
        epoch
    }

    /// The connection has ended. How long to wait before the next one; `None` when there is to be none.
    fn closed(&self, error: Option<Error>) -> Option<Duration> {
        let told = error.as_ref().map(Error::share);
        let wait = self.close(error);
        self.losses.notify_waiters();
        if let Some(error) = told.filter(|_| wait.is_some()) {
            self.teller.disconnected(&error);
        }
        wait
    }

    fn close(&self, error: Option<Error>) -> Option<Duration> {
        let mut state = self.lock();
        if std::mem::replace(&mut state.is_open, false) && state.session.is_proven(now()) {
            state.is_proven = true;
            state.backoff.reset();
        }
        state.failures += 1;
        state.last_error = error;
        state.session.close();
        state.account();
        state.wake_waiting();
        if state.is_stopping || state.is_cut || state.last_error.is_none() {
            self.gauge.is(ConnectionState::Closed);
            return None;
        }
        if let Some(error) = &state.last_error {
            self.gauge.failed(error);
        }
        // A connection that proved good is followed by one at once.
        let was_proven = std::mem::replace(&mut state.is_proven, false);
        let delay = if was_proven { Duration::ZERO } else { state.backoff.next_delay() };
        trace::backing_off(&self.address, delay);
        if !delay.is_zero() {
            self.gauge.is(ConnectionState::Backoff);
        }
        Some(delay)
    }

    /// Waits until it is known whether there is a connection.
    pub(crate) async fn connected(&self) -> Result<()> {
        poll_fn(|cx| {
            let mut state = self.lock();
            if state.is_open {
                return Poll::Ready(Ok(()));
            }
            if state.failures > 0 {
                return Poll::Ready(Err(state.why_lost()));
            }
            state.waiting.add(cx.waker());
            Poll::Pending
        })
        .await
    }

    /// Whether results were lost with a connection, and no barrier has told so: then it has now.
    pub(crate) fn check_losses(&self) -> Result<()> {
        let mut state = self.lock();
        let unknown = self.gauge.report().unknown;
        let told = std::mem::replace(&mut state.told_unknown, unknown);
        if unknown > told { Err(state.why_lost()) } else { Ok(()) }
    }

    /// Waits for the answer to an echo: the server has read everything before.
    pub(crate) async fn barrier(&self) -> Result<()> {
        let mut sent = None;
        poll_fn(|cx| {
            let mut state = self.lock();
            let epoch = state.session.origin().epoch;
            if !state.is_open || sent.is_some_and(|(of, _)| of != epoch) {
                state.told_unknown = self.gauge.report().unknown;
                return Poll::Ready(Err(state.why_lost()));
            }
            let number = match sent {
                Some((_, number)) => number,
                None => state.session.send_barrier(now()),
            };
            sent = Some((epoch, number));
            if state.session.is_past(number) {
                return Poll::Ready(Ok(()));
            }
            state.barriers.add(cx.waker());
            let driver = state.driver.take();
            drop(state);
            if let Some(driver) = driver {
                driver.wake();
            }
            Poll::Pending
        })
        .await
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.lock().is_open
    }

    pub(crate) fn can_do(&self, function: &FunctionName, timeout: Option<Duration>) {
        self.change(|state| state.session.can_do(function, timeout));
    }

    pub(crate) fn cant_do(&self, function: &FunctionName) -> Result<()> {
        self.change(|state| state.session.cant_do(function))
    }

    pub(crate) fn reset_abilities(&self) -> Result<()> {
        self.change(|state| state.session.reset_abilities())
    }

    pub(crate) fn start(&self) {
        self.change(|state| state.session.start());
    }

    /// Asks for no further job, and ends when those that run have ended.
    pub(crate) fn stop(&self) {
        self.change(|state| {
            state.is_stopping = true;
            state.session.stop();
        });
        self.nudge.notify_one();
    }

    /// Closes at once.
    pub(crate) fn cut(&self) {
        self.change(|state| {
            state.is_cut = true;
            state.session.close();
            state.account();
        });
        self.gauge.is(ConnectionState::Closed);
        self.nudge.notify_one();
        self.losses.notify_waiters();
    }

    pub(crate) fn dispatch(&self) -> &Dispatch {
        &self.dispatch
    }

    pub(crate) fn teller(&self) -> &Teller {
        &self.teller
    }

    pub(crate) fn gauge(&self) -> &Gauge {
        &self.gauge
    }

    /// Changes the state, and lets the driver see to what that means.
    fn change<T>(&self, step: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.lock();
        let done = step(&mut state);
        let driver = state.driver.take();
        drop(state);
        if let Some(driver) = driver {
            driver.wake();
        }
        done
    }

    /// Says something about a job, once there is room for it.
    pub(crate) fn poll_say(
        &self,
        cx: &Context<'_>,
        job: &JobHandle,
        report: Report<'_>,
    ) -> Poll<Result<()>> {
        self.poll_with_room(cx, |state| state.session.report(job, report))
    }

    /// Ends a job, once there is room for its result.
    pub(crate) fn poll_finish(
        &self,
        cx: &Context<'_>,
        job: &JobHandle,
        end: End<'_>,
    ) -> Poll<Result<()>> {
        self.poll_with_room(cx, |state| state.session.finish(job, end, now()))
    }

    fn poll_with_room(
        &self,
        cx: &Context<'_>,
        step: impl FnOnce(&mut State) -> Result<()>,
    ) -> Poll<Result<()>> {
        let mut state = self.lock();
        if state.is_open && state.session.outgoing().len() >= ENOUGH_OUTGOING {
            state.waiting.add(cx.waker());
            return Poll::Pending;
        }
        let done = step(&mut state);
        let driver = state.driver.take();
        drop(state);
        if let Some(driver) = driver {
            driver.wake();
        }
        Poll::Ready(done)
    }

    /// A handler begins with a job.
    pub(crate) fn begin(&self, job: &JobHandle) {
        self.lock().session.begin(job);
    }

    /// Why a job is not this connection's any more, unless it is.
    pub(crate) fn why_lost(&self, job: &JobHandle) -> Option<LostReason> {
        let state = self.lock();
        if state.is_cut {
            return Some(LostReason::Stopped);
        }
        let is_here = state.is_open && job.epoch() == Some(state.session.origin().epoch);
        if !is_here {
            return Some(LostReason::ConnectionLost);
        }
        let until = state.session.held_until(job)?;
        (until <= now()).then_some(LostReason::TimedOut)
    }

    /// Waits until a job is not this connection's any more.
    pub(crate) async fn lost(&self, job: &JobHandle) -> LostReason {
        loop {
            let mut lost = pin!(self.losses.notified());
            // From here on it cannot be missed.
            lost.as_mut().enable();
            if let Some(reason) = self.why_lost(job) {
                return reason;
            }
            let until = self.lock().session.held_until(job);
            match until {
                // Its time is over then, which is looked at above.
                Some(until) => drop(timeout_at(until.into(), lost).await),
                None => lost.await,
            }
        }
    }

    /// Whether a job is still this connection's.
    pub(crate) fn holds(&self, job: &JobHandle) -> bool {
        let state = self.lock();
        state.is_open && state.session.holds(job)
    }

    /// Lets a job go back to the server when the connection closes.
    pub(crate) fn leave_job(&self, job: &JobHandle) {
        self.change(|state| state.session.leave(job));
    }

    /// Fails a job whose holder dropped it.
    pub(crate) fn drop_job(&self, job: &JobHandle) {
        // A job that is lost was given to others already.
        let _ = self.change(|state| state.session.finish(job, End::Fail, now()));
    }
}

impl Served for Lane {
    fn exchange(
        self: &Arc<Self>,
        epoch: Epoch,
        io: &mut Io,
        now: Instant,
        cx: &Context<'_>,
    ) -> Result<Pulse> {
        let mut state = self.lock();
        if state.is_cut || state.session.origin().epoch != epoch {
            return Ok(Pulse::Over);
        }
        let replies = io.arrived.len() as u64;
        let steps = state.session.steps();
        let mut jobs = Vec::new();
        for packet in io.arrived.drain(..) {
            match state.take(&packet, now) {
                Ok(job) => jobs.extend(job),
                Err(error) => {
                    io.failure.get_or_insert(error);
                    break;
                }
            }
        }
        if state.session.steps() != steps {
            state.barriers.append_to(&mut io.wakers);
        }
        jobs.extend(std::iter::from_fn(|| state.session.released()));
        let wake_at = state.session.poll(now);
        let is_over = state.is_stopping && state.wind_up(self.with_barrier, now);
        self.gauge.update(|seen| {
            seen.metrics.replies += replies;
            seen.metrics.bytes_in += std::mem::take(&mut io.read) as u64;
            seen.metrics.bytes_out += std::mem::take(&mut io.written) as u64;
            seen.follow(&mut state.session);
        });
        let was_stuck = !io.writing.is_empty();
        if !was_stuck {
            state.session.swap_outgoing(&mut io.writing);
            state.waiting.append_to(&mut io.wakers);
        }
        if is_over && io.writing.is_empty() {
            drop(state);
            io.wakers.drain(..).for_each(Waker::wake);
            return Ok(Pulse::Over);
        }
        let is_waiting = state.session.waiting_since().is_some();
        let has_answers = state.session.steps() != steps;
        if !io.is_busy(was_stuck) {
            match &mut state.driver {
                Some(driver) => driver.clone_from(cx.waker()),
                none => *none = Some(cx.waker().clone()),
            }
        }
        drop(state);
        io.wakers.drain(..).for_each(Waker::wake);
        for job in jobs {
            self.dispatch.job(GrabbedJob::new(job, self.clone()));
        }
        Ok(Pulse::Beats {
            // What takes long to write cannot be answered before.
            is_waiting: is_waiting && !was_stuck,
            has_answers,
            wake_at,
        })
    }

    fn can_go_on_without_answer(&self) -> bool {
        self.lock().session.give_up_waiting(now())
    }
}

impl State {
    /// Why there is no connection, or not the same any more.
    fn why_lost(&self) -> Error {
        self.last_error.as_ref().map_or_else(crate::route::no_server, Error::share)
    }

    fn take(&mut self, packet: &Packet, now: Instant) -> Result<Option<Assignment>> {
        self.session.accept(packet, now)
    }

    fn account(&mut self) {
        self.gauge.follow(&mut self.session);
    }

    /// Whether a worker that is to stop has nothing left to do; makes sure first that its results were taken.
    fn wind_up(&mut self, with_barrier: bool, now: Instant) -> bool {
        if !self.session.is_drained() {
            return false;
        }
        if !with_barrier || !self.session.has_unconfirmed() {
            return true;
        }
        if !self.has_sent_barrier {
            self.has_sent_barrier = true;
            self.session.send_barrier(now);
        }
        false
    }

    fn wake_waiting(&mut self) {
        self.waiting.take().into_iter().chain(self.barriers.take()).for_each(Waker::wake);
    }
}
