//! The backend: a worker and a client, as apalis sees them.

use std::{
    fmt,
    future::poll_fn,
    marker::PhantomData,
    pin::pin,
    task::{Context, Poll, ready},
};

use apalis_bridge::{BodyCodec, Bridge, NotTaken, Pushes, SettleLayer, TaskSender};
use apalis_core::{
    backend::{Backend, BackendConfig, finalize::Ephemeral, queue::Queue},
    task::{Task, builder::TaskBuilder, task_id::TaskId},
    worker::context::WorkerContext,
};
use gearman_client::{
    Client, FunctionName, GrabbedJob, JobContext, Servers, SubmitOptions, Worker, WorkerOptions,
};

use crate::{Assigned, Error};

#[cfg(feature = "json")]
type DefaultCodec = apalis_bridge::Json;
#[cfg(not(feature = "json"))]
type DefaultCodec = apalis_bridge::Raw;

/// An apalis backend for Gearman, for tasks with arguments of type `A` that a codec `C` writes into workloads. It
/// encodes results, too.
///
/// A clone pushes by the same client, and has its own worker when it runs.
pub struct GearmanBackend<A, C = DefaultCodec> {
    options: WorkerOptions,
    pub(crate) client: Client,
    pub(crate) function: FunctionName,
    pub(crate) submit: SubmitOptions,
    pub(crate) codec: C,
    pub(crate) pushes: Pushes<Error>,
    bridge: Bridge<Task<A>>,
    args: PhantomData<fn() -> A>,
}

/// Maximum number of pushes in flight of one backend.
const WINDOW: usize = 1024;

impl<A, C: Default> GearmanBackend<A, C> {
    /// A backend for one function of these servers: [`Servers`], or addresses as text, separated by commas. It connects
    /// when the servers can be reached.
    ///
    /// # Errors
    ///
    /// `Client` of kind `InvalidInput` for a wrong address or name, and outside of a tokio runtime.
    pub fn new<S, F>(servers: S, function: F) -> Result<Self, Error>
    where
        S: TryInto<Servers>,
        F: TryInto<FunctionName>,
        gearman_client::Error: From<S::Error> + From<F::Error>,
    {
        let servers = servers.try_into().map_err(|error| Error::Client(error.into()))?;
        let function = function.try_into().map_err(|error| Error::Client(error.into()))?;
        let client = Client::new(servers.clone()).map_err(Error::Client)?;
        Ok(Self::with(WorkerOptions::from(servers), client, function, C::default()))
    }
}

impl<A, C> GearmanBackend<A, C> {
    /// A backend that takes jobs of this function by these options, and submits tasks without their own queue to
    /// it.
    #[must_use]
    pub fn with(options: WorkerOptions, client: Client, function: FunctionName, codec: C) -> Self {
        GearmanBackend {
            options,
            client,
            function,
            submit: SubmitOptions::default(),
            codec,
            pushes: Pushes::new(WINDOW),
            bridge: Bridge::default(),
            args: PhantomData,
        }
    }

    /// Changes how it takes jobs: slots, grace and so on. Slots are the number of jobs that it runs at a time. A limit
    /// of jobs ends the flow of tasks, but not the apalis worker; and a crash ledger is for handlers of the client's
    /// own worker.
    #[must_use]
    pub fn worker(mut self, change: impl FnOnce(WorkerOptions) -> WorkerOptions) -> Self {
        self.options = change(self.options);
        self
    }

    /// How tasks without [`SubmitOptions`] in their data are submitted.
    #[must_use]
    pub fn submit_options(mut self, options: SubmitOptions) -> Self {
        self.submit = options;
        self
    }

    /// The client by which it pushes.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }
}

impl<A, C: Clone> Clone for GearmanBackend<A, C> {
    fn clone(&self) -> Self {
        GearmanBackend {
            options: self.options.clone(),
            client: self.client.clone(),
            function: self.function.clone(),
            submit: self.submit,
            codec: self.codec.clone(),
            pushes: Pushes::new(WINDOW),
            bridge: Bridge::default(),
            args: PhantomData,
        }
    }
}

