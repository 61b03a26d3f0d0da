//! The decoder of a replay, which finds the numbers of messages in answers, over WebSocket and HTTP.
//!
//! Over HTTP, the head of an answer in chunks is a unit of its own: the server sends it before it acts, and a pull that
//! has begun to wait can be told from one that has not arrived.

use std::ops::Range;

use adf_queue_client::protocol::between::{FrameHead, FrameKind, Heading};
use adf_queue_client::protocol::http::Answer;
use adf_queue_client::protocol::{Action, Encoding};
use ctl_core::commands::tap::{Decoder, Id, Look, Said, Side};

use super::{Asked, Messages, frame};

/// The maximum length of an answer's body, in bytes.
const MAX_ANSWER: usize = 64 << 20;

/// The decoder of one connection of a replay. Only the client's part of what it says is of use.
#[derive(Debug, Default)]
pub struct Replayed {
    messages: Messages,
    /// The head of an answer whose chunks are next.
    head: Vec<u8>,
}

impl Decoder for Replayed {
    fn look(&mut self, side: Side, data: &[u8]) -> Look {
        match side {
            Side::Client => self.messages.look(side, data),
            Side::Server if self.messages.is_websocket => frame(data),
            Side::Server => self.part_of_answer(data),
        }
    }

    fn read(&mut self, side: Side, unit: &[u8], len: u64) -> Option<Said> {
        if side == Side::Client || self.messages.is_websocket {
            return self.messages.read(side, unit, len);
        }
        if self.head.is_empty() && is_chunked(unit) {
            self.head = unit.to_vec();
            return None;
        }
        self.head.clear();
        let asked = self.messages.asked.pop_front();
        self.messages.is_websocket = asked == Some(Asked::Upgrade) && status(unit) == b"101";
        None
    }

    fn ids(&self, side: Side, unit: &[u8]) -> Vec<Id> {
        let id = match side {
            // Clients give request ids themselves.
            Side::Client => None,
            Side::Server if self.messages.is_websocket => id_in_frame(unit),
            Side::Server => self.id_in_answer(unit),
        };
        id.into_iter().collect()
    }

    fn mend(&self, side: Side, unit: &mut Vec<u8>, change: i64) {
        match side {
            Side::Client => {}
            Side::Server if self.messages.is_websocket => resize_frame(unit, change),
            Side::Server if self.head.is_empty() => resize_body(unit, change),
            Side::Server => resize_chunk(unit, change),
        }
    }
}

impl Replayed {
    /// A whole answer, the head of one in chunks, or all of its chunks.
    fn part_of_answer(&self, data: &[u8]) -> Look {
        let mut answer = Answer::new(MAX_ANSWER);
        if self.head.is_empty() {
            match head_len(data) {
                None if data.len() > LONGEST_HEAD => return Look::Stranger(NO_ANSWER),
                None => return Look::More,
                Some(len) if is_chunked(data) => return Look::Unit(len as u64),
                Some(_) => {}
            }
        } else {
            // A long chunk is parsed only once it is whole.
            let is_long = |chunk: Range<usize>| chunk.end > data.len() && chunk.len() <= MAX_ANSWER;
            if chunk(data).is_some_and(is_long) {
                return Look::More;
            }
            if answer.read(&self.head).is_err() {
                return Look::Stranger(NO_ANSWER);
            }
        }
        match answer.read(data) {
            Ok(taken) if answer.is_whole() => Look::Unit(taken as u64),
            Ok(_) if answer.end() => Look::ToTheEnd,
            Ok(_) => Look::More,
            Err(_) => Look::Stranger(NO_ANSWER),
        }
    }

    fn id_in_answer(&self, unit: &[u8]) -> Option<Id> {
        let Some(Asked::Action(encoding)) = self.messages.asked.front() else { return None };
        let payload =
            if self.head.is_empty() { head_len(unit)?..unit.len() } else { only_chunk(unit)? };
        id_in(*encoding, unit, payload)
    }
}

