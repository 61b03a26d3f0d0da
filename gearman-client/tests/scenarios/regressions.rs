//! Bugs reported against other clients and servers, each named by its report.

use std::{
    collections::HashSet,
    future::poll_fn,
    io::{Read, Write},
    net::TcpListener,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::Poll,
    thread,
    time::{Duration, Instant},
};

use fixtures::{
    fault::Fault,
    gearmand::Server,
    proxy::{Proxy, Toxics},
};
use gearman_client::{
    ConnectOptions, Deadline, ErrorKind, Failure, Fate, JobEvent, Outcome, RetryPolicy, Servers,
    Unique, UniqueId, WorkerOptions, blocking,
    protocol::{Echo, PacketType, Submit},
};

use super::{
    face::{Async, Face, WorkFace, both_faces, scenarios},
    support::{Background, LATE, PATIENCE, Peer, function, options, real},
};

fn late(server: &Server) -> ConnectOptions {
    patient(server).reply_timeout(LATE)
}

fn patient(server: &Server) -> ConnectOptions {
    let options: ConnectOptions = server.address().parse().unwrap();
    options.reply_timeout(PATIENCE).retry(RetryPolicy::new(3))
}

// A. The answer belongs to somebody else.

/// redis/redis-py#2624, #2665: a cancelled command left the connection off by one, and the next caller got its answer.
/// deadpool-rs/deadpool#102: every GET returned `PONG` for days.
#[test]
fn regress_redis_py_2624_a_cancelled_call_leaves_its_answer_to_nobody() {
    let server = Server::start().unwrap();
    server.faults().add(Fault::always().of("ECHO_REQ").delay(Duration::from_millis(5)));
    let face = Async::to(server.address());
    for round in 0..20 {
        let client = &face.client;
        face.runtime.block_on(async {
            {
                let mut cancelled = pin!(client.echo("stale"));
                // Polled once, and therefore in flight.
                let first = poll_fn(|cx| Poll::Ready(cancelled.as_mut().poll(cx))).await;
                assert!(first.is_pending());
            }
            let own = format!("own {round}");
            assert_eq!(client.echo(&own).await.unwrap(), own);
        });
    }
}

both_faces!(
    regress_redis_rs_1252_a_timeout_invalidates_the_connection,
    regress_redis_rs_77_a_parse_error_closes_the_connection,
    regress_nats_rs_182_a_submission_is_never_acknowledged_after_the_end,
    regress_redis_rs_275_a_lost_connection_ends_every_wait,
    regress_redis_rs_1541_the_time_in_the_queue_counts,
    regress_redis_rs_1955_both_sides_may_write_at_once,
    regress_nats_rs_1526_the_greeting_has_a_deadline,
    regress_pheanstalk_303_a_dead_peer_is_noticed,
    regress_node_beanstalk_733_no_waiter_is_left_pending_after_a_restart,
    regress_anyevent_gearman_7_a_server_lost_behind_job_created_ends_the_wait,
    regress_gearman_node_13_functions_are_registered_again,
    regress_gearmand_62_no_call_fails_first_after_a_failover,
    regress_python_gearman_47_no_server_is_abandoned_in_silence,
    regress_beanstalkc_3_the_end_of_the_stream_is_a_lost_connection,
    regress_gearman_go_26_a_packet_larger_than_a_read_is_whole,
    regress_python_gearman_37_a_missed_wake_up_is_made_up_for,
    regress_gearmand_343_text_where_a_packet_belongs_is_an_error,
    regress_net_gearman_11_a_server_that_accepts_and_closes_is_not_hammered,
    regress_archivematica_2371_an_ambiguous_submission_fails_visibly,
    regress_gearmand_312_a_job_ends_only_once,
);

scenarios!(
    regress_go_redis_697_no_job_is_lost_when_it_comes_as_the_timeout_ends,
    regress_gearman_go_9_random_ids_join_nothing,
    regress_ngaut_gearmand_8_another_worker_ends_the_wait,
    regress_gearmand_301_a_refused_result_costs_no_job,
    regress_gearman_go_56_two_writers_never_interleave,
    regress_apalis_639_a_panic_ends_a_job_and_not_the_worker,
    regress_net_gearman_25_an_exception_does_not_stall_the_worker,
    regress_librdkafka_2006_stopping_does_not_hang,
);

