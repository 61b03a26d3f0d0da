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

use fixtures::proxy::Proxy;
use gearman_client::{
    Client, ConnectOptions, Failure, JobContext, Outcome, RetryPolicy, Worker, WorkerEventKind,
    WorkerHandle, WorkerOptions, WorkerReport,
};
use tokio::{sync::Semaphore, task::JoinHandle, time::timeout};
use tower::{Service, ServiceBuilder, limit::ConcurrencyLimit, service_fn};

use super::support::{PATIENCE, each_server_async, options};

each_server_async!(
    a_job_waits_for_the_service_and_is_run_once_also_when_its_connection_is_lost_meanwhile,
    the_service_and_its_layers_end_the_job,
    a_broken_service_stops_the_worker_and_its_jobs_go_back,
);

/// A worker that serves `f` by a service, in its own task.
struct Running {
    handle: WorkerHandle,
    task: JoinHandle<WorkerReport>,
}

impl Running {
    fn start<S>(options: WorkerOptions, service: S) -> Self
    where
        S: Service<JobContext, Response = &'static str> + Send + 'static,
        S::Error: std::fmt::Display + Send + 'static,
        S::Future: Send + 'static,
    {
        let mut worker = Worker::new(options).unwrap();
        worker.register_service("f", service, Failure::from).unwrap();
        Running { handle: worker.handle(), task: tokio::spawn(worker.run()) }
    }

    async fn until(&self, what: &str, is_so: impl Fn(&WorkerHandle) -> bool) {
        let wait = async {
            while !is_so(&self.handle) {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        timeout(PATIENCE, wait).await.unwrap_or_else(|_| panic!("{what}: {:?}", self.handle));
    }

    async fn end(self) -> WorkerReport {
        timeout(PATIENCE, self.task).await.expect("it does not end").unwrap()
    }

    async fn stop(self) -> WorkerReport {
        self.handle.stop();
        self.end().await
    }
}

fn to(address: &str) -> WorkerOptions {
    let retry = RetryPolicy::new(20).backoff(Duration::from_millis(5), Duration::from_millis(50));
    WorkerOptions::from(address.parse::<ConnectOptions>().unwrap().retry(retry))
}

async fn a_job_waits_for_the_service_and_is_run_once_also_when_its_connection_is_lost_meanwhile(
    address: String,
) {
    let proxy = Proxy::start(address.parse().unwrap()).unwrap();
    let (gate, calls) = (Arc::new(Semaphore::new(0)), Arc::<AtomicUsize>::default());
    let counted = calls.clone();
    let service = service_fn(move |_: JobContext| {
        counted.fetch_add(1, Ordering::SeqCst);
        ready(Ok::<_, Infallible>("done"))
    });
    let service = ConcurrencyLimit::with_semaphore(service, gate.clone());
    let worker = Running::start(to(&proxy.address().to_string()), service);
    let client = Client::connect(address.as_str()).await.unwrap();
    client.submit_background("f", "w", options()).await.unwrap();
    worker.until("the job", |handle| handle.running() == 1).await;
    assert_eq!(calls.load(Ordering::SeqCst), 0);
    proxy.reset_connections();
    // The lost one stops waiting, and the job is assigned again.
    worker.until("the loss", |handle| handle.report().abandoned == 1).await;
    worker.until("the job again", |handle| handle.running() == 1).await;
    assert_eq!(calls.load(Ordering::SeqCst), 0);
    gate.add_permits(1);
    worker.until("the end", |handle| handle.report().completed == 1).await;
    let report = worker.stop().await;
    assert_eq!((report.completed, report.abandoned, report.failed), (1, 1, 0), "{report}");
    assert_eq!(calls.load(Ordering::SeqCst), 1);
}

async fn the_service_and_its_layers_end_the_job(address: String) {
    let service = service_fn(|job: JobContext| async move {
        match &*job.workload {
            b"slow" => pending().await,
            b"bad" => Err(std::io::Error::other("no such picture")),
            b"panic" => panic!("a service of a test"),
            _ => Ok("done"),
        }
    });
    let service = ServiceBuilder::new()
        .concurrency_limit(2)
        .timeout(Duration::from_millis(50))
        .service(service);
    let worker = Running::start(to(&address).slots(4), service);
    let client = Client::connect(address.as_str()).await.unwrap();
    for (workload, outcome) in [
        ("fine", Outcome::Complete("done".into())),
        ("slow", Outcome::Exception("request timed out".into())),
        ("bad", Outcome::Exception("no such picture".into())),
        // Not reported to submitters.
        ("panic", Outcome::Fail),
    ] {
        assert_eq!(client.run("f", workload, options()).await.unwrap(), outcome);
    }
    let report = worker.stop().await;
    assert_eq!((report.completed, report.failed), (1, 3), "{report}");
}

/// Fails to become ready after this number of calls.
struct Breaks(usize);

impl Service<JobContext> for Breaks {
    type Response = &'static str;
    type Error = &'static str;
    type Future = Ready<Result<&'static str, &'static str>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), &'static str>> {
        Poll::Ready(if self.0 == 0 { Err("the database is gone") } else { Ok(()) })
    }

    fn call(&mut self, _: JobContext) -> Self::Future {
        self.0 -= 1;
        ready(Ok("done"))
    }
}

async fn a_broken_service_stops_the_worker_and_its_jobs_go_back(address: String) {
    let client = Client::connect(address.as_str()).await.unwrap();
    for _ in 0..6 {
        client.submit_background("f", "w", options()).await.unwrap();
    }
    let told = Arc::<Mutex<Vec<String>>>::default();
    let tell = told.clone();
    let watched = to(&address).slots(4).on_event(move |event| {
        if let WorkerEventKind::Failed { error, .. } = &event.what {
            tell.lock().unwrap().push(error.clone());
        }
    });
    let report = Running::start(watched, Breaks(2)).end().await;
    assert_eq!((report.completed, report.failed), (2, 0), "{report}");
    assert_eq!(*told.lock().unwrap(), ["the service is no longer ready: the database is gone"]);
    let worker = Running::start(to(&address), Breaks(usize::MAX));
    worker.until("the rest", |handle| handle.report().completed == 4).await;
    assert_eq!(worker.stop().await.completed, 4);
}
