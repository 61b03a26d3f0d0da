//! What can be observed of a beanstalkd worker while it runs, without `tracing`; and that its end is not a failure.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use beanstalk_client::{
    ConnectOptions, ErrorKind, Outcome, PutOptions, Retries, SlotState, WorkerHandle,
    WorkerOptions, blocking,
};
use fixtures::{beanstalkd::Server, fault::Fault};
use queue_core::proof::runtime;

use super::record::{check, closed, find, record_of};
use super::running::{in_both_faces, starts, words};

fn options(server: &Server) -> WorkerOptions {
    let connect: ConnectOptions = server.address().parse().unwrap();
    let (base, cap) = (Duration::from_millis(20), Duration::from_millis(40));
    WorkerOptions::from(connect).reconnect_backoff(base, cap).seed(7)
}

const TUBE: &str = "mail";

/// Jobs, by a client without observers.
fn put<B: AsRef<[u8]>>(server: &Server, bodies: impl IntoIterator<Item = B>) {
    let mut client = blocking::Client::connect(server.address()).unwrap();
    client.use_tube(TUBE).unwrap();
    for body in bodies {
        let _ = client.put(body.as_ref(), PutOptions::default()).unwrap();
    }
}

/// A body of 1000 bytes that begins with its intended outcome.
fn body(what: &str) -> Vec<u8> {
    let mut body = what.as_bytes().to_vec();
    body.resize(1000, b' ');
    body
}

/// What a handler does; nothing while it waits for the gate.
fn work(body: &[u8], is_open: bool) -> Option<Result<Outcome, String>> {
    Some(match body.trim_ascii() {
        b"hold" if !is_open => return None,
        b"bury" => Ok(Outcome::bury()),
        b"fail" => Err("disk full".into()),
        b"error" => Err(words()),
        b"panic" => panic!("{}", words()),
        _ => Ok(Outcome::Delete),
    })
}

starts!(beanstalk_client, TUBE, &blocking::JobContext, [], |job, is_open| work(&job.body, is_open));

in_both_faces!(
    a_worker_can_be_inspected_by_its_handle,
    a_worker_logs_handler_errors_on_request,
    a_stopped_worker_reports_no_loss,
    a_worker_counts_its_reconnects,
    a_worker_traces_reserves_and_settlements,
    failed_settlements_carry_the_server_error,
);

fn states(handle: &WorkerHandle) -> Vec<SlotState> {
    handle.slots().into_iter().map(|slot| slot.state).collect()
}

fn a_worker_can_be_inspected_by_its_handle(start: Start) {
    check(&record_of(|| look(start)));
}

fn look(start: Start) {
    let server = Server::start().unwrap();
    let running = start(options(&server));
    put(&server, ["delete", "bury", "hold"].map(body));
    running.until("two have ended, and one runs", |seen| {
        let report = seen.report();
        (report.finished, report.buried, seen.running()) == (1, 1, 1)
            && seen.metrics().bytes_in > 3 * 1000
    });
    running.open_gate();
    running.until("it has ended", |seen| {
        seen.report().finished == 2 && states(seen) == [SlotState::Waiting]
    });

    let seen = running.view.metrics();
    assert_eq!((seen.connections, seen.reconnects, seen.errors.len()), (1, 0, 0), "{seen:?}");
    // stats, then a reserve and an end for each job, and its counters; the last reserve waits
    assert!(seen.commands >= 8 && seen.replies >= 7, "{seen:?}");
    assert!(seen.replies < seen.commands, "{seen:?}");
    assert!(seen.bytes_out > 100 && seen.bytes_out < 3 * 1000, "no body is sent: {seen:?}");

    drop(server);
    running.until("the server is missed", |seen| {
        let seen = seen.metrics();
        seen.errors_of(ErrorKind::ConnectionLost) == 1 && seen.errors_of(ErrorKind::Connect) > 0
    });
    running.until("it waits", |seen| states(seen) == [SlotState::BackingOff]);
    let handle = running.view.clone();
    let report = running.stop();
    assert_eq!(report, handle.report());
    assert_eq!((report.finished, report.buried, report.total()), (2, 1, 3), "{report:?}");
    assert_eq!(states(&handle), [SlotState::Ended]);
    assert_eq!(handle.metrics().connections, 1);
}

