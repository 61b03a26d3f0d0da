//! The async worker.

mod lane;
#[cfg(feature = "tower")]
mod service;

use std::{
    collections::BTreeMap,
    future::{Future, pending},
    pin::Pin,
    sync::Arc,
};

use queue_core::{Registered, in_thread, join_until, now};
use tokio::task::JoinSet;

use self::lane::LaneDriver;
use crate::{
    Decision, Error, IntoOutcome, JobContext, Outcome, QueueName, Result, WorkerHandle,
    WorkerOptions, WorkerReport,
    asynchronous::link::ServerLink,
    protocol::client::Ask,
    servers::Checking,
    work::{Ended, WorkerStatus},
};

type HandlerFuture = Pin<Box<dyn Future<Output = Ended> + Send>>;

type Handler = Box<dyn Fn(JobContext) -> HandlerFuture + Send + Sync>;

type Handlers = BTreeMap<QueueName, Registered<Handler>>;

/// Runs handlers for the messages of queues, and settles them on the servers.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = fixtures::adf_queue::Server::builder().queue("/mail").start()?;
/// # let address = server.address();
/// # adf_queue_client::Client::connect(address).await?.rpush("/mail", "hello").await?;
/// use adf_queue_client::{JobContext, JobLimit, Worker, WorkerOptions};
///
/// let options: WorkerOptions = address.parse()?;
/// let mut worker = Worker::new(options.slots(4).limit(JobLimit::new(1)))?;
/// worker.register("/mail", |job: JobContext| async move {
///     println!("message {}: {} bytes", job.message_id(), job.body().len());
///     Ok::<(), std::io::Error>(()) // delete; an error puts it back at the right end
/// })?;
/// let report = worker.run().await;
/// assert_eq!(report.deleted, 1);
/// # Ok(())
/// # }
/// ```
///
/// * **Servers.** Each has one WebSocket connection, in its own task, and its own slots. One that is down is retried
///   without holding up the others.
/// * **Deleted queues** are served again once they are back. Over JSON, a pull that meets the deletion of its queue by
///   another client ends the real server: see [`Transport::WsJson`](crate::Transport::WsJson).
/// * **Handlers** run in tasks; those that have proved quick are first polled in the task that receives their messages.
/// * **Outcome.** `Ok` deletes the message. An error or a panic returns it to the right end, at once, because the
///   server has no delays; [`max_duplications`](WorkerOptions::max_duplications) limits the repetitions. A handler that
///   returns an [`Outcome`](crate::Outcome) decides itself.
/// * **Lost messages.** When the connection is lost, the server gives its messages to other workers, or to this one
///   again, while their handlers keep running. [`JobContext::lost`] notifies the handlers, and their decisions are not
///   sent. Until such a handler ends, it keeps its slot, and this worker starts no other run of the same message.
/// * **Order.** When the worker stops, messages that are still arriving or waiting for a handler return to their places
///   when the connection closes.
pub struct Worker {
    options: WorkerOptions,
    worker_status: Arc<WorkerStatus>,
    handlers: Handlers,
}

crate::faces::worker_methods!(async await "\n# Cancel safety\n\n");

impl Worker {
    /// Serves a queue: `handler` runs for each of its messages. The output of its future decides how to settle the
    /// message ([`IntoOutcome`]).
    ///
    /// # Errors
    ///
    /// `InvalidInput` for an invalid name, and for the dead-letter queue.
    pub fn register<Q, H, T>(&mut self, queue: Q, handler: H) -> Result<()>
    where
        Q: TryInto<QueueName>,
        Error: From<Q::Error>,
        H: Fn(JobContext) -> T + Send + Sync + 'static,
        T: Future + Send + 'static,
        T::Output: IntoOutcome,
    {
        let queue = queue.try_into()?;
        self.options.check_served(&queue)?;
        let handler: Handler = Box::new(move |job| {
            let running = handler(job);
            Box::pin(async move { running.await.into_outcome().into() })
        });
        self.handlers.insert(queue, Registered::new(handler));
        Ok(())
    }

