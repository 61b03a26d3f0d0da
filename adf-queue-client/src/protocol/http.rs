//! HTTP/1.1 without a socket: one request, and its answer.
//!
//! The server sends status and headers before it acts, so a pull that waits looks like an answer whose body does not come;
//! failures of actions come with status 200; idle connections are closed after 10 seconds, and every push ends its own.

use bytes::BytesMut;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use super::{
    Encoding, Request, Response, binary,
    head::{self, Head},
};
use crate::{Error, Result};

/// The longest body of a push.
pub const MAX_BODY: usize = 10 << 20;

impl Encoding {
    /// The ending of its paths.
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

/// Appends a request. Its answer is read by [`Answer`]. `host` is the value of the `Host` header.
///
/// # Errors
///
/// `InvalidInput` for what the server would not take: an empty body of a push, one over 10 MiB, a queue name that makes a
/// line of over 512 bytes, or one that is not ASCII in binary, where the answer could not be told. `out` is left as it was.
pub fn encode(encoding: Encoding, request: &Request, host: &str, out: &mut BytesMut) -> Result<()> {
    let (queue, body) = (request.queue().as_str(), request.body());
    if encoding == Encoding::Binary {
        binary::check_name(queue)?;
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
            "body of {} bytes is not valid over HTTP: it has 1 to {MAX_BODY} bytes (WebSocket takes an empty one)",
            body.len()
        )));
    }
    let length = format!("Content-Length: {}", body.len());
    head::write(&[&line, &host, "Content-Type: application/octet-stream", &length], out)?;
    out.extend_from_slice(body);
    Ok(())
}

