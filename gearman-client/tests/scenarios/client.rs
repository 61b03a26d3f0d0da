//! Submitting jobs and querying them.

use std::time::{Duration, SystemTime};

use gearman_client::{
    Client, ErrorKind, Fate, Outcome, Schedule, Unique, Worker, WorkerOptions, blocking,
    protocol::{Echo, Submit},
};

use super::{
    face::WorkFace,
    support::{Background, LATE, each_server, each_server_async, function, options},
};

each_server!(
    echo_and_status_of_queued_running_and_unknown_jobs,
    by_payload_joins_equal_workloads_and_random_joins_none,
    a_delayed_job_waits_for_its_time_and_a_reducer_arrives,
    refusals_of_the_server_are_reported,
    twenty_megabytes_round_trip_in_both_faces,
    a_client_outlives_its_runtime,
    a_stream_of_the_callers_own_serves_both_faces,
    the_outcome_of_a_job_whose_end_was_read_is_given_again,
);

each_server_async!(
    a_reducer_comes_with_its_foreground_job_in_both_faces,
    batches_answer_in_order_in_both_faces,
);

fn echo_worker(address: &str) -> Background {
    let mut worker = blocking::Worker::connect(address).unwrap();
    worker.register("echo", |job| job.workload.clone()).unwrap();
    Background::start(worker)
}

fn echo_and_status_of_queued_running_and_unknown_jobs(address: &str) {
    let mut client = blocking::Client::connect(address).unwrap();
    assert_eq!(client.echo(b"a\0b").unwrap(), &b"a\0b"[..]);
    let job = client.submit_background("status", "x", options()).unwrap();
    // From another process: only the text of the handle is known.
    let mut other = blocking::Client::connect(address).unwrap();
    let handle = String::from_utf8(job.handle.name().to_vec()).unwrap();
    let status = other.status(&handle).unwrap();
    assert!(status.is_known && !status.is_running);
    let status = other.status_unique(job.unique.unwrap()).unwrap();
    assert!(status.is_known && status.waiting == Some(0));
    assert_eq!(job.handle.server().unwrap().to_string(), address);

    let mut worker = blocking::Worker::of("status", address);
    let grabbed = worker.next_job(Duration::from_secs(5)).unwrap().unwrap();
    assert_eq!(grabbed.handle.name(), job.handle.name());
    worker.status(&grabbed, 3, 4).unwrap();
    worker.echo_barrier().unwrap();
    let status = client.status(&job.handle).unwrap();
    assert!(status.is_running && status.progress.share() == Some(0.75));
    worker.complete(grabbed, "").unwrap();
    assert_eq!(worker.stop().completed, 1);
    assert!(!client.status(&job.handle).unwrap().is_known);
}

async fn a_reducer_comes_with_its_foreground_job_in_both_faces(address: String) {
    let mut worker = Worker::connect(&address).await.unwrap();
    worker.register("map", |job| async move { job.reducer.clone().unwrap_or_default() }).unwrap();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let running = tokio::spawn(worker.run_until(stopped));
    let client = Client::connect(&address).await.unwrap();
    let job = client.submit_reduce("map", "x", "sum", options()).await.unwrap();
    assert_eq!(job.outcome().await.unwrap(), Outcome::Complete("sum".into()));
    let blocking = tokio::task::spawn_blocking(move || {
        let mut client = blocking::Client::connect(&*address).unwrap();
        client.submit_reduce("map", "x", "product", options()).unwrap().outcome().unwrap()
    });
    assert_eq!(blocking.await.unwrap(), Outcome::Complete("product".into()));
    stop.send(()).unwrap();
    assert_eq!(running.await.unwrap().completed, 2);
}

fn by_payload_joins_equal_workloads_and_random_joins_none(address: &str) {
    let mut client = blocking::Client::connect(address).unwrap();
    let mut handles = |unique: Unique, workload: &str| {
        let options = options().unique(unique);
        client.submit_background("payload", workload, options).unwrap().handle
    };
    assert_eq!(handles(Unique::ByPayload, "a"), handles(Unique::ByPayload, "a"));
    assert_ne!(handles(Unique::ByPayload, "b"), handles(Unique::ByPayload, "c"));
    assert_ne!(handles(Unique::Random, "d"), handles(Unique::Random, "d"));
    assert_ne!(handles(Unique::None, "e"), handles(Unique::None, "e"));
}