    /// Serves a queue with a tower service that all messages share: its middleware applies to the whole worker, and it
    /// needs no `Clone`. A response or an error, including one of the middleware, decides how to settle the message as
    /// for any handler ([`IntoOutcome`]). The blocking face has no counterpart, since a service returns a future.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = fixtures::adf_queue::Server::builder().queue("/mail").start()?;
    /// # let address = server.address();
    /// # adf_queue_client::Client::connect(address).await?.rpush("/mail", "hello").await?;
    /// use std::time::Duration;
    /// use adf_queue_client::{JobContext, JobLimit, Worker, WorkerOptions};
    /// use tower::{ServiceBuilder, service_fn};
    ///
    /// let service = ServiceBuilder::new()
    ///     .rate_limit(100, Duration::from_secs(1))
    ///     .timeout(Duration::from_secs(30))
    ///     .service(service_fn(|job: JobContext| async move {
    ///         println!("message {}: {} bytes", job.message_id(), job.body().len());
    ///         Ok::<(), std::io::Error>(())
    ///     }));
    /// let options: WorkerOptions = address.parse()?;
    /// let mut worker = Worker::new(options.limit(JobLimit::new(1)))?;
    /// worker.register_service("/mail", service)?;
    /// assert_eq!(worker.run().await.deleted, 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// * **Readiness.** A message is handed over when the service is ready. Until then the worker holds it, and the
    ///   server, which has no time limit for it, leaves it there; [`slots`](WorkerOptions::slots) bounds the number of
    ///   such messages, which other workers could handle meanwhile. A message that is lost while it waits is not handed
    ///   over.
    /// * **A broken service.** A service whose `poll_ready` fails is permanently unusable. The worker stops and returns
    ///   its waiting messages to the left end. [`WorkerEventKind::Failed`](crate::WorkerEventKind::Failed) gives the
    ///   reason.
    ///
    /// # Errors
    ///
    /// As [`register`](Self::register).
    #[cfg(feature = "tower")]
    pub fn register_service<Q, S>(&mut self, queue: Q, service: S) -> Result<()>
    where
        Q: TryInto<QueueName>,
        Error: From<Q::Error>,
        S: tower_service::Service<JobContext> + Send + 'static,
        S::Response: IntoOutcome + 'static,
        S::Error: std::fmt::Display + Send + 'static,
        S::Future: Send + 'static,
    {
        let queue = queue.try_into()?;
        self.options.check_served(&queue)?;
        let handler = service::handler(service, self.handle());
        self.handlers.insert(queue, Registered::new(Box::new(handler)));
        Ok(())
    }

    /// Serves a queue with a handler that blocks its thread: it runs on tokio's blocking thread pool.
    ///
    /// A handler still running when the [grace](WorkerOptions::grace) ends cannot be interrupted. Its message goes back
    /// to the server, and [`JobContext::is_lost`] becomes true.
    ///
    /// # Errors
    ///
    /// As [`register`](Self::register).
    pub fn register_blocking<Q, H, R>(&mut self, queue: Q, handler: H) -> Result<()>
    where
        Q: TryInto<QueueName>,
        Error: From<Q::Error>,
        H: Fn(JobContext) -> R + Send + Sync + 'static,
        R: IntoOutcome,
    {
        let handler = Arc::new(handler);
        self.register(queue, move |job| {
            let handler = handler.clone();
            async move {
                let ended = in_thread(move || Decision::of(handler(job))).await;
                ended.unwrap_or_else(|| Outcome::Retry.because("the runtime has ended"))
            }
        })
    }

    /// A handle to stop and observe the worker.
    #[must_use]
    pub fn handle(&self) -> WorkerHandle {
        WorkerHandle { worker_status: self.worker_status.clone() }
    }

    /// Runs until [`WorkerHandle::stop`], the last message of the [limit](WorkerOptions::limit), or, with
    /// [`until_empty`](WorkerOptions::until_empty), until its queues are empty.
    ///
    /// An unreachable server is retried indefinitely; [`WorkerHandle::servers`] and [`WorkerOptions::on_event`] report
    /// that.
    ///
    /// # Cancel safety
    ///
    /// Dropping it closes the connections and stops the handlers at their next await; their messages go back to the
    /// servers.
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
        let mut running = self.start();
        join_until(&mut running.drivers, stop, || handle.stop()).await;
        drop(running);
        handle.report()
    }

    fn start(self) -> WorkerTasks {
        let Worker { options, worker_status, handlers } = self;
        let handlers = Arc::new(handlers);
        let mut running = WorkerTasks { drivers: JoinSet::new(), lanes: Vec::new() };
        for (index, server) in options.servers.options().iter().enumerate() {
            let role = options.lane(server, handlers.keys());
            let lane =
                LaneDriver::new(index, server, role, worker_status.clone(), handlers.clone());
            running.drivers.spawn(lane.driver(server.clone()));
            running.lanes.push(lane);
        }
        running
    }
}

/// The tasks of a running worker. Dropping this ends them.
struct WorkerTasks {
    drivers: JoinSet<()>,
    lanes: Vec<Arc<LaneDriver>>,
}

impl Drop for WorkerTasks {
    fn drop(&mut self) {
        self.lanes.iter().for_each(|lane| lane.close());
    }
}
