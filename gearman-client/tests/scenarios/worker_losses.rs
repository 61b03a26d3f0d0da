//! What handlers learn about their jobs and their worker, and what is learnt about handlers.

use std::{
    sync::{Arc, Mutex, mpsc},
    time::Duration,
};

use fixtures::{gearmand::Server, proxy::Proxy};
use gearman_client::{
    ConnectOptions, Failure, JobEvent, LostReason, MaxQueue, Outcome, RetryPolicy, WorkerEvent,
    WorkerEventKind, WorkerOptions, blocking,
};

use super::support::each_server_async;
use super::{
    face::{Face, WorkFace, both_faces, scenarios},
    handlers::{Door, HandlerFace, Running},
    support::{LATE, PATIENCE, options, worker_of},
};

each_server_async!(
    nothing_is_kept_of_a_wait_for_the_loss_of_a_job,
    a_job_taken_by_hand_is_lost_with_its_worker,
);

scenarios!(
    a_handler_learns_that_its_job_is_lost,
    a_handler_learns_that_the_time_of_its_job_is_over,
    a_handler_learns_that_its_worker_stops,
    errors_and_panics_of_handlers_are_reported,
    a_handler_resumes_once_its_data_is_sent,
    an_observer_that_panics_costs_no_place,
    a_job_over_the_limit_fails_and_costs_no_other_job,
    a_job_that_is_given_back_runs_again_and_costs_no_other_job,
    a_job_given_back_by_hand_is_another_workers,
    a_job_that_fails_is_kept_as_a_dead_letter_before_it_ends,
    a_job_whose_dead_letter_is_refused_is_not_lost,
);
both_faces!(a_long_handler_costs_no_connection_that_answered_meanwhile);

fn quick(address: &str) -> WorkerOptions {
    let retry = RetryPolicy::new(20).backoff(Duration::from_millis(5), Duration::from_millis(50));
    WorkerOptions::from(address.parse::<ConnectOptions>().unwrap().retry(retry))
}

/// It waited for a deadline of the connection, because everything was sent in one write without another check.
fn a_handler_resumes_once_its_data_is_sent<F: HandlerFace>(address: &str) {
    let long = PATIENCE * 10;
    let to: ConnectOptions = address.parse().unwrap();
    let to = WorkerOptions::from(to.reply_timeout(long).write_timeout(long));
    let worker = F::start(to, |job| {
        for _ in 0..3 {
            job.data(&vec![b'x'; 3 << 19]);
        }
        Ok("done".into())
    });
    let mut client = F::to(address);
    let started = std::time::Instant::now();
    let outcome = client.run("f", b"w", options()).unwrap();
    assert_eq!(outcome, Outcome::Complete("done".into()));
    assert!(started.elapsed() < long / 2, "{:?}", started.elapsed());
    assert_eq!(worker.stop().completed, 1);
}

/// Its thread ended with the job, and the worker never ended.
fn an_observer_that_panics_costs_no_place<F: HandlerFace>(address: &str) {
    let failing = quick(address).slots(2).on_event(|event| {
        if let WorkerEventKind::Failed { .. } = event.what {
            panic!("an observer of a test");
        }
    });
    let worker = F::start(failing, |job| match job.workload().as_slice() {
        b"fail" => Err("on purpose".into()),
        _ => Ok("done".into()),
    });
    let mut client = F::to(address);
    for _ in 0..3 {
        let told = client.run("f", b"fail", options()).unwrap();
        assert_eq!(told, Outcome::Exception("on purpose".into()));
    }
    assert_eq!(client.run("f", b"w", options()).unwrap(), Outcome::Complete("done".into()));
    worker.stop();
}

