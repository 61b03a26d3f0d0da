//! tower services as handlers, in each SDK: readiness, limits, timeouts, and the outcomes of jobs.

use std::{
    convert::Infallible,
    fmt::Debug,
    future::{Ready, pending, ready},
    io,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use tokio::{sync::Semaphore, time::timeout};
use tower::{Service, limit::ConcurrencyLimit, service_fn};

/// How long a test waits for an expected event before it fails.
const PATIENCE: Duration = Duration::from_secs(20);

/// A worker that serves `$queue` by a service, in its own task. Its service responds with `$reply`; its handle counts the
/// jobs that it has as `$held`, and its report those that it has lost as `$lost`, and those done as `$done`.
macro_rules! running {
    ($sdk:ident, $queue:literal $(, $classify:expr)?; $response:path, $reply:expr; $held:ident, $lost:ident, $done:ident) => {
        struct Running {
            handle: $sdk::WorkerHandle,
            told: std::sync::Arc<std::sync::Mutex<Vec<String>>>,
            task: tokio::task::JoinHandle<$sdk::WorkerReport>,
        }

        impl Running {
            fn start<S>(options: $sdk::WorkerOptions, service: S) -> Self
            where
                S: tower::Service<$sdk::JobContext> + Send + 'static,
                S::Response: $response + 'static,
                S::Error: std::fmt::Display + Send + 'static,
                S::Future: Send + 'static,
            {
                let told = std::sync::Arc::<std::sync::Mutex<Vec<String>>>::default();
                let tell = told.clone();
                let mut worker = $sdk::Worker::new(options.on_event(move |event| {
                    if let $sdk::WorkerEventKind::Failed { error, .. } = &event.what {
                        tell.lock().unwrap().push(error.clone());
                    }
                }))
                .unwrap();
                worker.register_service($queue, service $(, $classify)?).unwrap();
                Running { handle: worker.handle(), told, task: tokio::spawn(worker.run()) }
            }

            async fn until(&self, what: &str, is_so: impl Fn(&$sdk::WorkerHandle) -> bool) {
                super::until((what, &self.handle), async || is_so(&self.handle)).await;
            }

            async fn end(self) -> ($sdk::WorkerReport, Vec<String>) {
                let ended = tokio::time::timeout(super::PATIENCE, self.task).await;
                let report = ended.expect("it does not end").unwrap();
                (report, self.told.lock().unwrap().clone())
            }

            async fn stop(self) -> ($sdk::WorkerReport, Vec<String>) {
                self.handle.stop();
                self.end().await
            }

            /// The one job waits for the service and is run once, although `lose` loses its connection meanwhile.
            async fn run_once_after_a_loss(
                options: $sdk::WorkerOptions,
                lose: impl FnOnce(),
            ) -> $sdk::WorkerReport {
                let (gate, calls) = super::gate();
                let worker = Running::start(options, super::gated(&gate, &calls, $reply));
                worker.until("the job", |handle| handle.$held() == 1).await;
                assert_eq!(calls.load(std::sync::atomic::Ordering::SeqCst), 0);
                lose();
                // The lost one stops waiting, and the job is delivered again.
                worker.until("the loss", |handle| handle.report().$lost == 1).await;
                worker.until("the job again", |handle| handle.$held() == 1).await;
                assert_eq!(calls.load(std::sync::atomic::Ordering::SeqCst), 0);
                gate.add_permits(1);
                worker.until("the end", |handle| handle.report().$done == 1).await;
                let (report, told) = worker.stop().await;
                assert_eq!((report.$done, report.$lost, told.len()), (1, 1, 0), "{report}");
                assert_eq!(calls.load(std::sync::atomic::Ordering::SeqCst), 1);
                report
            }
        }
    };
}

mod adf_queue;
mod beanstalk;
mod gearman;

async fn until(what: impl Debug, mut is_so: impl AsyncFnMut() -> bool) {
    let wait = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    timeout(PATIENCE, wait).await.unwrap_or_else(|_| panic!("{what:?} does not come"));
}

/// A closed gate, and the calls behind it.
fn gate() -> (Arc<Semaphore>, Arc<AtomicUsize>) {
    (Arc::new(Semaphore::new(0)), Arc::default())
}

/// A service that counts its calls, behind a gate that the test opens.
fn gated<J: 'static, R: Clone + Send + 'static>(
    gate: &Arc<Semaphore>,
    calls: &Arc<AtomicUsize>,
    reply: R,
) -> impl Service<J, Response = R, Error = Infallible, Future: Send> + Send + use<J, R> {
    let calls = calls.clone();
    let service = service_fn(move |_: J| {
        calls.fetch_add(1, Ordering::SeqCst);
        ready(Ok(reply.clone()))
    });
    ConcurrencyLimit::with_semaphore(service, gate.clone())
}

/// Does what the body of a job says.
async fn work<R>(body: &[u8], reply: R) -> io::Result<R> {
    match body {
        b"slow" => pending().await,
        b"bad" => Err(io::Error::other("no such picture")),
        b"panic" => panic!("a service of a test"),
        _ => Ok(reply),
    }
}

/// Responds so; fails to become ready after this number of calls.
struct Breaks<R>(R, usize);

impl<J, R: Clone> Service<J> for Breaks<R> {
    type Response = R;
    type Error = &'static str;
    type Future = Ready<Result<R, &'static str>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), &'static str>> {
        Poll::Ready(if self.1 == 0 { Err("the database is gone") } else { Ok(()) })
    }

    fn call(&mut self, _: J) -> Self::Future {
        self.1 -= 1;
        ready(Ok(self.0.clone()))
    }
}
