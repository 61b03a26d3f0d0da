//! One connection of a blocking worker, which is made again when it is lost.

use std::{
    io,
    sync::Arc,
    time::{Duration, Instant},
};

use queue_core::{WRITE_STEP, blocking::Transport, now};

use crate::{
    Address, ConnectOptions, ConnectionState, Deadline, Error, FunctionName, JobHandle, LostReason,
    Result, WorkerOptions, WorkerReport,
    deadline::Limit,
    error::{closed, lost},
    protocol::{Assignment, Backoff, Decoder, End, Magic, Report, WorkerSession},
    route::LEAST_WAIT,
    trace,
    worker_events::Teller,
    worker_view::Gauge,
};

/// The worker role towards one server.
pub(super) struct Lane {
    options: ConnectOptions,
    address: Arc<Address>,
    transport: Option<Transport>,
    session: WorkerSession,
    decoder: Decoder,
    backoff: Backoff,
    is_proven: bool,
    /// When the next attempt to connect is due.
    retry_at: Option<Instant>,
    /// Jobs that came while something else was waited for.
    arrived: Vec<Assignment>,
    is_stopping: bool,
    last_error: Option<Error>,
    gauge: Gauge,
    teller: Teller,
    /// How many results nobody confirms, as the last barrier has told.
    told_unknown: u64,
    /// When the stream last took nothing.
    stuck_at: Option<Instant>,
}

/// How long a write may be stuck before the lane reads: server and worker must not both wait for the other to read.
const STUCK: Duration = Duration::from_millis(10);

/// How often the lane reads before it judges what it has read, or goes on with other things.
const MAX_READS: usize = 64;

/// A read that does not wait, as far as a socket's timeout can say so.
fn at_once() -> Limit {
    Limit::of(Deadline::Reply, Some(Duration::from_millis(1)))
}

impl Lane {
    pub(super) fn new(options: ConnectOptions, worker: &WorkerOptions) -> Self {
        let address = Arc::new(options.address.clone());
        Lane {
            session: worker.session(&address, options.reply_timeout),
            teller: Teller::new(address.clone(), worker),
            address,
            transport: None,
            decoder: Decoder::new(Magic::Response, options.max_packet_size),
            backoff: options.retry.delays(),
            is_proven: true,
            retry_at: None,
            arrived: Vec::new(),
            is_stopping: false,
            last_error: None,
            gauge: Gauge::default(),
            told_unknown: 0,
            stuck_at: None,
            options,
        }
    }

    pub(super) fn is_connected(&self) -> bool {
        self.transport.is_some()
    }

    pub(super) fn teller(&self) -> &Teller {
        &self.teller
    }

    pub(super) fn gauge(&self) -> &Gauge {
        &self.gauge
    }

    pub(super) fn address(&self) -> &Address {
        &self.address
    }

    /// Why there is no connection.
    pub(super) fn last_error(&self) -> Option<&Error> {
        self.last_error.as_ref()
    }

    /// How long the next attempt to connect is to wait; `None` when there is a connection.
    pub(super) fn retry_in(&self) -> Option<Duration> {
        let at = self.retry_at.filter(|_| !self.is_connected());
        at.map(|at| at.saturating_duration_since(now()))
    }

    pub(super) fn can_do(&mut self, function: &FunctionName, timeout: Option<Duration>) {
        self.session.can_do(function, timeout);
    }

    pub(super) fn cant_do(&mut self, function: &FunctionName) -> Result<()> {
        self.session.cant_do(function)
    }

    pub(super) fn reset_abilities(&mut self) -> Result<()> {
        self.session.reset_abilities()
    }

    pub(super) fn start(&mut self) {
        self.session.start();
    }

    pub(super) fn stop(&mut self) {
        self.is_stopping = true;
        self.session.stop();
    }

    /// Whether a question is not answered yet.
    pub(super) fn is_asking(&self) -> bool {
        self.session.waiting_since().is_some()
    }

    /// Whether a job is still this connection's.
    pub(super) fn holds(&self, job: &JobHandle) -> bool {
        self.is_connected() && self.session.holds(job)
    }

    pub(super) fn is_drained(&self) -> bool {
        !self.is_connected() || self.session.is_drained()
    }

    /// Connects if it is time to, and tells the server who this is and what it can do.
    pub(super) fn make_ready(&mut self) -> Result<()> {
        if self.is_connected() || self.is_stopping {
            return Ok(());
        }
        if self.retry_in().is_some_and(|wait| !wait.is_zero()) {
            return Ok(());
        }
        self.gauge.is(ConnectionState::Connecting);
        let limit = self.options.connect_limit(Limit::never());
        match self.options.connect_blocking(limit) {
            Ok(transport) => {
                self.gauge.connected();
                self.transport = Some(transport);
                self.decoder = Decoder::new(Magic::Response, self.options.max_packet_size);
                self.session.reopen(now());
                self.teller.connected();
                self.retry_at = None;
                self.flush()
            }
            Err(error) => {
                self.retry_at = self.later();
                trace::backing_off(&self.address, self.retry_in().unwrap_or_default());
                self.gauge.is(ConnectionState::Backoff);
                self.gauge.failed(&error);
                self.teller.disconnected(&error);
                self.last_error = Some(error.share());
                Err(error)
            }
        }
    }

