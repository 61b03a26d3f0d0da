//! The administration text protocol.

mod command;
mod reply;
#[cfg(any(feature = "tokio", feature = "blocking"))]
mod session;
#[cfg(test)]
mod session_tests;

#[cfg(any(feature = "tokio", feature = "blocking"))]
pub(crate) use self::session::AdminSession;
pub use self::{
    command::{AdminCommand, MaxQueue, RawLine},
    reply::{AdminReply, ReplyShape, TextDecoder},
};
