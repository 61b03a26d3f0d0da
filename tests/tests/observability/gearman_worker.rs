//! What can be observed of a Gearman worker while it runs, without `tracing`; and that its end is not a failure.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use fixtures::gearmand::Server;
use gearman_client::{
    ConnectOptions, ConnectionState, ErrorKind, Failure, Outcome, RetryPolicy, SubmitOptions,
    Worker, WorkerHandle, WorkerOptions, WorkerReport, blocking,
};
use queue_core::proof::runtime;

use super::record::{check, closed, find, record_of};

const BODY: &[u8] = &[b'x'; 1000];

fn options(server: &Server) -> ConnectOptions {
    let retry = RetryPolicy::new(2).backoff(Duration::from_millis(20), Duration::from_millis(40));
    server.address().parse::<ConnectOptions>().unwrap().retry(retry)
}

/// A worker that runs in its own thread: `echo`, `fail`, and `hold`, which waits for the gate.
struct Running {
    view: WorkerHandle,
    gate: Arc<AtomicBool>,
    stop: Box<dyn FnOnce() -> WorkerReport>,
}

fn run_async(server: &Server) -> Running {
    let options = options(server);
    let gate = Arc::new(AtomicBool::new(false));
    let opened = gate.clone();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let (seen, view) = std::sync::mpsc::channel();
    let worker = thread::spawn(move || {
        runtime().block_on(async move {
            let mut worker = Worker::connect(options).await.unwrap();
            seen.send(worker.handle()).unwrap();
            worker.register("echo", |job| async move { job.workload.clone() }).unwrap();
            worker.register("fail", |_| async { Err::<Vec<u8>, _>(Failure::Fail) }).unwrap();
            let hold = move |job: gearman_client::JobContext| {
                let opened = opened.clone();
                async move {
                    while !opened.load(Ordering::SeqCst) {
                        tokio::time::sleep(Duration::from_millis(2)).await;
                    }
                    job.workload.clone()
                }
            };
            worker.register("hold", hold).unwrap();
            worker.run_until(stopped).await
        })
    });
    let stop = Box::new(move || {
        stop.send(()).unwrap();
        worker.join().unwrap()
    });
    Running { view: view.recv().unwrap(), gate, stop }
}

fn run_blocking(server: &Server) -> Running {
    let mut worker = blocking::Worker::connect(options(server)).unwrap();
    let gate = Arc::new(AtomicBool::new(false));
    let opened = gate.clone();
    worker.register("echo", |job| job.workload.clone()).unwrap();
    worker.register("fail", |_| Err::<Vec<u8>, _>(Failure::Fail)).unwrap();
    let hold = move |job: &mut blocking::JobContext<'_>| {
        while !opened.load(Ordering::SeqCst) {
            thread::sleep(Duration::from_millis(2));
        }
        job.workload.clone()
    };
    worker.register("hold", hold).unwrap();
    let (view, stop) = (worker.handle(), worker.handle());
    let worker = thread::spawn(move || worker.run().unwrap());
    let stop = Box::new(move || {
        stop.stop();
        worker.join().unwrap()
    });
    Running { view, gate, stop }
}

/// Waits until something can be seen.
fn until(what: &str, view: &WorkerHandle, is_so: impl Fn(&WorkerHandle) -> bool) {
    let end = Instant::now() + Duration::from_secs(30);
    while !is_so(view) {
        assert!(Instant::now() < end, "{what}: {view:?}, {:?}", view.metrics());
        thread::sleep(Duration::from_millis(2));
    }
}

fn look(start: fn(&Server) -> Running) {
    let server = Server::start().unwrap();
    let Running { view, gate, stop } = start(&server);
    let mut client = blocking::Client::connect(options(&server)).unwrap();
    let outcome = client.run("echo", BODY, SubmitOptions::default()).unwrap();
    assert_eq!(outcome, Outcome::Complete(BODY.into()));
    let outcome = client.run("fail", BODY, SubmitOptions::default()).unwrap();
    assert_eq!(outcome, Outcome::Fail);
    client.submit_background("hold", BODY, SubmitOptions::default()).unwrap();
    until("a job runs", &view, |view| view.running() == 1);
    until("two have ended", &view, |view| {
        (view.report().completed, view.report().failed) == (1, 1)
    });
    assert_eq!(view.connection_states(), [ConnectionState::Ready]);
    gate.store(true, Ordering::SeqCst);
    until("all have ended", &view, |view| view.report().completed == 2 && view.running() == 0);
    let seen = view.metrics();
    assert_eq!((seen.connections, seen.reconnects, seen.errors.len()), (1, 0, 0), "{seen:?}");
    // 3 of CAN_DO, then a grab and a result for each job
    assert!(seen.commands >= 9 && seen.replies >= 3, "{seen:?}");
    assert!(seen.bytes_in > 3 * 1000 && seen.bytes_out > 2 * 1000, "{seen:?}");
    assert!(seen.bytes_in < 5 * 1000 && seen.bytes_out < 4 * 1000, "{seen:?}");

    drop(server);
    until("the server is missed", &view, |view| {
        let seen = view.metrics();
        seen.errors_of(ErrorKind::ConnectionLost) > 0 && seen.errors_of(ErrorKind::Connect) > 0
    });
    until("it waits", &view, |view| view.connection_states() == [ConnectionState::Backoff]);
    let report = stop();
    assert_eq!(report, view.report());
    assert_eq!((report.completed, report.failed, report.unknown), (2, 1, 0), "{report:?}");
    assert_eq!(view.connection_states(), [ConnectionState::Closed]);
}

