//! The text protocol for administrators: commands, and their replies out of the bytes that were read.

use std::fmt;

use bytes::{BufMut, Bytes, BytesMut};

use crate::{Error, ErrorKind, Fate, FunctionName, JobHandle, error::excerpt, text::decimal};

/// A command of the text protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AdminCommand {
    /// Every connection, with what it can do.
    Workers,
    /// Every function, with its counts.
    Status,
    /// Every function, with what is queued by priority.
    PriorityStatus,
    /// Every job.
    ShowJobs,
    /// Every job's unique id.
    ShowUniqueJobs,
    /// Takes a queued job away.
    CancelJob(JobHandle),
    /// Makes a function known that no worker and no job has named.
    CreateFunction(FunctionName),
    /// Forgets a function.
    DropFunction(FunctionName),
    /// Limits a function's queue.
    MaxQueue(FunctionName, MaxQueue),
    /// The server's process id.
    GetPid,
    /// The server's log level.
    Verbose,
    /// The server's version.
    Version,
    /// Ends the server.
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

/// How a text reply ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReplyShape {
    /// With its first line.
    Line,
    /// With a line that is a single dot.
    List,
}

/// How many jobs a function's queue may hold, running ones included. 0 is no limit.
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

/// A reply of the text protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdminReply {
    /// One line, without its end.
    Line(Bytes),
    /// The lines of a list, without their ends and without the closing dot.
    List {
        /// The lines.
        lines: Vec<Bytes>,
        /// Whether a line in the middle was a single dot: some name forges the list's end.
        is_forged: bool,
    },
}

impl AdminReply {
    /// The reply to a command that only succeeds: `OK`.
    ///
    /// # Errors
    ///
    /// `Protocol` for anything else.
    pub fn ok(self) -> Result<(), Error> {
        match self.value()?.as_str() {
            "" => Ok(()),
            other => Err(unexpected(other.as_bytes())),
        }
    }

    /// The value behind `OK`, or the whole line where a server writes the value alone, as the Perl server does.
    ///
    /// # Errors
    ///
    /// `Protocol` when the reply is a list.
    pub fn value(self) -> Result<String, Error> {
        match self {
            AdminReply::Line(line) => {
                let text = String::from_utf8_lossy(&line);
                let value = text.strip_prefix("OK").unwrap_or(&text).trim();
                Ok(value.to_owned())
            }
            AdminReply::List { .. } => Err(unexpected(b"(a list)")),
        }
    }

    /// The number behind `OK`.
    ///
    /// # Errors
    ///
    /// `Protocol` when it is none.
    pub fn number(self) -> Result<u64, Error> {
        let value = self.value()?;
        decimal(value.as_bytes()).ok_or_else(|| unexpected(value.as_bytes()))
    }
}

fn unexpected(reply: &[u8]) -> Error {
    Error::protocol("the server answered with something else than was asked")
        .with_source(excerpt(reply))
}

impl AdminCommand {
    /// Any line, for what this crate has no command for.
    ///
    /// # Errors
    ///
    /// `InvalidInput` when it is empty, starts with a NUL, or holds a line end.
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

    /// Writes the line, always with CRLF: with a bare line feed `create function` loses the name's last byte.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a function name or a handle that cannot stand in a line. Nothing is written then.
    pub fn encode(&self, out: &mut BytesMut) -> Result<(), Error> {
        let name = self.name().as_bytes();
        match self {
            AdminCommand::CancelJob(handle) => {
                one_word("job handle", handle.name()).map_err(|e| e.with_command(self.name()))?;
                line(out, &[name, handle.name()]);
            }
            AdminCommand::CreateFunction(function) | AdminCommand::DropFunction(function) => {
                line(out, &[name, self.word(function)?]);
            }
            AdminCommand::MaxQueue(function, sizes) => {
                let sizes = match sizes {
                    MaxQueue::All(size) => size.to_string(),
                    MaxQueue::ByPriority { high, normal, low } => format!("{high} {normal} {low}"),
                };
                line(out, &[name, self.word(function)?, sizes.as_bytes()]);
            }
            AdminCommand::Shutdown { graceful: true } => line(out, &[name, b"graceful"]),
            AdminCommand::Raw(raw) => line(out, &[&raw.line]),
            _ => line(out, &[name]),
        }
        Ok(())
    }

    fn word<'a>(&self, function: &'a FunctionName) -> Result<&'a [u8], Error> {
        one_word("function name", function.as_bytes()).map_err(|e| e.with_command(self.name()))?;
        Ok(function.as_bytes())
    }
}

/// gearmand's receive buffer, which a whole line has to fit.
const MAX_COMMAND: usize = 8000;

