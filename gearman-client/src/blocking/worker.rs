//! The blocking worker.

use std::{
    collections::{HashMap, VecDeque},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::PoisonError,
    thread,
    time::Duration,
};

use bytes::Bytes;

use queue_core::now;

use super::{
    held::{Dropped, GrabbedJob, JobContext},
    lane::Lane,
    stop::StopHandle,
};
use crate::{
    Deadline, Error, Failure, FunctionName, JobLimit, LostReason, Result, WorkerOptions,
    WorkerReport, WorkerView,
    deadline::Limit,
    keys::Keys,
    protocol::{Assignment, End, Report, worker::work::job_lost},
    route::no_server,
    trace,
    work::Failed,
};

/// A worker for one or more Gearman servers.
///
/// Functions are [registered](Self::register) with a handler and served by [`run`](Self::run), or announced with
/// [`can_do`](Self::can_do) and taken by hand with [`next_job`](Self::next_job). It connects again to a server that was
/// lost, with all functions registered anew.
///
/// **Lost jobs.** When a connection is lost the server gives its jobs to others, or to this worker again.
/// [`JobContext::is_lost`] tells a handler that goes on, and its outcome is not sent. The next job, be it the same one, is
/// begun when it has ended.
///
/// There is no thread behind it: handlers run one after the other, in the thread that calls `run`. For more, run several
/// workers, or take several jobs by hand (see [`WorkerOptions::concurrency`]).
pub struct Worker {
    lanes: Vec<Lane>,
    handlers: HashMap<FunctionName, Handler, Keys>,
    inbox: VecDeque<(usize, Assignment)>,
    /// Whose turn it is to be looked at first.
    turn: usize,
    options: WorkerOptions,
    stop: StopHandle,
    dropped: Dropped,
    report: WorkerReport,
}

