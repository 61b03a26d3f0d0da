//! The job context passed to handlers.

use std::{collections::VecDeque, ops::Deref, sync::Arc, task::Waker, time::Duration};

use queue_core::{Signal, lock, now, sync::Mutex};
use tokio::sync::Notify;

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
    changed: Notify,
    slot: Answerer,
    stopping: Arc<Signal>,
}

/// Answers the handler's requests.
pub(super) enum Answerer {
    Worker(Arc<HandlerRequests>),
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
            changed: Notify::new(),
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
        mail: Arc<HandlerRequests>,
        stopping: Arc<Signal>,
    ) -> Self {
        JobContext(ContextInner::new(taken, deferrals, server, Answerer::Worker(mail), stopping))
    }

    fn ask(&self, ask: HandlerRequest) {
        match (&self.0.slot, ask) {
            (Answerer::Worker(mail), ask) => mail.ask(ask),
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
        self.0.changed.notify_waiters();
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

    /// Waits until the reservation ends, and returns the reason. Use it in `select!` to abandon the work.
    ///
    /// # Cancel safety
    ///
    /// Dropping it does no harm.
    pub async fn lost(&self) -> LostReason {
        self.wait(|view| view.lost).await
    }

    /// Whether the worker was told to stop, or its run has ended. The job may still finish, within the
    /// [grace](crate::WorkerOptions::grace).
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.0.stopping.is_set()
    }

    /// Waits until the worker is told to stop, or its run ends. A long-running handler can then finish early, within the
    /// [grace](crate::WorkerOptions::grace).
    ///
    /// # Cancel safety
    ///
    /// Dropping it does no harm.
    pub async fn stopping(&self) {
        self.0.stopping.wait().await;
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
    ///
    /// # Cancel safety
    ///
    /// The touch may still be carried out.
    pub async fn touch(&self) -> Result<()> {
        let touches = lock(&self.0.view).touches;
        self.ask(HandlerRequest::Touch(self.0.key));
        self.wait(|view| view.touch_after(self.0.job.id, touches)).await
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
    ///
    /// # Cancel safety
    ///
    /// Dropping it does no harm.
    pub async fn stats(&self) -> Result<JobStats> {
        if lock(&self.0.view).stats.is_none() {
            self.ask(HandlerRequest::Look(self.0.key));
        }
        self.wait(|view| view.counters(self.0.job.id)).await
    }

    async fn wait<T>(&self, mut look: impl FnMut(&ReservationState) -> Option<T>) -> T {
        loop {
            let mut changed = std::pin::pin!(self.0.changed.notified());
            changed.as_mut().enable();
            if let Some(found) = look(&lock(&self.0.view)) {
                return found;
            }
            changed.await;
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

/// A handler's request to its slot.
#[derive(Debug, Clone, Copy)]
pub(super) enum HandlerRequest {
    Touch(JobKey),
    Look(JobKey),
}

/// Mailbox from handlers to their slot.
#[derive(Debug, Default)]
pub(super) struct HandlerRequests(Mutex<QueuedRequests>);

#[derive(Debug, Default)]
struct QueuedRequests {
    asks: VecDeque<HandlerRequest>,
    waker: Option<Waker>,
}

/// No handler needs more requests at once. Newer ones are dropped, since the oldest are already being answered.
const MAX_ASKS: usize = 1024;

impl HandlerRequests {
    fn ask(&self, ask: HandlerRequest) {
        let mut post = lock(&self.0);
        if post.asks.len() < MAX_ASKS {
            post.asks.push_back(ask);
        }
        let waker = post.waker.take();
        drop(post);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    pub(super) fn take(&self, waker: &Waker) -> VecDeque<HandlerRequest> {
        let mut post = lock(&self.0);
        match &mut post.waker {
            Some(known) => known.clone_from(waker),
            none => *none = Some(waker.clone()),
        }
        std::mem::take(&mut post.asks)
    }
}