/// gearmand's commands by their first words, in any case.
fn shape_of(raw: &[u8]) -> ReplyShape {
    let mut words = raw.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
    let (first, second) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let is = |word: &[u8], name: &str| word.eq_ignore_ascii_case(name.as_bytes());
    // `show` with another word is answered with an error, which ends either shape.
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

/// Admin commands are words between spaces.
fn one_word(what: &str, word: &[u8]) -> Result<(), Error> {
    if !word.is_empty() && word.iter().all(u8::is_ascii_graphic) {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "{what} {} cannot stand in an admin command: it is not visible ASCII without spaces",
        excerpt(word)
    )))
}

/// Finds the reply to one command in the bytes that were read.
#[derive(Debug)]
pub struct TextDecoder {
    buffer: BytesMut,
    filled: usize,
    /// Where each line that was found starts and ends, without its line end.
    lines: Vec<(usize, usize)>,
    line_start: usize,
    scanned: usize,
    is_forged: bool,
    max: usize,
}

/// How far the receive buffer may grow ahead of the bytes that have come.
const READ_AHEAD: usize = 16 * 1024;

impl TextDecoder {
    /// Accepts replies of at most `max` bytes.
    #[must_use]
    pub fn new(max: usize) -> Self {
        TextDecoder {
            buffer: BytesMut::new(),
            filled: 0,
            lines: Vec::new(),
            line_start: 0,
            scanned: 0,
            is_forged: false,
            max,
        }
    }

    /// Room for the next read: never empty.
    pub fn space(&mut self) -> &mut [u8] {
        self.buffer.resize(self.filled + READ_AHEAD, 0);
        self.buffer.get_mut(self.filled..).unwrap_or_default()
    }

    /// Notes that the first `n` bytes of [`space`](Self::space) were read.
    pub fn received(&mut self, n: usize) {
        self.filled = (self.filled + n).min(self.buffer.len());
    }

    /// Whether nothing was read that belongs to no reply.
    #[must_use]
    pub fn is_at_boundary(&self) -> bool {
        self.filled == 0
    }

    /// The whole reply, or `None` if more bytes are needed.
    ///
    /// # Errors
    ///
    /// What the server refused, and `PacketTooLarge` over the limit.
    pub fn reply(&mut self, shape: ReplyShape) -> Result<Option<AdminReply>, Error> {
        while let Some((start, end)) = self.next_line() {
            let text = self.buffer.get(start..end).unwrap_or_default();
            let is_first = self.lines.is_empty();
            // Lines of lists end with LF alone, errors with CRLF.
            let with_cr = self.buffer.get(end) == Some(&b'\r');
            if is_first
                && (text.starts_with(b"ERR ") || text == b"ERR")
                && (with_cr || shape == ReplyShape::Line)
            {
                let error = refusal(text);
                self.finish();
                return Err(error);
            }
            if shape == ReplyShape::Line {
                let line = Bytes::copy_from_slice(text);
                self.finish();
                return Ok(Some(AdminReply::Line(line)));
            }
            if text == b"." {
                if self.line_start == self.filled {
                    return Ok(Some(self.take_list()));
                }
                // Nothing may follow the end of a reply, so this is not the end.
                self.is_forged = true;
            }
            self.lines.push((start, end));
        }
        if self.filled > self.max {
            return Err(Error::new(
                ErrorKind::PacketTooLarge,
                Fate::Unknown,
                format!(
                    "reply is larger than the limit of {} bytes (raise max_packet_size if this is expected)",
                    self.max
                ),
            ));
        }
        Ok(None)
    }

    /// Where the next whole line is.
    fn next_line(&mut self) -> Option<(usize, usize)> {
        let fresh = self.buffer.get(self.scanned..self.filled).unwrap_or_default();
        let Some(at) = fresh.iter().position(|byte| *byte == b'\n') else {
            self.scanned = self.filled;
            return None;
        };
        let start = self.line_start;
        let newline = self.scanned + at;
        self.scanned = newline + 1;
        self.line_start = self.scanned;
        let has_cr = newline > start && self.buffer.get(newline - 1) == Some(&b'\r');
        Some((start, if has_cr { newline - 1 } else { newline }))
    }

    fn take_list(&mut self) -> AdminReply {
        let ends = std::mem::take(&mut self.lines);
        let is_forged = self.is_forged;
        let text = self.finish();
        let lines = ends.into_iter().map(|(start, end)| text.slice(start..end)).collect();
        AdminReply::List { lines, is_forged }
    }

    /// Takes everything up to here off the buffer.
    fn finish(&mut self) -> Bytes {
        let taken = self.buffer.split_to(self.line_start.min(self.buffer.len())).freeze();
        self.filled = self.filled.saturating_sub(taken.len());
        self.lines.clear();
        self.line_start = 0;
        self.scanned = 0;
        self.is_forged = false;
        taken
    }
}