/// It ended the connection of each worker in turn, and all other jobs of that connection ran again.
fn a_job_over_the_limit_fails_and_costs_no_other_job<F: HandlerFace>(address: &str) {
    let (door, told) = (Door::default(), Arc::new(Mutex::new(Vec::new())));
    let to: ConnectOptions = address.parse().unwrap();
    let limited = WorkerOptions::from(to.max_packet_size(1000)).slots(2).on_event({
        let told = told.clone();
        move |event: &WorkerEvent| {
            if let WorkerEventKind::Oversized { function, size, limit, .. } = &event.what {
                told.lock().unwrap().push((function.to_string(), *size > 5 << 20, *limit));
            }
        }
    });
    let worker = F::start(limited, {
        let door = door.clone();
        move |job| {
            if job.workload() == b"waits" {
                door.pass();
            }
            assert!(job.workload().len() < 1000 && !job.is_lost());
            Ok("done".into())
        }
    });
    let mut client = F::to(address);
    client.submit_background("f", b"waits", options()).unwrap();
    worker.until("it runs", |view| view.running() == 1);
    for _ in 0..2 {
        let outcome = client.run("f", &vec![0; 5 << 20], options().timeout(PATIENCE)).unwrap();
        let Outcome::Exception(why) = outcome else { panic!("{outcome:?}") };
        let why = String::from_utf8(why.to_vec()).unwrap();
        assert!(why.contains("not run") && why.contains("limit of 1000"), "{why}");
    }
    assert_eq!(client.run("f", b"w", options()).unwrap(), Outcome::Complete("done".into()));
    door.open();
    assert_eq!(worker.handle.metrics().connections, 1);
    let report = worker.stop();
    assert_eq!((report.completed, report.failed, report.abandoned), (2, 2, 0), "{report}");
    assert_eq!(*told.lock().unwrap(), [("f".to_owned(), true, 1000), ("f".to_owned(), true, 1000)]);
}

/// The protocol gives a job back only with its connection, so that ends, once the job beside it is done.
fn a_job_that_is_given_back_runs_again_and_costs_no_other_job<F: HandlerFace>(address: &str) {
    let (door, told) = (Door::default(), Arc::new(Mutex::new(Vec::new())));
    let of_worker = quick(address).slots(2).on_event({
        let told = told.clone();
        move |event: &WorkerEvent| match &event.what {
            WorkerEventKind::GivenBack { reason, .. } => told.lock().unwrap().push(reason.clone()),
            WorkerEventKind::Failed { .. } | WorkerEventKind::Disconnected(_) => {
                panic!("{event}")
            }
            _ => {}
        }
    });
    let (runs, neighbour) = (Arc::new(Mutex::new(Vec::new())), door.clone());
    let worker = F::start(of_worker, {
        let runs = runs.clone();
        move |job| {
            let workload = job.workload();
            let mut runs = runs.lock().unwrap();
            runs.push(workload.clone());
            let is_first = runs.iter().filter(|run| **run == workload).count() == 1;
            drop(runs);
            match workload.as_slice() {
                b"waits" => neighbour.pass(),
                _ if is_first => return Err(Failure::give_back("the disk is full")),
                _ => {}
            }
            Ok("done".into())
        }
    });
    let mut client = F::to(address);
    client.submit_background("f", b"waits", options()).unwrap();
    worker.until("it runs", |view| view.running() == 1);
    client.submit_background("f", b"w", options()).unwrap();
    worker.until("it is given back", |view| view.report().given_back == 1);
    assert_eq!(worker.handle.metrics().connections, 1, "the other job has its connection");
    door.open();
    worker.until("both are done", |view| view.report().completed == 2);
    assert_eq!(worker.handle.metrics().connections, 2);
    let report = worker.stop();
    assert_eq!((report.completed, report.given_back, report.abandoned), (2, 1, 0), "{report}");
    // Either of the first two may begin first.
    runs.lock().unwrap().sort();
    assert_eq!(*runs.lock().unwrap(), [&b"w"[..], b"w", b"waits"]);
    assert_eq!(*told.lock().unwrap(), ["the disk is full"]);
}

