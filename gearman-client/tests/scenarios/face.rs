//! The two faces behind traits, so that a scenario is written once.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use fixtures::gearmand::Server;
use gearman_client::{
    Client, Epoch, Error, JobEvent, JobHandle, JobStatus, Outcome, Result, Servers, SubmitOptions,
    Worker, WorkerHandle, WorkerOptions, WorkerReport, blocking,
    protocol::{Assignment, Request, Submit, Submitted},
};
use tokio::runtime::Runtime;

/// The async face. Its runtime has its own thread, so that drivers continue while a test does not wait.
pub(crate) struct Async {
    pub(crate) client: Client,
    pub(crate) runtime: Arc<Runtime>,
}

/// The blocking face.
pub(crate) struct Blocking(pub(crate) blocking::Client);

pub(crate) fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

/// A client.
pub(crate) trait Face: Sized + Send + 'static {
    const NAME: &'static str;
    type Worker: WorkFace;

    fn new(servers: impl Into<Servers>) -> Result<Self>;
    fn connect(servers: impl Into<Servers>) -> Result<Self>;
    fn call<R: Request>(&mut self, request: &R) -> Result<R::Reply>;
    fn call_many<R: Request>(&mut self, requests: Vec<R>) -> Vec<Result<R::Reply>>;
    /// A foreground job: its handle, and its events until the last or an error.
    fn submit(
        &mut self,
        function: &str,
        workload: &[u8],
        options: SubmitOptions,
    ) -> Result<(JobHandle, Vec<Result<JobEvent>>)>;
    /// The same, by a caller that reads the events only after a pause.
    fn submit_slowly(
        &mut self,
        function: &str,
        options: SubmitOptions,
        pause: Duration,
    ) -> Result<Vec<Result<JobEvent>>>;
    fn submit_many(&mut self, jobs: Vec<Submit<Vec<u8>>>) -> Vec<(usize, Result<JobEvent>)>;
    /// Few in flight at once, and each event is read before the next is requested.
    fn submit_some(
        &mut self,
        window: usize,
        jobs: Vec<Submit<Vec<u8>>>,
        look: impl FnMut(usize, Result<JobEvent>),
    );
    fn run(&mut self, function: &str, workload: &[u8], options: SubmitOptions) -> Result<Outcome>;
    fn submit_background(
        &mut self,
        function: &str,
        workload: &[u8],
        options: SubmitOptions,
    ) -> Result<Submitted>;
    fn status(&mut self, handle: &JobHandle) -> Result<JobStatus>;
    fn echo(&mut self, data: &str) -> Result<bytes::Bytes>;
    fn epochs(&self) -> Vec<Epoch>;
    fn reconnect(&mut self) -> Result<()>;

    /// To the server that the text names.
    fn to(address: &str) -> Self {
        Self::connect(address.parse::<Servers>().unwrap()).unwrap()
    }
}

impl Face for Blocking {
    const NAME: &'static str = "blocking";
    type Worker = blocking::Worker;

    fn new(servers: impl Into<Servers>) -> Result<Self> {
        blocking::Client::new(servers.into()).map(Blocking)
    }

    fn connect(servers: impl Into<Servers>) -> Result<Self> {
        blocking::Client::connect(servers.into()).map(Blocking)
    }

    fn call<R: Request>(&mut self, request: &R) -> Result<R::Reply> {
        self.0.call(request)
    }

    fn call_many<R: Request>(&mut self, requests: Vec<R>) -> Vec<Result<R::Reply>> {
        self.0.call_many(requests).collect()
    }

    fn submit(
        &mut self,
        function: &str,
        workload: &[u8],
        options: SubmitOptions,
    ) -> Result<(JobHandle, Vec<Result<JobEvent>>)> {
        let job = self.0.submit(function, workload, options)?;
        Ok((job.handle().clone(), job.collect()))
    }

    fn submit_slowly(
        &mut self,
        function: &str,
        options: SubmitOptions,
        pause: Duration,
    ) -> Result<Vec<Result<JobEvent>>> {
        let job = self.0.submit(function, "", options)?;
        std::thread::sleep(pause);
        Ok(job.collect())
    }

