//! What can be observed of a beanstalkd worker while it runs, without `tracing`; and that its end is not a failure.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use beanstalk_client::{
    ConnectOptions, ErrorKind, Outcome, PutOptions, Retries, SlotState, Worker, WorkerHandle,
    WorkerOptions, WorkerReport, blocking,
};
use fixtures::{beanstalkd::Server, fault::Fault};
use queue_core::proof::runtime;

use super::record::{check, closed, find, record_of};

fn options(server: &Server) -> WorkerOptions {
    let connect: ConnectOptions = server.address().parse().unwrap();
    let (base, cap) = (Duration::from_millis(20), Duration::from_millis(40));
    WorkerOptions::from(connect).reconnect_backoff(base, cap).seed(7)
}

/// A body of 1000 bytes that begins with its intended outcome.
fn body(what: &str) -> Vec<u8> {
    let mut body = what.as_bytes().to_vec();
    body.resize(1000, b' ');
    body
}

fn outcome(body: &[u8]) -> Outcome {
    if body.starts_with(b"bury") { Outcome::bury() } else { Outcome::Delete }
}

/// A worker that runs in its own thread: jobs that begin with `hold` wait for the gate.
struct Running {
    handle: WorkerHandle,
    gate: Arc<AtomicBool>,
    worker: thread::JoinHandle<WorkerReport>,
}

