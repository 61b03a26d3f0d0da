//! Gearman.

use fixtures::gearmand::Server;
use gearman_client::{
    Client, ConnectOptions, Failure, JobContext, JobLimit, SubmitOptions, Worker, WorkerOptions,
    blocking,
};
use queue_core::lock;
use queue_core::proof::runtime;
use tracing::Instrument;

use super::{
    envelope::{ALL, Envelope},
    telemetry::{Meters, ONE, Told, order, work},
};

const TOLD: Told = Told {
    system: "gearman",
    send: "SUBMIT_JOB_BG",
    destination: "mail",
    runs: 2,
    error: "exception",
    receive: "GRAB_JOB_ALL",
    settle: &[("WORK_COMPLETE", 1), ("WORK_EXCEPTION", 1)],
};

fn options(server: &Server, meters: &Meters) -> ConnectOptions {
    let options: ConnectOptions = server.address().parse().unwrap();
    options.on_measurement(meters.observer())
}

fn worker_options(server: &Server, meters: &Meters, envelope: Envelope) -> WorkerOptions {
    let options: WorkerOptions = server.address().parse().unwrap();
    options
        .limit(JobLimit::new(2))
        .log_errors(true)
        .on_span(move |span, job| envelope.adopt(span, &job.workload))
        .on_measurement(meters.observer())
}

fn handle(envelope: Envelope, workload: &[u8]) -> Result<String, Failure> {
    work(&envelope.payload(workload), true).map_err(Failure::exception)?;
    Ok("sent".to_owned())
}

#[test]
fn a_trace_passes_through_an_async_client_and_worker() {
    let _one = lock(&ONE);
    for envelope in ALL {
        let (server, meters, order) = (Server::start().unwrap(), Meters::new(), order());
        runtime().block_on(async {
            let client = Client::connect(options(&server, &meters)).await.unwrap();
            let sending = async {
                for payload in ["joe@example.com", "fail"] {
                    let body = envelope.seal(payload);
                    let submit = client.submit_background("mail", body, SubmitOptions::default());
                    submit.await.unwrap();
                }
            };
            sending.instrument(order.clone()).await;
            let options = worker_options(&server, &meters, envelope);
            let mut worker = Worker::connect(options).await.unwrap();
            let handler = move |job: JobContext| async move { handle(envelope, &job.workload) };
            worker.register("mail", handler).unwrap();
            let report = worker.run().await;
            assert_eq!((report.completed, report.failed), (1, 1), "{report:?}");
        });
        TOLD.check_trace(order);
        meters.check(&TOLD, "GRAB_JOB");
    }
}

#[test]
fn a_trace_passes_through_a_blocking_client_and_worker() {
    let _one = lock(&ONE);
    for envelope in ALL {
        let (server, meters, order) = (Server::start().unwrap(), Meters::new(), order());
        let mut client = blocking::Client::connect(options(&server, &meters)).unwrap();
        order.in_scope(|| {
            for payload in ["joe@example.com", "fail"] {
                let body = envelope.seal(payload);
                client.submit_background("mail", body, SubmitOptions::default()).unwrap();
            }
        });
        let options = worker_options(&server, &meters, envelope);
        let mut worker = blocking::Worker::connect(options).unwrap();
        worker.register("mail", move |job| handle(envelope, &job.workload)).unwrap();
        let report = worker.run().unwrap();
        assert_eq!((report.completed, report.failed), (1, 1), "{report:?}");
        TOLD.check_trace(order);
        meters.check(&TOLD, "GRAB_JOB");
    }
}