    fn submit_many(&mut self, jobs: Vec<Submit<Vec<u8>>>) -> Vec<(usize, Result<JobEvent>)> {
        self.0.submit_many(jobs).collect()
    }

    fn submit_some(
        &mut self,
        window: usize,
        jobs: Vec<Submit<Vec<u8>>>,
        mut look: impl FnMut(usize, Result<JobEvent>),
    ) {
        self.0.submit_many(jobs).window(window).for_each(|(number, event)| look(number, event));
    }

    fn run(&mut self, function: &str, workload: &[u8], options: SubmitOptions) -> Result<Outcome> {
        self.0.run(function, workload, options)
    }

    fn submit_background(
        &mut self,
        function: &str,
        workload: &[u8],
        options: SubmitOptions,
    ) -> Result<Submitted> {
        self.0.submit_background(function, workload, options)
    }

    fn status(&mut self, handle: &JobHandle) -> Result<JobStatus> {
        self.0.status(handle)
    }

    fn echo(&mut self, data: &str) -> Result<bytes::Bytes> {
        self.0.echo(data)
    }

    fn epochs(&self) -> Vec<Epoch> {
        self.0.epochs().collect()
    }

    fn reconnect(&mut self) -> Result<()> {
        self.0.reconnect()
    }
}

impl Face for Async {
    const NAME: &'static str = "async";
    type Worker = AsyncWorker;

    fn new(servers: impl Into<Servers>) -> Result<Self> {
        let client = Client::new(servers.into())?;
        Ok(Async { client, runtime: Arc::new(runtime()) })
    }

    fn connect(servers: impl Into<Servers>) -> Result<Self> {
        let runtime = Arc::new(runtime());
        let client = runtime.block_on(Client::connect(servers.into()))?;
        Ok(Async { client, runtime })
    }

    fn call<R: Request>(&mut self, request: &R) -> Result<R::Reply> {
        self.runtime.block_on(self.client.call(request))
    }

    fn call_many<R: Request>(&mut self, requests: Vec<R>) -> Vec<Result<R::Reply>> {
        self.runtime.block_on(async {
            let (mut replies, mut found) = (self.client.call_many(requests), Vec::new());
            while let Some(reply) = replies.next().await {
                found.push(reply);
            }
            found
        })
    }

    fn submit(
        &mut self,
        function: &str,
        workload: &[u8],
        options: SubmitOptions,
    ) -> Result<(JobHandle, Vec<Result<JobEvent>>)> {
        self.runtime.block_on(async {
            let mut job = self.client.submit(function, workload, options).await?;
            let handle = job.handle().clone();
            let mut events = Vec::new();
            while let Some(event) = job.next().await {
                events.push(event);
            }
            Ok((handle, events))
        })
    }

    fn submit_slowly(
        &mut self,
        function: &str,
        options: SubmitOptions,
        pause: Duration,
    ) -> Result<Vec<Result<JobEvent>>> {
        self.runtime.block_on(async {
            let mut job = self.client.submit(function, "", options).await?;
            tokio::time::sleep(pause).await;
            let mut events = Vec::new();
            while let Some(event) = job.next().await {
                events.push(event);
            }
            Ok(events)
        })
    }

    fn submit_many(&mut self, jobs: Vec<Submit<Vec<u8>>>) -> Vec<(usize, Result<JobEvent>)> {
        self.runtime.block_on(async {
            let mut events = self.client.submit_many(jobs);
            let mut found = Vec::new();
            while let Some(event) = events.next().await {
                found.push(event);
            }
            found
        })
    }

    fn submit_some(
        &mut self,
        window: usize,
        jobs: Vec<Submit<Vec<u8>>>,
        mut look: impl FnMut(usize, Result<JobEvent>),
    ) {
        self.runtime.block_on(async {
            let mut events = self.client.submit_many(jobs).window(window);
            while let Some((number, event)) = events.next().await {
                look(number, event);
            }
        });
    }

    fn run(&mut self, function: &str, workload: &[u8], options: SubmitOptions) -> Result<Outcome> {
        self.runtime.block_on(self.client.run(function, workload, options))
    }

    fn submit_background(
        &mut self,
        function: &str,
        workload: &[u8],
        options: SubmitOptions,
    ) -> Result<Submitted> {
        self.runtime.block_on(self.client.submit_background(function, workload, options))
    }

