//! What the handle of an async worker shows once the runtime of the worker is gone.

use std::{future::pending, time::Duration};

use queue_core::proof::runtime;
use tokio::runtime::Runtime;

/// Runs `worker` until it holds a job, and drops its runtime.
fn drop_runtime<T>(
    runtime: Runtime,
    worker: impl Future<Output = T> + Send + 'static,
    holds: impl Fn() -> bool,
) where
    T: Send + 'static,
{
    runtime.spawn(worker);
    runtime.block_on(async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    });
}

#[test]
fn a_beanstalkd_worker_releases_jobs_with_its_runtime() {
    use beanstalk_client::{JobContext, PutOptions, SlotState, Worker, WorkerOptions, blocking};

    let server = fixtures::beanstalkd::Server::start().unwrap();
    let mut client = blocking::Client::connect(server.address()).unwrap();
    let _ = client.put("body", PutOptions::default()).unwrap();
    let mut worker = Worker::new(WorkerOptions::new(server.address()).unwrap()).unwrap();
    worker.register("default", |_: JobContext| pending::<()>()).unwrap();
    let handle = worker.handle();
    let held = handle.clone();
    drop_runtime(runtime(), worker.run(), move || held.running() == 1);
    assert_eq!(handle.running(), 0);
    assert!(handle.slots().iter().all(|slot| slot.state == SlotState::Ended));
    assert_eq!(handle.report().abandoned, 1);
}

#[test]
fn a_gearman_worker_releases_jobs_with_its_runtime() {
    use gearman_client::{ConnectionState, Failure, JobContext, SubmitOptions, Worker, blocking};

    let server = fixtures::gearmand::Server::start().unwrap();
    let mut client = blocking::Client::connect(server.address()).unwrap();
    client.submit_background("f", "body", SubmitOptions::default()).unwrap();
    let runtime = runtime();
    let inside = runtime.enter();
    let mut worker = Worker::new(server.address()).unwrap();
    drop(inside);
    let handler = |_: JobContext| pending::<Result<String, Failure>>();
    worker.register("f", handler).unwrap();
    let handle = worker.handle();
    let held = handle.clone();
    drop_runtime(runtime, worker.run(), move || held.running() == 1);
    assert_eq!(handle.running(), 0);
    assert_eq!(handle.connection_states(), [ConnectionState::Closed]);
    // The end of a handler that was dropped before its connection was on the way.
    let report = handle.report();
    assert_eq!(report.abandoned + report.unknown, 1, "{report:?}");
}

#[test]
fn an_adf_queue_worker_returns_messages_with_its_runtime() {
    use adf_queue_client::{ConnectionState, JobContext, Worker, WorkerOptions, blocking};

    let server = fixtures::adf_queue::Server::builder().queue("/q").start().unwrap();
    let mut client = blocking::Client::connect(server.address()).unwrap();
    client.rpush("/q", "body").unwrap();
    let mut worker = Worker::new(server.address().parse::<WorkerOptions>().unwrap()).unwrap();
    worker.register("/q", |_: JobContext| pending::<()>()).unwrap();
    let handle = worker.handle();
    let held = handle.clone();
    drop_runtime(runtime(), worker.run(), move || held.held() == 1);
    assert_eq!(handle.held(), 0);
    assert!(handle.servers().iter().all(|one| one.state == ConnectionState::Closed));
    assert_eq!(handle.report().total(), 1);
}
