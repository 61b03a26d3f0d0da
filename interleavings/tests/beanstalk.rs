//! The blocking producer and worker of `beanstalk-client`.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use beanstalk_client::{
    ConnectOptions, Error, Fate, JobLimit, ProducerOptions, PutOptions, Servers, WorkerOptions,
    blocking::{JobContext, Producer, Worker},
};
use fixtures::fault::Fault;
use interleavings::{World, search};
use queue_core::sync::thread;
use shuttle::rand::Rng;

fn world() -> World {
    World::new(fixtures::beanstalkd::Server::builder().offline())
}

fn servers(world: &World) -> Servers {
    let world = world.clone();
    let options = ConnectOptions::new("127.0.0.1:1".parse().unwrap());
    Servers::from(options.blocking_connector(move |_, _| world.connect()))
}

/// The jobs of the server in all states.
fn jobs(world: &World) -> usize {
    let stats = world.ask("stats\r\n");
    let of = |state: &str| {
        let line = stats.lines().find(|line| line.starts_with(&format!("current-jobs-{state}: ")));
        line.unwrap().rsplit(' ').next().unwrap().parse::<usize>().unwrap()
    };
    of("ready") + of("reserved") + of("delayed") + of("buried")
}

/// Jobs that are there before the clients.
fn filled(count: usize) -> World {
    let world = world();
    for _ in 0..count {
        assert!(world.ask("put 0 0 60 1\r\nx\r\n").starts_with("INSERTED"));
    }
    world
}

/// What three threads get that put two jobs each.
fn put(producer: Producer) -> Vec<Result<u64, Error>> {
    let producer = Arc::new(producer);
    let callers: Vec<_> = (0..3)
        .map(|_| {
            let producer = producer.clone();
            thread::spawn(move || {
                let put = || {
                    let put = producer.put("default", "x", PutOptions::default());
                    put.map(|inserted| inserted.id().get())
                };
                [put(), put()]
            })
        })
        .collect();
    callers.into_iter().flat_map(|caller| caller.join().unwrap()).collect()
}

#[test]
fn every_caller_of_a_producer_gets_its_answer() {
    for max_jobs in [1, 2, 100] {
        search(300, move || {
            let world = world();
            let options = ProducerOptions::from(servers(&world)).max_jobs(max_jobs);
            let outcomes = put(Producer::new(options).unwrap());
            let ids: BTreeSet<u64> = outcomes.into_iter().map(Result::unwrap).collect();
            assert_eq!((ids.len(), jobs(&world)), (6, 6));
        });
    }
}

/// Also behind a caller that drives the connection and leaves, and before there is a connection.
#[test]
fn writes_puts_without_a_waiter() {
    search(300, || {
        let world = world();
        let producer = Arc::new(Producer::new(ProducerOptions::from(servers(&world))).unwrap());
        let callers: Vec<_> = (0..3)
            .map(|caller| {
                let producer = producer.clone();
                thread::spawn(move || match caller {
                    0 => drop(producer.put("default", "x", PutOptions::default()).unwrap()),
                    _ => drop(producer.enqueue("default", "x", PutOptions::default()).unwrap()),
                })
            })
            .collect();
        callers.into_iter().for_each(|caller| caller.join().unwrap());
        while jobs(&world) < 3 {
            thread::yield_now();
        }
    });
}

#[test]
fn a_connection_that_breaks_leaves_no_caller_waiting() {
    search(500, || {
        let world = world();
        let nth = shuttle::rand::thread_rng().gen_range(1..=6);
        let fault = Fault::nth(nth).of("put").cut_after(0);
        let is_executed = shuttle::rand::thread_rng().gen_bool(0.5);
        let fault = if is_executed { fault.executed() } else { fault.unexecuted() };
        world.with(|server| server.faults().add(fault));
        let options = ProducerOptions::from(servers(&world))
            .reconnect_backoff(Duration::from_millis(1), Duration::from_millis(2));
        let outcomes = put(Producer::new(options).unwrap());
        let put = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
        let unknown = outcomes.iter().filter_map(|outcome| outcome.as_ref().err());
        let unknown = unknown.inspect(|error| assert_eq!(error.fate(), Fate::Unknown)).count();
        assert_eq!(put + unknown, 6);
        let jobs = jobs(&world);
        assert!((put..=put + unknown).contains(&jobs), "{put} {unknown} {jobs}");
    });
}

/// Runs a worker to its end, and counts what its handlers have begun.
fn work(world: &World, options: impl FnOnce(WorkerOptions) -> WorkerOptions, stops: bool) -> usize {
    let options = options(WorkerOptions::from(servers(world)));
    let mut worker = Worker::new(options).unwrap();
    let stopper = stops.then(|| {
        let handle = worker.handle();
        thread::spawn(move || handle.stop())
    });
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = runs.clone();
    let handler = move |job: &JobContext| {
        match counted.fetch_add(1, Ordering::Relaxed) {
            0 => job.touch()?,
            1 => assert_eq!(job.stats()?.tube.as_str(), "default"),
            _ => {}
        }
        Ok::<(), Error>(())
    };
    worker.register("default", handler).unwrap();
    let report = worker.run();
    if let Some(stopper) = stopper {
        stopper.join().unwrap();
    }
    assert_eq!(report.finished as usize, runs.load(Ordering::Relaxed), "{report}");
    report.finished as usize
}

#[test]
fn a_worker_runs_each_job_once_and_ends_at_its_limit() {
    for (slots, prefetch) in [(1, 1), (2, 1), (1, 3)] {
        search(100, move || {
            let world = filled(4);
            let limit = JobLimit::new(3);
            let options = |of: WorkerOptions| of.slots(slots).prefetch(prefetch).limit(limit);
            assert_eq!(work(&world, options, false), 3);
            assert_eq!(jobs(&world), 1);
        });
    }
}

#[test]
fn a_worker_stopped_at_any_moment_loses_nothing() {
    for (slots, prefetch) in [(1, 1), (2, 1), (1, 3)] {
        search(100, move || {
            let world = filled(4);
            let deleted = work(&world, |of| of.slots(slots).prefetch(prefetch), true);
            assert_eq!(deleted + jobs(&world), 4);
        });
    }
}
