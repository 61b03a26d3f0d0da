//! A client for the [beanstalkd](https://beanstalkd.github.io) job queue: the whole protocol, async and blocking.
//!
//! A service puts jobs with a [`Producer`] and runs them with a [`Worker`]:
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let server = fixtures::beanstalkd::Server::start()?;
//! # let address = server.address();
//! use beanstalk_client::{JobContext, Producer, PutOptions, Worker, WorkerOptions};
//!
//! let producer = Producer::connect(address).await?; // for example "127.0.0.1:11300"
//! let id = producer.put("mail", "hello", PutOptions::default()).await?.id();
//!
//! let options = WorkerOptions::new(address)?.slots(4);
//! # let options = options.until_empty();
//! let mut worker = Worker::new(options)?;
//! worker.register("mail", move |job: JobContext| async move {
//!     assert_eq!((job.id, &*job.body), (id, &b"hello"[..]));
//!     Ok::<(), std::io::Error>(()) // delete; an error releases it with a delay
//! })?;
//! assert_eq!(worker.run().await.finished, 1);
//! # Ok(())
//! # }
//! ```
//!
//! A [`Client`] is one connection, with a method for each command. The blocking face has the same names and needs no
//! runtime:
//!
//! ```
//! # let server = fixtures::beanstalkd::Server::start()?;
//! # let address = server.address();
//! use std::time::Duration;
//! use beanstalk_client::{PutOptions, Reserved, blocking::Client};
//!
//! let mut client = Client::connect(address)?;
//! let id = client.put("hello", PutOptions::default())?.id();
//! if let Reserved::Job(job) = client.reserve_with_timeout(Duration::from_secs(5))? {
//!     assert_eq!(job.id, id);
//!     assert_eq!(job.body, "hello");
//!     client.delete(&job)?;
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Guarantees
//!
//! * **Bodies are bytes**, in and out, and leave the receive buffer without being copied.
//! * **Every failed call reports the fate of its command** ([`Fate`]): not sent, unknown, or refused. Only what was
//!   definitely not sent is repeated automatically, and never a command that acts on a job.
//! * **A reply never goes to the wrong caller.** Replies are numbered; a dropped future or an abandoned pipeline leaves
//!   the connection in step, and a connection that is out of step is closed.
//! * **A dropped reserve loses no job**: a job that arrives late goes to the next reserve, once a `touch` has confirmed
//!   that it is still held, or back to the server.
//! * **A reservation is bound to its connection.** After a reconnect, acting on it fails locally, because its id may by
//!   then belong to another client's job.
//! * **A reconnect restores** the used tube and the watch list before anything else is sent.
//! * **Nothing invalid is sent**: names, durations and sizes are checked when a value is built.
//! * **Every wait has a named deadline**, and every buffer a limit. Only the bare commands in [`protocol`] that the
//!   server may hold back for ever, a plain `reserve`, have none.
//!
//! # Where things are
//!
//! [`Producer`] and [`blocking::Producer`] put jobs for any number of callers over one connection to each server.
//!
//! [`Worker`] and [`blocking::Worker`] run a handler for every job, on any number of servers: they keep reservations
//! alive, retry what failed and bury what fails too often, survive restarts of servers, and stop in an orderly way.
//!
//! [`Client`] and [`blocking::Client`] have a method for each command of the protocol, `call` for any command value,
//! `call_pair` to finish a job and ask for the next in one write, `call_many` for pipelines, and `jobs` to list jobs
//! without taking them. [`protocol`] has the commands and replies.
//!
//! # After `fork`
//!
//! Parent and child share the sockets of all clients, producers and workers, and take each other's answers. A child must
//! not use those that were made before the fork, and makes its own.
//!
//! # Observability
//!
//! [`Client::metrics`] counts connections, commands, replies, bytes, and errors by kind. [`WorkerHandle`] gives the
//! same for a running worker, and the outcomes of its jobs so far. Producers report their puts and the state of every
//! connection.
//!
//! With the feature `tracing` the crate emits spans and events that follow OpenTelemetry's [messaging
//! conventions](https://opentelemetry.io/docs/specs/semconv/messaging/messaging-spans/), with the crate's name as their
//! target:
//!
//! | span | level | kind | named |
//! |---|---|---|---|
//! | `beanstalk_command`, `beanstalk_pipeline` | debug | client | `put mail`, `delete 127.0.0.1:11300` |
//! | `beanstalk_put`, `beanstalk_put_many`: of a [`Producer`], within the caller's span | debug | client | `put mail` |
//! | `beanstalk_job`: around a handler | info | consumer | `process mail` |
//! | `beanstalk_connect` | debug | client | `connect 127.0.0.1:11300` |
//!
//! Where an operation concerns no tube, the span name has the server's address instead. Ids are text. Failed operations
//! have `error.type` and `otel.status_code`. The span of a pipeline has `messaging.batch.message_count` and is named
//! after its first operation. `messaging.beanstalkd.message.delivery_attempt` is the job's `reserves`, once its
//! counters were read. A handler's failure, of type `error` or `panic`, is logged within the span of its job.
//! `WorkerOptions::on_span` sees the span of each job before it is entered, so that it can set the sender's context as
//! its parent; the sender carries that context in its envelope, which this crate does not interpret. Fields are
//! computed only for enabled spans.
//!
//! [`ConnectOptions::on_measurement`], and its counterparts for workers and producers, report the four [messaging
//! metrics](https://opentelemetry.io/docs/specs/semconv/messaging/messaging-metrics/), without a dependency on
//! OpenTelemetry: [`Instrument`] has their names, units and buckets, [`Measurement`] the value and the attributes.
//! Dropped calls are not measured. A worker's own reserves and settlements are measured and have spans like those of a
//! client: a settlement within the span of its job, a reserve as a root. The duration of a reserve includes its wait on
//! the server. The guide maps both to OpenTelemetry's crates.
//!
//! No lock is held while an observer of events or measurements, or a subscriber, runs: it may ask handles, producers and
//! jobs for anything that does not wait.
//!
//! Each event is one line. Bodies are never logged, only their length; neither is text from servers nor, unless
//! [`WorkerOptions::log_errors`] is set, text from handlers.
//!
//! # Features
//!
//! | feature | default | adds | extra dependencies |
//! |---|---|---|---|
//! | `tokio` | yes | the async face: [`Client`] | tokio, socket2 |
//! | `blocking` | yes | the blocking face: [`blocking::Client`] | socket2 |
//! | `tls` | no | `beanstalks://` addresses for both faces, `TlsOptions` | rustls, rustls-native-certs, tokio-rustls |
//! | `blocking-tls` | no | the same for the blocking face alone, without tokio | rustls, rustls-native-certs |
//! | `platform-verifier` | no | `TlsOptions::platform_verifier`, for `tls` and `blocking-tls`: the operating system decides about certificates | rustls-platform-verifier |
//! | `json` | no | bodies that are JSON: `put_json`, `json` | serde, serde_json |
//! | `stream` | no | named types with `futures_core::Stream`: reserved jobs (`Client::reserve_stream`), events (`ProducerOptions::event_stream`, `WorkerOptions::event_stream`) and answers (`into_stream`) | futures-core |
//! | `tower` | no | tower services as handlers, with their layers: `Worker::register_service` | tower-service |
//! | `tracing` | no | spans and events for connections, commands and jobs | tracing |
//! | `serde` | no | `Serialize` and `Deserialize` for names, ids, addresses, servers, options, decisions, reports, metrics and statistics; `Serialize` for errors and events | serde |
//!
//! Options are read from configuration as an address, a list of addresses, or a map with the names of the setters.
//! Omitted keys have their defaults, and unknown keys are errors. A `Job` is not serializable: its reservation belongs
//! to a connection, and its body is arbitrary bytes.
//!
//! Without features, the crate consists of [`protocol`] and the types, and depends only on `bytes` and on `queue-core`,
//! which then has no further dependencies.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![deny(missing_docs)]
// What only one face uses of the protocol is unused without that face.
#![cfg_attr(not(all(feature = "tokio", feature = "blocking")), allow(dead_code, unused_imports))]
// A copied example should not warn about an unused result.
#![doc(test(attr(deny(unused_must_use))))]

