//! Jobs taken by hand and events, as streams: what a dropped wait leaves behind, and how they end.

use std::collections::HashSet;

use futures_util::StreamExt;
use gearman_client::{Client, Worker, WorkerEvent, WorkerEventKind, WorkerOptions};
use queue_core::proof::drop_after_turns;

use super::{
    support::{PATIENCE, each_server_async, options, worker_of},
    worker::until_empty_beside_an_absent_server,
};

each_server_async!(
    a_stream_of_jobs_dropped_at_any_turn_loses_no_job,
    a_stream_of_jobs_ends_when_its_worker_is_stopped,
    a_stream_of_jobs_until_empty_ends,
    the_events_of_a_worker_are_a_stream_that_ends_with_it,
);

/// As many turns as a job takes to arrive, and more.
const TURNS: usize = 24;

async fn a_stream_of_jobs_dropped_at_any_turn_loses_no_job(address: String) {
    let client = Client::connect(address.as_str()).await.unwrap();
    let mut worker = worker_of("f", address.as_str()).await;
    let mut ran = HashSet::new();
    for turns in 0..TURNS {
        for is_stream_kept in [true, false] {
            let workload = format!("{turns} {is_stream_kept}");
            client.submit_background("f", &workload, options()).await.unwrap();
            let mut jobs = worker.jobs();
            let first = drop_after_turns(turns, jobs.next()).await;
            let job = match first {
                Some(job) => job.unwrap(),
                None if is_stream_kept => jobs.next().await.unwrap(),
                None => {
                    drop(jobs);
                    worker.next_job().await
                }
            };
            assert_eq!(job.workload, workload);
            job.complete("").await.unwrap();
            assert!(ran.insert(workload));
        }
    }
    worker.echo_barrier().await.unwrap();
    let report = worker.stop().await;
    assert_eq!((report.completed, report.failed, report.abandoned), (2 * TURNS as u64, 0, 0));
}

/// A job that arrived but was not taken goes back to the server, for the next worker.
async fn a_stream_of_jobs_ends_when_its_worker_is_stopped(address: String) {
    let client = Client::connect(address.as_str()).await.unwrap();
    let mut worker = worker_of("f", address.as_str()).await;
    let handle = worker.handle();
    let waiting = tokio::spawn(async move {
        let mut jobs = worker.jobs();
        let mut taken = 0;
        while let Some(job) = jobs.next().await {
            job.complete("").await.unwrap();
            taken += 1;
        }
        assert!(jobs.next().await.is_none());
        drop(jobs);
        (taken, worker.stop().await)
    });
    for _ in 0..3 {
        let _ = client.run("f", "", options()).await.unwrap();
    }
    handle.stop();
    let (taken, report) = waiting.await.unwrap();
    assert_eq!((taken, report.completed), (3, 3));

    client.submit_background("f", "left", options()).await.unwrap();
    let mut stopped = worker_of("f", address.as_str()).await;
    stopped.handle().stop();
    assert!(stopped.jobs().next().await.is_none());
    stopped.stop().await;
    let mut next = worker_of("f", address.as_str()).await;
    let job = next.jobs().next().await.unwrap();
    assert_eq!(job.workload, "left");
    job.complete("").await.unwrap();
    next.stop().await;
}

async fn a_stream_of_jobs_until_empty_ends(address: String) {
    let client = Client::connect(&address).await.unwrap();
    for n in 0..3 {
        client.submit_background("last", n.to_string(), options()).await.unwrap();
    }
    let mut worker = worker_of("last", until_empty_beside_an_absent_server(&address)).await;
    let mut jobs = worker.jobs();
    let mut taken = 0;
    while let Some(job) = jobs.next().await {
        taken += 1;
        job.complete("").await.unwrap();
    }
    drop(jobs);
    let report = worker.stop().await;
    assert_eq!((taken, report.completed, report.given_up), (3, 3, 1), "{report}");
}

async fn the_events_of_a_worker_are_a_stream_that_ends_with_it(address: String) {
    let worker_options: WorkerOptions = address.parse().unwrap();
    let (worker_options, events) = worker_options.event_stream(8);
    let mut worker = Worker::connect(worker_options).await.unwrap();
    worker
        .register("fails", |_| async {
            Err::<bytes::Bytes, _>(gearman_client::Failure::exception("on purpose"))
        })
        .unwrap();
    let (handle, running) = (worker.handle(), tokio::spawn(worker.run()));
    let client = Client::connect(address.as_str()).await.unwrap();
    let _ = client.run("fails", "", options()).await.unwrap();
    handle.stop();
    running.await.unwrap();
    let collected = tokio::time::timeout(PATIENCE, events.collect::<Vec<WorkerEvent>>());
    let events = collected.await.expect("the stream does not end");
    let [connected, failed] = &events[..] else { panic!("{events:?}") };
    assert!(matches!(connected.what, WorkerEventKind::Connected));
    assert!(matches!(&failed.what, WorkerEventKind::Failed { error, .. } if error == "on purpose"));
}
