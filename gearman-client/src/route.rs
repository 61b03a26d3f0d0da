//! Which server a request goes to, and whether it may go to another after a failure.

use std::time::Duration;

use crate::{Deadline, Error, ErrorKind, Fate};

/// Whether a failed request may be sent once more, to this server or another.
pub(crate) fn may_repeat(error: &Error, idempotent: bool) -> bool {
    let of_connection = matches!(
        error.kind(),
        ErrorKind::Connect
            | ErrorKind::ConnectionLost
            | ErrorKind::Timeout(Deadline::Connect | Deadline::Write | Deadline::Reply)
    );
    match error.fate() {
        Fate::NotSent => of_connection,
        Fate::Unknown => of_connection && idempotent,
        Fate::Refused => false,
    }
}

/// The least wait between two rounds over the servers, so that a round that fails at once does not spin.
pub(crate) const LEAST_WAIT: Duration = Duration::from_millis(1);

/// The error when no server was even tried.
pub(crate) fn no_server() -> Error {
    Error::new(ErrorKind::ConnectionLost, Fate::NotSent, "no server could be reached")
}
