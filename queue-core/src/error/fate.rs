//! Whether a server can have acted.

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

crate::words!(Fate, crate::Error, "fate":
    "not sent" = NotSent, "unknown" = Unknown, "refused" = Refused);
