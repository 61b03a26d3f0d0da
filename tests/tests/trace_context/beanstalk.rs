//! beanstalkd.

use beanstalk_client::{
    JobContext, Producer, ProducerOptions, PutOptions, Retries, Worker, WorkerOptions, blocking,
};
use fixtures::beanstalkd::Server;
use queue_core::lock;
use queue_core::proof::runtime;
use tracing::Instrument;

use super::{
    envelope::{ALL, Envelope},
    passes::passes,
    telemetry::{Meters, ONE, Told, order, work},
};

const TOLD: Told = Told {
    system: "beanstalkd",
    send: "put",
    destination: "mail",
    runs: 2,
    error: "error",
    receive: "reserve-with-timeout",
    settle: &[("delete", 1), ("bury", 1)],
};

fn worker_options(server: &Server, meters: &Meters, envelope: Envelope) -> WorkerOptions {
    let options = WorkerOptions::new(server.address()).unwrap();
    options
        .until_empty()
        .retries(Retries::default().releases(0))
        .log_errors(true)
        .on_span(move |span, job| envelope.adopt(span, &job.body))
        .on_measurement(meters.observer())
}

passes!(
    Server::start().unwrap(),
    Producer, ProducerOptions: |producer, body| producer.put("mail", body, PutOptions::default()),
    "mail": &blocking::JobContext, [], |job, envelope| work(&envelope.payload(&job.body), true),
    |report| (report.finished, report.buried) == (1, 1), "reserve-with-timeout"
);
