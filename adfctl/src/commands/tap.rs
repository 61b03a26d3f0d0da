//! `tap`: shows what applications and the Adf.QueueServer send each other, over WebSocket and HTTP.

use adf_queue_client::protocol::between::{FrameHead, FrameKind, Heading, RequestHead};
use adf_queue_client::protocol::http::Answer;
use adf_queue_client::protocol::{Action, Encoding};
use ctl_core::commands::tap::{Decoder, Look, Said, Side};

/// The end of `tap --help`.
pub const HELP: &str = "\
Protocol: any action.
A relay: applications connect to it instead of the server, and it prints a line for each action and each reply, over
WebSocket or HTTP, in binary or JSON: time, connection, sender, body size (in JSON, of the whole text) and, for replies,
the server's response time, counted from the last byte of the request, and (-o wide) which request it answers. No byte
is changed or held back; closes and resets are passed on. Lines that cannot be written fast enough are dropped and
counted. The summary at the end goes to stderr.
--decode decodes bodies of up to 4 KiB, whatever --body says.
FILTER tests a line: verb==rpush, size>1k, took>50ms, connection==3 or body~=REGEX; also from, to, args and error.

Examples:
  adfctl tap --listen 127.0.0.1:6231 --to 127.0.0.1:6230
  adfctl tap --slow 50ms -o ndjson
  adfctl tap --listen :6231 --filter 'verb==rpush' --body 200";

/// The longest answer over HTTP that is read, in bytes.
const MAX_ANSWER: usize = 1 << 20;
/// The key of requests over HTTP, which are answered in order.
const HTTP: &str = "http";

/// The decoder of one connection.
#[derive(Debug)]
pub struct Messages {
    is_websocket: bool,
    /// The requests whose answers have not arrived yet.
    asked: std::collections::VecDeque<Asked>,
    /// The part of an answer that has arrived.
    answer: Answer,
    /// Its status, and how long it is so far.
    status: String,
    length: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    Upgrade,
    Page,
    Action(Encoding),
}

/// Maximum number of requests over HTTP waiting for their answers.
const MOST: usize = 1024;

impl Default for Messages {
    fn default() -> Self {
        Self {
            is_websocket: false,
            asked: Default::default(),
            answer: Answer::new(MAX_ANSWER),
            status: String::new(),
            length: 0,
        }
    }
}

impl Decoder for Messages {
    fn look(&mut self, side: Side, data: &[u8]) -> Look {
        match side {
            // Everything after the request for a WebSocket is frames, even before the server has agreed.
            _ if self.is_websocket => frame(data),
            Side::Client if self.asked.back() == Some(&Asked::Upgrade) => frame(data),
            Side::Client => match RequestHead::read(data) {
                Ok(Some(head)) => Look::Unit(head.body.saturating_add(head.len as u64)),
                Ok(None) => Look::More,
                Err(_) => Look::Stranger("it is not an HTTP request"),
            },
            Side::Server => match self.answer.read(data) {
                Ok(0) => Look::More,
                Ok(taken) => Look::Unit(taken as u64),
                Err(_) => Look::Stranger("it is not an HTTP response, or longer than 1 MiB"),
            },
        }
    }

    fn read(&mut self, side: Side, unit: &[u8], len: u64) -> Option<Said> {
        match side {
            _ if self.is_websocket => message(side, unit),
            Side::Client if self.asked.back() == Some(&Asked::Upgrade) => message(side, unit),
            Side::Client => self.request(unit),
            Side::Server => self.part_of_answer(unit, len),
        }
    }
}

fn frame(data: &[u8]) -> Look {
    match FrameHead::read(data) {
        Ok(Some(head)) => Look::Unit(head.payload.saturating_add(head.len as u64)),
        Ok(None) => Look::More,
        Err(_) => Look::Stranger("it is not a WebSocket frame"),
    }
}

