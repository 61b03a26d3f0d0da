//! beanstalkd.

use std::{sync::atomic::Ordering, time::Duration};

use beanstalk_client::{
    Client, Decision, IntoOutcome, JobContext, JobId, Outcome, PutOptions, Retries, WorkerOptions,
};
use fixtures::beanstalkd::{JobState, Server};
use tower::{ServiceBuilder, service_fn};

use super::{Breaks, gate, gated, until, work};

running!(beanstalk_client, "default"; IntoOutcome, (); running, lost, finished);

async fn put(client: &mut Client, body: &str, ttr: u64) -> JobId {
    let options = PutOptions::default().priority(77).ttr(Duration::from_secs(ttr));
    client.put(body, options).await.unwrap().id()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_waits_is_run_once_also_when_its_connection_is_lost_meanwhile() {
    let server = Server::start().unwrap();
    put(&mut Client::connect(server.address()).await.unwrap(), "x", 60).await;
    let options = WorkerOptions::new(server.address()).unwrap();
    let report = Running::run_once_after_a_loss(options, || server.close_connections()).await;
    assert_eq!(report.total(), 2, "{report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_waits_for_the_service_under_its_heartbeat_and_is_run_once() {
    // Time to run passes when the test says so: only touches keep the job.
    let server = Server::builder().virtual_clock().start().unwrap();
    let mut client = Client::connect(server.address()).await.unwrap();
    let job = put(&mut client, "x", 3).await;
    let (gate, calls) = gate();
    let options = WorkerOptions::new(server.address()).unwrap();
    let running = Running::start(options, gated(&gate, &calls, ()));
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
            let decision = match &*job.body {
                b"bury" => Outcome::bury().because("it is too large"),
                _ => Decision::from(Outcome::Delete),
            };
            work(&job.body, decision).await
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
    let (gate, calls) = gate();
    let options = WorkerOptions::new(server.address()).unwrap();
    let running = Running::start(options, gated(&gate, &calls, ()));
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

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_service_stops_the_worker_and_its_jobs_are_ready_again() {
    for (slots, prefetch) in [(1, 1), (4, 1), (2, 8)] {
        let server = Server::start().unwrap();
        let mut client = Client::connect(server.address()).await.unwrap();
        for _ in 0..20 {
            put(&mut client, "x", 60).await;
        }
        let options = WorkerOptions::new(server.address()).unwrap().slots(slots).prefetch(prefetch);
        let (report, told) = Running::start(options, Breaks((), 5)).end().await;
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
    let (gate, calls) = gate();
    let options = WorkerOptions::new(server.address()).unwrap().grace(Duration::from_millis(50));
    let running = Running::start(options, gated(&gate, &calls, ()));
    until("a reservation", async || running.handle.running() == 1).await;
    let (report, _) = running.stop().await;
    assert_eq!((report.abandoned, report.total()), (1, 1));
    until("the job", async || client.stats().await.unwrap().current_jobs_ready == 1).await;
    assert_eq!(calls.load(Ordering::SeqCst), 0);
}
