//! Adf.QueueServer: what its clients and workers report, and what can be observed of a worker while it runs.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use adf_queue_client::{
    ConnectOptions, ConnectionState, Error, ErrorKind, JobContext, Metrics, Push, Refusal,
    RetryPolicy, TlsOptions, WorkerHandle, WorkerOptions, blocking,
};
use fixtures::{adf_queue::Server, fault::Fault};
use queue_core::proof::runtime;

use super::record::{
    SENTINEL, by_awaiting, by_blocking, check, check_connections, closed, find, record_of,
};
use super::running::{in_both_faces, starts, words};

/// A name that does not stay on its line.
const ODD: &str = "/odd\n\x1b[2Jname";
const QUEUE: &str = "/q";
const MISSING: &str = "/missing";

fn server() -> Server {
    Server::builder().queue(QUEUE).queue(ODD).start().unwrap()
}

fn options(address: &str) -> ConnectOptions {
    let options: ConnectOptions = address.parse().unwrap();
    let retry = RetryPolicy::new(2).backoff(Duration::from_millis(20), Duration::from_millis(40));
    let tls = TlsOptions::default().client_certificate_pem(SENTINEL, SENTINEL);
    options.reply_timeout(Duration::from_secs(20)).retry(retry).tls(tls)
}

fn body() -> String {
    format!("{SENTINEL} in a body\r\nof two lines")
}

fn push() -> Push {
    Push::right(QUEUE.parse().unwrap(), body())
}

fn is_missing(error: &Error) {
    assert_eq!(*error.kind(), ErrorKind::Refused(Refusal::QueueNotFound), "{error}");
}

fn check_numbers(metrics: &Metrics) {
    assert_eq!((metrics.connections, metrics.reconnects), (2, 1), "{metrics:?}");
    let missing = ErrorKind::Refused(Refusal::QueueNotFound);
    assert_eq!(metrics.errors, [(missing, 1)], "{metrics:?}");
    // 2 pushes and one refused, a pull, a delete and a count
    assert_eq!((metrics.commands, metrics.replies), (6, 6), "{metrics:?}");
    let body = body().len() as u64;
    assert!(metrics.bytes_out > 3 * body && metrics.bytes_in > body, "{metrics:?}");
}

fn check_client(record: &[String]) {
    let system = "messaging.system=\"adf_queue\"";
    check_connections(record, system, "adf_queue_connect");
    find(
        record,
        &[
            "DEBUG adf_queue_request{",
            "close",
            system,
            "otel.name=rpush /odd\\n\\u{1b}[2Jname",
            "otel.kind=\"client\"",
            "messaging.operation.name=\"rpush\"",
            "messaging.operation.type=\"send\"",
            "messaging.destination.name=/odd\\n\\u{1b}[2Jname",
            "messaging.message.id=1",
            "server.address=127.0.0.1",
            "server.port=",
        ],
    );
    for (name, kind) in [("rpush", "send"), ("pull", "receive"), ("delete", "settle")] {
        let about =
            [&*format!("otel.name={name} /q"), &*format!("messaging.operation.type=\"{kind}\"")];
        for (way, id) in [("WebSocket", 1), ("HTTP", 2)] {
            let id = format!("messaging.message.id={id}");
            let told = closed(record, "adf_queue_request", &[&about[..], &[&id]].concat());
            assert_eq!(told.len(), 1, "{name} over {way}: {}", record.concat());
        }
    }
    let push = [
        "caller:adf_queue_push{otel.name=rpush /q",
        "messaging.operation.type=\"send\"",
        "server.address=127.0.0.1",
        "messaging.message.id=6",
    ];
    assert_eq!(closed(record, "adf_queue_push", &push).len(), 1);
    let failed = ["otel.name=rpush /missing", "otel.status_code=\"error\""];
    assert_eq!(closed(record, "adf_queue_push", &failed).len(), 1);
    let failed = [
        "otel.name=rpush /missing",
        "error.type=\"queue_not_found\"",
        "otel.status_code=\"error\"",
    ];
    assert_eq!(closed(record, "adf_queue_request", &failed).len(), 1);
    let batch = ["otel.name=rpush /q", "messaging.batch.message_count=3", "type=\"send\""];
    assert_eq!(closed(record, "adf_queue_push_many", &batch).len(), 1);
    find(
        record,
        &["the request failed", "error.type=\"queue_not_found\"", "fate=Refused", "request_id="],
    );
    find(record, &["pulling over HTTP", "messaging.destination.name=/q", "request_id="]);
}

