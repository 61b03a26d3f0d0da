//! Adf.QueueServer.

use adf_queue_client::{
    JobContext, JobLimit, Producer, ProducerOptions, Worker, WorkerOptions, blocking,
};
use fixtures::adf_queue::Server;
use queue_core::lock;
use queue_core::proof::runtime;
use tracing::Instrument;

use super::{
    envelope::{ALL, Envelope},
    passes::passes,
    telemetry::{Meters, ONE, Told, order, work},
};

/// The server delivers a failed message again.
const TOLD: Told = Told {
    system: "adf_queue",
    send: "rpush",
    destination: "/mail",
    runs: 3,
    error: "error",
    receive: "pull",
    settle: &[("delete", 2), ("rcancel", 1)],
};

fn worker_options(server: &Server, meters: &Meters, envelope: Envelope) -> WorkerOptions {
    let options: WorkerOptions = server.address().parse().unwrap();
    options
        .limit(JobLimit::new(3))
        .log_errors(true)
        .on_span(move |span, message| envelope.adopt(span, message.body()))
        .on_measurement(meters.observer())
}

passes!(
    Server::builder().queue("/mail").start().unwrap(),
    Producer, ProducerOptions: |producer, body| producer.rpush("/mail", body),
    "/mail": &JobContext, [], |job, envelope| {
        work(&envelope.payload(job.body()), !job.is_redelivered())
    },
    |report| (report.deleted, report.returned) == (2, 1), "pull"
);