fn regress_redis_rs_1252_a_timeout_invalidates_the_connection<F: Face>() {
    let server = Server::start().unwrap();
    let mut client = F::connect(late(&server)).unwrap();
    client.echo("first").unwrap();
    let epochs = client.epochs();
    server.faults().add(Fault::nth(1).of("ECHO_REQ").delay(LATE * 2));
    let error = client.echo("stale").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout(Deadline::Reply));
    assert_eq!(client.echo("own").unwrap(), "own");
    assert_ne!(client.epochs(), epochs);
}

fn regress_redis_rs_77_a_parse_error_closes_the_connection<F: Face>() {
    let server = Server::start().unwrap();
    let mut client = F::connect(patient(&server)).unwrap();
    server.faults().add(Fault::nth(1).of("ECHO_REQ").reply_bytes(*b"\0RES\0\0\0\x2b\0\0\0\0"));
    assert_eq!(client.echo("x").unwrap_err().kind(), ErrorKind::Protocol);
    assert!(!client.is_connected());
    assert_eq!(client.echo("own").unwrap(), "own");
}

// B. A job is lost between the server and the caller.

/// redis/go-redis#697: the client's deadline raced the server's, and 56 of 388,344 elements were lost.
fn regress_go_redis_697_no_job_is_lost_when_it_comes_as_the_timeout_ends<F: Face>(address: &str) {
    const JOBS: usize = 300;
    let mut client = F::to(address);
    let mut worker = F::Worker::connect(address).unwrap();
    worker.can_do("raced");
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

/// nats-io/nats.rs#182: publish returned Ok after the disconnect.
fn regress_nats_rs_182_a_submission_is_never_acknowledged_after_the_end<F: Face>() {
    let server = Server::start().unwrap();
    let options_ = patient(&server).retry(RetryPolicy::never());
    let mut client = F::connect(options_).unwrap();
    drop(server);
    for _ in 0..5 {
        client.submit_background("f", b"x", options()).unwrap_err();
    }
}

/// mikespook/gearman-go#9, mmoreram/GearmanBundle#63 (1 of 500 jobs ran), gearman/gearmand#80.
fn regress_gearman_go_9_random_ids_join_nothing<F: Face>(address: &str) {
    let mut client = F::to(address);
    let submits = (0..500)
        .map(|_| Submit::background(function("alike"), "the same", options()).unwrap())
        .collect();
    let handles: HashSet<_> = client
        .call_many(submits)
        .into_iter()
        .map(|submitted| submitted.unwrap().handle.name().to_vec())
        .collect();
    assert_eq!(handles.len(), 500);
    // Joining is requested explicitly.
    let same = options().unique(Unique::Id(UniqueId::try_from("same").unwrap()));
    let first = client.submit_background("alike", b"a", same).unwrap().handle;
    assert_eq!(client.submit_background("alike", b"b", same).unwrap().handle, first);
}

// C. Somebody waits forever.

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

/// redis-rs/redis-rs#1541: a call that waited for its turn had no deadline.
fn regress_redis_rs_1541_the_time_in_the_queue_counts<F: Face>() {
    let server = Server::start().unwrap();
    server.faults().add(Fault::nth(3).of("ECHO_REQ").hang());
    let mut client = F::connect(late(&server)).unwrap();
    let started = Instant::now();
    let answers = client.call_many((0..600).map(|n| Echo(n.to_string())).collect());
    assert!(started.elapsed() < PATIENCE);
    assert_eq!(answers.len(), 600);
    for (n, answer) in answers.into_iter().enumerate() {
        match answer {
            Ok(own) => assert_eq!(own, n.to_string()),
            Err(error) => assert!(n >= 2 && error.fate() != Fate::Refused, "{n}: {error}"),
        }
    }
}

/// redis-rs/redis-rs#1955: a TCP deadlock, when both sides wait for the other to read.
fn regress_redis_rs_1955_both_sides_may_write_at_once<F: Face>() {
    // An echo server of one thread with small habits: it reads nothing while it writes.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        loop {
            let mut header = [0; 12];
            if stream.read_exact(&mut header).is_err() {
                return;
            }
            let size = u32::from_be_bytes(header[8..].try_into().unwrap());
            let mut body = vec![0; size as usize];
            stream.read_exact(&mut body).unwrap();
            // ECHO_RES and OPTION_RES follow their requests by number.
            header[3] = b'S';
            header[7] += 1;
            stream.write_all(&header).unwrap();
            stream.write_all(&body).unwrap();
        }
    });
    let mut client = F::to(&address);
    let large = vec![7_u8; 4 << 20];
    let answers = client.call_many((0..8).map(|_| Echo(large.clone())).collect());
    assert!(answers.into_iter().all(|answer| answer.unwrap() == large));
    drop(client);
    server.join().unwrap();
}

