//! tower services as handlers: readiness, limits, timeouts, and the outcomes of jobs.

use std::{
    future::{Ready, pending, ready},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use beanstalk_client::{
    Client, Decision, JobContext, JobId, Outcome, PutOptions, Retries, Worker, WorkerEventKind,
    WorkerHandle, WorkerOptions, WorkerReport,
};
use fixtures::beanstalkd::{JobState, Server};
use tokio::{sync::Semaphore, task::JoinHandle, time::timeout};
use tower::{Service, ServiceBuilder, limit::ConcurrencyLimit, service_fn};

use crate::support::place::PATIENCE;

/// A worker with a service, in its own task.
struct Running {
    handle: WorkerHandle,
    told: Arc<Mutex<Vec<String>>>,
    task: JoinHandle<WorkerReport>,
}

impl Running {
    fn start<S>(options: WorkerOptions, service: S) -> Self
    where
        S: Service<JobContext> + Send + 'static,
        S::Response: beanstalk_client::IntoOutcome + 'static,
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
        let handle = worker.handle();
        worker.register_service("default", service).unwrap();
        Running { handle, told, task: tokio::spawn(worker.run()) }
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

async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let wait = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    timeout(PATIENCE, wait).await.unwrap_or_else(|_| panic!("{what} does not come"));
}

async fn put(client: &mut Client, body: &str, ttr: u64) -> JobId {
    let options = PutOptions::default().priority(77).ttr(Duration::from_secs(ttr));
    client.put(body, options).await.unwrap().id()
}

/// A service that counts its calls, behind a limit that the test opens.
fn gated(gate: &Arc<Semaphore>, calls: &Arc<AtomicUsize>) -> impl Serves {
    let calls = calls.clone();
    let service = service_fn(move |_: JobContext| {
        calls.fetch_add(1, Ordering::SeqCst);
        ready(Ok::<(), std::io::Error>(()))
    });
    ConcurrencyLimit::with_semaphore(service, gate.clone())
}

/// The service of these tests.
trait Serves:
    Service<JobContext, Response = (), Error = std::io::Error, Future: Send> + Send + 'static
{
}

impl<S> Serves for S where
    S: Service<JobContext, Response = (), Error = std::io::Error, Future: Send> + Send + 'static
{
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_waits_for_the_service_under_its_heartbeat_and_is_run_once() {
    // Time to run passes when the test says so: only touches keep the job.
    let server = Server::builder().virtual_clock().start().unwrap();
    let mut client = Client::connect(server.address()).await.unwrap();
    let job = put(&mut client, "x", 3).await;
    let (gate, calls) = (Arc::new(Semaphore::new(0)), Arc::<AtomicUsize>::default());
    let options = WorkerOptions::new(server.address()).unwrap();
    let running = Running::start(options, gated(&gate, &calls));
    for touches in 1..=3 {
        until("a touch", async || client.stats().await.unwrap().cmd_touch >= touches).await;
        server.advance(Duration::from_secs(2));
    }
    let stats = client.stats_job(job).await.unwrap().unwrap();
    assert_eq!((stats.state, stats.timeouts), (beanstalk_client::JobState::Reserved, 0));
    assert_eq!(calls.load(Ordering::SeqCst), 0);
    gate.add_permits(1);
    until("the end", async || running.handle.report().finished == 1).await;
    assert_eq!((calls.load(Ordering::SeqCst), server.jobs().len()), (1, 0));
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_of_the_service_and_of_its_layers_are_retries_and_responses_decide() {
    let server = Server::start().unwrap();
    let mut client = Client::connect(server.address()).await.unwrap();
    for body in ["slow", "bad", "bury", "fine", "panic"] {
        put(&mut client, body, 60).await;
    }
    let service = ServiceBuilder::new().timeout(Duration::from_millis(50)).service(service_fn(
        |job: JobContext| async move {
            match &*job.body {
                b"slow" => pending().await,
                b"bad" => Err(std::io::Error::other("no such picture")),
                b"bury" => Ok(Outcome::bury().because("it is too large")),
                b"panic" => panic!("a service of a test"),
                _ => Ok(Decision::from(Outcome::Delete)),
            }
        },
    ));
    let options = WorkerOptions::new(server.address())
        .unwrap()
        .retries(Retries::default().backoff(Duration::from_secs(60), 2, Duration::from_secs(600)))
        .until_empty();
    let (report, mut told) = Running::start(options, service).end().await;
    assert_eq!((report.finished, report.released, report.buried), (1, 3, 1));
    told.sort();
    let panicked = "the handler panicked: a service of a test";
    assert_eq!(told, ["it is too large", "no such picture", "request timed out", panicked]);
    let mut states: Vec<_> =
        server.jobs().iter().map(|job| (job.body.clone(), job.state)).collect();
    states.sort_by(|one, other| one.0.cmp(&other.0));
    let expected = [
        (b"bad".to_vec(), JobState::Delayed),
        (b"bury".to_vec(), JobState::Buried),
        (b"panic".to_vec(), JobState::Delayed),
        (b"slow".to_vec(), JobState::Delayed),
    ];
    assert_eq!(states, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_is_lost_while_it_waits_is_not_handed_over() {
    let server = Server::builder().virtual_clock().start().unwrap();
    let mut client = Client::connect(server.address()).await.unwrap();
    let job = put(&mut client, "x", 3).await;
    let (gate, calls) = (Arc::new(Semaphore::new(0)), Arc::<AtomicUsize>::default());
    let options = WorkerOptions::new(server.address()).unwrap();
    let running = Running::start(options, gated(&gate, &calls));
    until("a reservation", async || running.handle.running() == 1).await;
    // Its time is over on the server, and another worker has it by the time it is touched.
    server.advance(Duration::from_secs(60));
    let other = client.reserve_job(job).await.unwrap().unwrap();
    until("the loss", async || running.handle.report().lost == 1).await;
    client.delete(&other).await.unwrap();
    gate.add_permits(1);
    put(&mut client, "y", 60).await;
    until("the next job", async || running.handle.report().finished == 1).await;
    assert_eq!(calls.load(Ordering::SeqCst), 1);
    let (report, _) = running.stop().await;
    assert_eq!((report.lost, report.total()), (1, 2));
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
async fn a_broken_service_stops_the_worker_and_its_jobs_are_ready_again() {
    for (slots, prefetch) in [(1, 1), (4, 1), (2, 8)] {
        let server = Server::start().unwrap();
        let mut client = Client::connect(server.address()).await.unwrap();
        for _ in 0..20 {
            put(&mut client, "x", 60).await;
        }
        let options = WorkerOptions::new(server.address()).unwrap().slots(slots).prefetch(prefetch);
        let (report, told) = Running::start(options, Breaks(5)).end().await;
        assert_eq!((report.finished, report.buried, report.lost), (5, 0, 0), "{report}");
        assert_eq!(told, ["the service is no longer ready: the database is gone"]);
        until("the end of its connections", async || {
            client.stats().await.unwrap().current_connections == 1
        })
        .await;
        let jobs = server.jobs();
        let is_as_it_was =
            |job: &fixtures::beanstalkd::Job| job.state == JobState::Ready && job.priority == 77;
        assert!(jobs.len() == 15 && jobs.iter().all(is_as_it_was), "{jobs:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_the_grace_returns_waiting_jobs() {
    let server = Server::start().unwrap();
    let mut client = Client::connect(server.address()).await.unwrap();
    put(&mut client, "x", 60).await;
    let (gate, calls) = (Arc::new(Semaphore::new(0)), Arc::<AtomicUsize>::default());
    let options = WorkerOptions::new(server.address()).unwrap().grace(Duration::from_millis(50));
    let running = Running::start(options, gated(&gate, &calls));
    until("a reservation", async || running.handle.running() == 1).await;
    let (report, _) = running.stop().await;
    assert_eq!((report.abandoned, report.total()), (1, 1));
    until("the job", async || client.stats().await.unwrap().current_jobs_ready == 1).await;
    assert_eq!(calls.load(Ordering::SeqCst), 0);
}