const NO_ANSWER: &str = "it is not an HTTP response, or longer than 64 MiB";
/// The maximum length of a head, and of the line with a chunk's length, in bytes.
const LONGEST_HEAD: usize = 64 << 10;
const LONGEST_LINE: usize = 1024;

/// The length of the head at the front, including the empty line.
fn head_len(data: &[u8]) -> Option<usize> {
    let mut len = 0;
    for line in data.split_inclusive(|byte| *byte == b'\n') {
        len += line.len();
        if matches!(line, b"\n" | b"\r\n") {
            return Some(len);
        }
    }
    None
}

/// The value of a header, and where it is.
fn header<'a>(answer: &'a [u8], name: &str) -> Option<(&'a [u8], Range<usize>)> {
    let head = answer.get(..head_len(answer)?)?;
    let mut start = 0;
    for line in head.split_inclusive(|byte| *byte == b'\n') {
        let colon = line.iter().position(|byte| *byte == b':');
        if let Some((key, value)) = colon.and_then(|colon| line.split_at_checked(colon + 1))
            && key.strip_suffix(b":").is_some_and(|key| key.eq_ignore_ascii_case(name.as_bytes()))
        {
            let blanks = value.len() - value.trim_ascii_start().len();
            let value = value.trim_ascii();
            let at = start + key.len() + blanks;
            return Some((value, at..at + value.len()));
        }
        start += line.len();
    }
    None
}

fn is_chunked(answer: &[u8]) -> bool {
    header(answer, "Transfer-Encoding")
        .is_some_and(|(value, _)| value.eq_ignore_ascii_case(b"chunked"))
}

/// The code in the first line.
fn status(answer: &[u8]) -> &[u8] {
    let line = answer.split(|byte| *byte == b'\n').next().unwrap_or_default();
    line.split(|byte| *byte == b' ').nth(1).unwrap_or_default().trim_ascii()
}

/// Where the data of the chunk at the front is; its end may not have arrived.
fn chunk(data: &[u8]) -> Option<Range<usize>> {
    let line = data.iter().take(LONGEST_LINE).position(|byte| *byte == b'\n')?;
    let digits = data.get(..line)?.split(|byte| *byte == b';').next()?;
    let size = std::str::from_utf8(digits.trim_ascii()).ok()?;
    let size = usize::from_str_radix(size, 16).ok()?;
    Some(line + 1..(line + 1).checked_add(size)?)
}

/// The data of chunks that consist of a single one, which is how the server writes.
fn only_chunk(chunks: &[u8]) -> Option<Range<usize>> {
    let first = chunk(chunks)?;
    let rest = chunks.get(first.end..)?;
    let rest = rest.strip_prefix(b"\r\n").or_else(|| rest.strip_prefix(b"\n"))?;
    chunk(rest)?.is_empty().then_some(first)
}

fn id_in_frame(unit: &[u8]) -> Option<Id> {
    let head = FrameHead::read(unit).ok().flatten()?;
    let encoding = match head.kind {
        FrameKind::Binary => Encoding::Binary,
        FrameKind::Text => Encoding::Json,
        _ => return None,
    };
    // Frames of a server have no mask.
    id_in(encoding, unit, head.len..unit.len())
}

/// The number of a message in the answer that this part of a unit is; each queue counts its own.
fn id_in(encoding: Encoding, unit: &[u8], payload: Range<usize>) -> Option<Id> {
    let answer = unit.get(payload.clone())?;
    let at = match encoding {
        Encoding::Binary => answer.len().checked_sub(size_of::<u64>())?..answer.len(),
        _ => {
            // Within a text its quotation marks would be escaped.
            const KEY: &[u8] = b"\"messageid\":";
            let start = answer.windows(KEY.len()).rposition(|part| part == KEY)? + KEY.len();
            let digits = answer.get(start..)?.iter().take_while(|byte| byte.is_ascii_digit());
            start..start + digits.count()
        }
    };
    let heading = Heading::read(encoding, answer, true);
    let has_number =
        heading.action.is_some_and(|action| action.is_push() || action == Action::Pull);
    let is_given = has_number && heading.result.as_deref() == Some("ok") && !at.is_empty();
    let at = payload.start + at.start..payload.start + at.end;
    is_given.then(|| Id { at, space: Some(heading.queue.into_bytes()) })
}

