//! beanstalkd.

use std::sync::Arc;

use beanstalk_client::{
    Delivery, JobContext, JobLimit, Producer, ProducerOptions, PutOptions, Worker, WorkerHandle,
    WorkerOptions, blocking,
};
use fixtures::beanstalkd::Server;
use queue_core::proof::runtime;

use super::doors::{Stash, call_back, few, poll_once, reach, scenario};

fn worker_options(server: &Server, limit: &JobLimit) -> WorkerOptions {
    let options = WorkerOptions::new(server.address()).unwrap();
    options
        .slots(2)
        .limit(limit.clone())
        .on_measurement(|_| call_back("measurement"))
        .on_event(|_| call_back("event"))
}

fn producer_options(server: &Server) -> ProducerOptions {
    let options: ProducerOptions = server.address().parse().unwrap();
    options
        .delivery(Delivery::AtLeastOnce)
        .on_measurement(|_| call_back("measurement"))
        .on_event(|_| call_back("event"))
}

fn reach_worker(handle: WorkerHandle, limit: &JobLimit) {
    let limit = limit.clone();
    reach(move || {
        let _ = (handle.report(), handle.metrics(), handle.running(), handle.slots());
        let _ = (handle.is_stopping(), format!("{handle:?}"));
        let _ = (limit.left(), limit.is_reached());
    });
}

/// Jobs by a client without observers.
fn put(server: &Server, jobs: usize) {
    let mut client = blocking::Client::connect(server.address()).unwrap();
    for _ in 0..jobs {
        let _ = client.put("body", PutOptions::default()).unwrap();
    }
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
    scenario(&[], || {
        let (server, limit) = (Arc::new(Server::start().unwrap()), JobLimit::new(6));
        put(&server, 8);
        runtime().block_on(async {
            let mut worker = Worker::new(worker_options(&server, &limit)).unwrap();
            reach_worker(worker.handle(), &limit);
            let jobs = Stash::new(|job: &JobContext| {
                let _ = (job.is_lost(), job.is_stopping(), job.time_left());
                poll_once(job.lost());
                poll_once(job.stats());
                poll_once(job.touch());
            });
            let (jobs, limit) = (jobs.clone(), limit.clone());
            let handler = move |job: JobContext| {
                let (jobs, server, limit) = (jobs.clone(), server.clone(), limit.clone());
                // Now the span of the next handler can see it.
                jobs.add(job);
                async move { decide(&server, &limit) }
            };
            worker.register("other", |_| async {}).unwrap();
            worker.register("default", handler).unwrap();
            worker.run().await;
        });
    });
}

#[test]
fn blocking_worker_code_may_reenter() {
    scenario(&[], || {
        let (server, limit) = (Server::start().unwrap(), JobLimit::new(6));
        put(&server, 8);
        let mut worker = blocking::Worker::new(worker_options(&server, &limit)).unwrap();
        reach_worker(worker.handle(), &limit);
        let jobs = Stash::new(|job: &blocking::JobContext| {
            let _ = (job.is_lost(), job.is_stopping(), job.time_left());
        });
        worker.register("other", |_| ()).unwrap();
        let handler = move |job: &blocking::JobContext| {
            jobs.add(job.clone());
            decide(&server, &limit)
        };
        worker.register("default", handler).unwrap();
        let _ = worker.run();
    });
}

#[test]
fn async_producer_code_may_reenter() {
    scenario(&[], || {
        let server = Server::start().unwrap();
        runtime().block_on(async {
            let producer = Producer::connect(producer_options(&server)).await.unwrap();
            let (reached, may_put) = (producer.clone(), few());
            reach(move || {
                let _ = (reached.report(), reached.state(), format!("{reached:?}"));
                if may_put() {
                    drop(reached.try_put("default", "another", PutOptions::default()));
                    poll_once(reached.put("default", "another", PutOptions::default()));
                }
            });
            for _ in 0..3 {
                let _ = producer.put("default", "body", PutOptions::default()).await.unwrap();
                server.close_connections();
            }
            let _ = producer.put("default", "body", PutOptions::default()).await.unwrap();
            producer.close().await;
        });
    });
}

#[test]
fn blocking_producer_code_may_reenter() {
    scenario(&[], || {
        let server = Server::start().unwrap();
        let producer = blocking::Producer::connect(producer_options(&server)).unwrap();
        let (reached, may_put) = (producer.clone(), few());
        reach(move || {
            let _ = (reached.report(), reached.state(), format!("{reached:?}"));
            if may_put() {
                drop(reached.try_put("default", "another", PutOptions::default()));
            }
        });
        for _ in 0..3 {
            let _ = producer.put("default", "body", PutOptions::default()).unwrap();
            server.close_connections();
        }
        let _ = producer.put("default", "body", PutOptions::default()).unwrap();
        producer.close();
    });
}
