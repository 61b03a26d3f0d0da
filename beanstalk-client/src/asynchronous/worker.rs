//! The async worker.

mod context;
mod handlers;
#[cfg(feature = "tower")]
mod service;
mod slot;
mod test_job;

use std::{
    future::{Future, pending},
    sync::Arc,
};

use queue_core::{in_thread, join_until};
use tokio::task::JoinSet;

pub use self::{context::JobContext, test_job::TestJob};
use self::{
    handlers::{Handler, Handlers},
    slot::Slot,
};
use crate::{
    Client, Decision, Error, Fate, IntoOutcome, Outcome, Result, TubeName, WorkerHandle,
    WorkerOptions, WorkerReport, work::worker_status::WorkerStatus, worker::worker,
};

/// Runs handlers for the jobs of tubes, and reports the outcomes to the servers.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = fixtures::beanstalkd::Server::start()?;
/// # let address = server.address();
/// # let mut client = beanstalk_client::Client::connect(address).await?;
/// # let _ = client.put("hello", Default::default()).await?;
/// use beanstalk_client::{JobContext, Worker, WorkerOptions};
///
/// let options = WorkerOptions::new(address)?.slots(4);
/// # let options = options.until_empty();
/// let mut worker = Worker::new(options)?;
/// worker.register("default", |job: JobContext| async move {
///     println!("job {}: {} bytes", job.id, job.body.len());
///     Ok::<(), std::io::Error>(()) // delete; an error releases it with a delay
/// })?;
/// let report = worker.run().await;
/// assert_eq!(report.finished, 1);
/// # Ok(())
/// # }
/// ```
///
/// * **Slots.** Each has a connection and a task. It reserves only while it holds no job, so that the server reads
///   every touch and delete at once. Handlers run in their own tasks. With [`prefetch`](WorkerOptions::prefetch), the
///   slot's task makes the first poll of a handler.
/// * **Tubes.** A slot that serves several reads each job's counters (`stats-job`) before it runs, because a reserve
///   does not name the tube: a round trip for each job. [`slots_for`](WorkerOptions::slots_for) gives tubes slots of
///   their own.
/// * **Handlers that block.** Sockets and timers of a runtime, and so all heartbeats, may depend on the very thread that
///   a handler blocks, however many others there are: jobs expire and run again elsewhere. Such a handler belongs in
///   [`register_blocking`](Self::register_blocking), or its blocking part in tokio's `block_in_place` or `spawn_blocking`.
///   [`LateHeartbeat`](crate::WorkerEventKind::LateHeartbeat) reports it.
/// * **Outcome.** `Ok` deletes the job; an error or a panic releases it with a growing delay, until it is buried
///   ([`Retries`](crate::Retries)); a handler that returns an [`Outcome`](crate::Outcome) decides itself.
/// * **Heartbeat.** While a handler runs, its job is touched after each third of its time to run.
/// * **Lost reservations.** If the time to run expires anyway, the server says that the job is no longer reserved by
///   this connection, or the connection is lost, [`JobContext::lost`] becomes ready and the outcome is not sent:
///   another worker may have the job by then.
/// * **Several servers.** Each has its own slots. One that is down is retried without holding up the others.
pub struct Worker {
    options: WorkerOptions,
    worker_status: Arc<WorkerStatus>,
    handlers: Handlers,
}

worker!(async await "\n# Cancel safety\n\n");

impl Worker {
    /// Serves a tube: `handler` runs for each of its jobs. The output of its future decides what becomes of the job
    /// ([`IntoOutcome`]).
    ///
    /// # Errors
    ///
    /// `InvalidInput` for an invalid name, and for the dead-letter tube.
    pub fn register<Q, H, T>(&mut self, tube: Q, handler: H) -> Result<()>
    where
        Q: TryInto<TubeName>,
        Error: From<Q::Error>,
        H: Fn(JobContext) -> T + Send + Sync + 'static,
        T: Future + Send + 'static,
        T::Output: IntoOutcome,
    {
        let tube = tube.try_into()?;
        self.options.check_served(&tube)?;
        self.handlers.insert(tube, Handler::new(handler));
        Ok(())
    }