/// Rewrites the head of a frame of a server whose payload has `change` more bytes than announced.
fn resize_frame(unit: &mut Vec<u8>, change: i64) {
    let Ok(Some(head)) = FrameHead::read(unit) else { return };
    let Some(first) = unit.first().copied() else { return };
    let payload = head.payload.saturating_add_signed(change);
    let mut new = vec![first];
    match (u8::try_from(payload), u16::try_from(payload)) {
        (Ok(length @ 0..=125), _) => new.push(length),
        (_, Ok(length)) => {
            new.push(126);
            new.extend(length.to_be_bytes());
        }
        _ => {
            new.push(127);
            new.extend(payload.to_be_bytes());
        }
    }
    unit.splice(..head.len.min(unit.len()), new);
}

/// The same for the `Content-Length` of an answer.
fn resize_body(unit: &mut Vec<u8>, change: i64) {
    let Some((value, at)) = header(unit, "Content-Length") else { return };
    let Some(length) = std::str::from_utf8(value).ok().and_then(|text| text.parse::<u64>().ok())
    else {
        return;
    };
    let length = length.saturating_add_signed(change).to_string();
    unit.splice(at, length.into_bytes());
}

/// The same for the length of the first chunk.
fn resize_chunk(unit: &mut Vec<u8>, change: i64) {
    let Some(chunk) = chunk(unit) else { return };
    let line = unit.get(..chunk.start).unwrap_or_default();
    let digits = line.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    let is_upper = line.iter().take(digits).any(u8::is_ascii_uppercase);
    let length = (chunk.len() as u64).saturating_add_signed(change);
    let length = if is_upper { format!("{length:X}") } else { format!("{length:x}") };
    unit.splice(..digits, length.into_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &[u8] = b"HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n";
    const BODY: &[u8] =
        b"4c\r\n{\"queue\":\"/q\",\"result\":\"ok\",\"action\":\"rpush\",\"requestid\":\"h2\",\"messageid\":9}\r\n0\r\n\r\n";

    fn asked(line: &str) -> Replayed {
        let mut replayed = Replayed::default();
        let request = format!("POST {line} HTTP/1.1\r\nContent-Length: 0\r\n\r\n");
        let len = request.len() as u64;
        assert_eq!(replayed.look(Side::Client, request.as_bytes()), Look::Unit(len));
        replayed.read(Side::Client, request.as_bytes(), len);
        replayed
    }

    #[test]
    fn a_head_comes_before_its_chunks() {
        let mut replayed = asked("/queue/rpush?queue=/q&requestid=h2");
        let answer = [HEAD, BODY].concat();
        for cut in 0..HEAD.len() {
            assert_eq!(replayed.look(Side::Server, &answer[..cut]), Look::More, "{cut}");
        }
        assert_eq!(replayed.look(Side::Server, &answer), Look::Unit(HEAD.len() as u64));
        assert_eq!(replayed.ids(Side::Server, HEAD), []);
        replayed.read(Side::Server, HEAD, HEAD.len() as u64);
        for cut in 0..BODY.len() {
            assert_eq!(replayed.look(Side::Server, &BODY[..cut]), Look::More, "{cut}");
        }
        let two = [BODY, HEAD].concat();
        assert_eq!(replayed.look(Side::Server, &two), Look::Unit(BODY.len() as u64));
    }

    #[test]
    fn the_length_of_a_chunk_grows_with_the_id_in_it() {
        let mut replayed = asked("/queue/rpush.json?queue=/q&requestid=h2");
        replayed.read(Side::Server, HEAD, HEAD.len() as u64);
        let ids = replayed.ids(Side::Server, BODY);
        let [Id { at, space: Some(space) }] = ids.as_slice() else { panic!("{ids:?}") };
        assert_eq!((&BODY[at.clone()], space.as_slice()), (&b"9"[..], &b"/q"[..]));
        let mut unit = BODY.to_vec();
        unit.splice(at.clone(), *b"12345");
        replayed.mend(Side::Server, &mut unit, 4);
        assert_eq!(replayed.look(Side::Server, &unit), Look::Unit(unit.len() as u64));
        assert!(unit.starts_with(b"50\r\n"));
        let mut upper = [&b"4C;x=1"[..], &unit[2..]].concat();
        replayed.mend(Side::Server, &mut upper, -2);
        assert!(upper.starts_with(b"4A;x=1\r\n"), "{upper:?}");
    }

    #[test]
    fn an_id_in_binary_is_at_the_end_of_the_chunk() {
        let mut replayed = asked("/queue/rpush.bin?queue=/q&requestid=1");
        replayed.read(Side::Server, HEAD, HEAD.len() as u64);
        let unit = b"14\r\n\x02\0\x011\0\x02/q\0\x02ok\0\0\0\0\0\0\0\x09\r\n0\r\n\r\n";
        let ids = replayed.ids(Side::Server, unit);
        assert_eq!(&unit[ids[0].at.clone()], b"\0\0\0\0\0\0\0\x09");
        // A refusal has no number, and neither has an answer in more chunks than the server writes.
        let no = b"1a\r\n\x02\0\x011\0\x01?\0\x11queue not exists.\r\n0\r\n\r\n";
        assert_eq!(replayed.ids(Side::Server, no), []);
        let two = b"c\r\n\x02\0\x011\0\x02/q\0\x02ok\r\n8\r\n\0\0\0\0\0\0\0\x09\r\n0\r\n\r\n";
        assert_eq!(replayed.look(Side::Server, two), Look::Unit(two.len() as u64));
        assert_eq!(replayed.ids(Side::Server, two), []);
    }

    #[test]
    fn an_answer_with_a_length_is_a_single_unit() {
        let mut replayed = asked("/queue/rpush.json?queue=/q&requestid=h2");
        let body = "{\"queue\":\"/q\",\"result\":\"ok\",\"action\":\"rpush\",\"requestid\":\"h2\",\"messageid\":9}";
        let answer = format!("HTTP/1.1 200 OK\r\ncontent-length:  {}\r\n\r\n{body}", body.len());
        let answer = answer.as_bytes();
        assert_eq!(replayed.look(Side::Server, answer), Look::Unit(answer.len() as u64));
        assert_eq!(replayed.look(Side::Server, &answer[..answer.len() - 1]), Look::More);
        let at = replayed.ids(Side::Server, answer)[0].at.clone();
        let mut unit = answer.to_vec();
        unit.splice(at, *b"1000");
        replayed.mend(Side::Server, &mut unit, 3);
        assert_eq!(replayed.look(Side::Server, &unit), Look::Unit(unit.len() as u64));
        replayed.read(Side::Server, answer, answer.len() as u64);
        assert!(replayed.messages.asked.is_empty());
    }

    #[test]
    fn what_is_no_answer_or_has_no_end_is_told() {
        let mut replayed = asked("/queue/count?queue=/q&requestid=1");
        assert!(matches!(replayed.look(Side::Server, b"nonsense\n\n"), Look::Stranger(_)));
        let endless = vec![b'x'; LONGEST_HEAD + 1];
        assert!(matches!(replayed.look(Side::Server, &endless), Look::Stranger(_)));
        assert_eq!(replayed.look(Side::Server, b"HTTP/1.0 200 OK\n\nabc"), Look::ToTheEnd);
        replayed.read(Side::Server, HEAD, HEAD.len() as u64);
        for chunk in ["x\r\n", "4000001\r\nx", "ffffffffffffffffff\r\n", &"1".repeat(2000)] {
            let look = replayed.look(Side::Server, chunk.as_bytes());
            assert!(matches!(look, Look::Stranger(_)), "{chunk}: {look:?}");
        }
        assert_eq!(replayed.look(Side::Server, b"4000000\r\nx"), Look::More);
    }
}
