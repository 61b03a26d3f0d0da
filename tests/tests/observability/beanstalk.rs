//! beanstalkd.

use std::time::Duration;

use beanstalk_client::{
    ConnectOptions, Error, ErrorKind, JobContext, PutOptions, RetryPolicy, TlsOptions, Worker,
    WorkerOptions, blocking,
    protocol::{Delete, Put, Reserve},
};
use fixtures::beanstalkd::Server;
use tests::{Async, Blocking, Face, face::runtime, listener::Scripts};

use super::record::{SENTINEL, check, find, record_of};

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
            tests::listener::read_line(&mut stream).unwrap();
            let _ = std::io::Write::write_all(&mut stream, reply.as_bytes());
            tests::listener::read_to_end(&mut stream);
        });
        let mut client = F::connect(options(&confused.address())).unwrap();
        assert!(client.call(&Reserve).is_err());
    }
}

fn check_client(record: &[String]) {
    check(record);
    let system = "messaging.system=\"beanstalkd\"";
    find(record, &["INFO", "connected", system, "server.address=127.0.0.1", "server.port="]);
    find(record, &["beanstalk_connect", "close"]);
    find(
        record,
        &[
            "beanstalk_command",
            "close",
            system,
            "messaging.operation.name=\"put\"",
            "messaging.operation.type=\"send\"",
            "messaging.destination.name=\"mail\"",
            "messaging.message.id=1",
            "server.address=127.0.0.1",
        ],
    );
    find(
        record,
        &["close", "name=\"reserve\"", "type=\"receive\"", "name=\"mail\"", "id=1", "body.size="],
    );
    find(
        record,
        &[
            "close",
            "name=\"delete\"",
            "type=\"settle\"",
            "message.id=1",
            "error.type=\"not_found\"",
        ],
    );
    find(record, &["the command failed", "error.type=\"not_found\"", "fate=Refused"]);
    find(record, &["WARN", "the connection was lost"]);
    find(record, &["waiting before the next attempt", "delay_ms="]);
    find(
        record,
        &["WARN", "no connection", "error.type=\"connect\"", "error=cannot connect to 127.0.0.1:"],
    );
    find(record, &["no connection", "\\n", "\\u{1b}", "\\u{202e}"]);
    find(record, &["error.type=\"tls\""]);
}

#[test]
fn an_async_client_tells_what_it_does_and_no_body() {
    check_client(&record_of(use_client::<Async>));
}

#[test]
fn a_blocking_client_tells_what_it_does_and_no_body() {
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
            "beanstalk_job",
            "close",
            "messaging.operation.type=\"process\"",
            "messaging.message.id=1",
            "body.size=",
        ],
    );
    find(record, &["WARN", "the job's handler failed", "messaging.message.id=1"]);
    find(record, &["the job is settled", "outcome=\"released\""]);
}

#[test]
fn an_async_worker_tells_what_it_does_and_no_body() {
    check_worker(&record_of(|| {
        let server = Server::start().unwrap();
        let worker = Worker::new(worker_options(&server)).unwrap();
        let handler = |job: JobContext| async move { quote(&job.body) };
        runtime().block_on(worker.run_until(std::future::pending::<()>(), handler));
    }));
}

#[test]
fn a_blocking_worker_tells_what_it_does_and_no_body() {
    check_worker(&record_of(|| {
        let server = Server::start().unwrap();
        let worker = blocking::Worker::new(worker_options(&server)).unwrap();
        worker.run(|job| quote(&job.body));
    }));
}

#[test]
fn a_producer_tells_of_its_connections_and_no_body() {
    let record = record_of(|| {
        let server = Server::start().unwrap();
        runtime().block_on(async {
            let producer = beanstalk_client::Producer::connect(server.address()).await.unwrap();
            let _ = producer.put("mail", SENTINEL, PutOptions::default()).await.unwrap();
            drop(server);
            // It is written to the server that has gone, or waits for one that never comes.
            let producer = producer.timeout(Duration::from_secs(1));
            let late: Result<_, Error> =
                producer.put("mail", SENTINEL, PutOptions::default()).await;
            assert!(late.is_err());
        });
    });
    check(&record);
    find(&record, &["connected", "messaging.system=\"beanstalkd\""]);
    find(&record, &["WARN", "the connection was lost"]);
}