/// nats-io/nats.rs#1526: the server accepted and said nothing.
fn regress_nats_rs_1526_the_greeting_has_a_deadline<F: Face>() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let options: ConnectOptions = silent.local_addr().unwrap().to_string().parse().unwrap();
    // The reply to the first request is not awaited, because some servers leave it unanswered; later ones are.
    let options = options.reply_timeout(LATE).retry(RetryPolicy::never());
    let mut client = F::connect(options).unwrap();
    let error = client.echo("x").unwrap_err();
    assert_eq!((error.kind(), error.fate()), (ErrorKind::Timeout(Deadline::Reply), Fate::Unknown));
}

/// pheanstalk/pheanstalk#303, mikopbx/Core#1010: the peer vanished without a word.
fn regress_pheanstalk_303_a_dead_peer_is_noticed<F: Face>() {
    let server = Server::start().unwrap();
    let proxy = Proxy::start(server.socket_addr().unwrap()).unwrap();
    let quick: ConnectOptions = proxy.address().to_string().parse().unwrap();
    let quick = quick.reply_timeout(LATE).retry(RetryPolicy::new(20));
    let mut client = F::connect(quick.clone()).unwrap();
    let regrab = WorkerOptions::from(quick).regrab(LATE);
    let mut worker = F::Worker::connect(regrab).unwrap();
    worker.can_do("f");
    assert!(worker.next_within(Duration::from_millis(10)).is_none());
    proxy.spoil_replies(Toxics::new().silence());
    proxy.spoil_requests(Toxics::new().silence());
    let error = client.echo("x").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout(Deadline::Reply));
    // The worker's next poll of the server is its probe.
    assert!(worker.next_within(LATE * 2).is_none());
    proxy.heal();
    assert_eq!(client.echo("own").unwrap(), "own");
    client.submit_background("f", b"x", options()).unwrap();
    let job = worker.next();
    worker.complete(job, "").unwrap();
    assert_eq!(worker.stop().completed, 1);
}

/// xobotyi/node-beanstalk#733, #751: the promise at the head of the queue was pending forever after a restart.
fn regress_node_beanstalk_733_no_waiter_is_left_pending_after_a_restart<F: Face>() {
    let server = Server::start().unwrap();
    server.faults().add(Fault::nth(3).of("ECHO_REQ").hang());
    let options: ConnectOptions = server.address().parse().unwrap();
    let mut client = F::connect(options.retry(RetryPolicy::never())).unwrap();
    let waits =
        thread::spawn(move || client.call_many((0..6).map(|n| Echo(n.to_string())).collect()));
    assert!(server.wait_for(PATIENCE, |view| view.requests >= 4));
    drop(server);
    let answers = waits.join().unwrap();
    assert_eq!(answers.len(), 6);
    assert!(answers[2..].iter().all(Result::is_err));
}

/// typester/anyevent-gearman-perl#7: no callback.
fn regress_anyevent_gearman_7_a_server_lost_behind_job_created_ends_the_wait<F: Face>() {
    let server = Server::start().unwrap();
    let mut client = F::connect(patient(&server).retry(RetryPolicy::never())).unwrap();
    let waits = thread::spawn(move || client.run("f", b"", options()).unwrap_err());
    assert!(server.wait_for(PATIENCE, |view| view.jobs == 1));
    drop(server);
    let error = waits.join().unwrap();
    assert_eq!((error.kind(), error.fate()), (ErrorKind::ConnectionLost, Fate::Unknown));
    assert!(error.unique().is_some());
}

/// ngaut/gearmand#8: the worker died, and the client waited.
fn regress_ngaut_gearmand_8_another_worker_ends_the_wait<F: Face>(address: &str) {
    let mut worker = F::Worker::connect(address).unwrap();
    worker.can_do("died");
    let at = address.to_owned();
    let waits = thread::spawn(move || F::to(&at).run("died", b"", options()).unwrap());
    let job = worker.next();
    drop(worker);
    drop(job);
    let mut second = F::Worker::connect(address).unwrap();
    second.can_do("died");
    let job = second.next();
    second.complete(job, "r").unwrap();
    assert_eq!(waits.join().unwrap(), Outcome::Complete("r".into()));
    assert_eq!(second.stop().completed, 1);
}