/// Uses a client and a producer of a face a little, well and badly.
macro_rules! use_client {
    ($face:ident, $by:ident) => {
        let server = server();
        #[allow(unused_mut)]
        let mut client = $by!(call $face::Client::connect(options(server.address()))).unwrap();
        $by!(call client.rpush(ODD, body())).unwrap();
        $by!(call client.rpush(QUEUE, body())).unwrap();
        is_missing(&$by!(call client.rpush(MISSING, body())).unwrap_err());
        let pulled = $by!(call client.pull(QUEUE)).unwrap();
        assert_eq!(pulled.body(), &body());
        $by!(call client.delete(&pulled)).unwrap();
        assert_eq!(client.connection_state(), ConnectionState::Ready);
        $by!(call client.reconnect()).unwrap();
        assert_eq!($by!(call client.count(ODD)).unwrap(), 1);
        check_numbers(&client.metrics().clone());
        let http = options(&format!("http://{}", server.address()));
        #[allow(unused_mut)]
        let mut over_http = $by!(call $face::Client::connect(http)).unwrap();
        $by!(call over_http.rpush(QUEUE, body())).unwrap();
        let pulled = $by!(call over_http.pull(QUEUE)).unwrap();
        $by!(call over_http.delete(&pulled)).unwrap();
        $by!(all client.push_many((0..3).map(|_| push())));
        let producer = $face::Producer::new(options(server.address())).unwrap();
        let caller = tracing::info_span!("caller");
        $by!(within caller, producer.rpush(QUEUE, body())).unwrap();
        is_missing(&$by!(call producer.rpush(MISSING, body())).unwrap_err());
        drop(server);
        let _ = $by!(call client.count(ODD));
        assert!($by!(call client.count(ODD)).is_err());
        assert!(client.metrics().errors_of(ErrorKind::Connect) > 0);
        let state = client.connection_state();
        assert!(matches!(state, ConnectionState::Backoff | ConnectionState::Idle), "{state:?}");
        assert!($by!(call $face::Client::connect(options("adfs://127.0.0.1:1"))).is_err());
    };
}

#[test]
fn an_async_client_is_traced_without_bodies() {
    check_client(&record_of(|| {
        runtime().block_on(async {
            use_client!(adf_queue_client, by_awaiting);
        });
    }));
}

#[test]
fn a_blocking_client_is_traced_without_bodies() {
    check_client(&record_of(|| {
        use_client!(blocking, by_blocking);
    }));
}

/// The message that such a pull takes is found by its id, and nobody else knows it.
#[test]
fn an_abandoned_http_pull_is_traced_with_its_id() {
    let record = record_of(|| {
        let server = server();
        blocking::Client::connect(server.address()).unwrap().rpush(QUEUE, body()).unwrap();
        server.faults().add(Fault::nth(1).of("pull").cut_after(0));
        let http = options(&format!("http://{}", server.address()));
        let error = blocking::Client::connect(http).unwrap().pull(QUEUE).unwrap_err();
        assert!(error.request_id().is_some(), "{error}");
    });
    check(&record);
    find(&record, &["the request failed", "messaging.operation.name=\"pull\"", "request_id="]);
}

/// What a handler does; nothing while it waits for the gate.
fn work(body: &[u8], duplications: u16, is_open: bool) -> Option<Result<(), String>> {
    match (&body[..4], duplications) {
        (b"fail", 1) => Some(Err(format!("disk\nfull {SENTINEL}"))),
        (b"says", 1) => Some(Err(words())),
        (b"says", 2) => panic!("{}", words()),
        (b"hold", _) if !is_open => None,
        _ => Some(Ok(())),
    }
}

starts!(adf_queue_client, QUEUE, &JobContext, [], |job, is_open| {
    work(job.body(), job.duplications(), is_open)
});

in_both_faces!(
    a_worker_is_traced_and_inspectable,
    a_worker_logs_handler_errors_on_request,
    a_stopped_worker_reports_no_loss,
);

fn states(view: &WorkerHandle) -> Vec<ConnectionState> {
    view.servers().into_iter().map(|server| server.state).collect()
}

fn a_worker_is_traced_and_inspectable(start: Start) {
    check_worker(&record_of(|| look(start)));
}

