//! The headers of WebSocket frames, by RFC 6455, and the key that accepts an upgrade.

use bytes::{BufMut, BytesMut};
use data_encoding::BASE64;
use sha1_smol::Sha1;

use crate::{Error, Result};

/// The kind of a WebSocket frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FrameKind {
    /// A continuation of a message.
    Part = 0,
    /// A JSON message, or its beginning.
    Text = 1,
    /// A binary message, or its beginning.
    Binary = 2,
    /// A close.
    Close = 8,
    /// A ping.
    Ping = 9,
    /// A pong.
    Pong = 10,
}

impl FrameKind {
    fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            0 => FrameKind::Part,
            1 => FrameKind::Text,
            2 => FrameKind::Binary,
            8 => FrameKind::Close,
            9 => FrameKind::Ping,
            10 => FrameKind::Pong,
            _ => return None,
        })
    }

    pub(super) fn is_control(self) -> bool {
        matches!(self, FrameKind::Close | FrameKind::Ping | FrameKind::Pong)
    }
}

/// The header of a WebSocket frame, from either side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FrameHead {
    /// Its kind.
    pub kind: FrameKind,
    /// The length of the header in bytes.
    pub len: usize,
    /// The length of the payload in bytes.
    pub payload: u64,
    pub(super) is_final: bool,
    /// Whether a reserved bit is set.
    pub(super) has_extension: bool,
    pub(super) mask: Option<[u8; 4]>,
}

/// The longest header.
pub(super) const MAX_HEADER: usize = 14;

impl FrameHead {
    /// The header at the front of `data`, once it is whole.
    ///
    /// # Errors
    ///
    /// `Protocol` when this is not a frame.
    pub fn read(data: &[u8]) -> Result<Option<Self>> {
        let Some(([first, second], rest)) = data.split_first_chunk() else { return Ok(None) };
        let (code, short) = (first & 0x0f, second & 0x7f);
        let Some(kind) = FrameKind::from_code(code) else {
            let why = format!("the peer does not speak WebSocket: {code} is no kind of frame");
            return Err(Error::protocol(why));
        };
        let long = match short {
            126 => {
                rest.split_first_chunk().map(|(len, rest)| (u16::from_be_bytes(*len).into(), rest))
            }
            127 => rest.split_first_chunk().map(|(len, rest)| (u64::from_be_bytes(*len), rest)),
            _ => Some((short.into(), rest)),
        };
        let Some((payload, mut rest)) = long else { return Ok(None) };
        let mut mask = None;
        if second & 0x80 != 0 {
            let Some((key, behind)) = rest.split_first_chunk() else { return Ok(None) };
            (mask, rest) = (Some(*key), behind);
        }
        let (is_final, has_extension) = (first & 0x80 != 0, first & 0x70 != 0);
        let len = data.len() - rest.len();
        Ok(Some(FrameHead { kind, len, payload, is_final, has_extension, mask }))
    }

    /// The unmasked payload of the frame at the front of `data`, as far as it has arrived.
    #[must_use]
    pub fn payload_of(&self, data: &[u8]) -> Vec<u8> {
        let end = usize::try_from(self.payload).unwrap_or(usize::MAX).saturating_add(self.len);
        let mut payload = data.get(self.len..end.min(data.len())).unwrap_or_default().to_vec();
        if let Some(mask) = self.mask {
            apply(mask, &mut payload);
        }
        payload
    }

    /// Appends the header of a whole message, or of a control frame, with this mask.
    pub(super) fn write(kind: FrameKind, mask: [u8; 4], payload: usize, out: &mut BytesMut) {
        out.put_u8(0x80 | kind as u8);
        match (u8::try_from(payload), u16::try_from(payload)) {
            (Ok(len @ 0..126), _) => out.put_u8(0x80 | len),
            (_, Ok(len)) => {
                out.put_u8(0x80 | 126);
                out.put_u16(len);
            }
            _ => {
                out.put_u8(0x80 | 127);
                out.put_u64(payload as u64);
            }
        }
        out.extend_from_slice(&mask);
    }
}

/// Masks `payload`, eight bytes at a time.
pub(super) fn apply(mask: [u8; 4], payload: &mut [u8]) {
    let (words, rest) = payload.as_chunks_mut::<8>();
    let wide = u64::from(u32::from_ne_bytes(mask)) * 0x1_0000_0001;
    for word in words {
        *word = (u64::from_ne_bytes(*word) ^ wide).to_ne_bytes();
    }
    rest.iter_mut().zip(mask.into_iter().cycle()).for_each(|(byte, mask)| *byte ^= mask);
}

/// The answer to an upgrade with this key.
pub(super) fn accept_key(key: &str) -> String {
    let text = format!("{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11");
    BASE64.encode(&Sha1::from(text).digest().bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_accepted_as_in_the_standard() {
        assert_eq!(accept_key("dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }

    #[test]
    fn a_header_is_read_as_it_is_written_and_not_before_it_is_whole() {
        for kind in (0..16).filter_map(FrameKind::from_code) {
            for payload in [0, 125, 126, 65_535, 65_536, 1 << 40] {
                let mut out = BytesMut::new();
                FrameHead::write(kind, [1, 2, 3, 4], payload, &mut out);
                assert!(out.len() <= MAX_HEADER);
                for len in 0..out.len() {
                    assert_eq!(FrameHead::read(&out[..len]).unwrap(), None);
                }
                let (len, payload, mask) = (out.len(), payload as u64, Some([1, 2, 3, 4]));
                let (is_final, has_extension) = (true, false);
                let head = FrameHead { kind, len, payload, is_final, has_extension, mask };
                assert_eq!(FrameHead::read(&out).unwrap(), Some(head));
            }
        }
    }
}
