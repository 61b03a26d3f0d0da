//! The blocking worker.

mod lane;

use queue_core::{Registered, now, sync::thread};
use std::{collections::BTreeMap, sync::Arc};

use super::link::ServerLink;
use crate::{
    Error, IntoOutcome, JobContext, QueueName, Result, WorkerHandle, WorkerOptions, WorkerReport,
    protocol::client::Ask,
    servers::Checking,
    work::{Ended, WorkerStatus},
};

type Handler = Box<dyn Fn(&JobContext) -> Ended + Send + Sync>;

type Handlers = BTreeMap<QueueName, Registered<Handler>>;

/// Runs handlers for the messages of queues, and settles them on the servers.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = fixtures::adf_queue::Server::builder().queue("/mail").start()?;
/// # let address = server.address();
/// # adf_queue_client::blocking::Client::connect(address)?.rpush("/mail", "hello")?;
/// use adf_queue_client::{JobLimit, WorkerOptions, blocking::Worker};
///
/// let options: WorkerOptions = address.parse()?;
/// let mut worker = Worker::new(options.slots(4).limit(JobLimit::new(1)))?;
/// worker.register("/mail", |job| {
///     println!("message {}: {} bytes", job.message_id(), job.body().len());
///     Ok::<(), std::io::Error>(()) // delete; an error puts it back at the right end
/// })?;
/// let report = worker.run();
/// assert_eq!(report.deleted, 1);
/// # Ok(())
/// # }
/// ```
///
/// * **Threads.** An attempt to connect has its own thread, which ends with it. There are no others before
///   [`run`](Self::run), and none of them outlives it. It has one for each server (the caller's if there is only one),
///   which moves the bytes and runs handlers that have proved quick. The others run in their own threads, one per
///   [slot](WorkerOptions::slots); their decisions go out within 16 ms.
/// * **Servers.** Each has one WebSocket connection and its own slots. One that is down is retried without holding up
///   the others.
/// * **Deleted queues** are served again once they are back. Over JSON, a pull that meets the deletion of its queue by
///   another client ends the real server: see [`Transport::WsJson`](crate::Transport::WsJson).
/// * **Outcome.** `Ok` deletes the message. An error or a panic returns it to the right end, at once, because the
///   server has no delays; [`max_duplications`](WorkerOptions::max_duplications) limits the repetitions. A handler that
///   returns an [`Outcome`](crate::Outcome) decides itself.
/// * **Lost messages.** When the connection is lost, the server gives its messages to other workers, or to this one
///   again, while their handlers keep running. [`JobContext::is_lost`] tells the handlers, and their decisions are not
///   sent. Until such a handler ends, it keeps its slot, and this worker starts no other run of the same message.
/// * **Order.** When the worker stops, messages that are still arriving or waiting for a handler return to their places
///   when the connection closes.
pub struct Worker {
    options: WorkerOptions,
    worker_status: Arc<WorkerStatus>,
    handlers: Handlers,
}

crate::faces::worker_methods!();

impl Worker {
    /// Serves a queue: `handler` runs for each of its messages. Its return value decides how to settle the message
    /// ([`IntoOutcome`]).
    ///
    /// # Errors
    ///
    /// `InvalidInput` for an invalid name, and for the dead-letter queue.
    pub fn register<Q, H, R>(&mut self, queue: Q, handler: H) -> Result<()>
    where
        Q: TryInto<QueueName>,
        Error: From<Q::Error>,
        H: Fn(&JobContext) -> R + Send + Sync + 'static,
        R: IntoOutcome,
    {
        let queue = queue.try_into()?;
        self.options.check_served(&queue)?;
        let handler: Handler = Box::new(move |job| handler(job).into_outcome().into());
        self.handlers.insert(queue, Registered::new(handler));
        Ok(())
    }

    /// A handle to stop and observe the worker from another thread or a signal handler's thread.
    #[must_use]
    pub fn handle(&self) -> WorkerHandle {
        WorkerHandle { worker_status: self.worker_status.clone() }
    }

    /// Runs until [`WorkerHandle::stop`], which it notices within a fifth of a second or the current attempt to
    /// connect; until the last message of the [limit](WorkerOptions::limit); or, with
    /// [`until_empty`](WorkerOptions::until_empty), until its queues are empty.
    ///
    /// An unreachable server is retried indefinitely; [`WorkerHandle::servers`] and [`WorkerOptions::on_event`] report
    /// that. A handler still running when the [grace](WorkerOptions::grace) ends cannot be interrupted: its message
    /// goes back to the server, and `run` waits for the handler.
    #[must_use]
    pub fn run(self) -> WorkerReport {
        let Worker { options, worker_status, handlers } = &self;
        let _run = worker_status.stop.run();
        let serve = |index, server| lane::serve(index, server, options, worker_status, handlers);
        match options.servers.options() {
            [server] => serve(0, server),
            servers => thread::scope(|scope| {
                for (index, server) in servers.iter().enumerate() {
                    scope.spawn(move || serve(index, server));
                }
            }),
        }
        worker_status.report()
    }
}