    /// Serves a tube with a handler that blocks its thread: it runs on tokio's blocking thread pool. Wait for the async
    /// methods of its job with [`Handle::block_on`](tokio::runtime::Handle::block_on).
    ///
    /// A handler still running when the [grace](WorkerOptions::grace) ends cannot be interrupted. Its job goes back to
    /// the server, and [`JobContext::is_lost`] becomes true.
    ///
    /// # Errors
    ///
    /// As [`register`](Self::register).
    pub fn register_blocking<Q, H, R>(&mut self, tube: Q, handler: H) -> Result<()>
    where
        Q: TryInto<TubeName>,
        Error: From<Q::Error>,
        H: Fn(JobContext) -> R + Send + Sync + 'static,
        R: IntoOutcome,
    {
        let handler = Arc::new(handler);
        self.register(tube, move |job| {
            let handler = handler.clone();
            async move {
                let ended = in_thread(move || Decision::of(handler(job))).await;
                // The runtime is shutting down.
                ended.unwrap_or_else(|| Outcome::release().into())
            }
        })
    }

    /// Serves a tube with a tower service that all slots share: its middleware applies to the whole worker, and it
    /// needs no `Clone`. The blocking face has no counterpart, since a service returns a future.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = fixtures::beanstalkd::Server::start()?;
    /// # let address = server.address();
    /// # let mut client = beanstalk_client::Client::connect(address).await?;
    /// # let _ = client.put("hello", Default::default()).await?;
    /// use std::time::Duration;
    /// use beanstalk_client::{JobContext, Worker, WorkerOptions};
    /// use tower::{ServiceBuilder, service_fn};
    ///
    /// let service = ServiceBuilder::new()
    ///     .rate_limit(100, Duration::from_secs(1))
    ///     .timeout(Duration::from_secs(30))
    ///     .service(service_fn(|job: JobContext| async move {
    ///         println!("job {}: {} bytes", job.id, job.body.len());
    ///         Ok::<(), std::io::Error>(()) // delete; an error, also of the middleware, is a retry
    ///     }));
    /// let options = WorkerOptions::new(address)?.slots(4);
    /// # let options = options.until_empty();
    /// let mut worker = Worker::new(options)?;
    /// worker.register_service("default", service)?;
    /// assert_eq!(worker.run().await.finished, 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// * **Readiness.** A job is handed over when the service is ready. Until then its slot holds it, and the heartbeat
    ///   keeps the reservation alive; [`slots`](WorkerOptions::slots) and [`prefetch`](WorkerOptions::prefetch) bound
    ///   the number of such jobs, which other workers could run meanwhile. A job that is lost while it waits is not
    ///   handed over.
    /// * **Outcome.** A response or an error decides the job as it would for any handler: [`IntoOutcome`].
    /// * **A broken service.** A service whose `poll_ready` fails is permanently unusable. The worker stops and
    ///   releases its waiting jobs at once; the server counts these as releases.
    ///   [`WorkerEventKind::Failed`](crate::WorkerEventKind::Failed) gives the reason.
    ///
    /// # Errors
    ///
    /// As [`register`](Self::register).
    #[cfg(feature = "tower")]
    pub fn register_service<Q, S>(&mut self, tube: Q, service: S) -> Result<()>
    where
        Q: TryInto<TubeName>,
        Error: From<Q::Error>,
        S: tower_service::Service<JobContext> + Send + 'static,
        S::Response: IntoOutcome + 'static,
        S::Error: std::fmt::Display + Send + 'static,
        S::Future: Send + 'static,
    {
        self.register(tube, service::handler(service, self.handle()))
    }

    /// Runs until [`WorkerHandle::stop`], or until the end set by the options. Without a registered tube it ends at
    /// once.
    ///
    /// An unreachable server is retried indefinitely; [`WorkerHandle::slots`] and [`WorkerOptions::on_event`] report
    /// that.
    ///
    /// # Cancel safety
    ///
    /// Dropping it closes the connections and stops the handlers at their next await, except those that
    /// [block](Self::register_blocking); their jobs go back to the servers.
    pub async fn run(self) -> WorkerReport {
        self.run_until(pending::<()>()).await
    }

    /// Runs until `stop` is ready, and then [stops](WorkerHandle::stop).
    ///
    /// # Cancel safety
    ///
    /// As for [`run`](Self::run).
    pub async fn run_until(self, stop: impl Future) -> WorkerReport {
        let handle = self.handle();
        let _run = handle.worker_status.stop.run();
        let mut slots = self.start();
        join_until(&mut slots, stop, || handle.stop()).await;
        handle.report()
    }

    fn start(self) -> JoinSet<()> {
        let Worker { options, worker_status, handlers } = self;
        let handlers = Arc::new(handlers);
        let mut slots = JoinSet::new();
        for lane in worker_status.watching(&options, handlers.keys()) {
            let slot = Slot::new(lane, &options, worker_status.clone(), handlers.clone());
            slots.spawn(slot.run());
        }
        slots
    }
}
