//! How a tool ends: the table of exit codes, and the error that carries one of them. Which failure of a client gets which
//! code is in each tool's `error.rs`.

mod fate;

use std::borrow::Cow;
use std::fmt;
use std::io;

use queue_core::Fate;
use serde_json::{Map, Value};

pub use self::fate::Change;
use crate::text::escape;

/// How a command ended, as the process's exit code.
///
/// [`EXIT_CODES`] is the single table of meanings. Help, man pages and README are generated from it, with the
/// tool's additions ([`Program::meanings`](crate::program::Program::meanings)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// 0: done.
    Done,
    /// 1: a negative answer, or nothing found.
    Negative,
    /// 2: the command line is wrong.
    Usage,
    /// 3: a bulk command or a script was partly done.
    Partial,
    /// 4: a request may have been carried out: it was sent, and no answer was read.
    Unknown,
    /// 65: a record, body or name is not valid.
    BadData,
    /// 66: an input file is missing.
    NoInput,
    /// 69: the server cannot be reached, or the connection was lost. It also ends a command over many jobs, and commands
    /// that live through an outage wait for it to end.
    Unavailable,
    /// 70: a defect of the tool.
    Internal,
    /// 74: reading or writing on this machine failed.
    Io,
    /// 75: the server refused for now.
    TryAgain,
    /// 76: the server's answer breaks the protocol.
    Protocol,
    /// 77: TLS or permission.
    Permission,
    /// 124: a time limit expired.
    Timeout,
    /// 129: ended by SIGHUP after orderly clean-up.
    HungUp,
    /// 130: ended by SIGINT after orderly clean-up.
    Interrupted,
    /// 143: ended by SIGTERM after orderly clean-up.
    Terminated,
    /// A code from elsewhere: a monitoring plugin's 0 to 3, or a child's exit code.
    Own(u8),
}

/// Every exit code with its meaning, in ascending order.
pub const EXIT_CODES: &[(Exit, &str)] = &[
    (Exit::Done, "success (also: an empty list, a read-only command whose pipe was closed)"),
    (
        Exit::Negative,
        "negative answer: NOT_FOUND, confirmation declined, jobs of `work` that all failed",
    ),
    (
        Exit::Usage,
        "usage: wrong arguments, settings, configuration file or context, missing --yes without a terminal, raw binary to a terminal",
    ),
    (
        Exit::Partial,
        "partial success of a bulk command, or errors in a script run with --keep-going",
    ),
    (
        Exit::Unknown,
        "the server may have carried it out, in full or in part: check before repeating it",
    ),
    (Exit::BadData, "bad input record, body larger than the server allows, illegal name"),
    (Exit::NoInput, "input file missing"),
    (Exit::Unavailable, "server unreachable or connection lost"),
    (Exit::Internal, "internal error: a bug in this tool"),
    (
        Exit::Io,
        "local I/O error, also if the output of a command that makes changes could not be written",
    ),
    (
        Exit::TryAgain,
        "temporary failure: the server refuses for now, or this machine is out of file descriptors, processes or memory",
    ),
    (Exit::Protocol, "protocol violation by the server"),
    (Exit::Permission, "TLS or permission"),
    (Exit::Timeout, "--timeout or --wait expired, as with timeout(1)"),
    (Exit::HungUp, "SIGHUP, after an orderly shutdown"),
    (Exit::Interrupted, "SIGINT, after an orderly shutdown"),
    (Exit::Terminated, "SIGTERM, after an orderly shutdown"),
];

impl Exit {
    /// The process's exit code.
    pub const fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Negative => 1,
            Self::Usage => 2,
            Self::Partial => 3,
            Self::Unknown => 4,
            Self::BadData => 65,
            Self::NoInput => 66,
            Self::Unavailable => 69,
            Self::Internal => 70,
            Self::Io => 74,
            Self::TryAgain => 75,
            Self::Protocol => 76,
            Self::Permission => 77,
            Self::Timeout => 124,
            Self::HungUp => 129,
            Self::Interrupted => 130,
            Self::Terminated => 143,
            Self::Own(code) => code,
        }
    }

    /// The worse one of two.
    #[must_use]
    pub(crate) fn worse(self, other: Self) -> Self {
        if other.severity() > self.severity() { other } else { self }
    }

    /// Its rank: what may have happened counts more than what certainly has not, and less than a signal.
    pub(crate) const fn severity(self) -> u8 {
        match self {
            Self::Unknown => Self::Timeout.code() + 1,
            other => other.code(),
        }
    }

    /// Whether this is [`Exit::Done`].
    pub const fn is_done(self) -> bool {
        self.code() == 0
    }
}

