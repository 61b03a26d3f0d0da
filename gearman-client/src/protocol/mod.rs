//! The Gearman protocol, without input or output: packets, requests, and the state of one connection in each role.
//!
//! Nothing here opens a socket, reads a clock or sleeps. Both faces use it, and so can other transports and tests
//! without a server. It builds without features.
//!
//! [`PacketType`] is the table of all packets, [`Packet`] a packet as a value, and [`Decoder`] finds packets in a
//! stream. [`Session`] is the client role: it matches answers and events to requests. [`WorkerSession`] is the worker
//! role: when to request jobs, and what became of results. [`AdminCommand`] and [`TextDecoder`] are the text protocol.
//!
//! # The life of a job
//!
//! ```text
//!   SUBMIT_JOB* ──► JOB_CREATED          queued ◄───────────────── the worker's connection is lost
//!                                          │ GRAB_JOB*                      ▲
//!                                          ▼                                │
//!                                    JOB_ASSIGN* ──► running ───────────────┘
//!                                                      │  WORK_STATUS, WORK_DATA, WORK_WARNING: to the submitters
//!                                                      ▼
//!                            WORK_COMPLETE, WORK_FAIL or WORK_EXCEPTION: to the submitters, and the job is gone
//! ```
//!
//! The server's own document is <https://github.com/gearman/gearmand/blob/master/PROTOCOL>; where gearmand deviates
//! from it, this crate follows gearmand.

#![cfg_attr(not(test), warn(clippy::disallowed_methods, clippy::disallowed_types))]

pub(crate) mod admin;
// Each face uses only a part of the shared code.
#[cfg(any(feature = "tokio", feature = "blocking"))]
#[cfg_attr(not(all(feature = "tokio", feature = "blocking")), allow(dead_code))]
pub(crate) mod client;
mod decoder;
pub(crate) mod packet;
#[cfg(any(feature = "tokio", feature = "blocking"))]
pub(crate) mod packets;
mod question;
pub(crate) mod request;
mod session;
pub(crate) mod worker;

pub use queue_core::Backoff;

#[cfg(any(feature = "tokio", feature = "blocking"))]
pub(crate) use self::decoder::Framing;
pub use self::{
    admin::{AdminCommand, AdminReply, MaxQueue, RawLine, ReplyShape, TextDecoder},
    decoder::Decoder,
    packet::{Direction, Magic, Packet, PacketType},
    question::{Echo, GetStatus, GetStatusUnique, SetExceptions},
    request::{Request, Submit, Submitted},
    session::{Delivery, Epoch, Lost, Session},
    worker::{Assignment, End, Grab, JobLimit, Report, Settled, WorkerSession},
};
