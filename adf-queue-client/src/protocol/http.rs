//! HTTP/1.1 without a socket: one request and its answer.
//!
//! The server sends status and headers before it acts, so a waiting pull looks like an answer whose body does not
//! arrive. Failures of actions have status 200; idle connections are closed after 10 seconds, and every push ends its
//! own connection.

use bytes::{Bytes, BytesMut};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use queue_core::excerpt;

use super::{
    Encoding, Request, Response, binary,
    head::{self, HttpHead},
    json,
};
use crate::{Error, ErrorKind, Fate, QueueName, Result};

/// The maximum length of a push's body.
pub const MAX_BODY: usize = 10 << 20;

impl Encoding {
    /// The suffix of its paths.
    fn ending(self) -> &'static str {
        match self {
            Encoding::Binary => "bin",
            Encoding::Json => "json",
        }
    }

    fn content_type(self) -> &'static str {
        match self {
            Encoding::Binary => "application/octet-stream",
            Encoding::Json => "application/json",
        }
    }
}

/// Appends a request. [`Answer`] decodes its answer. `host` is the value of the `Host` header.
///
/// # Errors
///
/// `InvalidInput` for a request that the server would not accept: a push with a body that is empty, over 10 MiB or, in
/// JSON, not text; a queue name that makes a line over 512 bytes long, or in binary one that is not ASCII, since its
/// answer would be ambiguous. `out` is unchanged then.
pub fn encode(encoding: Encoding, request: &Request, host: &str, out: &mut BytesMut) -> Result<()> {
    let (queue, body) = (request.queue().as_str(), request.body());
    match encoding {
        Encoding::Binary => binary::check_name(queue)?,
        // The server would accept any, but return it in JSON.
        Encoding::Json => json::text(body).map(drop)?,
    }
    let method = if request.action().is_push() { "POST" } else { "GET" };
    let line = format!(
        "{method} /queue/{}.{}?queue={}&requestid={} HTTP/1.1",
        request.action(),
        encoding.ending(),
        utf8_percent_encode(queue, NON_ALPHANUMERIC),
        utf8_percent_encode(request.id().as_str(), NON_ALPHANUMERIC),
    );
    let host = head::host_line(host)?;
    if !request.action().is_push() {
        return head::write(&[&line, &host], out);
    }
    if body.is_empty() || body.len() > MAX_BODY {
        return Err(Error::invalid(format!(
            "body of {} bytes is not valid over HTTP: it must have 1 to {MAX_BODY} bytes (WebSocket accepts an empty one)",
            body.len()
        )));
    }
    let length = format!("Content-Length: {}", body.len());
    head::write(&[&line, &host, "Content-Type: application/octet-stream", &length], out)?;
    out.extend_from_slice(body);
    Ok(())
}

/// Appends the request for the status page of one queue, or of all.
///
/// # Errors
///
/// `InvalidInput` for a queue name that makes a line over 512 bytes long; `out` is unchanged then.
pub fn encode_page(queue: Option<&QueueName>, host: &str, out: &mut BytesMut) -> Result<()> {
    let line = match queue {
        Some(queue) => {
            let queue = utf8_percent_encode(queue.as_str(), NON_ALPHANUMERIC);
            format!("GET /?queue={queue} HTTP/1.1")
        }
        None => "GET / HTTP/1.1".into(),
    };
    head::write(&[&line, &head::host_line(host)?], out)
}

/// Decodes the answer to one request incrementally.
#[derive(Debug)]
pub struct Answer {
    max_body: usize,
    head: Option<HttpHead>,
    length: Length,
    body: BytesMut,
    /// The length of the trailer so far.
    trailer: usize,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Length {
    /// The line that begins a chunk.
    ChunkSize,
    /// The rest of a chunk.
    Chunk(usize),
    /// The line end behind a chunk.
    ChunkEnd,
    /// The lines behind the last chunk.
    Trailer,
    /// This number of bytes is still to come.
    Counted(usize),
    /// Everything until the connection ends.
    ToTheEnd,
    Whole,
}

/// Maximum length of a line between chunks.
const MAX_CHUNK_LINE: usize = 1024;
/// Maximum length of the trailer.
const MAX_TRAILER: usize = 16 << 10;

impl Answer {
    /// Starts decoding an answer. `max_body` is the maximum length of its body.
    #[must_use]
    pub fn new(max_body: usize) -> Self {
        let (length, body) = (Length::ToTheEnd, BytesMut::new());
        Answer { max_body, head: None, length, body, trailer: 0 }
    }