impl From<Exit> for std::process::ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

/// Why a command failed: exit code, stable name, cause, next steps.
///
/// The message may contain names, bodies and server text verbatim; escape it before printing.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct CliError {
    /// The exit code.
    pub exit: Exit,
    /// A stable upper-case name for scripts, such as `NOT_FOUND`.
    pub code: &'static str,
    /// The failure and its cause.
    pub message: String,
    /// Suggested next steps.
    pub hints: Vec<String>,
    /// Whether the server may have carried out the request that failed, if there was one that changes something.
    pub fate: Option<Fate>,
    /// The work of a bulk command so far; `counts` in the error object.
    pub counts: Vec<(&'static str, u64)>,
}

impl CliError {
    /// Creates an error with its exit code, name and message.
    pub fn new(exit: Exit, code: &'static str, message: impl Into<String>) -> Self {
        let message = message.into();
        // It may contain text of any length from a server or a handler.
        let message = match escape::shorten(&message) {
            Cow::Borrowed(_) => message,
            Cow::Owned(short) => short,
        };
        Self { exit, code, message, hints: Vec::new(), fate: None, counts: Vec::new() }
    }

    /// An invalid command line: exit 2.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, "USAGE", message)
    }

    /// An invalid name, body or record: exit 65.
    pub fn bad_data(message: impl Into<String>) -> Self {
        Self::new(Exit::BadData, "INVALID_INPUT", message)
    }

    /// Something that does not exist: exit 1.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(Exit::Negative, "NOT_FOUND", message)
    }

    /// The server cannot be reached: exit 69.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(Exit::Unavailable, "UNAVAILABLE", message)
    }

    /// A time limit expired: exit 124.
    pub fn timeout(message: impl Into<String>) -> Self {
        Self::new(Exit::Timeout, "TIMEOUT", message)
    }

    /// An invalid setting, such as an address or a duration, from any source: exit 2.
    pub fn setting(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, "INVALID_SETTING", message)
    }

    /// A wrong or missing configuration file or context: exit 2.
    pub fn config(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, "CONFIG", message)
    }

    /// A defect of the tool: exit 70.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(Exit::Internal, "INTERNAL", message)
    }

    /// A signal ended the command after orderly clean-up: exit 130 or 143.
    #[must_use]
    pub fn interrupted(exit: Exit) -> Self {
        Self::new(exit, "INTERRUPTED", "interrupted")
    }

    /// Failure to read `what` (a file's name, "stdin"): exit 66 if it does not exist, else 74.
    #[must_use]
    pub fn reading(what: &str, error: &io::Error) -> Self {
        let no_input = |message| Self::new(Exit::NoInput, "NO_INPUT", message);
        match error.kind() {
            io::ErrorKind::NotFound => no_input(format!("{what} does not exist")),
            io::ErrorKind::PermissionDenied => {
                no_input(format!("no permission to read {what}: {error}"))
            }
            _ => Self::new(Exit::Io, "IO", format!("cannot read {what}: {error}")),
        }
    }

    /// Failure to write `what` (a file's name, "stdout"): exit 74.
    #[must_use]
    pub fn writing(what: &str, error: &io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self::new(Exit::Io, BROKEN_PIPE, format!("{what} was closed by its reader"));
        }
        Self::new(Exit::Io, "IO", format!("cannot write {what}: {error}"))
    }

    /// The system temporarily has no free descriptor, process, thread or memory: exit 75.
    #[must_use]
    pub fn shortage(message: impl Into<String>) -> Self {
        Self::new(Exit::TryAgain, SHORTAGE, message)
            .hint("a higher limit: ulimit -n for descriptors, -u for processes and threads")
    }

    /// The system denies it, such as opening another user's socket: exit 77.
    #[must_use]
    pub fn denied(message: impl Into<String>) -> Self {
        Self::new(Exit::Permission, "PERMISSION", message).hint(
            "running as the server's user, or permissions on its socket that let this user write",
        )
    }

    /// Whether a time limit has expired, that of connecting included.
    pub fn is_late(&self) -> bool {
        self.exit == Exit::Timeout || ["TIMEOUT", "CONNECT_TIMEOUT"].contains(&self.code)
    }

    /// Whether a resource was short, so that retrying may help.
    pub fn is_shortage(&self) -> bool {
        self.code == SHORTAGE
    }

    /// Whether all further requests would fail.
    pub fn ends_everything(&self) -> bool {
        matches!(
            self.exit,
            Exit::Unknown
                | Exit::Unavailable
                | Exit::Timeout
                | Exit::Protocol
                | Exit::Permission
                | Exit::Io
                | Exit::Internal
        )
    }

    /// Whether stdout's reader has gone, which quietly ends a read-only command.
    pub fn is_broken_pipe(&self) -> bool {
        self.code == BROKEN_PIPE
    }

    /// Adds a next step.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// Puts a value in advice where that has the word for it, such as `TUBE`.
    #[must_use]
    pub fn about(mut self, word: &str, value: impl fmt::Display) -> Self {
        for hint in &mut self.hints {
            *hint = hint.replace(&format!(" {word}"), &format!(" {value}"));
        }
        self
    }

    /// Appends to the message.
    #[must_use]
    pub fn remark(mut self, remark: impl fmt::Display) -> Self {
        self.message = format!("{} {remark}", self.message);
        self
    }

    /// The message with the server's address, unless it already names it.
    pub fn at(&self, address: &str) -> String {
        let text = self.to_string();
        if text.contains(address) { text } else { format!("{address}: {text}") }
    }

    /// Whether the name of a protected context would let it be done.
    pub(crate) fn wants_name(&self) -> bool {
        self.hints.iter().any(|hint| hint.contains("--confirm="))
    }

    /// Prefixes where it happened: `context: message`.
    #[must_use]
    pub fn context(mut self, context: impl fmt::Display) -> Self {
        self.message = format!("{context}: {}", self.message);
        self
    }

    /// The error object for the end of stderr under `-o json` and `-o ndjson`: one line, without the line end.
    pub fn to_json(&self) -> String {
        serde_json::json!({ "error": self.to_object() }).to_string()
    }

    /// Its fields: `code`, `message` and `exit`; `fate` of a request that changes something; `hints` and `counts` if not
    /// empty.
    pub(crate) fn to_object(&self) -> Map<String, Value> {
        let mut fields = Map::from_iter([
            ("code".to_owned(), self.code.into()),
            ("message".to_owned(), self.message.as_str().into()),
            ("exit".to_owned(), self.exit.code().into()),
        ]);
        if let Some(fate) = self.fate {
            fields.insert("fate".to_owned(), fate.to_string().replace(' ', "_").into());
        }
        if !self.hints.is_empty() {
            fields.insert("hints".to_owned(), self.hints.clone().into());
        }
        if !self.counts.is_empty() {
            let counts = self.counts.iter().map(|(name, count)| (*name, *count));
            fields.insert("counts".to_owned(), counts.collect());
        }
        fields
    }
}

