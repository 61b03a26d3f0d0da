//! Both workers behind one trait: a handler is written once, as a function that may block its thread.

use std::{
    sync::{Arc, Mutex, mpsc},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use beanstalk_client::{
    ErrorKind, JobContext, JobId, JobStats, LostReason, Outcome, PutOptions, Result, TubeName,
    Worker, WorkerEvent, WorkerEventKind, WorkerHandle, WorkerOptions, WorkerReport, blocking,
};
use queue_core::proof::runtime;
use tokio::runtime::Handle;

use crate::support::{Async, Blocking, Face, place::PATIENCE};

/// A job as a test's handler sees it.
pub(super) trait Seen {
    fn id(&self) -> JobId;
    fn body(&self) -> Vec<u8>;
    fn deferrals(&self) -> u64;
    fn is_lost(&self) -> bool;
    /// Waits for the end of the reservation, with the patience of a test.
    fn wait_lost(&self) -> Option<LostReason>;
    fn is_stopping(&self) -> bool;
    /// Waits for a stop, with the patience of a test; returns whether it came.
    fn wait_stopping(&self) -> bool;
    fn time_left(&self) -> Option<Duration>;
    fn touch(&self) -> Result<()>;
    fn stats(&self) -> Result<JobStats>;
    fn tube(&self) -> TubeName;
}

/// What a test does with a job.
pub(super) trait Handler:
    Fn(&dyn Seen) -> std::result::Result<Outcome, String> + Send + Sync + 'static
{
}

impl<H> Handler for H where
    H: Fn(&dyn Seen) -> std::result::Result<Outcome, String> + Send + Sync + 'static
{
}

/// A worker of either face.
pub(super) trait WorkerFace: Face {
    fn start(options: WorkerOptions, handler: impl Handler) -> Running {
        Self::start_on(options, &["default"], handler)
    }

    /// For these tubes.
    fn start_on(options: WorkerOptions, tubes: &[&str], handler: impl Handler) -> Running {
        let events = Events::default();
        let running = Self::serve(events.watch(options, |_| {}), tubes, handler);
        Running { events, ..running }
    }

    /// With another observer besides, which is called last.
    fn start_told<O>(options: WorkerOptions, observer: O, handler: impl Handler) -> Running
    where
        O: Fn(&WorkerEvent) + Send + Sync + 'static,
    {
        let events = Events::default();
        let running = Self::serve(events.watch(options, observer), &["default"], handler);
        Running { events, ..running }
    }

    /// With the observer of the options alone.
    fn serve(options: WorkerOptions, tubes: &[&str], handler: impl Handler) -> Running;

    /// `Worker::connect`, and then `check` once more.
    fn check(servers: &str) -> Result<()>;
}

/// Puts a job of a priority of its own, which an outcome is to keep.
pub(super) fn put<F: Face>(client: &mut F, body: &str) -> u64 {
    put_for(client, body, 60)
}

/// With this time to run, in seconds.
pub(super) fn put_for<F: Face>(client: &mut F, body: &str, ttr: u64) -> u64 {
    let options = PutOptions::default().priority(77).ttr(Duration::from_secs(ttr));
    client.put(body.as_bytes(), options).unwrap().id().get()
}

/// A worker that runs in its own threads.
pub(super) struct Running {
    pub(super) handle: WorkerHandle,
    pub(super) events: Events,
    thread: JoinHandle<WorkerReport>,
}

impl Running {
    /// Waits for its end, for as long as it gets on: how fast it does depends on the machine.
    pub(super) fn end(self) -> WorkerReport {
        let (mut done, mut deadline) = (0, Instant::now() + 3 * PATIENCE);
        while !self.thread.is_finished() {
            let total = self.handle.report().total();
            if total > done {
                (done, deadline) = (total, Instant::now() + 3 * PATIENCE);
            }
            assert!(Instant::now() < deadline, "the worker does not end: {:?}", self.handle);
            thread::sleep(Duration::from_millis(2));
        }
        self.thread.join().unwrap()
    }

    /// Waits until it has failed to connect this often.
    pub(super) fn until_it_failed_to_connect(&self, times: u64) {
        let deadline = Instant::now() + PATIENCE;
        while self.handle.metrics().errors_of(ErrorKind::Connect) < times {
            assert!(Instant::now() < deadline, "{times} times: {:?}", self.handle.metrics());
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// Stops it, and waits for its end.
    pub(super) fn stop(self) -> WorkerReport {
        self.handle.stop();
        self.end()
    }
}

/// What a worker reported, as text.
#[derive(Clone, Default)]
pub(super) struct Events(Arc<Mutex<Vec<String>>>);

impl Events {
    /// Makes these options report to this value, and then to `observer`.
    fn watch(
        &self,
        options: WorkerOptions,
        observer: impl Fn(&WorkerEvent) + Send + Sync + 'static,
    ) -> WorkerOptions {
        let events = self.0.clone();
        options.on_event(move |event: &WorkerEvent| {
            events.lock().unwrap().push(words(event));
            observer(event);
        })
    }

    pub(super) fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    pub(super) fn count(&self, what: &str) -> usize {
        self.all().iter().filter(|event| event.starts_with(what)).count()
    }

    /// Waits until something was reported this often.
    pub(super) fn wait_for(&self, what: &str, times: usize) {
        let deadline = Instant::now() + PATIENCE;
        while self.count(what) < times {
            assert!(Instant::now() < deadline, "no {times} x {what:?} in {:?}", self.all());
            thread::sleep(Duration::from_millis(2));
        }
    }
}

fn words(event: &WorkerEvent) -> String {
    match &event.what {
        WorkerEventKind::Connected => "connected".into(),
        WorkerEventKind::Disconnected(error) => format!("disconnected: {error}"),
        WorkerEventKind::ServerReplaced => "replaced".into(),
        WorkerEventKind::Refused { command, reply, .. } => format!("refused {command}: {reply}"),
        WorkerEventKind::ShortTimeToRun { job, ttr } => format!("short {job} {ttr:?}"),
        WorkerEventKind::LateHeartbeat { job, .. } => format!("late {job}"),
        WorkerEventKind::Started(job) => format!("started {job}"),
        WorkerEventKind::Failed { job, error } => format!("failed {job}: {error}"),
        WorkerEventKind::Poisoned { job, why } => format!("poisoned {job}: {why}"),
        WorkerEventKind::DeadLettered { job, reason, attempts } => {
            format!("dead {job}: {reason} ({attempts})")
        }
        WorkerEventKind::Settled { job, fate } => format!("{} {job}", fate.word()),
        other => format!("{other:?}"),
    }
}

impl WorkerFace for Async {
    fn check(servers: &str) -> Result<()> {
        runtime().block_on(async { Worker::connect(servers).await?.check().await })
    }

    fn serve(options: WorkerOptions, tubes: &[&str], handler: impl Handler) -> Running {
        let mut worker = Worker::new(options).unwrap();
        let handle = worker.handle();
        let handler = Arc::new(handler);
        for tube in tubes {
            let handler = handler.clone();
            let run = move |job: JobContext| {
                let handler = handler.clone();
                async move {
                    let seen = SeenAsync(job, Handle::current());
                    match tokio::task::spawn_blocking(move || handler(&seen)).await {
                        Ok(outcome) => outcome,
                        Err(error) => std::panic::resume_unwind(error.into_panic()),
                    }
                }
            };
            worker.register(*tube, run).unwrap();
        }
        let thread = thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
            runtime.unwrap().block_on(worker.run())
        });
        Running { handle, events: Events::default(), thread }
    }
}

/// What a handler sees without waiting.
macro_rules! looks {
    ($self:ident: $job:expr) => {
        fn id(&$self) -> JobId {
            $job.id
        }

        fn body(&$self) -> Vec<u8> {
            $job.body.to_vec()
        }

        fn deferrals(&$self) -> u64 {
            $job.deferrals()
        }

        fn is_lost(&$self) -> bool {
            $job.is_lost()
        }

        fn is_stopping(&$self) -> bool {
            $job.is_stopping()
        }

        fn time_left(&$self) -> Option<Duration> {
            $job.time_left()
        }

        fn tube(&$self) -> TubeName {
            $job.tube()
        }
    };
}

struct SeenAsync(JobContext, Handle);

impl Seen for SeenAsync {
    looks!(self: self.0);

    fn wait_lost(&self) -> Option<LostReason> {
        let lost = async { tokio::time::timeout(PATIENCE, self.0.lost()).await };
        self.1.block_on(lost).ok()
    }

    fn wait_stopping(&self) -> bool {
        let stopping = async { tokio::time::timeout(PATIENCE, self.0.stopping()).await };
        self.1.block_on(stopping).is_ok()
    }

    fn touch(&self) -> Result<()> {
        self.1.block_on(self.0.touch())
    }

    fn stats(&self) -> Result<JobStats> {
        self.1.block_on(self.0.stats())
    }
}

impl WorkerFace for Blocking {
    fn check(servers: &str) -> Result<()> {
        blocking::Worker::connect(servers)?.check()
    }

    fn serve(options: WorkerOptions, tubes: &[&str], handler: impl Handler) -> Running {
        let mut worker = blocking::Worker::new(options).unwrap();
        let handle = worker.handle();
        let handler = Arc::new(handler);
        for tube in tubes {
            let handler = handler.clone();
            worker.register(*tube, move |job| handler(job)).unwrap();
        }
        let thread = thread::spawn(move || worker.run());
        Running { handle, events: Events::default(), thread }
    }
}

impl Seen for blocking::JobContext {
    looks!(self: self);

    fn wait_lost(&self) -> Option<LostReason> {
        Self::wait_lost(self, PATIENCE)
    }

    fn wait_stopping(&self) -> bool {
        Self::wait_stopping(self, PATIENCE)
    }

    fn touch(&self) -> Result<()> {
        Self::touch(self)
    }

    fn stats(&self) -> Result<JobStats> {
        Self::stats(self)
    }
}

/// A gate where a handler waits until the test opens it.
pub(super) struct Door {
    opened: Mutex<mpsc::Receiver<()>>,
}

impl Door {
    pub(super) fn new() -> (mpsc::Sender<()>, Door) {
        let (open, opened) = mpsc::channel();
        (open, Door { opened: Mutex::new(opened) })
    }

    /// Waits for one opening, or for the end of the test.
    pub(super) fn pass(&self) {
        let _ = self.opened.lock().unwrap().recv_timeout(2 * PATIENCE);
    }
}
