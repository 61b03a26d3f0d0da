//! The tool's view of the client's failures: the one table from error kinds to exit codes.

use ctl_core::error::{Change, CliError, Exit};
use ctl_core::system::process;
use ctl_core::text::escape;
use gearman_client::{Deadline, Error, ErrorKind};

use crate::servers::SERVERS;

/// Exit code and stable name of an error kind.
fn outcome(kind: ErrorKind) -> (Exit, &'static str) {
    use ErrorKind as Kind;
    match kind {
        Kind::JobNotFound | Kind::FunctionNotFound => (Exit::Negative, NOT_FOUND),
        Kind::FunctionInUse => (Exit::Negative, "FUNCTION_IN_USE"),
        Kind::JobLost => (Exit::Negative, "JOB_LOST"),
        Kind::Server => (Exit::Negative, "SERVER_ERROR"),
        Kind::InvalidInput => (Exit::BadData, "INVALID_INPUT"),
        Kind::ArgumentTooLarge => (Exit::BadData, "ARGUMENT_TOO_LARGE"),
        Kind::PacketTooLarge => (Exit::BadData, "PACKET_TOO_LARGE"),
        Kind::Backlog => (Exit::BadData, "BACKLOG"),
        Kind::Connect => (Exit::Unavailable, "UNAVAILABLE"),
        Kind::ConnectionLost => (Exit::Unavailable, CONNECTION_LOST),
        Kind::Timeout(Deadline::Connect) => (Exit::Unavailable, "CONNECT_TIMEOUT"),
        Kind::Timeout(_) => (Exit::Timeout, TIMEOUT),
        Kind::QueueFull => (Exit::TryAgain, "QUEUE_FULL"),
        Kind::Unsupported => (Exit::Protocol, UNSUPPORTED),
        Kind::UnknownOption => (Exit::Protocol, "UNKNOWN_OPTION"),
        Kind::Protocol => (Exit::Protocol, "PROTOCOL"),
        Kind::Tls => (Exit::Permission, "TLS"),
        _ => (Exit::Internal, "INTERNAL"),
    }
}

/// The stable name for a job or function that does not exist.
pub const NOT_FOUND: &str = "NOT_FOUND";

/// The stable name for a command that this server does not support.
pub const UNSUPPORTED: &str = "UNSUPPORTED";

/// The stable name for an answer that did not arrive in time.
pub const TIMEOUT: &str = "TIMEOUT";

/// The stable name for a connection that ended before the answer.
pub const CONNECTION_LOST: &str = "CONNECTION_LOST";

/// The effect of a request that outlasts its connection: a job that a worker has taken goes back when that ends.
fn change(error: &Error) -> Option<Change> {
    let functions = "gearctl functions FUNCTION, to see whether the server has it";
    let (may, look) = match error.command()? {
        // With a handle, it was accepted.
        name if name.starts_with("SUBMIT_") && error.handle().is_none() => {
            ("the job may have been submitted", functions)
        }
        "cancel job" => (
            "the job may have been cancelled",
            "gearctl job HANDLE, to see whether it still exists",
        ),
        "create function" => ("the function may have been created", functions),
        "drop function" => ("the function may have been dropped", functions),
        "maxqueue" => (
            "the limit may have been set",
            "the server does not show it, and setting it again does no harm",
        ),
        "shutdown" => {
            ("the server may be shutting down", "gearctl ping, to see whether it is there")
        }
        _ => return None,
    };
    Some(Change { may, look })
}

/// The client's error as the tool's.
pub fn cli_error(error: Error) -> CliError {
    let (fate, change) = (error.fate(), change(&error));
    failure(error).fated(fate, change)
}

fn failure(error: Error) -> CliError {
    if let Some(refusal) = process::refused_here(&error, error.io_error()) {
        return refusal;
    }
    let (exit, code) = outcome(error.kind());
    let mut cli = CliError::new(exit, code, error.to_string());
    if let (Some(handle), true) = (error.handle(), exit != Exit::BadData) {
        let server = handle.server().map(|server| format!("{server}//")).unwrap_or_default();
        let job = format!("{server}{}", escape::name(handle.name()));
        cli = cli.hint(format!("gearctl job {job}, to see whether the server still has the job"));
    }
    match code {
        "QUEUE_FULL" => cli.hint("later, or a larger limit: gearctl function maxqueue"),
        NOT_FOUND => cli.hint(match error.kind() {
            ErrorKind::FunctionNotFound => {
                "gearctl functions, to list the functions of this server"
            }
            _ => "gearctl jobs, to list the jobs of a gearmand",
        }),
        UNSUPPORTED => cli.hint("gearctl server shows what this server supports"),
        _ => SERVERS.advise("gearctl", cli),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gearman_client::FunctionName;

    #[test]
    fn an_illegal_name_exits_65_with_the_rule() {
        let error = cli_error(FunctionName::try_from("a\0b").unwrap_err());
        assert_eq!((error.exit.code(), error.code), (65, "INVALID_INPUT"));
        assert!(error.message.contains("position 1"), "{error}");
    }

    #[test]
    fn deadlines_have_distinct_messages() {
        assert_eq!(outcome(ErrorKind::Timeout(Deadline::Connect)).0.code(), 69);
        assert_eq!(outcome(ErrorKind::Timeout(Deadline::Job)).0.code(), 124);
        assert_eq!(outcome(ErrorKind::QueueFull).0.code(), 75);
        assert_eq!(outcome(ErrorKind::Tls).0.code(), 77);
    }
}