    /// Consumes the bytes of the answer at the front of `data`. Returns their number: all of them, unless the answer is
    /// complete.
    ///
    /// # Errors
    ///
    /// `Protocol` for anything but an HTTP answer; `MessageTooLarge` when its body is longer than the limit.
    pub fn read(&mut self, data: &[u8]) -> Result<usize> {
        let mut taken = 0;
        if self.head.is_none() {
            let Some(head) = HttpHead::read(data)? else { return Ok(0) };
            taken = head.len;
            self.length = self.length_by(&head)?;
            self.head = Some(head);
        }
        while let Some(rest) = data.get(taken..).filter(|rest| !rest.is_empty()) {
            let n = self.take(rest)?;
            if n == 0 {
                break;
            }
            taken += n;
        }
        Ok(taken)
    }

    fn length_by(&self, head: &HttpHead) -> Result<Length> {
        // These have no body, whatever their headers say.
        if matches!(head.status, 100..=199 | 204 | 304) {
            return Ok(Length::Whole);
        }
        if head.is("Transfer-Encoding", "chunked") {
            return Ok(Length::ChunkSize);
        }
        let Some(length) = head.get("Content-Length") else { return Ok(Length::ToTheEnd) };
        let length = queue_core::decimal(length.trim_ascii()).and_then(|n| usize::try_from(n).ok());
        match length {
            Some(0) => Ok(Length::Whole),
            Some(length) if length <= self.max_body => Ok(Length::Counted(length)),
            Some(length) => Err(self.too_long(length)),
            None => Err(Error::protocol("the Content-Length of the reply is not a number")),
        }
    }

    fn too_long(&self, length: usize) -> Error {
        let message = format!(
            "answer of {length} bytes is larger than the limit of {} (raise max_message_size if this is expected)",
            self.max_body
        );
        Error::new(ErrorKind::MessageTooLarge, Fate::Unknown, message)
    }

    /// Consumes one piece, and returns its length; 0 when its end has not arrived.
    fn take(&mut self, rest: &[u8]) -> Result<usize> {
        match self.length {
            Length::Whole => Ok(0),
            Length::ToTheEnd => self.keep(rest),
            Length::Counted(left) => {
                let n = self.keep(rest.get(..left).unwrap_or(rest))?;
                self.length = if n == left { Length::Whole } else { Length::Counted(left - n) };
                Ok(n)
            }
            Length::Chunk(left) => {
                let n = self.keep(rest.get(..left).unwrap_or(rest))?;
                self.length = if n == left { Length::ChunkEnd } else { Length::Chunk(left - n) };
                Ok(n)
            }
            Length::ChunkSize | Length::ChunkEnd | Length::Trailer => self.take_line(rest),
        }
    }

    /// Consumes a line between chunks, or behind them.
    fn take_line(&mut self, rest: &[u8]) -> Result<usize> {
        let Some(end) = rest.iter().take(MAX_CHUNK_LINE).position(|byte| *byte == b'\n') else {
            let is_endless = rest.len() >= MAX_CHUNK_LINE;
            return if is_endless { Err(endless("a chunk line", MAX_CHUNK_LINE)) } else { Ok(0) };
        };
        let line = rest.get(..end).unwrap_or_default().trim_ascii_end();
        self.length = match self.length {
            Length::ChunkSize => {
                let digits = line.split(|byte| *byte == b';').next().unwrap_or_default();
                match size(digits).ok_or_else(|| bad_chunk(line))? {
                    0 => Length::Trailer,
                    n if n > self.max_body.saturating_sub(self.body.len()) => {
                        return Err(self.too_long(self.body.len().saturating_add(n)));
                    }
                    n => Length::Chunk(n),
                }
            }
            Length::ChunkEnd if line.is_empty() => Length::ChunkSize,
            Length::Trailer if line.is_empty() => Length::Whole,
            Length::Trailer => {
                self.trailer += end;
                if self.trailer > MAX_TRAILER {
                    return Err(endless("the trailer", MAX_TRAILER));
                }
                Length::Trailer
            }
            _ => return Err(bad_chunk(line)),
        };
        Ok(end + 1)
    }

