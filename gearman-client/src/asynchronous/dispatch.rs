//! Dispatch of an async worker's jobs, to handlers or to callers of `next_job`.

use std::{
    collections::{HashMap, VecDeque},
    future::Future,
    pin::Pin,
    sync::{Arc, PoisonError, RwLock},
    task::{Context, Poll, Waker},
};

use bytes::Bytes;

use queue_core::{
    HandlerTasks, Registered, Signal, lock,
    sync::{Mutex, MutexGuard},
};

use crate::{
    CrashLedger, FunctionName, GrabbedJob, JobContext,
    names::keys::Keys,
    work::{events::EventReporter, failure::Failed},
};

/// The running handler and its result.
pub(crate) type RunningHandler = Pin<Box<dyn Future<Output = Result<Bytes, Failed>> + Send>>;

pub(crate) type Handler = Box<dyn Fn(JobContext) -> RunningHandler + Send + Sync>;

type Handlers = HashMap<FunctionName, Arc<Registered<Handler>>, Keys>;

/// Shared by all connections of a worker.
#[derive(Default)]
pub(crate) struct Dispatch {
    handlers: RwLock<Handlers>,
    /// They hold their lanes, so they have to be closed.
    tasks: HandlerTasks,
    ledger: Option<CrashLedger>,
    /// Tells handlers that the worker is stopping.
    pub(crate) stopping: Signal,
    queue: Mutex<HandlerQueue>,
}

#[derive(Default)]
struct HandlerQueue {
    jobs: VecDeque<GrabbedJob>,
    /// Whether jobs are no longer taken.
    is_closed: bool,
    waker: Option<Waker>,
}

impl Dispatch {
    pub(crate) fn new(ledger: Option<CrashLedger>) -> Self {
        Dispatch { ledger, ..Self::default() }
    }

    pub(crate) fn register(&self, function: FunctionName, handler: Handler) {
        let _last =
            self.change(|handlers| handlers.insert(function, Registered::new(handler).into()));
    }

    pub(crate) fn remove(&self, function: &FunctionName) {
        let _last = self.change(|handlers| handlers.remove(function));
    }

    pub(crate) fn clear(&self) {
        let _all = self.change(std::mem::take);
    }

    /// Changes the handlers, and returns the removed ones: what they own is dropped outside of the lock.
    fn change<T>(&self, step: impl FnOnce(&mut Handlers) -> T) -> T {
        step(&mut self.handlers.write().unwrap_or_else(PoisonError::into_inner))
    }

    /// Runs the handler of a job, in its own task unless it has proved quick, or queues the job.
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
        let is_quick = registered.is_quick();
        let mut process = job.reporter().begins(&job);
        let span = process.span().clone();
        let running = span.follow(async move {
            // The ledger's entry is removed before the end of the job is sent.
            let outcome = match ledger.map_or(Ok(None), |ledger| ledger.admit(&job)) {
                Ok(running) => {
                    EventReporter::admitted(&process, running.as_ref());
                    running.iter().for_each(|running| job.attempted(running.attempt()));
                    let ended = registered.run(|handler| handler(job.context())).await;
                    ended.unwrap_or_else(|panic| Err(Failed::panic(&*panic)))
                }
                Err(poison) => Err(Failed::Handler(poison)),
            };
            job.reporter().ended(&mut process, &job, &outcome);
            // A lost job was counted, and the server has given it to another worker.
            let _ = job.end(Failed::end_of(&outcome)).await;
        });
        self.tasks.start(is_quick, running);
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
        self.tasks.close();
        let jobs = std::mem::take(&mut self.queue().jobs);
        drop(jobs);
    }

    fn queue(&self) -> MutexGuard<'_, HandlerQueue> {
        lock(&self.queue)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::{WorkerOptions, asynchronous::lane::LaneDriver, protocol::Assignment};

    /// A connection may have brought a job that is on its way to its handler when the worker is dropped.
    #[tokio::test]
    async fn a_job_that_comes_after_the_end_of_the_worker_starts_no_handler() {
        let (dispatch, started) = (Arc::new(Dispatch::default()), Arc::new(AtomicUsize::new(0)));
        let function: FunctionName = "f".parse().unwrap();
        let counted = started.clone();
        let handler = move |_| -> RunningHandler {
            counted.fetch_add(1, Ordering::Relaxed);
            Box::pin(std::future::pending())
        };
        dispatch.register(function.clone(), Box::new(handler));
        let options: WorkerOptions = "server:1".parse().unwrap();
        let (server, share) = options.lanes().next().unwrap();
        let lane = LaneDriver::new(&server, share, &options, dispatch.clone());
        let comes = || {
            let job = Assignment::for_test(function.clone(), "");
            dispatch.job(GrabbedJob::new(job, lane.clone()));
        };
        let idle = Arc::strong_count(&lane);
        comes();
        tokio::task::yield_now().await;
        assert_eq!(started.load(Ordering::Relaxed), 1);
        dispatch.abort();
        tokio::task::yield_now().await;
        assert_eq!(Arc::strong_count(&lane), idle, "its task has ended");
        comes();
        assert_eq!(Arc::strong_count(&lane), idle, "no task waits to start");
        assert_eq!(started.load(Ordering::Relaxed), 1);
    }
}
