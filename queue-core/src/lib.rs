//! The shared, queue-independent core of queue clients: address syntax, connecting over TCP, Unix sockets and TLS,
//! named deadlines, reconnect delays.
//!
//! It is made for the clients of this repository, which re-export what their users need.
//!
//! * [`Address`] is the address of a server of a [`System`], written with its [`Scheme`];
//! * [`Limit`] is a point in time with the name of a [`Deadline`], and creates the [`Error`] once it has passed;
//! * [`ServerOptions`] are the options for a server that all clients share; their [`Dial`] defines how connections are
//!   made: TLS, keepalive, a custom connector;
//! * [`RetryPolicy`] and [`Backoff`] say when to try again;
//! * [`Role`] makes the decisions about a connection, from [`Io`] and the time alone, using [`Health`] and [`Pace`];
//!   `Wire` and `blocking::Wire` move its bytes;
//! * [`Signal`] is something that happens once, and that tasks and threads can wait for;
//! * `connect` makes the connection (feature `tokio`), and so does `blocking::connect` (feature `blocking`).
#![cfg_attr(docsrs, feature(doc_cfg))]
#![deny(missing_docs)]

mod address;
#[cfg(feature = "tokio")]
mod attentive;
mod backoff;
#[cfg(feature = "blocking")]
pub mod blocking;
mod chooser;
mod claimed;
mod clock;
mod contain;
mod deadline;
mod dial;
mod duration;
mod epoch;
mod error;
mod fate;
mod health;
mod io;
mod job_limit;
#[cfg(feature = "json")]
mod json;
mod level;
mod limit;
mod lock;
mod made_of;
mod measure;
mod metrics;
#[cfg(feature = "tokio")]
mod net;
mod observer;
mod operation;
mod options;
mod outage;
mod outgoing;
mod overdue;
mod pace;
#[cfg(any(test, feature = "proof"))]
pub mod proof;
#[cfg(feature = "tokio")]
mod pump;
mod quick;
mod random;
mod retry;
mod role;
#[cfg(test)]
mod role_tests;
mod scheme;
#[cfg(feature = "serde")]
mod serde_forms;
mod serde_options;
mod servers;
#[cfg(feature = "tower")]
mod service;
#[cfg(feature = "tokio")]
mod shared;
mod signal;
#[cfg(any(feature = "tokio", feature = "blocking"))]
mod socket;
mod span;
mod stop;
#[cfg(feature = "stream")]
mod stream;
#[cfg(feature = "tokio")]
mod tasks;
mod text;
#[cfg(feature = "__rustls")]
mod tls;
mod trace;
mod wakers;
mod watch;
mod words;

#[cfg(feature = "json")]
pub use self::json::{JsonError, from_json, to_json};
#[cfg(feature = "tokio")]
pub use self::net::{Connector, Duplex, Timer, connect, within};
#[cfg(feature = "tokio")]
pub use self::pump::{Dialing, Wire};
#[cfg(feature = "serde")]
pub use self::serde_forms::{counts, seconds};
#[cfg(feature = "serde")]
pub use self::serde_options::{Delays, Either, InSeconds, OrNever, given_or_form};
#[cfg(feature = "tower")]
pub use self::service::{NotCalled, SharedService};
#[cfg(feature = "tokio")]
pub use self::shared::{Driver, Serve, Shared, runtime};
#[cfg(feature = "stream")]
pub use self::stream::unfold;
#[cfg(feature = "tokio")]
pub use self::tasks::{in_thread, join_until};
#[cfg(feature = "__rustls")]
pub use self::tls::TlsOptions;
pub use self::{
    address::{Address, System, Transports},
    backoff::Backoff,
    chooser::{Chooser, Selection, affinity, stable_hash},
    claimed::Claimed,
    clock::{after, now},
    contain::contain,
    deadline::Deadline,
    dial::Dial,
    duration::{Written, read_duration},
    epoch::Epoch,
    error::{About, Error, ErrorKind},
    fate::Fate,
    health::Health,
    io::{End, Io},
    job_limit::{Claim, Claims, JobLimit},
    level::Level,
    limit::{Limit, Until, WRITE_STEP},
    lock::lock,
    measure::{AttributeValue, Facts, Instrument, Measurement, Measures, Place, one_line, titled},
    metrics::{ConnectionState, Metrics},
    observer::Observer,
    operation::{Batch, Operation},
    options::ServerOptions,
    outage::Outage,
    outgoing::{emptied, written},
    overdue::Overdue,
    pace::{Late, Pace},
    quick::Quick,
    random::{Random, mix},
    retry::RetryPolicy,
    role::{Pulse, Role, earliest},
    scheme::{Endpoint, Scheme},
    servers::{Failure, OneServer, Servers},
    signal::Signal,
    span::{Line, Span, SpanHook, Words},
    stop::{Haste, Stop},
    text::{decimal, excerpt, panic_text, shorten},
    wakers::Wakers,
    watch::Watch,
    words::unknown_word,
};
#[cfg(feature = "__rustls")]
pub use rustls;
