//! The fate of a command, what is repeated, and what a new connection starts with.

use std::{
    thread,
    time::{Duration, Instant},
};

use beanstalk_client::{
    ErrorKind, Fate, Job, PutOptions, ReleaseOptions, Reserved, Result,
    protocol::{AnyCommand, Bury, Delete, KickJob, Release, Reserve, ReserveWithTimeout, Touch},
};
use fixtures::{beanstalkd::Server, fault::Fault, real::Beanstalkd};
use queue_core::proof::{Scripts, read_bytes, relay, reset};

use crate::support::{
    Face, both_faces,
    connectors::{NARROW, narrow, narrowed},
    place::{PATIENCE, connect, options, start},
};

const NOW: Duration = Duration::ZERO;

both_faces!(
    a_put_that_was_not_sent_whole_is_repeated_and_exists_once,
    a_put_whose_fate_is_unknown_is_not_repeated,
    a_new_connection_has_the_old_tube_and_watch_list_before_anything_else,
    restored_state_survives_failed_attempts,
    a_reservation_ends_with_its_connection,
    a_stale_reservation_stops_a_whole_pair,
    a_stale_reservation_in_a_pipeline_concerns_only_its_command,
    an_explicit_reconnect_gives_jobs_back_and_restores,
    a_server_that_is_gone_is_a_connect_error_that_names_it,
    a_restarted_server_without_a_log_never_loses_an_unrelated_job,
    a_restarted_server_with_a_log_gives_its_jobs_again,
    a_killed_server_ends_a_waiting_reserve,
);

/// B1.
fn a_put_that_was_not_sent_whole_is_repeated_and_exists_once<F: Face>() {
    // With what the proxy reads, several times what the sockets hold.
    const BODY: usize = 8 * NARROW;
    for read in [0, 1, 5, 100, 70_000, 2 * NARROW] {
        let server = Server::builder().max_job_size(BODY as u32).start().unwrap();
        let address = server.address().to_owned();
        let proxy = Scripts::start(move |number, mut stream| {
            if number == 1 {
                narrowed(&socket2::SockRef::from(&stream)).unwrap();
                // A reset before anything arrived could hit the client while it still connects.
                let _ = stream.peek(&mut [0]);
                read_bytes(&mut stream, read);
                reset(stream);
            } else {
                relay(stream, &address);
            }
        });
        let mut client = F::connect(narrow(options(&proxy.address()))).unwrap();
        let inserted = client.put(&vec![b'x'; BODY], PutOptions::default()).unwrap();
        assert_eq!(inserted.id().get(), 1, "after {read} bytes");
        assert_eq!(client.stats().unwrap().total_jobs, 1, "after {read} bytes");
        assert_eq!(proxy.accepted(), 2);
    }
}

/// B2: the default is at most once.
fn a_put_whose_fate_is_unknown_is_not_repeated<F: Face>() {
    for executed in [true, false] {
        let server = Server::start().unwrap();
        let fault = Fault::nth(1).of("put").cut_after(0);
        server.faults().add(if executed { fault.executed() } else { fault.unexecuted() });
        let mut client: F = connect(server.address());
        let error = client.put(b"x", PutOptions::default()).unwrap_err();
        assert_eq!((error.kind(), error.fate()), (ErrorKind::ConnectionLost, Fate::Unknown));
        assert!(error.is_temporary());
        let stats = client.stats().unwrap();
        assert_eq!(stats.total_jobs, u64::from(executed));
        assert_eq!(server.requests().len(), 2, "the put and the stats");
    }
}

fn lines(server: &Server, connection: u64) -> Vec<String> {
    let requests = server.requests().into_iter();
    requests.filter(|r| r.connection == connection).map(|r| r.text()).collect()
}

/// Sets a state that a reconnect has to restore.
fn settle<F: Face>(client: &mut F) {
    client.use_tube("out").unwrap();
    client.watch("a").unwrap();
    client.watch("b").unwrap();
    client.ignore("default").unwrap();
    client.ignore("b").unwrap();
}

const RESTORED: [&str; 3] = ["use out", "watch a", "ignore default"];

fn assert_settled<F: Face>(client: &mut F) {
    assert_eq!(client.list_tube_used().unwrap(), "out");
    assert_eq!(client.list_tubes_watched().unwrap(), ["a"]);
    assert_eq!((client.used_tube().as_str(), client.watched_tubes().len()), ("out", 1));
}

