//! The headers of WebSocket frames, by RFC 6455, and the key that accepts an upgrade.

use bytes::{BufMut, BytesMut};
use data_encoding::BASE64;
use sha1_smol::Sha1;

use crate::{Error, Result};

/// The part after a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OpCode {
    Part = 0,
    Text = 1,
    Binary = 2,
    Close = 8,
    Ping = 9,
    Pong = 10,
}

impl OpCode {
    fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            0 => OpCode::Part,
            1 => OpCode::Text,
            2 => OpCode::Binary,
            8 => OpCode::Close,
            9 => OpCode::Ping,
            10 => OpCode::Pong,
            _ => return None,
        })
    }

    pub(super) fn is_control(self) -> bool {
        matches!(self, OpCode::Close | OpCode::Ping | OpCode::Pong)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FrameHeader {
    pub(super) opcode: OpCode,
    pub(super) is_final: bool,
    /// Whether a reserved bit is set.
    pub(super) has_extension: bool,
    pub(super) mask: Option<[u8; 4]>,
}

/// The longest header.
pub(super) const MAX_HEADER: usize = 14;

impl FrameHeader {
    /// The header at the front of `data`, its own length, and that of the payload; `None` while it is incomplete.
    pub(super) fn read(data: &[u8]) -> Result<Option<(Self, usize, u64)>> {
        let Some(([first, second], rest)) = data.split_first_chunk() else { return Ok(None) };
        let (code, short) = (first & 0x0f, second & 0x7f);
        let Some(opcode) = OpCode::from_code(code) else {
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
        let header = FrameHeader { opcode, is_final, has_extension, mask };
        Ok(Some((header, data.len() - rest.len(), payload)))
    }

    /// Appends the header of a whole message, or of a control frame, with this mask.
    pub(super) fn write(opcode: OpCode, mask: [u8; 4], payload: usize, out: &mut BytesMut) {
        out.put_u8(0x80 | opcode as u8);
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
        for opcode in (0..16).filter_map(OpCode::from_code) {
            for payload in [0, 125, 126, 65_535, 65_536, 1 << 40] {
                let mut out = BytesMut::new();
                FrameHeader::write(opcode, [1, 2, 3, 4], payload, &mut out);
                assert!(out.len() <= MAX_HEADER);
                for len in 0..out.len() {
                    assert_eq!(FrameHeader::read(&out[..len]).unwrap(), None);
                }
                let mask = Some([1, 2, 3, 4]);
                let header = FrameHeader { opcode, is_final: true, has_extension: false, mask };
                let read = (header, out.len(), payload as u64);
                assert_eq!(FrameHeader::read(&out).unwrap(), Some(read));
            }
        }
    }
}
