//! The incremental parser that finds replies in a stream of bytes.

use std::convert::Infallible;

use bytes::Bytes;
use queue_core::{Io, decimal};

use crate::{Epoch, Error, Job, JobId, JobRef, error::excerpt, protocol::Response};

/// Maximum length of an accepted reply line, in bytes. The server's own lines stay below 250.
const MAX_LINE: usize = 1024;

/// Maximum size of a text of the server, if the limit for bodies is smaller: statistics are always needed.
const TEXT: usize = 64 * 1024;

/// Finds replies in the received bytes, however they are split.
#[derive(Debug)]
pub(crate) struct Parser {
    /// How many bytes of the current line were already searched for its end.
    scanned: usize,
    state: ParserState,
    epoch: Epoch,
    max_body: usize,
}

#[derive(Debug, Clone, Copy)]
enum ParserState {
    Line,
    Body { head: ReplyHead, size: usize },
    Discard { job: JobRef, size: u64, left: u64 },
}

/// The reply line in front of a body.
#[derive(Debug, Clone, Copy)]
enum ReplyHead {
    /// `RESERVED` with a reservation, `FOUND` without.
    Job(JobRef),
    Ok,
}

/// Chunk size for reading a skipped body.
const SKIPPED: usize = 16 * 1024;

impl Parser {
    pub(crate) fn new(epoch: Epoch, max_body: usize) -> Self {
        Parser { scanned: 0, state: ParserState::Line, epoch, max_body }
    }

    /// Whether the stream is between two replies.
    pub(crate) fn is_at_boundary<F>(&self, io: &Io<F>) -> bool {
        io.data().is_empty() && matches!(self.state, ParserState::Line)
    }

    /// Maximum size of a reply, in bytes.
    pub(crate) fn largest_reply(&self) -> usize {
        self.max_text().saturating_add(2 * MAX_LINE)
    }

    /// Maximum size of a body or a text of the server, in bytes.
    fn max_text(&self) -> usize {
        self.max_body.max(TEXT)
    }

    /// The body length that a reply with this line announces.
    pub(super) fn body_after(&mut self, line: &[u8]) -> Result<Option<u64>, Error> {
        self.begin(Bytes::copy_from_slice(line))?;
        Ok(match self.state {
            ParserState::Line => None,
            ParserState::Body { size, .. } => Some(size as u64),
            ParserState::Discard { size, .. } => Some(size),
        })
    }

    /// The next whole reply, or `None` if more bytes are needed.
    pub(crate) fn next<F>(&mut self, io: &mut Io<F>) -> Result<Option<Response>, Error> {
        loop {
            match self.state {
                ParserState::Line => {
                    let Some(line) = self.take_line(io)? else { return Ok(None) };
                    if let Some(response) = self.begin(line)? {
                        return Ok(Some(response));
                    }
                }
                ParserState::Body { head, size } => return self.take_body(io, head, size),
                ParserState::Discard { job, size, left } => {
                    let n = left.min(io.data().len() as u64);
                    io.take(usize::try_from(n).unwrap_or(usize::MAX));
                    if n < left {
                        self.state = ParserState::Discard { job, size, left: left - n };
                        io.want(SKIPPED);
                        return Ok(None);
                    }
                    self.state = ParserState::Line;
                    return Ok(Some(Response::BodyTooLarge { job, size, limit: self.max_body }));
                }
            }
        }
    }

    /// Takes the next line off the buffer, without its CRLF.
    fn take_line<F>(&mut self, io: &mut Io<F>) -> Result<Option<Bytes>, Error> {
        let data = io.data();
        let fresh = data.get(self.scanned..).unwrap_or_default();
        let Some(at) = fresh.iter().position(|&byte| byte == b'\n') else {
            self.scanned = data.len();
            if data.len() > MAX_LINE {
                return Err(too_long());
            }
            return Ok(None);
        };
        let end = self.scanned + at;
        self.scanned = 0;
        if end > MAX_LINE {
            return Err(too_long());
        }
        let mut line = io.take(end + 1);
        line.truncate(end);
        if line.last() != Some(&b'\r') {
            return Err(Error::protocol("the reply line does not end with CRLF")
                .with_detail(excerpt(&line)));
        }
        line.truncate(end.saturating_sub(1));
        Ok(Some(line))
    }

