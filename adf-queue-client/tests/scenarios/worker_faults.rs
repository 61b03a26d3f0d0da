//! Workers whose servers and networks fail.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use adf_queue_client::{
    Address, ConnectOptions, ErrorKind, JobContext, JobLimit, LostReason, Outcome, QueueName,
    RetryPolicy, Transport, Worker, WorkerOptions, blocking,
};
use fixtures::{fault::Fault, proxy::Proxy};

use crate::{
    face::{both_faces, over_websocket, runtime, with_queue},
    support::{PATIENCE, World, queue_name},
    workers::{Watched, WorkerFace, bodies, deletes, handler, notes, told},
};

over_websocket! {
    a_lost_connection_notifies_the_handler_and_reruns_the_message,
    messages_returned_by_others_are_run,
    thousands_of_messages_survive_a_worker_that_is_cut_off_in_the_middle,
}

mod a_queue_that_is_deleted_and_made_again_is_served {
    crate::face::by_transport!(a_queue_that_is_deleted_and_made_again_is_served, ws_bin, WsBin);

    /// A JSON pull that meets the deletion ends the real server.
    mod ws_json {
        crate::face::in_memory!(a_queue_that_is_deleted_and_made_again_is_served, WsJson);
    }
}

both_faces! {
    a_server_that_accepts_and_closes_is_not_hammered,
    a_pull_that_is_never_answered_is_not_repeated_without_end,
}

/// A proxy in front of this world's server, and the options of a worker behind it.
fn through_proxy(world: &World) -> (Proxy, WorkerOptions) {
    let endpoint = world.address.endpoint();
    let upstream: SocketAddr =
        format!("{}:{}", endpoint.host(), endpoint.port().unwrap()).parse().unwrap();
    let proxy = Proxy::start(upstream).unwrap();
    let address: Address = proxy.address().to_string().parse().unwrap();
    let options = ConnectOptions::new(address.with_transport(world.address.transport()));
    let retry = RetryPolicy::default().backoff(Duration::from_millis(5), Duration::from_millis(50));
    let options = options.reply_timeout(PATIENCE).retry(retry);
    (proxy, WorkerOptions::from(options).recheck(Duration::from_millis(200)))
}

fn a_lost_connection_notifies_the_handler_and_reruns_the_message<F: WorkerFace>(world: &World) {
    let (mut client, queue) = with_queue::<F>(world);
    client.rpush(&queue, "x".into()).unwrap();
    let (proxy, options) = through_proxy(world);
    let bodies = bodies();
    let (seen, running) = (bodies.clone(), AtomicUsize::new(0));
    let worker = F::work(
        options.slots(2).limit(JobLimit::new(2)),
        std::slice::from_ref(&queue),
        handler(move |job| {
            assert_eq!(running.fetch_add(1, Ordering::SeqCst), 0, "the same message twice at once");
            if seen.note(job) == 1 {
                assert_eq!(job.wait_lost(PATIENCE), Some(LostReason::ConnectionLost));
                assert!(job.is_lost());
            } else {
                assert_eq!((job.duplications(), job.is_lost()), (2, false));
            }
            running.fetch_sub(1, Ordering::SeqCst);
            Ok(Outcome::Delete)
        }),
    );
    bodies.wait_for(1);
    proxy.reset_connections();
    let report = worker.ended();
    assert_eq!((report.deleted, report.lost, report.total()), (1, 1, 2));
    assert_eq!(client.count(&queue).unwrap(), 0);
    client.delete_queue(&queue).unwrap();
}

fn a_queue_that_is_deleted_and_made_again_is_served<F: WorkerFace>(world: &World) {
    let (mut client, queue) = with_queue::<F>(world);
    let bodies = bodies();
    let worker =
        F::work(crate::workers::options(world), std::slice::from_ref(&queue), notes(&bodies));
    for round in 0..3 {
        client.rpush(&queue, format!("a{round}").into()).unwrap();
        bodies.wait(|bodies| bodies.contains_key(&format!("a{round}")));
        // The worker's pull is waiting, or will be soon, on a queue that gets deleted.
        client.delete_queue(&queue).unwrap();
        client.create_queue(&queue).unwrap();
        client.rpush(&queue, format!("b{round}").into()).unwrap();
        bodies.wait(|bodies| bodies.contains_key(&format!("b{round}")));
    }
    worker.stop();
    client.delete_queue(&queue).unwrap();
}

