//! Handling messages.

use std::{
    num::NonZeroU16,
    sync::{Arc, Barrier, Mutex},
    thread,
    time::{Duration, Instant},
};

use adf_queue_client::{
    Address, ConnectOptions, ErrorKind, JobLimit, LostReason, Outcome, QueueName, RetryPolicy,
    Servers, Transport, Worker, WorkerOptions, blocking,
};
use fixtures::{Dark, adf_queue::Server};
use tokio::sync::Notify;

use crate::{
    face::{both_faces, over_websocket, with_queue},
    support::{PATIENCE, World, queue_name},
    workers::{Watched, WorkerFace, bodies, deletes, handler, notes, options, told},
};

over_websocket! {
    handlers_run_at_once_in_as_many_slots,
    a_handler_that_fails_or_panics_has_its_message_again_and_the_slot_lives,
    a_handler_decides_the_outcome_of_its_message,
    moves_repeated_failures_to_the_dead_letter_queue,
    redelivered_messages_are_not_run,
    a_run_ends_with_the_last_message_of_its_limit,
    a_run_until_its_queues_are_empty_leaves_nothing_and_ends,
    a_graceful_stop_lets_handlers_end_and_leaves_the_rest_in_order,
    an_immediate_stop_returns_messages_and_notifies_handlers,
    a_missing_queue_is_reported_and_served_once_created,
    a_panicking_observer_is_harmless,
}

both_faces! {
    an_absent_server_does_not_delay_the_others,
    a_run_until_its_queues_are_empty_gives_up_a_server_that_is_away,
    a_run_until_its_queues_are_empty_ends_without_a_queue,
    a_stop_waits_for_no_attempt_to_connect,
    a_worker_that_connects_needs_an_answer_and_names_every_server_without_one,
}

/// Empty queues that exist.
fn queues<F: WorkerFace>(world: &World, count: usize) -> (F, Vec<QueueName>) {
    let mut client = F::connect(world.options()).unwrap();
    let queues: Vec<QueueName> = (0..count).map(|_| queue_name()).collect();
    for queue in &queues {
        client.create_queue(queue).unwrap();
    }
    (client, queues)
}

fn drop_queues<F: WorkerFace>(mut client: F, queues: &[QueueName]) {
    for queue in queues {
        client.delete_queue(queue).unwrap();
    }
}

fn text(body: &bytes::Bytes) -> &str {
    std::str::from_utf8(body).unwrap()
}

fn handlers_run_at_once_in_as_many_slots<F: WorkerFace>(world: &World) {
    let (mut client, queues) = queues::<F>(world, 1);
    let together = Arc::new(Barrier::new(4));
    let running = F::work(
        options(world).slots(4).limit(JobLimit::new(4)),
        &queues,
        handler(move |_| {
            together.wait();
            Ok(Outcome::Delete)
        }),
    );
    for _ in 0..4 {
        client.rpush(&queues[0], "x".into()).unwrap();
    }
    assert_eq!(running.ended().deleted, 4);
    drop_queues(client, &queues);
}

fn a_handler_that_fails_or_panics_has_its_message_again_and_the_slot_lives<F: WorkerFace>(
    world: &World,
) {
    let (mut client, queues) = queues::<F>(world, 1);
    let (told, observe) = told();
    let bodies = bodies();
    let seen = bodies.clone();
    let running = F::work(
        options(world).on_event(observe),
        &queues,
        handler(move |job| match (seen.note(job), text(job.body())) {
            (1, "errs") => Err("no such picture".to_owned()),
            (1, "panics") => panic!("on purpose"),
            _ => Ok(Outcome::Delete),
        }),
    );
    for body in ["errs", "panics", "fine"] {
        client.rpush(&queues[0], body.into()).unwrap();
    }
    bodies.wait(|bodies| bodies.values().sum::<usize>() == 5);
    let report = running.stop();
    assert_eq!((report.deleted, report.returned, report.total()), (3, 2, 5));
    told.wait_for("failed no such picture");
    told.wait_for("failed the handler panicked: on purpose");
    drop_queues(client, &queues);
}

