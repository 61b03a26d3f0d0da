//! The events of a client's connections and requests, as reported to an observer.

use std::{fmt, time::Duration};

use queue_core::DurationText;

use crate::{Address, Error};

queue_core::server_event! {
    /// Something that happened to a client. See [`ConnectOptions::on_event`](crate::ConnectOptions::on_event). With the
    /// feature `serde` it can be written, not read: it holds errors of this process.
    ClientEvent: ClientEventKind, Address
}

/// What happened. A client connects when a call needs the server; the outcome of a call goes to its caller.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum ClientEventKind {
    /// A connection was made.
    Connected,
    /// No connection could be made, or it was lost. Until there is a connection again, each kind of error is reported
    /// once.
    Disconnected(Error),
    /// Calls skip the server for this time, unless there is no other; reported for each failure. It ends with the next
    /// [`Connected`](Self::Connected).
    BackingOff(#[cfg_attr(feature = "serde", serde(with = "queue_core::seconds"))] Duration),
    /// A request goes to another server, because it failed at this one.
    Moved,
    /// A request whose answer was lost with this server is sent again: it is
    /// [idempotent](crate::SubmitOptions::idempotent), or a question.
    Resent,
}

impl fmt::Display for ClientEventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClientEventKind::Connected => f.write_str("connected"),
            ClientEventKind::Disconnected(error) => {
                write!(f, "disconnected: {}", error.to_string().escape_debug())
            }
            ClientEventKind::BackingOff(time) => {
                write!(f, "skipped for {}", DurationText::rounded(*time))
            }
            ClientEventKind::Moved => f.write_str("a request goes to another server"),
            ClientEventKind::Resent => f.write_str("a request of unknown fate is sent again"),
        }
    }
}
