//! The async worker.

mod abilities;
mod context;
mod grabbed;
#[cfg(feature = "tower")]
mod service;
mod test_job;

use std::{
    future::{Future, poll_fn},
    pin::pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use queue_core::{Haste, LimitWatch, Stop, now};
use tokio::{task::JoinSet, time::timeout};

pub use self::{context::JobContext, grabbed::GrabbedJob, test_job::TestJob};
use crate::{
    Error, Result, WorkerHandle, WorkerOptions, WorkerReport,
    asynchronous::{dispatch::Dispatch, lane::LaneDriver},
    protocol::worker::lane::{CONFIRMING, Lane as Role},
};

/// How much later than planned the last connection may end.
const SLACK: Duration = Duration::from_secs(1);

/// A worker for one or more Gearman servers.
///
/// Functions are [registered](Self::register) with a handler and served by [`run_until`](Self::run_until), each job in
/// its own task; or announced with [`can_do`](Self::can_do) and taken manually with [`next_job`](Self::next_job). Each
/// connection has a task that maintains it, reconnects when it is lost, and registers all functions again.
///
/// **Lost jobs.** When a connection is lost, the server gives its jobs to other workers, or to this one again, while
/// their handlers keep running. [`JobContext::lost`] notifies them, and their outcomes are not sent. Until such a
/// handler ends, it keeps its slot, and this worker starts no other run of the same job from that server.
///
/// Dropping the worker closes its connections; unfinished jobs go back to the servers.
pub struct Worker {
    /// In a box, because the futures of a run move the worker.
    pub(crate) options: Box<WorkerOptions>,
    pub(crate) lanes: Vec<Arc<LaneDriver>>,
    tasks: JoinSet<()>,
    pub(crate) dispatch: Arc<Dispatch>,
    stop: Arc<Stop>,
}

impl Worker {
    /// Creates a worker for these servers: `"127.0.0.1:4730"`, `"one:4730,two:4730"`, [`Servers`](crate::Servers) or
    /// [`WorkerOptions`]. It connects when it is run or asked for a job, and keeps trying: for a service that may start
    /// before its servers.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for an invalid address, and outside of a tokio runtime; `Tls` for unusable TLS options.
    pub fn new<O>(options: O) -> Result<Self>
    where
        O: TryInto<WorkerOptions>,
        Error: From<O::Error>,
    {
        let options = Box::new(options.try_into()?);
        options.servers.check()?;
        let runtime = queue_core::runtime("worker")?;
        let dispatch = Arc::new(Dispatch::new(options.ledger.clone()));
        let mut tasks = JoinSet::new();
        let mut lanes = Vec::new();
        for (server, share) in options.lanes() {
            let lane = LaneDriver::new(&server, share, &options, dispatch.clone());
            tasks.spawn_on(lane.driver(&server), &runtime);
            lanes.push(lane);
        }
        Ok(Worker { options, lanes, tasks, dispatch, stop: Arc::new(Stop::new(1)) })
    }

    /// Runs handlers until its [handle](Self::handle) [stops](Self::stop) it, the last job of the
    /// [limit](WorkerOptions::limit) has ended, or there are no jobs ([`until_empty`](WorkerOptions::until_empty)). Lost
    /// servers are retried. Jobs of functions without a handler fail.
    ///
    /// # Cancel safety
    ///
    /// Dropping it closes the connections; unfinished jobs go back to the servers.
    pub async fn run(self) -> WorkerReport {
        self.run_until(std::future::pending::<()>()).await
    }

    /// As [`run`](Self::run), but also ends when `stop` is ready.
    ///
    /// # Cancel safety
    ///
    /// Dropping it closes the connections; unfinished jobs go back to the servers.
    pub async fn run_until(self, stop: impl Future) -> WorkerReport {
        self.start();
        {
            let fail_others = async {
                loop {
                    // Dropping the job fails it.
                    drop(self.dispatched().await);
                }
            };
            let mut fail_others = pin!(fail_others);
            let mut limit = self.options.limit.clone().map(LimitWatch::new);
            let (mut stop, mut stopped) = (pin!(stop), pin!(self.stop.signal().wait()));
            let mut is_last = self.options.until_empty;
            poll_fn(|cx| {
                let _: Poll<()> = fail_others.as_mut().poll(cx);
                if stopped.as_mut().poll(cx).is_ready() || stop.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(());
                }
                if limit.as_mut().is_some_and(|limit| limit.poll(cx).is_ready()) {
                    // The last jobs have all the time that they need.
                    (limit, is_last) = (None, true);
                    self.lanes.iter().for_each(|lane| lane.change(Role::wind_down));
                }
                if is_last && self.have_ended(cx) { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
        }
        self.stop().await
    }

    /// The next job of a function announced with [`can_do`](Self::can_do).
    ///
    /// It waits forever once the [limit](WorkerOptions::limit) is reached, or there are no jobs
    /// ([`until_empty`](WorkerOptions::until_empty)).
    ///
    /// Up to [`slots`](WorkerOptions::slots) jobs of each connection can be held at once. End each with
    /// [`complete`](GrabbedJob::complete), [`fail`](GrabbedJob::fail) or [`exception`](GrabbedJob::exception).
    ///
    /// # Cancel safety
    ///
    /// A dropped `next_job` loses nothing: the next call returns the job.
    pub async fn next_job(&mut self) -> GrabbedJob {
        self.start();
        self.dispatched().await
    }

    /// Whether all connections have ended on their own; otherwise registers to be woken when they have.
    fn have_ended(&self, cx: &Context<'_>) -> bool {
        self.lanes.iter().all(|lane| lane.is_over(cx))
    }

    /// The next manually taken job, unless the worker is stopped or has ended before it comes.
    #[cfg(feature = "stream")]
    pub(crate) async fn next_until_stopped(&self) -> Option<GrabbedJob> {
        self.start();
        let (mut stopped, mut job) = (pin!(self.stop.signal().wait()), pin!(self.dispatched()));
        poll_fn(|cx| match stopped.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(None),
            Poll::Pending => match job.as_mut().poll(cx) {
                Poll::Pending if self.options.until_empty && self.have_ended(cx) => {
                    Poll::Ready(None)
                }
                job => job.map(Some),
            },
        })
        .await
    }

    async fn dispatched(&self) -> GrabbedJob {
        loop {
            let job = poll_fn(|cx| self.dispatch.poll_next(cx)).await;
            // While it waited here, the server may have given it to another worker. If a limit has counted it, it is
            // handed over even so, and its end fails with `JobLost`.
            if self.options.limit.is_some() || job.is_held() {
                job.reporter().consumed(&job);
                return job;
            }
        }
    }

    fn start(&self) {
        self.lanes.iter().for_each(|lane| lane.change(Role::start));
    }

    /// Stops: requests no further jobs, lets running ones finish within the [grace](WorkerOptions::grace), makes sure
    /// that the server accepted the results, and closes the connections. Unfinished jobs go back to the servers.
    ///
    /// # Cancel safety
    ///
    /// Dropping it closes the connections at once.
    pub async fn stop(mut self) -> WorkerReport {
        self.stop.ask(Haste::Gently);
        self.dispatch.stopping.set();
        let mut told = None;
        let all = poll_fn(|cx| {
            self.stop.wake(0, cx.waker());
            if let Some(haste) = self.stop.asked()
                && told.replace(haste) != Some(haste)
            {
                let stop = |role: &mut Role| role.stop(haste, now());
                self.lanes.iter().for_each(|lane| lane.change(stop));
                self.dispatch.leave_untaken();
            }
            while ready!(self.tasks.poll_join_next(cx)).is_some() {}
            Poll::Ready(())
        });
        // The roles end in time by themselves, unless something keeps their tasks from it.
        let patience = self.options.grace.saturating_add(CONFIRMING).saturating_add(SLACK);
        let _ = timeout(patience, all).await;
        // Handlers whose grace has passed may be running.
        self.give_up();
        self.handle().report()
    }

    /// A handle to end a [`run`](Self::run) from anywhere, and to observe the worker.
    #[must_use]
    pub fn handle(&self) -> WorkerHandle {
        let gauges = self.lanes.iter().map(|lane| &lane.gauge);
        WorkerHandle::new(gauges, &self.options.servers, &self.stop)
    }

    fn give_up(&self) {
        self.dispatch.stopping.set();
        self.lanes.iter().for_each(|lane| lane.cut());
        self.dispatch.abort();
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.give_up();
    }
}
