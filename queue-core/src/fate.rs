//! Whether a server can have acted.

use std::fmt;

/// Whether the server can have acted on a failed call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fate {
    /// The last byte of the request never left: the server cannot have acted. Trying again is safe.
    NotSent,
    /// The request left, and no answer was read: the server may have acted.
    Unknown,
    /// The server answered no.
    Refused,
}

impl fmt::Display for Fate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Fate::NotSent => "not sent",
            Fate::Unknown => "unknown",
            Fate::Refused => "refused",
        })
    }
}
