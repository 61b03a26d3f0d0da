//! Bugs reported against other clients, each as a test named by its report.

use std::{
    collections::HashSet,
    thread,
    time::{Duration, Instant},
};

use beanstalk_client::{
    PutOptions, Reserved, RetryPolicy,
    protocol::{ListTubeUsed, ReserveWithTimeout},
};
use fixtures::beanstalkd::Server;
use queue_core::proof::drop_after;

use crate::support::{
    Async, Environment, Face, both_faces,
    place::{LATE, PATIENCE, connect, options, start},
    scenarios,
};

// A. The reply belongs to someone else.

/// deadpool-rs/deadpool#102: every GET returned `PONG`, for days.
#[test]
fn regress_deadpool_102_replies_stay_right_after_hundreds_of_cancelled_calls() {
    let server = Server::start().unwrap();
    let mut face: Async = connect(server.address());
    let epoch = face.epoch();
    for round in 0..300 {
        let Async { client, runtime } = &mut face;
        runtime.block_on(async {
            match round % 3 {
                0 => drop(drop_after(round % 4, client.list_tube_used()).await),
                1 => drop(drop_after(round % 4, client.stats()).await),
                _ => drop(drop_after(round % 4, client.peek_ready()).await),
            }
        });
        let tube = format!("t{round}");
        face.use_tube(&tube).unwrap();
        assert_eq!(face.list_tube_used().unwrap().as_str(), tube);
    }
    assert_eq!(face.epoch(), epoch);
}

both_faces!(
    regress_nats_rs_182_a_put_is_never_acknowledged_after_the_end,
    regress_backburner_47_nothing_is_sent_behind_a_waiting_reserve,
);

// B. A job is lost between the server and the caller.

scenarios!(regress_go_redis_697_no_job_is_lost_when_it_comes_as_the_timeout_ends);

/// redis/go-redis#697: the client's deadline raced the server's, and 56 of 388,344 elements were lost.
fn regress_go_redis_697_no_job_is_lost_when_it_comes_as_the_timeout_ends<F: Face>(
    environment: Environment,
) {
    const ROUNDS: u32 = 40;
    let (place, mut producer) = environment.with_client::<F>();
    // Each job becomes ready in the very second in which a reserve for it ends.
    let consumers: Vec<_> = (0..ROUNDS)
        .map(|number| {
            let tube = format!("tube-{number}");
            let mut client: F = place.connect();
            client.watch(&tube).unwrap();
            client.ignore("default").unwrap();
            producer.use_tube(&tube).unwrap();
            let _ =
                producer.put(b"x", PutOptions::default().delay(Duration::from_secs(1))).unwrap();
            thread::spawn(move || {
                let first = client.reserve_with_timeout(Duration::from_secs(1)).unwrap();
                let job = match first.job() {
                    Some(job) => job,
                    None => client.reserve_with_timeout(PATIENCE).unwrap().job().unwrap(),
                };
                client.delete(&job).unwrap();
                job.id
            })
        })
        .collect();
    let ids: HashSet<_> = consumers.into_iter().map(|thread| thread.join().unwrap()).collect();
    assert_eq!(ids.len(), ROUNDS as usize);
    let stats = producer.stats().unwrap();
    assert_eq!((stats.current_jobs_reserved, stats.current_jobs_ready), (0, 0));
}

/// nats-io/nats.rs#182, nats-io/nats.net.v1#271: publish returned Ok after the disconnect.
fn regress_nats_rs_182_a_put_is_never_acknowledged_after_the_end<F: Face>() {
    let server = Server::start().unwrap();
    let never = options(server.address()).connect_timeout(LATE).retry(RetryPolicy::never());
    let mut client = F::connect(never).unwrap();
    drop(server);
    for _ in 0..5 {
        client.put(b"x", PutOptions::default()).unwrap_err();
    }
}

// C. A call hangs forever.

// D. A reconnect is incomplete.

// E. The lease.

scenarios!(regress_beanstalkd_78_every_waiter_gets_its_timeout);

/// beanstalkd/beanstalkd#78, #104: while one connection waited, a second one never got its TIMED_OUT.
fn regress_beanstalkd_78_every_waiter_gets_its_timeout<F: Face>(environment: Environment) {
    let server = environment.start();
    let second = Duration::from_secs(1);
    let waiters: Vec<_> = (1..=3_u32)
        .map(|times| {
            let mut client: F = connect(server.address());
            let wait = second * times.min(2);
            thread::spawn(move || (client.reserve_with_timeout(wait).unwrap(), wait))
        })
        .collect();
    let start = Instant::now();
    for waiter in waiters {
        let (outcome, wait) = waiter.join().unwrap();
        assert_eq!(outcome, Reserved::TimedOut);
        assert!(start.elapsed() + second / 2 > wait, "it was early");
    }
}

/// nesquena/backburner#47, jennings/Turbocharged.Beanstalk#3, beanstalkd/beanstalkd#647.
fn regress_backburner_47_nothing_is_sent_behind_a_waiting_reserve<F: Face>() {
    let (server, mut client) = start::<F>();
    // A pipeline that ends its caller's interest leaves such a reserve behind on either face.
    let long = ReserveWithTimeout::new(Duration::from_secs(3600)).unwrap();
    let _ = client.put(b"x", PutOptions::default()).unwrap();
    let job = client.call_some(2, 1, [long, long]).remove(0).unwrap().job().unwrap();
    assert!(server.wait_for(PATIENCE, |view| view.waiting == 1));
    // The delete is carried out at once, not after an hour.
    client.delete(&job).unwrap();
    assert_eq!(server.view().jobs, 0);
    assert_eq!(client.call(&ListTubeUsed).unwrap(), "default");
}

// F. Framing.
