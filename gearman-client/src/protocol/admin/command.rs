//! The commands of the administration text protocol.

use std::{fmt, str::FromStr};

use bytes::{BufMut, Bytes, BytesMut};

use super::ReplyShape;
use crate::{Error, FunctionName, JobHandle, error::excerpt, text::decimal};

/// A command of the text protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AdminCommand {
    /// All connections, with their functions.
    Workers,
    /// All functions with their counts.
    Status,
    /// All functions with their queued jobs by priority.
    PriorityStatus,
    /// All jobs.
    ShowJobs,
    /// The unique ids of all jobs.
    ShowUniqueJobs,
    /// Removes a queued job.
    CancelJob(JobHandle),
    /// Creates a function that no worker or job has named yet.
    CreateFunction(FunctionName),
    /// Removes a function.
    DropFunction(FunctionName),
    /// Limits a function's queue.
    MaxQueue(FunctionName, MaxQueue),
    /// The server's process id.
    GetPid,
    /// The server's log level.
    Verbose,
    /// The server's version.
    Version,
    /// Shuts the server down.
    Shutdown {
        /// Whether it may finish its jobs first.
        graceful: bool,
    },
    /// Any line.
    Raw(RawLine),
}

/// A line for [`AdminCommand::Raw`], and how its reply ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawLine {
    line: Bytes,
    shape: ReplyShape,
}

/// Maximum number of jobs in a function's queue, including running ones; 0 means no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MaxQueue {
    /// The same for each priority.
    All(u32),
    /// For each priority.
    ByPriority {
        /// High priority.
        high: u32,
        /// Normal priority.
        normal: u32,
        /// Low priority.
        low: u32,
    },
}

impl AdminCommand {
    /// An arbitrary line, for commands that this crate does not know.
    ///
    /// # Errors
    ///
    /// `InvalidInput` when it is empty, starts with a NUL, or contains a line end.
    pub fn raw(line: impl AsRef<[u8]>) -> Result<Self, Error> {
        let line = line.as_ref();
        let why = if line.is_empty() {
            "it is empty"
        } else if line.contains(&b'\n') || line.contains(&b'\r') {
            "it holds a line end"
        } else if line.contains(&0) {
            "it holds a NUL, which starts a packet"
        } else if line.len() > MAX_COMMAND {
            "it is longer than the server's receive buffer"
        } else {
            let shape = shape_of(line);
            return Ok(AdminCommand::Raw(RawLine { line: Bytes::copy_from_slice(line), shape }));
        };
        Err(Error::invalid(format!("admin command {} is not valid: {why}", excerpt(line))))
    }

    /// The words of the command, for errors.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            AdminCommand::Workers => "workers",
            AdminCommand::Status => "status",
            AdminCommand::PriorityStatus => "prioritystatus",
            AdminCommand::ShowJobs => "show jobs",
            AdminCommand::ShowUniqueJobs => "show unique jobs",
            AdminCommand::CancelJob(_) => "cancel job",
            AdminCommand::CreateFunction(_) => "create function",
            AdminCommand::DropFunction(_) => "drop function",
            AdminCommand::MaxQueue(..) => "maxqueue",
            AdminCommand::GetPid => "getpid",
            AdminCommand::Verbose => "verbose",
            AdminCommand::Version => "version",
            AdminCommand::Shutdown { .. } => "shutdown",
            AdminCommand::Raw(_) => "admin command",
        }
    }

    /// How the reply ends.
    #[must_use]
    pub fn shape(&self) -> ReplyShape {
        match self {
            AdminCommand::Workers
            | AdminCommand::Status
            | AdminCommand::PriorityStatus
            | AdminCommand::ShowJobs
            | AdminCommand::ShowUniqueJobs => ReplyShape::List,
            AdminCommand::Raw(raw) => raw.shape,
            _ => ReplyShape::Line,
        }
    }

    /// Writes the line, always with CRLF: after a bare line feed `create function` loses the last byte of the name.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a function name or a handle that cannot be part of a line. Nothing is written then.
    pub fn encode(&self, out: &mut BytesMut) -> Result<(), Error> {
        let name = self.name().as_bytes();
        match self {
            AdminCommand::CancelJob(handle) => {
                line(out, &[name, self.word("job handle", handle.name())?]);
            }
            AdminCommand::CreateFunction(function) | AdminCommand::DropFunction(function) => {
                line(out, &[name, self.word("function name", function.as_bytes())?]);
            }
            AdminCommand::MaxQueue(function, sizes) => {
                let sizes = match sizes {
                    MaxQueue::All(size) => size.to_string(),
                    MaxQueue::ByPriority { high, normal, low } => format!("{high} {normal} {low}"),
                };
                let function = self.word("function name", function.as_bytes())?;
                line(out, &[name, function, sizes.as_bytes()]);
            }
            AdminCommand::Shutdown { graceful: true } => line(out, &[name, b"graceful"]),
            AdminCommand::Raw(raw) => line(out, &[&raw.line]),
            _ => line(out, &[name]),
        }
        Ok(())
    }

    /// Admin commands are words separated by spaces.
    fn word<'a>(&self, what: &str, word: &'a [u8]) -> Result<&'a [u8], Error> {
        if !word.is_empty() && word.iter().all(u8::is_ascii_graphic) {
            return Ok(word);
        }
        let why = "it is not visible ASCII without spaces";
        let word = excerpt(word);
        let message = format!("{what} {word} cannot be part of an admin command: {why}");
        Err(Error::invalid(message).with_command(self.name()))
    }
}

