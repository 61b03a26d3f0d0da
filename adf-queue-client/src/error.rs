//! What can go wrong, and whether the server may have acted.

use std::{borrow::Cow, error::Error as StdError, fmt};

use crate::{Fate, Refusal};

/// Why a call failed.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    fate: Fate,
    message: Cow<'static, str>,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

/// What kind of failure an [`Error`] is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A value that the protocol, or this encoding of it, cannot carry. Nothing was sent.
    InvalidInput,
    /// The server answered no.
    Refused(Refusal),
    /// The server broke the protocol.
    Protocol,
}

impl Error {
    /// What kind of failure this is.
    #[must_use]
    pub fn kind(&self) -> &ErrorKind {
        &self.kind
    }

    /// Whether the server can have acted.
    #[must_use]
    pub fn fate(&self) -> Fate {
        self.fate
    }

    pub(crate) fn invalid(message: impl Into<Cow<'static, str>>) -> Self {
        Error {
            kind: ErrorKind::InvalidInput,
            fate: Fate::NotSent,
            message: message.into(),
            source: None,
        }
    }

    pub(crate) fn protocol(message: impl Into<Cow<'static, str>>) -> Self {
        Error {
            kind: ErrorKind::Protocol,
            fate: Fate::Unknown,
            message: message.into(),
            source: None,
        }
    }

    pub(crate) fn with_fate(mut self, fate: Fate) -> Self {
        self.fate = fate;
        self
    }

    pub(crate) fn with_source(
        mut self,
        source: impl Into<Box<dyn StdError + Send + Sync>>,
    ) -> Self {
        self.source = Some(source.into());
        self
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        let message = format!("the server refused: {refusal}").into();
        Error { kind: ErrorKind::Refused(refusal), fate: Fate::Refused, message, source: None }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}
