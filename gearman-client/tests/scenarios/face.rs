//! The two faces behind traits, so that a scenario is written once.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use fixtures::gearmand::Server;
use gearman_client::{
    Client, ConnectOptions, Epoch, Error, JobEvent, JobHandle, JobStatus, Outcome, Result, Servers,
    SubmitOptions, Worker, WorkerHandle, WorkerOptions, WorkerReport, blocking,
    protocol::{Assignment, Request, Submit, Submitted},
};
use queue_core::proof::Scripted;
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
    fn from_stream(stream: Scripted, options: ConnectOptions) -> Self;
    fn call<R: Request>(&mut self, request: &R) -> Result<R::Reply>;
    fn call_many<R: Request>(&mut self, requests: Vec<R>) -> Vec<Result<R::Reply>>;
    /// A foreground job whose events are read only after a pause: its handle, and its events until the last or an
    /// error.
    fn submit_slowly(
        &mut self,
        function: &str,
        workload: &[u8],
        options: SubmitOptions,
        pause: Duration,
    ) -> Result<(JobHandle, Vec<Result<JobEvent>>)>;
    /// Some in flight at once, and each event is read before the next is requested.
    fn submit_some(
        &mut self,
        window: Option<usize>,
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
    fn reconnect(&mut self) -> Result<()>;
    fn epochs(&self) -> Vec<Epoch>;
    fn is_connected(&self) -> bool;

    /// A foreground job whose events are read as they come.
    fn submit(
        &mut self,
        function: &str,
        workload: &[u8],
        options: SubmitOptions,
    ) -> Result<(JobHandle, Vec<Result<JobEvent>>)> {
        self.submit_slowly(function, workload, options, Duration::ZERO)
    }

    fn submit_many(&mut self, jobs: Vec<Submit<Vec<u8>>>) -> Vec<(usize, Result<JobEvent>)> {
        let mut found = Vec::new();
        self.submit_some(None, jobs, |number, event| found.push((number, event)));
        found
    }

    /// To the server that the text names.
    fn to(address: &str) -> Self {
        Self::connect(address.parse::<Servers>().unwrap()).unwrap()
    }
}

