//! The blocking worker of `gearman-client`.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use gearman_client::{
    ConnectOptions, Failure, JobLimit, Servers, SubmitOptions, WorkerOptions,
    blocking::{Client, Worker},
};
use interleavings::{World, search};
use queue_core::sync::thread;

/// A server with this many background jobs of the function `f`.
fn filled(count: usize) -> World {
    let world = World::new(fixtures::gearmand::Server::builder().offline());
    let mut client = Client::new(servers(&world)).unwrap();
    for _ in 0..count {
        client.submit_background("f", "x", SubmitOptions::default()).unwrap();
    }
    world
}

fn servers(world: &World) -> Servers {
    let world = world.clone();
    let options = ConnectOptions::new("127.0.0.1:1".parse().unwrap());
    Servers::from(options.blocking_connector(move |_, _| world.connect()))
}

/// The jobs that the server has of `f`.
fn jobs(world: &World) -> usize {
    let status = world.ask("status\n");
    let line = status.lines().find(|line| line.starts_with("f\t"));
    line.map_or(0, |line| line.split('\t').nth(1).unwrap().parse().unwrap())
}

/// Runs a worker whose handler reports this many bytes twice.
fn work(options: WorkerOptions, stops: bool, bytes: usize) -> usize {
    let mut worker = Worker::new(options).unwrap();
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = runs.clone();
    worker
        .register("f", move |job| {
            counted.fetch_add(1, Ordering::Relaxed);
            job.data(vec![0; bytes])?;
            job.data(vec![0; bytes])?;
            Ok::<_, Failure>("done")
        })
        .unwrap();
    let stopper = stops.then(|| {
        let handle = worker.handle();
        thread::spawn(move || handle.stop())
    });
    worker.run().unwrap();
    if let Some(stopper) = stopper {
        stopper.join().unwrap();
    }
    runs.load(Ordering::Relaxed)
}

#[test]
fn a_worker_runs_each_job_once_and_ends_at_its_limit() {
    for slots in [2, 3] {
        search(100, move || {
            let world = filled(4);
            let options = WorkerOptions::from(servers(&world)).slots(slots);
            assert_eq!(work(options.limit(JobLimit::new(3)), false, 1), 3);
            assert_eq!(jobs(&world), 1);
        });
    }
}

#[test]
fn a_worker_stopped_at_any_moment_loses_nothing() {
    for slots in [1, 2] {
        search(100, move || {
            let world = filled(4);
            let ran = work(WorkerOptions::from(servers(&world)).slots(slots), true, 1);
            assert_eq!(ran + jobs(&world), 4);
        });
    }
}

#[test]
fn a_handler_resumes_once_its_reports_are_written() {
    search(50, || {
        let world = filled(2);
        let options = WorkerOptions::from(servers(&world)).slots(2).limit(JobLimit::new(2));
        assert_eq!(work(options, false, ENOUGH), 2);
    });
}

/// More than a connection queues.
const ENOUGH: usize = 1 << 20;
