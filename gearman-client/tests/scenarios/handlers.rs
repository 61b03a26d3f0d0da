//! Handlers of both faces behind one trait: written once, as a function that may block its thread.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use gearman_client::{
    Failure, JobContext, LostReason, Worker, WorkerHandle, WorkerOptions, WorkerReport, blocking,
};
use tokio::runtime::Handle;

use super::{
    face::{Async, Blocking, Face},
    support::PATIENCE,
};

/// A job as a test's handler sees it.
pub(crate) trait Seen {
    fn workload(&self) -> Vec<u8>;
    fn is_lost(&mut self) -> bool;
    /// Waits until the job is lost, with the patience of a test.
    fn wait_lost(&mut self) -> Option<LostReason>;
    fn is_stopping(&self) -> bool;
    /// Waits until the worker stops, with the patience of a test; returns whether it does.
    fn wait_stopping(&self) -> bool;
    fn data(&mut self, data: &[u8]);
}

type Outcome = Result<String, Failure>;

/// A worker of either face that runs handlers.
pub(crate) trait HandlerFace: Face {
    /// Serves `f`.
    fn start<H>(options: WorkerOptions, handler: H) -> Running
    where
        H: Fn(&mut dyn Seen) -> Outcome + Send + Sync + 'static,
    {
        Self::start_with(options, None, handler)
    }

    /// The same, announcing a time limit for its jobs.
    fn start_with<H>(options: WorkerOptions, timeout: Option<Duration>, handler: H) -> Running
    where
        H: Fn(&mut dyn Seen) -> Outcome + Send + Sync + 'static;
}

/// A worker that runs in its own threads.
pub(crate) struct Running {
    pub(crate) handle: WorkerHandle,
    thread: thread::JoinHandle<WorkerReport>,
}

impl Running {
    /// Stops it, and waits for its end.
    pub(crate) fn stop(self) -> WorkerReport {
        self.handle.stop();
        self.end()
    }

    /// Waits until it ends on its own.
    pub(crate) fn end(self) -> WorkerReport {
        self.thread.join().unwrap()
    }

    /// Waits until something can be observed of it.
    pub(crate) fn until(&self, what: &str, is_so: impl Fn(&WorkerHandle) -> bool) {
        let end = Instant::now() + PATIENCE;
        while !is_so(&self.handle) {
            assert!(Instant::now() < end, "{what}: {:?}, {:?}", self.handle, self.handle.metrics());
            thread::sleep(Duration::from_millis(2));
        }
    }
}

impl HandlerFace for Blocking {
    fn start_with<H>(options: WorkerOptions, timeout: Option<Duration>, handler: H) -> Running
    where
        H: Fn(&mut dyn Seen) -> Outcome + Send + Sync + 'static,
    {
        let mut worker = blocking::Worker::new(options).unwrap();
        let handler = move |job: &mut blocking::JobContext<'_>| handler(job);
        match timeout {
            Some(timeout) => worker.register_with_timeout("f", timeout, handler).unwrap(),
            None => worker.register("f", handler).unwrap(),
        }
        let handle = worker.handle();
        Running { handle, thread: thread::spawn(move || worker.run().unwrap()) }
    }
}

impl Seen for blocking::JobContext<'_> {
    fn workload(&self) -> Vec<u8> {
        self.workload.to_vec()
    }

    fn is_lost(&mut self) -> bool {
        Self::is_lost(self)
    }

    fn wait_lost(&mut self) -> Option<LostReason> {
        Self::wait_lost(self, PATIENCE)
    }

    fn is_stopping(&self) -> bool {
        Self::is_stopping(self)
    }

    fn wait_stopping(&self) -> bool {
        Self::wait_stopping(self, PATIENCE)
    }

    fn data(&mut self, data: &[u8]) {
        Self::data(self, data).unwrap();
    }
}

impl HandlerFace for Async {
    fn start_with<H>(options: WorkerOptions, timeout: Option<Duration>, handler: H) -> Running
    where
        H: Fn(&mut dyn Seen) -> Outcome + Send + Sync + 'static,
    {
        let handler = Arc::new(handler);
        let (seen, handle) = std::sync::mpsc::channel();
        let thread = thread::spawn(move || {
            super::face::runtime().block_on(async move {
                let mut worker = Worker::new(options).unwrap();
                seen.send(worker.handle()).unwrap();
                let handler = move |job: JobContext| {
                    let handler = handler.clone();
                    async move {
                        let mut seen = SeenAsync(job, Handle::current());
                        match tokio::task::spawn_blocking(move || handler(&mut seen)).await {
                            Ok(outcome) => outcome,
                            Err(error) => std::panic::resume_unwind(error.into_panic()),
                        }
                    }
                };
                match timeout {
                    Some(timeout) => worker.register_with_timeout("f", timeout, handler).unwrap(),
                    None => worker.register("f", handler).unwrap(),
                }
                worker.run().await
            })
        });
        Running { handle: handle.recv().unwrap(), thread }
    }
}

struct SeenAsync(JobContext, Handle);

impl Seen for SeenAsync {
    fn workload(&self) -> Vec<u8> {
        self.0.workload.to_vec()
    }

    fn is_lost(&mut self) -> bool {
        self.0.is_lost()
    }

    fn wait_lost(&mut self) -> Option<LostReason> {
        let lost = async { tokio::time::timeout(PATIENCE, self.0.lost()).await };
        self.1.block_on(lost).ok()
    }

    fn is_stopping(&self) -> bool {
        self.0.is_stopping()
    }

    fn wait_stopping(&self) -> bool {
        let stopping = async { tokio::time::timeout(PATIENCE, self.0.stopping()).await };
        self.1.block_on(stopping).is_ok()
    }

    fn data(&mut self, data: &[u8]) {
        self.1.block_on(self.0.data(data)).unwrap();
    }
}

/// A gate where handlers wait until the test opens it for good.
#[derive(Clone, Default)]
pub(crate) struct Door(Arc<AtomicBool>);

impl Door {
    pub(crate) fn open(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    pub(crate) fn pass(&self) {
        let end = Instant::now() + PATIENCE;
        while !self.0.load(Ordering::SeqCst) {
            assert!(Instant::now() < end, "nobody opens");
            thread::sleep(Duration::from_millis(1));
        }
    }
}
