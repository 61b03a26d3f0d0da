//! Events of a producer.

use std::{fmt, time::Duration};

use queue_core::DurationText;

use crate::{Address, Error, QueueName};

queue_core::server_event! {
    /// An event of a producer. See [`ProducerOptions::on_event`](crate::ProducerOptions::on_event). With the feature
    /// `serde` it can only be serialized, because it holds errors of this process.
    ProducerEvent: ProducerEventKind, Address
}

/// What happened. A producer notices the state of its servers by its pushes; the outcome of a single push goes to its
/// caller.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum ProducerEventKind {
    /// The server has answered, for the first time or for the first time after a failure.
    Connected,
    /// The server could not be reached, or was lost: pushes skip it. Each kind of error is reported once until it
    /// answers again.
    Disconnected(Error),
    /// The server is skipped for this time; reported for each failure.
    BackingOff(#[cfg_attr(feature = "serde", serde(with = "queue_core::seconds"))] Duration),
    /// A push moves to another server after this one has failed it.
    Moved,
    /// A push of unknown fate is resent; see [`at_least_once`](crate::ProducerOptions::at_least_once).
    Resent,
    /// A missing queue was created.
    Created(QueueName),
}

impl fmt::Display for ProducerEventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProducerEventKind::Connected => f.write_str("connected"),
            ProducerEventKind::Disconnected(error) => {
                write!(f, "disconnected: {}", error.to_string().escape_debug())
            }
            ProducerEventKind::BackingOff(time) => {
                write!(f, "skipped for {}", DurationText::rounded(*time))
            }
            ProducerEventKind::Moved => f.write_str("a push goes to another server"),
            ProducerEventKind::Resent => f.write_str("a push of unknown fate is sent again"),
            ProducerEventKind::Created(queue) => {
                write!(f, "queue {} was created", queue.as_str().escape_debug())
            }
        }
    }
}
