//! The beanstalkd protocol, without input or output: commands, replies, and the state of one connection.
//!
//! Nothing here opens a socket, reads a clock or sleeps. Both faces use it, and so can other transports and tests
//! without a server. It builds without features.
//!
//! A command is a value of a type with the [`Command`] trait. [`Session`] encodes it, and later finds its reply in the
//! received bytes:
//!
//! ```
//! use beanstalk_client::{PutOptions, protocol::{Command, Put, Session}};
//!
//! let mut session = Session::new(1 << 20);
//! let put = Put::new(b"hello", PutOptions::default())?;
//! let ticket = session.send(&put)?;
//! assert_eq!(session.outgoing(), b"put 1024 0 60 5\r\nhello\r\n");
//! session.sent(session.outgoing().len());
//!
//! let reply = b"INSERTED 1\r\n";
//! session.space()[..reply.len()].copy_from_slice(reply);
//! session.received(reply.len());
//! let response = session.reply(ticket)?.expect("the whole reply is here");
//! assert_eq!(session.decode(&put, response)?.id().get(), 1);
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

#[cfg(any(feature = "tokio", feature = "blocking"))]
mod client;
mod command;
mod commands;
mod parser;
#[cfg(any(feature = "tokio", feature = "blocking"))]
pub(crate) mod producer;
mod response;
mod session;
pub(crate) mod stats_text;
#[cfg(any(feature = "tokio", feature = "blocking"))]
mod window;
mod worker;

pub use queue_core::{Backoff, Dial, Limit, Measures, Random};

#[cfg(any(feature = "tokio", feature = "blocking"))]
pub(crate) use self::{
    client::ClientSession,
    session::{Reset, is_gone},
    window::{Head, Window},
};
pub use self::{
    command::{Command, Effect, ServerWait},
    commands::{
        AnyCommand, Bury, Delete, Ignore, Kick, KickJob, ListTubeUsed, ListTubes, ListTubesWatched,
        PauseTube, Peek, PeekBuried, PeekDelayed, PeekReady, Put, Quit, RawCommand, Release,
        Reserve, ReserveJob, ReserveWithTimeout, Stats, StatsJob, StatsTube, Touch, Use, Watch,
    },
    response::Response,
    session::{Epoch, Session, Ticket},
    worker::{Action, Change, JobKey, Taken, WorkerSlot},
};
