//! Whether a server may have acted.

/// Whether the server may have acted on a failed call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fate {
    /// The last byte of the request never left: the server cannot have acted. Retrying is safe.
    NotSent,
    /// The request was sent, and no answer was read: the server may have acted.
    Unknown,
    /// The server refused the request.
    Refused,
}

crate::words!(Fate, crate::Error, "fate":
    "not sent" = NotSent, "unknown" = Unknown, "refused" = Refused);
