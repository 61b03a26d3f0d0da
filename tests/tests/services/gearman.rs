//! Gearman.

use std::time::Duration;

use bytes::Bytes;
use fixtures::{gearmand::Server, proxy::Proxy, real::Gearmand};
use gearman_client::{
    Client, ConnectOptions, Failure, JobContext, Outcome, RetryPolicy, SubmitOptions, WorkerOptions,
};
use tower::{ServiceBuilder, service_fn};

use super::{Breaks, work};

running!(gearman_client, "f", Failure::from; Into<Bytes>, "done"; running, abandoned, completed);

/// Makes a test of each function over the address of a server: in-memory, and real if it is installed.
macro_rules! each_server {
    ($($name:ident),+ $(,)?) => {$(
        mod $name {
            #[tokio::test(flavor = "multi_thread")]
            async fn in_memory() {
                super::$name(super::Server::start().unwrap().address().to_owned()).await;
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn real() {
                if let Some(server) = super::Gearmand::start() {
                    super::$name(server.address().to_owned()).await;
                }
            }
        }
    )+};
}

each_server!(
    a_job_waits_for_the_service_and_is_run_once_also_when_its_connection_is_lost_meanwhile,
    the_service_and_its_layers_end_the_job,
    a_broken_service_stops_the_worker_and_its_jobs_go_back,
);

fn to(address: &str) -> WorkerOptions {
    let retry = RetryPolicy::new(20).backoff(Duration::from_millis(5), Duration::from_millis(50));
    WorkerOptions::from(address.parse::<ConnectOptions>().unwrap().retry(retry))
}

async fn a_job_waits_for_the_service_and_is_run_once_also_when_its_connection_is_lost_meanwhile(
    address: String,
) {
    let proxy = Proxy::start(address.parse().unwrap()).unwrap();
    let client = Client::connect(address.as_str()).await.unwrap();
    client.submit_background("f", "w", SubmitOptions::default()).await.unwrap();
    let options = to(&proxy.address().to_string());
    let report = Running::run_once_after_a_loss(options, || proxy.reset_connections()).await;
    assert_eq!(report.failed, 0, "{report}");
}

async fn the_service_and_its_layers_end_the_job(address: String) {
    let service = service_fn(|job: JobContext| async move { work(&job.workload, "done").await });
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
        assert_eq!(client.run("f", workload, SubmitOptions::default()).await.unwrap(), outcome);
    }
    let (report, _) = worker.stop().await;
    assert_eq!((report.completed, report.failed), (1, 3), "{report}");
}

async fn a_broken_service_stops_the_worker_and_its_jobs_go_back(address: String) {
    let client = Client::connect(address.as_str()).await.unwrap();
    for _ in 0..6 {
        client.submit_background("f", "w", SubmitOptions::default()).await.unwrap();
    }
    let (report, told) = Running::start(to(&address).slots(4), Breaks("done", 2)).end().await;
    assert_eq!((report.completed, report.failed), (2, 0), "{report}");
    assert_eq!(told, ["the service is no longer ready: the database is gone"]);
    let worker = Running::start(to(&address), Breaks("done", usize::MAX));
    worker.until("the rest", |handle| handle.report().completed == 4).await;
    assert_eq!(worker.stop().await.0.completed, 4);
}
