//! Errors, and whether the server may have acted on the failed call.

use bytes::Bytes;
pub(crate) use queue_core::excerpt;
pub use queue_core::{Deadline, Fate};

use crate::JobRef;

/// Why a call failed.
///
/// Expected outcomes (no job within the timeout, no such tube in a lookup) are values, not errors. An error says what
/// failed ([`kind`](Error::kind)), in which command, and whether the server may have acted ([`fate`](Error::fate)).
#[derive(Clone)]
pub struct Error(queue_core::Error<ErrorKind, About>);

/// The context of the failed call.
#[derive(Clone, Default)]
struct About {
    command: Option<&'static str>,
    job: Option<JobRef>,
    /// The reply line or the body that the error is about.
    reply: Option<Bytes>,
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
    /// `NOT_FOUND`: no such job or tube, or this connection may not act on the job.
    NotFound,
    /// `NOT_IGNORED`: the only tube on a watch list cannot be ignored.
    NotIgnored,
    /// `JOB_TOO_BIG`: the body is larger than the server's `max-job-size`. The connection stays usable.
    JobTooBig,
    /// `DRAINING`: the server accepts no new jobs. Temporary, but this server process will not accept any again.
    Draining,
    /// `OUT_OF_MEMORY`: the server could not allocate. Temporary.
    OutOfMemory,
    /// `INTERNAL_ERROR`: a bug in the server.
    InternalError,
    /// `BAD_FORMAT`: the server did not accept the command line.
    BadFormat,
    /// `UNKNOWN_COMMAND`: the server does not know the command.
    UnknownCommand,
    /// `EXPECTED_CRLF`: the server found a body whose length differs from the announced one.
    ExpectedCrlf,
    /// The server is too old for this command: `reserve-job` needs 1.12.
    Unsupported,
    /// An unknown reply word; [`reply`](Error::reply) has the line. The connection stays usable.
    UnexpectedReply,
    /// A value that the protocol cannot carry. Nothing was sent.
    InvalidInput,
    /// No connection could be made; the message names every address that was tried.
    Connect,
    /// The connection ended before the reply was read.
    ConnectionLost,
    /// A deadline passed; the connection was closed.
    Timeout(Deadline),
    /// The server broke the protocol; the connection was closed.
    Protocol,
    /// A job's body is larger than the client's limit. The job is reserved; [`job`](Error::job) names it.
    BodyTooLarge,
    /// The server lost the end of a job's body, perhaps all of it, in a crash while the job was being put;
    /// [`body`](Error::body) has what arrived. After a reserve, the job is reserved: [`job`](Error::job) names it, to
    /// bury or delete it. The connection stays usable.
    BodyDamaged,
    /// The connection that held this reservation is gone, and the reservation with it. Nothing was sent, unless
    /// [`fate`](Error::fate) says otherwise: the connection can also be closed while the reply to a reserve or a touch
    /// arrives.
    JobLost,
    /// The producer's queue is full. Nothing was sent.
    QueueFull,
    /// The producer was closed. Nothing was sent.
    Closed,
    /// The TLS handshake failed, or the TLS options cannot be used.
    Tls,
}

queue_core::named!(ErrorKind, Error, "kind of error": ErrorKind::NotFound, ErrorKind::NotIgnored, ErrorKind::JobTooBig, ErrorKind::Draining, ErrorKind::OutOfMemory, ErrorKind::InternalError, ErrorKind::BadFormat, ErrorKind::UnknownCommand, ErrorKind::ExpectedCrlf, ErrorKind::Unsupported, ErrorKind::UnexpectedReply, ErrorKind::InvalidInput, ErrorKind::Connect, ErrorKind::ConnectionLost, ErrorKind::Protocol, ErrorKind::BodyTooLarge, ErrorKind::BodyDamaged, ErrorKind::JobLost, ErrorKind::QueueFull, ErrorKind::Closed, ErrorKind::Tls, ErrorKind::Timeout(Deadline::Connect), ErrorKind::Timeout(Deadline::Write), ErrorKind::Timeout(Deadline::Reply), ErrorKind::Timeout(Deadline::Total), ErrorKind::Timeout(Deadline::Job));

