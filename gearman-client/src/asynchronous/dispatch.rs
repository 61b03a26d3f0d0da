//! Dispatch of an async worker's jobs, to handlers or to callers of `next_job`.

use std::{
    collections::{HashMap, VecDeque},
    future::Future,
    pin::Pin,
    sync::{Arc, PoisonError, RwLock},
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use tokio::task::JoinSet;

use queue_core::{
    Quick, Signal, lock, now,
    sync::{Mutex, MutexGuard},
};

use crate::{
    CrashLedger, FunctionName, GrabbedJob, JobContext,
    names::keys::Keys,
    work::{events::Teller, failure::Failed},
};

/// The running handler and its result.
pub(crate) type Running = Pin<Box<dyn Future<Output = Result<Bytes, Failed>> + Send>>;

pub(crate) type Handler = Box<dyn Fn(JobContext) -> Running + Send + Sync>;

/// Shared by all connections of a worker.
#[derive(Default)]
pub(crate) struct Dispatch {
    handlers: RwLock<HashMap<FunctionName, Arc<Registered>, Keys>>,
    tasks: Mutex<JoinSet<()>>,
    ledger: Option<CrashLedger>,
    /// Tells handlers that the worker is stopping.
    pub(crate) stopping: Signal,
    queue: Mutex<Queue>,
}

/// A handler and its behaviour.
struct Registered {
    handler: Handler,
    quick: Quick,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<GrabbedJob>,
    /// Whether nobody takes jobs any longer.
    is_closed: bool,
    waker: Option<Waker>,
}

impl Dispatch {
    pub(crate) fn new(ledger: Option<CrashLedger>) -> Self {
        Dispatch { ledger, ..Self::default() }
    }

    pub(crate) fn register(&self, function: FunctionName, handler: Handler) {
        let registered = Arc::new(Registered { handler, quick: Quick::default() });
        let mut handlers = self.handlers.write().unwrap_or_else(PoisonError::into_inner);
        let last = handlers.insert(function, registered);
        drop(handlers);
        // What a handler owns is dropped outside of the lock.
        drop(last);
    }

    pub(crate) fn forget(&self, function: &FunctionName) {
        let mut handlers = self.handlers.write().unwrap_or_else(PoisonError::into_inner);
        let last = handlers.remove(function);
        drop(handlers);
        drop(last);
    }

    pub(crate) fn forget_all(&self) {
        let mut handlers = self.handlers.write().unwrap_or_else(PoisonError::into_inner);
        let all = std::mem::take(&mut *handlers);
        drop(handlers);
        drop(all);
    }

    /// Runs the handler of a job, in a task of its own unless it has proved quick, or queues the job.
    pub(crate) fn job(&self, job: GrabbedJob) {
        let handler = {
            let handlers = self.handlers.read().unwrap_or_else(PoisonError::into_inner);
            handlers.get(&job.function).cloned()
        };
        let Some(registered) = handler else {
            let mut queue = self.queue();
            if queue.is_closed {
                drop(queue);
                return job.leave();
            }
            queue.jobs.push_back(job);
            let waker = queue.waker.take();
            drop(queue);
            if let Some(waker) = waker {
                waker.wake();
            }
            return;
        };
        job.begin();
        let ledger = self.ledger.clone();
        let is_quick = registered.quick.is_proven();
        let mut process = job.teller().begins(&job);
        let span = process.span().clone();
        let mut task: Task = Box::pin(span.follow(async move {
            // The ledger's entry is removed before the end of the job is sent.
            let outcome = match ledger.map_or(Ok(None), |ledger| ledger.admit(&job)) {
                Ok(running) => {
                    Teller::admitted(&process, running.as_ref());
                    registered.run(job.context()).await
                }
                Err(poison) => Err(Failed::Handler(poison)),
            };
            job.teller().ended(&mut process, &job, &outcome);
            #[cfg(feature = "tower")]
            if let Err(Failed::NotRun(_)) = outcome {
                return job.leave();
            }
            // A lost job was counted, and the server has given it to another worker.
            let _ = match &outcome {
                Ok(result) => job.complete(result).await,
                Err(failed) => job.end(failed.end()).await,
            };
        }));
        if is_quick && runs_to_its_end(&mut task) {
            return;
        }
        let mut tasks = self.tasks();
        while tasks.try_join_next().is_some() {}
        tasks.spawn(task);
    }

    /// The next job without a handler.
    pub(crate) fn poll_next(&self, cx: &Context<'_>) -> Poll<GrabbedJob> {
        let waker = cx.waker().clone();
        let mut queue = self.queue();
        if let Some(job) = queue.jobs.pop_front() {
            return Poll::Ready(job);
        }
        let known = queue.waker.replace(waker);
        drop(queue);
        drop(known);
        Poll::Pending
    }

    /// Leaves untaken jobs to the servers, including those that still arrive.
    pub(crate) fn leave_untaken(&self) {
        let mut queue = self.queue();
        queue.is_closed = true;
        let jobs = std::mem::take(&mut queue.jobs);
        drop(queue);
        jobs.into_iter().for_each(GrabbedJob::leave);
    }

    /// Abandons untaken and running jobs.
    pub(crate) fn abort(&self) {
        self.tasks().abort_all();
        let jobs = std::mem::take(&mut self.queue().jobs);
        drop(jobs);
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        lock(&self.queue)
    }

    fn tasks(&self) -> MutexGuard<'_, JoinSet<()>> {
        lock(&self.tasks)
    }
}

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Polls a job inline as far as it gets without waiting; returns whether it finished.
fn runs_to_its_end(task: &mut Task) -> bool {
    let mut cx = Context::from_waker(Waker::noop());
    task.as_mut().poll(&mut cx).is_ready()
}

impl Registered {
    async fn run(&self, job: JobContext) -> Result<Bytes, Failed> {
        let start = now();
        let outcome = self.run_contained(job).await;
        self.quick.note(now().saturating_duration_since(start));
        outcome
    }

    /// A panic is a failure of its job only.
    async fn run_contained(&self, job: JobContext) -> Result<Bytes, Failed> {
        let ended = queue_core::contain(|| (self.handler)(job)).await;
        ended.unwrap_or_else(|panic| Err(Failed::panic(&*panic)))
    }
}
