//! The few requests and answers that the scenarios need, in WebSocket frames.

use anyhow::{Context, Result, bail, ensure};

pub const RPUSH: u8 = 2;
pub const DELETE: u8 = 3;
pub const PULL: u8 = 4;
pub const CLEAR: u8 = 5;

/// What makes a connection one of frames.
pub const UPGRADE: &[u8] = b"GET /queue/bin HTTP/1.1\r\nHost: bench\r\nConnection: Upgrade\r\n\
    Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

/// A mask protects against guessing, which is irrelevant here.
const MASK: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];

/// Appends a request with a number for an id; a push has a body.
pub fn request(out: &mut Vec<u8>, action: u8, id: u64, queue: &[u8], body: Option<&[u8]>) {
    let mut digits = itoa::Buffer::new();
    let id = digits.format(id).as_bytes();
    let len = 5 + id.len() + queue.len() + body.map_or(0, |body| 2 + body.len());
    match u8::try_from(len) {
        Ok(len) if len < 126 => out.extend_from_slice(&[0x82, 0x80 | len]),
        // No request of a scenario is longer than this.
        _ => {
            out.extend_from_slice(&[0x82, 0x80 | 126]);
            out.extend_from_slice(&(len as u16).to_be_bytes());
        }
    }
    out.extend_from_slice(&MASK);
    let start = out.len();
    out.push(action);
    field(out, id);
    field(out, queue);
    if let Some(body) = body {
        field(out, body);
    }
    mask(out.get_mut(start..).unwrap_or_default());
}

fn field(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&(bytes.len() as u16).to_be_bytes());
    out.extend_from_slice(bytes);
}

fn mask(payload: &mut [u8]) {
    let (words, rest) = payload.as_chunks_mut::<4>();
    let mask = u32::from_ne_bytes(MASK);
    for word in words {
        *word = (u32::from_ne_bytes(*word) ^ mask).to_ne_bytes();
    }
    rest.iter_mut().zip(MASK).for_each(|(byte, mask)| *byte ^= mask);
}

/// An answer, as far as the scenarios need it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    pub action: u8,
    pub id: u64,
    /// Of a `clear`.
    pub count: u64,
}

/// The answer at the front, and the length of its frame.
pub fn answer(data: &[u8]) -> Result<Option<(Answer, usize)>> {
    let Some((head, rest)) = data.split_first_chunk::<2>() else { return Ok(None) };
    let (len, start) = match head {
        [0x82, 126] => match rest.split_first_chunk::<2>() {
            Some((len, _)) => (u16::from_be_bytes(*len).into(), 4),
            None => return Ok(None),
        },
        [0x82, 127] => match rest.split_first_chunk::<8>() {
            Some((len, _)) => (u64::from_be_bytes(*len) as usize, 10),
            None => return Ok(None),
        },
        [0x82, len] => ((*len).into(), 2),
        other => bail!("the server sent a frame that begins with {other:x?}"),
    };
    let Some(frame) = data.get(start..start + len) else { return Ok(None) };
    Ok(Some((read(frame).context("the server sent half an answer")??, start + len)))
}

fn read(frame: &[u8]) -> Option<Result<Answer>> {
    let (action, rest) = frame.split_first()?;
    let (id, rest) = split(rest)?;
    let (_queue, rest) = split(rest)?;
    let (result, rest) = split(rest)?;
    if result != b"ok" {
        return Some(Err(anyhow::anyhow!("the server said {}", result.escape_ascii())));
    }
    let id = id.iter().fold(0, |number, digit| number * 10 + u64::from(digit.wrapping_sub(b'0')));
    let count = match *action {
        CLEAR => u32::from_be_bytes(*rest.first_chunk()?).into(),
        _ => 0,
    };
    Some(Ok(Answer { action: *action, id, count }))
}

fn split(data: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = data.split_first_chunk::<2>()?;
    rest.split_at_checked(u16::from_be_bytes(*len).into())
}

/// The length of the answer to the upgrade, if all of it is here. Its lines may end without CR.
pub fn upgraded(data: &[u8]) -> Result<Option<usize>> {
    let end = |mark: &[u8]| Some(memchr::memmem::find(data, mark)? + mark.len());
    let Some(len) = end(b"\n\n").into_iter().chain(end(b"\r\n\r\n")).min() else { return Ok(None) };
    ensure!(data.starts_with(b"HTTP/1.1 101 "), "the server did not upgrade the connection");
    Ok(Some(len))
}