type Handler = Box<dyn FnMut(&mut JobContext<'_>) -> std::result::Result<Bytes, Failure> + Send>;

/// Results are written at least whenever there are so many bytes of them.
const ENOUGH_OUTGOING: usize = 64 * 1024;

/// How long `run` waits before it looks whether it is to stop.
const SLICE: Duration = Duration::from_millis(200);

/// The longest pause between two looks at several servers.
const PAUSE: Duration = Duration::from_millis(20);

impl Worker {
    /// Connects to the servers: `"127.0.0.1:4730"`, `"one:4730,two:4730"`, [`Servers`](crate::Servers) or
    /// [`WorkerOptions`]. Each is tried once, one after the other. One that can be reached is enough; the others are tried
    /// again later.
    ///
    /// # Errors
    ///
    /// When no server can be reached, the error of the last: `Connect`, `Timeout(Connect)` or `Tls`. `InvalidInput` for
    /// a wrong address.
    pub fn connect<O>(options: O) -> Result<Self>
    where
        O: TryInto<WorkerOptions>,
        Error: From<O::Error>,
    {
        let mut worker = Self::connect_lazy(options)?;
        let mut last = None;
        for lane in &mut worker.lanes {
            last = lane.make_ready().err().or(last);
        }
        match worker.connected() {
            0 => Err(last.unwrap_or_else(no_server)),
            _ => Ok(worker),
        }
    }

    /// A worker that connects when it asks for jobs, and keeps trying: for a service that may start before its
    /// servers.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a wrong address, `Tls` for options that cannot be used.
    pub fn connect_lazy<O>(options: O) -> Result<Self>
    where
        O: TryInto<WorkerOptions>,
        Error: From<O::Error>,
    {
        let options = options.try_into()?;
        options.servers.check()?;
        let lanes = options.lanes().map(|server| Lane::new(server, &options)).collect();
        Ok(Worker {
            lanes,
            handlers: HashMap::default(),
            inbox: VecDeque::new(),
            turn: 0,
            options,
            stop: StopHandle::default(),
            dropped: Dropped::default(),
            report: WorkerReport::default(),
        })
    }

    /// Serves a function: `handler` runs its jobs. What it returns is the result. A [`Failure`] fails the job, with an
    /// exception or without. So does a panic, without: its message goes to [`WorkerOptions::on_event`] and to nobody else,
    /// for it may hold what no submitter is to see.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a name that is not valid.
    pub fn register<F, H, R>(&mut self, function: F, handler: H) -> Result<()>
    where
        F: TryInto<FunctionName>,
        Error: From<F::Error>,
        H: FnMut(&mut JobContext<'_>) -> std::result::Result<R, Failure> + Send + 'static,
        R: Into<Bytes>,
    {
        self.add(function.try_into()?, None, handler);
        Ok(())
    }

    /// Serves a function whose jobs the server gives to others when they take longer than `timeout`, in whole
    /// milliseconds (rounded up; the server makes 1 s of less).
    ///
    /// The server tells nobody. The worker knows the time, and [`wait_lost`](JobContext::wait_lost) tells a handler when it is over; no other
    /// run of the job begins here before that handler has ended. Up to server 1.1 the timer is kept for the connection, not
    /// for the job, and can miss it or hit the wrong one, so the result is sent in any case: prefer a timeout of the
    /// submitter.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a name that is not valid.
    pub fn register_with_timeout<F, H, R>(
        &mut self,
        function: F,
        timeout: Duration,
        handler: H,
    ) -> Result<()>
    where
        F: TryInto<FunctionName>,
        Error: From<F::Error>,
        H: FnMut(&mut JobContext<'_>) -> std::result::Result<R, Failure> + Send + 'static,
        R: Into<Bytes>,
    {
        self.add(function.try_into()?, Some(timeout), handler);
        Ok(())
    }

    fn add<H, R>(&mut self, function: FunctionName, timeout: Option<Duration>, mut handler: H)
    where
        H: FnMut(&mut JobContext<'_>) -> std::result::Result<R, Failure> + Send + 'static,
        R: Into<Bytes>,
    {
        self.announce(&function, timeout);
        let handler: Handler = Box::new(move |job| handler(job).map(Into::into));
        self.handlers.insert(function, handler);
    }

    /// Announces a function whose jobs are taken with [`next_job`](Self::next_job) (`CAN_DO`, `CAN_DO_TIMEOUT`).
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a name that is not valid.
    pub fn can_do<F>(&mut self, function: F, timeout: Option<Duration>) -> Result<()>
    where
        F: TryInto<FunctionName>,
        Error: From<F::Error>,
    {
        self.announce(&function.try_into()?, timeout);
        Ok(())
    }

    fn announce(&mut self, function: &FunctionName, timeout: Option<Duration>) {
        for lane in &mut self.lanes {
            lane.can_do(function, timeout);
            // A lane that fails is connected again when jobs are asked for.
            let _ = lane.flush();
        }
    }

    /// Takes a function back (`CANT_DO`).
    ///
    /// # Errors
    ///
    /// `InvalidInput` while jobs are running: the server would give them to others.
    pub fn cant_do<F>(&mut self, function: F) -> Result<()>
    where
        F: TryInto<FunctionName>,
        Error: From<F::Error>,
    {
        let function = function.try_into()?;
        for lane in &mut self.lanes {
            lane.cant_do(&function)?;
            let _ = lane.flush();
        }
        self.handlers.remove(&function);
        Ok(())
    }

    /// Takes all functions back (`RESET_ABILITIES`).
    ///
    /// # Errors
    ///
    /// `InvalidInput` while jobs are running: the server would give them to others.
    pub fn reset_abilities(&mut self) -> Result<()> {
        for lane in &mut self.lanes {
            lane.reset_abilities()?;
            let _ = lane.flush();
        }
        self.handlers.clear();
        Ok(())
    }

    /// Runs handlers until [`StopHandle::stop`] is called or the last job of the [limit](WorkerOptions::limit) has
    /// come, then finishes and gives the report. Jobs of functions
    /// without a handler are failed.
    ///
    /// # Errors
    ///
    /// None at present: servers that are lost are tried again for ever.
    pub fn run(mut self) -> Result<WorkerReport> {
        while !self.is_ending() {
            if let Ok(Some((lane, job))) = self.next_assignment(SLICE) {
                self.handle(lane, &job);
            }
        }
        Ok(self.finish_all())
    }

    /// Ends a [`run`](Self::run), from another thread or a signal handler; or, between jobs that are taken by hand, the
    /// asking for further ones.
    #[must_use]
    pub fn stop_handle(&self) -> StopHandle {
        self.stop.clone()
    }

    /// A way to look at it while it [runs](Self::run), from another thread.
    #[must_use]
    pub fn view(&self) -> WorkerView {
        WorkerView::new(self.lanes.iter().map(Lane::gauge))
    }

    /// The next job of a function that was announced with [`can_do`](Self::can_do); `None` when none came within
    /// `timeout`, or at once when none can come any more: the worker is told to [stop](Self::stop_handle), or its
    /// [limit](WorkerOptions::limit) is reached.
    ///
    /// Up to [`concurrency`](WorkerOptions::concurrency) jobs of each connection can be held at once. End each with
    /// [`complete`](Self::complete), [`fail`](Self::fail) or [`exception`](Self::exception).
    ///
    /// # Errors
    ///
    /// When no server can be reached at the end of the timeout.
    pub fn next_job(&mut self, timeout: Duration) -> Result<Option<GrabbedJob>> {
        let next = self.next_assignment(timeout)?;
        Ok(next.map(|(lane, assignment)| GrabbedJob {
            assignment,
            lane,
            dropped: Some(self.dropped.clone()),
        }))
    }

    /// Ends a job with its result (`WORK_COMPLETE`), and asks for the next one in the same write, unless there is to be
    /// none.
    ///
    /// The server does not acknowledge results: `Ok` says that this one was written.
    ///
    /// # Errors
    ///
    /// `JobLost` when the connection that held the job is gone; a failure of the connection.
    pub fn complete(&mut self, job: GrabbedJob, result: impl AsRef<[u8]>) -> Result<()> {
        self.end(job, End::Complete(result.as_ref()))
    }

    /// Ends a job as failed (`WORK_FAIL`).
    ///
    /// # Errors
    ///
    /// As [`complete`](Self::complete).
    pub fn fail(&mut self, job: GrabbedJob) -> Result<()> {
        self.end(job, End::Fail)
    }

    /// Ends a job as failed, with what went wrong (`WORK_EXCEPTION`).
    ///
    /// # Errors
    ///
    /// As [`complete`](Self::complete).
    pub fn exception(&mut self, job: GrabbedJob, what: impl AsRef<[u8]>) -> Result<()> {
        self.end(job, End::Exception(what.as_ref()))
    }

    fn end(&mut self, mut job: GrabbedJob, end: End<'_>) -> Result<()> {
        job.dropped = None;
        self.heed_stop();
        let lane = self.lanes.get_mut(job.lane).ok_or_else(|| job_lost(&job.handle))?;
        lane.finish(&job.handle, end)?;
        lane.flush()
    }

    /// Tells the submitters how far a job is (`WORK_STATUS`).
    ///
    /// # Errors
    ///
    /// `JobLost`; `InvalidInput` when `denominator` is 0; a failure of the connection.
    pub fn status(&mut self, job: &GrabbedJob, numerator: u64, denominator: u64) -> Result<()> {
        self.report(job, Report::Status(numerator, denominator))
    }

    /// Sends the submitters a piece of the result (`WORK_DATA`).
    ///
    /// # Errors
    ///
    /// `JobLost`; a failure of the connection.
    pub fn data(&mut self, job: &GrabbedJob, data: impl AsRef<[u8]>) -> Result<()> {
        self.report(job, Report::Data(data.as_ref()))
    }

    /// Sends the submitters a warning (`WORK_WARNING`).
    ///
    /// # Errors
    ///
    /// `JobLost`; a failure of the connection.
    pub fn warning(&mut self, job: &GrabbedJob, data: impl AsRef<[u8]>) -> Result<()> {
        self.report(job, Report::Warning(data.as_ref()))
    }

    fn report(&mut self, job: &GrabbedJob, report: Report<'_>) -> Result<()> {
        let lane = self.lanes.get_mut(job.lane).ok_or_else(|| job_lost(&job.handle))?;
        lane.report(&job.handle, report)
    }

    /// Whether the connection that brought a job is gone, as far as can be seen without waiting. Its end will not be sent
    /// then: others run it.
    #[must_use]
    pub fn is_lost(&mut self, job: &GrabbedJob) -> bool {
        self.lanes.get_mut(job.lane).is_none_or(|lane| lane.is_lost(&job.handle))
    }

    /// Waits until the connection that brought a job is gone, at most for `timeout`, and says why; `None` when it is not
    /// gone.
    #[must_use]
    pub fn wait_lost(&mut self, job: &GrabbedJob, timeout: Duration) -> Option<LostReason> {
        self.lanes.get_mut(job.lane)?.wait_lost(&job.handle, timeout)
    }

    /// Waits until every server has read what was sent so far, and the results among it are accounted for. A server that
    /// was never tried is connected to first; one that cannot be reached was sent nothing, and is left out.
    ///
    /// # Errors
    ///
    /// When a connection is lost meanwhile, or was lost since the last barrier with results that nobody confirms, which
    /// are counted as unknown; and when there is no connection at all.
    pub fn echo_barrier(&mut self) -> Result<()> {
        let mut outcome = Err(no_server());
        for (index, lane) in self.lanes.iter_mut().enumerate() {
            lane.check_losses()?;
            let tried = lane.try_to_connect();
            if tried.is_ok() {
                let mut jobs = Vec::new();
                let passed = lane.barrier(&mut jobs);
                self.inbox.extend(jobs.into_iter().map(|job| (index, job)));
                passed?;
            }
            if outcome.is_err() {
                outcome = tried;
            }
        }
        outcome
    }

    /// Stops: asks for no further job, makes sure that the results were taken, and closes. Jobs that are still held go
    /// back to the server.
    #[must_use]
    pub fn stop(mut self) -> WorkerReport {
        self.finish_all()
    }

    /// How many servers' connections are good.
    #[must_use]
    pub fn connected(&self) -> usize {
        self.lanes.iter().filter(|lane| lane.is_connected()).count()
    }

    /// The next job of any server.
    fn next_assignment(&mut self, timeout: Duration) -> Result<Option<(usize, Assignment)>> {
        let limit = Limit::of(Deadline::Total, Some(timeout));
        self.lanes.iter_mut().for_each(Lane::start);
        let mut pause = Duration::from_millis(1);
        loop {
            self.fail_dropped();
            while let Some(next) = self.inbox.pop_front() {
                if self.is_to_be_given(&next) {
                    return Ok(Some(next));
                }
            }
            self.heed_stop();
            if self.is_ending() && !self.lanes.iter().any(Lane::is_asking) {
                return Ok(None);
            }
            if self.sweep(limit) {
                pause = Duration::from_millis(1);
                continue;
            }
            if limit.has_passed() {
                if self.connected() == 0 {
                    let error = self.lanes.iter().find_map(Lane::last_error);
                    return Err(error.map_or_else(no_server, Error::share));
                }
                return Ok(None);
            }
            if self.lanes.len() > 1 || self.connected() == 0 {
                thread::sleep(limit.remaining().map_or(pause, |left| left.min(pause)));
                pause = (pause * 2).min(PAUSE);
            }
        }
    }

    /// Whether no further job is to be asked for.
    fn is_ending(&self) -> bool {
        self.stop.is_stopped() || self.options.limit.as_ref().is_some_and(JobLimit::is_reached)
    }

    /// Asks for no further job if the worker is to stop.
    fn heed_stop(&mut self) {
        if self.stop.is_stopped() {
            self.lanes.iter_mut().for_each(Lane::stop);
        }
    }

    /// Looks at every server once, beginning with another one each time; whether a job came. With a single server this
    /// waits for it.
    fn sweep(&mut self, limit: Limit) -> bool {
        let count = self.lanes.len();
        self.turn = self.turn.wrapping_add(1);
        let mut jobs = Vec::new();
        for offset in 0..count {
            let index = self.turn.wrapping_add(offset) % count;
            let Some(lane) = self.lanes.get_mut(index) else { continue };
            // A server that cannot be reached is tried again later.
            if lane.make_ready().is_err() || !lane.is_connected() {
                continue;
            }
            let due = lane.ask();
            let mut wait = match due {
                Some(due) => limit.shorter(due.saturating_duration_since(now())),
                None => limit,
            };
            if count > 1 {
                wait = wait.shorter(Duration::from_millis(1));
            }
            lane.receive(wait, &mut jobs);
            self.inbox.extend(jobs.drain(..).map(|job| (index, job)));
            if !self.inbox.is_empty() {
                // More are asked for while this one is worked on; the next server is looked at first next time.
                lane.ask();
                break;
            }
        }
        !self.inbox.is_empty()
    }

    /// Runs the handler of a job. Its result goes out at once, or with those of the other jobs that are here.
    fn handle(&mut self, index: usize, job: &Assignment) {
        let Some(lane) = self.lanes.get_mut(index) else { return };
        let outcome = match self.handlers.get_mut(&job.function) {
            Some(handler) => {
                let ledger = self.options.ledger.as_ref();
                let admitted = ledger.map_or(Ok(None), |ledger| ledger.admit(job));
                let span = trace::job(job);
                let outcome = admitted.map_err(Failed::Handler).and_then(|_running| {
                    let stopping = &*self.stop.stopping;
                    let mut context = JobContext { assignment: job, lane: &mut *lane, stopping };
                    let run = || span.run(|| handler(&mut context));
                    // The handler's own state may be left half done; that is the handler's to deal with.
                    let ended = catch_unwind(AssertUnwindSafe(run));
                    ended.map_err(|panic| Failed::panic(&*panic))?.map_err(Failed::Handler)
                });
                span.run(|| lane.teller().ended(job, &outcome));
                outcome
            }
            None => Err(Failed::Handler(Failure::Fail)),
        };
        if self.stop.is_stopped() {
            lane.stop();
        }
        // A job that is lost is counted, and the server has given it to others.
        let _ = match &outcome {
            Ok(result) => lane.finish(&job.handle, End::Complete(result)),
            Err(failed) => lane.finish(&job.handle, failed.end()),
        };
        self.inbox.extend(lane.take_arrived().map(|job| (index, job)));
        let may_wait = self.options.batch_results && lane.outgoing() < ENOUGH_OUTGOING;
        if self.inbox.is_empty() || !may_wait {
            self.flush_all();
        }
    }

    /// Writes what lanes have queued. A failure closes a lane, and its jobs are lost.
    fn flush_all(&mut self) {
        for lane in &mut self.lanes {
            let _ = lane.flush();
        }
    }

    /// Fails the jobs that were dropped without an end.
    fn fail_dropped(&mut self) {
        let dropped =
            std::mem::take(&mut *self.dropped.lock().unwrap_or_else(PoisonError::into_inner));
        for (index, handle) in dropped {
            if let Some(lane) = self.lanes.get_mut(index) {
                let _ = lane.finish(&handle, End::Fail).and_then(|()| lane.flush());
            }
        }
    }

    /// Finishes what runs, within the grace, and closes.
    fn finish_all(&mut self) -> WorkerReport {
        let grace = Limit::of(Deadline::Total, Some(self.options.grace));
        self.lanes.iter_mut().for_each(Lane::stop);
        self.fail_dropped();
        // Grabs that are under way may still bring jobs.
        while !grace.has_passed() {
            if let Some((index, job)) = self.take_handled() {
                self.handle(index, &job);
                continue;
            }
            self.flush_all();
            if self.lanes.iter().all(Lane::is_drained) || !self.settle_grabs(grace) {
                break;
            }
        }
        for lane in &mut self.lanes {
            self.report.merge(lane.end(self.options.barrier));
        }
        self.report
    }

    /// A job that came and has a handler.
    fn take_handled(&mut self) -> Option<(usize, Assignment)> {
        loop {
            let has_handler =
                |(_, job): &(usize, Assignment)| self.handlers.contains_key(&job.function);
            let at = self.inbox.iter().position(has_handler)?;
            let next = self.inbox.remove(at)?;
            if self.is_to_be_given(&next) {
                return Some(next);
            }
        }
    }

    /// Whether a job is still ours: while it waited here the server may have given it to others. A limit has counted it,
    /// though: whoever counts along gets it, and is told so by its end.
    fn is_to_be_given(&self, (lane, job): &(usize, Assignment)) -> bool {
        let is_held = || self.lanes.get(*lane).is_some_and(|lane| lane.holds(&job.handle));
        self.options.limit.is_some() || is_held()
    }

    /// Reads the answers to grabs under way; whether there is more to wait for.
    fn settle_grabs(&mut self, grace: Limit) -> bool {
        let mut jobs = Vec::new();
        let mut waits = false;
        for (index, lane) in self.lanes.iter_mut().enumerate() {
            if lane.is_connected() && lane.is_asking() {
                lane.ask();
                lane.receive(grace.shorter(PAUSE), &mut jobs);
                self.inbox.extend(jobs.drain(..).map(|job| (index, job)));
                waits = true;
            }
        }
        waits
    }
}

impl std::fmt::Debug for Worker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Worker")
            .field(
                "servers",
                &self.lanes.iter().map(|lane| lane.address().to_string()).collect::<Vec<_>>(),
            )
            .field("connected", &self.connected())
            .finish_non_exhaustive()
    }
}
