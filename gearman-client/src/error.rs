//! Errors, and whether the server may have acted on the failed call.

use std::borrow::Cow;

pub(crate) use queue_core::excerpt;
pub use queue_core::{Deadline, Fate};

use crate::{JobHandle, UniqueId};

/// Why a call failed.
///
/// Expected outcomes (an unknown job's status, a job that its worker failed) are values, not errors. An error says what
/// failed ([`kind`](Error::kind)), in which request, and whether the server may have acted ([`fate`](Error::fate)).
#[derive(Clone)]
pub struct Error(queue_core::Error<ErrorKind, About>);

/// The context of the failed call.
#[derive(Clone, Default)]
struct About {
    command: Option<&'static str>,
    code: Option<Box<str>>,
    handle: Option<JobHandle>,
    unique: Option<UniqueId>,
}

impl queue_core::About for About {
    fn subject(&self) -> Option<&str> {
        self.command
    }
}

queue_core::wrap_error!(Error, ErrorKind);

/// The kind of failure of an [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// `QUEUE_ERROR`: the function's queue is full, or the server could not store the job. Temporary.
    QueueFull,
    /// `JOB_NOT_FOUND`, `UNKNOWN_JOB`: the server knows no such job, or this connection no longer holds it.
    JobNotFound,
    /// `function not found`: no such function.
    FunctionNotFound,
    /// The function still has workers or running jobs.
    FunctionInUse,
    /// `UNKNOWN_OPTION`: the server does not know the option.
    UnknownOption,
    /// `ARGUMENT_TOO_LARGE`: the server refused the length of an argument.
    ArgumentTooLarge,
    /// `INVALID_COMMAND`, `UNKNOWN_COMMAND`: this server does not support the request.
    Unsupported,
    /// The server answered with an error unknown to this crate; [`code`](Error::code) has its code.
    Server,
    /// A value that the protocol cannot carry. Nothing was sent.
    InvalidInput,
    /// No connection could be made; the message names every address that was tried.
    Connect,
    /// The connection ended before the reply was read.
    ConnectionLost,
    /// A deadline passed; except for [`Deadline::Job`], the connection was closed.
    Timeout(Deadline),
    /// The server broke the protocol; the connection was closed.
    Protocol,
    /// A packet or text reply is larger than the client's limit; the connection was closed.
    PacketTooLarge,
    /// More of a job's events were unread than the limit allows; the later ones are lost.
    Backlog,
    /// The connection that held this job is gone, and the server has given the job to other workers. Nothing was sent.
    JobLost,
    /// The TLS handshake failed, or the TLS options cannot be used.
    Tls,
}

queue_core::named!(ErrorKind, Error, "kind of error": ErrorKind::QueueFull, ErrorKind::JobNotFound, ErrorKind::FunctionNotFound, ErrorKind::FunctionInUse, ErrorKind::UnknownOption, ErrorKind::ArgumentTooLarge, ErrorKind::Unsupported, ErrorKind::Server, ErrorKind::InvalidInput, ErrorKind::Connect, ErrorKind::ConnectionLost, ErrorKind::Protocol, ErrorKind::PacketTooLarge, ErrorKind::Backlog, ErrorKind::JobLost, ErrorKind::Tls, ErrorKind::Timeout(Deadline::Connect), ErrorKind::Timeout(Deadline::Write), ErrorKind::Timeout(Deadline::Reply), ErrorKind::Timeout(Deadline::Total), ErrorKind::Timeout(Deadline::Job));

impl ErrorKind {
    /// A short name for logs and metrics, in snake case: `error.type` of OpenTelemetry.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            ErrorKind::QueueFull => "queue_full",
            ErrorKind::JobNotFound => "job_not_found",
            ErrorKind::FunctionNotFound => "function_not_found",
            ErrorKind::FunctionInUse => "function_in_use",
            ErrorKind::UnknownOption => "unknown_option",
            ErrorKind::ArgumentTooLarge => "argument_too_large",
            ErrorKind::Unsupported => "unsupported",
            ErrorKind::Server => "server",
            ErrorKind::InvalidInput => "invalid_input",
            ErrorKind::Connect => "connect",
            ErrorKind::ConnectionLost => "connection_lost",
            ErrorKind::Timeout(which) => which.error_name(),
            ErrorKind::Protocol => "protocol",
            ErrorKind::PacketTooLarge => "packet_too_large",
            ErrorKind::Backlog => "backlog",
            ErrorKind::JobLost => "job_lost",
            ErrorKind::Tls => "tls",
        }
    }
}

impl Error {
    /// The kind of failure.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        *self.0.kind()
    }

    /// The name of the packet, or the words of the admin command, that failed.
    #[must_use]
    pub fn command(&self) -> Option<&'static str> {
        self.0.about().command
    }

    /// The code of the server's error reply, such as `JOB_NOT_FOUND`, as sent by the server.
    #[must_use]
    pub fn code(&self) -> Option<&str> {
        self.0.about().code.as_deref()
    }

    /// The foreground job whose events are lost, because its connection ended after the server had accepted it.
    #[must_use]
    pub fn handle(&self) -> Option<&JobHandle> {
        self.0.about().handle.as_ref()
    }

    /// The unique id that the job was submitted with, by which its status can be asked for.
    #[must_use]
    pub fn unique(&self) -> Option<&UniqueId> {
        self.0.about().unique.as_ref()
    }

    /// Whether trying again later may succeed: a queue is full, the connection could not be made or was lost, a
    /// deadline passed. Look at [`fate`](Error::fate) before repeating what must not run twice.
    #[must_use]
    pub fn is_temporary(&self) -> bool {
        matches!(
            self.kind(),
            ErrorKind::QueueFull
                | ErrorKind::Connect
                | ErrorKind::ConnectionLost
                | ErrorKind::Timeout(_)
        )
    }

    /// The error for the server's error reply.
    pub(crate) fn refused(
        kind: ErrorKind,
        code: &str,
        message: impl Into<Cow<'static, str>>,
    ) -> Self {
        let mut error = Self::new(kind, Fate::Refused, message);
        error.0.about_mut().code =
            Some(queue_core::shorten(code.to_owned().into()).into_owned().into());
        error
    }

    pub(crate) fn with_command(mut self, command: &'static str) -> Self {
        self.0.about_mut().command.get_or_insert(command);
        self
    }

    pub(crate) fn with_handle(mut self, handle: JobHandle) -> Self {
        self.0.about_mut().handle = Some(handle);
        self
    }

    pub(crate) fn with_unique(mut self, unique: Option<UniqueId>) -> Self {
        self.0.about_mut().unique = unique;
        self
    }

    /// A copy of the error for another caller that it affects.
    pub(crate) fn share(&self) -> Self {
        Error(self.0.share())
    }
}

/// The error of a missing connection.
#[cfg(feature = "blocking")]
pub(crate) fn closed() -> std::io::Error {
    std::io::ErrorKind::NotConnected.into()
}