    /// Connects if it is time to; why there is no connection if there is none.
    pub(super) fn try_to_connect(&mut self) -> Result<()> {
        self.make_ready()?;
        if self.is_connected() { Ok(()) } else { Err(self.why_lost()) }
    }

    fn why_lost(&self) -> Error {
        self.last_error.as_ref().map_or_else(crate::route::no_server, Error::share)
    }

    /// Whether results were lost with a connection, and no barrier has told so: then it has now.
    pub(super) fn check_losses(&mut self) -> Result<()> {
        let unknown = self.gauge.report().unknown;
        let told = std::mem::replace(&mut self.told_unknown, unknown);
        if unknown > told { Err(self.why_lost()) } else { Ok(()) }
    }

    /// When to connect again after this failure. A connection that proved good is followed by one at once.
    fn later(&mut self) -> Option<Instant> {
        let wait = if self.is_proven { LEAST_WAIT } else { self.backoff.next_delay() };
        self.is_proven = false;
        now().checked_add(wait.max(LEAST_WAIT))
    }

    /// Asks for jobs as it is time to; when to do so again.
    pub(super) fn ask(&mut self) -> Option<Instant> {
        if !self.is_connected() {
            return None;
        }
        let due = self.session.poll(now());
        // A failure closes the lane, which the caller sees.
        let _ = self.flush();
        due
    }

    /// Writes what is queued. A failure closes the lane.
    pub(super) fn flush(&mut self) -> Result<()> {
        if self.session.outgoing().is_empty() {
            return Ok(());
        }
        self.gauge.follow(&mut self.session);
        while self.has_output() {
            let limit = self.options.write_limit(Limit::never());
            let goal = self.outgoing().saturating_sub(WRITE_STEP);
            if let Err(error) = self.write_down_to(goal, limit) {
                self.close(&error);
                return Err(error);
            }
        }
        Ok(())
    }

    fn has_output(&self) -> bool {
        self.outgoing() > 0 || self.transport.as_ref().is_some_and(|stream| !stream.is_flushed())
    }

    /// Writes until no more than `goal` bytes are left.
    fn write_down_to(&mut self, goal: usize, limit: Limit) -> Result<()> {
        while self.outgoing() > goal || (goal == 0 && self.has_output()) {
            // Also when a little is taken all the time.
            if limit.has_passed() {
                return Err(limit.error());
            }
            self.write_some(limit)?;
        }
        Ok(())
    }

    /// Writes some; or reads, while writing is stuck.
    fn write_some(&mut self, limit: Limit) -> Result<()> {
        let stuck = limit.shorter(STUCK);
        let Some(transport) = &mut self.transport else { return Err(lost(closed())) };
        if let Some(n) = transport.write(self.session.outgoing(), stuck).map_err(lost)? {
            self.session.sent(n);
            self.gauge.update(|seen| seen.metrics.bytes_out += n as u64);
            return Ok(());
        }
        self.stuck_at = Some(now());
        // What comes is taken at once: it may be without end.
        if self.read_once(at_once())? {
            let mut arrived = std::mem::take(&mut self.arrived);
            let taken = self.take(&mut arrived);
            self.arrived = arrived;
            taken?;
        }
        Ok(())
    }

    /// Reads until the limit, or until something has come; gives the jobs among it. A failure closes the lane.
    pub(super) fn receive(&mut self, limit: Limit, jobs: &mut Vec<Assignment>) {
        if !self.arrived.is_empty() {
            return jobs.append(&mut self.arrived);
        }
        let outcome =
            self.take(jobs).and_then(|found| if found { Ok(()) } else { self.wait(limit, jobs) });
        jobs.extend(std::iter::from_fn(|| self.session.released()));
        self.gauge.follow(&mut self.session);
        if let Err(error) = outcome {
            self.close(&error);
        }
    }

    fn wait(&mut self, limit: Limit, jobs: &mut Vec<Assignment>) -> Result<()> {
        let reply = self.reply_limit();
        if !reply.has_passed() {
            if self.read_once(limit.sooner(reply))? {
                self.take(jobs)?;
            }
            return Ok(());
        }
        // Nobody has read while a handler ran: the answer may be here.
        for _ in 0..MAX_READS {
            if !self.read_once(at_once())? {
                break;
            }
            self.take(jobs)?;
            if !self.reply_limit().has_passed() {
                return Ok(());
            }
        }
        if self.session.give_up_waiting(now()) { Ok(()) } else { Err(reply.error()) }
    }

    /// Takes what has come while a handler runs. A failure closes the lane.
    fn look(&mut self, limit: Limit) {
        let mut arrived = std::mem::take(&mut self.arrived);
        self.receive(limit, &mut arrived);
        self.arrived = arrived;
    }

