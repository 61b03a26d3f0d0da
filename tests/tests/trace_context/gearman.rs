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
    passes::passes,
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

passes!(
    Server::start().unwrap(),
    Client, ConnectOptions: |client, body| client.submit_background("mail", body, SubmitOptions::default()),
    "mail": &mut blocking::JobContext<'_>, [.unwrap()], |job, envelope| {
        handle(envelope, &job.workload)
    },
    |report| (report.completed, report.failed) == (1, 1), "GRAB_JOB"
);