/// What handlers say is in the log if requested: on one line, cut.
fn a_worker_logs_handler_errors_on_request(start: Start) {
    let record_with = |logs: bool| {
        record_of(|| {
            let server = Server::start().unwrap();
            put(&server, ["error", "panic"]);
            let retries = Retries::default().releases(0);
            let options = options(&server).log_errors(logs).retries(retries).until_empty();
            let report = start(options).ended();
            assert_eq!(report.buried, 2, "{report:?}");
        })
    };
    let record = record_with(true);
    check(&record);
    for begin in ["", "the handler panicked: "] {
        let error = format!("error={begin}disk\\nfull \\u{{1b}}[2J xxx");
        let within = "beanstalk_job{";
        let line = find(&record, &["WARN", within, "the job's handler failed", &error]);
        assert!(line.matches('x').count() <= 256, "{line}");
    }
    for kind in ["error.type=\"error\"", "error.type=\"panic\""] {
        let failed = [kind, "otel.status_code=\"error\""];
        assert_eq!(closed(&record, "beanstalk_job", &failed).len(), 1, "{kind}");
    }
    let record = record_with(false);
    find(&record, &["WARN", "beanstalk_job{", "the job's handler failed"]);
    assert!(!record.concat().contains("disk"), "{}", record.concat());
}

/// It closes its connections.
fn a_stopped_worker_reports_no_loss(start: Start) {
    let server = Server::start().unwrap();
    let record = record_of(|| {
        let running = start(options(&server));
        running.until("it waits", |seen| states(seen) == [SlotState::Waiting]);
        let handle = running.view.clone();
        running.stop();
        assert_eq!(handle.metrics().errors, [], "{handle:?}");
    });
    find(&record, &["INFO", "connected"]);
    assert!(!record.concat().contains("WARN"), "{}", record.concat());
}

/// A connection that follows another is a reconnect.
fn a_worker_counts_its_reconnects(start: Start) {
    let server = Server::start().unwrap();
    server.faults().add(Fault::nth(1).of("reserve-with-timeout").reply("TIMED_OUT").cut_after(0));
    // Its warnings belong in no other test's record.
    let record = record_of(|| {
        let running = start(options(&server));
        running.until("it is back", |seen| seen.metrics().reconnects == 1);
        let seen = running.view.metrics();
        let lost = seen.errors_of(ErrorKind::ConnectionLost);
        assert_eq!((seen.connections, lost), (2, 1), "{seen:?}");
        running.stop();
    });
    find(&record, &["WARN", "the connection was lost"]);
}

/// Jobs that a worker of one tube deletes and buries, and one whose counters decide.
fn a_worker_traces_reserves_and_settlements(start: Start) {
    let record = record_of(|| {
        let server = Server::start().unwrap();
        put(&server, ["delete", "bury", "fail"]);
        let options = options(&server).until_empty().retries(Retries::default().releases(0));
        let report = start(options).ended();
        assert_eq!((report.finished, report.buried), (1, 2), "{report:?}");
    });
    check(&record);
    let told = |words: &[&str]| closed(&record, "beanstalk_command", words);
    let receive = ["otel.name=reserve-with-timeout mail", "type=\"receive\"", "server.port="];
    for id in ["message.id=1", "message.id=2", "message.id=3"] {
        let own = [&receive[..], &[id, "body.size="]].concat();
        assert_eq!(told(&own).len(), 1, "{id}: {}", record.concat());
    }
    // The last one found none.
    assert!(told(&receive).len() > 3, "{}", record.concat());
    for (name, id) in [
        ("otel.name=delete mail", "message.id=1"),
        ("otel.name=bury mail", "message.id=2"),
        ("otel.name=bury mail", "message.id=3"),
    ] {
        let settled = told(&[name, "type=\"settle\"", "otel.kind=\"client\"", id]);
        assert_eq!(settled.len(), 1, "{name}, {id}: {}", record.concat());
        assert!(!settled[0].contains("error.type=\"not"), "{settled:?}");
    }
    // It is a child of its job's span.
    let within = told(&["beanstalk_job{otel.name=process mail", "otel.name=delete mail"]);
    assert_eq!(within.len(), 1, "{}", record.concat());
}

/// A settlement that the server refuses, and one whose connection is lost, have failed.
fn failed_settlements_carry_the_server_error(start: Start) {
    let server = Server::start().unwrap();
    server.faults().add(Fault::nth(1).of("delete").reply("NOT_FOUND"));
    server.faults().add(Fault::nth(2).of("delete").executed().reset_after(0));
    let record = record_of(|| {
        let running = start(options(&server));
        put(&server, ["delete", "delete"].map(body));
        running
            .until("both have ended", |seen| (seen.report().lost, seen.report().unknown) == (1, 1));
        running.stop();
    });
    for error in ["error.type=\"not_found\"", "error.type=\"connection_lost\""] {
        let failed = ["otel.name=delete mail", error, "otel.status_code=\"error\""];
        assert_eq!(closed(&record, "beanstalk_command", &failed).len(), 1, "{}", record.concat());
    }
}
