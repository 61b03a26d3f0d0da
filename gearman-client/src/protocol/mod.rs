//! The Gearman protocol, without input or output: packets, requests, and administration.
//!
//! Nothing here opens a socket, reads a clock or sleeps. It builds without features.
//!
//! [`PacketType`] is the table of all packets and [`Packet`] a packet as a value. A [`Request`] is what `call` takes,
//! with the type of its reply. [`AdminCommand`] and [`AdminReply`] are the text protocol.
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
pub(crate) mod client;
mod decoder;
pub(crate) mod packet;
pub(crate) mod packets;
mod question;
pub(crate) mod request;
mod session;
pub(crate) mod worker;

pub(crate) use self::decoder::Framing;
pub use self::{
    admin::{AdminCommand, AdminReply, MaxQueue, RawLine, ReplyShape},
    packet::{Direction, Magic, Packet, PacketType},
    question::{Echo, GetStatus, GetStatusUnique, SetExceptions},
    request::{Request, Submit, Submitted},
    worker::{Assignment, Grab},
};
// For this crate and its proofs.
#[doc(hidden)]
pub use self::{
    admin::TextDecoder,
    decoder::Decoder,
    session::{Lost, Recipient, Session},
    worker::{JobEnd, Report, Settled, WorkerSession},
};
