//! Bugs reported against other clients, each as a test named by its report.

use std::{
    collections::HashSet,
    thread,
    time::{Duration, Instant},
};

use beanstalk_client::{
    ErrorKind, Fate, PutOptions, ReleaseOptions, Reserved, RetryPolicy,
    protocol::{ListTubeUsed, Put, ReserveWithTimeout},
};
use fixtures::{beanstalkd::Server, fault::Fault};
use queue_core::proof::drop_after;
use queue_core::proof::{Scripts, read_to_end};

use crate::support::{
    Async, Environment, Face, both_faces,
    place::{LATE, PATIENCE, connect, options},
    scenarios,
};

const NOW: Duration = Duration::ZERO;

// A. The reply belongs to someone else.

/// redis/redis-py#2624, #2665: a cancelled command left the connection off by one.
#[test]
fn regress_redis_py_2624_a_cancelled_command_does_not_shift_the_replies() {
    let server = Server::builder().virtual_clock().start().unwrap();
    let mut face: Async = connect(server.address());
    for tube in ["a", "b", "c"] {
        // As the report does: the reply comes only after the caller has gone.
        server.faults().add(Fault::nth(1).of("use").delay(LATE));
        let before = server.view().requests;
        let Async { client, runtime } = &mut face;
        let cancelled = runtime
            .block_on(async { tokio::time::timeout(LATE / 10, client.use_tube(tube)).await });
        assert!(cancelled.is_err());
        // The clock is turned only when the server counts from the command.
        assert!(server.wait_for(PATIENCE, move |view| view.requests > before));
        server.advance(LATE);
        assert!(face.peek(1).unwrap().is_none());
        assert_eq!(face.stats_tube("default").unwrap().unwrap().name, "default");
        assert_eq!(face.list_tube_used().unwrap(), tube);
    }
}

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

/// prisma/tiberius#79, #300; launchbadge/sqlx#563; long2ice/asyncmy#103: a dropped future corrupted the connection.
#[test]
fn regress_tiberius_300_a_half_written_command_is_finished_by_the_next_call() {
    const BODY: usize = 16 << 20;
    let server = Server::builder().max_job_size(BODY as u32).start().unwrap();
    let mut face: Async = connect(server.address());
    let body = vec![b'x'; BODY];
    for polls in 1..6 {
        let Async { client, runtime } = &mut face;
        let put = client.put(&body, PutOptions::default());
        let dropped = runtime.block_on(drop_after(polls, put));
        face.use_tube(&format!("after-{polls}")).unwrap();
        assert_eq!(face.list_tube_used().unwrap().as_str(), format!("after-{polls}"));
        // Once it was begun it has to be whole, or the rest would be read as commands.
        let jobs = server.view().jobs;
        assert_eq!(jobs, polls, "the put was ready: {}", dropped.is_some());
    }
}

both_faces!(
    regress_redis_rs_1252_a_timeout_invalidates_the_connection,
    regress_redis_rs_77_a_parse_error_closes_the_connection,
    regress_nodestalker_20_commands_work_after_timed_out,
    regress_beanstalkd_282_the_middle_of_a_body_is_never_a_status_line,
    regress_nats_rs_182_a_put_is_never_acknowledged_after_the_end,
    regress_redis_rs_275_a_lost_connection_ends_the_waiting_call,
    regress_greenstalk_16_a_timed_reserve_on_a_silent_server_ends,
    regress_node_beanstalk_733_no_waiter_is_left_pending_after_a_restart,
    regress_yii2_beanstalk_44_a_reconnect_watches_the_tubes_again,
    regress_em_jack_17_state_survives_a_second_failed_attempt,
    regress_beanstalkc_3_the_end_of_the_stream_is_a_lost_connection,
    regress_pheanstalk_268_deadline_soon_is_not_swallowed,
    regress_backburner_82_burying_after_the_time_to_run_is_not_found,
    regress_backburner_47_nothing_is_sent_behind_a_waiting_reserve,
    regress_archivematica_2371_an_ambiguous_put_fails_visibly,
    regress_iface_beanstalkc_5_the_length_of_a_body_is_in_bytes,
    regress_rust_beanstalkd_a_body_need_not_be_utf8_nor_come_in_one_read,
    regress_tokio_beanstalkd_bodies_with_spaces_and_ids_of_64_bits,
);

