//! The command trait: encoding commands and decoding their replies.

use std::time::Duration;

use bytes::{BufMut, BytesMut};

use crate::{Error, ErrorKind, Fate, JobRef, TubeName, protocol::Response};

/// A command of the protocol, as a plain value.
///
/// A value that exists can be sent: every field is validated when the command is built. Both faces accept any command
/// through `call` and `call_many`. To support a server's extension, implement this trait for it and read unknown reply
/// words from [`Response::Other`].
pub trait Command {
    /// The result of a successful command.
    type Reply;

    /// The wire verb, for error messages.
    const NAME: &'static str;

    /// Appends the whole command, with its final CRLF, to `out`.
    fn encode(&self, out: &mut BytesMut);

    /// Converts the server's answer into the reply.
    ///
    /// # Errors
    ///
    /// Any failure that the answer reports; [`Response::refuse`] makes the error for every answer that is not a
    /// success.
    fn decode(&self, response: Response) -> Result<Self::Reply, Error>;

    /// How a successful answer changes the connection's state.
    fn effect(&self) -> Effect {
        Effect::None
    }

    /// The wire verb of this value, for error messages; for a wrapper, that of the wrapped command.
    fn name(&self) -> &'static str {
        Self::NAME
    }

    /// How long the server may hold the answer back.
    fn server_wait(&self) -> ServerWait {
        ServerWait::None
    }

    /// The job that this command acts on, if any. Such a command is never repeated on another connection.
    fn job(&self) -> Option<JobRef> {
        None
    }
}

/// How the answer to a command changes the state of its connection.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Effect {
    /// It does not.
    None,
    /// A body follows the command line. After `BAD_FORMAT`, `UNKNOWN_COMMAND` or `EXPECTED_CRLF` the server reads the
    /// body, or the rest of it, as commands, so the connection is closed.
    Put,
    /// The used tube becomes this one.
    Use(TubeName),
    /// The used tube is again what it was for the session, which need not know of what was used in between.
    #[doc(hidden)]
    Restore,
    /// This tube joins the watch list.
    Watch(TubeName),
    /// This tube leaves the watch list.
    Ignore(TubeName),
    /// The connection may get a job from its watch list. Until the answer comes, the server reads nothing else from the
    /// connection.
    Reserve,
    /// The connection may get one given job.
    ReserveJob,
    /// The connection holds its job for longer, which is useless if it is closed after the command.
    Touch,
    /// The server answers by closing the connection.
    Quit,
}

/// How long the server may deliberately hold an answer back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServerWait {
    /// It answers at once.
    None,
    /// A timed reserve: at most this long.
    AtMost(Duration),
    /// A plain `reserve`: until there is a job, so its reply has no deadline.
    Forever,
}

/// Implements [`Command`] for a command of one line: its name, the arguments behind it, and the replies that are no
/// refusals.
macro_rules! line_command {
    (
        $type:ident = $name:literal, |$self:ident| [$($argument:expr),*] -> $reply:ty { $($replies:tt)* }
        $(job: $job:expr,)? $(effect: $effect:expr,)? $(wait: $wait:expr,)?
    ) => {
        impl Command for $type {
            type Reply = $reply;
            const NAME: &'static str = $name;

            fn encode(&$self, out: &mut bytes::BytesMut) {
                $crate::protocol::command::line(out, Self::NAME, &[$(&$argument),*]);
            }

            fn decode(&$self, response: Response) -> Result<$reply, Error> {
                match response {
                    $($replies)*
                    other => Err(other.refuse()),
                }
            }

            $(fn job(&$self) -> Option<JobRef> {
                Some($job)
            })?

            $(fn effect(&$self) -> Effect {
                $effect
            })?

            $(fn server_wait(&$self) -> ServerWait {
                $wait
            })?
        }
    };
}

pub(super) use line_command;

/// Writes `verb` and its arguments, separated by spaces, with the final CRLF.
pub(crate) fn line(out: &mut BytesMut, verb: &str, arguments: &[&dyn Argument]) {
    out.put_slice(verb.as_bytes());
    for argument in arguments {
        out.put_u8(b' ');
        argument.write(out);
    }
    out.put_slice(b"\r\n");
}

