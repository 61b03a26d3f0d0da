//! A client for [Gearman](http://gearman.org) job servers: the roles of client, worker and administrator, async and
//! blocking.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let server = fixtures::gearmand::Server::start()?;
//! # let address = server.address();
//! # let mut worker = gearman_client::Worker::connect(address).await?;
//! # worker.register("reverse", |job| async move { job.workload.iter().rev().copied().collect::<Vec<u8>>() })?;
//! # let (_stop, stopped) = tokio::sync::oneshot::channel::<()>();
//! # tokio::spawn(worker.run_until(stopped));
//! use gearman_client::{Client, Outcome, SubmitOptions};
//!
//! let client = Client::connect(address).await?; // for example "127.0.0.1:4730"
//! client.submit_background("resize", "cat.jpg", SubmitOptions::default()).await?;
//! let outcome = client.run("reverse", "hello", SubmitOptions::default()).await?;
//! assert_eq!(outcome, Outcome::Complete("olleh".into()));
//! # Ok(())
//! # }
//! ```
//!
//! The worker that answers, here in the blocking face, which has the same names and needs no runtime:
//!
//! ```
//! # let server = fixtures::gearmand::Server::start()?;
//! # let address = server.address();
//! use gearman_client::{Failure, blocking::Worker};
//!
//! let mut worker = Worker::connect(address)?;
//! worker.register("reverse", |job| -> Result<String, Failure> {
//!     let text = std::str::from_utf8(&job.workload)?; // an error becomes an exception at the submitter
//!     Ok(text.chars().rev().collect())
//! })?;
//! # worker.handle().stop();
//! worker.run()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Guarantees
//!
//! * **Workloads are bytes**, in and out, and leave the receive buffer without being copied.
//! * **Every failed call reports the fate of its request** ([`Fate`]): not sent, unknown, or refused. Only what was
//!   definitely not sent is repeated automatically; what may have run is repeated only if the caller declared it
//!   [idempotent](SubmitOptions::idempotent).
//! * **An answer never goes to the wrong caller**: a dropped future leaves the connection in step, and a connection
//!   that is out of step is closed.
//! * **No job is joined to another by accident**: every submission has a random unique id unless it sets one.
//! * **A result is never sent for a different job**: servers number handles from the start again when they restart, so
//!   a job is bound to the connection that delivered it.
//! * **A worker accounts for every job** ([`WorkerReport`]): the server does not acknowledge results, but it answers in
//!   order, so a later answer shows that it has accepted a result.
//! * **A job that kills its workers' processes is not run forever**, if there is a [`CrashLedger`].
//! * **A worker never spins**, whatever wake-ups or refusals the server sends, and polls for jobs even if nothing wakes
//!   it.
//! * **A handler learns that its job is lost** and that its worker is stopping ([`JobContext::lost`],
//!   [`JobContext::stopping`]), and a worker never starts a second run of a job while the first is still running in it.
//! * **A handler's error reaches the submitter as an exception; a panic is a plain failure**, and its message stays in
//!   the worker. Both are reported to [`WorkerOptions::on_event`], for background jobs too.
//! * **Nothing invalid is sent**: names, ids, handles and sizes are checked when a value is built.
//! * **Every wait has a named deadline**, and every buffer a limit.
//!
//! # Where things are
//!
//! [`Client`] and [`blocking::Client`] submit jobs and ask for their status; [`Worker`] and [`blocking::Worker`] run
//! them; [`Admin`] and [`blocking::Admin`] speak the server's text protocol. [`protocol`] has the packets and
//! requests.
//!
//! # Observability
//!
//! [`Client::metrics`] counts connections, requests, answers, bytes, and errors by kind, and
//! [`Client::connection_states`] returns the state of the connection to each server. [`Worker::handle`] gives the same
//! for a running worker, and the outcomes of its jobs so far. [`ConnectOptions::on_event`] reports when a client loses
//! a server, skips it and reconnects, and which requests are moved or resent.
//!
//! With the feature `tracing` the crate emits spans and events that follow OpenTelemetry's [messaging
//! conventions](https://opentelemetry.io/docs/specs/semconv/messaging/messaging-spans/), with the crate's name as their
//! target:
//!
//! | span | level | kind | named |
//! |---|---|---|---|
//! | `gearman_request`, `gearman_pipeline` | debug | client | `SUBMIT_JOB_BG resize`, `GET_STATUS 127.0.0.1:4730` |
//! | `gearman_job`: around a handler | info | consumer | `process resize` |
//! | `gearman_connect` | debug | client | `connect 127.0.0.1:4730` |
//!
//! Where an operation concerns no function, the span name has the server's address instead. Ids are text. Failed
//! operations have `error.type` and `otel.status_code`. The span of a pipeline has `messaging.batch.message_count` and
//! is named after its first operation. `messaging.gearman.message.delivery_attempt` is known with a [`CrashLedger`]. A
//! handler's failure, of type `fail`, `exception` or `panic`, is logged within the span of its job.
//! `WorkerOptions::on_span` sees the span of each job before it is entered, so that it can set the sender's context as
//! its parent; the sender carries that context in its envelope, which this crate does not interpret. Fields are
//! computed only for enabled spans.
//!
//! [`ConnectOptions::on_measurement`], and its counterpart for workers, report the four [messaging
//! metrics](https://opentelemetry.io/docs/specs/semconv/messaging/messaging-metrics/), without a dependency on
//! OpenTelemetry: [`Instrument`] has their names, units and buckets, [`Measurement`] the value and the attributes.
//! Dropped calls are not measured. A worker's own grabs and results are measured and have spans like those of a client:
//! a settlement within the span of its job, a grab as a root. The settlement of a result ends when a later answer
//! confirms it. The guide maps both to OpenTelemetry's crates.
//!
//! No lock is held while an observer of events or measurements, or a subscriber, runs: it may ask handles, clients,
//! producers and jobs for anything that does not wait. There is one exception: the span of a worker's own request, such
//! as a grab, begins under a lock, since a span cannot be dated back. So a subscriber that is told of a new
//! `gearman_request` must not ask that worker or its jobs in the same thread.
//!
//! Each event is one line. Workloads and results are never logged, only their length; neither is text from servers nor,
//! unless [`WorkerOptions::log_errors`] is set, text from handlers.
//!
//! # Features
//!
//! | feature | default | adds | extra dependencies |
//! |---|---|---|---|
//! | `tokio` | yes | the async face: [`Client`], [`Worker`], [`Admin`] | tokio, socket2 |
//! | `blocking` | yes | the blocking face: [`blocking`] | socket2 |
//! | `tls` | no | `gearmans://` addresses for both faces, `TlsOptions` | rustls, rustls-native-certs, tokio-rustls |
//! | `blocking-tls` | no | the same for the blocking face alone, without tokio | rustls, rustls-native-certs |
//! | `platform-verifier` | no | `TlsOptions::platform_verifier`, for `tls` and `blocking-tls`: the operating system decides about certificates | rustls-platform-verifier |
//! | `json` | no | bodies that are JSON: `submit_json`, `run_json`, `submit_background_json`, `json`, `to_json` | serde, serde_json |
//! | `stream` | no | named types with `futures_core::Stream`: jobs (`Worker::jobs`), events (`ConnectOptions::event_stream` for clients, `WorkerOptions::event_stream`) and answers (`into_stream`) | futures-core |
//! | `tower` | no | tower services as handlers, with their layers: `Worker::register_service` | tower-service |
//! | `tracing` | no | spans and events for connections, requests and jobs | tracing |
//! | `serde` | no | `Serialize` and `Deserialize` for names, ids, addresses, servers, options, decisions, reports, metrics and statistics; `Serialize` for errors and events | serde |
//!
//! Options are read from configuration as an address, a list of addresses, or a map with the names of the setters.
//! Omitted keys have their defaults, and unknown keys are errors. Jobs, their events and their results are not
//! serializable: they belong to a connection, and payloads are arbitrary bytes.
//!
//! Without features, the crate consists of [`protocol`] and the types, and depends only on `bytes` and on `queue-core`,
//! which then has no further dependencies.
#![cfg_attr(docsrs, feature(doc_cfg))]
// Test vectors separate arguments by a NUL, often followed by a digit.
#![cfg_attr(test, allow(clippy::octal_escapes))]
#![deny(missing_docs)]
// What only one face uses of the protocol is unused without that face.
#![cfg_attr(not(all(feature = "tokio", feature = "blocking")), allow(dead_code, unused_imports))]
// A copied example should not warn about an unused result.
#![doc(test(attr(deny(unused_must_use))))]

