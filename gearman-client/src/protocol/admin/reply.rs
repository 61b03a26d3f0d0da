//! Decoding replies of the administration text protocol.

use bytes::{Bytes, BytesMut};

use crate::{Error, ErrorKind, Fate, error::excerpt, text::decimal};

/// How a text reply ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReplyShape {
    /// With its first line.
    Line,
    /// With a line that consists of a single dot.
    List,
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
        /// Whether a line in the middle was a single dot, which means that some name forges the end of the list.
        is_forged: bool,
    },
}

impl AdminReply {
    /// The reply to a command that only succeeds: `OK`, or rustygeard's `BYE` to `shutdown`.
    ///
    /// # Errors
    ///
    /// `Protocol` for anything else.
    pub fn ok(self) -> Result<(), Error> {
        match self.value()?.as_str() {
            "" | "BYE" => Ok(()),
            other => Err(no_answer(other.as_bytes())),
        }
    }

    /// The value after `OK`, or the whole line from servers that send only the value, such as the Perl server.
    ///
    /// # Errors
    ///
    /// `Protocol` when the reply is a list, or a refusal from another kind of server.
    pub fn value(self) -> Result<String, Error> {
        match self {
            AdminReply::Line(line) if is_foreign(&line) => Err(no_answer(&line)),
            AdminReply::Line(line) => {
                let text = String::from_utf8_lossy(&line);
                let value = text.strip_prefix("OK").unwrap_or(&text).trim();
                Ok(value.to_owned())
            }
            AdminReply::List { .. } => {
                Err(Error::protocol("the server replied with a list instead of a line"))
            }
        }
    }

    /// The number after `OK`.
    ///
    /// # Errors
    ///
    /// `Protocol` when there is none.
    pub fn number(self) -> Result<u64, Error> {
        let value = self.value()?;
        decimal(value.as_bytes()).ok_or_else(|| no_answer(value.as_bytes()))
    }
}

fn no_answer(reply: &[u8]) -> Error {
    Error::protocol(format!(
        "the server answered {}, which is not a reply to this command (is this a Gearman server?)",
        excerpt(reply)
    ))
}

/// Whether another kind of server refused the command: beanstalkd, Redis, a web server.
fn is_foreign(line: &[u8]) -> bool {
    let is_code = |byte: &u8| byte.is_ascii_uppercase() || *byte == b'_';
    (line.contains(&b'_') && line.iter().all(is_code))
        || line.starts_with(b"-ERR")
        || line.starts_with(b"HTTP/")
}

/// Whether a first line can start a list. A row ends with a bare line feed and has columns; only ids stand alone.
fn can_begin_list(line: &[u8], with_cr: bool) -> bool {
    !with_cr || line == b"." || line.contains(&b'\t') || line.windows(2).any(|two| two == b" :")
}

/// Finds the reply to one command in the received bytes.
#[derive(Debug)]
pub struct TextDecoder {
    buffer: BytesMut,
    /// The start and end of each line, without its line end.
    lines: Vec<(usize, usize)>,
    line_start: usize,
    scanned: usize,
    is_forged: bool,
    max: usize,
}

impl TextDecoder {
    /// Accepts replies of at most `max` bytes.
    #[must_use]
    pub fn new(max: usize) -> Self {
        TextDecoder {
            buffer: BytesMut::new(),
            lines: Vec::new(),
            line_start: 0,
            scanned: 0,
            is_forged: false,
            max,
        }
    }

    /// Adds received bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Whether all received bytes belong to a reply that was returned.
    #[must_use]
    pub fn is_at_boundary(&self) -> bool {
        self.buffer.is_empty()
    }

