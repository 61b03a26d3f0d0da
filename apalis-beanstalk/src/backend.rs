//! The backend: a worker and a producer of the client, as apalis sees them.

use std::{
    fmt,
    marker::PhantomData,
    sync::Arc,
    task::{Context, Poll, ready},
};

use apalis_bridge::{BodyCodec, Bridge, NotTaken, Pushes, SettleLayer, TaskSender};
use apalis_core::{
    backend::{Backend, BackendConfig, finalize::Ephemeral, queue::Queue},
    task::{Task, builder::TaskBuilder, task_id::TaskId},
    worker::context::WorkerContext,
};
use beanstalk_client::{
    Decision, JobContext, Outcome, Producer, ProducerOptions, PutOptions, Servers, TubeName,
    Worker, WorkerOptions,
};

use crate::{Error, Reservation};

#[cfg(feature = "json")]
type DefaultCodec = apalis_bridge::Json;
#[cfg(not(feature = "json"))]
type DefaultCodec = apalis_bridge::Raw;

/// An apalis backend for beanstalkd, for tasks with arguments of type `A` that a codec `C` writes into the bodies of
/// jobs.
///
/// A clone pushes by the same producer, and has its own worker when it runs.
pub struct BeanstalkBackend<A, C = DefaultCodec> {
    options: WorkerOptions,
    pub(crate) producer: Producer,
    pub(crate) tube: TubeName,
    pub(crate) put: PutOptions,
    pub(crate) codec: C,
    pub(crate) pushes: Pushes<Error>,
    counts_attempts: bool,
    bridge: Bridge<Task<A>>,
    args: PhantomData<fn() -> A>,
}

/// Maximum number of pushes in flight of one backend.
const WINDOW: usize = 1024;

impl<A, C: Default> BeanstalkBackend<A, C> {
    /// A backend for one tube of these servers: [`Servers`], or addresses as text, separated by commas. It connects
    /// when it is used.
    ///
    /// # Errors
    ///
    /// `Client` of kind `InvalidInput` for a wrong address or name, and outside of a tokio runtime.
    pub fn new<S, T>(servers: S, tube: T) -> Result<Self, Error>
    where
        S: TryInto<Servers>,
        T: TryInto<TubeName>,
        beanstalk_client::Error: From<S::Error> + From<T::Error>,
    {
        let servers = servers.try_into().map_err(|error| Error::Client(error.into()))?;
        let tube = tube.try_into().map_err(|error| Error::Client(error.into()))?;
        let options = WorkerOptions::from(servers.clone());
        let producer = Producer::new(ProducerOptions::from(servers)).map_err(Error::Client)?;
        Ok(Self::with(options, producer, tube, C::default()))
    }
}

impl<A, C> BeanstalkBackend<A, C> {
    /// A backend that takes jobs of this tube by these options, and puts tasks without their own queue into it.
    #[must_use]
    pub fn with(options: WorkerOptions, producer: Producer, tube: TubeName, codec: C) -> Self {
        BeanstalkBackend {
            options,
            producer,
            tube,
            put: PutOptions::default(),
            codec,
            pushes: Pushes::new(WINDOW),
            counts_attempts: false,
            bridge: Bridge::default(),
            args: PhantomData,
        }
    }

    /// Changes how it takes jobs: slots, heartbeat, retries, grace and so on. Slots are the number of jobs that it runs
    /// at a time.
    #[must_use]
    pub fn worker(mut self, change: impl FnOnce(WorkerOptions) -> WorkerOptions) -> Self {
        self.options = change(self.options);
        self
    }

    /// How tasks without [`PutOptions`] in their data are put.
    #[must_use]
    pub fn put_options(mut self, options: PutOptions) -> Self {
        self.put = options;
        self
    }

    /// Whether tasks know their attempts and their tube, from the job's counters (`stats-job`); no unless set. It costs
    /// a round trip for each job whose counters were not read [before](beanstalk_client::Inspect).
    #[must_use]
    pub fn count_attempts(mut self, count: bool) -> Self {
        self.counts_attempts = count;
        self
    }

    /// The producer by which it pushes. [Closing](Producer::close) it, once everything is pushed, reports the outcome.
    #[must_use]
    pub fn producer(&self) -> &Producer {
        &self.producer
    }
}