fn a_handler_decides_the_outcome_of_its_message<F: WorkerFace>(world: &World) {
    let (mut client, queues) = queues::<F>(world, 2);
    for body in ["left", "right", "dead", "gone"] {
        client.rpush(&queues[0], body.into()).unwrap();
    }
    let order = Watched::new(Vec::new());
    let seen = order.clone();
    let running = F::work(
        options(world).dead_letter(queues[1].clone()).limit(JobLimit::new(6)),
        &queues[..1],
        handler(move |job| {
            let body = text(job.body()).to_owned();
            seen.change(|order| order.push(body.clone()));
            Ok(match (body.as_str(), job.is_redelivered()) {
                ("left", false) => Outcome::ReturnLeft,
                ("right", false) => Outcome::ReturnRight,
                ("dead", _) => Outcome::DeadLetter,
                _ => Outcome::Delete,
            })
        }),
    );
    let report = running.ended();
    order.wait(|order| order[..] == ["left", "left", "right", "dead", "gone", "right"]);
    assert_eq!((report.deleted, report.returned, report.dead_lettered), (3, 2, 1));
    let dead = client.try_pull(&queues[1]).unwrap().unwrap();
    assert_eq!(dead.body(), "dead");
    client.delete(&dead).unwrap();
    assert_eq!(client.count(&queues[0]).unwrap(), 0);
    drop_queues(client, &queues);
}

fn moves_repeated_failures_to_the_dead_letter_queue<F: WorkerFace>(world: &World) {
    let (mut client, queues) = queues::<F>(world, 2);
    let (told, observe) = told();
    let bodies = bodies();
    let seen = bodies.clone();
    let three = NonZeroU16::new(3).unwrap();
    let running = F::work(
        options(world).max_duplications(three).dead_letter(queues[1].clone()).on_event(observe),
        &queues[..1],
        handler(move |job| {
            seen.note(job);
            Err::<Outcome, _>("never".to_owned())
        }),
    );
    client.rpush(&queues[0], "bad".into()).unwrap();
    told.wait_for("dead after 3: never");
    told.wait_for("dead-lettered");
    let report = running.stop();
    assert_eq!((report.dead_lettered, report.returned, report.total()), (1, 2, 3));
    bodies.wait(|bodies| bodies["bad"] == 3);
    let dead = client.try_pull(&queues[1]).unwrap().unwrap();
    assert_eq!((&dead.body()[..], dead.duplications()), (&b"bad"[..], 1));
    client.delete(&dead).unwrap();
    assert_eq!(client.count(&queues[0]).unwrap(), 0);
    drop_queues(client, &queues);
}

fn redelivered_messages_are_not_run<F: WorkerFace>(world: &World) {
    let (mut client, queues) = queues::<F>(world, 1);
    client.rpush(&queues[0], "bad".into()).unwrap();
    // Others had it twice, and crashed.
    for _ in 0..2 {
        let pulled = client.pull(&queues[0]).unwrap();
        client.lcancel(&pulled).unwrap();
    }
    let (told, observe) = told();
    let bodies = bodies();
    let two = NonZeroU16::new(2).unwrap();
    let running =
        F::work(options(world).max_duplications(two).on_event(observe), &queues, notes(&bodies));
    told.wait_for("poisoned 3");
    client.rpush(&queues[0], "good".into()).unwrap();
    bodies.wait_for(1);
    let report = running.stop();
    assert_eq!(report.deleted, 1);
    bodies.wait(|bodies| !bodies.contains_key("bad"));
    drop_queues(client, &queues);
}

