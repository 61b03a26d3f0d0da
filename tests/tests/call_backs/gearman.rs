//! Gearman.

use std::sync::Arc;

use fixtures::gearmand::Server;
use gearman_client::{
    Client, ConnectOptions, JobContext, JobLimit, SubmitOptions, Worker, WorkerHandle,
    WorkerOptions, blocking,
};
use queue_core::proof::runtime;

use super::doors::{Stash, call_back, poll_once, reach, scenario};
use super::sdk::workers;

fn options(server: &Server) -> ConnectOptions {
    let options: ConnectOptions = server.address().parse().unwrap();
    options.on_measurement(|_| call_back("measurement")).on_event(|_| call_back("event"))
}

/// A server with this number of jobs, submitted by a client without observers.
fn filled(jobs: usize) -> Server {
    let server = Server::start().unwrap();
    let mut client = blocking::Client::connect(server.address()).unwrap();
    for _ in 0..jobs {
        client.submit_background("f", "body", SubmitOptions::default()).unwrap();
    }
    server
}

// The span of a worker's own request, such as a grab, begins while a lock is held. A blocking worker's jobs are borrowed.
workers!(
    "f", &["gearman_request"], Vec<u8>, [.unwrap()],
    |handle| (handle.running(), handle.is_asleep(), handle.connection_states()),
    async job: |job: &JobContext| {
        let _ = (job.is_lost(), job.is_stopping());
        poll_once(job.lost());
        poll_once(job.status(1, 2));
    },
    job: &mut blocking::JobContext<'_>, |_: &mut blocking::JobContext<'_>| (), |(): &()| ()
);

#[test]
fn async_client_code_may_reenter() {
    scenario(&[], || {
        let server = filled(0);
        runtime().block_on(async {
            let client = Client::connect(options(&server)).await.unwrap();
            let reached = client.clone();
            reach(move || {
                let _ = (reached.is_connected(), reached.metrics(), reached.epochs().count());
                let _ = reached.connection_states().count();
                poll_once(reached.echo("x"));
            });
            for _ in 0..3 {
                let job = || client.submit_background("f", "body", SubmitOptions::default());
                job().await.unwrap();
                server.close_connections();
                while job().await.is_err() {}
            }
        });
    });
}
