//! The tool's view of the client's failures: the one table from error kinds to exit codes.

use adf_queue_client::protocol::Action;
use adf_queue_client::{Deadline, Error, ErrorKind, QueueName, Refusal};
use ctl_core::error::{Change, CliError, Exit};
use ctl_core::system::process;

use crate::servers::SERVERS;

/// Exit code and stable name of an error kind.
fn outcome(kind: &ErrorKind) -> (Exit, &'static str) {
    use ErrorKind as Kind;
    match kind {
        Kind::Refused(Refusal::QueueNotFound) => (Exit::Negative, QUEUE_NOT_FOUND),
        Kind::Refused(Refusal::QueueExists) => (Exit::Negative, QUEUE_EXISTS),
        Kind::Refused(Refusal::EmptyQueueName) => (Exit::BadData, "INVALID_INPUT"),
        Kind::Refused(Refusal::NotPulled) => (Exit::Negative, NOT_PULLED),
        Kind::Refused(_) => (Exit::Negative, "REFUSED"),
        Kind::JobLost => (Exit::Negative, MESSAGE_LOST),
        Kind::InvalidInput => (Exit::BadData, "INVALID_INPUT"),
        Kind::MessageTooLarge => (Exit::BadData, "MESSAGE_TOO_LARGE"),
        Kind::Connect => (Exit::Unavailable, "UNAVAILABLE"),
        Kind::ConnectionLost => (Exit::Unavailable, CONNECTION_LOST),
        Kind::Timeout(Deadline::Connect) => (Exit::Unavailable, "CONNECT_TIMEOUT"),
        Kind::Timeout(_) => (Exit::Timeout, "TIMEOUT"),
        Kind::Unsupported => (Exit::Usage, "UNSUPPORTED"),
        Kind::Protocol => (Exit::Protocol, "PROTOCOL"),
        Kind::Tls => (Exit::Permission, "TLS"),
        _ => (Exit::Internal, "INTERNAL"),
    }
}

/// The stable name for a queue that does not exist.
pub const QUEUE_NOT_FOUND: &str = "QUEUE_NOT_FOUND";

/// The error for a queue that does not exist.
pub fn no_queue(queue: &QueueName) -> CliError {
    let why = format!("{NO_QUEUE}{queue}");
    CliError::new(Exit::Negative, QUEUE_NOT_FOUND, why)
        .hint("adfctl queues, to list the queues of this server")
}

/// The words before the name of a queue that does not exist.
pub const NO_QUEUE: &str = "there is no queue ";

/// The stable name for a queue that exists already.
pub const QUEUE_EXISTS: &str = "QUEUE_EXISTS";

/// The stable name for a message that was not pulled by the given id.
pub const NOT_PULLED: &str = "NOT_PULLED";

/// The stable name for a message that went back to its queue with the connection that had pulled it.
const MESSAGE_LOST: &str = "MESSAGE_LOST";

/// The stable name for a connection that ended before the answer.
pub const CONNECTION_LOST: &str = "CONNECTION_LOST";

/// The effect of a request that outlasts its connection. A message pulled over WebSocket goes back when that ends; one
/// pulled over HTTP stays pulled.
fn change(error: &Error) -> Option<Change> {
    let (may, look) = match error.action()? {
        Action::Lpush | Action::Rpush => {
            ("the message may have been pushed", "adfctl queues QUEUE, to see whether it is there")
        }
        Action::Pull if error.request_id().is_some() => (
            "a message may have been pulled",
            "adfctl settle left, with the id of the pull, to put it back",
        ),
        Action::Pull | Action::Count => return None,
        Action::Delete => ("the message may have been deleted", COUNTS),
        Action::Lcancel | Action::Rcancel => ("the message may have been put back", COUNTS),
        Action::Clear => ("the queue may have been cleared", COUNTS),
        Action::CreateQueue => {
            ("the queue may have been created", "adfctl queues, to see whether it exists")
        }
        Action::DeleteQueue => {
            ("the queue may have been deleted", "adfctl queues, to see whether it still exists")
        }
    };
    Some(Change { may, look })
}

const COUNTS: &str = "adfctl queues QUEUE, to see how many messages are ready and pulled";

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
    let cli = CliError::new(exit, code, error.to_string());
    match code {
        QUEUE_NOT_FOUND => cli
            .hint("adfctl queues, to list the queues of this server")
            .hint("adfctl queue create QUEUE, or --create with push, import, copy or move"),
        NOT_PULLED => cli.hint(
            "the pull's request id, over the transport that pulled it: no other transport knows the id",
        ),
        _ => SERVERS.advise("adfctl", cli),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_and_deadlines_have_distinct_messages() {
        let code = |kind: ErrorKind| (outcome(&kind).0.code(), outcome(&kind).1);
        assert_eq!(code(ErrorKind::Refused(Refusal::QueueNotFound)), (1, QUEUE_NOT_FOUND));
        assert_eq!(code(ErrorKind::Refused(Refusal::Other("busy".into()))), (1, "REFUSED"));
        assert_eq!(code(ErrorKind::Timeout(Deadline::Connect)).0, 69);
        assert_eq!(code(ErrorKind::Timeout(Deadline::Reply)).0, 124);
    }
}
