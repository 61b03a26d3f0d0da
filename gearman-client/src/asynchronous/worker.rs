//! The async worker.

mod context;
mod grabbed;
#[cfg(feature = "tower")]
mod service;
mod test_job;

use std::{
    future::{Future, poll_fn},
    pin::pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use queue_core::{Signal, in_thread};
use tokio::{task::JoinSet, time::timeout};

pub use self::{context::JobContext, grabbed::GrabbedJob, test_job::TestJob};
use crate::{
    Error, Failure, FunctionName, JobLimit, Result, WorkerHandle, WorkerOptions, WorkerReport,
    asynchronous::{
        dispatch::{Dispatch, Handler},
        lane::Lane,
    },
    protocol::client::route::no_server,
    work::failure::Failed,
};

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
    lanes: Vec<Arc<Lane>>,
    tasks: JoinSet<()>,
    dispatch: Arc<Dispatch>,
    stop: Arc<Signal>,
    grace: Duration,
    limit: Option<JobLimit>,
}

impl Worker {
    /// Connects to the servers: `"127.0.0.1:4730"`, `"one:4730,two:4730"`, [`Servers`](crate::Servers) or
    /// [`WorkerOptions`]. Each is tried once, all at the same time. One reachable server is enough; the others are
    /// retried later.
    ///
    /// # Errors
    ///
    /// When no server can be reached, the error of the last: `Connect`, `Timeout(Connect)` or `Tls`. `InvalidInput` for
    /// an invalid address, and outside of a tokio runtime.
    ///
    /// # Cancel safety
    ///
    /// Dropping closes the half-made connections.
    pub async fn connect<O>(options: O) -> Result<Self>
    where
        O: TryInto<WorkerOptions>,
        Error: From<O::Error>,
    {
        let worker = Self::new(options)?;
        let mut outcome = Err(no_server());
        for lane in &worker.lanes {
            let tried = lane.connected().await;
            if outcome.is_err() {
                outcome = tried;
            }
        }
        outcome.map(|()| worker)
    }

    /// Creates a worker that keeps trying until its servers can be reached: for a service that may start before them.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for an invalid address, and outside of a tokio runtime; `Tls` for unusable TLS options.
    pub fn new<O>(options: O) -> Result<Self>
    where
        O: TryInto<WorkerOptions>,
        Error: From<O::Error>,
    {
        let options = options.try_into()?;
        options.servers.check()?;
        let runtime = queue_core::runtime("worker")?;
        let dispatch = Arc::new(Dispatch::new(options.ledger.clone()));
        let mut tasks = JoinSet::new();
        let mut lanes = Vec::new();
        for server in options.lanes() {
            let lane = Lane::new(&server, &options, dispatch.clone());
            tasks.spawn_on(lane.driver(&server), &runtime);
            lanes.push(lane);
        }
        let WorkerOptions { grace, limit, .. } = options;
        Ok(Worker { lanes, tasks, dispatch, stop: Arc::default(), grace, limit })
    }

    /// Serves a function: `handler` runs its jobs. The output of its future is the result. A [`Failure`] fails the job,
    /// with or without an exception. A panic fails it without one: its message goes only to
    /// [`WorkerOptions::on_event`], because it may contain what submitters must not see.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for an invalid name.
    pub fn register<F, H, T, R>(&mut self, function: F, handler: H) -> Result<()>
    where
        F: TryInto<FunctionName>,
        Error: From<F::Error>,
        H: Fn(JobContext) -> T + Send + Sync + 'static,
        T: Future<Output = std::result::Result<R, Failure>> + Send + 'static,
        R: Into<Bytes>,
    {
        self.add(function.try_into()?, None, handler);
        Ok(())
    }