fn regress_redis_rs_1252_a_timeout_invalidates_the_connection<F: Face>() {
    let server = Server::start().unwrap();
    let mut client =
        F::connect(options(server.address()).reply_timeout(LATE).retry(RetryPolicy::new(3)))
            .unwrap();
    let epoch = client.epoch();
    server.faults().add(Fault::nth(1).of("use").delay(LATE * 2));
    let error = client.use_tube("stale").unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Timeout(_)));
    assert_eq!(client.list_tube_used().unwrap(), "default");
    assert_ne!(client.epoch(), epoch);
}

fn regress_redis_rs_77_a_parse_error_closes_the_connection<F: Face>() {
    let server = Server::start().unwrap();
    let mut client: F = connect(server.address());
    server.faults().add(Fault::nth(1).of("peek").reply("FOUND one two"));
    assert_eq!(client.peek(1).unwrap_err().kind(), ErrorKind::Protocol);
    assert!(!client.is_connected());
    assert_eq!(client.list_tube_used().unwrap(), "default");
}

fn regress_nodestalker_20_commands_work_after_timed_out<F: Face>() {
    let server = Server::start().unwrap();
    let mut client: F = connect(server.address());
    for _ in 0..3 {
        assert_eq!(client.reserve_with_timeout(NOW).unwrap(), Reserved::TimedOut);
        assert_eq!(client.list_tube_used().unwrap(), "default");
        let id = client.put(b"x", PutOptions::default()).unwrap().id();
        client.delete(id).unwrap();
    }
}

fn regress_beanstalkd_282_the_middle_of_a_body_is_never_a_status_line<F: Face>() {
    let server = Server::start().unwrap();
    let mut client: F = connect(server.address());
    let body = b"x\r\nDELETED\r\nRESERVED 9 1\r\ny\r\nNOT_FOUND\r\n\r\n";
    for pieces in 1..body.len() {
        server.faults().clear();
        server.faults().add(Fault::always().chunks(pieces));
        let id = client.put(body, PutOptions::default()).unwrap().id();
        let job = client.reserve().unwrap().job().unwrap();
        assert_eq!((job.id, &*job.body), (id, &body[..]));
        client.delete(&job).unwrap();
    }
}

// B. A job is lost between the server and the caller.

scenarios!(regress_go_redis_697_no_job_is_lost_when_it_comes_as_the_timeout_ends);

/// redis/go-redis#697: the client's deadline raced the server's, and 56 of 388,344 elements were lost.
fn regress_go_redis_697_no_job_is_lost_when_it_comes_as_the_timeout_ends<F: Face>(
    environment: Environment,
) {
    const ROUNDS: u32 = 40;
    let place = environment.start();
    let mut producer: F = place.connect();
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

/// valkey-io/valkey-glide#4673: a cancelled BLPOP still consumed the next element. go-beanstalk#47: what cancelling a
/// reserve means was never decided.
#[test]
fn regress_valkey_glide_4673_a_cancelled_reserve_consumes_no_job() {
    let server = Server::start().unwrap();
    let mut face: Async = connect(server.address());
    let mut producer: Async = connect(server.address());
    for round in 0..20 {
        let Async { client, runtime } = &mut face;
        let cancelled =
            runtime.block_on(async { tokio::time::timeout(NOW, client.reserve()).await });
        assert!(cancelled.is_err());
        let id = producer.put(b"x", PutOptions::default()).unwrap().id();
        let job = face.reserve().unwrap().job().unwrap();
        assert_eq!(job.id, id, "round {round}");
        face.delete(&job).unwrap();
    }
    assert_eq!(server.view().jobs, 0);
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

fn regress_redis_rs_275_a_lost_connection_ends_the_waiting_call<F: Face>() {
    let server = Server::start().unwrap();
    let mut client: F = connect(server.address());
    let waits = thread::spawn(move || client.reserve().unwrap_err());
    assert!(server.wait_for(PATIENCE, |view| view.waiting == 1));
    server.reset_connections();
    let error = waits.join().unwrap();
    assert_eq!((error.kind(), error.fate()), (ErrorKind::ConnectionLost, Fate::Unknown));
}

fn regress_greenstalk_16_a_timed_reserve_on_a_silent_server_ends<F: Face>() {
    let server = Scripts::start(|_, mut stream| read_to_end(&mut stream));
    let options = options(&server.address()).reply_timeout(LATE);
    let mut client = F::connect(options).unwrap();
    let started = Instant::now();
    let error = client.reserve_with_timeout(NOW).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Timeout(_)), "{error}");
    assert!(started.elapsed() < PATIENCE);
}

