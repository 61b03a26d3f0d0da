//! Adf.QueueServer.

use std::sync::Arc;

use adf_queue_client::{
    Client, ConnectOptions, JobContext, JobLimit, Producer, ProducerOptions, Worker, WorkerHandle,
    WorkerOptions, blocking,
};
use fixtures::adf_queue::Server;
use queue_core::proof::runtime;

use super::doors::{Stash, call_back, few, poll_once, reach, scenario};

/// The span of a worker's own request, such as a pull.
const HELD: &[&str] = &["adf_queue_request"];

fn server() -> Server {
    Server::builder().queue("/q").start().unwrap()
}

fn worker_options(server: &Server, limit: &JobLimit) -> WorkerOptions {
    let options: WorkerOptions = server.address().parse().unwrap();
    options
        .slots(2)
        .limit(limit.clone())
        .on_measurement(|_| call_back("measurement"))
        .on_event(|_| call_back("event"))
}

fn producer_options(server: &Server) -> ProducerOptions {
    // Nothing listens at the first address.
    let options: ProducerOptions = format!("127.0.0.1:1,{}", server.address()).parse().unwrap();
    options
        .at_least_once(true)
        .on_measurement(|_| call_back("measurement"))
        .on_event(|_| call_back("event"))
}

fn reach_worker(handle: WorkerHandle, limit: &JobLimit) {
    let limit = limit.clone();
    reach(move || {
        let _ = (handle.report(), handle.metrics(), handle.held(), handle.servers());
        let _ = (handle.is_stopping(), format!("{handle:?}"));
        let _ = (limit.left(), limit.is_reached());
    });
}

/// Messages by a client without observers.
fn push(server: &Server, messages: usize) {
    let mut client = blocking::Client::connect(server.address()).unwrap();
    for _ in 0..messages {
        client.rpush("/q", "body").unwrap();
    }
}

fn jobs() -> Stash<JobContext> {
    Stash::new(|job: &JobContext| {
        let _ = (job.is_lost(), job.is_stopping(), job.server());
        poll_once(job.lost());
    })
}

fn decide(server: &Server, limit: &JobLimit) -> Result<(), &'static str> {
    match limit.left() {
        4 => {
            server.close_connections();
            Err("it failed")
        }
        _ => Ok(()),
    }
}

#[test]
fn async_worker_code_may_reenter() {
    scenario(HELD, || {
        let (server, limit) = (Arc::new(server()), JobLimit::new(6));
        push(&server, 8);
        runtime().block_on(async {
            let mut worker = Worker::new(worker_options(&server, &limit)).unwrap();
            reach_worker(worker.handle(), &limit);
            let (jobs, limit) = (jobs(), limit.clone());
            worker
                .register("/q", move |job: JobContext| {
                    let (jobs, server, limit) = (jobs.clone(), server.clone(), limit.clone());
                    async move {
                        jobs.add(job);
                        decide(&server, &limit)
                    }
                })
                .unwrap();
            worker.run().await;
        });
    });
}

#[test]
fn blocking_worker_code_may_reenter() {
    scenario(HELD, || {
        let (server, limit) = (server(), JobLimit::new(6));
        push(&server, 8);
        let mut worker = blocking::Worker::new(worker_options(&server, &limit)).unwrap();
        reach_worker(worker.handle(), &limit);
        let jobs = jobs();
        let handler = move |job: &JobContext| {
            jobs.add(job.clone());
            decide(&server, &limit)
        };
        worker.register("/q", handler).unwrap();
        let _ = worker.run();
    });
}

#[test]
fn async_producer_code_may_reenter() {
    scenario(&[], || {
        let server = server();
        runtime().block_on(async {
            let producer = Producer::connect(producer_options(&server)).await.unwrap();
            let reached = producer.clone();
            reach(move || {
                let _ = (reached.report(), format!("{reached:?}"));
                poll_once(reached.rpush("/q", "another"));
            });
            for _ in 0..3 {
                producer.rpush("/q", "body").await.unwrap();
                server.close_connections();
            }
            producer.rpush("/q", "body").await.unwrap();
        });
    });
}

#[test]
fn blocking_producer_code_may_reenter() {
    scenario(&[], || {
        let server = server();
        let producer = blocking::Producer::connect(producer_options(&server)).unwrap();
        let (reached, may_push) = (producer.clone(), few());
        reach(move || {
            let _ = (reached.report(), format!("{reached:?}"));
            // The thread that calls back moves the bytes, so it must not wait.
            if may_push() {
                drop(reached.enqueue("/q", "another"));
            }
        });
        for _ in 0..3 {
            producer.rpush("/q", "body").unwrap();
            server.close_connections();
        }
        producer.rpush("/q", "body").unwrap();
        producer.close();
    });
}

#[test]
fn async_client_code_may_reenter() {
    for scheme in ["", "http://"] {
        scenario(&[], move || {
            let server = server();
            runtime().block_on(async {
                let options: ConnectOptions =
                    format!("{scheme}{}", server.address()).parse().unwrap();
                let options = options.on_measurement(|_| call_back("measurement"));
                let client = Client::connect(options).await.unwrap();
                let reached = client.clone();
                reach(move || {
                    let _ = (reached.is_connected(), reached.metrics(), reached.epoch());
                    let _ = (reached.connection_state(), reached.address());
                    poll_once(reached.ping());
                });
                // This client has no events.
                call_back("event");
                for _ in 0..3 {
                    client.rpush("/q", "body").await.unwrap();
                    client.rpush("/missing", "body").await.unwrap_err();
                    server.close_connections();
                    while client.rpush("/q", "body").await.is_err() {}
                }
            });
        });
    }
}
