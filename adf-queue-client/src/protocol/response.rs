//! The server's answers.

use bytes::Bytes;

use super::{Action, Refusal, Request};
use crate::{MessageId, RequestId};

/// An answer. It names its request by action and id; the answer to a delete or a return has the id of the pull, so
/// neither is sufficient alone.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Response {
    /// The request.
    pub action: Action,
    /// The id of the request.
    pub id: RequestId,
    /// The queue of the request, as returned by the server.
    pub queue: Bytes,
    /// The outcome.
    pub outcome: Result<Success, Refusal>,
}

impl Response {
    /// Whether this answers that request.
    #[must_use]
    pub fn answers(&self, request: &Request) -> bool {
        self.action == request.action() && self.id == *request.id()
    }
}

/// The result of a successful action.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Success {
    /// Success without a value.
    Done,
    /// The message has this number.
    Pushed(MessageId),
    /// This number of messages are ready, or were removed.
    Counted(u32),
    /// The leftmost message.
    Delivered(Delivered),
}

/// A pulled message.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Delivered {
    /// Its number.
    pub message_id: MessageId,
    /// How often it was delivered, including this time: 1 at first, modulo 65,536.
    pub duplications: u16,
    /// Its bytes. In JSON, bytes that are not UTF-8 are replaced by U+FFFD.
    pub body: Bytes,
}

impl Delivered {
    /// Whether it was delivered before without being deleted.
    #[must_use]
    pub fn is_redelivered(&self) -> bool {
        self.duplications != 1
    }
}

/// The result text of a success.
pub(super) const OK: &str = "ok";
