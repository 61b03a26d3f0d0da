//! A client for [Adf.QueueServer](https://github.com/aooshi/Adf.QueueServer), async and blocking.
//!
//! A server has queues of messages. A message is pushed to either end, pulled from the left, and then deleted or
//! returned by its consumer. There is no persistence, no time to run, and no limit on how long a pull waits.
//!
//! A service pushes messages with a [`Producer`] and handles them with a [`Worker`]:
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let server = fixtures::adf_queue::Server::builder().queue("/mail").start()?;
//! # let address = server.address();
//! use adf_queue_client::{JobContext, Producer, Worker, WorkerOptions};
//!
//! let producer = Producer::connect(address).await?; // for example "127.0.0.1:6230"
//! producer.rpush("/mail", "hello").await?;
//!
//! let options: WorkerOptions = address.parse()?;
//! # let options = options.until_empty();
//! let mut worker = Worker::new(options.slots(4))?;
//! worker.register("/mail", |job: JobContext| async move {
//!     assert_eq!(job.body(), "hello");
//!     Ok::<(), std::io::Error>(()) // delete; an error puts it back at the right end
//! })?;
//! assert_eq!(worker.run().await.deleted, 1);
//! # Ok(())
//! # }
//! ```
//!
//! A [`Client`] has a method for each request. The blocking face has the same names and needs no runtime:
//!
//! ```
//! # let server = fixtures::adf_queue::Server::start()?;
//! # let address = server.address();
//! use adf_queue_client::blocking::Client;
//!
//! let mut client = Client::connect(address)?;
//! client.ensure_queue("/mail")?;
//! client.rpush("/mail", "hello")?;
//! let message = client.pull("/mail")?;
//! assert!(!message.is_redelivered());
//! client.rcancel(&message)?; // back to the right end
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Guarantees
//!
//! * **Bodies are bytes**, in and out, over binary frames; what a transport cannot carry is refused before a byte is
//!   sent.
//! * **Every failed call reports the fate of its request** ([`Fate`]): not sent, unknown, or refused. Only read-only
//!   requests, and what was definitely not sent, are repeated automatically.
//! * **An answer never goes to the wrong caller**: answers are found by action and id, a dropped future leaves the
//!   connection in step, and a connection that is out of step is closed.
//! * **An abandoned pull loses no message**: the message goes to the next pull, or back to the server.
//! * **A message is settled where it was pulled**: a [`Delivery`] knows its queue and its connection, because the
//!   server checks neither, and would move or lose the message.
//! * **Every wait except the one for a message has a named deadline**, and every buffer a limit. Pings detect a
//!   vanished server.
//!
//! # Where things are
//!
//! [`Client`] and [`blocking::Client`] have all requests. [`Address`] names a server and the transport. In
//! [`protocol`], [`protocol::Request`] and [`protocol::Response`] are the ten actions and their answers, and
//! [`protocol::Encoding`] encodes and decodes them.
//!
//! # Observability
//!
//! [`Client::metrics`] counts connections, requests, answers, bytes, and errors by kind, and
//! [`Client::connection_state`] returns the state of the connection. [`WorkerHandle`] gives the same for a running
//! worker, and the outcomes of its messages so far.
//!
//! With the feature `tracing` the crate emits spans and events that follow OpenTelemetry's [messaging
//! conventions](https://opentelemetry.io/docs/specs/semconv/messaging/messaging-spans/), with the crate's name as their
//! target:
//!
//! | span | level | kind | named |
//! |---|---|---|---|
//! | `adf_queue_request`, `adf_queue_push_many` | debug | client | `pull /mail`, `ping 127.0.0.1:6230` |
//! | `adf_queue_push`: of a [`Producer`], within the caller's span | debug | client | `rpush /mail` |
//! | `adf_queue_message`: around a handler | info | consumer | `process /mail` |
//! | `adf_queue_connect` | debug | client | `connect 127.0.0.1:6230` |
//!
//! Where an operation concerns no queue, the span name has the server's address instead. Ids are text. Failed
//! operations have `error.type` and `otel.status_code`. The span of a pipeline has `messaging.batch.message_count` and
//! is named after its first operation. `messaging.adf_queue.message.delivery_attempt` is [`Delivery::duplications`]. A
//! handler's failure, of type `error` or `panic`, is logged within the span of its message. `WorkerOptions::on_span`
//! sees the span of each message before it is entered, so that it can set the sender's context as its parent; the
//! sender carries that context in its envelope, which this crate does not interpret. Fields are computed only for
//! enabled spans.
//!
//! [`ConnectOptions::on_measurement`], and its counterparts for workers and producers, report the four [messaging
//! metrics](https://opentelemetry.io/docs/specs/semconv/messaging/messaging-metrics/), without a dependency on
//! OpenTelemetry: [`Instrument`] has their names, units and buckets, [`Measurement`] the value and the attributes.
//! Dropped calls are not measured. A worker's own pulls and settlements are measured and have spans like those of a
//! client: a settlement within the span of its message, a pull as a root. The duration of a pull includes its wait on
//! the server. The guide maps both to OpenTelemetry's crates.
//!
//! No lock is held while an observer of events or measurements, or a subscriber, runs: it may ask handles, clients,
//! producers and jobs for anything that does not wait. There is one exception: the span of a worker's own request, such
//! as a pull, begins under a lock, since a span cannot be dated back. So a subscriber that is told of a new
//! `adf_queue_request` must not ask that worker or its jobs in the same thread.
//!
//! Each event is one line. Bodies are never logged, only their length; neither is text from servers nor, unless
//! [`WorkerOptions::log_errors`] is set, text from handlers.
//!
//! # Features
//!
//! | feature | default | adds | extra dependencies |
//! |---|---|---|---|
//! | `tokio` | yes | the async face: [`Client`] | tokio, socket2 |
//! | `blocking` | yes | the blocking face: [`blocking`] | socket2 |
//! | `tls` | no | `adfs://` and `https://` addresses for both faces, `TlsOptions` | rustls, rustls-native-certs, tokio-rustls |
//! | `blocking-tls` | no | the same for the blocking face alone, without tokio | rustls, rustls-native-certs |
//! | `platform-verifier` | no | `TlsOptions::platform_verifier`, for `tls` and `blocking-tls`: the operating system decides about certificates | rustls-platform-verifier |
//! | `json` | no | bodies that are JSON: `lpush_json`, `rpush_json`, `json` | serde, serde_json |
//! | `stream` | no | named types with `futures_core::Stream`: messages (`Client::messages`), events (`ProducerOptions::event_stream`, `WorkerOptions::event_stream`) and answers (`into_stream`) | futures-core |
//! | `tower` | no | tower services as handlers, with their layers: `Worker::register_service` | tower-service |
//! | `tracing` | no | spans and events for connections, requests and messages | tracing |
//! | `serde` | no | `Serialize` and `Deserialize` for names, ids, addresses, servers, options, outcomes, reports, metrics and statistics; `Serialize` for errors and events | |
//!
//! Options are read from configuration as an address, a list of addresses, or a map with the names of the setters.
//! Omitted keys have their defaults, and unknown keys are errors. A `Delivery` and a `Push` are not serializable: a
//! delivery belongs to a connection, and bodies are arbitrary bytes.
//!
//! Without features, the crate consists of [`protocol`] and the types.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![deny(missing_docs)]
// What only one face uses of the protocol is unused without that face.
#![cfg_attr(not(all(feature = "tokio", feature = "blocking")), allow(dead_code, unused_imports))]
// A copied example should not warn about an unused result.
#![doc(test(attr(deny(unused_must_use))))]

