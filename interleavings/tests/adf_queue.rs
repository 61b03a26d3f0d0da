//! The blocking producer and worker of `adf-queue-client`.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use adf_queue_client::{
    ConnectOptions, Error, Fate, JobLimit, ProducerOptions, RetryPolicy, Servers, WorkerOptions,
    blocking::{Client, Producer, Worker},
};
use fixtures::fault::Fault;
use interleavings::{World, search};
use queue_core::sync::thread;
use shuttle::rand::Rng;

fn filled(count: usize) -> World {
    let world = World::new(fixtures::adf_queue::Server::builder().queue("/q").offline());
    let mut client = Client::new(options(&world)).unwrap();
    for n in 0..count {
        client.rpush("/q", n.to_string()).unwrap();
    }
    world
}

fn options(world: &World) -> ConnectOptions {
    let world = world.clone();
    let options = ConnectOptions::new("127.0.0.1:1".parse().unwrap());
    options.blocking_connector(move |_, _| world.connect())
}

fn messages(world: &World) -> usize {
    Client::new(options(world)).unwrap().count("/q").unwrap() as usize
}

#[test]
fn every_caller_of_a_producer_gets_its_answer() {
    search(200, || {
        let world = filled(0);
        let servers = Servers::from(options(&world));
        let producer = Arc::new(Producer::new(ProducerOptions::from(servers)).unwrap());
        let callers: Vec<_> = (0..3)
            .map(|_| {
                let producer = producer.clone();
                thread::spawn(move || [(); 2].map(|()| producer.rpush("/q", "x").unwrap()))
            })
            .collect();
        let ids = callers.into_iter().flat_map(|caller| caller.join().unwrap());
        assert_eq!(ids.collect::<BTreeSet<_>>().len(), 6);
        assert_eq!(messages(&world), 6);
    });
}

#[test]
fn a_connection_that_breaks_leaves_no_caller_waiting() {
    search(500, || {
        let world = filled(0);
        let nth = shuttle::rand::thread_rng().gen_range(1..=6);
        let fault = Fault::nth(nth).of("rpush").cut_after(0);
        let is_executed = shuttle::rand::thread_rng().gen_bool(0.5);
        let fault = if is_executed { fault.executed() } else { fault.unexecuted() };
        world.with(|server| server.faults().add(fault));
        let retry =
            RetryPolicy::default().backoff(Duration::from_millis(1), Duration::from_millis(2));
        let servers = Servers::from(options(&world).retry(retry));
        let producer = Producer::new(ProducerOptions::from(servers)).unwrap();
        let callers: Vec<_> = (0..3)
            .map(|_| {
                let producer = producer.clone();
                thread::spawn(move || {
                    let receipt = producer.enqueue("/q", "x").unwrap();
                    [producer.rpush("/q", "x"), receipt.wait()]
                })
            })
            .collect();
        let outcomes: Vec<_> =
            callers.into_iter().flat_map(|caller| caller.join().unwrap()).collect();
        let pushed = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
        let unknown = outcomes.iter().filter_map(|outcome| outcome.as_ref().err());
        let unknown = unknown.inspect(|error| assert_eq!(error.fate(), Fate::Unknown)).count();
        assert_eq!(pushed + unknown, 6);
        let messages = messages(&world);
        assert!((pushed..=6).contains(&messages), "{pushed} {unknown} {messages}");
    });
}

#[test]
fn every_enqueued_push_completes_its_waiter() {
    search(200, || {
        let world = filled(0);
        let options = ProducerOptions::from(Servers::from(options(&world))).max_messages(2);
        let producer = Producer::new(options).unwrap();
        let callers: Vec<_> = [true, false]
            .map(|waits| {
                let producer = producer.clone();
                thread::spawn(move || {
                    let receipts = [(); 2].map(|()| producer.enqueue("/q", "x").unwrap());
                    for receipt in receipts.into_iter().filter(|_| waits) {
                        receipt.wait().unwrap();
                    }
                })
            })
            .into();
        producer.rpush("/q", "x").unwrap();
        producer.flush();
        callers.into_iter().for_each(|caller| caller.join().unwrap());
        assert_eq!(producer.close().pushed, 5);
        assert_eq!(messages(&world), 5);
    });
}

fn work(options: WorkerOptions, stops: bool) -> usize {
    let mut worker = Worker::new(options).unwrap();
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = runs.clone();
    worker
        .register("/q", move |_| {
            counted.fetch_add(1, Ordering::Relaxed);
            Ok::<(), Error>(())
        })
        .unwrap();
    let stopper = stops.then(|| {
        let handle = worker.handle();
        thread::spawn(move || handle.stop())
    });
    let report = worker.run();
    if let Some(stopper) = stopper {
        stopper.join().unwrap();
    }
    assert_eq!(report.deleted as usize, runs.load(Ordering::Relaxed), "{report}");
    report.deleted as usize
}

#[test]
fn a_worker_handles_each_message_once_and_ends_at_its_limit() {
    for slots in [1, 2] {
        search(100, move || {
            let world = filled(4);
            let options = WorkerOptions::from(Servers::from(options(&world))).slots(slots);
            assert_eq!(work(options.limit(JobLimit::new(3)), false), 3);
            assert_eq!(messages(&world), 1);
        });
    }
}

#[test]
fn a_worker_stopped_at_any_moment_loses_nothing() {
    for slots in [1, 2] {
        search(100, move || {
            let world = filled(4);
            let options = WorkerOptions::from(Servers::from(options(&world))).slots(slots);
            let handled = work(options, true);
            assert_eq!(handled + messages(&world), 4);
        });
    }
}
