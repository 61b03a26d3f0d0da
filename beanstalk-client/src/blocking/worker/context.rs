//! The job context passed to handlers.

use std::{
    ops::Deref,
    sync::{Arc, PoisonError},
    time::{Duration, Instant},
};

use queue_core::{
    Signal, lock, now,
    sync::{Condvar, Mutex},
};

use crate::{
    Address, Job, JobStats, LostReason, Result, TubeName,
    protocol::{HandlerJob, JobKey, ReservationChange},
    work::view::ReservationState,
};

/// The context passed to a handler: the [`Job`] and its reservation. Cloning is cheap.
#[derive(Clone)]
pub struct JobContext(pub(super) Arc<ContextInner>);

pub(super) struct ContextInner {
    key: JobKey,
    job: Job,
    deferrals: u64,
    server: Arc<Address>,
    view: Mutex<ReservationState>,
    changed: Condvar,
    slot: Answerer,
    stopping: Arc<Signal>,
}

/// A handler's request to its slot.
#[derive(Debug, Clone, Copy)]
pub(super) enum HandlerRequest {
    Touch(JobKey),
    Look(JobKey),
}

/// The receiver of a handler's requests.
pub(super) trait Answers: Send + Sync {
    /// Takes a request; the answer changes the job's view.
    fn ask(&self, ask: HandlerRequest);
}

/// Answers the handler's requests.
pub(super) enum Answerer {
    Worker(Arc<dyn Answers>),
    /// A [test](super::TestJob) of a handler has no slot.
    Test,
}

impl ContextInner {
    pub(super) fn new(
        taken: HandlerJob,
        deferrals: u64,
        server: Arc<Address>,
        slot: Answerer,
        stopping: Arc<Signal>,
    ) -> Arc<Self> {
        let HandlerJob { key, job, tube, stats, end } = taken;
        let view = Mutex::new(ReservationState { tube, stats, end, ..ReservationState::default() });
        Arc::new(ContextInner {
            key,
            job,
            deferrals,
            server,
            view,
            changed: Condvar::new(),
            slot,
            stopping,
        })
    }
}

impl JobContext {
    pub(super) fn new(
        taken: HandlerJob,
        deferrals: u64,
        server: Arc<Address>,
        answers: Arc<dyn Answers>,
        stopping: Arc<Signal>,
    ) -> Self {
        JobContext(ContextInner::new(taken, deferrals, server, Answerer::Worker(answers), stopping))
    }

    fn ask(&self, ask: HandlerRequest) {
        match (&self.0.slot, ask) {
            (Answerer::Worker(answers), ask) => answers.ask(ask),
            (Answerer::Test, HandlerRequest::Touch(_)) => self.confirm_touch(),
            // A test job knows its counters from the start.
            (Answerer::Test, HandlerRequest::Look(_)) => {}
        }
    }

    /// Answers a touch as a server that still holds the job for this worker.
    pub(super) fn confirm_touch(&self) {
        self.update(|view| {
            if view.lost.is_none() {
                let ttr = view.stats.as_ref().map_or(0, |stats| stats.ttr.unsigned_abs());
                let end = now().checked_add(Duration::from_secs(ttr));
                view.apply(ReservationChange::Touched(end));
            }
        });
    }

    pub(super) fn touches(&self) -> u64 {
        lock(&self.0.view).touches
    }

    pub(super) fn stop(&self) {
        self.0.stopping.set();
    }

    pub(super) fn key(&self) -> JobKey {
        self.0.key
    }

    pub(super) fn view(&self) -> &Mutex<ReservationState> {
        &self.0.view
    }

    pub(super) fn update(&self, change: impl FnOnce(&mut ReservationState)) {
        change(&mut lock(&self.0.view));
        self.0.changed.notify_all();
    }

    /// The server that the job came from.
    #[must_use]
    pub fn server(&self) -> &Address {
        &self.0.server
    }

    /// How often this worker has [deferred](crate::Outcome::defer) the job before, as far as it remembers. The server
    /// counts these releases like those of failures.
    #[must_use]
    pub fn deferrals(&self) -> u64 {
        self.0.deferrals
    }

    /// Whether the reservation has ended. If so, the outcome will not be sent, because the job now belongs to other
    /// workers.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        lock(&self.0.view).lost.is_some()
    }

    /// Waits until the reservation ends, at most for `timeout`, and returns the reason; `None` if it has not ended.
    #[must_use]
    pub fn wait_lost(&self, timeout: Duration) -> Option<LostReason> {
        let deadline = Instant::now().checked_add(timeout);
        self.wait(deadline, |view| view.lost)
    }

    /// Whether the worker was told to stop, or its run has ended. The job may still finish, within the
    /// [grace](crate::WorkerOptions::grace).
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.0.stopping.is_set()
    }

    /// Waits until the worker is told to stop, or its run ends, at most for `timeout`; returns whether it was. A
    /// long-running handler can then finish early, within the [grace](crate::WorkerOptions::grace).
    #[must_use]
    pub fn wait_stopping(&self, timeout: Duration) -> bool {
        self.0.stopping.wait_timeout(timeout)
    }

    /// The remaining time of the reservation, which a heartbeat extends before it ends; `None` while the time to run is
    /// unknown.
    #[must_use]
    pub fn time_left(&self) -> Option<Duration> {
        lock(&self.0.view).left(now())
    }

    /// Extends the reservation now (`touch`): its time to run restarts.
    ///
    /// # Errors
    ///
    /// `JobLost` if the reservation or the handler has ended; a refusal by the server.
    pub fn touch(&self) -> Result<()> {
        let touches = lock(&self.0.view).touches;
        self.ask(HandlerRequest::Touch(self.0.key));
        self.wait_for_ever(|view| view.touch_after(self.0.job.id, touches))
    }

    /// The tube that the job came from.
    #[must_use]
    pub fn tube(&self) -> TubeName {
        lock(&self.0.view).tube.clone()
    }

    /// The job's counters and settings (`stats-job`), as of its reservation.
    ///
    /// # Errors
    ///
    /// `JobLost` if they were not read before the reservation or the handler ended.
    pub fn stats(&self) -> Result<JobStats> {
        if lock(&self.0.view).stats.is_none() {
            self.ask(HandlerRequest::Look(self.0.key));
        }
        self.wait_for_ever(|view| view.counters(self.0.job.id))
    }

    /// Waits without a limit: the slot answers everything, at the latest when the connection is lost.
    fn wait_for_ever<T>(&self, mut look: impl FnMut(&ReservationState) -> Option<T>) -> T {
        loop {
            if let Some(found) = self.wait(None, &mut look) {
                return found;
            }
        }
    }

    fn wait<T>(
        &self,
        deadline: Option<Instant>,
        mut look: impl FnMut(&ReservationState) -> Option<T>,
    ) -> Option<T> {
        let mut view = lock(&self.0.view);
        loop {
            if let Some(found) = look(&view) {
                return Some(found);
            }
            let left = match deadline {
                Some(deadline) => deadline.saturating_duration_since(Instant::now()),
                None => Duration::from_secs(3600),
            };
            if left.is_zero() {
                return None;
            }
            let waited = self.0.changed.wait_timeout(view, left);
            view = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Deref for JobContext {
    type Target = Job;

    fn deref(&self) -> &Job {
        &self.0.job
    }
}

impl std::fmt::Debug for JobContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("JobContext").field(&self.0.job).finish()
    }
}