mod address;
#[cfg(feature = "tokio")]
mod asynchronous;
#[cfg(feature = "blocking")]
pub mod blocking;
mod delivery;
mod error;
#[cfg(any(feature = "tokio", feature = "blocking"))]
mod faces;
#[cfg(feature = "json")]
mod json;
mod names;
mod options;
mod produce;
pub mod protocol;
mod push;
#[cfg(any(feature = "tokio", feature = "blocking"))]
mod requests;
#[cfg(test)]
#[cfg(feature = "serde")]
mod serde_tests;
mod servers;
mod system;
#[cfg(test)]
mod text_tests;
mod trace;
mod work;

#[cfg(feature = "stream")]
pub use self::asynchronous::streams::{MessageStream, PushManyStream};
#[cfg(feature = "tokio")]
pub use queue_core::Duplex;
#[cfg(feature = "stream")]
pub use queue_core::EventStream;
#[cfg(feature = "json")]
pub use queue_core::JsonError;
pub use queue_core::{
    AttributeValue, ConnectionState, Deadline, Endpoint, Epoch, Fate, Instrument, JobLimit,
    Measurement, RetryPolicy, Selection, ServerOptions,
};
#[cfg(feature = "__rustls")]
pub use queue_core::{TlsOptions, rustls};

#[cfg(feature = "tokio")]
pub use self::asynchronous::{
    client::Client,
    pipeline::PushMany,
    producer::{Producer, Receipt},
    worker::Worker,
};
pub use self::work::{JobContext, ServerStatus, TestJob, WorkerHandle};
pub use self::{
    address::{Address, Transport},
    delivery::Delivery,
    error::{Error, ErrorKind},
    names::{MessageId, QueueName, RequestId},
    options::ConnectOptions,
    produce::{
        ProducerOptions, ProducerReport,
        events::{ProducerEvent, ProducerEventKind},
    },
    protocol::{QueueStats, Refusal, Stats},
    push::Push,
    servers::Servers,
    work::{
        Decision, IntoOutcome, JobFate, LostReason, Outcome, WorkerEvent, WorkerEventKind,
        WorkerOptions, WorkerReport,
    },
};

/// Metrics of a client; errors by their [`ErrorKind`].
/// Its fields and methods are those of [`queue_core::Metrics`].
pub type Metrics = queue_core::Metrics<ErrorKind>;

/// The result type of this crate's calls.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Compiles the examples of the README.
#[cfg(all(doctest, feature = "tokio", feature = "blocking"))]
#[doc = include_str!("../README.md")]
struct Readme;
