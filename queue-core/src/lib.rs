//! What queue clients share: how addresses are written, connecting over TCP, unix sockets and TLS, deadlines with
//! names, reconnect delays. It knows no queue.
//!
//! It is made for the clients of this repository, which re-export what their users need.
//!
//! * [`Scheme`] reads and writes addresses, as [`Endpoint`]s;
//! * [`Limit`] is a point in time with a name, and [`Sdk`] makes a client's own error of one that has passed;
//! * [`Dial`] is how connections are made: TLS, keepalive, a connector of the caller's own;
//! * [`RetryPolicy`] and [`Backoff`] say when to try again;
//! * `connect` makes the connection (feature `tokio`), and so does `blocking::connect` (feature `blocking`).
#![deny(missing_docs)]

mod address;
#[cfg(feature = "tokio")]
mod attentive;
mod backoff;
#[cfg(feature = "blocking")]
pub mod blocking;
mod clock;
mod dial;
mod error;
mod limit;
mod metrics;
#[cfg(feature = "tokio")]
mod net;
mod retry;
#[cfg(any(feature = "tokio", feature = "blocking"))]
mod socket;
mod span;
mod text;
#[cfg(feature = "__rustls")]
mod tls;

#[cfg(feature = "tokio")]
pub use self::net::{Connector, Stream, Timer, connect, within};
#[cfg(feature = "__rustls")]
pub use self::tls::TlsOptions;
pub use self::{
    address::{Endpoint, Scheme},
    backoff::Backoff,
    clock::now,
    dial::Dial,
    error::{Error, ErrorKind},
    limit::{Limit, Sdk},
    metrics::{ConnectionState, Metrics},
    retry::RetryPolicy,
    span::{Line, Span},
    text::{decimal, excerpt},
};
