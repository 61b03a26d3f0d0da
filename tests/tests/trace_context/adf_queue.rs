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

fn server() -> Server {
    Server::builder().queue("/mail").start().unwrap()
}

fn producer_options(server: &Server, meters: &Meters) -> ProducerOptions {
    let options: ProducerOptions = server.address().parse().unwrap();
    options.on_measurement(meters.observer())
}

fn worker_options(server: &Server, meters: &Meters, envelope: Envelope) -> WorkerOptions {
    let options: WorkerOptions = server.address().parse().unwrap();
    options
        .limit(JobLimit::new(3))
        .log_errors(true)
        .on_span(move |span, message| envelope.adopt(span, message.body()))
        .on_measurement(meters.observer())
}

fn handle(envelope: Envelope, job: &JobContext) -> Result<(), &'static str> {
    work(&envelope.payload(job.body()), !job.is_redelivered())
}

#[test]
fn a_trace_passes_through_an_async_producer_and_worker() {
    let _one = lock(&ONE);
    for envelope in ALL {
        let (server, meters, order) = (server(), Meters::new(), order());
        runtime().block_on(async {
            let producer = Producer::new(producer_options(&server, &meters)).unwrap();
            let sending = async {
                for payload in ["joe@example.com", "fail"] {
                    producer.rpush("/mail", envelope.seal(payload)).await.unwrap();
                }
            };
            sending.instrument(order.clone()).await;
            let options = worker_options(&server, &meters, envelope);
            let mut worker = Worker::new(options).unwrap();
            let handler = move |job: JobContext| async move { handle(envelope, &job) };
            worker.register("/mail", handler).unwrap();
            let report = worker.run().await;
            assert_eq!((report.deleted, report.returned), (2, 1), "{report:?}");
        });
        TOLD.check_trace(order);
        meters.check(&TOLD, "pull");
    }
}

#[test]
fn a_trace_passes_through_a_blocking_producer_and_worker() {
    let _one = lock(&ONE);
    for envelope in ALL {
        let (server, meters, order) = (server(), Meters::new(), order());
        let producer = blocking::Producer::new(producer_options(&server, &meters)).unwrap();
        order.in_scope(|| {
            for payload in ["joe@example.com", "fail"] {
                producer.rpush("/mail", envelope.seal(payload)).unwrap();
            }
        });
        let mut worker = blocking::Worker::new(worker_options(&server, &meters, envelope)).unwrap();
        worker.register("/mail", move |job: &JobContext| handle(envelope, job)).unwrap();
        let report = worker.run();
        assert_eq!((report.deleted, report.returned), (2, 1), "{report:?}");
        TOLD.check_trace(order);
        meters.check(&TOLD, "pull");
    }
}
