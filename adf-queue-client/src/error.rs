//! Errors, and whether the server may have acted on the failed call.

use std::fmt;

use crate::{Deadline, Fate, Refusal, RequestId, protocol::Action};

/// Why a call failed.
///
/// Expected outcomes (no message within the time of a `pull_within`, an existing queue for `ensure_queue`) are values,
/// not errors. An error says what failed ([`kind`](Error::kind)), in which request, and whether the server may have
/// acted ([`fate`](Error::fate)).
#[derive(Clone)]
pub struct Error(queue_core::Error<ErrorKind, About>);

/// The context of the failed call.
#[derive(Clone, Default)]
struct About {
    action: Option<Action>,
    request_id: Option<RequestId>,
}

impl queue_core::About for About {
    fn subject(&self) -> Option<&str> {
        self.action.map(Action::name)
    }

    fn debug(&self, to: &mut fmt::DebugStruct<'_, '_>) {
        to.field("request_id", &self.request_id);
    }
}

queue_core::wrap_error!(Error, ErrorKind);

/// The kind of failure of an [`Error`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A value that the protocol or this encoding cannot carry. Nothing was sent, unless the fate is
    /// [`Refused`](Fate::Refused): then the server rejected it, which it reports only over HTTP.
    InvalidInput,
    /// No connection could be made; the message names every address that was tried.
    Connect,
    /// The TLS handshake failed, or the TLS options cannot be used.
    Tls,
    /// The connection ended before the answer was read.
    ConnectionLost,
    /// A deadline passed; except for [`Deadline::Total`], the connection was closed.
    Timeout(Deadline),
    /// The server refused the request.
    Refused(Refusal),
    /// The server broke the protocol; the connection was closed.
    Protocol,
    /// An answer is larger than the client's limit; the connection was closed.
    MessageTooLarge,
    /// The connection that pulled this message is gone, and the server has given the message to other clients. Nothing
    /// was sent.
    JobLost,
    /// The producer was closed. Nothing was sent.
    Closed,
    /// The address's transport does not support this. Nothing was sent.
    Unsupported,
}

queue_core::named!(ErrorKind, Error, "kind of error": ErrorKind::InvalidInput, ErrorKind::Connect, ErrorKind::Tls, ErrorKind::ConnectionLost, ErrorKind::Protocol, ErrorKind::MessageTooLarge, ErrorKind::JobLost, ErrorKind::Closed, ErrorKind::Unsupported, ErrorKind::Refused(Refusal::QueueNotFound), ErrorKind::Refused(Refusal::QueueExists), ErrorKind::Refused(Refusal::EmptyQueueName), ErrorKind::Refused(Refusal::NotPulled), ErrorKind::Refused(Refusal::Other(Box::default())), ErrorKind::Timeout(Deadline::Connect), ErrorKind::Timeout(Deadline::Write), ErrorKind::Timeout(Deadline::Reply), ErrorKind::Timeout(Deadline::Total), ErrorKind::Timeout(Deadline::Job));

impl ErrorKind {
    /// A short name for logs and metrics, in snake case: `error.type` of OpenTelemetry.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            ErrorKind::InvalidInput => "invalid_input",
            ErrorKind::Connect => "connect",
            ErrorKind::Tls => "tls",
            ErrorKind::ConnectionLost => "connection_lost",
            ErrorKind::Timeout(which) => which.error_name(),
            ErrorKind::Refused(Refusal::QueueNotFound) => "queue_not_found",
            ErrorKind::Refused(Refusal::QueueExists) => "queue_exists",
            ErrorKind::Refused(Refusal::EmptyQueueName) => "empty_queue_name",
            ErrorKind::Refused(Refusal::NotPulled) => "not_pulled",
            ErrorKind::Refused(Refusal::Other(_)) => "refused",
            ErrorKind::Protocol => "protocol",
            ErrorKind::MessageTooLarge => "message_too_large",
            ErrorKind::JobLost => "job_lost",
            ErrorKind::Closed => "closed",
            ErrorKind::Unsupported => "unsupported",
        }
    }

    /// The kind as counted: all unknown refusals are one kind, so that a server cannot grow the list without bound.
    pub(crate) fn counted(&self) -> Self {
        match self {
            ErrorKind::Refused(Refusal::Other(_)) => {
                ErrorKind::Refused(Refusal::Other(Box::default()))
            }
            kind => kind.clone(),
        }
    }
}

impl Error {
    /// The kind of failure.
    #[must_use]
    pub fn kind(&self) -> &ErrorKind {
        self.0.kind()
    }

    /// The request.
    #[must_use]
    pub fn action(&self) -> Option<Action> {
        self.0.about().action
    }

    /// The id of the request, if it had one. A message that the server gave to a pull over HTTP can be found by it.
    #[must_use]
    pub fn request_id(&self) -> Option<&RequestId> {
        self.0.about().request_id.as_ref()
    }

    /// Whether trying again later may succeed: the connection could not be made or was lost, or a deadline passed. Look
    /// at [`fate`](Error::fate) before repeating a request that must not run twice.
    #[must_use]
    pub fn is_temporary(&self) -> bool {
        matches!(
            self.kind(),
            ErrorKind::Connect | ErrorKind::ConnectionLost | ErrorKind::Timeout(_)
        )
    }

    pub(crate) fn unsupported(message: impl Into<std::borrow::Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::Unsupported, Fate::NotSent, message)
    }

    pub(crate) fn closed() -> Self {
        Self::new(ErrorKind::Closed, Fate::NotSent, "the producer is closed")
    }

    pub(crate) fn with_action(mut self, action: Action) -> Self {
        self.0.about_mut().action.get_or_insert(action);
        self
    }

    pub(crate) fn with_request(self, action: Action, id: &RequestId) -> Self {
        let mut error = self.with_action(action);
        error.0.about_mut().request_id.get_or_insert(*id);
        error
    }

    /// A copy of the error for another caller that it affects.
    pub(crate) fn share(&self) -> Self {
        Error(self.0.share())
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        let text = refusal.to_string();
        let message = format!("the server refused: {}", text.trim_end_matches('.'));
        Error::new(ErrorKind::Refused(refusal), Fate::Refused, message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_texts_count_as_one_kind() {
        let kind = |words: &str| ErrorKind::Refused(Refusal::Other(words.into()));
        assert_eq!(kind("one").counted(), kind("two").counted());
        assert_ne!(ErrorKind::Refused(Refusal::NotPulled).counted(), kind("one").counted());
    }

    #[test]
    fn an_error_names_action_and_cause() {
        let error = Error::from(Refusal::QueueNotFound);
        assert_eq!(error.to_string(), "the server refused: queue not exists");
        assert_eq!((error.fate(), error.is_temporary()), (Fate::Refused, false));
        let error = Error::invalid("no").with_detail("because");
        assert_eq!(error.to_string(), "no: because");
    }
}