fn a_delayed_job_waits_for_its_time_and_a_reducer_arrives(address: &str) {
    let mut client = blocking::Client::connect(address).unwrap();
    let at = SystemTime::now() + Duration::from_secs(1);
    client.submit_epoch("later", "x", at, options()).unwrap();
    client.submit_reduce_background("reduce", "x", "sum", options()).unwrap();
    let options: WorkerOptions = address.parse().unwrap();
    let options = options.regrab(Duration::from_millis(100));
    let mut worker = blocking::Worker::of("reduce", options);
    let job = worker.next_job(Duration::from_secs(5)).unwrap().unwrap();
    assert_eq!(job.reducer.as_deref(), Some(&b"sum"[..]));
    worker.complete(job, "").unwrap();
    worker.can_do("later", None).unwrap();
    // Nothing wakes the worker on the real server, so it has to poll.
    let job = worker.next_job(Duration::from_secs(10)).unwrap().unwrap();
    assert!(SystemTime::now() >= at - Duration::from_millis(10));
    worker.complete(job, "").unwrap();
}

fn refusals_of_the_server_are_reported(address: &str) {
    let mut client = blocking::Client::connect(address).unwrap();
    let schedule = Schedule::new(0, 0, 1, 1, 0).unwrap();
    let error = client.submit_sched("f", "x", schedule, options()).unwrap_err();
    assert_eq!((error.kind(), error.fate()), (ErrorKind::Unsupported, Fate::Refused));
    assert_eq!(error.command(), Some("SUBMIT_JOB_SCHED"));

    let mut admin = blocking::Admin::connect(address).unwrap();
    admin.create_function("full").unwrap();
    admin.maxqueue("full", gearman_client::MaxQueue::All(1)).unwrap();
    client.submit_background("full", "x", options()).unwrap();
    let error = client.submit_background("full", "x", options()).unwrap_err();
    assert_eq!((error.kind(), error.code()), (ErrorKind::QueueFull, Some("QUEUE_ERROR")));
    assert!(error.is_temporary());
    assert_eq!(client.echo("still in step").unwrap(), "still in step");
}

async fn batches_answer_in_order_in_both_faces(address: String) {
    let echoes = || (0..2000).map(|n| Echo(n.to_string()));
    let client = Client::connect(&address).await.unwrap();
    let mut answers = client.call_many(echoes());
    let mut n = 0;
    while let Some(answer) = answers.next().await {
        assert_eq!(answer.unwrap(), n.to_string());
        n += 1;
    }
    assert_eq!(n, 2000);
    tokio::task::spawn_blocking(move || {
        let mut client = blocking::Client::connect(&address).unwrap();
        for (n, answer) in client.call_many(echoes()).enumerate() {
            assert_eq!(answer.unwrap(), n.to_string());
        }
        // Dropped in the middle: the rest is discarded.
        assert!(client.call_many(echoes()).take(10).all(|answer| answer.is_ok()));
        assert_eq!(client.echo("own").unwrap(), "own");
    })
    .await
    .unwrap();
}

fn twenty_megabytes_round_trip_in_both_faces(address: &str) {
    let worker = echo_worker(address);
    let large = vec![7_u8; 20 << 20];
    let mut client = blocking::Client::connect(address).unwrap();
    let outcome = client.run("echo", &large, options()).unwrap();
    assert!(outcome.complete().is_some_and(|result| result == large));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let client = Client::connect(address).await.unwrap();
        let outcome = client.run("echo", &large, options()).await.unwrap();
        assert!(outcome.complete().is_some_and(|result| result == large));
    });
    worker.stop();
}

fn a_client_outlives_its_runtime(address: &str) {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let first = runtime();
    let client = first.block_on(Client::connect(address)).unwrap();
    assert_eq!(first.block_on(client.echo("first")).unwrap(), "first");
    drop(first);
    assert!(!client.is_connected());
    assert_eq!(runtime().block_on(client.echo("second")).unwrap(), "second");
}

