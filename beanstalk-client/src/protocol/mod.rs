//! The beanstalkd protocol, without input or output: commands and replies.
//!
//! Nothing here opens a socket, reads a clock or sleeps. It builds without features.
//!
//! A command is a value of a type with the [`Command`] trait, which encodes it and decodes its reply from a
//! [`Response`]. Both faces take any such value:
//!
//! ```
//! use beanstalk_client::{JobId, PutOptions, protocol::{Command, Put, Response}};
//!
//! let put = Put::new(b"hello", PutOptions::default())?;
//! let mut bytes = bytes::BytesMut::new();
//! put.encode(&mut bytes);
//! assert_eq!(bytes, "put 1024 0 60 5\r\nhello\r\n");
//! assert_eq!(put.decode(Response::Inserted(JobId::from(1)))?.id().get(), 1);
//! # Ok::<(), beanstalk_client::Error>(())
//! ```
//!
//! # The life of a job
//!
//! ```text
//!   put with delay               release with delay
//!  ────────────────► DELAYED ◄──────────────────────┐
//!                       │ time passes, kick         │
//!                       ▼                           │
//!   put ────────────► READY ──── reserve ───────► RESERVED ──── delete ────► gone
//!                       ▲ ◄──── release, TTR over ──┘ │
//!                       │ kick                        │ bury
//!                       └──────── BURIED ◄────────────┘
//! ```
//!
//! `delete` also works on ready, delayed and buried jobs. The server's own document is
//! <https://github.com/beanstalkd/beanstalkd/blob/master/doc/protocol.txt>.

#![cfg_attr(not(test), warn(clippy::disallowed_methods, clippy::disallowed_types))]

mod client;
mod command;
mod commands;
mod parser;
pub(crate) mod producer;
mod response;
mod search;
mod session;
pub(crate) mod stats_text;
mod window;
mod worker;

pub(crate) use self::{
    client::ClientSession,
    session::{Reset, is_gone},
    window::{OldestCommand, Window},
};
pub use self::{
    command::{Command, Effect, ServerWait},
    commands::{
        AnyCommand, Bury, Delete, Ignore, Kick, KickJob, ListTubeUsed, ListTubes, ListTubesWatched,
        PauseTube, Peek, PeekBuried, PeekDelayed, PeekReady, Put, Quit, RawCommand, Release,
        Reserve, ReserveJob, ReserveWithTimeout, Stats, StatsJob, StatsTube, Touch, Use, Watch,
    },
    response::Response,
};
// For this crate and its proofs.
#[doc(hidden)]
pub use self::{
    search::{JobAnswer, JobQuery, JobSearch},
    session::{Session, Ticket},
    worker::{Action, HandlerJob, JobKey, ReservationChange, WorkerSlot},
};
