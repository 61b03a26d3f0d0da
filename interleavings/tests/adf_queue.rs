//! The blocking producer and worker of `adf-queue-client`.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use adf_queue_client::{
    ConnectOptions, Error, JobLimit, ProducerOptions, Servers, WorkerOptions,
    blocking::{Client, Producer, Worker},
};
use interleavings::{World, search};
use queue_core::sync::thread;

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
        let producer = Arc::new(Producer::new(ProducerOptions::new(servers)).unwrap());
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
fn every_enqueued_push_ends_whoever_waits_for_it() {
    search(200, || {
        let world = filled(0);
        let options = ProducerOptions::new(Servers::from(options(&world))).max_messages(2);
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
            let options = WorkerOptions::new(Servers::from(options(&world))).slots(slots);
            assert_eq!(work(options.limit(JobLimit::new(3)), false), 3);
            assert_eq!(messages(&world), 1);
        });
    }
}

#[test]
fn a_worker_that_is_stopped_at_any_moment_ends_and_loses_nothing() {
    for slots in [1, 2] {
        search(100, move || {
            let world = filled(4);
            let options = WorkerOptions::new(Servers::from(options(&world))).slots(slots);
            let handled = work(options, true);
            assert_eq!(handled + messages(&world), 4);
        });
    }
}