fn run_async(server: &Server) -> Running {
    let mut worker = Worker::new(options(server)).unwrap();
    let (handle, gate) = (worker.handle(), Arc::new(AtomicBool::new(false)));
    let opened = gate.clone();
    let handler = move |job: beanstalk_client::JobContext| {
        let opened = opened.clone();
        async move {
            while job.body.starts_with(b"hold") && !opened.load(Ordering::SeqCst) {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            outcome(&job.body)
        }
    };
    worker.register("default", handler).unwrap();
    let worker = thread::spawn(move || runtime().block_on(worker.run()));
    Running { handle, gate, worker }
}

fn run_blocking(server: &Server) -> Running {
    let mut worker = blocking::Worker::new(options(server)).unwrap();
    let (handle, gate) = (worker.handle(), Arc::new(AtomicBool::new(false)));
    let opened = gate.clone();
    let handler = move |job: &blocking::JobContext| {
        while job.body.starts_with(b"hold") && !opened.load(Ordering::SeqCst) {
            thread::sleep(Duration::from_millis(2));
        }
        outcome(&job.body)
    };
    worker.register("default", handler).unwrap();
    let worker = thread::spawn(move || worker.run());
    Running { handle, gate, worker }
}

impl Running {
    /// Waits until something can be seen.
    fn until(&self, what: &str, is_so: impl Fn(&WorkerHandle) -> bool) {
        let end = Instant::now() + Duration::from_secs(30);
        while !is_so(&self.handle) {
            assert!(Instant::now() < end, "{what}: {:?}, {:?}", self.handle, self.handle.metrics());
            thread::sleep(Duration::from_millis(2));
        }
    }

    fn stop(self) -> WorkerReport {
        self.handle.stop();
        self.worker.join().unwrap()
    }
}

fn states(handle: &WorkerHandle) -> Vec<SlotState> {
    handle.slots().into_iter().map(|slot| slot.state).collect()
}

fn look(start: fn(&Server) -> Running) {
    let server = Server::start().unwrap();
    let running = start(&server);
    let mut client = blocking::Client::connect(server.address()).unwrap();
    for what in ["delete", "bury", "hold"] {
        let _ = client.put(body(what), PutOptions::default()).unwrap();
    }
    running.until("two have ended, and one runs", |seen| {
        let report = seen.report();
        (report.finished, report.buried, seen.running()) == (1, 1, 1)
            && seen.metrics().bytes_in > 3 * 1000
    });
    running.gate.store(true, Ordering::SeqCst);
    running.until("it has ended", |seen| {
        seen.report().finished == 2 && states(seen) == [SlotState::Waiting]
    });

    let seen = running.handle.metrics();
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
    let handle = running.handle.clone();
    let report = running.stop();
    assert_eq!(report, handle.report());
    assert_eq!((report.finished, report.buried, report.total()), (2, 1, 3), "{report:?}");
    assert_eq!(states(&handle), [SlotState::Ended]);
    assert_eq!(handle.metrics().connections, 1);
}

#[test]
fn an_async_worker_can_be_inspected_by_its_handle() {
    check(&record_of(|| look(run_async)));
}

#[test]
fn a_blocking_worker_can_be_inspected_by_its_handle() {
    check(&record_of(|| look(run_blocking)));
}

type Handle = fn(&[u8]) -> Result<Outcome, String>;

/// What handlers say is in the log if requested: on one line, cut.
fn say(run: fn(WorkerOptions, Handle) -> WorkerReport) {
    let record_with = |logs: bool| {
        record_of(|| {
            let server = Server::start().unwrap();
            let mut client = blocking::Client::connect(server.address()).unwrap();
            for what in ["error", "panic"] {
                let _ = client.put(what, PutOptions::default()).unwrap();
            }
            let retries = Retries::default().releases(0);
            let options = options(&server).log_errors(logs).retries(retries).until_empty();
            let report = run(options, |body| {
                let words = format!("disk\nfull \u{1b}[2J {}", "x".repeat(1000));
                if body == b"panic" { panic!("{words}") } else { Err(words) }
            });
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

#[test]
fn an_async_worker_logs_handler_errors_on_request() {
    say(|options, handle| {
        let mut worker = Worker::new(options).unwrap();
        worker.register("default", move |job| async move { handle(&job.body) }).unwrap();
        runtime().block_on(worker.run())
    });
}

#[test]
fn a_blocking_worker_logs_handler_errors_on_request() {
    say(|options, handle| {
        let mut worker = blocking::Worker::new(options).unwrap();
        worker.register("default", move |job| handle(&job.body)).unwrap();
        worker.run()
    });
}

/// A stopped worker closes its connections: nothing was lost.
fn end(start: fn(&Server) -> Running) {
    let server = Server::start().unwrap();
    let record = record_of(|| {
        let running = start(&server);
        running.until("it waits", |seen| states(seen) == [SlotState::Waiting]);
        let handle = running.handle.clone();
        running.stop();
        assert_eq!(handle.metrics().errors, [], "{handle:?}");
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

/// A connection that follows another is a reconnect.
fn come_back(start: fn(&Server) -> Running) {
    let server = Server::start().unwrap();
    server.faults().add(Fault::nth(1).of("reserve-with-timeout").reply("TIMED_OUT").cut_after(0));
    // Its warnings belong in no other test's record.
    let record = record_of(|| {
        let running = start(&server);
        running.until("it is back", |seen| seen.metrics().reconnects == 1);
        let seen = running.handle.metrics();
        let lost = seen.errors_of(ErrorKind::ConnectionLost);
        assert_eq!((seen.connections, lost), (2, 1), "{seen:?}");
        running.stop();
    });
    find(&record, &["WARN", "the connection was lost"]);
}

#[test]
fn an_async_worker_counts_its_reconnects() {
    come_back(run_async);
}

#[test]
fn a_blocking_worker_counts_its_reconnects() {
    come_back(run_blocking);
}

/// Jobs that a worker of one tube deletes and buries, and one whose counters decide.
fn settle(run: fn(WorkerOptions, Handle) -> WorkerReport) {
    let record = record_of(|| {
        let server = Server::start().unwrap();
        let mut client = blocking::Client::connect(server.address()).unwrap();
        client.use_tube("mail").unwrap();
        for what in ["delete", "bury", "fail"] {
            let _ = client.put(what, PutOptions::default()).unwrap();
        }
        let options = options(&server).until_empty();
        let report = run(options.retries(Retries::default().releases(0)), |body| match body {
            b"fail" => Err("disk full".into()),
            body => Ok(outcome(body)),
        });
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

#[test]
fn an_async_worker_traces_reserves_and_settlements() {
    settle(|options, handle| {
        let mut worker = Worker::new(options).unwrap();
        worker.register("mail", move |job| async move { handle(&job.body) }).unwrap();
        runtime().block_on(worker.run())
    });
}

#[test]
fn a_blocking_worker_traces_reserves_and_settlements() {
    settle(|options, handle| {
        let mut worker = blocking::Worker::new(options).unwrap();
        worker.register("mail", move |job| handle(&job.body)).unwrap();
        worker.run()
    });
}

/// A settlement that the server refuses, and one whose connection is lost, have failed.
fn settle_in_vain(start: fn(&Server) -> Running) {
    let server = Server::start().unwrap();
    server.faults().add(Fault::nth(1).of("delete").reply("NOT_FOUND"));
    server.faults().add(Fault::nth(2).of("delete").executed().reset_after(0));
    let record = record_of(|| {
        let running = start(&server);
        let mut client = blocking::Client::connect(server.address()).unwrap();
        for _ in 0..2 {
            let _ = client.put(body("delete"), PutOptions::default()).unwrap();
        }
        running
            .until("both have ended", |seen| (seen.report().lost, seen.report().unknown) == (1, 1));
        running.stop();
    });
    for error in ["error.type=\"not_found\"", "error.type=\"connection_lost\""] {
        let failed = ["otel.name=delete default", error, "otel.status_code=\"error\""];
        assert_eq!(closed(&record, "beanstalk_command", &failed).len(), 1, "{}", record.concat());
    }
}

#[test]
fn failed_settlements_of_an_async_worker_carry_the_server_error() {
    settle_in_vain(run_async);
}

#[test]
fn failed_settlements_of_a_blocking_worker_carry_the_server_error() {
    settle_in_vain(run_blocking);
}