fn a_new_connection_has_the_old_tube_and_watch_list_before_anything_else<F: Face>() {
    let (server, mut client) = start::<F>();
    settle(&mut client);
    let epoch = client.epoch();
    server.faults().add(Fault::nth(1).of("peek").cut_after(0));
    client.peek(1).unwrap_err();
    assert_eq!(client.reserve_with_timeout(NOW).unwrap(), Reserved::TimedOut);
    assert_ne!(client.epoch(), epoch);
    let sent = lines(&server, 2);
    assert_eq!(
        (&sent[..3], &sent[3..]),
        (&RESTORED.map(String::from)[..], &["reserve-with-timeout 0".to_owned()][..])
    );
    assert_settled(&mut client);
}

fn restored_state_survives_failed_attempts<F: Face>() {
    let (server, mut client) = start::<F>();
    settle(&mut client);
    server.reset_connections();
    for verb in ["use", "watch", "ignore"] {
        server.faults().add(Fault::nth(1).of(verb).cut_after(3));
    }
    // The reset, and then each of the three restores breaks off once.
    let failures = (0..10).take_while(|_| client.list_tube_used().is_err()).count();
    assert!((1..=4).contains(&failures), "{failures}");
    assert_eq!(server.faults().armed(), 0);
    assert_settled(&mut client);
}

fn held<F: Face>(client: &mut F) -> Job {
    let _ = client.put(b"x", PutOptions::default()).unwrap();
    client.reserve().unwrap().job().unwrap()
}

fn assert_lost<T: std::fmt::Debug>(outcome: Result<T>) {
    let error = outcome.unwrap_err();
    assert_eq!((error.kind(), error.fate()), (ErrorKind::JobLost, Fate::NotSent));
}

fn a_reservation_ends_with_its_connection<F: Face>() {
    let (server, mut client) = start::<F>();
    let job = held(&mut client);
    client.reconnect().unwrap();
    server.clear_requests();
    assert_lost(client.delete(&job));
    assert_lost(client.release(&job, ReleaseOptions::new(0)));
    assert_lost(client.bury(&job, 0));
    assert_lost(client.touch(&job));
    assert_lost(client.kick_job(&job));
    assert_eq!(server.requests(), []);
    assert!(client.is_connected());
    // A number names the job wherever it is, once the server has noticed the lost holder.
    assert!(server.wait_for(PATIENCE, |view| view.reserved == 0));
    client.delete(job.id).unwrap();
}

fn a_stale_reservation_stops_a_whole_pair<F: Face>() {
    let (server, mut client) = start::<F>();
    let job = held(&mut client);
    client.reconnect().unwrap();
    server.clear_requests();
    let next = ReserveWithTimeout::new(NOW).unwrap();
    assert_lost(client.call_pair(&Delete::new(&job), &next));
    assert_lost(client.call_pair(&Touch::new(&job), &Delete::new(&job)));
    assert_lost(client.call_pair(&next, &Delete::new(&job)));
    assert_eq!(server.requests(), []);
}

fn a_stale_reservation_in_a_pipeline_concerns_only_its_command<F: Face>() {
    let (server, mut client) = start::<F>();
    let job = held(&mut client);
    let fresh = client.put(b"y", PutOptions::default()).unwrap().id();
    client.reconnect().unwrap();
    let release = Release::new(&job, ReleaseOptions::new(0)).unwrap();
    let commands = [
        AnyCommand::new(&Delete::new(&job)),
        AnyCommand::new(&release),
        AnyCommand::new(&Bury::new(&job, 0)),
        AnyCommand::new(&KickJob::new(&job)),
        AnyCommand::new(&Delete::new(fresh)),
    ];
    let mut replies = client.call_many(commands);
    replies.pop().unwrap().unwrap();
    assert_eq!(replies.len(), 4);
    replies.into_iter().for_each(assert_lost);
    assert_eq!(server.view().jobs, 1);
}

fn an_explicit_reconnect_gives_jobs_back_and_restores<F: Face>() {
    let (_server, mut client) = start::<F>();
    client.use_tube("out").unwrap();
    client.watch("out").unwrap();
    let job = held(&mut client);
    let epoch = client.epoch();
    client.reconnect().unwrap();
    assert_ne!(client.epoch(), epoch);
    let again = client.reserve_with_timeout(PATIENCE).unwrap().job().unwrap();
    assert_eq!(again.id, job.id);
    client.delete(&again).unwrap();
    assert_eq!(client.list_tube_used().unwrap(), "out");
}

