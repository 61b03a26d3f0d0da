//! The async worker.

mod context;
mod handlers;
#[cfg(feature = "tower")]
mod service;
mod slot;
mod test_job;

use std::{future::Future, sync::Arc};

use queue_core::{in_thread, join_until};
use tokio::task::JoinSet;

pub use self::{context::JobContext, test_job::TestJob};
use self::{handlers::Handler, slot::Slot};
use crate::{
    Decision, Error, IntoOutcome, Outcome, Result, WorkerHandle, WorkerOptions, WorkerReport,
    work::board::Board,
};

/// Runs a handler for every incoming job, and reports the outcome to the server.
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
/// let worker = Worker::new(options)?;
/// let report = worker
///     .run_until(std::future::pending::<()>(), |job: JobContext| async move {
///         println!("job {}: {} bytes", job.id, job.body.len());
///         Ok::<(), std::io::Error>(()) // delete; an error releases it with a delay
///     })
///     .await;
/// assert_eq!(report.finished, 1);
/// # Ok(())
/// # }
/// ```
///
/// * **Slots.** Each has a connection and a task; it waits in a reserve only while it holds no job, so that the server
///   reads every touch and delete at once. Handlers run in their own tasks: one that blocks its thread does not stop
///   the heartbeat, provided that the runtime has another thread. With [`prefetch`](WorkerOptions::prefetch), the first
///   poll of a handler happens in the slot's task.
/// * **Outcome.** `Ok` deletes the job; an error or a panic releases it with a delay that grows, until it is buried
///   ([`Retries`](crate::Retries)); a handler that returns an [`Outcome`](crate::Outcome) decides itself.
/// * **Heartbeat.** While a handler runs its job is touched at a third of its time to run.
/// * **Lost reservations.** If the time to run expires anyway, the server says that the job is not ours, or the
///   connection is lost, [`JobContext::lost`] becomes ready, and the outcome is not sent: the job may by then belong to
///   another worker.
/// * **Several servers.** Each has its own slots. One that is down is retried without holding up the others.
pub struct Worker {
    options: WorkerOptions,
    board: Arc<Board>,
}

impl Worker {
    /// A worker that has not begun: from [`WorkerOptions`], [`ConnectOptions`](crate::ConnectOptions), or addresses as
    /// text, separated by commas.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a wrong address, and for plain text to another machine when TLS is required.
    pub fn new<O>(options: O) -> Result<Self>
    where
        O: TryInto<WorkerOptions>,
        Error: From<O::Error>,
    {
        let options = options.try_into()?;
        options.check()?;
        Ok(Worker { board: Board::new(&options), options })
    }

    /// A handle to stop and observe the worker.
    #[must_use]
    pub fn handle(&self) -> WorkerHandle {
        WorkerHandle { board: self.board.clone() }
    }

    /// Runs until [`WorkerHandle::stop`], or the end that the options set.
    ///
    /// An unreachable server is retried indefinitely; [`WorkerHandle::slots`] and [`WorkerOptions::on_event`] report
    /// that.
    ///
    /// # Cancel safety
    ///
    /// Dropping closes the connections and ends the handlers at their next await: their jobs go back to the servers.
    pub async fn run<H, T>(self, handler: H) -> WorkerReport
    where
        H: Fn(JobContext) -> T + Send + Sync + 'static,
        T: Future + Send + 'static,
        T::Output: IntoOutcome + Send + 'static,
    {
        self.run_until(std::future::pending::<()>(), handler).await
    }