fn a_run_ends_with_the_last_message_of_its_limit<F: WorkerFace>(world: &World) {
    let (mut client, queues) = queues::<F>(world, 2);
    for number in 0..10 {
        client.rpush(&queues[number % 2], "x".into()).unwrap();
    }
    let limit = JobLimit::new(7);
    let running = F::work(options(world).slots(3).limit(limit.clone()), &queues, deletes());
    let report = running.ended();
    assert_eq!((report.deleted, report.total(), limit.is_reached()), (7, 7, true));
    let left = client.count(&queues[0]).unwrap() + client.count(&queues[1]).unwrap();
    assert_eq!(left, 3, "none was pulled that had to be given back");
    drop_queues(client, &queues);
}

/// What the handler puts back or pushes itself is run before it ends.
fn a_run_until_its_queues_are_empty_leaves_nothing_and_ends<F: WorkerFace>(world: &World) {
    let (mut client, queues) = queues::<F>(world, 2);
    for number in 0..20 {
        client.rpush(&queues[number % 2], number.to_string().into()).unwrap();
    }
    let bodies = bodies();
    let (seen, pushes) =
        (bodies.clone(), Mutex::new(blocking::Client::connect(world.options()).unwrap()));
    let second = queues[1].clone();
    let running = F::work(
        options(world).slots(3).recheck(PATIENCE).until_empty(),
        &queues,
        handler(move |job| {
            let times = seen.note(job);
            if times == 1 && text(job.body()) == "19" {
                pushes.lock().unwrap().rpush(second.clone(), "more").unwrap();
            }
            Ok(if times == 1 { Outcome::ReturnRight } else { Outcome::Delete })
        }),
    );
    let report = running.ended();
    assert_eq!((report.deleted, report.returned, report.total()), (21, 21, 42));
    assert_eq!(client.count(&queues[0]).unwrap() + client.count(&queues[1]).unwrap(), 0);
    // A worker that finds nothing ends at once.
    let report = F::work(options(world).recheck(PATIENCE).until_empty(), &queues, deletes());
    assert_eq!(report.ended().total(), 0);
    drop_queues(client, &queues);
}

fn a_graceful_stop_lets_handlers_end_and_leaves_the_rest_in_order<F: WorkerFace>(world: &World) {
    let (mut client, queues) = queues::<F>(world, 1);
    for body in ["a", "b", "c", "d"] {
        client.rpush(&queues[0], body.into()).unwrap();
    }
    let bodies = bodies();
    let seen = bodies.clone();
    let running = F::work(
        options(world).prefetch(2),
        &queues,
        handler(move |job| {
            seen.note(job);
            assert!(job.wait_stopping(PATIENCE) && job.is_stopping());
            Ok(Outcome::Delete)
        }),
    );
    bodies.wait_for(1);
    let report = running.stop();
    assert_eq!((report.deleted, report.lost, report.unknown), (1, 0, 0));
    assert_eq!(report.abandoned, report.total() - 1, "those that waited for the handler");
    // They go back one by one, and a waiting pull gets the first of them.
    let since = Instant::now();
    while client.count(&queues[0]).unwrap() < 3 {
        assert!(since.elapsed() < PATIENCE, "they do not go back");
        thread::sleep(Duration::from_millis(5));
    }
    for body in ["b", "c", "d"] {
        let next = client.pull_within(&queues[0], PATIENCE).unwrap().unwrap();
        assert_eq!(next.body(), body);
        client.delete(&next).unwrap();
    }
    drop_queues(client, &queues);
}

fn an_immediate_stop_returns_messages_and_notifies_handlers<F: WorkerFace>(world: &World) {
    let (mut client, queues) = queues::<F>(world, 1);
    client.rpush(&queues[0], "slow".into()).unwrap();
    let bodies = bodies();
    let seen = bodies.clone();
    let running = F::work(
        options(world),
        &queues,
        handler(move |job| {
            seen.note(job);
            assert_eq!(job.wait_lost(PATIENCE), Some(LostReason::Stopped));
            Ok(Outcome::Delete)
        }),
    );
    bodies.wait_for(1);
    running.handle.stop_now();
    let report = running.ended();
    assert_eq!((report.lost, report.total()), (1, 1));
    let again = client.pull_within(&queues[0], PATIENCE).unwrap().unwrap();
    assert_eq!((&again.body()[..], again.duplications()), (&b"slow"[..], 2));
    client.delete(&again).unwrap();
    drop_queues(client, &queues);
}

