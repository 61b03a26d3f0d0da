//! `call_many`: order, windows, errors in the middle, dropping, and writes that block on both sides.

use std::{
    collections::HashSet,
    io::Write,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use beanstalk_client::{
    ErrorKind, Fate, JobId, PutOptions, Reserved,
    protocol::{
        AnyCommand, Delete, ListTubeUsed, Peek, Put, ReserveWithTimeout, Response, Stats, Use,
        Watch,
    },
};
use fixtures::{beanstalkd::Server, fault::Fault};
use queue_core::proof::{Scripted, Scripts, Step, read_bytes, read_line, read_to_end};

use crate::support::{
    Async, Environment, Face, both_faces,
    connectors::{NARROW, narrow, over},
    place::{connect, options, start},
    scenarios,
};

fn puts(count: usize) -> impl Iterator<Item = Put<String>> {
    (0..count).map(|n| Put::new(format!("job {n}"), PutOptions::default()).unwrap())
}

scenarios!(
    a_pipeline_answers_in_order_at_any_window,
    a_mixed_pipeline_gives_each_command_its_reply,
    a_refusal_in_the_middle_concerns_only_its_command,
    a_dropped_pipeline_leaves_the_connection_in_step,
    jobs_of_a_dropped_pipeline_go_to_the_next_reserves,
);

fn a_pipeline_answers_in_order_at_any_window<F: Face>(environment: Environment) {
    let (_place, mut client) = environment.with_client::<F>();
    let mut last = 0;
    for window in [0, 1, 2, 3, 255, 256, 257, 1000] {
        for reply in client.call_some(window, usize::MAX, puts(600)) {
            last += 1;
            assert_eq!(reply.unwrap().id().get(), last, "window {window}");
        }
    }
    assert_eq!(client.stats().unwrap().current_jobs_ready, 8 * 600);
    assert!(client.call_many(puts(0)).is_empty());
}

fn a_mixed_pipeline_gives_each_command_its_reply<F: Face>(environment: Environment) {
    let (_place, mut client) = environment.with_client::<F>();
    let tube = "mixed".try_into().unwrap();
    let commands = [
        AnyCommand::new(&Use(tube)),
        AnyCommand::new(&Put::new("x", PutOptions::default()).unwrap()),
        AnyCommand::new(&ListTubeUsed),
        AnyCommand::new(&Peek(1.into())),
        AnyCommand::new(&Delete::new(1)),
        AnyCommand::new(&Delete::new(1)),
        AnyCommand::new(&Stats),
    ];
    let replies: Vec<Response> =
        client.call_many(commands).into_iter().map(Result::unwrap).collect();
    assert_eq!(replies[0], Response::Using("mixed".into()));
    assert_eq!(replies[1], Response::Inserted(1.into()));
    assert_eq!(replies[2], Response::Using("mixed".into()));
    assert!(matches!(&replies[3], Response::Found(job) if job.body == "x"));
    assert_eq!(replies[4..6], [Response::Deleted, Response::NotFound]);
    assert!(matches!(&replies[6], Response::Ok(_)));
    assert_eq!(*client.used_tube(), "mixed");
}

fn a_refusal_in_the_middle_concerns_only_its_command<F: Face>(environment: Environment) {
    let place = environment.start_with_max_job_size(10);
    let mut client: F = place.connect();
    let bodies = [3, 11, 10, 5000, 0].map(|size| vec![b'\n'; size]);
    let commands = bodies.iter().map(|body| Put::new(body, PutOptions::default()).unwrap());
    let kinds: Vec<_> =
        client.call_many(commands).into_iter().map(|reply| reply.err().map(|e| e.kind())).collect();
    let too_big = Some(ErrorKind::JobTooBig);
    assert_eq!(kinds, [None, too_big, None, too_big, None]);
    assert!(client.is_connected());
}

fn a_dropped_pipeline_leaves_the_connection_in_step<F: Face>(environment: Environment) {
    let (_place, mut client) = environment.with_client::<F>();
    let epoch = client.epoch();
    for take in [0, 1, 2, 127, 128, 129, 300] {
        let replies = client.call_some(256, take, puts(1000));
        assert_eq!(replies.len(), take);
        client.use_tube(&format!("after-{take}")).unwrap();
        assert_eq!(client.list_tube_used().unwrap().as_str(), format!("after-{take}"));
        assert_eq!(client.epoch(), epoch);
    }
}

fn jobs_of_a_dropped_pipeline_go_to_the_next_reserves<F: Face>(environment: Environment) {
    let (_place, mut client) = environment.with_client::<F>();
    for inserted in client.call_many(puts(50)) {
        let _ = inserted.unwrap();
    }
    let look = ReserveWithTimeout::new(Duration::ZERO).unwrap();
    let mut seen = HashSet::new();
    for reserved in client.call_some(20, 3, vec![look; 30]) {
        seen.insert(reserved.unwrap().job().unwrap().id);
    }
    // Another command comes in between, and reads the replies in flight.
    assert_eq!(client.list_tube_used().unwrap(), "default");
    while let Reserved::Job(job) = client.reserve_with_timeout(Duration::ZERO).unwrap() {
        assert!(seen.insert(job.id), "job {} was given twice", job.id);
    }
    let all: HashSet<JobId> = (1..=50).map(JobId::from).collect();
    assert_eq!(seen, all);
    for id in seen {
        client.delete(id).unwrap();
    }
    let stats = client.stats().unwrap();
    assert_eq!((stats.current_jobs_reserved, stats.current_jobs_ready), (0, 0));
}

both_faces!(
    a_lost_connection_gives_every_command_in_flight_one_result,
    a_pipeline_on_a_dead_server_takes_one_command,
    a_pipeline_is_lazy_and_bounded,
    a_server_that_reads_only_after_its_write_does_not_deadlock_a_pipeline,
    a_large_put_behind_unread_replies_does_not_deadlock,
    a_reply_that_comes_before_its_command_is_written_does_not_end_a_pipeline,
    a_pipeline_whose_connection_takes_no_more_ends_with_an_error,
    replies_that_were_read_survive_a_write_that_fails,
    a_reply_that_comes_while_writing_is_stuck_survives_its_failure,
);

fn a_lost_connection_gives_every_command_in_flight_one_result<F: Face>() {
    let server = Server::start().unwrap();
    server.faults().add(Fault::nth(10).of("put").cut_after(4));
    let mut client: F = connect(server.address());
    let replies = client.call_some(8, usize::MAX, puts(100));
    // Ten were answered or broke off; those in flight behind them got their own error each.
    assert!((10..=17).contains(&replies.len()), "{}", replies.len());
    for (number, reply) in replies.iter().enumerate() {
        match reply {
            Ok(inserted) => assert!(number < 9 && !inserted.is_buried(), "{number}"),
            Err(error) => {
                assert!(number >= 9, "{number}: {error}");
                assert_eq!(
                    (error.kind(), error.command()),
                    (ErrorKind::ConnectionLost, Some("put"))
                );
                assert_ne!(error.fate(), Fate::Refused);
            }
        }
    }
    assert_eq!(replies[9].as_ref().unwrap_err().fate(), Fate::Unknown);
    assert_eq!(client.list_tube_used().unwrap(), "default");
}

fn a_pipeline_on_a_dead_server_takes_one_command<F: Face>() {
    let server = Server::start().unwrap();
    let address = server.address().to_owned();
    let mut client: F = connect(&address);
    server.faults().add(Fault::nth(1).cut_after(0));
    client.list_tube_used().unwrap_err();
    server.stop();
    let replies = client.call_many(puts(100));
    assert_eq!(replies.len(), 1);
    let error = replies[0].as_ref().unwrap_err();
    assert_eq!(
        (error.kind(), error.fate(), error.command()),
        (ErrorKind::Connect, Fate::NotSent, Some("put"))
    );
}

fn a_pipeline_is_lazy_and_bounded<F: Face>() {
    let (_server, mut client) = start::<F>();
    let taken = AtomicUsize::new(0);
    let counted = || {
        puts(10_000).inspect(|_| {
            taken.fetch_add(1, Ordering::Relaxed);
        })
    };
    client.call_some(16, 0, counted());
    assert_eq!(taken.load(Ordering::Relaxed), 0);
    client.call_some(16, 100, counted());
    let count = taken.load(Ordering::Relaxed);
    assert!((100..=116).contains(&count), "{count} commands were taken for 100 replies");
}

/// C7: large replies and large commands at once; the server writes a whole reply before it reads on.
fn a_server_that_reads_only_after_its_write_does_not_deadlock_a_pipeline<F: Face>() {
    // Several times what the sockets hold.
    const BODY: usize = 4 * NARROW;
    const COMMANDS: usize = 12;
    let server = Scripts::start(|_, mut stream| {
        for number in 1..=COMMANDS {
            let Some(line) = read_line(&mut stream) else { return };
            assert_eq!(line, format!("put 1024 0 60 {BODY}"));
            // Much more than a reply to a put has, so that writing blocks: the client has to read it meanwhile.
            let mut reply = format!("FOUND {number} {BODY}\r\n").into_bytes();
            reply.resize(reply.len() + BODY, b'x');
            reply.extend(b"\r\n");
            stream.write_all(&reply).unwrap();
            read_bytes(&mut stream, BODY + 2).unwrap();
        }
        read_to_end(&mut stream);
    });
    let mut client = F::connect(narrow(options(&server.address()))).unwrap();
    let body = vec![b'y'; BODY];
    let put = AnyCommand::new(&Put::new(&body, PutOptions::default()).unwrap());
    let replies = client.call_some(4, usize::MAX, vec![put; COMMANDS]);
    assert_eq!(replies.len(), COMMANDS);
    for reply in replies {
        assert!(matches!(reply.unwrap(), Response::Found(job) if job.body.len() == BODY));
    }
}

/// C7: what a dropped pipeline left unread keeps the server writing, and so from reading the next command.
fn a_large_put_behind_unread_replies_does_not_deadlock<F: Face>() {
    // What is unread is several times what the sockets hold: the server's own is 4 MiB on most machines.
    const BODY: usize = 2 << 20;
    let server = Server::builder().max_job_size(BODY as u32).start().unwrap();
    let mut client = F::connect(narrow(options(server.address()))).unwrap();
    let body = vec![b'x'; BODY];
    let id = client.put(&body, PutOptions::default()).unwrap().id();
    let epoch = client.epoch();
    assert_eq!(client.call_some(8, 1, vec![Peek(id); 8]).len(), 1);
    let inserted = client.put(&body, PutOptions::default()).unwrap();
    assert_eq!(inserted.id().get(), 2);
    assert_eq!(client.list_tube_used().unwrap(), "default");
    // Not by giving up and repeating it on a new connection either.
    assert_eq!(client.epoch(), epoch);
}

/// C7: with the first reply here, and most of its command still to be written, nothing is in flight, and there is no
/// room for another command.
fn a_reply_that_comes_before_its_command_is_written_does_not_end_a_pipeline<F: Face>() {
    const BODY: usize = 300 * 1024;
    for window in [1, 256] {
        let script = || {
            // The first one comes early; nothing comes before the others are written.
            let reply = |id| [Step::Bytes(format!("INSERTED {id}\r\n").into()), Step::WouldBlock];
            let stuck = [Step::Accept(10), Step::WouldBlock];
            Scripted::reading((1..=5).flat_map(reply)).writing(stuck)
        };
        let mut client = F::connect(over(options("127.0.0.1"), script)).unwrap();
        let put = Put::new(vec![b'x'; BODY], PutOptions::default()).unwrap();
        let replies = client.call_some(window, usize::MAX, vec![put; 5]);
        let ids: Vec<u64> = replies.into_iter().map(|reply| reply.unwrap().id().get()).collect();
        assert_eq!(ids, [1, 2, 3, 4, 5], "window {window}");
    }
}

/// A new watch list has the connection closed behind the reply, because jobs under the old one are unclaimed.
fn a_pipeline_whose_connection_takes_no_more_ends_with_an_error<F: Face>() {
    let (_server, mut client) = start::<F>();
    for inserted in client.call_many(puts(3)) {
        let _ = inserted.unwrap();
    }
    let look = ReserveWithTimeout::new(Duration::ZERO).unwrap();
    let reserved = client.call_some(3, 1, vec![look; 3]);
    assert!(reserved[0].as_ref().is_ok_and(|reserved| matches!(reserved, Reserved::Job(_))));
    let commands = [
        AnyCommand::new(&ListTubeUsed),
        AnyCommand::new(&Watch("other".try_into().unwrap())),
        AnyCommand::new(&Stats),
        AnyCommand::new(&ListTubeUsed),
    ];
    let replies = client.call_some(1, usize::MAX, commands);
    assert_eq!(replies.len(), 3);
    assert!(replies[..2].iter().all(Result::is_ok));
    let error = replies[2].as_ref().unwrap_err();
    assert_eq!(
        (error.kind(), error.fate(), error.command()),
        (ErrorKind::ConnectionLost, Fate::NotSent, Some("stats"))
    );
    // The server may hear of the new connection before the end of the old one.
    while client.stats().unwrap().current_jobs_ready < 3 {
        std::thread::yield_now();
    }
}

/// Connects to a stream that follows this script, each time from its beginning.
fn scripted<F: Face>(script: impl Fn() -> Scripted + Clone + Send + Sync + 'static) -> F {
    F::connect(over(options("127.0.0.1").reply_timeout(AWAY / 2), script)).unwrap()
}

/// Longer than [`scripted`] waits for a reply.
const AWAY: Duration = Duration::from_millis(400);

/// All replies to a window come in one read, and the server resets the connection before the window is filled up.
fn replies_that_were_read_survive_a_write_that_fails<F: Face>() {
    let replies = b"INSERTED 1\r\nINSERTED 2\r\nINSERTED 3\r\nINSERTED 4\r\n";
    let mut client: F = scripted(|| {
        Scripted::reading([Step::Bytes(replies.to_vec())])
            .writing([Step::Accept(usize::MAX), Step::Reset])
    });
    let results = client.call_some(4, usize::MAX, puts(100));
    let (inserted, failed) = results.split_at(4);
    let ids: Vec<u64> = inserted.iter().map(|reply| reply.as_ref().unwrap().id().get()).collect();
    assert_eq!(ids, [1, 2, 3, 4]);
    assert!(!failed.is_empty());
    for error in failed.iter().map(|reply| reply.as_ref().unwrap_err()) {
        assert_eq!((error.kind(), error.fate()), (ErrorKind::ConnectionLost, Fate::NotSent));
    }
}

/// The reply is read between two attempts to write, of which the second one fails.
fn a_reply_that_comes_while_writing_is_stuck_survives_its_failure<F: Face>() {
    let mut client: F = scripted(|| {
        let stuck = [Step::Accept(10), Step::WouldBlock, Step::WouldBlock, Step::Reset];
        Scripted::reading([Step::Bytes(b"INSERTED 1\r\n".to_vec())]).writing(stuck)
    });
    let results = client.call_some(1, usize::MAX, puts(100));
    assert_eq!(results.len(), 2);
    assert_eq!(results[0].as_ref().unwrap().id().get(), 1);
    assert_eq!(results[1].as_ref().unwrap_err().fate(), Fate::NotSent);
}

#[test]
fn a_dropped_next_loses_no_reply() {
    let server = Server::start().unwrap();
    server.faults().add(Fault::always().of("put").chunks(3));
    let mut face: Async = connect(server.address());
    let Async { client, runtime } = &mut face;
    runtime.block_on(async {
        let mut replies = client.call_many(puts(200)).window(16);
        let mut ids = Vec::new();
        let mut polls = 0;
        loop {
            polls = polls % 5 + 1;
            match queue_core::proof::drop_after(polls, replies.next()).await {
                None => {}
                Some(None) => break,
                Some(Some(inserted)) => ids.push(inserted.unwrap().id().get()),
            }
        }
        assert!(ids.into_iter().eq(1..=200));
    });
}