/// A worker of `f` whose jobs all fail, and what it tells of its dead letters.
fn failing<F: HandlerFace>(address: &str) -> (Running, Arc<Mutex<Vec<String>>>) {
    let told = Arc::new(Mutex::new(Vec::new()));
    let options = quick(address).dead_letter("dead".parse().unwrap()).on_event({
        let told = told.clone();
        move |event: &WorkerEvent| match &event.what {
            WorkerEventKind::DeadLettered { function, reason, attempts, .. } => {
                told.lock().unwrap().push(format!("{function}: {reason} ({attempts})"));
            }
            WorkerEventKind::GivenBack { reason, .. } => told.lock().unwrap().push(reason.clone()),
            _ => {}
        }
    });
    let worker = F::start(options, |job| match job.workload().as_slice() {
        b"panic" => panic!("on purpose"),
        b"fail" => Err(Failure::Fail),
        _ => Err("no such picture".into()),
    });
    (worker, told)
}

fn a_job_that_fails_is_kept_as_a_dead_letter_before_it_ends<F: HandlerFace>(address: &str) {
    let (worker, told) = failing::<F>(address);
    let (mut client, mut other) = (F::to(address), F::Worker::connect(address).unwrap());
    other.can_do("dead");
    for (workload, outcome) in [
        (&b"fail"[..], Outcome::Fail),
        (b"panic", Outcome::Fail),
        (b"\0\xff", Outcome::Exception("no such picture".into())),
    ] {
        assert_eq!(client.run("f", workload, options()).unwrap(), outcome);
        let letter = other.next();
        assert_eq!(F::Worker::assignment(&letter).workload, workload);
        other.complete(letter, "").unwrap();
    }
    other.stop();
    let report = worker.stop();
    assert_eq!((report.failed, report.dead_lettered, report.given_back), (3, 3, 0), "{report}");
    assert_eq!(
        *told.lock().unwrap(),
        [
            "f: the handler gave no reason (1)",
            "f: the handler panicked: on purpose (1)",
            "f: no such picture (1)",
        ]
    );
}

/// It goes back until there is room for its letter.
fn a_job_whose_dead_letter_is_refused_is_not_lost<F: HandlerFace>(address: &str) {
    let (mut client, mut other) = (F::to(address), F::Worker::connect(address).unwrap());
    client.submit_background("dead", b"first", options()).unwrap();
    let mut admin = blocking::Admin::connect(address).unwrap();
    admin.maxqueue("dead", MaxQueue::All(1)).unwrap();
    let (worker, told) = failing::<F>(address);
    client.submit_background("f", b"w", options()).unwrap();
    worker.until("it is given back", |view| view.report().given_back >= 2);
    assert_eq!(worker.handle.report().failed, 0);
    other.can_do("dead");
    for workload in ["first", "w"] {
        let letter = other.next();
        assert_eq!(F::Worker::assignment(&letter).workload, workload);
        other.complete(letter, "").unwrap();
    }
    other.stop();
    worker.until("it has failed", |view| view.report().failed == 1);
    let report = worker.stop();
    assert_eq!((report.failed, report.dead_lettered), (1, 1), "{report}");
    let told = told.lock().unwrap();
    assert!(told[0].starts_with("its dead letter: the server refused: QUEUE_ERROR"), "{told:?}");
}

fn a_job_given_back_by_hand_is_another_workers<F: Face>(address: &str) {
    let mut client = F::to(address);
    client.submit_background("f", b"w", options()).unwrap();
    // It is back only after the other one has the job.
    let retry = RetryPolicy::default().backoff(PATIENCE * 100, PATIENCE * 100).seed(1);
    let server = address.parse::<ConnectOptions>().unwrap().retry(retry);
    let mut worker = F::Worker::of("f", WorkerOptions::from(server));
    let job = worker.next();
    worker.give_back(job);
    let mut other = F::Worker::of("f", address);
    other.completes_next("");
    assert_eq!((other.stop().completed, worker.stop().given_back), (1, 1));
}