fn messages_returned_by_others_are_run<F: WorkerFace>(world: &World) {
    let (mut client, queue) = with_queue::<F>(world);
    client.rpush(&queue, "x".into()).unwrap();
    let pulled = client.pull(&queue).unwrap();
    let (told, observe) = told();
    let worker = F::work(
        crate::workers::options(world).on_event(observe),
        std::slice::from_ref(&queue),
        deletes(),
    );
    told.wait_for("connected");
    client.rcancel(&pulled).unwrap();
    told.wait_for("deleted");
    worker.stop();
    client.delete_queue(&queue).unwrap();
}

fn thousands_of_messages_survive_a_worker_that_is_cut_off_in_the_middle<F: WorkerFace>(
    world: &World,
) {
    const MESSAGES: usize = 2_000;
    let (mut client, queue) = with_queue::<F>(world);
    let (proxy, options) = through_proxy(world);
    let bodies = bodies();
    let work = |options: WorkerOptions| {
        let queues = std::slice::from_ref(&queue);
        F::work(options.slots(4).prefetch(4), queues, notes(&bodies))
    };
    let first = work(options);
    for number in 0..MESSAGES {
        client.rpush(&queue, number.to_string().into()).unwrap();
        if number == MESSAGES / 2 {
            bodies.wait_for(MESSAGES / 4);
            // As if its process had been killed: it has no further effect.
            proxy.refuse_connections();
            proxy.reset_connections();
        }
    }
    let second = work(crate::workers::options(world));
    bodies.wait_for(MESSAGES);
    let (first, second) = (first.stop(), second.stop());
    assert_eq!(client.count(&queue).unwrap(), 0);
    let again = bodies.change(|bodies| bodies.values().sum::<usize>()) - MESSAGES;
    // Only what the first one held when it was cut off can have been delivered twice.
    assert!(again <= 8, "{again} came twice");
    let settled = first.deleted + second.deleted;
    let perhaps = first.unknown + first.lost;
    assert!(settled <= MESSAGES as u64, "{first} {second}");
    assert!(settled + perhaps >= MESSAGES as u64, "{first} {second}");
    client.delete_queue(&queue).unwrap();
}

fn a_server_that_accepts_and_closes_is_not_hammered<F: WorkerFace>() {
    let world = World::in_memory(Transport::WsBin);
    let (proxy, options) = through_proxy(&world);
    proxy.refuse_connections();
    let slow = RetryPolicy::default().backoff(Duration::from_secs(1), Duration::from_secs(60));
    let servers = options.servers().clone().each(|server| server.retry(slow.seed(7)));
    let (told, observe) = told();
    let worker = F::work(
        WorkerOptions::from(servers).on_event(observe),
        &[queue_name(), queue_name()],
        deletes(),
    );
    told.wait_for("disconnected");
    let before = proxy.accepted();
    std::thread::sleep(Duration::from_millis(300));
    assert!(proxy.accepted() - before < 10, "{}", proxy.accepted());
    worker.stop();
}

/// In JSON, a count comes before each pull.
fn a_pull_that_is_never_answered_is_not_repeated_without_end<F: WorkerFace>() {
    let world = World::in_memory(Transport::WsJson);
    let queue = queue_name();
    let retry = RetryPolicy::new(3).backoff(Duration::from_millis(5), Duration::from_millis(50));
    let mut client = F::connect(world.options().retry(retry)).unwrap();
    client.create_queue(&queue).unwrap();
    let server = world.server.as_ref().unwrap();
    server.faults().add(Fault::always().of("pull").unexecuted().cut_after(0));
    let error = client.pull_within(&queue, Duration::from_secs(2)).unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::ConnectionLost, "{error}");
    let connections = client.metrics().connections;
    assert!(connections < 10, "{connections} connections");
}