    fn status(&mut self, handle: &JobHandle) -> Result<JobStatus> {
        self.runtime.block_on(self.client.status(handle))
    }

    fn echo(&mut self, data: &str) -> Result<bytes::Bytes> {
        self.runtime.block_on(self.client.echo(data))
    }

    fn epochs(&self) -> Vec<Epoch> {
        self.client.epochs().collect()
    }

    fn reconnect(&mut self) -> Result<()> {
        self.runtime.block_on(self.client.reconnect())
    }
}

/// The async worker, with its driver.
pub(crate) struct AsyncWorker {
    pub(crate) worker: Worker,
    pub(crate) runtime: Arc<Runtime>,
}

/// A worker whose jobs are taken by hand.
pub(crate) trait WorkFace: Sized + Send + 'static {
    type Job: Send;

    /// Asks no server before it needs one.
    fn new(options: WorkerOptions) -> Self;
    fn connect<O>(options: O) -> Result<Self>
    where
        O: TryInto<WorkerOptions>,
        Error: From<O::Error>;
    fn check(&self) -> Result<()>;
    fn can_do(&mut self, function: &str);
    fn next_within(&mut self, timeout: Duration) -> Option<Self::Job>;
    fn assignment(job: &Self::Job) -> &Assignment;
    fn complete(&mut self, job: Self::Job, result: &str) -> Result<()>;
    fn fail(&mut self, job: Self::Job) -> Result<()>;
    fn exception(&mut self, job: Self::Job, what: &str) -> Result<()>;
    fn give_back(&mut self, job: Self::Job);
    fn status(&mut self, job: &Self::Job, numerator: u64, denominator: u64) -> Result<()>;
    fn data(&mut self, job: &Self::Job, data: &str) -> Result<()>;
    fn warning(&mut self, job: &Self::Job, data: &str) -> Result<()>;
    fn barrier(&mut self) -> Result<()>;
    fn connected(&self) -> usize;
    fn handle(&self) -> WorkerHandle;
    fn stop(self) -> WorkerReport;

    /// A job that arrives within the patience of a test.
    fn next(&mut self) -> Self::Job {
        self.next_within(super::support::PATIENCE).expect("no job came")
    }

    /// Works without jobs until the server knows that it sleeps.
    fn fall_asleep(&mut self, server: &Server) {
        let started = Instant::now();
        while server.view().sleeping == 0 {
            assert!(self.next_within(Duration::from_millis(1)).is_none());
            assert!(started.elapsed() < super::support::PATIENCE, "it does not sleep");
        }
    }
}

impl WorkFace for blocking::Worker {
    type Job = blocking::GrabbedJob;

    fn new(options: WorkerOptions) -> Self {
        blocking::Worker::new(options).unwrap()
    }

    fn connect<O>(options: O) -> Result<Self>
    where
        O: TryInto<WorkerOptions>,
        Error: From<O::Error>,
    {
        blocking::Worker::connect(options)
    }

    fn check(&self) -> Result<()> {
        self.check()
    }

    fn can_do(&mut self, function: &str) {
        self.can_do(function, None).unwrap();
    }

    fn next_within(&mut self, timeout: Duration) -> Option<Self::Job> {
        // An error says that no server can be reached at present.
        self.next_job(timeout).ok().flatten()
    }

    fn assignment(job: &Self::Job) -> &Assignment {
        job
    }

    fn complete(&mut self, job: Self::Job, result: &str) -> Result<()> {
        self.complete(job, result)
    }

    fn fail(&mut self, job: Self::Job) -> Result<()> {
        self.fail(job)
    }

    fn exception(&mut self, job: Self::Job, what: &str) -> Result<()> {
        self.exception(job, what)
    }

    fn give_back(&mut self, job: Self::Job) {
        self.give_back(job).unwrap();
    }

    fn status(&mut self, job: &Self::Job, numerator: u64, denominator: u64) -> Result<()> {
        self.status(job, numerator, denominator)
    }

    fn data(&mut self, job: &Self::Job, data: &str) -> Result<()> {
        self.data(job, data)
    }