    fn keep(&mut self, bytes: &[u8]) -> Result<usize> {
        let length = self.body.len() + bytes.len();
        if length > self.max_body {
            return Err(self.too_long(length));
        }
        self.body.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    /// The announced length of the body that has not arrived; 0 when unknown.
    #[must_use]
    pub fn missing(&self) -> usize {
        match self.length {
            Length::Counted(left) | Length::Chunk(left) => left,
            _ => 0,
        }
    }

    /// Handles the end of the connection. Returns whether it completed the answer.
    pub fn end(&mut self) -> bool {
        if self.head.is_some() && self.length == Length::ToTheEnd {
            self.length = Length::Whole;
        }
        self.is_whole()
    }

    /// Whether status and headers have arrived. A pull is waiting on the server then, and stays there if it is
    /// abandoned.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        self.head.is_some()
    }

    /// Whether the answer is complete.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.head.is_some() && self.length == Length::Whole
    }

    /// Whether the connection can serve another request after it.
    #[must_use]
    pub fn keeps_alive(&self) -> bool {
        self.is_whole()
            && self.head.as_ref().is_some_and(|head| head.is("Connection", "keep-alive"))
    }

    /// Decodes the complete answer to a request in this encoding.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a request that the server rejected, `Protocol` for anything that is not an answer of
    /// Adf.QueueServer: a redirect, or an HTML page, which this server and any proxy send with status 200.
    pub fn finish(self, encoding: Encoding) -> Result<Response> {
        let body = self.body(
            encoding.content_type(),
            "the server answered with a page instead of a result: is this an Adf.QueueServer, without a proxy in front of it?",
        )?;
        encoding.decode(body)
    }

    /// The page in the complete answer.
    ///
    /// # Errors
    ///
    /// `Protocol` for anything but an HTML page with status 200.
    pub fn page(self) -> Result<Bytes> {
        self.body(
            "text/html",
            "the server did not answer with an HTML page: is this an Adf.QueueServer, without a proxy in front of it?",
        )
    }

    fn body(self, content_type: &str, otherwise: &'static str) -> Result<Bytes> {
        let Some(head) = self.head.filter(|_| self.length == Length::Whole) else {
            return Err(Error::protocol("the reply is incomplete"));
        };
        let status = head.status_line();
        match head.status {
            200 if head.is("Content-Type", content_type) => Ok(self.body.freeze()),
            200 => Err(Error::protocol(otherwise)),
            400 | 411 | 413 => {
                let message = format!("the server rejected the request: {status}");
                Err(Error::invalid(message)
                    .with_fate(Fate::Refused)
                    .with_detail(excerpt(&self.body)))
            }
            _ => Err(Error::protocol(format!("the server answered {status}"))
                .with_detail(excerpt(&self.body))),
        }
    }
}

/// The error for a part of an answer that is longer than any of this server's.
fn endless(part: &str, limit: usize) -> Error {
    Error::protocol(format!("{part} of the reply is longer than {limit} bytes"))
}

fn bad_chunk(line: &[u8]) -> Error {
    Error::protocol("the chunks of the reply are not valid").with_detail(excerpt(line))
}

/// Parses a hexadecimal number of up to 15 digits.
fn size(digits: &[u8]) -> Option<usize> {
    let digits = std::str::from_utf8(digits.trim_ascii()).ok()?;
    let is_plain =
        (1..16).contains(&digits.len()) && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    is_plain.then(|| usize::from_str_radix(digits, 16).ok())?
}

#[cfg(test)]
mod tests;