/// The contents of a frame whose end may be cut off.
fn message(side: Side, unit: &[u8]) -> Option<Said> {
    let head = FrameHead::read(unit).ok().flatten()?;
    let encoding = match head.kind {
        FrameKind::Binary => Encoding::Binary,
        FrameKind::Text => Encoding::Json,
        FrameKind::Part => return Some(Said::new("(part)").with_body(b"", head.payload)),
        FrameKind::Ping => return Some(Said::new("(ping)").asks("ping")),
        FrameKind::Pong => return Some(Said::new("(pong)").answers("ping")),
        FrameKind::Close => return Some(Said::new("(close)")),
        _ => return Some(Said::new("(frame)")),
    };
    let payload = head.payload_of(unit);
    let heading = Heading::read(encoding, &payload, side == Side::Server);
    let Heading { action, id, queue, result, .. } = &heading;
    let name = action.map_or("(unknown)", Action::name);
    let key = format!("{name} {id}");
    let arguments = [queue.as_str(), id].join(" ");
    let said = match side {
        Side::Client => Said::new(name).of(arguments.as_bytes()).asks(key),
        Side::Server => {
            let result = result.clone().unwrap_or_else(|| "(unknown)".to_owned());
            let is_error = result != "ok";
            let number = heading.message_id.map_or_else(String::new, |id| format!(" {id}"));
            let said = Said::new(result).of(format!("{name} {arguments}{number}").as_bytes());
            said.error_if(is_error).answers(key)
        }
    };
    Some(with_body(said, encoding, &heading, &payload, head))
}

/// With the body: in binary frames, that of a push or of a message; in JSON, the whole text.
fn with_body(
    said: Said,
    encoding: Encoding,
    heading: &Heading,
    payload: &[u8],
    head: FrameHead,
) -> Said {
    if encoding != Encoding::Binary {
        return said.with_body(payload, head.payload);
    }
    // In a delivery, the body is followed by its duplications and its number.
    let (carries, behind) = match heading.result.as_deref() {
        Some(result) => (result == "ok" && heading.action == Some(Action::Pull), 2 + 8),
        None => (heading.action.is_some_and(Action::is_push), 0),
    };
    if !carries {
        return said;
    }
    // After its length.
    let from = heading.len + 2;
    let size = head.payload.saturating_sub(from as u64).saturating_sub(behind);
    said.with_body(payload.get(from..).unwrap_or_default(), size)
}

impl Messages {
    fn request(&mut self, unit: &[u8]) -> Option<Said> {
        let head = RequestHead::read(unit).ok().flatten()?;
        let (asked, name) = match head.action() {
            _ if head.upgrades => (Asked::Upgrade, "upgrade"),
            Some((action, encoding)) => (Asked::Action(encoding), action.name()),
            None => (Asked::Page, "page"),
        };
        if self.asked.len() < MOST {
            self.asked.push_back(asked);
        }
        let target = format!("{} {}", head.method, head.target);
        let said = Said::new(name).of(target.as_bytes()).asks(HTTP);
        Some(if head.body > 0 {
            said.with_body(unit.get(head.len..).unwrap_or_default(), head.body)
        } else {
            said
        })
    }