// D. A reconnect is incomplete.

/// graveyard/gearman-node#13, sni/mod_gearman#73, veny/GearmaNode#24, gearman/gearmand#344.
fn regress_gearman_node_13_functions_are_registered_again<F: Face>() {
    let server = Server::start().unwrap();
    let mut client = F::to(server.address());
    let id = gearman_client::ClientId::try_from("again").unwrap();
    let mut worker =
        F::Worker::connect(WorkerOptions::from(patient(&server)).client_id(id)).unwrap();
    worker.can_do("one");
    worker.can_do("two");
    for round in 0..5 {
        assert!(worker.next_within(Duration::from_millis(20)).is_none());
        server.reset_connections();
        for function in ["one", "two"] {
            // Its own connection was reset, too.
            let _ = client.reconnect();
            client.submit_background(function, b"x", options()).unwrap();
            let job = worker.next();
            worker.complete(job, "").unwrap();
            worker.barrier().unwrap();
        }
        let mut admin = blocking::Admin::connect(server.address()).unwrap();
        let workers = admin.workers().unwrap();
        let row = workers.iter().find(|row| row.id.as_deref() == Some("again")).unwrap();
        assert_eq!(row.functions, ["two", "one"], "round {round}");
    }
    assert_eq!(worker.stop().completed, 10);
}

fn regress_gearmand_62_no_call_fails_first_after_a_failover<F: Face>() {
    let (one, two) = (Server::start().unwrap(), Server::start().unwrap());
    let both: Servers = format!("{},{}", one.address(), two.address()).parse().unwrap();
    let mut client = F::connect(both).unwrap();
    client.submit_background("f", b"x", options()).unwrap();
    drop(one);
    for n in 1..=20 {
        client.submit_background("f", b"x", options().idempotent(true)).unwrap();
        assert_eq!(two.view().jobs, n);
    }
}

/// YelpArchive/python-gearman#47: one of two servers was never asked again.
fn regress_python_gearman_47_no_server_is_abandoned_in_silence<F: Face>() {
    let (one, two) = (Server::start().unwrap(), Server::start().unwrap());
    let both: WorkerOptions = format!("{},{}", one.address(), two.address()).parse().unwrap();
    let mut worker = F::Worker::connect(both).unwrap();
    worker.can_do("f");
    for round in 0..6 {
        let server = if round % 2 == 0 { &one } else { &two };
        server.reset_connections();
        let mut client = F::to(server.address());
        client.submit_background("f", b"x", options()).unwrap();
        let job = worker.next();
        let origin = F::Worker::assignment(&job).handle.server().unwrap().to_string();
        assert_eq!(origin, server.address(), "round {round}");
        worker.complete(job, "").unwrap();
        worker.barrier().unwrap();
    }
    assert_eq!(worker.stop().completed, 6);
}

/// earl/beanstalkc#3 (IndexError), beanstalkd/beaneater#24 (nil.chomp), beanstalkd/go-beanstalk#52 (nil pointer).
fn regress_beanstalkc_3_the_end_of_the_stream_is_a_lost_connection<F: Face>() {
    let server = Server::start().unwrap();
    let mut client = F::connect(patient(&server)).unwrap();
    for cut in [0, 1, 11, 12, 13] {
        server.faults().add(Fault::nth(1).of("ECHO_REQ").cut_after(cut));
        let error = client.echo("hello").unwrap_err();
        assert_eq!((error.kind(), error.fate()), (ErrorKind::ConnectionLost, Fate::Unknown));
    }
    assert_eq!(client.echo("own").unwrap(), "own");
}

// F. Framing and races.

/// mikespook/gearman-go#26: a panic for a packet of more than 1024 bytes that had not arrived whole.
fn regress_gearman_go_26_a_packet_larger_than_a_read_is_whole<F: Face>() {
    let server = Server::start().unwrap();
    let mut client = F::to(server.address());
    for (size, pieces) in [(1025, 1024), (5000, 100), (200_000, 4097), (65_536, 65_535)] {
        server.faults().add(Fault::nth(1).of("ECHO_REQ").chunks(pieces));
        let data = "x".repeat(size);
        assert_eq!(client.echo(&data).unwrap(), data);
    }
}

