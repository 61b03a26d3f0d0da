//! The administration text protocol.

mod command;
mod reply;
mod session;
#[cfg(test)]
mod session_tests;

pub(crate) use self::session::AdminSession;
pub use self::{
    command::{AdminCommand, MaxQueue, RawLine},
    reply::{AdminReply, ReplyShape, TextDecoder},
};