    /// Parses a reply line: a whole reply, or the start of one with a body.
    fn begin(&mut self, line: Bytes) -> Result<Option<Response>, Error> {
        let mut words = line.split(|&byte| byte == b' ');
        let word = words.next().unwrap_or_default();
        let first = words.next();
        let second = words.next();
        let extra = words.next().is_some();
        if let Some(response) = bare(word) {
            // Known words that take no argument. With one, they belong to some extension.
            return Ok(Some(if first.is_none() { response } else { Response::Other(line) }));
        }
        let bad = || Error::protocol("the reply line is not valid").with_detail(excerpt(&line));
        let number = |word: Option<&[u8]>| word.and_then(decimal).ok_or_else(bad);
        let optional = |word: Option<&[u8]>| word.map(|word| number(Some(word))).transpose();
        let is_too_long = second.is_some()
            && matches!(word, b"BURIED" | b"KICKED" | b"WATCHING" | b"OK")
            || extra && matches!(word, b"RESERVED" | b"FOUND");
        if is_too_long {
            return Err(bad());
        }
        let response = match word {
            b"INSERTED" => Response::Inserted(number(first)?.into()),
            b"BURIED" => Response::Buried(optional(first)?.map(JobId::from)),
            b"KICKED" => Response::Kicked(optional(first)?),
            b"WATCHING" => Response::Watching(number(first)?),
            b"USING" if first.is_some() => Response::Using(line.slice("USING ".len()..)),
            b"RESERVED" | b"FOUND" => {
                let id = JobId::from(number(first)?);
                let reserved = word == b"RESERVED";
                let job = JobRef { id, reservation: reserved.then_some(self.epoch) };
                self.expect_body(ReplyHead::Job(job), job, number(second)?);
                return Ok(None);
            }
            b"OK" => {
                let size = number(first)?;
                let limit = self.max_text();
                if let Some(size) = usize::try_from(size).ok().filter(|size| *size <= limit) {
                    self.state = ParserState::Body { head: ReplyHead::Ok, size };
                    return Ok(None);
                }
                return Err(Error::protocol(format!(
                    "reply of {size} bytes is larger than the limit of {limit} (raise max_body_size if this is expected)",
                )));
            }
            _ => Response::Other(line.clone()),
        };
        Ok(Some(response))
    }

    fn expect_body(&mut self, head: ReplyHead, job: JobRef, size: u64) {
        self.state = match usize::try_from(size) {
            Ok(size) if size <= self.max_body => ParserState::Body { head, size },
            _ => ParserState::Discard { job, size, left: size.saturating_add(2) },
        };
    }

    fn take_body<F>(
        &mut self,
        io: &mut Io<F>,
        head: ReplyHead,
        size: usize,
    ) -> Result<Option<Response>, Error> {
        let whole = size.saturating_add(2);
        let missing = whole.saturating_sub(io.data().len());
        if missing > 0 {
            io.want(missing);
            return Ok(None);
        }
        let mut body = io.take(whole);
        self.state = ParserState::Line;
        let end = body.get(size..).and_then(|end| <[u8; 2]>::try_from(end).ok());
        body.truncate(size);
        Ok(Some(match (head, end.as_ref()) {
            (ReplyHead::Job(JobRef { id, reservation }), Some(b"\r\n")) => {
                let job = Job { id, body, reservation };
                if reservation.is_some() { Response::Reserved(job) } else { Response::Found(job) }
            }
            (ReplyHead::Ok, Some(b"\r\n")) => Response::Ok(body),
            (ReplyHead::Job(job), Some(b"\0\0" | b"\r\0")) => Response::BodyDamaged { job, body },
            _ => return Err(Error::protocol("the body of the reply is not followed by CRLF")),
        }))
    }
}

/// A parser with its own receive buffer.
#[derive(Debug)]
pub(crate) struct Decoder {
    pub(crate) parser: Parser,
    own: Box<Io<Infallible>>,
}

impl Decoder {
    pub(crate) fn new(epoch: Epoch, max_body: usize) -> Self {
        Decoder { parser: Parser::new(epoch, max_body), own: Box::default() }
    }

    pub(crate) fn space(&mut self) -> &mut [u8] {
        self.own.space()
    }

    /// Notes that the first `n` bytes of [`space`](Self::space) were read.
    pub(crate) fn received(&mut self, n: usize) {
        self.own.came(n);
    }

    pub(crate) fn is_at_boundary(&self) -> bool {
        self.parser.is_at_boundary(&self.own)
    }

    /// The next whole reply, or `None` if more bytes are needed.
    pub(crate) fn next(&mut self) -> Result<Option<Response>, Error> {
        self.parser.next(&mut self.own)
    }
}

fn too_long() -> Error {
    Error::protocol(format!("the reply line is longer than {MAX_LINE} bytes"))
}

