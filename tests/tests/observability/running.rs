//! Workers that run in their own threads, of every SDK and in both faces.

use std::{
    fmt::Debug,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

/// A worker, its handle, and the gate for which some of its jobs wait.
pub(crate) struct Running<V, R> {
    pub(crate) view: V,
    pub(crate) gate: Arc<AtomicBool>,
    pub(crate) stop: fn(&V),
    pub(crate) thread: JoinHandle<R>,
}

impl<V: Debug, R> Running<V, R> {
    /// Waits until something can be seen.
    pub(crate) fn until(&self, what: &str, is_so: impl Fn(&V) -> bool) {
        let end = Instant::now() + Duration::from_secs(30);
        while !is_so(&self.view) {
            assert!(Instant::now() < end, "{what}: {:?}", self.view);
            thread::sleep(Duration::from_millis(2));
        }
    }

    pub(crate) fn open_gate(&self) {
        self.gate.store(true, Ordering::SeqCst);
    }

    pub(crate) fn stop(self) -> R {
        (self.stop)(&self.view);
        self.ended()
    }

    pub(crate) fn ended(self) -> R {
        self.thread.join().unwrap()
    }
}

/// What the handler of a job says when it fails: on two lines, and too long.
pub(crate) fn words() -> String {
    format!("disk\nfull \u{1b}[2J {}", "x".repeat(1000))
}

/// Starts workers of one queue in both faces. Their handler is done when `$work` gives an outcome, which depends on the
/// job and on whether the gate is open.
macro_rules! starts {
    ($sdk:ident, $queue:expr, $context:ty, [$($unwrap:tt)*], |$job:ident, $is_open:ident| $work:expr) => {
        type Running = super::running::Running<$sdk::WorkerHandle, $sdk::WorkerReport>;
        type Start = fn($sdk::WorkerOptions) -> Running;

        fn start_async(options: $sdk::WorkerOptions) -> Running {
            let runtime = runtime();
            let inside = runtime.enter();
            let mut worker = $sdk::Worker::new(options).unwrap();
            drop(inside);
            let gate = Arc::new(AtomicBool::new(false));
            let opened = gate.clone();
            let handler = move |$job: $sdk::JobContext| {
                let opened = opened.clone();
                async move {
                    loop {
                        let $is_open = opened.load(Ordering::SeqCst);
                        match $work {
                            Some(outcome) => break outcome,
                            None => tokio::time::sleep(Duration::from_millis(2)).await,
                        }
                    }
                }
            };
            worker.register($queue, handler).unwrap();
            let view = worker.handle();
            let thread = thread::spawn(move || runtime.block_on(worker.run()));
            Running { view, gate, stop: |view| view.stop(), thread }
        }

        fn start_blocking(options: $sdk::WorkerOptions) -> Running {
            let mut worker = $sdk::blocking::Worker::new(options).unwrap();
            let gate = Arc::new(AtomicBool::new(false));
            let opened = gate.clone();
            let handler = move |$job: $context| {
                loop {
                    let $is_open = opened.load(Ordering::SeqCst);
                    match $work {
                        Some(outcome) => break outcome,
                        None => thread::sleep(Duration::from_millis(2)),
                    }
                }
            };
            worker.register($queue, handler).unwrap();
            let view = worker.handle();
            let thread = thread::spawn(move || worker.run()$($unwrap)*);
            Running { view, gate, stop: |view| view.stop(), thread }
        }
    };
}

/// Makes two tests of each function over a [`Start`].
macro_rules! in_both_faces {
    ($($name:ident),+ $(,)?) => {$(
        mod $name {
            #[test]
            fn async_face() {
                super::$name(super::start_async);
            }

            #[test]
            fn blocking_face() {
                super::$name(super::start_blocking);
            }
        }
    )+};
}

pub(crate) use {in_both_faces, starts};
