//! beanstalkd.

use std::time::Duration;

use beanstalk_client::{
    ConnectOptions, Error, ErrorKind, JobContext, PutOptions, RetryPolicy, TlsOptions, Worker,
    WorkerOptions, blocking,
    protocol::{Delete, Put, Reserve},
};
use fixtures::beanstalkd::Server;
use queue_core::proof::{Scripts, read_line, read_to_end, runtime};
use tracing::Instrument;

use super::face::{Async, Blocking, Face};
use super::record::{
    SENTINEL, by_awaiting, by_blocking, check, check_connections, closed, find, record_of,
};

fn options(address: &str) -> ConnectOptions {
    let options: ConnectOptions = address.parse().unwrap();
    let retry = RetryPolicy::new(2).backoff(Duration::from_millis(1), Duration::from_millis(2));
    options.reply_timeout(Duration::from_secs(20)).retry(retry)
}

/// A client that does a little of everything, well and badly.
fn use_client<F: Face>() {
    let server = Server::start().unwrap();
    let body = format!("{SENTINEL} in a body\r\nof two lines");
    let tls = TlsOptions::default().client_certificate_pem(SENTINEL, SENTINEL);
    let mut client = F::connect(options(server.address()).tls(tls.clone())).unwrap();
    client.use_tube("mail").unwrap();
    client.watch("mail").unwrap();
    client.ignore("default").unwrap();
    let id = client.put(body.as_bytes(), PutOptions::default()).unwrap().id();
    assert!(client.peek(id).unwrap().is_some());
    let job = client.reserve().unwrap().job().unwrap();
    let (deleted, _) = client
        .call_pair(&Delete::new(&job), &Put::new(body.as_str(), PutOptions::default()).unwrap())
        .unwrap();
    deleted.unwrap();
    assert_eq!(client.delete(id).unwrap_err().kind(), ErrorKind::NotFound);
    let puts = (0..3).map(|_| Put::new(body.as_str(), PutOptions::default()).unwrap());
    assert_eq!(client.call_many(puts).len(), 3);
    client.reconnect().unwrap();
    let _ = client.put(body.as_bytes(), PutOptions::default()).unwrap();
    let metrics = client.metrics();
    assert_eq!((metrics.connections, metrics.reconnects), (2, 1));
    assert_eq!(metrics.errors, [(ErrorKind::NotFound, 1)]);
    // use, watch, ignore, put, peek, reserve, delete, put, delete, 3 puts, 3 to restore, put
    assert_eq!((metrics.commands, metrics.replies), (16, 16));
    assert!(metrics.bytes_out > 6 * body.len() as u64 && metrics.bytes_in > 2 * body.len() as u64);
    drop(server);
    let _ = client.put(body.as_bytes(), PutOptions::default());
    assert!(client.put(body.as_bytes(), PutOptions::default()).is_err());
    assert!(client.metrics().errors_of(ErrorKind::Connect) > 0);

    // Connections that cannot be made, and addresses that do not stay on their line.
    assert!(F::connect(options("beanstalks://127.0.0.1:1").tls(tls)).is_err());
    assert!(F::connect(options("unix:/nowhere/a\n\x1b[2Jb\u{202e}.sock")).is_err());
    let secret = format!("beanstalk://user:{SENTINEL}@host").parse::<ConnectOptions>();
    assert!(!secret.unwrap_err().to_string().contains(SENTINEL));

    // A server that talks bodies where replies belong.
    for reply in [format!("{SENTINEL}\r\n"), format!("RESERVED 1 4\r\n{SENTINEL}\r\n")] {
        let confused = Scripts::start(move |_, mut stream| {
            read_line(&mut stream).unwrap();
            let _ = std::io::Write::write_all(&mut stream, reply.as_bytes());
            read_to_end(&mut stream);
        });
        let mut client = F::connect(options(&confused.address())).unwrap();
        assert!(client.call(&Reserve).is_err());
    }
}

fn check_client(record: &[String]) {
    let system = "messaging.system=\"beanstalkd\"";
    check_connections(record, system, "beanstalk_connect");
    find(
        record,
        &[
            "DEBUG beanstalk_command{",
            "close",
            system,
            "otel.name=put mail",
            "otel.kind=\"client\"",
            "messaging.operation.name=\"put\"",
            "messaging.operation.type=\"send\"",
            "messaging.destination.name=mail",
            "messaging.message.id=1",
            "server.address=127.0.0.1",
            "server.port=",
        ],
    );
    find(
        record,
        &[
            "close",
            "otel.name=reserve mail",
            "name=\"reserve\"",
            "type=\"receive\"",
            "name=mail",
            "id=1",
            "body.size=",
        ],
    );
    find(
        record,
        &[
            "close",
            "otel.name=delete 127.0.0.1:",
            "name=\"delete\"",
            "type=\"settle\"",
            "message.id=1",
            "error.type=\"not_found\"",
            "otel.status_code=\"error\"",
        ],
    );
    // A job that was reserved from the only tube that is watched.
    let known = ["otel.name=delete mail", "destination.name=mail", "type=\"settle\"", "id=1"];
    assert_eq!(closed(record, "beanstalk_command", &known).len(), 1);
    let batch = ["otel.name=put mail", "messaging.batch.message_count=3", "type=\"send\""];
    assert_eq!(closed(record, "beanstalk_pipeline", &batch).len(), 1);
    let second_of_a_pair = ["otel.name=put mail", "messaging.message.id=2"];
    assert_eq!(closed(record, "beanstalk_command", &second_of_a_pair).len(), 1);
    find(record, &["beanstalk_connect", "close", "otel.status_code=\"error\"", "error.type="]);
    find(record, &["the command failed", "error.type=\"not_found\"", "fate=Refused"]);
    find(record, &["no connection", "\\n", "\\u{1b}", "\\u{202e}"]);
}