/// The error in a line that starts with `ERR`.
fn refusal(text: &[u8]) -> Error {
    let text = String::from_utf8_lossy(text);
    let text = text.strip_prefix("ERR").unwrap_or_default().trim();
    let (first, rest) = text.split_once(' ').unwrap_or((text, ""));
    let is_code = !first.is_empty()
        && first.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && (first.contains('_') || first.bytes().all(|byte| byte.is_ascii_uppercase()));
    let (code, words) =
        if is_code { (first, rest.replace('+', " ")) } else { ("", text.to_owned()) };
    let kind = match code.to_ascii_uppercase().as_str() {
        "UNKNOWN_JOB" => ErrorKind::JobNotFound,
        "UNKNOWN_COMMAND" | "UNKNOWN_SHOW_ARGUMENTS" => ErrorKind::Unsupported,
        "" if words == "function not found" => ErrorKind::FunctionNotFound,
        "" if words.starts_with("there are still connected workers") => ErrorKind::FunctionInUse,
        _ => ErrorKind::Server,
    };
    let said = [code, &words].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>();
    let said = excerpt(said.join(" ").as_bytes());
    Error::refused(kind, code, format!("the server refused: {said}"))
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

#[cfg(test)]
mod tests {
    use super::*;

    fn encode(command: &AdminCommand) -> Result<String, Error> {
        let mut out = BytesMut::new();
        command.encode(&mut out)?;
        Ok(String::from_utf8(out.to_vec()).unwrap())
    }

    fn reply(text: &[u8], shape: ReplyShape, piece: usize) -> Result<Option<AdminReply>, Error> {
        let mut decoder = TextDecoder::new(1 << 20);
        for chunk in text.chunks(piece) {
            decoder.space()[..chunk.len()].copy_from_slice(chunk);
            decoder.received(chunk.len());
            if let Some(reply) = decoder.reply(shape)? {
                assert!(decoder.is_at_boundary());
                return Ok(Some(reply));
            }
        }
        Ok(None)
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
        let hostile = FunctionName::lossless("a\r\nshutdown").unwrap();
        let error = encode(&AdminCommand::CreateFunction(hostile)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(AdminCommand::raw("status\r\nshutdown").is_err());
        assert!(AdminCommand::raw("\0REQ").is_err());
        assert!(AdminCommand::raw("").is_err());
    }

    #[test]
    fn lists_are_the_same_however_the_bytes_are_cut() {
        let text = b"rev\t1\t0\t0\n\nwith . dot\n.\n";
        let whole = reply(text, ReplyShape::List, text.len()).unwrap().unwrap();
        let AdminReply::List { lines, is_forged } = &whole else { panic!("it is a list") };
        assert_eq!(lines[..], [&b"rev\t1\t0\t0"[..], b"", b"with . dot"]);
        assert!(!is_forged);
        for piece in 1..text.len() {
            assert_eq!(reply(text, ReplyShape::List, piece).unwrap().as_ref(), Some(&whole));
        }
    }

    #[test]
    fn a_dot_in_the_middle_does_not_end_the_list() {
        let found = reply(b"a\n.\nb\n.\n", ReplyShape::List, 100).unwrap().unwrap();
        assert_eq!(
            found,
            AdminReply::List { lines: vec!["a".into(), ".".into(), "b".into()], is_forged: true }
        );
    }

    #[test]
    fn refusals_are_decoded() {
        for (text, kind, code, message) in [
            (
                "ERR UNKNOWN_COMMAND Unknown+server+commandfoo\r\n",
                ErrorKind::Unsupported,
                "UNKNOWN_COMMAND",
                "the server refused: \"UNKNOWN_COMMAND Unknown server commandfoo\"",
            ),
            (
                "ERR UNKNOWN_JOB\r\n",
                ErrorKind::JobNotFound,
                "UNKNOWN_JOB",
                "the server refused: \"UNKNOWN_JOB\"",
            ),
            (
                "ERR function not found\r\n",
                ErrorKind::FunctionNotFound,
                "",
                "the server refused: \"function not found\"",
            ),
            (
                "ERR there are still connected workers or executing clients\r\n",
                ErrorKind::FunctionInUse,
                "",
                "the server refused: \"there are still connected workers or executing clients\"",
            ),
            (
                "ERR unknown_command \r\n",
                ErrorKind::Unsupported,
                "unknown_command",
                "the server refused: \"unknown_command\"",
            ),
        ] {
            for shape in [ReplyShape::Line, ReplyShape::List] {
                let error = reply(text.as_bytes(), shape, 7).unwrap_err();
                assert_eq!((error.kind(), error.code()), (kind, Some(code)), "{text}");
                assert_eq!(error.to_string(), message);
                assert_eq!(error.fate(), Fate::Refused);
            }
        }
    }

    #[test]
    fn an_endless_reply_is_an_error() {
        let mut decoder = TextDecoder::new(1000);
        decoder.space()[..1001].fill(b'x');
        decoder.received(1001);
        let error = decoder.reply(ReplyShape::Line).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::PacketTooLarge);
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
