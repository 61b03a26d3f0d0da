//! What can be observed of a Gearman worker while it runs, without `tracing`; and that its end is not a failure.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use fixtures::gearmand::Server;
use gearman_client::{
    ConnectOptions, ConnectionState, ErrorKind, Failure, JobLimit, Outcome, RetryPolicy,
    SubmitOptions, WorkerOptions, blocking,
};
use queue_core::proof::runtime;

use super::record::{check, closed, find, record_of};
use super::running::{in_both_faces, starts, words};

fn connect_options(server: &Server) -> ConnectOptions {
    let retry = RetryPolicy::new(2).backoff(Duration::from_millis(20), Duration::from_millis(40));
    server.address().parse::<ConnectOptions>().unwrap().retry(retry)
}

fn options(server: &Server) -> WorkerOptions {
    WorkerOptions::from(connect_options(server))
}

/// A workload of 1000 bytes that begins with what the handler does.
fn workload(what: &str) -> Vec<u8> {
    let mut workload = what.as_bytes().to_vec();
    workload.resize(1000, b' ');
    workload
}

/// What a handler does; nothing while it waits for the gate.
fn work(workload: &[u8], is_open: bool) -> Option<Result<Vec<u8>, Failure>> {
    Some(match workload.trim_ascii() {
        b"hold" if !is_open => return None,
        b"fail" => Err(Failure::Fail),
        b"oops" => Err(Failure::exception("disk full")),
        b"says" => Err(Failure::exception(words())),
        b"panic" => panic!("{}", words()),
        _ => Ok(workload.to_vec()),
    })
}

starts!(gearman_client, "mail", &mut blocking::JobContext<'_>, [.unwrap()], |job, is_open| work(
    &job.workload,
    is_open
));

in_both_faces!(
    a_worker_can_be_inspected_by_its_handle,
    a_worker_logs_handler_errors_on_request,
    a_stopped_worker_reports_no_loss,
    a_worker_traces_grabs_and_ends,
);

fn a_worker_can_be_inspected_by_its_handle(start: Start) {
    check(&record_of(|| look(start)));
}

fn look(start: Start) {
    let server = Server::start().unwrap();
    let running = start(options(&server));
    let view = running.view.clone();
    let mut client = blocking::Client::connect(connect_options(&server)).unwrap();
    let outcome = client.run("mail", workload("echo"), SubmitOptions::default()).unwrap();
    assert_eq!(outcome, Outcome::Complete(workload("echo").into()));
    let outcome = client.run("mail", workload("fail"), SubmitOptions::default()).unwrap();
    assert_eq!(outcome, Outcome::Fail);
    client.submit_background("mail", workload("hold"), SubmitOptions::default()).unwrap();
    running.until("a job runs", |view| view.running() == 1);
    running
        .until("two have ended", |view| (view.report().completed, view.report().failed) == (1, 1));
    assert_eq!(view.connection_states(), [ConnectionState::Ready]);
    running.open_gate();
    running.until("all have ended", |view| view.report().completed == 2 && view.running() == 0);
    let seen = view.metrics();
    assert_eq!((seen.connections, seen.reconnects, seen.errors.len()), (1, 0, 0), "{seen:?}");
    // CAN_DO, then a grab and a result for each job
    assert!(seen.commands >= 7 && seen.replies >= 3, "{seen:?}");
    assert!(seen.bytes_in > 3 * 1000 && seen.bytes_out > 2 * 1000, "{seen:?}");
    assert!(seen.bytes_in < 5 * 1000 && seen.bytes_out < 4 * 1000, "{seen:?}");

    drop(server);
    running.until("the server is missed", |view| {
        let seen = view.metrics();
        seen.errors_of(ErrorKind::ConnectionLost) > 0 && seen.errors_of(ErrorKind::Connect) > 0
    });
    running.until("it waits", |view| view.connection_states() == [ConnectionState::Backoff]);
    assert!(view.metrics().bytes_in >= seen.bytes_in, "a lost connection takes no numbers away");
    let report = running.stop();
    assert_eq!(report, view.report());
    assert_eq!((report.completed, report.failed, report.unknown), (2, 1, 0), "{report:?}");
    assert_eq!(view.connection_states(), [ConnectionState::Closed]);
}