/// The answer to one request, as it comes.
#[derive(Debug)]
pub struct Answer {
    encoding: Encoding,
    max_body: usize,
    head: Option<Head>,
    length: Length,
    body: BytesMut,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Length {
    /// Chunks, and how much is left of this one.
    Chunked(Chunk),
    /// So many bytes are still to come.
    Counted(usize),
    /// All until the connection ends.
    ToTheEnd,
    Whole,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Chunk {
    Size,
    Data(usize),
    LineEnd,
    Trailer,
}

/// The longest line between chunks.
const MAX_CHUNK_LINE: usize = 1024;

impl Answer {
    /// The answer that is to come. `max_body` is the longest body that is read.
    #[must_use]
    pub fn new(encoding: Encoding, max_body: usize) -> Self {
        let (length, body) = (Length::ToTheEnd, BytesMut::new());
        Answer { encoding, max_body, head: None, length, body }
    }

    /// Takes what belongs to the answer off the front of `data`: how many bytes that are, all of them unless it is whole.
    ///
    /// # Errors
    ///
    /// `Protocol` when it is no answer of HTTP, or its body is longer than the limit.
    pub fn read(&mut self, data: &[u8]) -> Result<usize> {
        let mut taken = 0;
        if self.head.is_none() {
            let Some(head) = Head::read(data)? else { return Ok(0) };
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

    fn length_by(&self, head: &Head) -> Result<Length> {
        if head.is("Transfer-Encoding", "chunked") {
            return Ok(Length::Chunked(Chunk::Size));
        }
        let Some(length) = head.get("Content-Length") else { return Ok(Length::ToTheEnd) };
        let length = queue_core::decimal(length.trim_ascii()).and_then(|n| usize::try_from(n).ok());
        match length {
            Some(0) => Ok(Length::Whole),
            Some(length) if length <= self.max_body => Ok(Length::Counted(length)),
            Some(length) => Err(self.too_long(length)),
            None => Err(Error::protocol("the Content-Length of the answer is no number")),
        }
    }

    fn too_long(&self, length: usize) -> Error {
        Error::protocol(format!(
            "answer of {length} bytes is larger than the limit of {} (raise max_message_size if this is expected)",
            self.max_body
        ))
    }

    /// Takes one piece, and says how long it is; 0 when more is needed to see its end.
    fn take(&mut self, rest: &[u8]) -> Result<usize> {
        match self.length {
            Length::Whole => Ok(0),
            Length::ToTheEnd => self.keep(rest),
            Length::Counted(left) => {
                let n = self.keep(rest.get(..left).unwrap_or(rest))?;
                self.length = if n == left { Length::Whole } else { Length::Counted(left - n) };
                Ok(n)
            }
            Length::Chunked(chunk) => self.take_chunk(chunk, rest),
        }
    }

    fn take_chunk(&mut self, chunk: Chunk, rest: &[u8]) -> Result<usize> {
        if let Chunk::Data(left) = chunk {
            let n = self.keep(rest.get(..left).unwrap_or(rest))?;
            let next = if n == left { Chunk::LineEnd } else { Chunk::Data(left - n) };
            self.length = Length::Chunked(next);
            return Ok(n);
        }
        let Some(end) = rest.iter().position(|byte| *byte == b'\n') else {
            let is_endless = rest.len() > MAX_CHUNK_LINE;
            return if is_endless { Err(bad_chunk(rest)) } else { Ok(0) };
        };
        let line = rest.get(..end).unwrap_or_default().trim_ascii_end();
        self.length = match chunk {
            Chunk::Size => {
                let digits = line.split(|byte| *byte == b';').next().unwrap_or_default();
                match size(digits).ok_or_else(|| bad_chunk(line))? {
                    0 => Length::Chunked(Chunk::Trailer),
                    n if n > self.max_body.saturating_sub(self.body.len()) => {
                        return Err(self.too_long(self.body.len().saturating_add(n)));
                    }
                    n => Length::Chunked(Chunk::Data(n)),
                }
            }
            Chunk::LineEnd if line.is_empty() => Length::Chunked(Chunk::Size),
            Chunk::Trailer if line.is_empty() => Length::Whole,
            Chunk::Trailer => Length::Chunked(Chunk::Trailer),
            Chunk::LineEnd | Chunk::Data(_) => return Err(bad_chunk(line)),
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

    /// The connection has ended: whether that was the end of the answer, too.
    pub fn end(&mut self) -> bool {
        if self.head.is_some() && self.length == Length::ToTheEnd {
            self.length = Length::Whole;
        }
        self.is_whole()
    }

    /// Whether status and headers have come. A pull is waiting then: who gives it up leaves it on the server.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        self.head.is_some()
    }

    /// Whether all of it has come.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.head.is_some() && self.length == Length::Whole
    }

    /// Whether the connection serves another request behind it.
    #[must_use]
    pub fn keeps_alive(&self) -> bool {
        self.is_whole()
            && self.head.as_ref().is_some_and(|head| head.is("Connection", "keep-alive"))
    }

    /// What the whole answer says.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for what the server did not take, `Protocol` for what is no answer of an Adf.QueueServer: a redirect,
    /// or a page in HTML, which this server and any proxy give with status 200.
    pub fn finish(self) -> Result<Response> {
        let Some(head) = self.head.filter(|_| self.length == Length::Whole) else {
            return Err(Error::protocol("the answer ended before it was whole"));
        };
        let status = head.status_line();
        match head.status {
            200 if head.is("Content-Type", self.encoding.content_type()) => {
                self.encoding.decode(self.body.freeze())
            }
            200 => Err(Error::protocol(
                "the server answered with a page instead of a result: is this an Adf.QueueServer, without a proxy before it?",
            )),
            400 | 411 | 413 => {
                Err(Error::invalid(format!("the server did not take the request: {status}")))
            }
            _ => Err(Error::protocol(format!("the server answered {status}"))),
        }
    }
}

fn bad_chunk(line: &[u8]) -> Error {
    Error::protocol("the chunks of the answer are not valid").with_source(queue_core::excerpt(line))
}

/// A number in hexadecimal, of up to 15 digits.
fn size(digits: &[u8]) -> Option<usize> {
    let digits = std::str::from_utf8(digits.trim_ascii()).ok()?;
    let is_plain =
        (1..16).contains(&digits.len()) && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    is_plain.then(|| usize::from_str_radix(digits, 16).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        ErrorKind, QueueName, RequestId,
        protocol::{Refusal, Success},
    };

    fn id(text: &str) -> RequestId {
        text.parse().unwrap()
    }

    fn queue(text: &str) -> QueueName {
        text.parse().unwrap()
    }

    fn written(encoding: Encoding, request: &Request) -> String {
        let mut out = BytesMut::new();
        encode(encoding, request, "localhost:6230", &mut out).unwrap();
        String::from_utf8(out.to_vec()).unwrap()
    }

    #[test]
    fn requests_name_queue_and_id_in_the_line() {
        assert_eq!(
            written(Encoding::Json, &Request::count(id("h1"), queue("/j k+&队"))),
            "GET /queue/count.json?queue=%2Fj%20k%2B%26%E9%98%9F&requestid=h1 HTTP/1.1\r\nHost: localhost:6230\r\n\r\n"
        );
        assert_eq!(
            written(Encoding::Binary, &Request::rpush(id("h3"), queue("/j"), "body2")),
            "POST /queue/rpush.bin?queue=%2Fj&requestid=h3 HTTP/1.1\r\nHost: localhost:6230\r\n\
             Content-Type: application/octet-stream\r\nContent-Length: 5\r\n\r\nbody2"
        );
    }

    #[test]
    fn what_the_server_would_not_take_is_refused_before_a_byte_is_made() {
        let mut out = BytesMut::new();
        let mut refused = |encoding, request: &Request, host: &str| {
            let error = encode(encoding, request, host, &mut out).unwrap_err();
            assert!(error.kind() == &ErrorKind::InvalidInput && out.is_empty());
            error.to_string()
        };
        let push = |body: Vec<u8>| Request::lpush(id("1"), queue("/q"), body);
        assert!(refused(Encoding::Binary, &push(vec![]), "q").contains("body of 0 bytes"));
        assert!(
            refused(Encoding::Json, &push(vec![0; MAX_BODY + 1]), "q").contains("1 to 10485760")
        );
        let long = Request::pull(id("1"), queue(&"q".repeat(470)));
        assert!(refused(Encoding::Json, &long, "q").contains("lines of up to 512"));
        let foreign = Request::pull(id("1"), queue("队"));
        assert!(refused(Encoding::Binary, &foreign, "q").contains("is not ASCII"));
        assert!(refused(Encoding::Json, &foreign, "q\r\nX: y").contains("visible ASCII"));
    }

    const COUNT: &str = "HTTP/1.1 200 OK\nContent-Type: application/json\nVia: vm\nConnection: keep-alive\nTransfer-Encoding: chunked\n\n48\r\n{\"queue\":\"/j\",\"count\":0,\"result\":\"ok\",\"action\":\"count\",\"requestid\":\"h1\"}\r\n0\r\n\r\n";

    /// Gives an answer in pieces, as a connection does: what was not taken comes again.
    fn read(encoding: Encoding, data: &[u8], piece: usize) -> Result<Answer> {
        let mut answer = Answer::new(encoding, 64 << 20);
        let (mut start, mut end) = (0, 0);
        while end < data.len() {
            end = data.len().min(end + piece);
            start += answer.read(&data[start..end])?;
        }
        assert!(
            start == data.len() || !answer.is_whole(),
            "what was not taken is not yet understood"
        );
        Ok(answer)
    }

    #[test]
    fn answers_of_the_real_server_are_read_however_they_are_cut() {
        for piece in 1..COUNT.len() {
            let answer = read(Encoding::Json, COUNT.as_bytes(), piece).unwrap();
            assert!(answer.is_whole() && answer.keeps_alive());
            let response = answer.finish().unwrap();
            assert!(response.answers(&Request::count(id("h1"), queue("/j"))));
            assert_eq!(response.outcome, Ok(Success::Counted(0)));
        }
        for len in 0..COUNT.len() {
            let mut answer = read(Encoding::Json, &COUNT.as_bytes()[..len], 1).unwrap();
            assert!(!answer.end(), "after {len} bytes");
        }
    }

    #[test]
    fn a_refusal_comes_with_status_200() {
        let frame = b"\x06\0\x011\0\x01?\0\x11queue not exists.";
        let head = b"HTTP/1.1 200 OK\nContent-Type: application/octet-stream\nConnection: close\nTransfer-Encoding: chunked\n\n1a\r\n";
        let data = [&head[..], frame, b"\r\n0\r\n\r\n"].concat();
        let answer = read(Encoding::Binary, &data, 7).unwrap();
        assert!(answer.is_whole() && !answer.keeps_alive());
        assert_eq!(answer.finish().unwrap().outcome, Err(Refusal::QueueNotFound));
    }

    #[test]
    fn a_pull_that_waits_has_begun_and_is_not_whole() {
        let head = COUNT.split_inclusive("\n\n").next().unwrap();
        let answer = read(Encoding::Json, head.as_bytes(), 1000).unwrap();
        assert!(answer.has_begun() && !answer.is_whole());
        assert!(answer.finish().unwrap_err().to_string().contains("before it was whole"));
    }

    #[test]
    fn what_is_no_result_is_said() {
        for (data, kind, why) in [
            (
                "HTTP/1.1 200 OK\nContent-Type: text/html\nContent-Length: 4\n\npage",
                ErrorKind::Protocol,
                "a page instead of a result",
            ),
            (
                "HTTP/1.1 400 Bad Request\nContent-Length: 7\n\nNo body",
                ErrorKind::InvalidInput,
                "400 Bad Request",
            ),
            (
                "HTTP/1.1 411 Length Required\nContent-Length: 22\n\nRequire Content-Length",
                ErrorKind::InvalidInput,
                "411 Length Required",
            ),
            (
                "HTTP/1.1 302 Found\r\nLocation: http://x/\r\nContent-Length: 0\r\n\r\n",
                ErrorKind::Protocol,
                "the server answered 302 Found",
            ),
        ] {
            let error = read(Encoding::Json, data.as_bytes(), 9).unwrap().finish().unwrap_err();
            assert!(error.kind() == &kind && error.to_string().contains(why), "{error}");
        }
    }

    #[test]
    fn answers_are_bounded() {
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        for chunk in [
            "fffffffffffffff\r\n",
            "10000000000000000\r\n",
            "-1\r\n",
            "x\r\n",
            "\r\n",
            "4\r\nabcdef\r\n",
        ] {
            let data = format!("{head}{chunk}");
            assert!(read(Encoding::Json, data.as_bytes(), 1000).is_err(), "{chunk:?}");
        }
        let endless = format!("{head}{}", "1".repeat(2000));
        assert!(read(Encoding::Json, endless.as_bytes(), 100).is_err());
        let mut answer = Answer::new(Encoding::Json, 3);
        let counted = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n";
        assert!(answer.read(counted).unwrap_err().to_string().contains("limit of 3"));
        let mut answer = Answer::new(Encoding::Json, 3);
        assert!(answer.read(b"HTTP/1.1 200 OK\r\n\r\nfour").is_err());
    }

    #[test]
    fn an_answer_without_a_length_ends_with_its_connection() {
        let data = b"HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n{}";
        let mut answer = read(Encoding::Json, data, 5).unwrap();
        assert!(!answer.is_whole() && answer.end() && !answer.keeps_alive());
        assert_eq!(answer.finish().unwrap_err().kind(), &ErrorKind::Protocol);
    }
}
