//! tower services as handlers.

use std::{
    convert::Infallible,
    future::{Ready, pending, ready},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use adf_queue_client::{
    Client, ConnectOptions, IntoOutcome, JobContext, Outcome, RetryPolicy, Worker, WorkerEventKind,
    WorkerHandle, WorkerOptions, WorkerReport,
};
use fixtures::adf_queue::Server;
use tokio::{sync::Semaphore, task::JoinHandle, time::timeout};
use tower::{Service, ServiceBuilder, limit::ConcurrencyLimit, service_fn};

use crate::support::PATIENCE;

/// A worker that serves `/q` by a service, in its own task.
struct Running {
    handle: WorkerHandle,
    told: Arc<Mutex<Vec<String>>>,
    task: JoinHandle<WorkerReport>,
}

impl Running {
    fn start<S>(options: WorkerOptions, service: S) -> Self
    where
        S: Service<JobContext> + Send + 'static,
        S::Response: IntoOutcome + 'static,
        S::Error: std::fmt::Display + Send + 'static,
        S::Future: Send + 'static,
    {
        let told = Arc::<Mutex<Vec<String>>>::default();
        let tell = told.clone();
        let mut worker = Worker::new(options.on_event(move |event| {
            if let WorkerEventKind::Failed { error, .. } = &event.what {
                tell.lock().unwrap().push(error.clone());
            }
        }))
        .unwrap();
        worker.register_service("/q", service).unwrap();
        Running { handle: worker.handle(), told, task: tokio::spawn(worker.run()) }
    }

    async fn until(&self, what: &str, is_so: impl Fn(&WorkerHandle) -> bool) {
        let wait = async {
            while !is_so(&self.handle) {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        timeout(PATIENCE, wait).await.unwrap_or_else(|_| panic!("{what}: {:?}", self.handle));
    }

    async fn end(self) -> (WorkerReport, Vec<String>) {
        let report = timeout(PATIENCE, self.task).await.expect("it does not end").unwrap();
        (report, self.told.lock().unwrap().clone())
    }

    async fn stop(self) -> (WorkerReport, Vec<String>) {
        self.handle.stop();
        self.end().await
    }
}

/// A server whose queue has these messages.
async fn filled<const N: usize>(bodies: [&'static str; N]) -> (Server, WorkerOptions) {
    let server = Server::builder().queue("/q").start().unwrap();
    let client = Client::connect(server.address()).await.unwrap();
    for body in bodies {
        client.rpush("/q", body).await.unwrap();
    }
    let retry = RetryPolicy::default().backoff(Duration::from_millis(5), Duration::from_millis(50));
    let options = server.address().parse::<ConnectOptions>().unwrap().retry(retry);
    (server, WorkerOptions::from(options))
}

fn left(server: &Server) -> Vec<String> {
    let text = |body: &Vec<u8>| String::from_utf8_lossy(body).into_owned();
    server.messages("/q").iter().map(|message| text(&message.body)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_waits_for_the_service_and_is_run_once_also_when_its_connection_is_lost_meanwhile()
 {
    let (server, options) = filled(["x"]).await;
    let (gate, calls) = (Arc::new(Semaphore::new(0)), Arc::<AtomicUsize>::default());
    let counted = calls.clone();
    let service = service_fn(move |_: JobContext| {
        counted.fetch_add(1, Ordering::SeqCst);
        ready(Ok::<(), Infallible>(()))
    });
    let worker = Running::start(options, ConcurrencyLimit::with_semaphore(service, gate.clone()));
    worker.until("the message", |handle| handle.held() == 1).await;
    server.reset_connections();
    // The lost one stops waiting, and the message is delivered again.
    worker.until("the loss", |handle| handle.report().lost == 1).await;
    worker.until("the message again", |handle| handle.held() == 1).await;
    assert_eq!(calls.load(Ordering::SeqCst), 0);
    gate.add_permits(1);
    worker.until("the end", |handle| handle.report().deleted == 1).await;
    let (report, told) = worker.stop().await;
    assert_eq!((report.deleted, report.lost, report.total(), told.len()), (1, 1, 2, 0), "{report}");
    assert_eq!(calls.load(Ordering::SeqCst), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_service_and_its_layers_settle_the_message() {
    let (server, options) = filled(["slow", "bad", "left", "panic", "fine"]).await;
    let seen = Arc::<AtomicUsize>::default();
    let count = seen.clone();
    let service = ServiceBuilder::new().timeout(Duration::from_millis(50)).service(service_fn(
        move |job: JobContext| {
            // Each fails once.
            let is_first = count.fetch_add(1, Ordering::SeqCst) < 5 && !job.is_redelivered();
            async move {
                match &**job.body() {
                    b"slow" if is_first => pending().await,
                    b"bad" if is_first => Err(std::io::Error::other("no such picture")),
                    b"left" if is_first => Ok(Outcome::ReturnLeft),
                    b"panic" if is_first => panic!("a service of a test"),
                    _ => Ok(Outcome::Delete),
                }
            }
        },
    ));
    let (report, mut told) = Running::start(options.until_empty(), service).end().await;
    assert_eq!((report.deleted, report.returned, left(&server).len()), (5, 4, 0), "{report}");
    told.sort();
    let panicked = "the handler panicked: a service of a test";
    assert_eq!(told, ["no such picture", "request timed out", panicked]);
}

/// Fails to become ready after this number of calls.
struct Breaks(usize);

impl Service<JobContext> for Breaks {
    type Response = ();
    type Error = &'static str;
    type Future = Ready<Result<(), &'static str>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), &'static str>> {
        Poll::Ready(if self.0 == 0 { Err("the database is gone") } else { Ok(()) })
    }

    fn call(&mut self, _: JobContext) -> Self::Future {
        self.0 -= 1;
        ready(Ok(()))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_service_stops_the_worker_and_its_messages_go_back_to_where_they_were() {
    let (server, options) = filled(["1", "2", "3", "4", "5"]).await;
    let (report, told) = Running::start(options, Breaks(2)).end().await;
    assert_eq!((report.deleted, report.dead_lettered), (2, 0), "{report}");
    assert_eq!(told, ["the service is no longer ready: the database is gone"]);
    assert_eq!(left(&server), ["3", "4", "5"]);
}
