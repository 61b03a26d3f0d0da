//! The Gearman protocol, without input or output: packets, requests, and the state of one connection in each role.
//!
//! Nothing here opens a socket, reads a clock or sleeps, so it serves both faces, any other transport, and tests that
//! need no server. It builds without features.
//!
//! [`PacketType`] is the table of all packets, [`Packet`] one of them as a value, [`Decoder`] finds them in a stream.
//! [`Session`] is the client role: requests and whom their answers and events are for. [`WorkerSession`] is the worker
//! role: when to ask for jobs, and what became of results. [`AdminCommand`] and [`TextDecoder`] are the text protocol.
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
//! The server's own document is <https://github.com/gearman/gearmand/blob/master/PROTOCOL>; where gearmand does
//! otherwise, this crate does as gearmand.

#![cfg_attr(not(test), warn(clippy::disallowed_methods, clippy::disallowed_types))]

pub(crate) mod admin;
// Each face uses its part of what both share.
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