    /// The jobs that came while something else was waited for.
    pub(super) fn take_arrived(&mut self) -> impl Iterator<Item = Assignment> {
        self.arrived.drain(..)
    }

    /// Whether a job is not this connection's any more, as far as can be seen without waiting.
    pub(super) fn is_lost(&mut self, job: &JobHandle) -> bool {
        for _ in 0..MAX_READS {
            if !self.transport.as_mut().is_some_and(Transport::is_stale) {
                break;
            }
            self.look(at_once());
        }
        !self.holds(job) || self.is_over(job)
    }

    /// Whether the time is over that the server was told the job may take.
    fn is_over(&self, job: &JobHandle) -> bool {
        self.session.held_until(job).is_some_and(|until| until <= now())
    }

    /// Waits until a job is not this connection's any more, at most for `timeout`; why.
    pub(super) fn wait_lost(&mut self, job: &JobHandle, timeout: Duration) -> Option<LostReason> {
        let limit = Limit::of(Deadline::Total, Some(timeout));
        while self.holds(job) {
            if self.is_over(job) {
                return Some(LostReason::TimedOut);
            }
            if limit.has_passed() {
                return None;
            }
            let left = self.session.held_until(job).map(|end| end.saturating_duration_since(now()));
            self.look(left.map_or(limit, |left| limit.shorter(left)));
        }
        Some(LostReason::ConnectionLost)
    }

    /// A question that is not answered in time means that the connection is out of step.
    fn reply_limit(&self) -> Limit {
        match self.session.waiting_since() {
            Some(since) => {
                // What took long to write could not be answered before.
                let since = self.stuck_at.map_or(since, |at| at.max(since));
                let waited = now().saturating_duration_since(since);
                let left = self.options.reply_timeout.saturating_sub(waited);
                Limit::of(Deadline::Reply, Some(left))
            }
            None => Limit::never(),
        }
    }

    fn read_once(&mut self, limit: Limit) -> Result<bool> {
        let Some(transport) = &mut self.transport else { return Err(lost(closed())) };
        match transport.read(self.decoder.space(), limit).map_err(lost)? {
            Some(0) => Err(lost(io::ErrorKind::UnexpectedEof.into())),
            Some(n) => {
                self.decoder.received(n);
                self.gauge.update(|seen| seen.metrics.bytes_in += n as u64);
                Ok(true)
            }
            None => Ok(false),
        }
    }

    /// Takes the packets that were read; whether there was one.
    fn take(&mut self, jobs: &mut Vec<Assignment>) -> Result<bool> {
        let mut found = false;
        while let Some(packet) = self.decoder.next()? {
            found = true;
            self.gauge.update(|seen| seen.metrics.replies += 1);
            jobs.extend(self.session.accept(&packet, now())?);
        }
        Ok(found)
    }

    pub(super) fn report(&mut self, job: &JobHandle, report: Report<'_>) -> Result<()> {
        self.session.report(job, report)?;
        self.flush()
    }

    /// Ends a job, and asks for another one. Both are queued.
    pub(super) fn finish(&mut self, job: &JobHandle, end: End<'_>) -> Result<()> {
        self.session.finish(job, end, now())
    }

    /// How many bytes wait to be written.
    pub(super) fn outgoing(&self) -> usize {
        self.session.outgoing().len()
    }

    /// Waits for the answer to an echo: the server has read everything before. Jobs that come meanwhile are given.
    pub(super) fn barrier(&mut self, jobs: &mut Vec<Assignment>) -> Result<()> {
        if self.is_connected() {
            let barrier = self.session.send_barrier(now());
            self.flush()?;
            while self.is_connected() && !self.session.is_past(barrier) {
                self.receive(Limit::never(), jobs);
            }
        }
        if self.is_connected() {
            return Ok(());
        }
        self.told_unknown = self.gauge.report().unknown;
        Err(self.why_lost())
    }

    /// Makes sure that the server has taken all results, and closes.
    pub(super) fn end(&mut self, with_barrier: bool) -> WorkerReport {
        if with_barrier && self.is_connected() && self.session.has_unconfirmed() {
            // What is not confirmed is counted as unknown.
            let _ = self.barrier(&mut Vec::new());
        }
        // The last results, if they were not confirmed.
        let _ = self.flush();
        self.shut();
        self.gauge.is(ConnectionState::Closed);
        self.gauge.report()
    }

    /// Gives up a connection that cannot be used any further.
    fn close(&mut self, error: &Error) {
        if self.is_connected() {
            self.teller.disconnected(error);
            self.gauge.failed(error);
            self.gauge.is(ConnectionState::Idle);
            if self.session.is_proven(now()) {
                self.is_proven = true;
                self.backoff.reset();
            }
            self.retry_at = self.later();
        }
        self.last_error = Some(error.share());
        self.shut();
    }

    fn shut(&mut self) {
        self.transport = None;
        self.arrived.clear();
        self.session.close();
        self.gauge.follow(&mut self.session);
    }
}
