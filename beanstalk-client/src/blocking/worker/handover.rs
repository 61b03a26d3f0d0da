//! What the two threads of a slot hand over: one drives its connection, the other one runs its handlers. Without
//! prefetch these are the same thread, and the other one stands in on the connection while a handler takes long.
//!
//! `queue_core::blocking::JobQueue` is something else: it hands out jobs to any number of threads. A handler of this
//! worker may touch its job, which waits for the connection's answer, so the handler cannot have the connection for
//! itself.

use std::{
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::PoisonError,
    time::{Duration, Instant},
};

use queue_core::{
    lock,
    sync::{Condvar, Mutex},
};

use super::context::{Answers, JobContext};
use crate::{
    WorkerEventKind,
    job_context::{HandlerRequest, MAX_ASKS},
    protocol::JobKey,
    trace::JobReporter,
    work::{outcome::Ended, view::ReservationState, worker_status::WorkerStatus},
};

/// A tube's handler, whatever its types.
pub(super) type Handler = Box<dyn Fn(&JobContext) -> Ended + Send + Sync>;

/// Passes jobs to the thread that runs handlers, outcomes and requests back, and has a thread stand in for it.
#[derive(Default)]
pub(super) struct Handover {
    state: Mutex<HandoverState>,
    /// Signals a job, or that no more will come.
    jobs: Condvar,
    /// Signals an outcome or a request.
    news: Condvar,
    /// Signals that a handler has started, or has a request, while no thread watches.
    begun: Condvar,
}

#[derive(Default)]
struct HandoverState {
    /// Jobs whose handlers have not started.
    waiting: VecDeque<JobContext>,
    running: Option<JobContext>,
    ended: VecDeque<(JobContext, Ended)>,
    asks: VecDeque<HandlerRequest>,
    /// Number of handlers started on the slot's own thread.
    begun: u64,
    /// Whether no thread checks for long-running handlers until the next one starts.
    is_unwatched: bool,
    /// Whether another thread stands in for the one that runs the handler.
    is_stood_in: bool,
    is_closed: bool,
}

/// An item that the slot takes from the handover.
#[derive(Default)]
pub(super) struct HandoverItem {
    pub(super) ended: VecDeque<(JobContext, Ended)>,
    pub(super) asks: VecDeque<HandlerRequest>,
}

/// Batch size for reporting the outcomes of short jobs; they are also reported after a short time.
const BATCH: usize = 32;
const MOMENT: Duration = Duration::from_millis(1);

/// Approximate time that a handler may run before another thread stands in for its own.
const SHORT: Duration = Duration::from_millis(20);

impl Handover {
    /// Runs handlers of the queued jobs until the handover is closed.
    pub(super) fn work(&self, run: impl Fn(&JobContext) -> Ended) {
        let mut notified_at = Instant::now();
        while let Some(job) = self.next() {
            let ended = run(&job);
            let mut state = lock(&self.state);
            state.running = None;
            state.ended.push_back((job, ended));
            let is_news = state.waiting.is_empty() || state.ended.len() >= BATCH;
            if is_news || notified_at.elapsed() >= MOMENT {
                drop(state);
                notified_at = Instant::now();
                self.news.notify_one();
            }
        }
    }

    pub(super) fn work_on(&self, job: JobContext, run: impl Fn(&JobContext) -> Ended) {
        let mut state = lock(&self.state);
        state.running = Some(job.clone());
        state.begun += 1;
        let wakes = std::mem::take(&mut state.is_unwatched);
        drop(state);
        if wakes {
            self.begun.notify_one();
        }
        let ended = run(&job);
        let mut state = lock(&self.state);
        state.running = None;
        state.ended.push_back((job, ended));
        let wakes = state.is_stood_in;
        drop(state);
        if wakes {
            self.news.notify_one();
        }
    }