/// gearmand's receive buffer, which has to hold a whole line.
const MAX_COMMAND: usize = 8000;

/// Recognizes gearmand's commands by their first words, in any case.
fn shape_of(raw: &[u8]) -> ReplyShape {
    let mut words = raw.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
    let (first, second) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let is = |word: &[u8], name: &str| word.eq_ignore_ascii_case(name.as_bytes());
    // `show` with any other word is answered with an error, which ends either shape.
    let lists = ["workers", "status", "prioritystatus", "jobs", "clients"];
    if lists.iter().any(|name| is(first, name)) || (is(first, "show") && !second.is_empty()) {
        ReplyShape::List
    } else {
        ReplyShape::Line
    }
}

fn line(out: &mut BytesMut, words: &[&[u8]]) {
    for (at, word) in words.iter().enumerate() {
        if at > 0 {
            out.put_u8(b' ');
        }
        out.put_slice(word);
    }
    out.put_slice(b"\r\n");
}

impl fmt::Display for MaxQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MaxQueue::All(size) => size.fmt(f),
            MaxQueue::ByPriority { high, normal, low } => {
                write!(f, "high {high}, normal {normal}, low {low}")
            }
        }
    }
}

impl FromStr for MaxQueue {
    type Err = Error;

    /// Parses a number, or one for each priority.
    fn from_str(text: &str) -> Result<Self, Error> {
        let number = |text: &str| u32::try_from(decimal(text.as_bytes())?).ok();
        let size = |part: Option<&str>, name: &str| {
            number(part?.trim().strip_prefix(name)?.strip_prefix(' ')?.trim_start())
        };
        if let Some(all) = number(text) {
            return Ok(MaxQueue::All(all));
        }
        let mut parts = text.split(',');
        let sizes = ["high", "normal", "low"].map(|name| size(parts.next(), name));
        match (sizes, parts.next()) {
            ([Some(high), Some(normal), Some(low)], None) => {
                Ok(MaxQueue::ByPriority { high, normal, low })
            }
            _ => Err(Error::invalid(format!(
                "queue size {} is not valid: it must be a number, or of the form high 3, normal 2, low 1",
                excerpt(text.as_bytes())
            ))),
        }
    }
}

#[cfg(feature = "serde")]
queue_core::serde_as_text!(MaxQueue);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    fn encode(command: &AdminCommand) -> Result<String, Error> {
        let mut out = BytesMut::new();
        command.encode(&mut out)?;
        Ok(String::from_utf8(out.to_vec()).unwrap())
    }

    #[test]
    fn every_command_ends_with_crlf() {
        let function = || FunctionName::try_from("rev").unwrap();
        for (command, line) in [
            (AdminCommand::Workers, "workers"),
            (AdminCommand::CancelJob("h:1//H:x:1".parse().unwrap()), "cancel job H:x:1"),
            (AdminCommand::CreateFunction(function()), "create function rev"),
            (AdminCommand::DropFunction(function()), "drop function rev"),
            (AdminCommand::MaxQueue(function(), MaxQueue::All(5)), "maxqueue rev 5"),
            (
                AdminCommand::MaxQueue(
                    function(),
                    MaxQueue::ByPriority { high: 1, normal: 2, low: 3 },
                ),
                "maxqueue rev 1 2 3",
            ),
            (AdminCommand::Shutdown { graceful: true }, "shutdown graceful"),
            (AdminCommand::Shutdown { graceful: false }, "shutdown"),
            (AdminCommand::raw("getpid").unwrap(), "getpid"),
        ] {
            assert_eq!(encode(&command).unwrap(), format!("{line}\r\n"));
        }
    }

    #[test]
    fn a_name_cannot_forge_a_second_command() {
        let hostile = FunctionName::try_from("a\r\nshutdown").unwrap();
        let error = encode(&AdminCommand::CreateFunction(hostile)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        for line in ["status\r\nshutdown", "status\nshutdown", "status\rshutdown", "\0REQ", ""] {
            assert!(AdminCommand::raw(line).is_err(), "{line:?}");
        }
    }

    #[test]
    fn a_raw_line_fits_the_servers_buffer() {
        assert!(AdminCommand::raw("x".repeat(MAX_COMMAND)).is_ok());
        let error = AdminCommand::raw("x".repeat(MAX_COMMAND + 1)).unwrap_err();
        assert!(error.to_string().contains("longer than the server's receive buffer"), "{error}");
    }

    #[test]
    fn commands_know_how_their_reply_ends_as_their_lines_do() {
        for command in [
            AdminCommand::Workers,
            AdminCommand::Status,
            AdminCommand::PriorityStatus,
            AdminCommand::ShowJobs,
            AdminCommand::ShowUniqueJobs,
            AdminCommand::CancelJob("H:x:1".parse().unwrap()),
            AdminCommand::GetPid,
            AdminCommand::Verbose,
            AdminCommand::Version,
            AdminCommand::Shutdown { graceful: true },
        ] {
            let line = encode(&command).unwrap();
            assert_eq!(command.shape(), shape_of(line.trim_end().as_bytes()), "{line}");
        }
    }

    #[test]
    fn raw_lines_know_how_their_reply_ends() {
        for (line, shape) in [
            ("STATUS", ReplyShape::List),
            ("show jobs", ReplyShape::List),
            ("show", ReplyShape::Line),
            ("version", ReplyShape::Line),
            ("nonsense", ReplyShape::Line),
        ] {
            assert_eq!(AdminCommand::raw(line).unwrap().shape(), shape, "{line}");
        }
    }
}