#[test]
fn an_async_worker_can_be_inspected_by_its_handle() {
    check(&record_of(|| look(run_async)));
}

#[test]
fn a_blocking_worker_can_be_inspected_by_its_handle() {
    check(&record_of(|| look(run_blocking)));
}

/// What handlers say is in the log if requested: on one line, cut.
#[test]
fn logs_handler_errors_on_request() {
    let record_with = |logs: bool| {
        record_of(|| {
            let server = Server::start().unwrap();
            let options = WorkerOptions::from(options(&server)).log_errors(logs);
            let mut worker = blocking::Worker::connect(options).unwrap();
            let long = "x".repeat(1000);
            let words = format!("disk\nfull \u{1b}[2J {long}");
            worker
                .register("f", move |job| -> Result<String, Failure> {
                    match job.workload.is_empty() {
                        true => Err(Failure::exception(words.clone())),
                        false => panic!("{words}"),
                    }
                })
                .unwrap();
            let stop = worker.handle();
            let worker = thread::spawn(move || worker.run().unwrap());
            let mut client = blocking::Client::connect(server.address()).unwrap();
            for workload in ["", "panic"] {
                let _failed = client.run("f", workload, SubmitOptions::default()).unwrap();
            }
            stop.stop();
            assert_eq!(worker.join().unwrap().failed, 2);
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

/// A stopped worker closes its connections: nothing was lost.
fn end(start: fn(&Server) -> Running) {
    let server = Server::start().unwrap();
    let record = record_of(|| {
        let Running { stop, .. } = start(&server);
        stop();
    });
    find(&record, &["INFO", "connected"]);
    assert!(!record.concat().contains("WARN"), "{}", record.concat());
}

#[test]
fn a_stopped_async_worker_reports_no_loss() {
    end(run_async);
}

#[test]
fn a_stopped_blocking_worker_reports_no_loss() {
    end(run_blocking);
}

/// The grabs of a worker of one function, and its results.
fn settle(serve: fn(WorkerOptions, usize) -> WorkerReport) {
    let record = || {
        record_of(|| {
            let server = Server::start().unwrap();
            let mut client = blocking::Client::connect(options(&server)).unwrap();
            for workload in ["done", "fail", "oops"] {
                client.submit_background("mail", workload, SubmitOptions::default()).unwrap();
            }
            let report = serve(WorkerOptions::from(options(&server)), 3);
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

fn end_of(workload: &[u8]) -> Result<&'static str, Failure> {
    match workload {
        b"done" => Ok("sent"),
        b"fail" => Err(Failure::Fail),
        _ => Err(Failure::exception("disk full")),
    }
}

#[test]
fn an_async_worker_traces_grabs_and_ends() {
    settle(|options, jobs| {
        runtime().block_on(async move {
            let limit = gearman_client::JobLimit::new(jobs as u64);
            let mut worker = Worker::connect(options.limit(limit)).await.unwrap();
            worker.register("mail", |job| async move { end_of(&job.workload) }).unwrap();
            worker.run().await
        })
    });
}

#[test]
fn a_blocking_worker_traces_grabs_and_ends() {
    settle(|options, jobs| {
        let limit = gearman_client::JobLimit::new(jobs as u64);
        let mut worker = blocking::Worker::connect(options.limit(limit)).unwrap();
        worker.register("mail", |job| end_of(&job.workload)).unwrap();
        worker.run().unwrap()
    });
}

/// A result whose connection is lost before the server has confirmed it counts as failed.
#[test]
fn a_result_lost_with_its_connection_is_reported() {
    let server = Server::start().unwrap();
    let record = record_of(|| {
        let mut worker = blocking::Worker::connect(options(&server)).unwrap();
        worker.can_do("mail", None).unwrap();
        let mut client = blocking::Client::connect(options(&server)).unwrap();
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
