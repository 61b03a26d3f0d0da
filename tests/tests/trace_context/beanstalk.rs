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

fn producer_options(server: &Server, meters: &Meters) -> ProducerOptions {
    let options: ProducerOptions = server.address().parse().unwrap();
    options.on_measurement(meters.observer())
}

fn worker_options(server: &Server, meters: &Meters, envelope: Envelope) -> WorkerOptions {
    let options = WorkerOptions::new(server.address()).unwrap();
    options
        .until_empty()
        .retries(Retries::default().releases(0))
        .log_errors(true)
        .on_span(move |span, job| envelope.adopt(span, &job.body))
        .on_measurement(meters.observer())
}

#[test]
fn a_trace_passes_through_an_async_producer_and_worker() {
    let _one = lock(&ONE);
    for envelope in ALL {
        let (server, meters, order) = (Server::start().unwrap(), Meters::new(), order());
        runtime().block_on(async {
            let producer = Producer::connect(producer_options(&server, &meters)).await.unwrap();
            let sending = async {
                for payload in ["joe@example.com", "fail"] {
                    let body = envelope.seal(payload);
                    let _ = producer.put("mail", body, PutOptions::default()).await.unwrap();
                }
            };
            sending.instrument(order.clone()).await;
            let mut worker = Worker::new(worker_options(&server, &meters, envelope)).unwrap();
            let handler =
                move |job: JobContext| async move { work(&envelope.payload(&job.body), true) };
            worker.register("mail", handler).unwrap();
            let report = worker.run().await;
            assert_eq!((report.finished, report.buried), (1, 1), "{report:?}");
        });
        TOLD.check_trace(order);
        meters.check(&TOLD, "reserve-with-timeout");
    }
}

#[test]
fn a_trace_passes_through_a_blocking_producer_and_worker() {
    let _one = lock(&ONE);
    for envelope in ALL {
        let (server, meters, order) = (Server::start().unwrap(), Meters::new(), order());
        let producer = blocking::Producer::connect(producer_options(&server, &meters)).unwrap();
        order.in_scope(|| {
            for payload in ["joe@example.com", "fail"] {
                let body = envelope.seal(payload);
                let _ = producer.put("mail", body, PutOptions::default()).unwrap();
            }
        });
        let mut worker = blocking::Worker::new(worker_options(&server, &meters, envelope)).unwrap();
        worker.register("mail", move |job| work(&envelope.payload(&job.body), true)).unwrap();
        let report = worker.run();
        assert_eq!((report.finished, report.buried), (1, 1), "{report:?}");
        TOLD.check_trace(order);
        meters.check(&TOLD, "reserve-with-timeout");
    }
}
