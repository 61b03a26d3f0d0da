//! For programs that read the traffic between clients and servers: parses heads and headings from partial messages.
//! Clients do not need it.

use std::borrow::Cow;
use std::fmt;

use bytes::Buf as _;
use serde_core::de::{Deserializer, IgnoredAny, MapAccess, Visitor};

pub use super::frame::{FrameHead, FrameKind};
use super::{Action, Encoding, binary, head, json};
use crate::{Error, Result};

/// The head of an HTTP request.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RequestHead {
    /// The method, in upper case.
    pub method: String,
    /// Path and query, as sent.
    pub target: String,
    /// The length of the head in bytes, including the empty line.
    pub len: usize,
    /// The length of the body in bytes.
    pub body: u64,
    /// Whether it asks for a WebSocket upgrade.
    pub upgrades: bool,
}

impl RequestHead {
    /// The head at the front of `data`, once it is whole.
    ///
    /// # Errors
    ///
    /// `Protocol` when this is not HTTP.
    pub fn read(data: &[u8]) -> Result<Option<Self>> {
        let mut headers = [httparse::EMPTY_HEADER; head::MAX_HEADERS];
        let mut request = httparse::Request::new(&mut headers);
        let bad = |_| Error::protocol("the client does not speak HTTP");
        let httparse::Status::Complete(len) = request.parse(data).map_err(bad)? else {
            return Ok(None);
        };
        let value = |name: &str| {
            let found = request.headers.iter().find(|one| one.name.eq_ignore_ascii_case(name));
            found.map(|header| header.value.trim_ascii())
        };
        Ok(Some(Self {
            method: request.method.unwrap_or_default().to_ascii_uppercase(),
            target: request.path.unwrap_or_default().to_owned(),
            len,
            body: value("Content-Length").and_then(queue_core::decimal).unwrap_or_default(),
            upgrades: value("Upgrade").is_some_and(|word| word.eq_ignore_ascii_case(b"websocket")),
        }))
    }

    /// The action of its path and its encoding; `None` for other pages.
    #[must_use]
    pub fn action(&self) -> Option<(Action, Encoding)> {
        let path = self.target.split('?').next().unwrap_or_default();
        let name = path.strip_prefix("/queue/")?;
        let (name, encoding) = match name.rsplit_once('.') {
            Some((name, "bin")) => (name, Encoding::Binary),
            Some((name, "json")) => (name, Encoding::Json),
            _ => (name, Encoding::Json),
        };
        Some((Action::from_name(name)?, encoding))
    }
}

/// The beginning of a request or an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Heading {
    /// The action; `None` if there is no such action.
    pub action: Option<Action>,
    /// The request id.
    pub id: String,
    /// The queue's name.
    pub queue: String,
    /// The result of an answer: `ok` or an error text.
    pub result: Option<String>,
    /// In JSON, the number of the message that was pushed, pulled, or settled.
    pub message_id: Option<u64>,
    /// In binary, the length of everything before the body of a push, or of everything up to the result.
    pub len: usize,
}

impl Heading {
    /// Parses the beginning of a message; `is_answer` is whether a server sent it. Fields that have not arrived are
    /// missing.
    #[must_use]
    pub fn read(encoding: Encoding, message: &[u8], is_answer: bool) -> Self {
        match encoding {
            Encoding::Binary => in_binary(message, is_answer),
            Encoding::Json => {
                let mut heading = Self::default();
                let text = json::repaired(message);
                let mut deserializer = serde_json::Deserializer::from_slice(&text);
                // The message may be truncated; the fields read before that are kept.
                let _ = deserializer.deserialize_map(InJson(&mut heading));
                heading
            }
        }
    }
}

/// The beginning of a binary message, as far as it has arrived.
fn in_binary(message: &[u8], is_answer: bool) -> Heading {
    let mut heading = Heading::default();
    let mut rest = message;
    heading.action = rest.try_get_u8().ok().and_then(Action::from_code);
    let mut text =
        || binary::field(&mut rest).map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    heading.id = text().unwrap_or_default();
    heading.queue = text().unwrap_or_default();
    heading.result = if is_answer { text() } else { None };
    heading.len = message.len() - rest.len();
    heading
}

struct InJson<'a>(&'a mut Heading);

