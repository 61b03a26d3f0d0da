//! Adf.QueueServer.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use adf_queue_client::{
    Client, ConnectOptions, IntoOutcome, JobContext, Outcome, RetryPolicy, WorkerOptions,
};
use fixtures::adf_queue::Server;
use tower::{ServiceBuilder, service_fn};

use super::{Breaks, work};

running!(adf_queue_client, "/q"; IntoOutcome, (); held, lost, deleted);

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
    let report = Running::run_once_after_a_loss(options, || server.reset_connections()).await;
    assert_eq!(report.total(), 2, "{report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_service_and_its_layers_settle_the_message() {
    let (server, options) = filled(["slow", "bad", "left", "panic", "fine"]).await;
    let count = AtomicUsize::default();
    let service = ServiceBuilder::new().timeout(Duration::from_millis(50)).service(service_fn(
        move |job: JobContext| {
            // Each fails once.
            let is_first = count.fetch_add(1, Ordering::SeqCst) < 5 && !job.is_redelivered();
            async move {
                match &**job.body() {
                    b"left" if is_first => Ok(Outcome::ReturnLeft),
                    body if is_first => work(body, Outcome::Delete).await,
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

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_service_stops_the_worker_and_its_messages_go_back_to_where_they_were() {
    let (server, options) = filled(["1", "2", "3", "4", "5"]).await;
    let (report, told) = Running::start(options, Breaks((), 2)).end().await;
    assert_eq!((report.deleted, report.dead_lettered), (2, 0), "{report}");
    assert_eq!(told, ["the service is no longer ready: the database is gone"]);
    assert_eq!(left(&server), ["3", "4", "5"]);
}