fn a_server_that_is_gone_is_a_connect_error_that_names_it<F: Face>() {
    let server = Server::start().unwrap();
    let address = server.address().to_owned();
    let mut client: F = connect(&address);
    assert_eq!(client.list_tube_used().unwrap(), "default");
    server.stop();
    client.list_tube_used().unwrap_err();
    let error = client.list_tube_used().unwrap_err();
    assert_eq!((error.kind(), error.fate()), (ErrorKind::Connect, Fate::NotSent));
    assert!(error.is_temporary());
    assert!(error.to_string().contains(&address), "{error}");
    assert_eq!(error.command(), Some("list-tube-used"));
    let error = F::connect(options(&address)).err().unwrap();
    assert_eq!((error.kind(), error.fate()), (ErrorKind::Connect, Fate::NotSent));
}

/// Calls until the lost connection has been noticed and replaced.
fn recover<F: Face>(client: &mut F) {
    let started = Instant::now();
    while let Err(error) = client.list_tube_used() {
        assert!(error.is_temporary(), "{error}");
        assert!(started.elapsed() < PATIENCE);
    }
}

/// B20: ids start again at 1, so the old handle names another job.
fn a_restarted_server_without_a_log_never_loses_an_unrelated_job<F: Face>() {
    let Some(mut server) = Beanstalkd::start() else { return };
    let mut client: F = connect(server.address());
    settle(&mut client);
    client.use_tube("a").unwrap();
    let job = held(&mut client);
    let id = client.stats().unwrap().id;
    server.restart().unwrap();
    recover(&mut client);
    let mut other: F = connect(server.address());
    other.use_tube("a").unwrap();
    let stranger = other.put(b"stranger", PutOptions::default()).unwrap().id();
    assert_eq!(stranger, job.id);
    assert_lost(client.delete(&job));
    assert_lost(client.touch(&job));
    let stats = client.stats().unwrap();
    assert_eq!((stats.cmd_delete, stats.cmd_touch, stats.current_jobs_ready), (0, 0, 1));
    assert_ne!(stats.id, id);
    // Tube and watch list are those of before.
    let job = client.reserve().unwrap().job().unwrap();
    assert_eq!(job.body, "stranger");
    assert_eq!(client.list_tubes_watched().unwrap(), ["a"]);
    client.delete(&job).unwrap();
}

/// B19.
fn a_restarted_server_with_a_log_gives_its_jobs_again<F: Face>() {
    let folder = tempfile::tempdir().unwrap();
    let builder = Beanstalkd::builder().arg("-b").arg(folder.path()).arg("-f").arg("0");
    let Some(mut server) = builder.start() else { return };
    let mut client: F = connect(server.address());
    client.use_tube("out").unwrap();
    client.watch("out").unwrap();
    let options = PutOptions::default().priority(7);
    for _ in 0..20 {
        let _ = client.put(b"x", options).unwrap();
    }
    let held = client.reserve().unwrap().job().unwrap();
    server.restart().unwrap();
    recover(&mut client);
    assert_lost(client.delete(&held));
    let mut ids = Vec::new();
    while let Reserved::Job(job) = client.reserve_with_timeout(NOW).unwrap() {
        assert_eq!(client.stats_job(job.id).unwrap().unwrap().pri.get(), 7);
        client.delete(&job).unwrap();
        ids.push(job.id.get());
    }
    assert!(ids.into_iter().eq(1..=20));
}

/// C10, B4.
fn a_killed_server_ends_a_waiting_reserve<F: Face>() {
    let Some(mut server) = Beanstalkd::start() else { return };
    let address = server.address().to_owned();
    let mut client: F = connect(&address);
    let mut watcher: F = connect(&address);
    let waits = thread::spawn(move || {
        let error = client.call(&Reserve).unwrap_err();
        (client, error)
    });
    while watcher.stats().unwrap().current_waiting == 0 {
        thread::yield_now();
    }
    server.kill();
    let (mut client, error) = waits.join().unwrap();
    assert_eq!((error.kind(), error.fate()), (ErrorKind::ConnectionLost, Fate::Unknown));
    assert_eq!(error.command(), Some("reserve"));
    server.restart().unwrap();
    assert_eq!(client.reserve_with_timeout(NOW).unwrap(), Reserved::TimedOut);
}
