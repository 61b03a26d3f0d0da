//! The server's answers.

use std::{error::Error as StdError, fmt};

use bytes::Bytes;
use queue_core::excerpt;

use super::{Action, Request};
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

/// Why a server refused a request. `Display` gives the server's text.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Refusal {
    /// `queue not exists.`: only `createqueue` creates queues.
    QueueNotFound,
    /// `queue exists.`
    QueueExists,
    /// `no set queue name.`: the name is empty.
    EmptyQueueName,
    /// `message was not pulled.`: no message was delivered to the pull with that id on this connection, or it is
    /// settled.
    NotPulled,
    /// A text that no known version of the server uses.
    Other(Box<str>),
}

/// The result text of a success.
pub(super) const OK: &str = "ok";

impl Refusal {
    /// The server's text.
    #[must_use]
    pub fn text(&self) -> &str {
        match self {
            Refusal::QueueNotFound => "queue not exists.",
            Refusal::QueueExists => "queue exists.",
            Refusal::EmptyQueueName => "no set queue name.",
            Refusal::NotPulled => "message was not pulled.",
            Refusal::Other(text) => text,
        }
    }

    /// The refusal with this text.
    pub(super) fn of(text: &str) -> Self {
        [Refusal::QueueNotFound, Refusal::QueueExists, Refusal::EmptyQueueName, Refusal::NotPulled]
            .into_iter()
            .find(|known| known.text() == text)
            .unwrap_or_else(|| Refusal::Other(text.into()))
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Other(text) => f.write_str(&excerpt(text.as_bytes())),
            known => f.write_str(known.text()),
        }
    }
}

/// Serializes as the server's text.
#[cfg(feature = "serde")]
impl serde::Serialize for Refusal {
    fn serialize<Z: serde::Serializer>(&self, serializer: Z) -> Result<Z::Ok, Z::Error> {
        serializer.serialize_str(self.text())
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for Refusal {
    fn deserialize<Z: serde::Deserializer<'de>>(deserializer: Z) -> Result<Self, Z::Error> {
        Ok(Refusal::of(&<String as serde::Deserialize>::deserialize(deserializer)?))
    }
}

impl StdError for Refusal {}