fn a_missing_queue_is_reported_and_served_once_created<F: WorkerFace>(world: &World) {
    let mut client = F::connect(world.options()).unwrap();
    let queue = queue_name();
    let (told, observe) = told();
    let running = F::work(
        options(world).limit(JobLimit::new(1)).on_event(observe),
        std::slice::from_ref(&queue),
        deletes(),
    );
    told.wait_for("refused queue_not_found");
    client.create_queue(&queue).unwrap();
    client.rpush(&queue, "x".into()).unwrap();
    assert_eq!(running.ended().deleted, 1);
    drop_queues(client, &[queue]);
}

fn a_panicking_observer_is_harmless<F: WorkerFace>(world: &World) {
    let (mut client, queues) = queues::<F>(world, 1);
    client.rpush(&queues[0], "x".into()).unwrap();
    let running = F::work(
        options(world).limit(JobLimit::new(1)).on_event(|_| panic!("on purpose")),
        &queues,
        deletes(),
    );
    assert_eq!(running.ended().deleted, 1);
    assert_eq!(client.count(&queues[0]).unwrap(), 0);
    drop_queues(client, &queues);
}

fn an_absent_server_does_not_delay_the_others<F: WorkerFace>() {
    let worlds = [World::in_memory(Transport::WsBin), World::in_memory(Transport::WsJson)];
    let away = fixtures::Port::take().unwrap();
    let address: Address = away.address().to_string().parse().unwrap();
    let queue = queue_name();
    let mut servers = vec![ConnectOptions::new(address)];
    for world in &worlds {
        let mut client = F::connect(world.options()).unwrap();
        client.create_queue(&queue).unwrap();
        for _ in 0..5 {
            client.rpush(&queue, "x".into()).unwrap();
        }
        servers.push(world.options());
    }
    let (told, observe) = told();
    let options = WorkerOptions::from(Servers::new(servers).unwrap());
    let limit = JobLimit::new(10);
    let running =
        F::work(options.limit(limit).on_event(observe), std::slice::from_ref(&queue), deletes());
    told.wait_for("disconnected");
    assert_eq!(running.handle.servers().len(), 3);
    assert_eq!(running.ended().deleted, 10);
}

/// The blocking face waited for the end of its attempt.
fn a_stop_waits_for_no_attempt_to_connect<F: WorkerFace>() {
    let (world, dark) = (World::in_memory(Transport::WsBin), Dark::start().unwrap());
    let (mut client, queue) = with_queue::<F>(&world);
    client.rpush(&queue, "x".into()).unwrap();
    let address: Address = dark.address().to_string().parse().unwrap();
    let servers = [ConnectOptions::new(address).connect_timeout(PATIENCE * 2), world.options()];
    let (told, observe) = told();
    let running = F::work(
        WorkerOptions::from(Servers::new(servers).unwrap()).on_event(observe),
        std::slice::from_ref(&queue),
        deletes(),
    );
    told.wait_for("deleted");
    let started = Instant::now();
    assert_eq!(running.stop().deleted, 1);
    assert!(started.elapsed() < PATIENCE, "{:?}", started.elapsed());
}