fn regress_node_beanstalk_733_no_waiter_is_left_pending_after_a_restart<F: Face>() {
    let server = Server::start().unwrap();
    server.faults().add(Fault::nth(3).of("put").unexecuted().hang());
    let mut client: F = connect(server.address());
    let handle = server.stop_handle();
    let stops = thread::spawn(move || {
        assert!(server.wait_for(PATIENCE, |view| view.requests >= 3));
        handle.stop();
        drop(server);
    });
    let replies = client.call_many((0..6).map(|_| Put::new("x", PutOptions::default()).unwrap()));
    stops.join().unwrap();
    assert_eq!(replies.len(), 6);
    assert!(replies[2..].iter().all(Result::is_err));
}

// D. A reconnect is incomplete.

fn regress_yii2_beanstalk_44_a_reconnect_watches_the_tubes_again<F: Face>() {
    let server = Server::start().unwrap();
    let mut client: F = connect(server.address());
    client.watch("work").unwrap();
    client.ignore("default").unwrap();
    server.faults().add(Fault::nth(1).of("reserve-with-timeout").cut_after(0));
    client.reserve_with_timeout(NOW).unwrap_err();
    let mut producer: F = connect(server.address());
    producer.use_tube("work").unwrap();
    let id = producer.put(b"x", PutOptions::default()).unwrap().id();
    assert_eq!(client.reserve_with_timeout(PATIENCE).unwrap().job().unwrap().id, id);
}

fn regress_em_jack_17_state_survives_a_second_failed_attempt<F: Face>() {
    let server = Server::start().unwrap();
    let mut client: F = connect(server.address());
    client.use_tube("work").unwrap();
    client.watch("work").unwrap();
    server.faults().add(Fault::nth(1).of("peek").cut_after(0));
    for _ in 0..3 {
        server.faults().add(Fault::nth(1).of("watch").reset_after(0));
    }
    client.peek(1).unwrap_err();
    let failures = (0..10).take_while(|_| client.list_tube_used().is_err()).count();
    assert!(failures >= 1);
    assert_eq!(client.list_tube_used().unwrap(), "work");
    assert_eq!(client.list_tubes_watched().unwrap(), ["default", "work"]);
}

/// earl/beanstalkc#3 (IndexError), beanstalkd/beaneater#24 (nil.chomp), beanstalkd/go-beanstalk#52 (nil pointer).
fn regress_beanstalkc_3_the_end_of_the_stream_is_a_lost_connection<F: Face>() {
    let server = Server::start().unwrap();
    let mut client: F = connect(server.address());
    for cut in [0, 1, 5] {
        server.faults().add(Fault::nth(1).of("list-tube-used").cut_after(cut));
        let error = client.list_tube_used().unwrap_err();
        assert_eq!((error.kind(), error.fate()), (ErrorKind::ConnectionLost, Fate::Unknown));
    }
    assert_eq!(client.list_tube_used().unwrap(), "default");
}

// E. The lease.

