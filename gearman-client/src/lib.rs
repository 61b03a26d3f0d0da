//! A client for [Gearman](http://gearman.org) job servers.
#![deny(missing_docs)]

#[cfg(feature = "blocking")]
pub mod blocking;
#[cfg(any(feature = "tokio", feature = "blocking"))]
mod deadline;
mod error;
mod event;
mod handle;
mod names;
mod options;
pub mod protocol;
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

#[cfg(feature = "__rustls")]
pub use self::tls::TlsOptions;
pub use self::{
    error::{Deadline, Error, ErrorKind, Fate},
    event::{JobEvent, JobStatus, Outcome, Progress},
    handle::{JobHandle, Origin},
    names::{ClientId, FunctionName, UniqueId},
    options::{Address, ConnectOptions, RetryPolicy},
    rows::{FunctionPriorities, FunctionStatus, JobInfo, Listing, Row, UniqueJob, WorkerInfo},
    servers::{Selection, Servers},
    submit::{Priority, Schedule, SubmitOptions, Unique},
};

/// What every call of this crate gives.
pub type Result<T> = std::result::Result<T, Error>;