#[test]
fn a_run_that_is_dropped_gives_its_messages_back_and_ends_its_handlers() {
    let world = World::in_memory(Transport::WsBin);
    let server = world.server.as_ref().unwrap();
    let queue = queue_name();
    runtime().block_on(async {
        let client = adf_queue_client::Client::connect(world.options()).await.unwrap();
        client.create_queue(queue.clone()).await.unwrap();
        client.rpush(queue.clone(), "x").await.unwrap();
        let mut worker = Worker::new(crate::workers::options(&world)).unwrap();
        let (began, begins) = tokio::sync::oneshot::channel();
        let began = Watched::new(Some(began));
        let went_on = Arc::new(AtomicUsize::new(0));
        let goes_on = went_on.clone();
        worker
            .register(queue.clone(), move |job: JobContext| {
                let (began, goes_on) = (began.clone(), goes_on.clone());
                async move {
                    began.change(Option::take).unwrap().send(()).unwrap();
                    job.lost().await;
                    tokio::task::yield_now().await;
                    goes_on.fetch_add(1, Ordering::SeqCst);
                }
            })
            .unwrap();
        let handle = worker.handle();
        tokio::select! {
            _ = worker.run() => panic!("it has ended"),
            _ = begins => {}
        }
        let again = client.pull_within(queue.clone(), PATIENCE).await.unwrap().unwrap();
        assert_eq!((&again.body()[..], again.duplications()), (&b"x"[..], 2));
        client.delete(&again).await.unwrap();
        let report = handle.report();
        assert_eq!((report.total() - report.lost, went_on.load(Ordering::SeqCst)), (0, 0));
    });
    assert!(server.queues().iter().all(|queue| queue.ready + queue.pulled == 0));
}

#[test]
fn a_message_that_outlives_a_run_knows_that_it_has_ended() {
    let world = World::in_memory(Transport::WsBin);
    let queue = queue_name();
    let options = |round| match round {
        0 => crate::workers::options(&world).limit(JobLimit::new(1)),
        _ => crate::workers::options(&world).until_empty(),
    };
    runtime().block_on(async {
        let client = adf_queue_client::Client::connect(world.options()).await.unwrap();
        client.create_queue(&queue).await.unwrap();
        for round in 0..2 {
            client.rpush(&queue, "x").await.unwrap();
            let (tell, jobs) = std::sync::mpsc::channel();
            let mut worker = blocking::Worker::new(options(round)).unwrap();
            worker.register(&queue, move |job| drop(tell.send(job.clone()))).unwrap();
            let _ = worker.run();
            let job = jobs.recv().unwrap();
            assert!(job.wait_stopping(Duration::ZERO) && job.is_stopping(), "round {round}");
        }
        for round in 0..3 {
            client.rpush(&queue, "x").await.unwrap();
            let (tell, job) = tokio::sync::oneshot::channel();
            let tell = Watched::new(Some(tell));
            let mut worker = Worker::new(options(round)).unwrap();
            let handler = move |job: JobContext| {
                drop(tell.change(Option::take).unwrap().send(job));
                // The last run is dropped.
                async move {
                    if round == 2 {
                        std::future::pending::<()>().await;
                    }
                }
            };
            worker.register(&queue, handler).unwrap();
            let job = if round == 2 {
                tokio::select! {
                    _ = worker.run() => panic!("it has ended"),
                    job = job => job.unwrap(),
                }
            } else {
                worker.run().await;
                job.await.unwrap()
            };
            tokio::time::timeout(PATIENCE, job.stopping()).await.expect("it waits for a stop");
            assert!(job.is_stopping(), "round {round}");
        }
    });
}

#[test]
fn an_async_handler_learns_of_a_stop_and_of_a_loss() {
    let world = World::in_memory(Transport::WsBin);
    let queue: QueueName = queue_name();
    runtime().block_on(async {
        let client = adf_queue_client::Client::connect(world.options()).await.unwrap();
        client.create_queue(queue.clone()).await.unwrap();
        client.rpush(queue.clone(), "x").await.unwrap();
        let mut worker = Worker::new(crate::workers::options(&world)).unwrap();
        let told = Watched::new(Vec::new());
        let tell = told.clone();
        worker
            .register(queue.clone(), move |job: JobContext| {
                let tell = tell.clone();
                async move {
                    tell.change(|told| told.push("began".to_owned()));
                    if job.is_redelivered() {
                        job.stopping().await;
                        tell.change(|told| told.push("stopping".to_owned()));
                        return Ok(Outcome::ReturnLeft);
                    }
                    let reason = job.lost().await;
                    tell.change(|told| told.push(reason.to_string()));
                    Err("nobody hears that")
                }
            })
            .unwrap();
        let handle = worker.handle();
        let running = tokio::spawn(worker.run());
        let wait = |count: usize| {
            let told = told.clone();
            async move {
                let wait = move || told.wait(|told| told.len() >= count);
                tokio::task::spawn_blocking(wait).await.unwrap();
            }
        };
        wait(1).await;
        world.server.as_ref().unwrap().reset_connections();
        wait(3).await;
        handle.stop();
        let report = running.await.unwrap();
        assert_eq!((report.lost, report.returned, report.total()), (1, 1, 2));
        told.wait(|told| told[1..] == ["the connection was lost", "began", "stopping"]);
    });
}
