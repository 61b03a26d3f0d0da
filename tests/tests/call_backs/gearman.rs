//! Gearman.

use fixtures::gearmand::Server;
use gearman_client::{
    Client, ConnectOptions, Failure, JobContext, JobLimit, SubmitOptions, Worker, WorkerHandle,
    WorkerOptions, blocking,
};
use queue_core::proof::runtime;

use super::doors::{Stash, call_back, poll_once, reach, scenario};

/// The span of a worker's own request, such as a grab.
const HELD: &[&str] = &["gearman_request"];

fn options(server: &Server) -> ConnectOptions {
    let options: ConnectOptions = server.address().parse().unwrap();
    options.on_measurement(|_| call_back("measurement")).on_event(|_| call_back("event"))
}

fn worker_options(server: &Server, limit: &JobLimit) -> WorkerOptions {
    let options: WorkerOptions = server.address().parse().unwrap();
    options
        .slots(2)
        .limit(limit.clone())
        .on_measurement(|_| call_back("measurement"))
        .on_event(|_| call_back("event"))
}

fn reach_worker(handle: WorkerHandle, limit: &JobLimit) {
    let limit = limit.clone();
    reach(move || {
        let _ = (handle.report(), handle.metrics(), handle.running(), handle.is_asleep());
        let _ = (handle.connection_states(), handle.is_stopping(), format!("{handle:?}"));
        let _ = (limit.left(), limit.is_reached());
    });
}

/// Jobs by a client without observers.
fn submit(server: &Server, jobs: usize) {
    let mut client = blocking::Client::connect(server.address()).unwrap();
    for _ in 0..jobs {
        client.submit_background("f", "body", SubmitOptions::default()).unwrap();
    }
}

fn decide(server: &Server, limit: &JobLimit) -> Result<&'static str, Failure> {
    match limit.left() {
        4 => {
            server.close_connections();
            Err(Failure::exception("it failed"))
        }
        _ => Ok("done"),
    }
}

#[test]
fn async_worker_code_may_reenter() {
    scenario(HELD, || {
        let (server, limit) = (Server::start().unwrap(), JobLimit::new(6));
        submit(&server, 8);
        runtime().block_on(async {
            let mut worker = Worker::connect(worker_options(&server, &limit)).await.unwrap();
            reach_worker(worker.handle(), &limit);
            let jobs = Stash::new(|job: &JobContext| {
                let _ = (job.is_lost(), job.is_stopping());
                poll_once(job.lost());
                poll_once(job.status(1, 2));
            });
            let (server, limit) = (std::sync::Arc::new(server), limit.clone());
            worker
                .register("f", move |job: JobContext| {
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
        let (server, limit) = (Server::start().unwrap(), JobLimit::new(6));
        submit(&server, 8);
        let mut worker = blocking::Worker::connect(worker_options(&server, &limit)).unwrap();
        reach_worker(worker.handle(), &limit);
        worker.register("f", move |_| decide(&server, &limit)).unwrap();
        worker.run().unwrap();
    });
}

#[test]
fn async_client_code_may_reenter() {
    scenario(&[], || {
        let server = Server::start().unwrap();
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
