//! The engine of the clients of this repository: addresses, connecting over TCP, Unix sockets and TLS, named deadlines,
//! reconnect delays, and connection logic separated from I/O. Use the clients, which re-export what their users need.
//!
//! Only what the clients re-export is stable and listed here. The rest is public for the clients alone, is hidden from
//! this documentation, and may change in any version. In short:
//!
//! * `Address` is the address of a server of a `System`, in the syntax of its `Scheme`;
//! * `Limit` is a point in time with the name of a `Deadline`, and creates the `Error` once it has passed;
//! * `ServerOptions` are the options for a server that all clients share; their `Dial` defines how connections are made:
//!   TLS, keepalive, a custom connector;
//! * `RetryPolicy` and `Backoff` define when to retry;
//! * `Role` makes the decisions about a connection, based only on `Io` and the time; `Protocol` is what differs between
//!   roles, and `exchange` the order that they share. `Wire` and `blocking::Wire` move the bytes;
//! * `Signal` is an event that happens once, which tasks and threads can wait for;
//! * `connect` makes a connection (feature `tokio`), and so does `blocking::connect` (feature `blocking`).
#![cfg_attr(docsrs, feature(doc_cfg))]
#![deny(missing_docs)]

mod address;
#[cfg(feature = "blocking")]
pub mod blocking;
mod clock;
mod dial;
mod error;
#[cfg(any(feature = "blocking", feature = "stream", feature = "tokio"))]
mod exclusive;
mod options;
#[cfg(any(test, feature = "proof"))]
#[doc(hidden)]
pub mod proof;
#[cfg(feature = "tokio")]
mod pump;
mod random;
mod role;
mod signal;
#[cfg(feature = "stream")]
mod stream;
#[doc(hidden)]
pub mod sync;
mod text;
mod trace;
mod worker;

// What the clients re-export.
#[cfg(feature = "tokio")]
pub use self::dial::net::Duplex;
#[cfg(feature = "__rustls")]
pub use self::dial::tls::TlsOptions;
#[cfg(feature = "stream")]
pub use self::stream::events::EventStream;
#[cfg(feature = "json")]
pub use self::text::json::JsonError;
pub use self::{
    address::{Address, chooser::Selection, scheme::Endpoint, servers::Servers},
    error::{Error, ErrorKind, deadline::Deadline, fate::Fate},
    options::{ServerOptions, retry::RetryPolicy},
    role::epoch::Epoch,
    trace::{
        measure::{AttributeValue, Instrument, Measurement},
        metrics::{ConnectionState, Metrics},
    },
    worker::job_limit::JobLimit,
};
#[cfg(feature = "__rustls")]
pub use rustls;

// The engine.
#[cfg(feature = "serde")]
#[doc(hidden)]
pub use self::options::serde_forms::{
    Delays, Either, InSeconds, OrNever, counts, given_or_form, seconds,
};
#[cfg(feature = "stream")]
#[doc(hidden)]
pub use self::stream::{Steps, Stream};
#[cfg(feature = "json")]
#[doc(hidden)]
pub use self::text::json::{from_json, to_json};
#[cfg(any(feature = "blocking", feature = "tokio"))]
#[doc(hidden)]
pub use self::worker::registered::Registered;
#[cfg(feature = "tower")]
#[doc(hidden)]
pub use self::worker::service::SharedService;
#[doc(hidden)]
pub use self::{
    address::{
        System, Transports,
        chooser::{Chooser, affinity, stable_hash},
        opening::Opening,
        scheme::{Scheme, with_bare_zone},
        servers::{ClientError, OneServer},
    },
    clock::{after, now},
    dial::Dial,
    error::{About, failure_of_all, limit::Limit},
    options::{
        backoff::Backoff,
        duration::{DurationText, read_duration},
    },
    random::{Random, mix},
    role::{
        Pulse, Role,
        deadlines::Deadlines,
        earliest,
        exchange::{Awaits, Cause, ConnectionError, Expects, Loss, Need, Protocol, exchange},
        health::{Health, SLOW},
        idle_check::IdleCheck,
        io::{End, Io},
        late_check::LateCheck,
        later::Later,
        life::{Life, Replace},
        one_call::{Call, OneCall, Request},
        outage::Outage,
        outgoing::{emptied, written},
    },
    signal::{Signal, lock::lock, tickets::Tickets, wakers::Wakers},
    text::{
        counted, decimal, escaped_byte, excerpt, panic_text, shorten, unname, words::unknown_word,
    },
    trace::{
        measure::{Facts, Measures, Place, one_line, titled},
        observer::Observer,
        operation::{BatchOperation, Observation, Operation},
        span::{OneLine, Span, SpanHook, Words},
    },
    worker::{
        claimed::Claimed,
        contain::contain,
        deferrals::Deferrals,
        job_limit::{Claim, Claims, LimitWatch},
        quick::Quick,
        stop::{Haste, Stop, WorkerRun},
    },
};
#[cfg(feature = "tokio")]
#[doc(hidden)]
pub use self::{
    dial::net::{Connector, Timer, connect, within},
    pump::{
        Wire,
        shared::{Driver, Serve, Shared, runtime},
        tasks::{HandlerTasks, in_thread, join_until},
    },
};