/// pheanstalk/pheanstalk#268: it was swallowed and the job ran twice. xobotyi/beansclient#3: it was an error.
fn regress_pheanstalk_268_deadline_soon_is_not_swallowed<F: Face>() {
    let server = Server::builder().virtual_clock().start().unwrap();
    let mut client: F = connect(server.address());
    let options = PutOptions::default().ttr(Duration::from_secs(10));
    let _ = client.put(b"x", options).unwrap();
    let job = client.reserve().unwrap().job().unwrap();
    server.advance(Duration::from_millis(9500));
    assert_eq!(client.reserve_with_timeout(PATIENCE).unwrap(), Reserved::DeadlineSoon);
    client.touch(&job).unwrap();
    server.advance(Duration::from_millis(8500));
    client.delete(&job).unwrap();
}

fn regress_backburner_82_burying_after_the_time_to_run_is_not_found<F: Face>() {
    let server = Server::builder().virtual_clock().start().unwrap();
    let mut client: F = connect(server.address());
    let options = PutOptions::default().ttr(Duration::from_secs(10));
    let _ = client.put(b"x", options).unwrap();
    let job = client.reserve().unwrap().job().unwrap();
    server.advance(Duration::from_secs(11));
    for error in [
        client.bury(&job, 0).unwrap_err(),
        client.release(&job, ReleaseOptions::new(0)).unwrap_err(),
        client.touch(&job).unwrap_err(),
    ] {
        assert_eq!((error.kind(), error.fate()), (ErrorKind::NotFound, Fate::Refused));
    }
    assert!(client.is_connected());
}

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
    let server = Server::start().unwrap();
    let mut client: F = connect(server.address());
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

/// artefactual/archivematica PR #2371, as good practice.
fn regress_archivematica_2371_an_ambiguous_put_fails_visibly<F: Face>() {
    let server = Server::start().unwrap();
    let mut client: F = connect(server.address());
    server.faults().add(Fault::nth(1).of("put").executed().reset_after(0));
    let error = client.put(b"x", PutOptions::default()).unwrap_err();
    assert_eq!(error.fate(), Fate::Unknown);
    assert_eq!(server.view().jobs, 1);
}

/// iFaceless/beanstalkc-rust PR #5, divmgl/jackd#24: lengths in characters.
fn regress_iface_beanstalkc_5_the_length_of_a_body_is_in_bytes<F: Face>() {
    let server = Server::start().unwrap();
    let mut client: F = connect(server.address());
    let body = "gr\u{fc}\u{df} \u{1f980}".as_bytes();
    let id = client.put(body, PutOptions::default()).unwrap().id();
    assert_eq!(client.peek(id).unwrap().unwrap().body, body);
    assert_eq!(server.requests()[0].text(), format!("put 1024 0 60 {}", body.len()));
}

/// rust-beanstalkd: `read` instead of `read_exact`, bodies had to be UTF-8, the result of `write` was ignored.
fn regress_rust_beanstalkd_a_body_need_not_be_utf8_nor_come_in_one_read<F: Face>() {
    let server = Server::start().unwrap();
    let mut client: F = connect(server.address());
    let body: Vec<u8> = (0..60_000_u32).map(|n| (n % 251) as u8 | 0x80).collect();
    let _ = client.put(&body, PutOptions::default()).unwrap();
    server.faults().add(Fault::nth(1).of("reserve-with-timeout").chunks(1000));
    assert_eq!(client.reserve().unwrap().job().unwrap().body, body);
}

/// tokio-beanstalkd: bodies cut at the first space, partial lines thrown away, ids of 32 bits.
fn regress_tokio_beanstalkd_bodies_with_spaces_and_ids_of_64_bits<F: Face>() {
    let server = Server::start().unwrap();
    let mut client: F = connect(server.address());
    let _ = client.put(b"a body with spaces", PutOptions::default()).unwrap();
    server.faults().add(Fault::nth(1).of("peek-ready").chunks(1));
    assert_eq!(client.peek_ready().unwrap().unwrap().body, "a body with spaces");
    let reply = format!("RESERVED {} 1\r\nx\r\n", u64::MAX);
    server.faults().add(Fault::nth(1).of("reserve-with-timeout").reply_bytes(reply));
    assert_eq!(client.reserve().unwrap().job().unwrap().id.get(), u64::MAX);
}