fn look(start: Start) {
    let server = server();
    let mut client = blocking::Client::connect(options(server.address())).unwrap();
    let worker_options = WorkerOptions::from(options(server.address())).slots(2);
    let running = start(worker_options.log_errors(false));
    let view = running.view.clone();
    let filling = "x".repeat(1000);
    for what in ["done", "fail", "hold"] {
        client.rpush(QUEUE, format!("{what} {SENTINEL} {filling}")).unwrap();
    }
    running.until("two have ended, and one runs", |view| {
        (view.report().deleted, view.report().returned, view.held()) == (2, 1, 1)
    });
    assert_eq!(states(&view), [ConnectionState::Ready]);
    running.open_gate();
    running.until("all have ended", |view| (view.report().deleted, view.held()) == (3, 0));
    let seen = view.metrics();
    assert_eq!((seen.connections, seen.reconnects, seen.errors.len()), (1, 0, 0), "{seen:?}");
    // A pull and an end for each delivery, and pulls that wait.
    assert!(seen.commands >= 8 && seen.replies >= 8, "{seen:?}");
    assert!(seen.bytes_in > 4 * 1000 && seen.bytes_in < 5 * 1000, "{seen:?}");
    assert!(seen.bytes_out < 2 * 1000, "{seen:?}");

    drop(server);
    running.until("the server is missed", |view| {
        let seen = view.metrics();
        seen.errors_of(ErrorKind::ConnectionLost) > 0 && seen.errors_of(ErrorKind::Connect) > 0
    });
    running.until("it waits", |view| states(view) == [ConnectionState::Backoff]);
    let report = running.stop();
    assert_eq!(report, view.report());
    assert_eq!((report.deleted, report.returned, report.total()), (3, 1, 4), "{report:?}");
    assert_eq!(states(&view), [ConnectionState::Closed]);
}

fn check_worker(record: &[String]) {
    check(record);
    let system = "messaging.system=\"adf_queue\"";
    find(
        record,
        &[
            "INFO adf_queue_message{",
            "close",
            system,
            "otel.name=process /q",
            "otel.kind=\"consumer\"",
            "messaging.operation.type=\"process\"",
            "messaging.adf_queue.message.delivery_attempt=1",
            "messaging.operation.name=\"process\"",
            "messaging.destination.name=/q",
            "messaging.message.id=1",
            "messaging.message.body.size=1",
            "server.port=",
        ],
    );
    let of_the_message = ["messaging.destination.name=/q", "messaging.message.id=2"];
    let within = "adf_queue_message{otel.name=process /q";
    find(record, &[&["WARN", within, "the handler failed"], &of_the_message[..]].concat());
    let failed = ["messaging.message.id=2", "error.type=\"error\" otel.status_code=\"error\""];
    assert_eq!(closed(record, "adf_queue_message", &failed).len(), 1);
    // What it asks for by itself. A pull is no part of what was done with another message.
    let told = |words: &[&str]| closed(record, "adf_queue_request", words);
    let pulled = ["otel.name=pull /q", "type=\"receive\"", "message.id=1", "body.size=1"];
    let pulls = told(&pulled);
    assert_eq!(pulls.len(), 1, "{}", record.concat());
    assert!(!pulls[0].contains("adf_queue_message{"), "{pulls:?}");
    for (name, id) in [
        ("otel.name=delete /q", "message.id=1"),
        ("otel.name=rcancel /q", "message.id=2"),
        ("otel.name=delete /q", "message.id=2"),
    ] {
        let settled = told(&[within, name, "type=\"settle\"", "otel.kind=\"client\"", id]);
        assert_eq!(settled.len(), 1, "{name}, {id}: {}", record.concat());
    }
    for fate in ["fate=\"returned\"", "fate=\"deleted\""] {
        find(record, &[&["the message has ended", fate], &of_the_message[..]].concat());
    }
    find(record, &["WARN", "the connection was lost", "server.port="]);
    assert!(!record.concat().contains("disk"), "{}", record.concat());
}

/// What handlers say is in the log if requested: on one line, cut.
fn a_worker_logs_handler_errors_on_request(start: Start) {
    let record = record_of(|| {
        let server = server();
        blocking::Client::connect(server.address()).unwrap().rpush(QUEUE, "says").unwrap();
        let running = start(WorkerOptions::from(options(server.address())).log_errors(true));
        running.until("it is done", |view| view.report().deleted == 1);
        assert_eq!(running.stop().returned, 2);
    });
    check(&record);
    for begin in ["", "the handler panicked: "] {
        let error = format!("error={begin}disk\\nfull \\u{{1b}}[2J xxx");
        let within = "adf_queue_message{";
        let line = find(&record, &["WARN", within, "the handler failed", &error]);
        assert!(line.matches('x').count() <= 256, "{line}");
    }
}

/// It closes its connections.
fn a_stopped_worker_reports_no_loss(start: Start) {
    let server = server();
    let record = record_of(|| {
        let running = start(WorkerOptions::from(options(server.address())));
        running.until("it is connected", |view| states(view) == [ConnectionState::Ready]);
        running.stop();
    });
    find(&record, &["INFO", "connected"]);
    assert!(!record.concat().contains("WARN"), "{}", record.concat());
}