/// mikespook/gearman-go#56, #94, #88: two writers interleaved, handlers raced.
fn regress_gearman_go_56_two_writers_never_interleave<F: Face>(address: &str) {
    let mut worker = blocking::Worker::connect(address).unwrap();
    worker.register("same", |job| Ok(job.workload.clone())).unwrap();
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

/// gearman/gearmand#232 is `worker_faults::a_flood_of_noop_costs_next_to_nothing`. YelpArchive/python-gearman#37.
fn regress_python_gearman_37_a_missed_wake_up_is_made_up_for<F: Face>() {
    let server = Server::builder().mute_wakeups().start().unwrap();
    let options_ = WorkerOptions::from(patient(&server)).regrab(Duration::from_millis(100));
    let mut worker = F::Worker::connect(options_).unwrap();
    worker.can_do("f");
    worker.fall_asleep(&server);
    F::to(server.address()).submit_background("f", b"x", options()).unwrap();
    let job = worker.next();
    worker.complete(job, "").unwrap();
    assert_eq!(worker.stop().completed, 1);
}

/// gearman/gearmand#301, #125: after a timeout of the server the worker saw an ERROR where it expected a job.
fn regress_gearmand_301_a_refused_result_costs_no_job<F: Face>(address: &str) {
    let mut client = F::to(address);
    let mut timed = blocking::Worker::connect(address).unwrap();
    timed.can_do("timed", Some(LATE)).unwrap();
    client.submit_background("timed", b"1", options()).unwrap();
    let late = timed.next_job(PATIENCE).unwrap().unwrap();
    // The server has given it to another when that has it.
    let mut other = F::Worker::connect(address).unwrap();
    other.can_do("timed");
    let again = other.next();
    other.complete(again, "").unwrap();
    assert_eq!(other.stop().completed, 1);
    timed.complete(late, "").unwrap();
    client.submit_background("timed", b"2", options()).unwrap();
    let next = timed.next_job(PATIENCE).unwrap().unwrap();
    assert_eq!(next.workload, "2");
    timed.complete(next, "").unwrap();
    let report = timed.stop();
    assert_eq!((report.completed, report.rejected), (1, 1));
}

/// gearman/gearmand#312: the server crashed on an exception after a result; #316 on mixed text.
fn regress_gearmand_312_a_job_ends_only_once<F: Face>() {
    let server = Server::start().unwrap();
    let mut client = F::to(server.address());
    client.submit_background("f", b"x", options()).unwrap();
    let mut worker = F::Worker::connect(server.address()).unwrap();
    worker.can_do("f");
    let job = worker.next();
    // Ending it consumes it, so there is no second end to write down here.
    worker.complete(job, "r").unwrap();
    assert_eq!(worker.stop().completed, 1);
    let ends = |request: &fixtures::gearmand::Request| {
        ["WORK_COMPLETE", "WORK_FAIL", "WORK_EXCEPTION"]
            .iter()
            .any(|end| request.text().starts_with(end))
    };
    assert_eq!(server.requests().iter().filter(|request| ends(request)).count(), 1);
}

fn regress_gearmand_343_text_where_a_packet_belongs_is_an_error<F: Face>() {
    let (address, server) = Peer::serve(vec![
        Box::new(|mut peer: Peer| {
            peer.expect(PacketType::CanDo);
            peer.expect(PacketType::GrabJobAll);
            peer.write_bytes(b"ERR UNKNOWN_COMMAND\r\n");
            peer.wait_for_end();
        }),
        Box::new(|mut peer: Peer| {
            peer.expect(PacketType::CanDo);
            peer.expect(PacketType::GrabJobAll);
            peer.write(PacketType::JobAssign, &["H:x:1", "f", "w"]);
            peer.wait_for_end();
        }),
    ]);
    let mut worker = F::Worker::connect(&*address).unwrap();
    worker.can_do("f");
    let job = worker.next();
    drop(worker);
    drop(job);
    server.join().unwrap();
}

/// pear/Net_Gearman#11: 20,000 connections a second.
fn regress_net_gearman_11_a_server_that_accepts_and_closes_is_not_hammered<F: Face>() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    listener.set_nonblocking(true).unwrap();
    let worker = F::Worker::connect(&*address);
    let mut worker = worker.unwrap();
    worker.can_do("f");
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let counts = Arc::new(AtomicUsize::new(0));
    let accepted = Arc::clone(&counts);
    let accepts = thread::spawn(move || {
        while stopped.try_recv().is_err() {
            match listener.accept() {
                Ok(_) => drop(accepted.fetch_add(1, Ordering::SeqCst)),
                Err(_) => thread::sleep(Duration::from_millis(1)),
            }
        }
    });
    let started = Instant::now();
    while counts.load(Ordering::SeqCst) < 2 || started.elapsed() < Duration::from_secs(1) {
        assert!(worker.next_within(Duration::from_millis(100)).is_none());
        assert!(started.elapsed() < PATIENCE, "it does not try again");
    }
    stop.send(()).unwrap();
    accepts.join().unwrap();
    let accepted = counts.load(Ordering::SeqCst);
    // Full jitter from 100 ms, doubling: a handful, with bad luck a few more.
    assert!(accepted < 60, "{accepted} connections in a second");
}

