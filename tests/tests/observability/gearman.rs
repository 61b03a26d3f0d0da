//! Gearman.

use std::time::Duration;

use bytes::BytesMut;
use fixtures::gearmand::Server;
use gearman_client::{
    ConnectOptions, ConnectionState, Error, ErrorKind, Failure, FunctionName, JobContext, Metrics,
    Origin, Outcome, RetryPolicy, SubmitOptions, TlsOptions, Worker, blocking,
    protocol::{Echo, Magic, Packet, PacketType, Request, Submit},
};
use queue_core::proof::runtime;

use super::record::{
    SENTINEL, by_awaiting, by_blocking, check_connections, closed, find, record_of,
};

fn options(address: &str) -> ConnectOptions {
    let options: ConnectOptions = address.parse().unwrap();
    let retry = RetryPolicy::new(2).backoff(Duration::from_millis(1), Duration::from_millis(2));
    let tls = TlsOptions::default().client_certificate_pem(SENTINEL, SENTINEL);
    options.reply_timeout(Duration::from_secs(20)).retry(retry).tls(tls)
}

fn workload() -> String {
    format!("{SENTINEL} in a workload\r\nof two lines")
}

fn submit() -> SubmitOptions {
    SubmitOptions::default()
}

/// A name that does not stay on its line.
fn odd() -> FunctionName {
    FunctionName::try_from("odd\n\x1b[2Jname").unwrap()
}

/// Answers, or quotes its job in an exception.
fn work(job: &gearman_client::protocol::Assignment) -> Result<Vec<u8>, Failure> {
    if job.function.as_bytes() == b"quote" {
        return Err(Failure::exception(job.workload.clone()));
    }
    Ok(job.workload.to_vec())
}

fn check_numbers(metrics: &Metrics) {
    assert_eq!((metrics.connections, metrics.reconnects), (2, 1), "{metrics:?}");
    assert_eq!(metrics.errors, [(ErrorKind::UnknownOption, 1)], "{metrics:?}");
    // 2 of OPTION_REQ, 2 + 2 jobs, 1 in the background, 1 refused, 3 + 1 of echo
    assert_eq!((metrics.commands, metrics.replies), (12, 12), "{metrics:?}");
    let body = workload().len() as u64;
    assert!(metrics.bytes_out > 7 * body && metrics.bytes_in > 5 * body, "{metrics:?}");
}

fn check_client(record: &[String]) {
    let system = "messaging.system=\"gearman\"";
    check_connections(record, system, "gearman_connect");
    find(
        record,
        &[
            "DEBUG gearman_request{",
            "close",
            system,
            "otel.name=SUBMIT_JOB_BG odd\\n\\u{1b}[2Jname",
            "otel.kind=\"client\"",
            "messaging.operation.name=\"SUBMIT_JOB_BG\"",
            "messaging.operation.type=\"send\"",
            "messaging.destination.name=odd\\n\\u{1b}[2Jname",
            "messaging.message.id=H:",
            "server.address=127.0.0.1",
        ],
    );
    find(record, &["the request failed", "error.type=\"unknown_option\"", "fate=Refused"]);
    find(
        record,
        &[
            "INFO gearman_job{",
            "close",
            "otel.name=process echo",
            "otel.kind=\"consumer\"",
            "messaging.destination.name=echo",
            "message.id=H:",
            "body.size=",
        ],
    );
    let failed = ["otel.name=process quote", "error.type=\"exception\" otel.status_code=\"error\""];
    assert_eq!(closed(record, "gearman_job", &failed).len(), 1);
    let refused = ["otel.name=OPTION_REQ 127.0.0.1:", "otel.status_code=\"error\""];
    assert_eq!(closed(record, "gearman_request", &refused).len(), 1);
    let batch = ["otel.name=ECHO_REQ 127.0.0.1:", "messaging.batch.message_count=3"];
    assert_eq!(closed(record, "gearman_pipeline", &batch).len(), 1);
    let batch = ["otel.name=SUBMIT_JOB echo", "messaging.batch.message_count=2", "type=\"send\""];
    assert_eq!(closed(record, "gearman_pipeline", &batch).len(), 1);
    assert_eq!(closed(record, "gearman_pipeline", &[]).len(), 2);
    find(record, &["the job is done", "messaging.message.id=H:"]);
    find(record, &["WARN", "the job's handler failed", "outcome=\"exception\""]);
}