    /// An answer is reported as a whole.
    fn part_of_answer(&mut self, unit: &[u8], len: u64) -> Option<Said> {
        if self.length == 0 {
            let line = unit.split(|byte| *byte == b'\n').next().unwrap_or_default();
            let status = line.split(|byte| *byte == b' ').nth(1).unwrap_or_default();
            self.status = String::from_utf8_lossy(status.get(..3).unwrap_or(status)).into_owned();
        }
        self.length = self.length.saturating_add(len);
        if !self.answer.is_whole() {
            return None;
        }
        let answer = std::mem::replace(&mut self.answer, Answer::new(MAX_ANSWER));
        let (status, length) = (std::mem::take(&mut self.status), std::mem::take(&mut self.length));
        let asked = self.asked.pop_front();
        self.is_websocket = asked == Some(Asked::Upgrade) && status == "101";
        let is_error = !status.starts_with(['1', '2']);
        let said = match asked {
            Some(Asked::Action(encoding)) if !is_error => match answer.finish(encoding) {
                Ok(response) => {
                    let result = response.outcome.as_ref().err().map(|refusal| refusal.text());
                    let said = Said::new(result.unwrap_or("ok").to_owned());
                    let queue = String::from_utf8_lossy(&response.queue).into_owned();
                    let text = format!("{} {queue} {}", response.action, response.id);
                    said.of(text.as_bytes()).error_if(result.is_some())
                }
                Err(_) => Said::new("(unknown)").of(status.as_bytes()).error_if(true),
            },
            _ => Said::new(status).error_if(is_error),
        };
        Some(said.with_body(&[], length).answers(HTTP))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(
        messages: &mut Messages,
        side: Side,
        bytes: &[u8],
    ) -> Vec<(String, String, Option<u64>)> {
        let mut told = Vec::new();
        let mut rest = bytes;
        while !rest.is_empty() {
            let Look::Unit(len) = messages.look(side, rest) else { panic!("{rest:?}") };
            let (unit, behind) = rest.split_at(len as usize);
            told.extend(messages.read(side, unit, len).map(|said| {
                (said.verb.into_owned(), said.arguments, said.body.map(|body| body.1))
            }));
            rest = behind;
        }
        told
    }

    fn one(verb: &str, arguments: &str, size: Option<u64>) -> Vec<(String, String, Option<u64>)> {
        vec![(verb.to_owned(), arguments.to_owned(), size)]
    }

    #[test]
    fn decodes_frames_after_an_accepted_upgrade() {
        let mut messages = Messages::default();
        let upgrade = b"GET /queue/bin HTTP/1.1\r\nUpgrade: websocket\r\n\r\n";
        let told = said(&mut messages, Side::Client, upgrade);
        assert_eq!(told, one("upgrade", "GET /queue/bin", None));
        let push = b"\x82\x8c\0\0\0\0\x02\0\x011\0\x02/q\0\x02hi";
        assert_eq!(said(&mut messages, Side::Client, push), one("rpush", "/q 1", Some(2)));
        let agreed = b"HTTP/1.1 101 Switching Protocols\nUpgrade: websocket\n\n";
        assert_eq!(said(&mut messages, Side::Server, agreed).len(), 1);
        let pulled = b"\x82\x1c\x04\0\x011\0\x02/q\0\x02ok\0\x04body\0\x01\0\0\0\0\0\0\0\x07";
        assert_eq!(said(&mut messages, Side::Server, pulled), one("ok", "pull /q 1", Some(4)));
        let no =
            br#"{"queue":"/q","result":"queue exists.","action":"createqueue","requestid":"1"}"#;
        let frame = [&[0x81, no.len() as u8][..], no].concat();
        let told = said(&mut messages, Side::Server, &frame);
        assert_eq!(told, one("queue exists.", "createqueue /q 1", Some(no.len() as u64)));
    }

    #[test]
    fn prints_http_responses_as_a_whole() {
        let mut messages = Messages::default();
        let push = b"POST /queue/rpush.json?queue=/q&requestid=7 HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello";
        let told = said(&mut messages, Side::Client, push);
        assert_eq!(told, one("rpush", "POST /queue/rpush.json?queue=/q&requestid=7", Some(5)));
        let answer = b"HTTP/1.1 200 OK\nContent-Type: application/json\nTransfer-Encoding: chunked\n\n\
            4c\r\n{\"queue\":\"/q\",\"result\":\"ok\",\"action\":\"rpush\",\"requestid\":\"h2\",\"messageid\":1}\r\n0\r\n\r\n";
        let told = said(&mut messages, Side::Server, answer);
        assert_eq!(told, one("ok", "rpush /q h2", Some(answer.len() as u64)));
        said(&mut messages, Side::Client, b"GET /nowhere HTTP/1.1\r\n\r\n");
        let refused = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";
        let told = said(&mut messages, Side::Server, refused);
        assert_eq!(told, one("404", "", Some(refused.len() as u64)));
        assert!(matches!(messages.look(Side::Client, b"\0\x01"), Look::Stranger(_)));
    }
}