    /// Serves a function whose jobs the server gives to other workers when they take longer than `timeout`, in whole
    /// milliseconds (rounded up; the server raises less than 1 s to 1 s).
    ///
    /// The server notifies no one. The worker tracks the time, and [`lost`](JobContext::lost) notifies a handler when
    /// it expires; no other run of the job starts in this worker until that handler has ended. Servers up to 1.1 keep
    /// one timer per connection, which can miss the job or hit the wrong one, so the result is sent in any case. Prefer
    /// a timeout at the submitter.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for an invalid name.
    pub fn register_with_timeout<F, H, T, R>(
        &mut self,
        function: F,
        timeout: Duration,
        handler: H,
    ) -> Result<()>
    where
        F: TryInto<FunctionName>,
        Error: From<F::Error>,
        H: Fn(JobContext) -> T + Send + Sync + 'static,
        T: Future<Output = std::result::Result<R, Failure>> + Send + 'static,
        R: Into<Bytes>,
    {
        self.add(function.try_into()?, Some(timeout), handler);
        Ok(())
    }

    /// Serves a function with a handler that blocks its thread: it runs on tokio's blocking thread pool. Wait for the
    /// async methods of its job with [`Handle::block_on`](tokio::runtime::Handle::block_on).
    ///
    /// A handler still running when the [grace](WorkerOptions::grace) ends cannot be interrupted. Its job goes back to
    /// the server, and [`JobContext::is_lost`] becomes true.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for an invalid name.
    pub fn register_blocking<F, H, R>(&mut self, function: F, handler: H) -> Result<()>
    where
        F: TryInto<FunctionName>,
        Error: From<F::Error>,
        H: Fn(JobContext) -> std::result::Result<R, Failure> + Send + Sync + 'static,
        R: Into<Bytes>,
    {
        let handler = Arc::new(handler);
        let run = move |job: JobContext| {
            let handler = handler.clone();
            async move {
                // `in_thread` returns nothing only if the runtime is shutting down.
                in_thread(move || handler(job).map(Into::into))
                    .await
                    .unwrap_or(Err::<Bytes, Failure>(Failure::Fail))
            }
        };
        self.register(function, run)
    }

    /// Serves a function with a handler that has its own error type: `classify` maps an error to a failure.
    /// [`Failure::display`] turns any `Display` error into an exception.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), gearman_client::Error> {
    /// # let server = fixtures::gearmand::Server::start().unwrap();
    /// # let mut worker = gearman_client::Worker::connect(server.address()).await?;
    /// use gearman_client::Failure;
    ///
    /// enum Refused { Secret, Because(String) }
    ///
    /// let classify = |refused| match refused {
    ///     Refused::Secret => Failure::Fail,
    ///     Refused::Because(why) => Failure::exception(why),
    /// };
    /// worker.register_classified("open", |_| async { Err::<String, _>(Refused::Secret) }, classify)?;
    /// worker.register_classified("shut", |_| async { Err::<String, _>("no such door") }, Failure::display)?;
    /// # let _ = Refused::Because(String::new());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// `InvalidInput` for an invalid name.
    pub fn register_classified<F, H, T, R, E, C>(
        &mut self,
        function: F,
        handler: H,
        classify: C,
    ) -> Result<()>
    where
        F: TryInto<FunctionName>,
        Error: From<F::Error>,
        H: Fn(JobContext) -> T + Send + Sync + 'static,
        T: Future<Output = std::result::Result<R, E>> + Send + 'static,
        R: Into<Bytes>,
        C: Fn(E) -> Failure + Send + Sync + 'static,
    {
        let classify = Arc::new(classify);
        let run = move |job: JobContext| {
            let (running, classify) = (handler(job), classify.clone());
            async move { running.await.map_err(|error| classify(error)) }
        };
        self.register(function, run)
    }