    /// The whole reply, or `None` if more bytes are needed.
    ///
    /// # Errors
    ///
    /// Any refusal by the server, `PacketTooLarge` over the limit, and `Protocol` for anything that no Gearman server
    /// sends.
    pub fn reply(&mut self, shape: ReplyShape) -> Result<Option<AdminReply>, Error> {
        while let Some((start, end)) = self.next_line() {
            let text = self.buffer.get(start..end).unwrap_or_default();
            let is_first = self.lines.is_empty();
            let with_cr = self.buffer.get(end) == Some(&b'\r');
            if is_first && is_refusal(text) {
                let error = refusal(text);
                self.finish();
                return Err(error);
            }
            if is_first && shape == ReplyShape::List && !can_begin_list(text, with_cr) {
                return Err(no_answer(text));
            }
            if shape == ReplyShape::Line {
                let line = Bytes::copy_from_slice(text);
                self.finish();
                return Ok(Some(AdminReply::Line(line)));
            }
            if text == b"." {
                if self.line_start == self.buffer.len() {
                    return Ok(Some(self.take_list()));
                }
                // Nothing may follow the end of a reply, so this is not the end.
                self.is_forged = true;
            }
            self.lines.push((start, end));
        }
        if self.buffer.len() > self.max {
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

    /// The position of the next whole line.
    fn next_line(&mut self) -> Option<(usize, usize)> {
        let fresh = self.buffer.get(self.scanned..).unwrap_or_default();
        let Some(at) = fresh.iter().position(|byte| *byte == b'\n') else {
            self.scanned = self.buffer.len();
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
        self.lines.clear();
        (self.line_start, self.scanned, self.is_forged) = (0, 0, false);
        taken
    }
}

/// Whether a first line is a refusal: `ERR`, or `Error:` from g2. No row starts like that unless an id forges it. Such
/// a list counts as refused, and the rest of it as a connection out of step.
fn is_refusal(text: &[u8]) -> bool {
    let begins = text == b"ERR" || text.starts_with(b"ERR ") || text.starts_with(b"Error: ");
    begins && !text.contains(&b'\t')
}

/// The error in a line for which [`is_refusal`] is true.
fn refusal(text: &[u8]) -> Error {
    let text = String::from_utf8_lossy(text);
    if let Some(words) = text.strip_prefix("Error: ") {
        let kind = match words.ends_with("unimplemented") || words.starts_with("Invalid command") {
            true => ErrorKind::Unsupported,
            false => ErrorKind::Server,
        };
        let said = excerpt(words.trim().as_bytes());
        return Error::refused(kind, "", format!("the server refused: {said}"));
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(text: &[u8], shape: ReplyShape, piece: usize) -> Result<Option<AdminReply>, Error> {
        let mut decoder = TextDecoder::new(1 << 20);
        for chunk in text.chunks(piece) {
            decoder.push(chunk);
            if let Some(reply) = decoder.reply(shape)? {
                assert!(decoder.is_at_boundary());
                return Ok(Some(reply));
            }
        }
        Ok(None)
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
    fn a_list_says_only_of_itself_whether_it_is_forged() {
        let mut decoder = TextDecoder::new(1 << 20);
        for (text, forged) in [
            ("a\n.\nb\n.\n", true),
            ("a\n.\n", false),
            ("long row\n.\n", false),
            // The row of a job without an id.
            ("\n.\n", false),
        ] {
            decoder.push(text.as_bytes());
            let found = decoder.reply(ReplyShape::List).unwrap().expect("it is whole");
            let AdminReply::List { is_forged, .. } = found else { panic!("it is a list") };
            assert_eq!(is_forged, forged, "{text:?}");
        }
    }

    #[test]
    fn refusals_are_decoded() {
        for (text, kind, code, message) in [
            (
                "ERR UNKNOWN_COMMAND Unknown+server+commandfoo\r\n",
                ErrorKind::Unsupported,
                "UNKNOWN_COMMAND",
                "UNKNOWN_COMMAND Unknown server commandfoo",
            ),
            ("ERR UNKNOWN_JOB\r\n", ErrorKind::JobNotFound, "UNKNOWN_JOB", "UNKNOWN_JOB"),
            ("ERR function not found\r\n", ErrorKind::FunctionNotFound, "", "function not found"),
            (
                "ERR there are still connected workers or executing clients\r\n",
                ErrorKind::FunctionInUse,
                "",
                "there are still connected workers or executing clients",
            ),
            (
                "ERR unknown_command \r\n",
                ErrorKind::Unsupported,
                "unknown_command",
                "unknown_command",
            ),
            (
                "ERR UNKNOWN_COMMAND Unknown+server+command\n",
                ErrorKind::Unsupported,
                "UNKNOWN_COMMAND",
                "UNKNOWN_COMMAND Unknown server command",
            ),
            (
                "Error: command `show` is currently unimplemented\n",
                ErrorKind::Unsupported,
                "",
                "command `show` is currently unimplemented",
            ),
            ("Error: no such job\n", ErrorKind::Server, "", "no such job"),
            (
                "Error: Invalid command: stats\n",
                ErrorKind::Unsupported,
                "",
                "Invalid command: stats",
            ),
            ("ERR Sorry about that\r\n", ErrorKind::Server, "", "Sorry about that"),
            ("ERR not-a_code but+words\r\n", ErrorKind::Server, "", "not-a_code but+words"),
        ] {
            for shape in [ReplyShape::Line, ReplyShape::List] {
                let error = reply(text.as_bytes(), shape, 7).unwrap_err();
                assert_eq!((error.kind(), error.code()), (kind, Some(code)), "{text}");
                assert_eq!(error.to_string(), format!("the server refused: {message:?}"));
                assert_eq!(error.fate(), Fate::Refused);
            }
        }
    }

    #[test]
    fn a_line_is_an_assent_a_value_or_a_number() {
        let line = |text: &str| {
            reply(text.as_bytes(), ReplyShape::Line, 100).unwrap().expect("it is whole")
        };
        for assent in ["OK\r\n", "OK \r\n", "OK\n", "BYE\n", "\n"] {
            line(assent).ok().unwrap();
        }
        assert_eq!(line("OK 1\r\n").ok().unwrap_err().kind(), ErrorKind::Protocol);
        for value in ["OK 1.1.20\r\n", "1.1.20\n", "OK my_build\r\n"] {
            let expected = value.trim_start_matches("OK").trim();
            assert_eq!(line(value).value().unwrap(), expected);
        }
        assert_eq!(line("OK 4711\r\n").number().unwrap(), 4711);
        for no_number in ["OK\r\n", "OK -1\r\n", "OK 0x1\r\n"] {
            assert_eq!(line(no_number).number().unwrap_err().kind(), ErrorKind::Protocol);
        }
        let list = || reply(b".\n", ReplyShape::List, 100).unwrap().unwrap();
        assert_eq!(list().ok().unwrap_err().kind(), ErrorKind::Protocol);
        assert_eq!(list().number().unwrap_err().kind(), ErrorKind::Protocol);
    }

    #[test]
    fn a_row_that_begins_like_a_refusal_is_a_row() {
        for row in ["ERR a\t1\t0\t0", "Error: b\t1\t0\t0"] {
            let text = format!("{row}\n.\n");
            let found = reply(text.as_bytes(), ReplyShape::List, 100).unwrap().unwrap();
            let lines = vec![row.to_owned().into()];
            assert_eq!(found, AdminReply::List { lines, is_forged: false });
        }
    }

    #[test]
    fn replies_of_other_servers_fail_at_once() {
        for text in
            ["UNKNOWN_COMMAND\r\n", "HTTP/1.1 400 Bad Request\r\n", "-ERR unknown command\r\n"]
        {
            let in_list = reply(text.as_bytes(), ReplyShape::List, 7).unwrap_err();
            let line = reply(text.as_bytes(), ReplyShape::Line, 7).unwrap().unwrap();
            for error in [in_list, line.clone().value().unwrap_err(), line.ok().unwrap_err()] {
                assert_eq!((error.kind(), error.fate()), (ErrorKind::Protocol, Fate::Unknown));
                assert!(error.to_string().contains(text.trim()), "{error}");
                assert!(error.to_string().contains("is this a Gearman server?"), "{error}");
            }
        }
        // Rows of servers that end them with CRLF or LF at random.
        for list in [
            &b"f\t1\t0\t0\r\n7 ::1 - : f\r\n.\r\n"[..],
            b"7 ::1 - : f\r\n.\r\n",
            b".\r\n",
            b"an-id-alone\n.\r\n",
        ] {
            assert!(reply(list, ReplyShape::List, 100).unwrap().is_some());
        }
        let version = reply(b"v1.130.1\n", ReplyShape::Line, 100).unwrap().unwrap();
        assert_eq!(version.value().unwrap(), "v1.130.1");
    }

    #[test]
    fn an_endless_reply_is_an_error() {
        let mut decoder = TextDecoder::new(1000);
        decoder.push(&[b'x'; 1000]);
        assert_eq!(decoder.reply(ReplyShape::Line).unwrap(), None, "its end may come");
        decoder.push(b"x");
        let error = decoder.reply(ReplyShape::Line).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::PacketTooLarge);
    }
}
