//! The shared, protocol-independent core of queue clients: address syntax, connecting over TCP, Unix sockets and TLS,
//! named deadlines, reconnect delays.
//!
//! It serves the clients of this repository, which re-export what their users need.
//!
//! * [`Address`] is the address of a server of a [`System`], in the syntax of its [`Scheme`];
//! * [`Limit`] is a point in time with the name of a [`Deadline`], and creates the [`Error`] once it has passed;
//! * [`ServerOptions`] are the options for a server that all clients share; their [`Dial`] defines how connections are
//!   made: TLS, keepalive, a custom connector;
//! * [`RetryPolicy`] and [`Backoff`] define when to retry;
//! * [`Role`] makes the decisions about a connection, based only on [`Io`] and the time; [`Protocol`] is what differs
//!   between roles, and [`exchange`] the order that they share. `Wire` and `blocking::Wire` move the bytes;
//! * [`Signal`] is an event that happens once, which tasks and threads can wait for;
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
pub mod proof;
#[cfg(feature = "tokio")]
mod pump;
mod random;
mod role;
mod signal;
#[cfg(feature = "stream")]
mod stream;
pub mod sync;
mod text;
mod trace;
mod worker;

#[cfg(feature = "tokio")]
pub use self::dial::net::{Connector, Duplex, Timer, connect, within};
#[cfg(feature = "__rustls")]
pub use self::dial::tls::TlsOptions;
#[cfg(feature = "serde")]
pub use self::options::serde_forms::{counts, seconds};
#[cfg(feature = "serde")]
pub use self::options::serde_options::{Delays, Either, InSeconds, OrNever, given_or_form};
#[cfg(feature = "tokio")]
pub use self::pump::shared::{Driver, Serve, Shared, runtime};
#[cfg(feature = "tokio")]
pub use self::pump::tasks::{HandlerTasks, in_thread, join_until};
#[cfg(feature = "tokio")]
pub use self::pump::{Dialing, Wire};
#[doc(hidden)]
pub use self::role::{
    exchange::{Awaits, Cause, ConnectionError, Expects, Loss, Need, Protocol, exchange},
    life::{Life, Replace},
    one_call::{Call, OneCall, Request},
};
#[cfg(feature = "stream")]
pub use self::stream::{Steps, events::EventStream};
#[cfg(feature = "json")]
pub use self::text::json::{JsonError, from_json, to_json};
#[cfg(any(feature = "blocking", feature = "tokio"))]
pub use self::worker::registered::Registered;
#[cfg(feature = "tower")]
pub use self::worker::service::{NotCalled, SharedService};
pub use self::{
    address::{
        Address, System, Transports,
        chooser::{Chooser, Selection, affinity, stable_hash},
        opening::Opening,
        scheme::{Endpoint, Scheme},
        servers::{Failure, OneServer, Servers},
    },
    clock::{after, now},
    dial::Dial,
    error::{
        About, Error, ErrorKind,
        deadline::Deadline,
        fate::Fate,
        limit::{Limit, Until, WRITE_STEP},
    },
    options::{
        ServerOptions,
        backoff::Backoff,
        duration::{Written, read_duration},
        level::Level,
        retry::RetryPolicy,
    },
    random::{Random, mix},
    role::{
        Pulse, Role,
        deadlines::{Deadlines, Late},
        earliest,
        epoch::Epoch,
        health::{Health, SLOW},
        idle_check::IdleCheck,
        io::{End, Io},
        late_check::LateCheck,
        later::Later,
        outage::Outage,
        outgoing::{emptied, written},
    },
    signal::{Signal, lock::lock, tickets::Tickets, wakers::Wakers},
    text::{counted, decimal, excerpt, panic_text, shorten, words::unknown_word},
    trace::{
        measure::{
            AttributeValue, Facts, Instrument, Measurement, Measures, Place, one_line, titled,
        },
        metrics::{ConnectionState, Metrics},
        observer::Observer,
        operation::{Batch, Observation, Operation},
        span::{Line, Span, SpanHook, Words},
    },
    worker::{
        claimed::Claimed,
        contain::contain,
        job_limit::{Claim, Claims, JobLimit, LimitWatch},
        quick::Quick,
        stop::{Haste, Stop, WorkerRun},
    },
};
#[cfg(feature = "__rustls")]
pub use rustls;