/// It never ended.
fn a_run_until_its_queues_are_empty_gives_up_a_server_that_is_away<F: WorkerFace>() {
    let world = World::in_memory(Transport::WsBin);
    let away = fixtures::Port::take().unwrap();
    let (mut client, queue) = with_queue::<F>(&world);
    client.rpush(&queue, "x".into()).unwrap();
    let address: Address = away.address().to_string().parse().unwrap();
    let retry = RetryPolicy::new(2).backoff(Duration::from_millis(1), Duration::from_millis(1));
    let servers = [ConnectOptions::new(address).retry(retry), world.options()];
    let (told, observe) = told();
    let options = WorkerOptions::from(Servers::new(servers).unwrap()).until_empty();
    let running = F::work(options.on_event(observe), std::slice::from_ref(&queue), deletes());
    let handle = running.handle.clone();
    let report = running.ended();
    let never = handle.servers().into_iter().map(|server| server.never_connected);
    assert_eq!(never.collect::<Vec<_>>(), [true, false]);
    assert_eq!((report.deleted, report.given_up, report.never_connected), (1, 1, 1), "{report}");
    told.wait_for("GivenUp");
}

fn a_worker_that_connects_needs_an_answer_and_names_every_server_without_one<F: WorkerFace>() {
    let server = Server::start().unwrap();
    let ports = [(); 2].map(|()| fixtures::Port::take().unwrap());
    let [one, two] = ports.each_ref().map(|port| port.address().to_string());
    F::connect_worker(format!("{one},{}", server.address()).parse().unwrap()).unwrap();
    // Only its check has connected.
    assert!(server.wait_for(PATIENCE, |view| view.connections == 0));
    let error = F::connect_worker(format!("{one},{two}").parse().unwrap()).unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::Connect);
    let text = error.to_string();
    assert!(text.contains(&one) && text.contains(&two), "{text}");
}

fn a_run_until_its_queues_are_empty_ends_without_a_queue<F: WorkerFace>() {
    let world = World::in_memory(Transport::WsBin);
    let running = F::work(options(&world).until_empty(), &[], deletes());
    let report = running.ended_in_time();
    assert_eq!((report.total(), report.given_up), (0, 0), "{report}");
}

#[test]
fn a_worker_over_http_is_refused_with_the_reason() {
    for transport in [Transport::HttpBin, Transport::HttpJson] {
        let options = options(&World::in_memory(transport));
        let error = Worker::new(&options).unwrap_err();
        assert_eq!(*error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains("use an address with adf://"), "{error}");
        assert_eq!(*blocking::Worker::new(options).unwrap_err().kind(), ErrorKind::Unsupported);
    }
}

#[test]
fn queues_that_cannot_be_served_are_refused() {
    let world = World::in_memory(Transport::WsBin);
    let options = options(&world).dead_letter("/dead".parse().unwrap());
    let mut worker = blocking::Worker::new(options).unwrap();
    for queue in ["", "/ü", "/dead"] {
        let error = worker.register(queue, |_| ()).unwrap_err();
        assert_eq!(*error.kind(), ErrorKind::InvalidInput, "{queue:?}");
    }
    worker.register("/fine", |_| ()).unwrap();
}

#[test]
fn a_run_until_a_future_ends_finishes_the_running_handler_and_takes_nothing_more() {
    let server = Server::builder().queue("/q").start().unwrap();
    let mut client = adf_queue_client::blocking::Client::connect(server.address()).unwrap();
    for body in ["first", "second"] {
        client.rpush("/q", body).unwrap();
    }
    let stop = Arc::new(Notify::new());
    let mut worker =
        Worker::new(WorkerOptions::from(server.address().parse::<ConnectOptions>().unwrap()))
            .unwrap();
    let begun = Arc::clone(&stop);
    worker
        .register("/q", move |job: adf_queue_client::JobContext| {
            begun.notify_one();
            async move { job.stopping().await }
        })
        .unwrap();
    let report = queue_core::proof::runtime().block_on(async {
        tokio::time::timeout(PATIENCE, worker.run_until(stop.notified())).await.unwrap()
    });
    assert_eq!((report.deleted, report.total()), (1, 1), "{report}");
    let left = server.messages("/q");
    assert_eq!(left.iter().map(|message| &message.body[..]).collect::<Vec<_>>(), [b"second"]);
}
