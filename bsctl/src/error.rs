//! The tool's view of the client's failures: the one table from error kinds to exit codes.

use beanstalk_client::{Deadline, Error, ErrorKind};
use ctl_core::error::{Change, CliError, Exit};
use ctl_core::system::process;

use crate::servers::SERVERS;

/// Exit code and stable name of an error kind.
fn outcome(kind: ErrorKind) -> (Exit, &'static str) {
    use ErrorKind as Kind;
    match kind {
        Kind::NotFound => (Exit::Negative, NOT_FOUND),
        Kind::NotIgnored => (Exit::Negative, "NOT_IGNORED"),
        Kind::JobLost => (Exit::Negative, "RESERVATION_LOST"),
        Kind::JobTooBig => (Exit::BadData, "JOB_TOO_BIG"),
        Kind::InvalidInput => (Exit::BadData, "INVALID_INPUT"),
        Kind::BodyTooLarge => (Exit::BadData, "BODY_TOO_LARGE"),
        Kind::BodyDamaged => (Exit::BadData, BODY_DAMAGED),
        Kind::Connect => (Exit::Unavailable, "UNAVAILABLE"),
        Kind::ConnectionLost => (Exit::Unavailable, "CONNECTION_LOST"),
        Kind::Timeout(Deadline::Connect) => (Exit::Unavailable, "CONNECT_TIMEOUT"),
        Kind::Timeout(_) => (Exit::Timeout, "TIMEOUT"),
        Kind::Draining => (Exit::TryAgain, "DRAINING"),
        Kind::OutOfMemory => (Exit::TryAgain, "OUT_OF_MEMORY"),
        Kind::InternalError => (Exit::TryAgain, "INTERNAL_ERROR"),
        Kind::BadFormat => (Exit::Protocol, BAD_FORMAT),
        Kind::UnknownCommand => (Exit::Protocol, UNKNOWN_COMMAND),
        Kind::Unsupported => (Exit::Protocol, "UNSUPPORTED"),
        Kind::ExpectedCrlf => (Exit::Protocol, "EXPECTED_CRLF"),
        Kind::UnexpectedReply => (Exit::Protocol, "UNEXPECTED_REPLY"),
        Kind::Protocol => (Exit::Protocol, "PROTOCOL"),
        Kind::Tls => (Exit::Permission, "TLS"),
        _ => (Exit::Internal, "INTERNAL"),
    }
}

/// The stable name for a job or tube that does not exist.
pub const NOT_FOUND: &str = "NOT_FOUND";

/// The stable name for a command that the server cannot parse.
pub const BAD_FORMAT: &str = "BAD_FORMAT";

/// The stable name for a command that the server does not know.
pub const UNKNOWN_COMMAND: &str = "UNKNOWN_COMMAND";

/// The stable name for a job whose body the server lost in a crash.
pub const BODY_DAMAGED: &str = "BODY_DAMAGED";

/// The effect of a command that outlasts its connection: a reserved job goes back when that ends.
fn change(command: &str) -> Option<Change> {
    let (may, look) = match command {
        "put" => ("the job may have been put", "bsctl jobs TUBE, to see whether it is there"),
        "delete" => {
            ("the job may have been deleted", "bsctl job ID, to see whether it still exists")
        }
        "release" => ("the job may have been released", "bsctl job ID, to see its state"),
        "bury" => ("the job may have been buried", "bsctl job ID, to see its state"),
        "kick-job" => ("the job may have been kicked", "bsctl job ID, to see its state"),
        "kick" => ("jobs may have been kicked", "bsctl tubes TUBE, to see how many are buried"),
        "pause-tube" => {
            ("the tube may have been paused", "bsctl tubes TUBE -o wide, to see its pause")
        }
        "command" | "raw command" => {
            ("the server may have carried it out", "bsctl tubes, to see what the tubes hold")
        }
        _ => return None,
    };
    Some(Change { may, look })
}

/// The client's error as the tool's.
pub fn cli_error(error: Error) -> CliError {
    let (fate, change) = (error.fate(), error.command().and_then(change));
    failure(error).fated(fate, change)
}

fn failure(error: Error) -> CliError {
    if let Some(refusal) = process::refused_here(&error, error.io_error()) {
        return refusal;
    }
    let (exit, code) = outcome(error.kind());
    let mut message = error.to_string();
    // The message of a refusal begins with the server's reply, which the tool already shows.
    if let Some((before, after)) = message.split_once(&format!("{code}: "))
        && before.len() <= 32
    {
        message = after.to_owned();
    }
    if let (ErrorKind::UnknownCommand, Some(command)) = (error.kind(), error.command()) {
        message = format!("the server does not know the command {command}");
    }
    let error = CliError::new(exit, code, message);
    match code {
        "DRAINING" => error.hint("another server: this one accepts no jobs until it is restarted"),
        "JOB_TOO_BIG" => error.hint("bsctl server shows max-job-size; beanstalkd -z sets it"),
        "UNSUPPORTED" => error.hint("bsctl server shows what this server supports"),
        _ => SERVERS.advise("bsctl", error),
    }
}
