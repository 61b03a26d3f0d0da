//! Why there is no connection, before a client makes its own error of it.

use std::{borrow::Cow, error::Error as StdError, fmt};

use crate::{Deadline, text::shorten};

/// Why a connection could not be made, an address not be understood, or a step not be done in time. Nothing was sent.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    message: Cow<'static, str>,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

/// What kind of failure an [`Error`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// A value that cannot be used.
    InvalidInput,
    /// No connection could be made; the message names every address that was tried.
    Connect,
    /// The TLS handshake failed, or the TLS options cannot be used.
    Tls,
    /// A deadline passed.
    Timeout(Deadline),
}

impl Error {
    /// A failure of this kind.
    pub fn new(kind: ErrorKind, message: impl Into<Cow<'static, str>>) -> Self {
        Error { kind, message: shorten(message.into()), source: None }
    }

    /// The same, with its cause.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// What kind of failure this is.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Its kind, its message, and its cause: what a client's own error is made of.
    #[must_use]
    pub fn into_parts(
        self,
    ) -> (ErrorKind, Cow<'static, str>, Option<Box<dyn StdError + Send + Sync>>) {
        (self.kind, self.message, self.source)
    }

    /// A deadline passed.
    #[must_use]
    pub fn timed_out(which: Deadline) -> Self {
        Self::new(ErrorKind::Timeout(which), which.message())
    }

    pub(crate) fn invalid(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::InvalidInput, message)
    }

    #[cfg(any(
        all(feature = "tokio", not(feature = "tls")),
        all(feature = "blocking", not(feature = "__rustls"))
    ))]
    pub(crate) fn no_tls() -> Self {
        Self::invalid("this build has no TLS: enable the feature `tls`")
    }

    /// No connection to this address.
    pub fn cannot_connect(
        to: impl fmt::Display,
        cause: impl Into<Box<dyn StdError + Send + Sync>>,
    ) -> Self {
        Self::new(ErrorKind::Connect, format!("cannot connect to {to}")).with_source(cause)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        if let Some(source) = &self.source {
            write!(f, ": {source}")?;
        }
        Ok(())
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}