// G. The life of workers.

/// apalis-dev/apalis#639, #30, contribsys/faktory#300, leo91000/graphile_worker_rs#338.
fn regress_apalis_639_a_panic_ends_a_job_and_not_the_worker<F: Face>(address: &str) {
    let mut worker = blocking::Worker::connect(address).unwrap();
    worker
        .register("panics", |job| -> Result<&str, Failure> {
            assert!(!job.workload.is_empty(), "on purpose");
            Ok("fine")
        })
        .unwrap();
    let worker = Background::start(worker);
    let mut client = F::to(address);
    for _ in 0..5 {
        assert_eq!(client.run("panics", b"", options()).unwrap(), Outcome::Fail);
        let fine = client.run("panics", b"x", options()).unwrap();
        assert_eq!(fine, Outcome::Complete("fine".into()));
    }
    let report = worker.stop();
    assert_eq!((report.completed, report.failed), (5, 5));
}

/// brianlmoon/net_gearman#25, YelpArchive/python-gearman#4: a worker stalled after two exceptions.
fn regress_net_gearman_25_an_exception_does_not_stall_the_worker<F: Face>(address: &str) {
    let mut worker = blocking::Worker::connect(address).unwrap();
    worker.register("raises", |_| Err::<&str, _>(Failure::exception("why"))).unwrap();
    let worker = Background::start(worker);
    let mut client = F::to(address);
    for _ in 0..5 {
        let (_, events) = client.submit("raises", b"", options()).unwrap();
        assert!(matches!(&events[..], [Ok(JobEvent::Exception(why))] if why == "why"));
    }
    assert_eq!(worker.stop().failed, 5);
}

/// confluentinc/librdkafka#2006, #999, karafka/rdkafka-ruby#268: close or flush hung.
fn regress_librdkafka_2006_stopping_does_not_hang<F: Face>(address: &str) {
    let started = Instant::now();
    let mut idle = F::Worker::connect(address).unwrap();
    idle.can_do("f");
    assert!(idle.next_within(Duration::from_millis(20)).is_none());
    assert_eq!(idle.stop().completed, 0);
    // Never started, and with nobody to talk to.
    assert_eq!(F::Worker::connect(address).unwrap().stop().completed, 0);
    assert!(started.elapsed() < PATIENCE);
}

/// The same with a real server that is frozen: the grace bounds it.
#[test]
fn regress_librdkafka_2006_stopping_under_a_frozen_server_ends_with_the_grace() {
    let Some(server) = real() else { return };
    let options: WorkerOptions = server.address().parse().unwrap();
    let grace = Duration::from_millis(200);
    let mut worker = blocking::Worker::connect(options.clone().grace(grace)).unwrap();
    worker.can_do("f", None).unwrap();
    assert!(worker.next_job(Duration::from_millis(20)).unwrap().is_none());
    let in_async = super::face::AsyncWorker::connect(options.grace(grace)).unwrap();
    server.freeze().unwrap();
    let started = Instant::now();
    let _ = worker.stop();
    let _ = in_async.stop();
    assert!(started.elapsed() < PATIENCE);
    server.thaw().unwrap();
}

/// artefactual/archivematica#2371, as good practice.
fn regress_archivematica_2371_an_ambiguous_submission_fails_visibly<F: Face>() {
    let server = Server::start().unwrap();
    let mut client = F::connect(patient(&server)).unwrap();
    server.faults().add(Fault::nth(1).of("SUBMIT_JOB_BG").executed().reset_after(0));
    let error = client.submit_background("f", b"x", options()).unwrap_err();
    assert_eq!(error.fate(), Fate::Unknown);
    assert_eq!(server.view().jobs, 1, "it is not repeated");
}
