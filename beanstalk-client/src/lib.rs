//! The whole beanstalkd protocol, async and blocking.
#![deny(missing_docs)]

#[cfg(feature = "blocking")]
pub mod blocking;
#[cfg(feature = "tokio")]
mod client;
#[cfg(feature = "tokio")]
mod commands;
#[cfg(any(feature = "tokio", feature = "blocking"))]
mod deadline;
mod error;
#[cfg(feature = "tokio")]
mod net;
mod options;
#[cfg(feature = "tokio")]
mod pipeline;
pub mod protocol;
#[cfg(any(feature = "tokio", feature = "blocking"))]
mod socket;
mod stats;
#[cfg(feature = "tls")]
mod tls;
mod types;

#[cfg(feature = "tls")]
pub use self::tls::TlsOptions;
#[cfg(feature = "tokio")]
pub use self::{client::Client, net::Stream, pipeline::CallMany};
pub use self::{
    error::{Deadline, Error, ErrorKind, Fate},
    options::{Address, ConnectOptions, PutOptions, ReleaseOptions, RetryPolicy},
    stats::{JobState, JobStats, ServerStats, TubeStats},
    types::{Inserted, Job, JobId, JobRef, Priority, Released, Reserved, Seconds, TubeName},
};

/// What every call of this crate gives.
pub type Result<T> = std::result::Result<T, Error>;

/// The replies to two commands that were sent in one write.
pub type PairReply<A, B> =
    (Result<<A as protocol::Command>::Reply>, Result<<B as protocol::Command>::Reply>);