    /// As [`run`](Self::run), for a handler that blocks its thread: it runs in one of the threads that tokio has for that.
    /// Its job's methods are waited for with [`Handle::block_on`](tokio::runtime::Handle::block_on).
    ///
    /// A handler still running when the [grace](WorkerOptions::grace) ends cannot be interrupted. Its job goes back to
    /// the server, and [`JobContext::is_lost`] becomes true.
    ///
    /// # Cancel safety
    ///
    /// As for [`run`](Self::run), but running handlers continue to their end.
    pub async fn run_blocking<H, R>(self, handler: H) -> WorkerReport
    where
        H: Fn(JobContext) -> R + Send + Sync + 'static,
        R: IntoOutcome + Send + 'static,
    {
        let handler = Arc::new(handler);
        let run = move |job: JobContext| {
            let handler = handler.clone();
            async move {
                // Without one, the runtime ends.
                in_thread(move || handler(job)).await.map_or_else(
                    || Outcome::release().into(),
                    |outcome| {
                        let (outcome, reason) = outcome.into_outcome();
                        Decision { outcome, reason }
                    },
                )
            }
        };
        self.run(run).await
    }

    /// Runs until `stop` is ready, and then [stops](WorkerHandle::stop).
    ///
    /// # Cancel safety
    ///
    /// As for [`run`](Self::run).
    pub async fn run_until<H, T>(self, stop: impl Future, handler: H) -> WorkerReport
    where
        H: Fn(JobContext) -> T + Send + Sync + 'static,
        T: Future + Send + 'static,
        T::Output: IntoOutcome + Send + 'static,
    {
        let handle = self.handle();
        let mut slots = self.start(Handler::new(handler));
        join_until(&mut slots, stop, || handle.stop()).await;
        handle.report()
    }

    /// As [`run`](Self::run), with a tower service that all slots share: its middleware holds for the whole worker, and needs
    /// no `Clone`. The blocking face has no counterpart, since a service gives a future.
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
    /// let report = Worker::new(options)?.run_service(service).await;
    /// assert_eq!(report.finished, 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// * **Readiness.** A job is handed over when the service is ready. Until then its slot holds it, and its heartbeat keeps
    ///   the reservation alive; [`slots`](WorkerOptions::slots) and [`prefetch`](WorkerOptions::prefetch) bound the number of
    ///   such jobs, which other workers could run meanwhile. One that is lost while it waits is not handed over.
    /// * **Outcome.** What a response or an error makes of the job is what it does for any handler: [`IntoOutcome`].
    /// * **A broken service.** One whose `poll_ready` fails is of no use any more. The worker stops, and the jobs that wait
    ///   are released at once, which counts as a release. [`WorkerEventKind::Failed`](crate::WorkerEventKind::Failed) says why.
    ///
    /// # Cancel safety
    ///
    /// As for [`run`](Self::run).
    #[cfg(feature = "tower")]
    pub async fn run_service<S>(self, service: S) -> WorkerReport
    where
        S: tower_service::Service<JobContext> + Send + 'static,
        S::Response: IntoOutcome + 'static,
        S::Error: std::fmt::Display + Send + 'static,
        S::Future: Send + 'static,
    {
        self.run_service_until(std::future::pending::<()>(), service).await
    }

    /// As [`run_service`](Self::run_service), until `stop` is ready; it [stops](WorkerHandle::stop) then.
    ///
    /// # Cancel safety
    ///
    /// As for [`run`](Self::run).
    #[cfg(feature = "tower")]
    pub async fn run_service_until<S>(self, stop: impl Future, service: S) -> WorkerReport
    where
        S: tower_service::Service<JobContext> + Send + 'static,
        S::Response: IntoOutcome + 'static,
        S::Error: std::fmt::Display + Send + 'static,
        S::Future: Send + 'static,
    {
        let handler = service::handler(service, self.handle());
        self.run_until(stop, handler).await
    }

    fn start(self, handler: Handler) -> JoinSet<()> {
        let Worker { options, board } = self;
        let mut slots = JoinSet::new();
        for lane in options.lanes() {
            let slot = Slot::new(lane, &options, board.clone(), handler.clone());
            slots.spawn(slot.run());
        }
        slots
    }
}

impl std::fmt::Debug for Worker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Worker").field("options", &self.options).finish_non_exhaustive()
    }
}
