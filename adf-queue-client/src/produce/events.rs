//! Events of a producer.

use std::{fmt, time::Duration};

use queue_core::Written;

use crate::{Address, Error, QueueName};

/// Something that happened to a producer. See [`ProducerOptions::on_event`](crate::ProducerOptions::on_event). With the
/// feature `serde` it can be written, not read: it holds errors of this process.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct ProducerEvent {
    /// The server concerned.
    pub server: Address,
    /// What happened.
    pub what: ProducerEventKind,
}

impl fmt::Display for ProducerEvent {
    /// The server, and what happened, on one line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.server, self.what)
    }
}

/// What happened. A producer learns of its servers by its pushes; what became of one is told to its caller.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum ProducerEventKind {
    /// The server has answered, for the first time or for the first time after a failure.
    Connected,
    /// The server could not be reached, or was lost: pushes skip it. Each kind of error is reported once until it
    /// answers again.
    Disconnected(Error),
    /// The server is passed over for this time; told for each failure.
    BackingOff(#[cfg_attr(feature = "serde", serde(with = "queue_core::seconds"))] Duration),
    /// A push goes to another server, for this one has failed it.
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
            ProducerEventKind::BackingOff(time) => write!(f, "skipped for {}", Written(*time)),
            ProducerEventKind::Moved => f.write_str("a push goes to another server"),
            ProducerEventKind::Resent => f.write_str("a push of unknown fate is sent again"),
            ProducerEventKind::Created(queue) => {
                write!(f, "queue {} was created", queue.as_str().escape_debug())
            }
        }
    }
}