impl<'de> Visitor<'de> for InJson<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<(), M::Error> {
        while let Some(key) = map.next_key::<Cow<'de, str>>()? {
            match &*key {
                "action" => self.0.action = Action::from_name(&map.next_value::<String>()?),
                "requestid" => self.0.id = map.next_value()?,
                "queue" => self.0.queue = map.next_value()?,
                "result" => self.0.result = Some(map.next_value()?),
                "messageid" => self.0.message_id = map.next_value()?,
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_states_action_and_length() {
        let data = b"POST /queue/rpush.bin?queue=%2Fq HTTP/1.1\r\nHost: x\r\ncontent-length: 5\r\n\r\nhello";
        for cut in 0..data.len() - 5 {
            assert_eq!(RequestHead::read(&data[..cut]).unwrap(), None);
        }
        let head = RequestHead::read(data).unwrap().unwrap();
        assert_eq!((head.len, head.body, head.upgrades), (data.len() - 5, 5, false));
        assert_eq!(head.action(), Some((Action::Rpush, Encoding::Binary)));
        for (target, action) in [
            ("/queue/pull.json?queue=%2Fq", Some((Action::Pull, Encoding::Json))),
            ("/queue/count?queue=%2Fq", Some((Action::Count, Encoding::Json))),
            ("/queue/pull.xml", None),
            ("/stats", None),
        ] {
            let data = format!("GET {target} HTTP/1.1\r\n\r\n");
            let head = RequestHead::read(data.as_bytes()).unwrap().unwrap();
            assert_eq!(head.action(), action, "{target}");
        }
        let upgrade = b"GET /queue/json HTTP/1.1\nUpgrade: WebSocket\n\n";
        let head = RequestHead::read(upgrade).unwrap().unwrap();
        assert!(head.upgrades && head.action().is_none());
        assert!(RequestHead::read(b"\0\0\0\0").is_err());
    }

    #[test]
    fn a_partial_heading_is_parsed() {
        let expected = Heading {
            action: Some(Action::Rpush),
            id: "7".to_owned(),
            queue: "/q".to_owned(),
            result: None,
            message_id: None,
            len: 0,
        };
        let text = br#"{"action":"rpush","requestid":"7","queue":"/q","body":"cut o"#;
        assert_eq!(Heading::read(Encoding::Json, text, false), expected);
        let bytes = b"\x02\0\x017\0\x02/q\0\x05hel";
        let heading = Heading::read(Encoding::Binary, bytes, false);
        assert_eq!(heading, Heading { len: 8, ..expected.clone() });
        let bytes = b"\x02\0\x017\0\x02/q\0\x02ok\0\0\0\0\0\0\0\x09";
        let result = Some("ok".to_owned());
        let heading = Heading::read(Encoding::Binary, bytes, true);
        assert_eq!(heading, Heading { len: 12, result: result.clone(), ..expected.clone() });
        let text =
            br#"{"queue":"/q","result":"ok","action":"rpush","requestid":"7","messageid":9}"#;
        let heading = Heading::read(Encoding::Json, text, true);
        assert_eq!(heading, Heading { result, message_id: Some(9), ..expected });
        for cut in [&b""[..], b"\x02", b"\xff\0\x01", b"\x02\0\x017\xff\xff"] {
            assert_eq!(Heading::read(Encoding::Binary, cut, true).queue, "");
        }
    }

    #[test]
    fn a_frame_of_either_side_is_unmasked() {
        let frame =
            [&[0x82, 0x83, 1, 2, 3, 4][..], &[b'a' ^ 1, b'b' ^ 2, b'c' ^ 3], b"next"].concat();
        let head = FrameHead::read(&frame).unwrap().unwrap();
        assert_eq!((head.kind, head.len, head.payload), (FrameKind::Binary, 6, 3));
        assert_eq!(head.payload_of(&frame), b"abc");
        assert_eq!(head.payload_of(&frame[..7]), b"a");
        let head = FrameHead::read(&[0x81, 126, 1, 0]).unwrap().unwrap();
        assert_eq!((head.kind, head.len, head.payload), (FrameKind::Text, 4, 256));
        assert_eq!(FrameHead::read(&[0x81]).unwrap(), None);
        for (first, kind) in [
            (0x80, FrameKind::Part),
            (0x88, FrameKind::Close),
            (0x89, FrameKind::Ping),
            (0x8a, FrameKind::Pong),
        ] {
            assert_eq!(FrameHead::read(&[first, 0]).unwrap().unwrap().kind, kind);
        }
    }
}
