//! What the job contexts and the test jobs of both faces have in common.

use crate::{
    Job, TubeName,
    protocol::{HandlerJob, JobKey},
    work::view::test_stats,
};

/// A handler's request to its slot.
#[derive(Debug, Clone, Copy)]
pub(crate) enum HandlerRequest {
    Touch(JobKey),
    Look(JobKey),
}

/// No handler needs more requests at once. Newer ones are dropped, since the oldest are already being answered.
pub(crate) const MAX_ASKS: usize = 1024;

/// A job of the tube `default`, reserved for the first time, with a time to run of one minute.
pub(crate) fn taken_for_test(job: Job) -> HandlerJob {
    let (stats, tube) = (test_stats(&job).map(Box::new), TubeName::default());
    HandlerJob { key: JobKey::default(), job, tube, stats, end: None }
}

/// The context of a job, whose changes `$changed` makes known by `$notify`, and whose requests `$slot` takes. The async
/// one says what happens if its futures are dropped.
macro_rules! job_context {
    ($changed:ty, $notify:ident, $slot:ty $(, $async:ident $await:ident $cancel:literal)?) => {
/// The context passed to a handler: the [`Job`] and its reservation. Cloning is cheap.
#[derive(Clone)]
pub struct JobContext(Arc<ContextInner>);

struct ContextInner {
    key: JobKey,
    job: Job,
    deferrals: u64,
    server: Arc<Address>,
    view: Mutex<ReservationState>,
    changed: $changed,
    /// Answers the handler's requests. A [test](super::TestJob) of a handler has no slot.
    slot: Option<Arc<$slot>>,
    stopping: Arc<Signal>,
}

impl JobContext {
    pub(super) fn new(
        taken: HandlerJob,
        deferrals: u64,
        server: Arc<Address>,
        slot: Option<Arc<$slot>>,
        stopping: Arc<Signal>,
    ) -> Self {
        let HandlerJob { key, job, tube, stats, end } = taken;
        let view = Mutex::new(ReservationState { tube, stats, end, ..ReservationState::default() });
        let changed = <$changed>::new();
        JobContext(Arc::new(ContextInner {
            key,
            job,
            deferrals,
            server,
            view,
            changed,
            slot,
            stopping,
        }))
    }

    fn ask(&self, ask: HandlerRequest) {
        match (&self.0.slot, ask) {
            (Some(slot), ask) => slot.ask(ask),
            (None, HandlerRequest::Touch(_)) => self.confirm_touch(),
            // A test job knows its counters from the start.
            (None, HandlerRequest::Look(_)) => {}
        }
    }

    /// Answers a touch as a server that still holds the job for this worker.
    pub(super) fn confirm_touch(&self) {
        self.update(|view| {
            if view.lost.is_none() {
                let ttr = view.stats.as_ref().map_or(0, |stats| stats.ttr.unsigned_abs());
                let end = now().checked_add(Duration::from_secs(ttr));
                view.apply($crate::protocol::ReservationChange::Touched(end));
            }
        });
    }

    pub(super) fn key(&self) -> JobKey {
        self.0.key
    }

    pub(super) fn view(&self) -> &Mutex<ReservationState> {
        &self.0.view
    }

    pub(super) fn update(&self, change: impl FnOnce(&mut ReservationState)) {
        change(&mut lock(&self.0.view));
        self.0.changed.$notify();
    }

    pub(super) fn stop(&self) {
        self.0.stopping.set();
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

    /// Whether the worker was told to stop, or its run has ended. The job may still finish, within the
    /// [grace](crate::WorkerOptions::grace).
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.0.stopping.is_set()
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
    $(#[doc = concat!($cancel, "The touch may still be carried out.")])?
    pub $($async)? fn touch(&self) -> Result<()> {
        let touches = lock(&self.0.view).touches;
        self.ask(HandlerRequest::Touch(self.0.key));
        self.wait(|view| view.touch_after(self.0.job.id, touches))$(.$await)?
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
    $(#[doc = concat!($cancel, "Dropping it does no harm.")])?
    pub $($async)? fn stats(&self) -> Result<JobStats> {
        if lock(&self.0.view).stats.is_none() {
            self.ask(HandlerRequest::Look(self.0.key));
        }
        self.wait(|view| view.counters(self.0.job.id))$(.$await)?
    }
}

impl std::ops::Deref for JobContext {
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
    };
}

/// The methods of a test job.
macro_rules! test_job {
    () => {
        impl TestJob {
            /// A job of the tube `default`, reserved for the first time, with a time to run of one minute.
            #[must_use]
            pub fn new(job: Job) -> Self {
                let (taken, server) = ($crate::job_context::taken_for_test(job), Arc::default());
                let test = TestJob(JobContext::new(taken, 0, server, None, Arc::default()));
                test.0.confirm_touch();
                test.0.update(|view| view.touches = 0);
                test
            }

            /// The context to pass to the handler.
            #[must_use]
            pub fn context(&self) -> JobContext {
                self.0.clone()
            }

            /// Sets what [`stats`](JobContext::stats) and [`tube`](JobContext::tube) return. Use
            /// [`JobStats::parse`] for text in the server's format.
            pub fn set_stats(&self, stats: JobStats) {
                self.0.update(|view| {
                    view.tube = stats.tube.clone();
                    view.stats = Some(Box::new(stats));
                });
            }

            /// The number of times that the handler extended its reservation.
            #[must_use]
            pub fn touches(&self) -> u64 {
                lock(self.0.view()).touches
            }

            /// Ends the reservation.
            pub fn lose(&self, reason: LostReason) {
                self.0.update(|view| view.apply($crate::protocol::ReservationChange::Lost(reason)));
            }

            /// Tells the handler that its worker is stopping.
            pub fn stop(&self) {
                self.0.stop();
            }
        }
    };
}

pub(crate) use {job_context, test_job};
