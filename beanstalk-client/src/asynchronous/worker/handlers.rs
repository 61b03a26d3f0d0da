//! Running handlers: one at a time in each slot, in its own task.

use std::{
    collections::{BTreeMap, VecDeque},
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use queue_core::contain;
use tokio::task::JoinHandle;

use super::context::JobContext;
use crate::{
    IntoOutcome, TubeName,
    protocol::JobKey,
    trace::JobReporter,
    work::{outcome::Ended, view::ReservationState},
};

type RunningHandler = Pin<Box<dyn Future<Output = Ended> + Send>>;

/// A tube's handler, whatever its types.
pub(super) struct Handler(Box<Run>);

type Run = dyn Fn(JobContext, &Arc<JobReporter>) -> RunningHandler + Send + Sync;

pub(super) type Handlers = BTreeMap<TubeName, Handler>;

impl Handler {
    pub(super) fn new<H, T>(handler: H) -> Self
    where
        H: Fn(JobContext) -> T + Send + Sync + 'static,
        T: Future + Send + 'static,
        T::Output: IntoOutcome,
    {
        Handler(Box::new(move |job, reporter| {
            let mut process = reporter.begins(job.server(), &job, job.view());
            let (span, reporter) = (process.span().clone(), reporter.clone());
            // The handler is called here, where its job is handed over; its future may run in another task.
            let made = span.run(|| catch_unwind(AssertUnwindSafe(|| handler(job.clone()))));
            Box::pin(span.follow(async move {
                // A panic is a failure of its job, and is logged within its span.
                let ended = match made {
                    Ok(running) => contain(|| running).await,
                    Err(panic) => Err(panic),
                };
                let mut ended = match ended {
                    Ok(made) => Ended::with(made),
                    Err(panic) => Ended::panicked(&*panic),
                };
                reporter.ended(&mut process, job.id, job.view(), &mut ended);
                ended
            }))
        }))
    }
}

/// The jobs that one slot has given to their handlers, in order. Only the first one runs.
pub(super) struct SlotHandlers {
    handlers: Arc<Handlers>,
    reporter: Arc<JobReporter>,
    /// Whether the first poll is made inline, without a task.
    is_inline: bool,
    jobs: VecDeque<JobContext>,
    task: Option<HandlerTask>,
}

/// A handler's task; dropping it aborts the task.
struct HandlerTask(JoinHandle<Ended>);

impl Drop for HandlerTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl SlotHandlers {
    pub(super) fn new(handlers: Arc<Handlers>, reporter: JobReporter, is_inline: bool) -> Self {
        let reporter = Arc::new(reporter);
        SlotHandlers { handlers, reporter, is_inline, jobs: VecDeque::new(), task: None }
    }

    pub(super) fn push(&mut self, job: JobContext) {
        self.jobs.push_back(job);
    }

    pub(super) fn find(&self, key: JobKey) -> Option<&JobContext> {
        self.jobs.iter().find(|job| job.key() == key)
    }

    pub(super) fn update(&self, key: JobKey, change: impl FnOnce(&mut ReservationState)) {
        if let Some(job) = self.find(key) {
            job.update(change);
        }
    }

    /// Aborts the running handler, if it runs this job.
    pub(super) fn abort(&mut self, key: JobKey) {
        if self.jobs.front().is_some_and(|job| job.key() == key)
            && let Some(task) = &self.task
        {
            task.0.abort();
        }
    }

    /// Aborts all handlers. Those that block a thread continue, and learn that their jobs are lost.
    pub(super) fn clear(&mut self) {
        self.task = None;
        for job in self.jobs.drain(..) {
            job.update(ReservationState::abandon);
        }
    }

    /// The jobs whose handlers have not started.
    pub(super) fn take_waiting(&mut self) -> Vec<JobContext> {
        let running = usize::from(self.task.is_some());
        self.jobs.split_off(running.min(self.jobs.len())).into()
    }

    /// The next job that has ended. Calls `began` for each job that starts.
    pub(super) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        mut began: impl FnMut(&JobContext),
    ) -> Poll<(JobContext, Ended)> {
        loop {
            let ended = match &mut self.task {
                Some(task) => match Pin::new(&mut task.0).poll(cx) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(Ok(ended)) => ended,
                    Poll::Ready(Err(error)) => match error.try_into_panic() {
                        Ok(panic) => Ended::panicked(&*panic),
                        Err(_) => Ended::lost(),
                    },
                },
                None => {
                    let Some(job) = self.jobs.front() else { return Poll::Pending };
                    match self.handlers.get(&job.tube()).filter(|_| !job.is_lost()) {
                        // The reservation expired while the job waited for its turn.
                        None => Ended::lost(),
                        Some(handler) => {
                            began(job);
                            let running = (handler.0)(job.clone(), &self.reporter);
                            match begin(running, self.is_inline, cx) {
                                Ok(ended) => ended,
                                Err(running) => {
                                    self.task = Some(HandlerTask(tokio::spawn(running)));
                                    continue;
                                }
                            }
                        }
                    }
                }
            };
            self.task = None;
            let Some(job) = self.jobs.pop_front() else { return Poll::Pending };
            job.update(|view| view.has_ended = true);
            return Poll::Ready((job, ended));
        }
    }
}

impl Drop for SlotHandlers {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Starts a handler: polls its future once if it is to run inline, and otherwise spawns it.
fn begin(
    mut running: RunningHandler,
    is_inline: bool,
    cx: &mut Context<'_>,
) -> Result<Ended, RunningHandler> {
    let first = catch_unwind(AssertUnwindSafe(|| {
        if is_inline && let Poll::Ready(ended) = running.as_mut().poll(cx) {
            return Ok(ended);
        }
        Err(running)
    }));
    first.unwrap_or_else(|panic| Ok(Ended::panicked(&*panic)))
}
