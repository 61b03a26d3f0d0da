//! Why the server refuses requests.

use std::{error::Error as StdError, fmt};

use queue_core::excerpt;

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