    /// Waits until a handler takes long or has a request, so that a thread has to stand in for its own; `None` when the
    /// handover is closed. `done` is a handler that can no longer be helped.
    pub(super) fn wait_for_long(&self, done: Option<JobKey>) -> Option<JobKey> {
        let mut state = lock(&self.state);
        state.is_stood_in = false;
        let mut looked = None;
        while !state.is_closed {
            let now = Some(state.begun);
            let running = state.running.as_ref().map(JobContext::key);
            if running.is_some() && running != done && (looked == now || !state.asks.is_empty()) {
                state.is_stood_in = true;
                return running;
            }
            // Waking for each of many short jobs would cost more than the jobs do.
            let is_quiet = running.is_none() && looked == now;
            looked = now;
            state = if is_quiet {
                state.is_unwatched = true;
                self.begun.wait(state).unwrap_or_else(PoisonError::into_inner)
            } else {
                self.begun.wait_timeout(state, SHORT).unwrap_or_else(PoisonError::into_inner).0
            };
        }
        None
    }

    pub(super) fn runs(&self, job: JobKey) -> bool {
        lock(&self.state).running.as_ref().is_some_and(|running| running.key() == job)
    }

    fn next(&self) -> Option<JobContext> {
        let mut state = lock(&self.state);
        loop {
            if let Some(job) = state.waiting.pop_front() {
                state.running = Some(job.clone());
                return Some(job);
            }
            if state.is_closed {
                return None;
            }
            state = self.jobs.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Closes the handover, which lets the other thread end.
    pub(super) fn close(&self) {
        lock(&self.state).is_closed = true;
        self.jobs.notify_one();
        self.begun.notify_one();
    }

    pub(super) fn put(&self, job: JobContext) {
        lock(&self.state).waiting.push_back(job);
        self.jobs.notify_one();
    }

    pub(super) fn take_news(&self) -> HandoverItem {
        let mut state = lock(&self.state);
        let (ended, asks) = (std::mem::take(&mut state.ended), std::mem::take(&mut state.asks));
        HandoverItem { ended, asks }
    }

    /// Waits at most `time` for something to take.
    pub(super) fn wait(&self, time: Duration) {
        let state = lock(&self.state);
        if state.ended.is_empty() && state.asks.is_empty() {
            drop(self.news.wait_timeout(state, time));
        }
    }

    /// The jobs whose handlers have not started.
    pub(super) fn take_waiting(&self) -> VecDeque<JobContext> {
        std::mem::take(&mut lock(&self.state).waiting)
    }

    /// Whether no handler runs and none will start.
    pub(super) fn is_idle(&self) -> bool {
        let state = lock(&self.state);
        state.waiting.is_empty() && state.running.is_none()
    }

    pub(super) fn update(&self, key: JobKey, change: impl FnOnce(&mut ReservationState)) {
        let state = lock(&self.state);
        let known =
            state.running.iter().chain(&state.waiting).find(|job| job.key() == key).cloned();
        drop(state);
        if let Some(job) = known {
            job.update(change);
        }
    }
}

impl Answers for Handover {
    fn ask(&self, ask: HandlerRequest) {
        let mut state = lock(&self.state);
        if state.asks.len() < MAX_ASKS {
            state.asks.push_back(ask);
        }
        drop(state);
        self.begun.notify_one();
        self.news.notify_one();
    }
}

/// Runs a handler, unless its reservation expired while the job waited for its turn.
pub(super) fn run(
    job: &JobContext,
    handler: Option<&Handler>,
    worker_status: &WorkerStatus,
    slot: usize,
    reporter: &JobReporter,
) -> Ended {
    let ended = run_observed(job, handler, worker_status, slot, reporter);
    job.update(|view| view.has_ended = true);
    ended
}

fn run_observed(
    job: &JobContext,
    handler: Option<&Handler>,
    worker_status: &WorkerStatus,
    slot: usize,
    reporter: &JobReporter,
) -> Ended {
    let Some(handler) = handler.filter(|_| !job.is_lost()) else { return Ended::lost() };
    worker_status.notify(job.server(), slot, WorkerEventKind::Started(job.id));
    let mut process = reporter.begins(job.server(), job, job.view());
    let span = process.span().clone();
    span.run(|| {
        let made = catch_unwind(AssertUnwindSafe(|| handler(job)));
        // A panic is a failure of its job, and is logged within its span.
        let mut ended = made.unwrap_or_else(|panic| Ended::panicked(&*panic));
        reporter.ended(&mut process, job.id, job.view(), &mut ended);
        ended
    })
}