fn a_stream_of_the_callers_own_serves_both_faces(address: &str) {
    let options: gearman_client::ConnectOptions = address.parse().unwrap();
    let stream = std::net::TcpStream::connect(address).unwrap();
    let mut client = blocking::Client::from_stream(stream, options.clone()).unwrap();
    assert_eq!(client.echo("own").unwrap(), "own");
    assert!(client.reconnect().is_err(), "it has only this stream");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let stream = tokio::net::TcpStream::connect(address).await.unwrap();
        let client = Client::from_stream(stream, options).await.unwrap();
        assert_eq!(client.echo("own").await.unwrap(), "own");
        assert!(client.reconnect().await.is_err());
    });
}

/// Asked again, one face said that no server could be reached, and the other that it had not been sent.
fn the_outcome_of_a_job_whose_end_was_read_is_given_again(address: &str) {
    let in_time = || options().timeout(LATE);
    let late = |error: gearman_client::Error| {
        let kind = ErrorKind::Timeout(gearman_client::Deadline::Job);
        assert_eq!((error.kind(), error.fate()), (kind, gearman_client::Fate::Unknown));
        assert!(error.handle().is_some() && error.unique().is_some(), "{error}");
    };
    let worker = echo_worker(address);
    let in_blocking = || {
        let mut client = blocking::Client::connect(address).unwrap();
        let mut job = client.submit("echo", "x", options()).unwrap();
        assert!(job.by_ref().all(|event| event.is_ok()));
        assert_eq!(job.outcome().unwrap(), Outcome::Complete("x".into()));
        let mut job = client.submit("nobody", "x", in_time()).unwrap();
        late(job.by_ref().find_map(Result::err).unwrap());
        late(job.outcome().unwrap_err());
        assert_eq!(client.echo("in step").unwrap(), "in step");
    };
    let in_async = async {
        let client = Client::connect(address).await.unwrap();
        let mut job = client.submit("echo", "x", options()).await.unwrap();
        while let Some(event) = job.next().await {
            event.unwrap();
        }
        assert_eq!(job.outcome().await.unwrap(), Outcome::Complete("x".into()));
        let mut job = client.submit("nobody", "x", in_time()).await.unwrap();
        late(job.next().await.unwrap().unwrap_err());
        late(job.outcome().await.unwrap_err());
        assert_eq!(client.echo("in step").await.unwrap(), "in step");
    };
    std::thread::scope(|scope| {
        scope.spawn(in_blocking);
        super::face::runtime().block_on(in_async);
    });
    worker.stop();
}

/// An iterator may have more behind its end, which a batch that has ended must not yield.
#[test]
fn a_batch_stays_ended() {
    fn requests<T>(one: impl Fn() -> T) -> impl Iterator<Item = T> {
        let mut taken = 0;
        std::iter::from_fn(move || {
            taken += 1;
            (taken % 3 != 0).then(&one)
        })
    }
    let echo = || Echo(b"x".as_slice());
    let submit = || Submit::foreground(function("echo"), "x", options()).unwrap();
    let server = fixtures::gearmand::Server::start().unwrap();
    let _worker = echo_worker(server.address());
    let mut client = blocking::Client::connect(server.address()).unwrap();
    let mut calls = client.call_many(requests(echo));
    assert_eq!((0..9).filter(|_| calls.next().is_some()).count(), 2, "blocking calls");
    drop(calls);
    let mut jobs = client.submit_many(requests(submit));
    let last = (0..9).filter_map(|_| jobs.next()).map(|(number, _)| number).max();
    assert_eq!(last, Some(1), "blocking jobs");
    drop(jobs);
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let client = Client::connect(server.address()).await.unwrap();
        let (mut calls, mut answers) = (client.call_many(requests(echo)), 0);
        for _ in 0..9 {
            answers += usize::from(calls.next().await.is_some());
        }
        assert_eq!(answers, 2, "async calls");
        let (mut jobs, mut last) = (client.submit_many(requests(submit)), None);
        for _ in 0..9 {
            last = jobs.next().await.map(|(number, _)| number).max(last);
        }
        assert_eq!(last, Some(1), "async jobs");
    });
}
