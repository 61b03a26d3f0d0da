//! Reading and writing bytes, with code that neither the clients nor the in-memory server have.

use crate::adf_queue_differential::step::Frame;

/// Appends a frame as clients send it: masked.
pub(crate) fn write_frame(frame: &Frame, out: &mut Vec<u8>) {
    const MASK: [u8; 4] = [0x5a, 0x01, 0xff, 0x00];
    let length = frame.payload.len();
    out.push(frame.opcode | if frame.is_last { 0x80 } else { 0 });
    match (u8::try_from(length), u16::try_from(length)) {
        (Ok(short @ 0..126), _) => out.push(0x80 | short),
        (_, Ok(middle)) => {
            out.push(0x80 | 126);
            out.extend(middle.to_be_bytes());
        }
        _ => {
            out.push(0x80 | 127);
            out.extend((length as u64).to_be_bytes());
        }
    }
    out.extend(MASK);
    out.extend(frame.payload.iter().zip(MASK.iter().cycle()).map(|(byte, mask)| byte ^ mask));
}

/// A request in binary.
pub(crate) fn binary(action: u8, id: &[u8], queue: &[u8], body: Option<&[u8]>) -> Vec<u8> {
    let mut bytes = vec![action];
    for part in [Some(id), Some(queue), body].into_iter().flatten() {
        bytes.extend(u16::try_from(part.len()).expect("a short part").to_be_bytes());
        bytes.extend(part);
    }
    bytes
}

/// Takes the first frame of a server: its first byte, and its payload.
pub(crate) fn take_frame(bytes: &mut Vec<u8>) -> Option<(u8, Vec<u8>)> {
    let [first, second] = *bytes.first_chunk()?;
    let (length, start): (usize, usize) = match second {
        126 => (usize::from(u16::from_be_bytes(*bytes.get(2..)?.first_chunk()?)), 4),
        127 => (usize::try_from(u64::from_be_bytes(*bytes.get(2..)?.first_chunk()?)).ok()?, 10),
        // A mask would be wrong, and its length with it.
        length => (usize::from(length), 2),
    };
    let payload = bytes.get(start..start.checked_add(length)?)?.to_vec();
    bytes.drain(..start + length);
    Some((first, payload))
}

/// The received part of an answer over HTTP.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    /// Status line and headers, with their lines ended in one way and the host's name taken out.
    Head(String),
    /// Bytes of the body, as a chunk or whole.
    Body(Vec<u8>),
    /// The end of the answer.
    Done,
}

/// Reads answers over HTTP piece by piece.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    /// The rest of the current one.
    left: Left,
    /// The current one is the last.
    pub(crate) is_last: bool,
    /// The current one is a page for people, of which only the rows are compared.
    pub(crate) is_page: bool,
}

#[derive(Debug, Default)]
enum Left {
    /// It has not started.
    #[default]
    All,
    Chunks,
    Bytes(usize),
}

impl Answers {
    /// Takes the next piece off the front. To a request with HEAD the answer has no body.
    pub(crate) fn take(&mut self, bytes: &mut Vec<u8>, is_head: bool) -> Option<Piece> {
        match self.left {
            Left::All => self.take_head(bytes, is_head),
            Left::Bytes(0) => {
                self.left = Left::All;
                Some(Piece::Done)
            }
            Left::Bytes(length) => {
                let body = bytes.get(..length)?.to_vec();
                bytes.drain(..length);
                self.left = Left::Bytes(0);
                Some(Piece::Body(body))
            }
            Left::Chunks => {
                let line = bytes.windows(2).position(|pair| pair == b"\r\n")?;
                let length = std::str::from_utf8(&bytes[..line]).ok();
                let length = length.and_then(|text| usize::from_str_radix(text, 16).ok());
                let length = length.unwrap_or_else(|| panic!("no chunk: {:?}", lossy(bytes)));
                let start = line + 2;
                let chunk = bytes.get(start..start + length)?.to_vec();
                assert_eq!(bytes.get(start + length..start + length + 2)?, b"\r\n");
                bytes.drain(..start + length + 2);
                if length == 0 {
                    self.left = Left::All;
                    return Some(Piece::Done);
                }
                Some(Piece::Body(chunk))
            }
        }
    }

    fn take_head(&mut self, bytes: &mut Vec<u8>, is_head: bool) -> Option<Piece> {
        let (end, behind) = head_end(bytes)?;
        let mut lines = Vec::new();
        for line in lossy(&bytes[..end]).lines() {
            let value = line.split_once(": ");
            lines.push(match value {
                Some(("Via", _)) => "Via: *".to_owned(),
                _ => line.to_owned(),
            });
        }
        bytes.drain(..behind);
        let has = |header: &str| lines.iter().any(|line| line == header);
        let length = lines.iter().find_map(|line| line.strip_prefix("Content-Length: "));
        self.is_last = !has("Connection: keep-alive");
        let is_chunked = has("Transfer-Encoding: chunked");
        self.is_page = is_chunked && has("Content-Type: text/html");
        self.left = match length {
            _ if is_head => Left::Bytes(0),
            _ if is_chunked => Left::Chunks,
            Some(length) => Left::Bytes(length.parse().expect("a length")),
            None => Left::Bytes(0),
        };
        Some(Piece::Head(lines.join("\n")))
    }
}

/// Where a head ends, and where the rest begins.
pub(crate) fn head_end(bytes: &[u8]) -> Option<(usize, usize)> {
    let ends = [&b"\r\n\r\n"[..], b"\n\n"].into_iter().filter_map(|end| {
        let at = bytes.windows(end.len()).position(|part| part == end)?;
        Some((at, at + end.len()))
    });
    ends.min()
}

/// The rows of a status page: names, and their three numbers.
pub(crate) fn rows(page: &str) -> Vec<String> {
    let cells = page.split("<td align=\"").skip(1).filter_map(|cell| {
        let (_, text) = cell.split_once("\">")?;
        Some(text.split_once("</td>")?.0.to_owned())
    });
    cells.collect()
}

pub(crate) fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