    fn warning(&mut self, job: &Self::Job, data: &str) -> Result<()> {
        self.warning(job, data)
    }

    fn barrier(&mut self) -> Result<()> {
        self.echo_barrier()
    }

    fn connected(&self) -> usize {
        self.connected()
    }

    fn handle(&self) -> WorkerHandle {
        self.handle()
    }

    fn stop(self) -> WorkerReport {
        self.stop()
    }
}

impl WorkFace for AsyncWorker {
    type Job = gearman_client::GrabbedJob;

    fn new(options: WorkerOptions) -> Self {
        let runtime = Arc::new(runtime());
        let inside = runtime.enter();
        let worker = Worker::new(options).unwrap();
        drop(inside);
        AsyncWorker { worker, runtime }
    }

    fn connect<O>(options: O) -> Result<Self>
    where
        O: TryInto<WorkerOptions>,
        Error: From<O::Error>,
    {
        let runtime = Arc::new(runtime());
        let worker = runtime.block_on(Worker::connect(options))?;
        Ok(AsyncWorker { worker, runtime })
    }

    fn check(&self) -> Result<()> {
        self.runtime.block_on(self.worker.check())
    }

    fn can_do(&mut self, function: &str) {
        self.worker.can_do(function, None).unwrap();
    }

    fn next_within(&mut self, timeout: Duration) -> Option<Self::Job> {
        let worker = &mut self.worker;
        self.runtime.block_on(async { tokio::time::timeout(timeout, worker.next_job()).await.ok() })
    }

    fn assignment(job: &Self::Job) -> &Assignment {
        job
    }

    fn complete(&mut self, job: Self::Job, result: &str) -> Result<()> {
        self.runtime.block_on(job.complete(result))
    }

    fn fail(&mut self, job: Self::Job) -> Result<()> {
        self.runtime.block_on(job.fail())
    }

    fn exception(&mut self, job: Self::Job, what: &str) -> Result<()> {
        self.runtime.block_on(job.exception(what))
    }

    fn give_back(&mut self, job: Self::Job) {
        job.give_back();
    }

    fn status(&mut self, job: &Self::Job, numerator: u64, denominator: u64) -> Result<()> {
        self.runtime.block_on(job.status(numerator, denominator))
    }

    fn data(&mut self, job: &Self::Job, data: &str) -> Result<()> {
        self.runtime.block_on(job.data(data))
    }

    fn warning(&mut self, job: &Self::Job, data: &str) -> Result<()> {
        self.runtime.block_on(job.warning(data))
    }

    fn barrier(&mut self) -> Result<()> {
        self.runtime.block_on(self.worker.echo_barrier())
    }

    fn connected(&self) -> usize {
        self.worker.connected()
    }

    fn handle(&self) -> WorkerHandle {
        self.worker.handle()
    }

    fn stop(self) -> WorkerReport {
        self.runtime.block_on(self.worker.stop())
    }
}

/// Makes two tests of each function over a [`Face`]: async and blocking.
macro_rules! both_faces {
    ($($name:ident),+ $(,)?) => {$(
        mod $name {
            #[test]
            fn async_face() {
                super::$name::<crate::face::Async>();
            }

            #[test]
            fn blocking_face() {
                super::$name::<crate::face::Blocking>();
            }
        }
    )+};
}

/// Makes four tests of each function over a [`Face`] and the address of a server: {async, blocking} x {in-memory,
/// real}.
macro_rules! scenarios {
    ($($name:ident),+ $(,)?) => {$(
        mod $name {
            #[test]
            fn async_in_memory() {
                super::$name::<crate::face::Async>(fixtures::gearmand::Server::start().unwrap().address());
            }

            #[test]
            fn blocking_in_memory() {
                super::$name::<crate::face::Blocking>(fixtures::gearmand::Server::start().unwrap().address());
            }

            #[test]
            fn async_real() {
                if let Some(server) = crate::support::real() {
                    super::$name::<crate::face::Async>(server.address());
                }
            }

            #[test]
            fn blocking_real() {
                if let Some(server) = crate::support::real() {
                    super::$name::<crate::face::Blocking>(server.address());
                }
            }
        }
    )+};
}

pub(crate) use both_faces;
pub(crate) use scenarios;