/// Each method of both faces that passes its arguments on.
macro_rules! methods {
    ($($name:ident($($argument:ident: $type:ty),*) -> $output:ty;)+) => {
        impl Face for Blocking {
            const NAME: &'static str = "blocking";
            type Worker = blocking::Worker;

            fn new(servers: impl Into<Servers>) -> Result<Self> {
                blocking::Client::new(servers.into()).map(Blocking)
            }

            fn connect(servers: impl Into<Servers>) -> Result<Self> {
                blocking::Client::connect(servers.into()).map(Blocking)
            }

            fn from_stream(stream: Scripted, options: ConnectOptions) -> Self {
                Blocking(blocking::Client::from_stream(stream, options).unwrap())
            }

            fn call<R: Request>(&mut self, request: &R) -> Result<R::Reply> {
                self.0.call(request)
            }

            fn call_many<R: Request>(&mut self, requests: Vec<R>) -> Vec<Result<R::Reply>> {
                self.0.call_many(requests).collect()
            }

            fn submit_slowly(
                &mut self,
                function: &str,
                workload: &[u8],
                options: SubmitOptions,
                pause: Duration,
            ) -> Result<(JobHandle, Vec<Result<JobEvent>>)> {
                let job = self.0.submit(function, workload, options)?;
                std::thread::sleep(pause);
                Ok((job.handle().clone(), job.collect()))
            }

            fn submit_some(
                &mut self,
                window: Option<usize>,
                jobs: Vec<Submit<Vec<u8>>>,
                mut look: impl FnMut(usize, Result<JobEvent>),
            ) {
                let events = self.0.submit_many(jobs);
                let events = match window {
                    Some(window) => events.window(window),
                    None => events,
                };
                events.for_each(|(number, event)| look(number, event));
            }

            $(fn $name(&mut self, $($argument: $type),*) -> Result<$output> {
                self.0.$name($($argument),*)
            })+

            fn epochs(&self) -> Vec<Epoch> {
                self.0.epochs().collect()
            }

            fn is_connected(&self) -> bool {
                self.0.is_connected()
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

            fn from_stream(stream: Scripted, options: ConnectOptions) -> Self {
                let runtime = Arc::new(queue_core::proof::runtime());
                let client = runtime.block_on(Client::from_stream(stream, options)).unwrap();
                Async { client, runtime }
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

            fn submit_slowly(
                &mut self,
                function: &str,
                workload: &[u8],
                options: SubmitOptions,
                pause: Duration,
            ) -> Result<(JobHandle, Vec<Result<JobEvent>>)> {
                self.runtime.block_on(async {
                    let mut job = self.client.submit(function, workload, options).await?;
                    tokio::time::sleep(pause).await;
                    let (handle, mut events) = (job.handle().clone(), Vec::new());
                    while let Some(event) = job.next().await {
                        events.push(event);
                    }
                    Ok((handle, events))
                })
            }

            fn submit_some(
                &mut self,
                window: Option<usize>,
                jobs: Vec<Submit<Vec<u8>>>,
                mut look: impl FnMut(usize, Result<JobEvent>),
            ) {
                self.runtime.block_on(async {
                    let events = self.client.submit_many(jobs);
                    let mut events = match window {
                        Some(window) => events.window(window),
                        None => events,
                    };
                    while let Some((number, event)) = events.next().await {
                        look(number, event);
                    }
                });
            }

            $(fn $name(&mut self, $($argument: $type),*) -> Result<$output> {
                self.runtime.block_on(self.client.$name($($argument),*))
            })+

            fn epochs(&self) -> Vec<Epoch> {
                self.client.epochs().collect()
            }

            fn is_connected(&self) -> bool {
                self.client.is_connected()
            }
        }
    };
}

methods! {
    run(function: &str, workload: &[u8], options: SubmitOptions) -> Outcome;
    submit_background(function: &str, workload: &[u8], options: SubmitOptions) -> Submitted;
    status(handle: &JobHandle) -> JobStatus;
    echo(data: &str) -> bytes::Bytes;
    reconnect() -> ();
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
    fn connect(options: impl TryInto<WorkerOptions, Error: Into<Error>>) -> Result<Self>;
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

    /// A connected worker of this function.
    fn of(function: &str, options: impl TryInto<WorkerOptions, Error: Into<Error>>) -> Self {
        let mut worker = Self::connect(options).unwrap();
        worker.can_do(function);
        worker
    }

    fn completes_next(&mut self, result: &str) {
        let job = self.next();
        self.complete(job, result).unwrap();
    }

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

/// The observations of a job, through its worker in one face and itself in the other.
macro_rules! reports {
    ($($name:ident($job:ty $(, $argument:ident: $type:ty)*);)+) => {
        impl WorkFace for blocking::Worker {
            type Job = blocking::GrabbedJob;

            fn new(options: WorkerOptions) -> Self {
                blocking::Worker::new(options).unwrap()
            }

            fn connect(options: impl TryInto<WorkerOptions, Error: Into<Error>>) -> Result<Self> {
                let options = options.try_into().map_err(Into::into)?;
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

            $(fn $name(&mut self, job: $job $(, $argument: $type)*) -> Result<()> {
                self.$name(job $(, $argument)*)
            })+

            fn give_back(&mut self, job: Self::Job) {
                self.give_back(job).unwrap();
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

            fn connect(options: impl TryInto<WorkerOptions, Error: Into<Error>>) -> Result<Self> {
                let options = options.try_into().map_err(Into::into)?;
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
                self.runtime
                    .block_on(async { tokio::time::timeout(timeout, worker.next_job()).await.ok() })
            }

            fn assignment(job: &Self::Job) -> &Assignment {
                job
            }

            $(fn $name(&mut self, job: $job $(, $argument: $type)*) -> Result<()> {
                self.runtime.block_on(job.$name($($argument),*))
            })+

            fn give_back(&mut self, job: Self::Job) {
                job.give_back();
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
    };
}

reports! {
    complete(Self::Job, result: &str);
    fail(Self::Job);
    exception(Self::Job, what: &str);
    status(&Self::Job, numerator: u64, denominator: u64);
    data(&Self::Job, data: &str);
    warning(&Self::Job, data: &str);
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
            use crate::{face::{Async, Blocking}, support::{in_memory, on_real}};

            #[test]
            fn async_in_memory() {
                in_memory(super::$name::<Async>);
            }

            #[test]
            fn blocking_in_memory() {
                in_memory(super::$name::<Blocking>);
            }

            #[test]
            fn async_real() {
                on_real(super::$name::<Async>);
            }

            #[test]
            fn blocking_real() {
                on_real(super::$name::<Blocking>);
            }
        }
    )+};
}

pub(crate) use both_faces;
pub(crate) use scenarios;
