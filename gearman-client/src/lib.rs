//! A client for [Gearman](http://gearman.org) job servers.
// On the wire a NUL separates arguments, and a digit often follows it.
#![cfg_attr(test, allow(clippy::octal_escapes))]
#![deny(missing_docs)]

#[cfg(feature = "tokio")]
mod admin;
#[cfg(feature = "blocking")]
pub mod blocking;
#[cfg(feature = "tokio")]
mod client;
#[cfg(feature = "tokio")]
mod connection;
#[cfg(any(feature = "tokio", feature = "blocking"))]
mod deadline;
#[cfg(feature = "tokio")]
mod dispatch;
#[cfg(feature = "tokio")]
mod driver;
mod error;
mod event;
mod handle;
#[cfg(feature = "tokio")]
mod job;
#[cfg(feature = "tokio")]
mod lane;
#[cfg(feature = "tokio")]
mod link;
#[cfg(feature = "tokio")]
mod many;
mod names;
#[cfg(feature = "tokio")]
mod net;
mod options;
pub mod protocol;
#[cfg(feature = "tokio")]
mod requests;
#[cfg(any(feature = "tokio", feature = "blocking"))]
mod route;
mod rows;
mod servers;
mod short;
#[cfg(any(feature = "tokio", feature = "blocking"))]
mod socket;
mod submit;
mod text;
#[cfg(feature = "__rustls")]
mod tls;
mod work;
#[cfg(feature = "tokio")]
mod worker;

#[cfg(feature = "__rustls")]
pub use self::tls::TlsOptions;
#[cfg(feature = "tokio")]
pub use self::{
    admin::Admin,
    client::Client,
    job::Job,
    many::{CallMany, SubmitMany},
    net::Stream,
    worker::{GrabbedJob, JobContext, Worker},
};
pub use self::{
    error::{Deadline, Error, ErrorKind, Fate},
    event::{JobEvent, JobStatus, Outcome, Progress},
    handle::{JobHandle, Origin},
    names::{ClientId, FunctionName, UniqueId},
    options::{Address, ConnectOptions, RetryPolicy},
    protocol::{Assignment, Grab, MaxQueue, Submitted},
    rows::{FunctionPriorities, FunctionStatus, JobInfo, Listing, Row, UniqueJob, WorkerInfo},
    servers::{Selection, Servers},
    submit::{Priority, Schedule, SubmitOptions, Unique},
    work::{Failure, WorkerOptions, WorkerReport},
};

/// What every call of this crate gives.
pub type Result<T> = std::result::Result<T, Error>;