impl<A, C: Clone> Clone for BeanstalkBackend<A, C> {
    fn clone(&self) -> Self {
        BeanstalkBackend {
            options: self.options.clone(),
            producer: self.producer.clone(),
            tube: self.tube.clone(),
            put: self.put,
            codec: self.codec.clone(),
            pushes: Pushes::new(WINDOW),
            counts_attempts: self.counts_attempts,
            bridge: Bridge::default(),
            args: PhantomData,
        }
    }
}

/// Nothing in it is ever pinned.
impl<A, C> Unpin for BeanstalkBackend<A, C> {}

impl<A, C> fmt::Debug for BeanstalkBackend<A, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BeanstalkBackend")
            .field("options", &self.options)
            .field("tube", &self.tube)
            .field("pushes", &self.pushes)
            .finish_non_exhaustive()
    }
}

impl<A, C> Backend for BeanstalkBackend<A, C>
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
        let (options, tube, codec) = (&self.options, &self.tube, &self.codec);
        let counts_attempts = self.counts_attempts;
        Poll::Ready(self.bridge.start(|tasks| {
            let worker = Worker::new(options.clone()).map_err(Error::Client)?;
            let host = Host { tasks, codec: codec.clone(), counts_attempts };
            drive(worker, tube.clone(), host)
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

impl<A, C> BackendConfig for BeanstalkBackend<A, C>
where
    A: Send + 'static,
{
    type Args = A;
    type Id = String;
    /// Bodies are decoded here, not by apalis: there, one that cannot be decoded would end the worker.
    type Kind = Ephemeral;
    type Config = WorkerOptions;
    type Layer = SettleLayer<Reservation>;

    fn config(&self) -> &WorkerOptions {
        &self.options
    }

    fn middleware(&mut self, worker: &mut WorkerContext) -> Self::Layer {
        self.bridge.set_worker(worker);
        SettleLayer::new()
    }
}

/// Turns jobs into tasks.
struct Host<A, C> {
    tasks: TaskSender<Task<A>>,
    codec: C,
    counts_attempts: bool,
}

fn drive<A, C>(
    mut worker: Worker,
    tube: TubeName,
    host: Host<A, C>,
) -> Result<impl Future<Output = ()>, Error>
where
    A: Send + 'static,
    C: BodyCodec<A>,
{
    let handle = worker.handle();
    let host = Arc::new(host);
    let stops = host.clone();
    let handler = move |job: JobContext| {
        let (host, handle) = (host.clone(), handle.clone());
        async move {
            match host.run(job).await {
                Ok(decision) => decision,
                Err(NotTaken::Stopped) => {
                    handle.stop();
                    Outcome::release().into()
                }
                // Nothing is sent for a job that is lost.
                Err(_) => Outcome::release().into(),
            }
        }
    };
    worker.register(tube, handler).map_err(Error::Client)?;
    Ok(async move {
        worker.run_until(async move { stops.tasks.stopping().await }).await;
    })
}

impl<A: Send + 'static, C: BodyCodec<A>> Host<A, C> {
    /// Hands over a job as a task, and waits for its outcome.
    async fn run(&self, job: JobContext) -> Result<Decision, NotTaken> {
        let args = match self.codec.of_body(job.body.to_vec()) {
            Ok(args) => args,
            Err(error) => {
                let why = format!("its body cannot be decoded: {error:#}");
                return Ok(Outcome::bury().because(why));
            }
        };
        let (reservation, decided) = Reservation::new();
        let task = TaskBuilder::new(args)
            .task_id(TaskId::from_string(format!("{}//{}", job.server(), job.id)))
            .data(job.clone())
            .data(reservation);
        let task = match self.counts_attempts {
            true => counted(task, &job).await?,
            false => task,
        };
        self.tasks.offer(task.build(), job.lost()).await?;
        // A task that was dropped with its worker has no decision.
        decided.await.map_err(|_| NotTaken::Stopped)
    }
}

/// The task with the data from the job's counters.
async fn counted<A>(task: TaskBuilder<A>, job: &JobContext) -> Result<TaskBuilder<A>, NotTaken> {
    let stats = job.stats().await.map_err(|_| NotTaken::InVain)?;
    let attempts = usize::try_from(stats.reserves.saturating_sub(1)).unwrap_or(usize::MAX);
    Ok(task.attempt(attempts).queue(Queue::from(stats.tube.to_string())))
}
