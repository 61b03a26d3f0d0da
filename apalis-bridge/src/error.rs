//! Errors between a queue and apalis.

use std::{error, fmt};

use apalis_core::error::BoxDynError;

/// An error of a backend, over a client whose error is `E`.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error<E> {
    /// The client's own error; its kind and its fate say more.
    Client(E),
    /// A task could not be encoded. Nothing was sent.
    Encode(BoxDynError),
    /// A task requires something that the queue does not support. Nothing was sent.
    Unsupported(String),
    /// The backend needs a tokio runtime.
    NoRuntime,
}

impl<E: fmt::Display> fmt::Display for Error<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Client(error) => error.fmt(f),
            Error::Encode(error) => write!(f, "the task cannot be encoded: {error}"),
            Error::Unsupported(what) => f.write_str(what),
            Error::NoRuntime => f.write_str("the backend needs a tokio runtime"),
        }
    }
}

impl<E: error::Error + 'static> error::Error for Error<E> {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            // Its text is already the client's.
            Error::Client(error) => error.source(),
            // Its text is in the message.
            Error::Encode(error) => error.source(),
            Error::Unsupported(_) | Error::NoRuntime => None,
        }
    }
}