/// An argument of a command line.
pub(crate) trait Argument {
    fn write(&self, out: &mut BytesMut);
}

impl Argument for u64 {
    fn write(&self, out: &mut BytesMut) {
        // The digits of the largest u64.
        let mut digits = [0_u8; 20];
        let mut rest = *self;
        let mut length = 0;
        for digit in digits.iter_mut().rev() {
            *digit = b'0' + (rest % 10) as u8;
            rest /= 10;
            length += 1;
            if rest == 0 {
                break;
            }
        }
        let (_, written) = digits.split_at(digits.len() - length);
        out.put_slice(written);
    }
}

impl Argument for u32 {
    fn write(&self, out: &mut BytesMut) {
        u64::from(*self).write(out);
    }
}

impl Argument for TubeName {
    fn write(&self, out: &mut BytesMut) {
        out.put_slice(self.as_str().as_bytes());
    }
}

impl Response {
    /// Makes the error for an answer that is not a success of the command.
    ///
    /// Refusals get their own kind; an unknown word is [`ErrorKind::UnexpectedReply`]; a known word that does not
    /// belong to the command means that replies are out of step, which is [`ErrorKind::Protocol`].
    #[must_use]
    pub fn refuse(self) -> Error {
        use ErrorKind as K;
        match self {
            Response::NotFound => Error::refused(
                K::NotFound,
                "NOT_FOUND: there is no such job or tube, or another connection has the job reserved",
            ),
            Response::NotIgnored => Error::refused(
                K::NotIgnored,
                "NOT_IGNORED: the only watched tube cannot be ignored; watch another one first",
            ),
            Response::JobTooBig => Error::refused(
                K::JobTooBig,
                "JOB_TOO_BIG: the body is larger than the server's max-job-size",
            ),
            Response::Draining => Error::refused(
                K::Draining,
                "DRAINING: the server is in drain mode and takes no new jobs",
            ),
            Response::OutOfMemory => Error::refused(
                K::OutOfMemory,
                "OUT_OF_MEMORY: the server cannot allocate enough memory",
            ),
            Response::InternalError => {
                Error::refused(K::InternalError, "INTERNAL_ERROR: a bug in the server")
            }
            Response::BadFormat => Error::refused(
                K::BadFormat,
                "BAD_FORMAT: the server did not accept the command line",
            ),
            Response::UnknownCommand => Error::refused(
                K::UnknownCommand,
                "UNKNOWN_COMMAND: the server does not know this command",
            ),
            Response::ExpectedCrlf => Error::refused(
                K::ExpectedCrlf,
                "EXPECTED_CRLF: the length of the body differs from the announced one",
            ),
            Response::BodyTooLarge { job, size, limit } => Error::new(
                K::BodyTooLarge,
                Fate::Refused,
                format!(
                    "reply of {size} bytes is larger than the limit of {limit} (raise max_body_size if this is expected)"
                ),
            )
            .with_job(job),
            Response::BodyDamaged { job, body } => Error::new(
                K::BodyDamaged,
                Fate::Refused,
                format!(
                    "the server lost the end of the body of job {} in a crash (bury or delete it, and put it again if \
                     its put was not answered)",
                    job.id()
                ),
            )
            .with_job(job)
            .with_reply(body),
            Response::Other(line) => Error::refused(K::UnexpectedReply, "unexpected reply")
                .with_detail(crate::error::excerpt(&line))
                .with_reply(line),
            other @ (Response::Inserted(_)
            | Response::Buried(_)
            | Response::Using(_)
            | Response::Reserved(_)
            | Response::Found(_)
            | Response::Ok(_)
            | Response::Deleted
            | Response::Released
            | Response::Touched
            | Response::Watching(_)
            | Response::Kicked(_)
            | Response::Paused
            | Response::TimedOut
            | Response::DeadlineSoon
            | Response::Closed) => Error::protocol(format!("unexpected reply {}", other.word())),
        }
    }
}