/// What handlers say is in the log if requested: on one line, cut.
fn a_worker_logs_handler_errors_on_request(start: Start) {
    let record_with = |logs: bool| {
        record_of(|| {
            let server = Server::start().unwrap();
            let running = start(options(&server).log_errors(logs));
            let mut client = blocking::Client::connect(server.address()).unwrap();
            for what in ["says", "panic"] {
                let _failed = client.run("mail", what, SubmitOptions::default()).unwrap();
            }
            assert_eq!(running.stop().failed, 2);
        })
    };
    let record = record_with(true);
    check(&record);
    let words = "disk\\nfull \\u{1b}[2J xxx";
    let in_span = ["WARN", "gearman_job", "the job's handler failed"];
    for (outcome, begin) in [("exception", ""), ("panic", "the handler panicked: ")] {
        let outcome = format!("outcome=\"{outcome}\"");
        let error = format!("error={begin}{words}");
        let line = find(&record, &[&in_span[..], &[&outcome, &error]].concat());
        assert!(line.matches('x').count() <= 256, "{line}");
    }
    let record = record_with(false);
    find(&record, &["WARN", "the job's handler failed", "outcome=\"exception\""]);
    assert!(!record.concat().contains("disk"), "{}", record.concat());
}

/// It closes its connections.
fn a_stopped_worker_reports_no_loss(start: Start) {
    let server = Server::start().unwrap();
    let record = record_of(|| {
        let running = start(options(&server));
        running.until("it is connected", |view| {
            view.connection_states() == [ConnectionState::Ready] && view.is_asleep()
        });
        running.stop();
    });
    find(&record, &["INFO", "connected"]);
    assert!(!record.concat().contains("WARN"), "{}", record.concat());
}

/// The grabs of a worker of one function, and its results.
fn a_worker_traces_grabs_and_ends(start: Start) {
    let record = || {
        record_of(|| {
            let server = Server::start().unwrap();
            let mut client = blocking::Client::connect(server.address()).unwrap();
            for workload in ["done", "fail", "oops"] {
                client.submit_background("mail", workload, SubmitOptions::default()).unwrap();
            }
            let report = start(options(&server).limit(JobLimit::new(3))).ended();
            assert_eq!((report.completed, report.failed), (1, 2), "{report:?}");
        })
    };
    // A server that a busy machine keeps from answering for a second is asked with an older grab; not every time.
    let is_prompt = |record: &Vec<String>| !record.concat().contains("GRAB_JOB_UNIQ");
    let record = (0..5).map(|_| record()).find(is_prompt).expect("it asks with the newest grab");
    check(&record);
    let told = |words: &[&str]| closed(&record, "gearman_request", words);
    let grabbed =
        told(&["otel.name=GRAB_JOB_ALL mail", "type=\"receive\"", "id=H:", "body.size=4"]);
    assert_eq!(grabbed.len(), 3, "{}", record.concat());
    // A grab is not part of another job's settlement, although it is sent together with it.
    assert!(grabbed.iter().all(|grab| !grab.contains("gearman_job{")), "{grabbed:?}");
    for end in ["WORK_COMPLETE", "WORK_FAIL", "WORK_EXCEPTION"] {
        let (name, within) =
            (format!("otel.name={end} mail"), "gearman_job{otel.name=process mail");
        let words = [&*name, within, "type=\"settle\"", "otel.kind=\"client\"", "message.id=H:"];
        let settled = told(&words);
        assert_eq!(settled.len(), 1, "{end}: {}", record.concat());
    }
}

/// A result whose connection is lost before the server has confirmed it counts as failed.
#[test]
fn a_result_lost_with_its_connection_is_reported() {
    let server = Server::start().unwrap();
    let record = record_of(|| {
        let mut worker = blocking::Worker::connect(options(&server)).unwrap();
        worker.can_do("mail", None).unwrap();
        let mut client = blocking::Client::connect(connect_options(&server)).unwrap();
        client.submit_background("mail", "x", SubmitOptions::default()).unwrap();
        let job = worker.next_job(Duration::from_secs(30)).unwrap().unwrap();
        server
            .faults()
            .add(fixtures::fault::Fault::always().of("WORK_COMPLETE").unexecuted().reset_after(0));
        let _ = worker.complete(job, "done");
        assert!(worker.echo_barrier().is_err());
    });
    let lost = ["otel.name=WORK_COMPLETE mail", "error.type=\"connection_lost\""];
    assert_eq!(closed(&record, "gearman_request", &lost).len(), 1, "{}", record.concat());
}