impl ErrorKind {
    /// A short name for logs and metrics, in snake case: `error.type` of OpenTelemetry.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            ErrorKind::NotFound => "not_found",
            ErrorKind::NotIgnored => "not_ignored",
            ErrorKind::JobTooBig => "job_too_big",
            ErrorKind::Draining => "draining",
            ErrorKind::OutOfMemory => "out_of_memory",
            ErrorKind::InternalError => "internal_error",
            ErrorKind::BadFormat => "bad_format",
            ErrorKind::UnknownCommand => "unknown_command",
            ErrorKind::ExpectedCrlf => "expected_crlf",
            ErrorKind::Unsupported => "unsupported",
            ErrorKind::UnexpectedReply => "unexpected_reply",
            ErrorKind::InvalidInput => "invalid_input",
            ErrorKind::Connect => "connect",
            ErrorKind::ConnectionLost => "connection_lost",
            ErrorKind::Timeout(which) => which.error_name(),
            ErrorKind::Protocol => "protocol",
            ErrorKind::BodyTooLarge => "body_too_large",
            ErrorKind::BodyDamaged => "body_damaged",
            ErrorKind::JobLost => "job_lost",
            ErrorKind::Tls => "tls",
            ErrorKind::QueueFull => "queue_full",
            ErrorKind::Closed => "closed",
        }
    }
}

impl Error {
    /// The kind of failure.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        *self.0.kind()
    }

    /// The wire verb of the command that failed, if one was being sent; `check` or `connect` for those of a producer.
    #[must_use]
    pub fn command(&self) -> Option<&'static str> {
        self.0.about().command
    }

    /// The job, for [`ErrorKind::BodyTooLarge`] and [`ErrorKind::BodyDamaged`]: after a reserve this connection still
    /// holds it.
    #[must_use]
    pub fn job(&self) -> Option<JobRef> {
        self.0.about().job
    }

    /// The reply line, for [`ErrorKind::UnexpectedReply`].
    #[must_use]
    pub fn reply(&self) -> Option<&[u8]> {
        self.0.about().reply.as_deref().filter(|_| self.kind() == ErrorKind::UnexpectedReply)
    }

    /// The body as the server has it, for [`ErrorKind::BodyDamaged`].
    #[must_use]
    pub fn body(&self) -> Option<&Bytes> {
        self.0.about().reply.as_ref().filter(|_| self.kind() == ErrorKind::BodyDamaged)
    }

    /// Whether trying again later may succeed: the server is draining or out of memory, the connection could not be
    /// made or was lost, a deadline passed. Look at [`fate`](Error::fate) before repeating a command that must not
    /// run twice.
    #[must_use]
    pub fn is_temporary(&self) -> bool {
        matches!(
            self.kind(),
            ErrorKind::Draining
                | ErrorKind::OutOfMemory
                | ErrorKind::Connect
                | ErrorKind::ConnectionLost
                | ErrorKind::Timeout(_)
                | ErrorKind::QueueFull
        )
    }

    pub(crate) fn refused(kind: ErrorKind, message: &'static str) -> Self {
        Self::new(kind, Fate::Refused, message)
    }

    /// A copy of the error for another caller that waits for the same thing.
    pub(crate) fn share(&self) -> Self {
        self.clone()
    }

    pub(crate) fn with_command(mut self, command: &'static str) -> Self {
        self.0.about_mut().command.get_or_insert(command);
        self
    }

    pub(crate) fn with_job(mut self, job: JobRef) -> Self {
        self.0.about_mut().job = Some(job);
        self
    }

    pub(crate) fn with_reply(mut self, reply: Bytes) -> Self {
        self.0.about_mut().reply = Some(reply);
        self
    }
}

/// The connection ended before the reply was read.
pub(crate) fn lost(error: std::io::Error) -> Error {
    Error::new(ErrorKind::ConnectionLost, Fate::Unknown, "the connection was lost")
        .with_source(error)
}
