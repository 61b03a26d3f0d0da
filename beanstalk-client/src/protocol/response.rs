//! Replies of the server.

use bytes::Bytes;

use crate::{Epoch, Error, Job, JobId, JobRef, protocol::parser::Parser};

/// A reply of the server, parsed without knowing which command it answers.
///
/// That independence matters: a reply whose caller is gone still has to be read and acted on.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Response {
    /// `INSERTED <id>`. Further words are ignored: compatible servers add some.
    Inserted(JobId),
    /// `BURIED` (to bury and release) or `BURIED <id>` (to put).
    Buried(Option<JobId>),
    /// `USING <tube>`.
    Using(Bytes),
    /// `RESERVED <id> <bytes>` and the body.
    Reserved(Job),
    /// `FOUND <id> <bytes>` and the body.
    Found(Job),
    /// `OK <bytes>` and the text.
    Ok(Bytes),
    /// `DELETED`.
    Deleted,
    /// `RELEASED`.
    Released,
    /// `TOUCHED`.
    Touched,
    /// `WATCHING <count>`.
    Watching(u64),
    /// `NOT_IGNORED`.
    NotIgnored,
    /// `KICKED` (to kick-job) or `KICKED <count>` (to kick).
    Kicked(Option<u64>),
    /// `PAUSED`.
    Paused,
    /// `TIMED_OUT`.
    TimedOut,
    /// `DEADLINE_SOON`.
    DeadlineSoon,
    /// `NOT_FOUND`.
    NotFound,
    /// `EXPECTED_CRLF`.
    ExpectedCrlf,
    /// `JOB_TOO_BIG`.
    JobTooBig,
    /// `DRAINING`.
    Draining,
    /// `OUT_OF_MEMORY`.
    OutOfMemory,
    /// `INTERNAL_ERROR`.
    InternalError,
    /// `BAD_FORMAT`.
    BadFormat,
    /// `UNKNOWN_COMMAND`.
    UnknownCommand,
    /// A job whose body was larger than the client's limit and was skipped.
    BodyTooLarge {
        /// The job; after a reserve this connection holds it.
        job: JobRef,
        /// The body's length in bytes, as the server announced it.
        size: u64,
        /// The client's limit in bytes.
        limit: usize,
    },
    /// A job whose body lost its end on the server: it is followed by NULs instead of CRLF.
    ///
    /// beanstalkd 1.12 with a write-ahead log (`-b`) serves such a job if it was killed, or its machine crashed, while
    /// the job was being written to the log: unwritten bytes, including the CRLF, come back as NULs. As the `put` is
    /// answered after the write, its caller saw a lost connection, unless the crash lost data that the server had not
    /// synced yet (`-f`).
    BodyDamaged {
        /// The job; after a reserve this connection holds it.
        job: JobRef,
        /// The body as received.
        body: Bytes,
    },
    /// The server closed the connection in answer to `quit`.
    Closed,
    /// Any other line, without its CRLF: compatible servers extend the protocol.
    Other(Bytes),
}

impl Response {
    /// The wire word of the reply.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Response::Inserted(_) => "INSERTED",
            Response::Buried(_) => "BURIED",
            Response::Using(_) => "USING",
            Response::Reserved(_) => "RESERVED",
            Response::Found(_) => "FOUND",
            Response::Ok(_) => "OK",
            Response::Deleted => "DELETED",
            Response::Released => "RELEASED",
            Response::Touched => "TOUCHED",
            Response::Watching(_) => "WATCHING",
            Response::NotIgnored => "NOT_IGNORED",
            Response::Kicked(_) => "KICKED",
            Response::Paused => "PAUSED",
            Response::TimedOut => "TIMED_OUT",
            Response::DeadlineSoon => "DEADLINE_SOON",
            Response::NotFound => "NOT_FOUND",
            Response::ExpectedCrlf => "EXPECTED_CRLF",
            Response::JobTooBig => "JOB_TOO_BIG",
            Response::Draining => "DRAINING",
            Response::OutOfMemory => "OUT_OF_MEMORY",
            Response::InternalError => "INTERNAL_ERROR",
            Response::BadFormat => "BAD_FORMAT",
            Response::UnknownCommand => "UNKNOWN_COMMAND",
            Response::BodyTooLarge { .. } => "a body over the limit",
            Response::BodyDamaged { .. } => "a damaged body",
            Response::Closed => "end of stream",
            Response::Other(_) => "an unknown word",
        }
    }

    /// The body length announced by a reply with this line, given without its CRLF; the CRLF after the body is not
    /// counted. `None` for a reply without a body. For programs that read the traffic between others.
    ///
    /// # Errors
    ///
    /// `Protocol` for a line that no server sends.
    pub fn body_after(line: &[u8]) -> Result<Option<u64>, Error> {
        Parser::new(Epoch::next(), usize::MAX).body_after(line)
    }
}