mod address;
#[cfg(any(feature = "tokio", feature = "blocking"))]
mod admin_commands;
#[cfg(feature = "tokio")]
mod asynchronous;
#[cfg(feature = "blocking")]
pub mod blocking;
mod error;
#[cfg(feature = "json")]
mod json;
mod names;
mod observed;
#[cfg(any(feature = "tokio", feature = "blocking"))]
mod one_server;
mod options;
pub mod protocol;
mod random;
#[cfg(any(feature = "tokio", feature = "blocking"))]
mod requests;
mod rows;
#[cfg(test)]
#[cfg(feature = "serde")]
mod serde_tests;
mod servers;
mod submission;
mod system;
mod text;
#[cfg(test)]
mod text_tests;
// Without the feature, most of its functions do nothing.
#[cfg_attr(not(feature = "tracing"), allow(unused_variables))]
mod trace;
mod work;
#[cfg(any(feature = "tokio", feature = "blocking"))]
mod workers;

#[cfg(feature = "stream")]
pub use self::asynchronous::streams::{
    CallManyStream, JobEventStream, JobStream, SubmitManyStream,
};
#[cfg(feature = "tokio")]
pub use self::asynchronous::{
    admin::Admin,
    client::Client,
    job::Job,
    many::{CallMany, SubmitMany},
    packets::Packets,
    worker::{GrabbedJob, JobContext, TestJob, Worker},
};
#[cfg(feature = "json")]
pub use self::json::to_json;
pub use self::submission::client_events::{ClientEvent, ClientEventKind};
pub use self::work::{
    events::{WorkerEvent, WorkerEventKind},
    handle::{ServerStatus, WorkerHandle},
    ledger::{CrashLedger, CrashVerdict, RunningJob},
};
pub use self::{
    address::Address,
    error::{Deadline, Error, ErrorKind, Fate},
    names::{ClientId, FunctionName, UniqueId},
    options::ConnectOptions,
    protocol::{Assignment, Grab, MaxQueue, Submitted},
    rows::{FunctionPriorities, FunctionStatus, JobInfo, Listing, Row, UniqueJob, WorkerInfo},
    servers::{Selection, Servers},
    submission::{
        event::{JobEvent, JobFailed, JobStatus, Outcome, Progress},
        handle::{JobHandle, Origin},
        submit::{Priority, Schedule, SubmitOptions, Unique},
    },
    work::{
        failure::{Failure, LostReason},
        options::WorkerOptions,
        outcome::IntoOutcome,
        report::WorkerReport,
    },
};
#[cfg(feature = "tokio")]
pub use queue_core::Duplex;
#[cfg(feature = "stream")]
pub use queue_core::EventStream;
#[cfg(feature = "json")]
pub use queue_core::JsonError;
pub use queue_core::{
    AttributeValue, ConnectionState, Endpoint, Epoch, Instrument, JobLimit, Measurement,
    RetryPolicy, ServerOptions,
};
#[cfg(feature = "__rustls")]
pub use queue_core::{TlsOptions, rustls};

/// Metrics of a client; errors by their [`ErrorKind`].
/// Its fields and methods are those of [`queue_core::Metrics`].
pub type Metrics = queue_core::Metrics<ErrorKind>;

/// The result type of this crate's calls.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Compiles the examples of the README.
#[cfg(all(doctest, feature = "tokio", feature = "blocking"))]
#[doc = include_str!("../README.md")]
struct Readme;