fn a_handler_learns_that_its_job_is_lost<F: HandlerFace>(address: &str) {
    let proxy = Proxy::start(address.parse().unwrap()).unwrap();
    let (began, begun) = mpsc::channel();
    let worker = F::start(quick(&proxy.address().to_string()), move |job| {
        assert!(!job.is_lost());
        began.send(()).unwrap();
        if job.workload() == b"lost" {
            assert_eq!(job.wait_lost(), Some(LostReason::ConnectionLost));
            assert!(job.is_lost() && !job.is_stopping());
        }
        Ok("whatever".into())
    });
    let mut client = F::to(address);
    client.submit_background("f", b"lost", options()).unwrap();
    begun.recv_timeout(PATIENCE).unwrap();
    proxy.refuse_connections();
    proxy.reset_connections();
    // Another takes the job before this worker is back.
    let mut other = F::Worker::of("f", address);
    other.completes_next("");
    assert_eq!(other.stop().completed, 1);
    proxy.accept_connections();
    client.submit_background("f", b"next", options()).unwrap();
    begun.recv_timeout(PATIENCE).unwrap();
    let report = worker.stop();
    assert_eq!((report.completed, report.abandoned, report.unknown), (1, 1, 0), "{report}");
}

/// The server gives a lost job to the next worker that asks, which may be the one that still runs it.
/// The server gives the job to another, without a notice.
fn a_handler_learns_that_the_time_of_its_job_is_over<F: HandlerFace>(address: &str) {
    let (began, begun) = mpsc::channel();
    let (told, lost) = mpsc::channel();
    let door = Door::default();
    let opened = door.clone();
    let worker = F::start_with(quick(address), Some(LATE), move |job| {
        assert!(!job.is_lost());
        began.send(()).unwrap();
        told.send(job.wait_lost()).unwrap();
        assert!(job.is_lost());
        opened.pass();
        Ok("late".into())
    });
    let mut client = F::to(address);
    client.submit_background("f", b"w", options()).unwrap();
    begun.recv_timeout(PATIENCE).unwrap();
    // Nothing wakes it.
    let mut other = F::Worker::of("f", quick(address).regrab(Duration::from_millis(100)));
    let job = other.next();
    assert_eq!(lost.recv_timeout(PATIENCE).unwrap(), Some(LostReason::TimedOut));
    door.open();
    // The server refuses a result without a job.
    worker.until("the late result is rejected", |view| view.report().rejected == 1);
    other.complete(job, "").unwrap();
    assert_eq!(other.stop().completed, 1);
    assert_eq!(worker.stop().completed, 0);
}

fn a_handler_learns_that_its_worker_stops<F: HandlerFace>(address: &str) {
    let (began, begun) = mpsc::channel();
    let worker = F::start(quick(address), move |job| {
        assert!(!job.is_stopping());
        began.send(()).unwrap();
        assert!(job.wait_stopping() && job.is_stopping() && !job.is_lost());
        Ok("early".into())
    });
    let submit = std::thread::spawn({
        let mut client = F::to(address);
        move || client.submit("f", b"", options()).unwrap().1
    });
    begun.recv_timeout(PATIENCE).unwrap();
    assert_eq!(worker.stop().completed, 1);
    let events: Vec<_> = submit.join().unwrap().into_iter().map(Result::unwrap).collect();
    assert_eq!(events, [JobEvent::Complete("early".into())]);
}

/// A task of which a waker is kept keeps its memory, on a connection that may last for weeks.
async fn nothing_is_kept_of_a_wait_for_the_loss_of_a_job(address: String) {
    let mut worker = worker_of("f", &address).await;
    let client = gearman_client::Client::connect(&address).await.unwrap();
    client.submit_background("f", "", options()).await.unwrap();
    let job = worker.next_job().await;
    let task = Arc::new(queue_core::proof::Idle);
    let waker = std::task::Waker::from(task.clone());
    {
        let [mut one, mut other] = [(); 2].map(|()| Box::pin(job.lost()));
        let mut cx = std::task::Context::from_waker(&waker);
        for _ in 0..2 {
            assert!(one.as_mut().poll(&mut cx).is_pending());
            assert!(other.as_mut().poll(&mut cx).is_pending());
        }
    }
    drop(waker);
    job.complete("").await.unwrap();
    assert_eq!(Arc::strong_count(&task), 1);
    worker.stop().await;
}

