//! The workers of both faces behind a trait, so that a scenario is written once.

use std::{
    collections::BTreeMap,
    sync::{Arc, Condvar, Mutex},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use adf_queue_client::{
    Decision, Error, JobContext, Outcome, QueueName, Worker, WorkerEvent, WorkerEventKind,
    WorkerHandle, WorkerOptions, WorkerReport, blocking,
};

use crate::{
    face::{Async, Blocking, Face, runtime},
    support::{PATIENCE, World},
};

/// The result of a scenario's handler.
pub(crate) type Ended = Result<Decision, String>;

pub(crate) type Handler = Arc<dyn Fn(&JobContext) -> Ended + Send + Sync>;

pub(crate) trait WorkerFace: Face {
    /// Runs a worker in its own thread, with one handler for all queues.
    fn work(options: WorkerOptions, queues: &[QueueName], handler: Handler) -> Running;
    /// Creates a worker that is not run.
    fn connect_worker(options: WorkerOptions) -> Result<(), Error>;
}

impl WorkerFace for Blocking {
    fn work(options: WorkerOptions, queues: &[QueueName], handler: Handler) -> Running {
        let mut worker = blocking::Worker::new(options).unwrap();
        for queue in queues {
            let handler = handler.clone();
            worker.register(queue.clone(), move |job| handler(job)).unwrap();
        }
        Running { handle: worker.handle(), thread: Some(thread::spawn(|| worker.run())) }
    }

    fn connect_worker(options: WorkerOptions) -> Result<(), Error> {
        blocking::Worker::connect(options).map(drop)
    }
}

impl WorkerFace for Async {
    fn work(options: WorkerOptions, queues: &[QueueName], handler: Handler) -> Running {
        let mut worker = Worker::new(options).unwrap();
        for queue in queues {
            let handler = handler.clone();
            worker.register_blocking(queue.clone(), move |job| handler(&job)).unwrap();
        }
        let handle = worker.handle();
        let thread = Some(thread::spawn(|| runtime().block_on(worker.run())));
        Running { handle, thread }
    }

    fn connect_worker(options: WorkerOptions) -> Result<(), Error> {
        runtime().block_on(Worker::connect(options)).map(drop)
    }
}

/// A running worker, until it is stopped.
pub(crate) struct Running {
    pub(crate) handle: WorkerHandle,
    thread: Option<JoinHandle<WorkerReport>>,
}

impl Running {
    /// Stops it, and waits for its end.
    pub(crate) fn stop(self) -> WorkerReport {
        self.handle.stop();
        self.ended()
    }

    /// Waits for its end.
    pub(crate) fn ended(mut self) -> WorkerReport {
        self.thread.take().unwrap().join().unwrap()
    }

    /// The same, for a worker that might go on forever.
    pub(crate) fn ended_in_time(self) -> WorkerReport {
        let start = Instant::now();
        while !self.thread.as_ref().unwrap().is_finished() {
            assert!(start.elapsed() < PATIENCE, "it does not end");
            thread::sleep(Duration::from_millis(5));
        }
        self.ended()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.handle.stop_now();
    }
}

/// A value that threads change and wait for.
pub(crate) struct Watched<T> {
    state: Mutex<T>,
    changed: Condvar,
}

impl<T> Watched<T> {
    pub(crate) fn new(state: T) -> Arc<Self> {
        Arc::new(Watched { state: Mutex::new(state), changed: Condvar::new() })
    }

    pub(crate) fn change<R>(&self, change: impl FnOnce(&mut T) -> R) -> R {
        let outcome = change(&mut self.state.lock().unwrap());
        self.changed.notify_all();
        outcome
    }

    /// Waits until this holds.
    #[track_caller]
    pub(crate) fn wait(&self, mut holds: impl FnMut(&T) -> bool) {
        let state = self.state.lock().unwrap();
        let (_state, waited) =
            self.changed.wait_timeout_while(state, PATIENCE, |state| !holds(state)).unwrap();
        assert!(!waited.timed_out(), "it does not come to that");
    }
}

/// The bodies that handlers received, and how often.
pub(crate) type Bodies = Watched<BTreeMap<String, usize>>;

pub(crate) fn bodies() -> Arc<Bodies> {
    Watched::new(BTreeMap::new())
}

impl Bodies {
    /// Records that a handler received this one; returns how often, including this time.
    pub(crate) fn note(&self, job: &JobContext) -> usize {
        let body = String::from_utf8(job.body().to_vec()).unwrap();
        self.change(|bodies| {
            let times = bodies.entry(body).or_default();
            *times += 1;
            *times
        })
    }

    /// Waits for this many, for as long as they keep arriving: how fast they do depends on the machine.
    #[track_caller]
    pub(crate) fn wait_for(&self, count: usize) {
        let mut known = 0;
        while known < count {
            self.wait(|bodies| bodies.len() > known);
            known = self.change(|bodies| bodies.len());
        }
    }
}

/// What a worker has reported.
pub(crate) type Told = Watched<Vec<String>>;

/// An observer that keeps its events, as one word each.
pub(crate) fn told() -> (Arc<Told>, impl Fn(&WorkerEvent) + Send + Sync + 'static) {
    let told = Watched::new(Vec::new());
    let teller = told.clone();
    let observe = move |event: &WorkerEvent| {
        let word = match &event.what {
            WorkerEventKind::Connected => "connected".to_owned(),
            WorkerEventKind::Disconnected(_) => "disconnected".to_owned(),
            WorkerEventKind::Refused { error, .. } => format!("refused {}", error.kind().name()),
            WorkerEventKind::Started { message, .. } => format!("started {message}"),
            WorkerEventKind::Failed { error, .. } => format!("failed {error}"),
            WorkerEventKind::Poisoned { duplications, .. } => format!("poisoned {duplications}"),
            WorkerEventKind::DeadLettered { reason, attempts, .. } => {
                format!("dead after {attempts}: {reason}")
            }
            WorkerEventKind::Settled { fate, .. } => fate.word().to_owned(),
            other => format!("{other:?}"),
        };
        teller.change(|told| told.push(word));
    };
    (told, observe)
}

impl Told {
    #[track_caller]
    pub(crate) fn wait_for(&self, word: &str) {
        self.wait(|told| told.iter().any(|known| known == word));
    }
}

/// A worker of this world's server.
pub(crate) fn options(world: &World) -> WorkerOptions {
    let options = WorkerOptions::from(world.options());
    options.recheck(Duration::from_millis(200))
}

pub(crate) fn handler<D: Into<Decision>>(
    handler: impl Fn(&JobContext) -> Result<D, String> + Send + Sync + 'static,
) -> Handler {
    Arc::new(move |job| handler(job).map(Into::into))
}

/// A handler that deletes each message.
pub(crate) fn deletes() -> Handler {
    handler(|_| Ok(Outcome::Delete))
}

/// The same, which notes the bodies.
pub(crate) fn notes(bodies: &Arc<Bodies>) -> Handler {
    let seen = bodies.clone();
    handler(move |job| {
        seen.note(job);
        Ok(Outcome::Delete)
    })
}