/// Replies of a single word.
fn bare(word: &[u8]) -> Option<Response> {
    Some(match word {
        b"DELETED" => Response::Deleted,
        b"RELEASED" => Response::Released,
        b"TOUCHED" => Response::Touched,
        b"NOT_IGNORED" => Response::NotIgnored,
        b"PAUSED" => Response::Paused,
        b"TIMED_OUT" => Response::TimedOut,
        b"DEADLINE_SOON" => Response::DeadlineSoon,
        b"NOT_FOUND" => Response::NotFound,
        b"EXPECTED_CRLF" => Response::ExpectedCrlf,
        b"JOB_TOO_BIG" => Response::JobTooBig,
        b"DRAINING" => Response::Draining,
        b"OUT_OF_MEMORY" => Response::OutOfMemory,
        b"INTERNAL_ERROR" => Response::InternalError,
        b"BAD_FORMAT" => Response::BadFormat,
        b"UNKNOWN_COMMAND" => Response::UnknownCommand,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use super::*;

    fn decode_in_pieces(
        input: &[u8],
        piece: usize,
        max_body: usize,
    ) -> Result<Vec<Response>, Error> {
        static CONNECTION: LazyLock<Epoch> = LazyLock::new(Epoch::next);
        let mut decoder = Decoder::new(*CONNECTION, max_body);
        let mut found = Vec::new();
        for chunk in input.chunks(piece) {
            let mut chunk = chunk;
            while !chunk.is_empty() {
                let space = decoder.space();
                let n = chunk.len().min(space.len());
                space[..n].copy_from_slice(&chunk[..n]);
                decoder.received(n);
                chunk = &chunk[n..];
                while let Some(response) = decoder.next()? {
                    found.push(response);
                }
            }
        }
        Ok(found)
    }

    #[test]
    fn a_text_that_may_come_does_not_fill_the_buffer() {
        for max_body in [0, 10, 2 * TEXT] {
            let mut decoder = Decoder::new(Epoch::next(), max_body);
            let mut feed = |bytes: &[u8]| {
                for &byte in bytes {
                    decoder.space()[0] = byte;
                    decoder.received(1);
                }
                let most = decoder.parser.largest_reply();
                (decoder.own.data().len() > most, decoder.next().ok().flatten())
            };
            assert_eq!(feed(format!("OK {TEXT}\r\n").as_bytes()), (false, None));
            assert_eq!(feed(&vec![b'x'; TEXT]), (false, None), "{max_body}");
            let whole = feed(b"\r\n");
            assert!(matches!(whole, (false, Some(Response::Ok(text))) if text.len() == TEXT));
            let (is_full, _) = feed(&vec![b'x'; max_body.max(TEXT) + 2 * MAX_LINE + 1]);
            assert!(is_full, "{max_body}");
        }
    }

    #[test]
    fn words_with_other_arguments_are_unknown_and_numbers_are_counted() {
        let one = |line: &str| decode_in_pieces(format!("{line}\r\n").as_bytes(), 4096, 1 << 20);
        for line in ["OUT_OF_STORAGE", "DELETED_BATCH 3 1", "DELETED now", "USING", "", "\u{e9}"] {
            let other = Response::Other(Bytes::copy_from_slice(line.as_bytes()));
            assert_eq!(one(line).unwrap(), [other]);
        }
        for line in ["OK", "OK 1 2", "WATCHING 1 2", "KICKED 1 2", "FOUND 1", "FOUND 1 2 3"] {
            assert_eq!(one(line).unwrap_err().kind(), crate::ErrorKind::Protocol, "{line}");
        }
    }

    #[test]
    fn a_line_may_be_as_long_as_the_limit() {
        for piece in [1, 4096] {
            let line = |length: usize| format!("{}\r\n", "x".repeat(length));
            let longest = decode_in_pieces(line(MAX_LINE - 1).as_bytes(), piece, 0);
            assert_eq!(longest.unwrap().len(), 1);
            assert!(decode_in_pieces(line(MAX_LINE).as_bytes(), piece, 0).is_err());
        }
    }

    /// The start of a line that was searched for its end belongs to that line only.
    #[test]
    fn a_short_line_is_found_behind_a_long_one_that_came_in_two_pieces() {
        let found = decode_in_pieces(b"WATCHING 1234567\r\nDELETED\r\n", 14, 0).unwrap();
        assert_eq!(found, [Response::Watching(1_234_567), Response::Deleted]);
    }

    #[test]
    fn an_endless_line_is_an_error_not_a_buffer() {
        let error = decode_in_pieces(&[b'x'; 5000], 100, 1 << 20).unwrap_err();
        assert_eq!(error.to_string(), "the reply line is longer than 1024 bytes");
    }
}
