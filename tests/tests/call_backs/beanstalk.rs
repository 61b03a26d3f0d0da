//! beanstalkd.

use std::sync::Arc;

use beanstalk_client::{
    Delivery, JobContext, JobLimit, Producer, ProducerOptions, PutOptions, Worker, WorkerHandle,
    WorkerOptions, blocking,
};
use fixtures::beanstalkd::Server;
use queue_core::proof::runtime;

use super::doors::{Stash, call_back, few, poll_once, reach, scenario};
use super::sdk::{producers, workers};

/// A server with this number of jobs, put by a client without observers.
fn filled(jobs: usize) -> Server {
    let server = Server::start().unwrap();
    let mut client = blocking::Client::connect(server.address()).unwrap();
    for _ in 0..jobs {
        let _ = client.put("body", PutOptions::default()).unwrap();
    }
    server
}

fn producer_options(server: &Server) -> ProducerOptions {
    let options: ProducerOptions = server.address().parse().unwrap();
    options
        .delivery(Delivery::AtLeastOnce)
        .on_measurement(|_| call_back("measurement"))
        .on_event(|_| call_back("event"))
}

workers!(
    "default", &[], (), [],
    |handle| (handle.running(), handle.slots()),
    async job: |job: &JobContext| {
        let _ = (job.is_lost(), job.is_stopping(), job.time_left());
        poll_once(job.lost());
        poll_once(job.stats());
        poll_once(job.touch());
    },
    job: &blocking::JobContext, |job: &blocking::JobContext| job.clone(), |job: &blocking::JobContext| {
        let _ = (job.is_lost(), job.is_stopping(), job.time_left());
    }
);

producers!(
    producer_options,
    put("default", "body", PutOptions::default()),
    async |reached, may_put| if may_put() {
        drop(reached.try_put("default", "another", PutOptions::default()));
        poll_once(reached.put("default", "another", PutOptions::default()));
    },
    |reached, may_put| if may_put() {
        drop(reached.try_put("default", "another", PutOptions::default()));
    }
);
