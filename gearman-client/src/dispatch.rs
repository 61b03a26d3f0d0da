//! Where the jobs of an async worker go: to handlers, or to whoever takes them by hand.

use std::{
    collections::{HashMap, VecDeque},
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock},
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use tokio::task::JoinSet;

use crate::{Failure, FunctionName, GrabbedJob, JobContext};

/// What a handler's future gives.
pub(crate) type Outcome = Result<Bytes, Failure>;

type Handler =
    Arc<dyn Fn(JobContext) -> Pin<Box<dyn Future<Output = Outcome> + Send>> + Send + Sync>;

/// Shared by all connections of a worker.
#[derive(Default)]
pub(crate) struct Dispatch {
    handlers: RwLock<HashMap<FunctionName, Handler>>,
    tasks: Mutex<JoinSet<()>>,
    queue: Mutex<Queue>,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<GrabbedJob>,
    waker: Option<Waker>,
}

impl Dispatch {
    pub(crate) fn register(&self, function: FunctionName, handler: Handler) {
        let mut handlers = self.handlers.write().unwrap_or_else(PoisonError::into_inner);
        handlers.insert(function, handler);
    }

    pub(crate) fn forget(&self, function: &FunctionName) {
        self.handlers.write().unwrap_or_else(PoisonError::into_inner).remove(function);
    }

    pub(crate) fn forget_all(&self) {
        self.handlers.write().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Runs the handler of a job in a task of its own, or queues the job.
    pub(crate) fn job(&self, job: GrabbedJob) {
        let handler = {
            let handlers = self.handlers.read().unwrap_or_else(PoisonError::into_inner);
            handlers.get(&job.function).cloned()
        };
        let Some(handler) = handler else {
            let mut queue = self.queue();
            queue.jobs.push_back(job);
            let waker = queue.waker.take();
            drop(queue);
            if let Some(waker) = waker {
                waker.wake();
            }
            return;
        };
        let mut tasks = self.tasks();
        while tasks.try_join_next().is_some() {}
        tasks.spawn(async move {
            // A panic drops the job, which fails it.
            let outcome = handler(job.context()).await;
            // A job that is lost is counted, and the server has given it to others.
            let _ = match outcome {
                Ok(result) => job.complete(result).await,
                Err(Failure::Fail) => job.fail().await,
                Err(Failure::Exception(what)) => job.exception(what).await,
            };
        });
    }

    /// The next job that has no handler.
    pub(crate) fn poll_next(&self, cx: &Context<'_>) -> Poll<GrabbedJob> {
        let mut queue = self.queue();
        match queue.jobs.pop_front() {
            Some(job) => Poll::Ready(job),
            None => {
                queue.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    /// Gives up what was not taken, and what still runs.
    pub(crate) fn abort(&self) {
        self.tasks().abort_all();
        let jobs = std::mem::take(&mut self.queue().jobs);
        drop(jobs);
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tasks(&self) -> MutexGuard<'_, JoinSet<()>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