    /// Serves a function with a tower service that all jobs share: its middleware applies to the whole worker, and it
    /// needs no `Clone`. `classify` decides the outcome of an error, including one of the middleware, as for
    /// [`register_classified`](Self::register_classified). The blocking face has no counterpart, since a service
    /// returns a future.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), gearman_client::Error> {
    /// # let server = fixtures::gearmand::Server::start().unwrap();
    /// # let mut worker = gearman_client::Worker::connect(server.address()).await?;
    /// use std::time::Duration;
    /// use gearman_client::{Failure, JobContext};
    /// use tower::{ServiceBuilder, service_fn};
    ///
    /// let service = ServiceBuilder::new()
    ///     .rate_limit(100, Duration::from_secs(1))
    ///     .timeout(Duration::from_secs(30))
    ///     .service(service_fn(|job: JobContext| async move {
    ///         Ok::<_, std::io::Error>(job.workload.to_ascii_uppercase())
    ///     }));
    /// worker.register_service("upper", service, Failure::display)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// * **Readiness.** A job is handed over when the service is ready. Until then the worker holds it, and the server,
    ///   which has no time limit for it, leaves it there; [`slots`](WorkerOptions::slots) bounds the number of such
    ///   jobs, which other workers could run meanwhile. A job that is lost while it waits is not handed over.
    /// * **A broken service.** A service whose `poll_ready` fails is permanently unusable. [`run`](Self::run) stops,
    ///   and waiting jobs go back to the server. [`WorkerEventKind::Failed`](crate::WorkerEventKind::Failed) gives the
    ///   reason.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for an invalid name.
    #[cfg(feature = "tower")]
    pub fn register_service<F, S, C>(&mut self, function: F, service: S, classify: C) -> Result<()>
    where
        F: TryInto<FunctionName>,
        Error: From<F::Error>,
        S: tower_service::Service<JobContext> + Send + 'static,
        S::Response: Into<Bytes> + 'static,
        S::Error: std::fmt::Display + Send + 'static,
        S::Future: Send + 'static,
        C: Fn(S::Error) -> Failure + Send + Sync + 'static,
    {
        let handler = service::handler(service, classify, self.stop.clone());
        self.serve(function.try_into()?, None, Box::new(handler));
        Ok(())
    }

    fn add<H, T, R>(&mut self, function: FunctionName, timeout: Option<Duration>, handler: H)
    where
        H: Fn(JobContext) -> T + Send + Sync + 'static,
        T: Future<Output = std::result::Result<R, Failure>> + Send + 'static,
        R: Into<Bytes>,
    {
        let handler = Box::new(move |job: JobContext| {
            let outcome = handler(job);
            let ended = async move { outcome.await.map(Into::into).map_err(Failed::Handler) };
            Box::pin(ended) as std::pin::Pin<Box<_>>
        });
        self.serve(function, timeout, handler);
    }

    fn serve(&mut self, function: FunctionName, timeout: Option<Duration>, handler: Handler) {
        self.dispatch.register(function.clone(), handler);
        self.lanes.iter().for_each(|lane| lane.can_do(&function, timeout));
    }

    /// Announces a function whose jobs are taken with [`next_job`](Self::next_job) (`CAN_DO`, `CAN_DO_TIMEOUT`).
    ///
    /// # Errors
    ///
    /// `InvalidInput` for an invalid name.
    pub fn can_do<F>(&mut self, function: F, timeout: Option<Duration>) -> Result<()>
    where
        F: TryInto<FunctionName>,
        Error: From<F::Error>,
    {
        let function = function.try_into()?;
        self.dispatch.forget(&function);
        self.lanes.iter().for_each(|lane| lane.can_do(&function, timeout));
        Ok(())
    }

    /// Withdraws a function (`CANT_DO`).
    ///
    /// # Errors
    ///
    /// `InvalidInput` while jobs are running, because the server would give them to other workers.
    pub fn cant_do<F>(&mut self, function: F) -> Result<()>
    where
        F: TryInto<FunctionName>,
        Error: From<F::Error>,
    {
        let function = function.try_into()?;
        self.lanes.iter().try_for_each(|lane| lane.cant_do(&function))?;
        self.dispatch.forget(&function);
        Ok(())
    }

    /// Withdraws all functions (`RESET_ABILITIES`).
    ///
    /// # Errors
    ///
    /// `InvalidInput` while jobs are running, because the server would give them to other workers.
    pub fn reset_abilities(&mut self) -> Result<()> {
        self.lanes.iter().try_for_each(|lane| lane.reset_abilities())?;
        self.dispatch.forget_all();
        Ok(())
    }