// Before the clients' own files: the documentation shows `connect` first.
#[cfg(any(feature = "tokio", feature = "blocking"))]
mod client;

mod address;
#[cfg(feature = "tokio")]
mod asynchronous;
#[cfg(feature = "blocking")]
pub mod blocking;
#[cfg(any(feature = "tokio", feature = "blocking"))]
mod commands;
mod error;
mod filter;
#[cfg(any(feature = "tokio", feature = "blocking"))]
mod job_context;
#[cfg(any(feature = "tokio", feature = "blocking"))]
mod jobs;
#[cfg(feature = "json")]
mod json;
mod options;
#[cfg(any(feature = "tokio", feature = "blocking"))]
mod pipeline;
mod produce;
#[cfg(any(feature = "tokio", feature = "blocking"))]
mod producer;
pub mod protocol;
#[cfg(test)]
#[cfg(feature = "serde")]
mod serde_tests;
mod servers;
mod stats;
mod system;
#[cfg(test)]
mod text_tests;
#[cfg(all(test, feature = "tokio", feature = "blocking", feature = "stream"))]
mod thread_tests;
mod trace;
mod types;
mod work;
#[cfg(any(feature = "tokio", feature = "blocking"))]
mod worker;

#[cfg(feature = "stream")]
pub use self::asynchronous::streams::{
    CallManyStream, JobListStream, PutManyStream, ReserveStream,
};
#[cfg(feature = "tokio")]
pub use self::asynchronous::{
    client::Client,
    jobs::JobList,
    pipeline::CallMany,
    producer::{Producer, PutMany, Receipt},
    worker::{JobContext, TestJob, Worker},
};
pub use self::work::worker_status::WorkerHandle;
pub use self::{
    address::Address,
    error::{Deadline, Error, ErrorKind, Fate},
    filter::JobFilter,
    options::{ConnectOptions, PutOptions, ReleaseOptions},
    produce::{
        events::{ProducerEvent, ProducerEventKind},
        options::{Delivery, ProducerOptions},
        report::{ProducerReport, ServerReport},
    },
    servers::Servers,
    stats::{JobState, JobStats, ServerStats, TubeStats},
    types::{Inserted, Job, JobId, JobRef, Priority, Released, Reserved, Seconds, TubeName},
    work::{
        options::{Heartbeat, Inspect, WorkerOptions},
        outcome::{Decision, IntoOutcome, Outcome, Poison, Retries},
        report::{
            JobFate, LostReason, SlotState, SlotStatus, WorkerEvent, WorkerEventKind, WorkerReport,
        },
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
    RetryPolicy, Selection, ServerOptions,
};
#[cfg(feature = "__rustls")]
pub use queue_core::{TlsOptions, rustls};

/// Metrics of a client; errors by their [`ErrorKind`].
/// Its fields and methods are those of [`queue_core::Metrics`].
pub type Metrics = queue_core::Metrics<ErrorKind>;

/// The result type of this crate's calls.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The replies to two commands that were sent in one write.
///
/// ```
/// # let server = fixtures::beanstalkd::Server::start()?;
/// use std::time::Duration;
/// use beanstalk_client::{PutOptions, blocking::Client, protocol::{Delete, ReserveWithTimeout}};
///
/// # let address = server.address();
/// let mut client = Client::connect(address)?;
/// let first = client.put("a", PutOptions::default())?.id();
/// let _ = client.put("b", PutOptions::default())?;
/// let next = ReserveWithTimeout::new(Duration::ZERO)?;
/// let (deleted, reserved) = client.call_pair(&Delete::new(first), &next)?;
/// deleted?;
/// assert_eq!(reserved?.job().expect("there is a second job").body, "b");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub type PairReply<A, B> =
    (Result<<A as protocol::Command>::Reply>, Result<<B as protocol::Command>::Reply>);

/// Compiles the examples of the README.
#[cfg(all(doctest, feature = "tokio", feature = "blocking"))]
#[doc = include_str!("../README.md")]
struct Readme;