const BROKEN_PIPE: &str = "BROKEN_PIPE";
const SHORTAGE: &str = "SHORTAGE";

impl fmt::Display for CliError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for CliError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_is_ascending_and_complete() {
        let codes: Vec<u8> = EXIT_CODES.iter().map(|(exit, _)| exit.code()).collect();
        assert!(codes.is_sorted_by(|a, b| a < b), "{codes:?}");
        assert_eq!(codes, [0, 1, 2, 3, 4, 65, 66, 69, 70, 74, 75, 76, 77, 124, 129, 130, 143]);
    }

    #[test]
    fn error_object_has_code_message_exit_and_hints() {
        let error = CliError::not_found("job 42 does not exist").hint("try: job 42");
        let value: serde_json::Value = serde_json::from_str(&error.to_json()).unwrap();
        assert_eq!(
            value,
            serde_json::json!({"error": {
                "code": "NOT_FOUND", "message": "job 42 does not exist", "exit": 1,
                "hints": ["try: job 42"]
            }})
        );
    }

    #[test]
    fn long_messages_are_shortened() {
        let error = CliError::new(Exit::Negative, "SERVER_ERROR", "x".repeat(5 << 20));
        assert!(error.message.len() < 4200 && error.message.contains("of 5242880 bytes"));
        assert!(error.to_json().len() < 4400);
    }
}