#[test]
fn an_async_client_is_traced_without_bodies() {
    check_client(&record_of(use_client::<Async>));
}

#[test]
fn a_blocking_client_is_traced_without_bodies() {
    check_client(&record_of(use_client::<Blocking>));
}

/// A handler that quotes its job when it fails.
fn quote(body: &[u8]) -> Result<(), String> {
    Err(String::from_utf8_lossy(body).into_owned())
}

fn worker_options(server: &Server) -> WorkerOptions {
    let mut client = blocking::Client::connect(server.address()).unwrap();
    let body = format!("{SENTINEL}\nin a job");
    let _ = client.put(&body, PutOptions::default()).unwrap();
    WorkerOptions::new(server.address()).unwrap().until_empty()
}

fn check_worker(record: &[String]) {
    check(record);
    find(
        record,
        &[
            "INFO beanstalk_job{",
            "close",
            "otel.name=process default",
            "otel.kind=\"consumer\"",
            "messaging.operation.type=\"process\"",
            "messaging.destination.name=default",
            "messaging.message.id=1",
            "messaging.beanstalkd.message.delivery_attempt=1",
            "body.size=",
            "error.type=\"error\"",
            "otel.status_code=\"error\"",
        ],
    );
    let within = "beanstalk_job{otel.name=process default";
    find(record, &["WARN", within, "the job's handler failed", "messaging.message.id=1"]);
    find(record, &["the job is settled", "outcome=\"released\""]);
}

#[test]
fn an_async_worker_is_traced_without_bodies() {
    check_worker(&record_of(|| {
        let server = Server::start().unwrap();
        let mut worker = Worker::new(worker_options(&server)).unwrap();
        let handler = |job: JobContext| async move { quote(&job.body) };
        worker.register("default", handler).unwrap();
        runtime().block_on(worker.run());
    }));
}

#[test]
fn a_blocking_worker_is_traced_without_bodies() {
    check_worker(&record_of(|| {
        let server = Server::start().unwrap();
        let mut worker = blocking::Worker::new(worker_options(&server)).unwrap();
        worker.register("default", |job| quote(&job.body)).unwrap();
        let _ = worker.run();
    }));
}

fn check_producer(record: &[String]) {
    check(record);
    find(record, &["connected", "messaging.system=\"beanstalkd\""]);
    find(record, &["WARN", "the connection was lost"]);
    let put = [
        "caller:beanstalk_put{otel.name=put mail otel.kind=\"client\"",
        "messaging.operation.name=\"put\" messaging.operation.type=\"send\"",
        "messaging.destination.name=mail server.address=127.0.0.1 server.port=",
        "messaging.message.body.size=",
    ];
    for id in 1..=3 {
        let id = format!("messaging.message.id={id}");
        let one = [&put[..], &[&id]].concat();
        assert_eq!(closed(record, "beanstalk_put", &one).len(), 1, "{id}");
    }
    let failed = [&put[..], &["error.type=\"total_timeout\" otel.status_code=\"error\""]].concat();
    assert_eq!(closed(record, "beanstalk_put", &failed).len(), 1);
    find(record, &["beanstalk_put{", "the put failed", "error.type=\"total_timeout\"", "fate="]);
    let many = ["caller:beanstalk_put_many{otel.name=put mail", "messaging.batch.message_count=5"];
    assert_eq!(closed(record, "beanstalk_put_many", &many).len(), 1);
    assert_eq!(closed(record, "beanstalk_put", &[]).len(), 4, "those of put_many have none");
}

/// Puts by a producer of a face in every way, at last to a server that has gone.
macro_rules! use_producer {
    ($face:ident, $by:ident, $server:ident) => {
        let producer = $by!(call $face::Producer::connect($server.address())).unwrap();
        let options = PutOptions::default;
        let _ = $by!(call producer.put("mail", SENTINEL, options())).unwrap();
        let receipt = $by!(call producer.enqueue("mail", SENTINEL, options())).unwrap();
        let _ = $by!(receipt receipt).unwrap();
        let receipt = producer.try_put("mail", SENTINEL, options()).unwrap();
        let _ = $by!(receipt receipt).unwrap();
        $by!(all producer.put_many("mail", [SENTINEL; 5], options()).unwrap());
        drop($server);
        // It is written to the server that has gone, or waits for one that never comes.
        let producer = producer.timeout(Duration::from_secs(1));
        let late: Result<_, Error> = $by!(call producer.put("mail", SENTINEL, options()));
        assert_eq!(late.unwrap_err().kind().name(), "total_timeout");
    };
}

#[test]
fn an_async_producer_traces_puts_and_connections_without_bodies() {
    check_producer(&record_of(|| {
        let server = Server::start().unwrap();
        let puts = async {
            use_producer!(beanstalk_client, by_awaiting, server);
        };
        runtime().block_on(puts.instrument(tracing::info_span!("caller")));
    }));
}

#[test]
fn a_blocking_producer_traces_puts_and_connections_without_bodies() {
    check_producer(&record_of(|| {
        let server = Server::start().unwrap();
        tracing::info_span!("caller").in_scope(|| {
            use_producer!(blocking, by_blocking, server);
        });
    }));
}