/// Nothing in it is ever pinned.
impl<A, C> Unpin for GearmanBackend<A, C> {}

impl<A, C> fmt::Debug for GearmanBackend<A, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GearmanBackend")
            .field("options", &self.options)
            .field("function", &self.function)
            .field("pushes", &self.pushes)
            .finish_non_exhaustive()
    }
}

impl<A, C> Backend for GearmanBackend<A, C>
where
    A: Send + 'static,
    C: BodyCodec<A>,
{
    type Task = Task<A>;
    type Error = Error;

    fn poll_ready(
        &mut self,
        _: &mut Context<'_>,
        worker: &WorkerContext,
    ) -> Poll<Result<(), Error>> {
        self.bridge.set_worker(worker);
        let (options, function, codec) = (&self.options, &self.function, &self.codec);
        Poll::Ready(self.bridge.start(|tasks| {
            let mut worker = Worker::new(options.clone()).map_err(Error::Client)?;
            worker.can_do(function.clone(), None).map_err(Error::Client)?;
            Ok(drive(worker, tasks, codec.clone()))
        }))
    }

    fn poll_next(
        &mut self,
        cx: &mut Context<'_>,
        _: &WorkerContext,
    ) -> Poll<Option<Result<Task<A>, Error>>> {
        self.bridge.poll_next(cx).map(|task| task.map(Ok))
    }

    fn poll_close(&mut self, cx: &mut Context<'_>, _: &WorkerContext) -> Poll<Result<(), Error>> {
        ready!(self.bridge.poll_close(cx));
        self.pushes.poll_flush(cx)
    }
}

impl<A, C> BackendConfig for GearmanBackend<A, C>
where
    A: Send + 'static,
    C: Clone + Send + Sync + 'static,
{
    type Args = A;
    type Id = String;
    /// Workloads are decoded here, not by apalis: there, one that cannot be decoded would end the worker.
    type Kind = Ephemeral;
    type Config = WorkerOptions;
    type Layer = SettleLayer<Assigned<C>>;

    fn config(&self) -> &WorkerOptions {
        &self.options
    }

    fn middleware(&mut self, worker: &mut WorkerContext) -> Self::Layer {
        self.bridge.set_worker(worker);
        SettleLayer::new()
    }
}

/// Hands over jobs as tasks until a stop; then the worker waits for those that run.
async fn drive<A, C>(mut worker: Worker, tasks: TaskSender<Task<A>>, codec: C)
where
    A: Send + 'static,
    C: BodyCodec<A>,
{
    loop {
        let grabbed = {
            let (mut next, mut stopping) = (pin!(worker.next_job()), pin!(tasks.stopping()));
            poll_fn(|cx| {
                if stopping.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(None);
                }
                next.as_mut().poll(cx).map(Some)
            })
            .await
        };
        let Some(job) = grabbed else { break };
        if let Err(NotTaken::Stopped) = hand_over(job, &tasks, &codec).await {
            break;
        }
    }
    worker.stop().await;
}

/// Hands over a job as a task. A job whose workload cannot be decoded fails.
async fn hand_over<A, C>(
    job: GrabbedJob,
    tasks: &TaskSender<Task<A>>,
    codec: &C,
) -> Result<(), NotTaken>
where
    A: Send + 'static,
    C: BodyCodec<A>,
{
    let context: JobContext = (*job).clone();
    let args = match codec.of_body(context.workload.to_vec()) {
        Ok(args) => args,
        Err(error) => {
            // A lost job was already given to others.
            let _ = job.exception(format!("the workload cannot be decoded: {error:#}")).await;
            return Ok(());
        }
    };
    let assigned = Assigned::new(job, codec.clone());
    let task = TaskBuilder::new(args)
        .task_id(TaskId::from_string(context.handle.to_string()))
        .queue(Queue::from(context.function.to_string()))
        .data(context.clone())
        .data(assigned.clone());
    let offered = tasks.offer(task.build(), context.lost()).await;
    if offered.is_err() {
        apalis_bridge::Leave::leave(&assigned);
    }
    offered
}
