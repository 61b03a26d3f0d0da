//! Bugs reported against other clients and servers, each named by its report.

use std::{
    collections::HashSet,
    thread,
    time::{Duration, Instant},
};

use fixtures::{
    gearmand::Server,
    proxy::{Proxy, Toxics},
};
use gearman_client::{
    ConnectOptions, Deadline, ErrorKind, Fate, RetryPolicy, WorkerOptions, blocking,
    protocol::Submit,
};

use super::{
    face::{Async, Face, WorkFace, both_faces, scenarios},
    support::{Background, LATE, PATIENCE, function, options, real},
};

fn patient(server: &Server) -> ConnectOptions {
    let options: ConnectOptions = server.address().parse().unwrap();
    options.reply_timeout(PATIENCE).retry(RetryPolicy::new(3))
}

// A. The answer belongs to another request.

both_faces!(
    regress_redis_rs_275_a_lost_connection_ends_every_wait,
    regress_pheanstalk_303_a_dead_peer_is_noticed,
);

scenarios!(
    regress_go_redis_697_no_job_is_lost_when_it_comes_as_the_timeout_ends,
    regress_gearman_go_56_two_writers_never_interleave,
);

// B. A job is lost between the server and the caller.

/// redis/go-redis#697: the client's deadline raced the server's, and 56 of 388,344 elements were lost.
fn regress_go_redis_697_no_job_is_lost_when_it_comes_as_the_timeout_ends<F: Face>(address: &str) {
    const JOBS: usize = 300;
    let mut client = F::to(address);
    let mut worker = F::Worker::of("raced", address);
    let mut seen = HashSet::new();
    for n in 0..JOBS {
        client.submit_background("raced", n.to_string().as_bytes(), options()).unwrap();
        // The job is in flight when this gives up.
        let mut job = worker.next_within(Duration::from_micros(n as u64 % 7 * 50));
        if job.is_none() {
            job = worker.next_within(PATIENCE);
        }
        let job = job.expect("a job is lost");
        assert!(seen.insert(F::Worker::assignment(&job).workload.clone()));
        worker.complete(job, "").unwrap();
    }
    assert_eq!(worker.stop().completed, JOBS as u64);
}

// C. A call hangs forever.

/// redis-rs/redis-rs#275, valkey-io/valkey-glide#5892: a multiplexed connection hung when it was lost.
fn regress_redis_rs_275_a_lost_connection_ends_every_wait<F: Face>() {
    let server = Server::start().unwrap();
    let mut client = F::connect(patient(&server)).unwrap();
    let jobs: Vec<_> = (0..100_u8)
        .map(|n| Submit::foreground(function("f"), vec![n], options()).unwrap())
        .collect();
    let waits = thread::spawn(move || client.submit_many(jobs));
    assert!(server.wait_for(PATIENCE, |view| view.jobs == 100));
    server.reset_connections();
    let events = waits.join().unwrap();
    let errors: HashSet<_> = events
        .into_iter()
        .filter_map(|(number, event)| event.err().map(|error| (number, error.fate())))
        .collect();
    assert_eq!(errors, (0..100).map(|number| (number, Fate::Unknown)).collect());
}

/// pheanstalk/pheanstalk#303, mikopbx/Core#1010: the peer vanished without a word.
fn regress_pheanstalk_303_a_dead_peer_is_noticed<F: Face>() {
    let server = Server::start().unwrap();
    let [asked, worked] = [(); 2].map(|()| Proxy::start(server.socket_addr().unwrap()).unwrap());
    let quick = |proxy: &Proxy| {
        let options: ConnectOptions = proxy.address().to_string().parse().unwrap();
        options.reply_timeout(LATE).retry(RetryPolicy::new(20))
    };
    let mut client = F::connect(quick(&asked)).unwrap();
    let regrab = WorkerOptions::from(quick(&worked)).regrab(Duration::from_millis(100));
    let mut worker = F::Worker::of("f", regrab);
    assert!(worker.next_within(Duration::from_millis(10)).is_none());
    for proxy in [&asked, &worked] {
        proxy.spoil_replies(Toxics::new().silence());
        proxy.spoil_requests(Toxics::new().silence());
    }
    let before = worked.accepted();
    thread::scope(|scope| {
        scope.spawn(|| {
            let error = client.echo("x").unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Timeout(Deadline::Reply));
        });
        // The worker's next poll of the server is its probe, and it makes another connection.
        let silent = Instant::now();
        while worked.accepted() == before {
            assert!(worker.next_within(Duration::from_millis(50)).is_none());
            assert!(silent.elapsed() < PATIENCE, "it is not noticed");
        }
    });
    asked.heal();
    worked.heal();
    worked.reset_connections();
    assert_eq!(client.echo("own").unwrap(), "own");
    client.submit_background("f", b"x", options()).unwrap();
    worker.completes_next("");
    assert_eq!(worker.stop().completed, 1);
}

// D. A reconnect is incomplete.

// F. Framing and races.

/// mikespook/gearman-go#56, #94, #88: two writers interleaved, handlers raced.
fn regress_gearman_go_56_two_writers_never_interleave<F: Face>(address: &str) {
    let mut worker = blocking::Worker::connect(address).unwrap();
    worker.register("same", |job| job.workload.clone()).unwrap();
    let worker = Background::start(worker);
    let face = Async::to(address);
    face.runtime.block_on(async {
        let mut callers = tokio::task::JoinSet::new();
        for caller in 0..16_u8 {
            let client = face.client.clone();
            callers.spawn(async move {
                let own = vec![caller; 1 << (caller + 1)];
                for _ in 0..20 {
                    let outcome = client.run("same", &own, options()).await.unwrap();
                    assert!(outcome.complete().unwrap() == own);
                    assert!(client.echo(&own).await.unwrap() == own);
                }
            });
        }
        while let Some(caller) = callers.join_next().await {
            caller.unwrap();
        }
    });
    assert_eq!(worker.stop().completed, 320);
    // The blocking face has one writer; its jobs end in any order.
    drop(F::to(address));
}

// G. The life of workers.

/// The same with a real server that is frozen: the grace bounds it.
#[test]
fn regress_librdkafka_2006_stopping_under_a_frozen_server_ends_with_the_grace() {
    let Some(server) = real() else { return };
    let options: WorkerOptions = server.address().parse().unwrap();
    let grace = Duration::from_millis(200);
    let mut worker = blocking::Worker::of("f", options.clone().grace(grace));
    assert!(worker.next_job(Duration::from_millis(20)).unwrap().is_none());
    let in_async = super::face::AsyncWorker::connect(options.grace(grace)).unwrap();
    server.freeze().unwrap();
    let started = Instant::now();
    let _ = worker.stop();
    let _ = in_async.stop();
    assert!(started.elapsed() < PATIENCE);
    server.thaw().unwrap();
}