    /// Runs handlers until its [handle](Self::handle) stops it or the last job of the [limit](WorkerOptions::limit) has
    /// arrived, then [stops](Self::stop). Lost servers are retried. Jobs of functions without a handler fail.
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
            let (mut stop, mut told) = (pin!(stop), pin!(self.stop.wait()));
            poll_fn(|cx| {
                let _: Poll<()> = fail_others.as_mut().poll(cx);
                if self.is_at_limit(cx) || told.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(());
                }
                stop.as_mut().poll(cx).map(|_| ())
            })
            .await;
        }
        self.stop().await
    }

    /// The next job of a function announced with [`can_do`](Self::can_do).
    ///
    /// It waits forever once the [limit](WorkerOptions::limit) is reached.
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

    /// Waits until every server has read everything sent so far, and all results are accounted for. It first connects
    /// to servers that were never tried; unreachable ones were sent nothing, and are skipped.
    ///
    /// # Errors
    ///
    /// If a connection is lost during the wait, or was lost with unconfirmed results since the last barrier; these
    /// count as unknown. Also if there is no connection at all.
    ///
    /// # Cancel safety
    ///
    /// Dropping it does no harm.
    pub async fn echo_barrier(&mut self) -> Result<()> {
        let mut outcome = Err(no_server());
        for lane in &self.lanes {
            lane.check_losses()?;
            let tried = lane.connected().await;
            if tried.is_ok() {
                lane.barrier().await?;
            }
            if outcome.is_err() {
                outcome = tried;
            }
        }
        outcome
    }

    /// Whether the last job that it may take has arrived; otherwise registers to be woken when it has.
    fn is_at_limit(&self, cx: &Context<'_>) -> bool {
        self.limit.as_ref().is_some_and(|limit| limit.poll_reached(cx).is_ready())
    }

    /// The next manually taken job, unless the worker is stopped before it comes.
    #[cfg(feature = "stream")]
    pub(crate) async fn next_until_stopped(&self) -> Option<GrabbedJob> {
        self.start();
        let (mut told, mut job) = (pin!(self.stop.wait()), pin!(self.dispatched()));
        poll_fn(|cx| match told.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(None),
            Poll::Pending => job.as_mut().poll(cx).map(Some),
        })
        .await
    }

    async fn dispatched(&self) -> GrabbedJob {
        loop {
            let job = poll_fn(|cx| self.dispatch.poll_next(cx)).await;
            // While it waited here, the server may have given it to another worker. If a limit has counted it, it is
            // handed over even so, and its end fails with `JobLost`.
            if self.limit.is_some() || job.is_held() {
                job.teller().consumed(&job);
                return job;
            }
        }
    }

    fn start(&self) {
        self.lanes.iter().for_each(|lane| lane.start());
    }

    /// Stops: requests no further jobs, lets running ones finish within the [grace](WorkerOptions::grace), makes sure
    /// that the server accepted the results, and closes the connections. Unfinished jobs go back to the servers.
    ///
    /// # Cancel safety
    ///
    /// Dropping it closes the connections at once.
    pub async fn stop(mut self) -> WorkerReport {
        self.stop.set();
        self.dispatch.stopping.set();
        self.lanes.iter().for_each(|lane| lane.stop());
        self.dispatch.leave_untaken();
        let all = async { while self.tasks.join_next().await.is_some() {} };
        // Jobs that are unfinished after the grace are abandoned.
        let _ = timeout(self.grace, all).await;
        self.give_up();
        let mut total = WorkerReport::default();
        for lane in &self.lanes {
            total.merge(lane.gauge().report());
        }
        total
    }

    /// A handle to end a [`run`](Self::run) from anywhere, and to observe the worker.
    #[must_use]
    pub fn handle(&self) -> WorkerHandle {
        WorkerHandle::new(self.lanes.iter().map(|lane| lane.gauge()), &self.stop)
    }

    fn give_up(&self) {
        self.lanes.iter().for_each(|lane| lane.cut());
        self.dispatch.abort();
    }

    /// The number of good connections.
    #[must_use]
    pub fn connected(&self) -> usize {
        self.lanes.iter().filter(|lane| lane.is_connected()).count()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.give_up();
    }
}

impl std::fmt::Debug for Worker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Worker")
            .field(
                "servers",
                &self.lanes.iter().map(|lane| lane.address.to_string()).collect::<Vec<_>>(),
            )
            .field("connected", &self.connected())
            .finish_non_exhaustive()
    }
}