fn echo_job() -> Submit<String> {
    Submit::foreground("echo".try_into().unwrap(), workload(), submit()).unwrap()
}

/// An option that no server has.
struct Nonsense;

impl Request for Nonsense {
    type Reply = ();

    fn packet_type(&self) -> PacketType {
        PacketType::OptionReq
    }

    fn answered_by(&self) -> PacketType {
        PacketType::OptionRes
    }

    fn encode(&self, out: &mut BytesMut) {
        Packet::new(Magic::Request, self.packet_type(), &["nonsense"]).unwrap().encode(out);
    }

    fn decode(&self, _: Packet, _: &Origin) -> Result<(), Error> {
        Ok(())
    }
}

/// Uses a client of a face a little, well and badly; `$stop` ends the worker.
macro_rules! use_client {
    ($face:ident, $by:ident, $server:ident, $stop:expr) => {
        let connect = || $face::Client::connect(options($server.address()));
        #[allow(unused_mut)]
        let mut client = $by!(call connect()).unwrap();
        let outcome = $by!(call client.run("echo", workload(), submit())).unwrap();
        assert_eq!(outcome, Outcome::Complete(workload().into()));
        let outcome = $by!(call client.run("quote", workload(), submit())).unwrap();
        assert!(matches!(outcome, Outcome::Exception(_)));
        $by!(call client.submit_background(odd(), workload(), submit())).unwrap();
        let refused = $by!(call client.call(&Nonsense)).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::UnknownOption, "{refused}");
        $by!(all client.call_many((0..3).map(|_| Echo(workload()))));
        $by!(pairs client.submit_many((0..2).map(|_| echo_job())));
        assert!(client.connection_states().eq([ConnectionState::Ready]));
        $by!(call client.reconnect()).unwrap();
        $by!(call client.echo(workload())).unwrap();
        check_numbers(&client.metrics());
        $stop;
        drop($server);
        let _ = $by!(call client.echo(workload()));
        assert!($by!(call client.echo(workload())).is_err());
        assert!(client.metrics().errors_of(ErrorKind::Connect) > 0);
        let state = client.connection_states().next().unwrap();
        assert!(matches!(state, ConnectionState::Backoff | ConnectionState::Idle), "{state:?}");
        let refused = || $face::Client::connect(options("gearmans://127.0.0.1:1"));
        assert!($by!(call refused()).is_err());
    };
}

#[test]
fn an_async_client_and_worker_are_traced_without_workloads() {
    check_client(&record_of(|| {
        let server = Server::start().unwrap();
        runtime().block_on(async {
            let mut worker = Worker::connect(options(server.address())).await.unwrap();
            for name in ["echo", "quote"] {
                worker.register(name, |job: JobContext| async move { work(&job) }).unwrap();
            }
            let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
            let worker = tokio::spawn(worker.run_until(stopped));
            use_client!(gearman_client, by_awaiting, server, {
                stop.send(()).unwrap();
                worker.await.unwrap()
            });
        });
    }));
}

#[test]
fn a_blocking_client_and_worker_are_traced_without_workloads() {
    check_client(&record_of(|| {
        let server = Server::start().unwrap();
        let mut worker = blocking::Worker::connect(options(server.address())).unwrap();
        for name in ["echo", "quote"] {
            worker.register(name, |job| work(job)).unwrap();
        }
        let stop = worker.handle();
        let worker = std::thread::spawn(move || worker.run().unwrap());
        use_client!(blocking, by_blocking, server, {
            stop.stop();
            worker.join().unwrap()
        });
    }));
}