/// The loss of a job that was taken by hand is also reported.
async fn a_job_taken_by_hand_is_lost_with_its_worker(address: String) {
    let client = gearman_client::Client::connect(&address).await.unwrap();
    client.submit_background("f", "", options()).await.unwrap();
    let mut worker = worker_of("f", &address).await;
    let job = worker.next_job().await;
    assert!(!job.is_lost() && !job.is_stopping());
    drop(worker);
    assert_eq!(job.lost().await, LostReason::Stopped);
    assert!(job.is_lost());
    tokio::time::timeout(PATIENCE, job.stopping()).await.expect("it waits for a stop");
    assert!(job.is_stopping());
}

#[test]
fn a_job_taken_by_hand_is_known_to_be_lost() {
    let server = Server::start().unwrap();
    let mut client = blocking::Client::connect(server.address()).unwrap();
    client.submit_background("f", "", options()).unwrap();
    let mut worker = blocking::Worker::of("f", server.address());
    let job = worker.next_job(PATIENCE).unwrap().unwrap();
    assert!(!worker.is_lost(&job));
    assert_eq!(worker.wait_lost(&job, Duration::from_millis(1)), None);
    server.reset_connections();
    assert_eq!(worker.wait_lost(&job, PATIENCE), Some(LostReason::ConnectionLost));
    assert!(worker.is_lost(&job));
    assert!(worker.complete(job, "").is_err());
}

/// Only the worker's own side learns of a background job's error, or of a panic's message.
fn errors_and_panics_of_handlers_are_reported<F: HandlerFace>(address: &str) {
    let told = Arc::new(Mutex::new(Vec::new()));
    let options_ = quick(address).on_event({
        let told = told.clone();
        move |event: &WorkerEvent| {
            assert!(event.server.to_string().starts_with("127.0.0.1:"));
            if let WorkerEventKind::Failed { job, function, error } = &event.what {
                assert!(job.server().is_some());
                told.lock().unwrap().push(format!("{function}: {error}"));
            }
        }
    });
    let worker = F::start(options_, |job| match &*job.workload() {
        b"panic" => panic!("a secret {}", 7),
        b"plain" => panic!("in one piece"),
        b"fail" => Err(Failure::Fail),
        b"boxed" => Err(Box::<dyn std::error::Error>::from("boxed").into()),
        _ => Err(std::io::Error::other("disk full").into()),
    });
    let mut client = F::to(address);
    client.submit_background("f", b"", options()).unwrap();
    worker.until("it has failed", |view| view.report().failed == 1);
    for panics in [b"panic", b"plain"] {
        let (_, events) = client.submit("f", panics, options()).unwrap();
        assert!(matches!(events[..], [Ok(JobEvent::Fail)]), "{events:?}");
    }
    assert_eq!(client.run("f", b"fail", options()).unwrap(), Outcome::Fail);
    let boxed = client.run("f", b"boxed", options()).unwrap();
    assert_eq!(boxed, Outcome::Exception("boxed".into()));
    assert_eq!(worker.stop().failed, 5);
    let words = [
        "f: disk full",
        "f: the handler panicked: a secret 7",
        "f: the handler panicked: in one piece",
        "f: the handler gave no reason",
        "f: boxed",
    ];
    assert_eq!(*told.lock().unwrap(), words);
}

/// A blocking worker does not read while a handler runs; the answer to the grab for its other place is there when it
/// has ended, however long that took.
fn a_long_handler_costs_no_connection_that_answered_meanwhile<F: HandlerFace>() {
    let server = Server::start().unwrap();
    let mut client = F::to(server.address());
    for _ in 0..2 {
        client.submit_background("f", b"", options()).unwrap();
    }
    let to: ConnectOptions = server.address().parse().unwrap();
    let options_ = WorkerOptions::from(to.reply_timeout(LATE)).slots(2);
    let worker = F::start(options_, |_| {
        std::thread::sleep(LATE + LATE / 5);
        Ok(String::new())
    });
    worker.until("both are done", |view| {
        let report = view.report();
        report.completed + report.unknown == 2
    });
    assert_eq!(worker.handle.metrics().connections, 1);
    let report = worker.stop();
    assert_eq!((report.completed, report.unknown), (2, 0), "{report}");
}
