//! Adf.QueueServer.

use std::sync::Arc;

use adf_queue_client::{
    Client, ConnectOptions, JobContext, JobLimit, Producer, ProducerOptions, Worker, WorkerHandle,
    WorkerOptions, blocking,
};
use fixtures::adf_queue::Server;
use queue_core::proof::runtime;

use super::doors::{Stash, call_back, few, poll_once, reach, scenario};
use super::sdk::{producers, workers};

/// A server with this number of messages, pushed by a client without observers.
fn filled(messages: usize) -> Server {
    let server = Server::builder().queue("/q").start().unwrap();
    let mut client = blocking::Client::connect(server.address()).unwrap();
    for _ in 0..messages {
        client.rpush("/q", "body").unwrap();
    }
    server
}

fn producer_options(server: &Server) -> ProducerOptions {
    // Nothing listens at the first address.
    let options: ProducerOptions = format!("127.0.0.1:1,{}", server.address()).parse().unwrap();
    options
        .at_least_once(true)
        .on_measurement(|_| call_back("measurement"))
        .on_event(|_| call_back("event"))
}

fn touch(job: &JobContext) {
    let _ = (job.is_lost(), job.is_stopping(), job.server());
    poll_once(job.lost());
}

// The span of a worker's own request, such as a pull, begins while a lock is held.
workers!(
    "/q", &["adf_queue_request"], (), [],
    |handle| (handle.held(), handle.servers()),
    async job: touch,
    job: &JobContext, |job: &JobContext| job.clone(), touch
);

// The thread that calls back moves the bytes, so it must not wait.
producers!(
    producer_options,
    rpush("/q", "body"),
    async |reached, may_push| if may_push() {
        poll_once(reached.rpush("/q", "another"));
    },
    |reached, may_push| if may_push() {
        drop(reached.enqueue("/q", "another"));
    }
);

#[test]
fn async_client_code_may_reenter() {
    for scheme in ["", "http://"] {
        scenario(&[], move || {
            let server = filled(0);
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
