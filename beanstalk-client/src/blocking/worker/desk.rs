//! Where the thread that drives a connection and the thread that runs its handlers meet.

use std::{
    any::Any,
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Condvar, Mutex, PoisonError},
    time::{Duration, Instant},
};

use super::context::JobContext;
use crate::{
    Address, Outcome, WorkerEventKind,
    protocol::JobKey,
    worker_board::Board,
    worker_view::{View, lock},
};

/// What a handler gives: the outcome, and the words of a failure.
pub(super) type Ended = (Outcome, Option<String>);

/// What a handler asks its slot for.
#[derive(Debug, Clone, Copy)]
pub(super) enum Ask {
    Touch(JobKey),
    Look(JobKey),
}

/// Jobs go one way over it, outcomes and questions the other.
#[derive(Default)]
pub(super) struct Desk {
    state: Mutex<State>,
    /// There is a job, or there will be no other.
    jobs: Condvar,
    /// There is an outcome or a question.
    news: Condvar,
}

#[derive(Default)]
struct State {
    /// Jobs that nobody has begun with.
    waiting: VecDeque<JobContext>,
    running: Option<JobContext>,
    ended: VecDeque<(JobContext, Ended)>,
    asks: VecDeque<Ask>,
    is_closed: bool,
}

/// What the slot finds on the desk.
#[derive(Default)]
pub(super) struct News {
    pub(super) ended: VecDeque<(JobContext, Ended)>,
    pub(super) asks: VecDeque<Ask>,
}

/// Outcomes of tiny jobs are told together: after so many, or so much time.
const BATCH: usize = 32;
const MOMENT: Duration = Duration::from_millis(1);

/// Nobody needs more questions than that at once; the oldest are the ones that are being answered.
const MAX_ASKS: usize = 1024;

impl Desk {
    /// Runs handlers until the desk is closed.
    pub(super) fn work(
        &self,
        handler: impl Fn(JobContext) -> Ended,
        board: &Board,
        server: &Address,
        slot: usize,
    ) {
        let mut told = Instant::now();
        while let Some(job) = self.next() {
            let ended = if job.is_lost() {
                // Its time was over while it waited for its turn.
                (Outcome::Retry, None)
            } else {
                board.tell(server, slot, WorkerEventKind::Started(job.id));
                let span = crate::trace::job(server, job.id, job.body.len());
                catch_unwind(AssertUnwindSafe(|| span.run(|| handler(job.clone()))))
                    .unwrap_or_else(|panic| panicked(&*panic))
            };
            let mut state = lock(&self.state);
            state.running = None;
            state.ended.push_back((job, ended));
            let is_news = state.waiting.is_empty() || state.ended.len() >= BATCH;
            if is_news || told.elapsed() >= MOMENT {
                drop(state);
                told = Instant::now();
                self.news.notify_one();
            }
        }
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

    /// Lets the handlers' thread end.
    pub(super) fn close(&self) {
        lock(&self.state).is_closed = true;
        self.jobs.notify_one();
    }

    pub(super) fn put(&self, job: JobContext) {
        lock(&self.state).waiting.push_back(job);
        self.jobs.notify_one();
    }

    pub(super) fn ask(&self, ask: Ask) {
        let mut state = lock(&self.state);
        if state.asks.len() < MAX_ASKS {
            state.asks.push_back(ask);
        }
        drop(state);
        self.news.notify_one();
    }

    pub(super) fn take_news(&self) -> News {
        let mut state = lock(&self.state);
        let (ended, asks) = (std::mem::take(&mut state.ended), std::mem::take(&mut state.asks));
        News { ended, asks }
    }

    /// Waits until there is something to take, at most for `time`.
    pub(super) fn wait(&self, time: Duration) {
        let state = lock(&self.state);
        if state.ended.is_empty() && state.asks.is_empty() {
            drop(self.news.wait_timeout(state, time));
        }
    }

    /// The jobs that no handler has begun with.
    pub(super) fn take_waiting(&self) -> VecDeque<JobContext> {
        std::mem::take(&mut lock(&self.state).waiting)
    }

    /// Whether no handler runs, and none will.
    pub(super) fn is_idle(&self) -> bool {
        let state = lock(&self.state);
        state.waiting.is_empty() && state.running.is_none()
    }

    pub(super) fn update(&self, key: JobKey, change: impl FnOnce(&mut View)) {
        let state = lock(&self.state);
        let known =
            state.running.iter().chain(&state.waiting).find(|job| job.key() == key).cloned();
        drop(state);
        if let Some(job) = known {
            job.update(change);
        }
    }
}

fn panicked(panic: &(dyn Any + Send)) -> Ended {
    let text = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message");
    (Outcome::Retry, Some(format!("the handler panicked: {text}")))
}
