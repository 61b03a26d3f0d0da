//! WebSocket without a socket: the upgrade of a connection, and its frames.
//!
//! The server sends each message as one unmasked frame, reads each frame as one message, ignores frames of the other
//! kind, answers a ping with an empty pong, and does not answer a close.

use bytes::{Buf, Bytes, BytesMut};
use data_encoding::BASE64;
use queue_core::Random;

use super::{
    Encoding,
    frame::{FrameHead, FrameKind, MAX_HEADER, accept_key, apply},
    head::{self, HttpHead},
};
use crate::{Error, ErrorKind, Fate, Result};

impl Encoding {
    /// The path of the server's WebSocket endpoint for this encoding.
    #[must_use]
    pub const fn websocket_path(self) -> &'static str {
        match self {
            Encoding::Binary => "/queue/bin",
            Encoding::Json => "/queue/json",
        }
    }

    fn kind(self) -> FrameKind {
        match self {
            Encoding::Binary => FrameKind::Binary,
            Encoding::Json => FrameKind::Text,
        }
    }
}

/// The upgrade of one connection.
#[derive(Debug)]
pub struct Upgrade {
    key: String,
}

impl Upgrade {
    /// Appends the request of a new upgrade. `host` is the value of the `Host` header; `random` determines the key,
    /// which distinguishes its answer from that of another request.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a host that the server would not read, because it is too long or not plain text.
    pub fn start(
        encoding: Encoding,
        host: &str,
        random: &mut Random,
        out: &mut BytesMut,
    ) -> Result<Self> {
        let host = head::host_line(host)?;
        let key = [random.next_u64(), random.next_u64()].map(u64::to_be_bytes).concat();
        let key = BASE64.encode(&key);
        let path = encoding.websocket_path();
        let lines = [
            &format!("GET {path} HTTP/1.1"),
            &host,
            "Connection: Upgrade",
            "Upgrade: websocket",
            "Sec-WebSocket-Version: 13",
            &format!("Sec-WebSocket-Key: {key}"),
        ];
        head::write(&lines, out)?;
        Ok(Upgrade { key })
    }

    /// The length of the answer at the front of `data`, once it is complete. Frames follow.
    ///
    /// # Errors
    ///
    /// `Protocol` when the server does not upgrade the connection, or is not a WebSocket server.
    pub fn finish(&self, data: &[u8]) -> Result<Option<usize>> {
        let Some(head) = HttpHead::read(data)? else { return Ok(None) };
        if head.status != 101 || !head.is("Upgrade", "websocket") {
            let status = head.status_line();
            return Err(Error::protocol(format!(
                "the server answered {status} instead of upgrading to WebSocket: is this an Adf.QueueServer?"
            )));
        }
        let expected = accept_key(&self.key);
        if head.get("Sec-WebSocket-Accept") != Some(expected.as_bytes()) {
            return Err(Error::protocol(
                "the answer to the WebSocket upgrade belongs to another request",
            ));
        }
        Ok(Some(head.len))
    }
}

/// Reads and writes the frames of one connection.
#[derive(Debug)]
pub struct Frames {
    encoding: Encoding,
    max_message: usize,
    masks: Random,
    /// The fragments of a message that an intermediary has split.
    parts: Option<BytesMut>,
}

/// An incoming frame from a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Incoming {
    /// A whole message of the connection's kind.
    Message(Bytes),
    /// A ping, to be answered by a pong with the same payload.
    Ping(Bytes),
    /// The answer to a ping. The real server does not return the ping's payload.
    Pong,
    /// The peer is about to close the connection.
    Close,
}

/// The front of the received bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FrontFrame {
    /// A frame.
    Frame(Frame),
    /// At least this number of bytes is missing.
    Missing(usize),
}

/// A complete frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    head: FrameHead,
    len: usize,
}

impl Frame {
    /// Its length in bytes, including the header.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "none is empty")]
    pub fn len(&self) -> usize {
        self.len
    }
}

/// The maximum payload of a ping, a pong or a close.
const MAX_CONTROL: usize = 125;

impl Frames {
    /// The frames of a new connection. `max_message` is the maximum length of a message in bytes; `seed` determines the
    /// masks.
    #[must_use]
    pub fn new(encoding: Encoding, max_message: usize, seed: u64) -> Self {
        Frames { encoding, max_message, masks: Random::new(seed), parts: None }
    }

    /// Appends a message.
    pub fn message(&mut self, message: &[u8], out: &mut BytesMut) {
        self.write(self.encoding.kind(), message, out);
    }

    /// Appends a ping. Any pong answers it, whatever its payload.
    pub fn ping(&mut self, out: &mut BytesMut) {
        self.write(FrameKind::Ping, b"", out);
    }

    /// Appends the answer to a ping, truncated to the maximum length of a pong.
    pub fn pong(&mut self, payload: &[u8], out: &mut BytesMut) {
        let payload = payload.get(..MAX_CONTROL).unwrap_or(payload);
        self.write(FrameKind::Pong, payload, out);
    }

    /// Appends a close. The server does not answer it, so close the connection after it.
    pub fn close(&mut self, out: &mut BytesMut) {
        // 1000: normal closure.
        self.write(FrameKind::Close, &[0x03, 0xe8], out);
    }

    fn write(&mut self, kind: FrameKind, payload: &[u8], out: &mut BytesMut) {
        let [mask @ .., _, _, _, _] = self.masks.next_u64().to_be_bytes();
        out.reserve(MAX_HEADER + payload.len());
        FrameHead::write(kind, mask, payload.len(), out);
        let start = out.len();
        out.extend_from_slice(payload);
        apply(mask, out.get_mut(start..).unwrap_or_default());
    }

    /// What is at the front of `data`. Nothing is allocated for an announced length.
    ///
    /// # Errors
    ///
    /// `Protocol` when it is not a frame of a server, `MessageTooLarge` when a message exceeds the limit.
    pub fn next(&self, data: &[u8]) -> Result<FrontFrame> {
        let Some(head) = FrameHead::read(data)? else { return Ok(FrontFrame::Missing(1)) };
        if head.mask.is_some() || head.has_extension {
            return Err(Error::protocol(
                "the frame is masked or uses an extension, which servers must not do",
            ));
        }
        let len = self.fits(head.kind, head.payload)?.saturating_add(head.len);
        Ok(match len.checked_sub(data.len()) {
            None | Some(0) => FrontFrame::Frame(Frame { head, len }),
            Some(missing) => FrontFrame::Missing(missing),
        })
    }

    /// Checks an announced length against the limits.
    fn fits(&self, kind: FrameKind, len: u64) -> Result<usize> {
        let short = usize::try_from(len).ok();
        if kind.is_control() {
            return short.filter(|len| *len <= MAX_CONTROL).ok_or_else(|| {
                Error::protocol(format!(
                    "a control frame of {len} bytes is larger than the limit of {MAX_CONTROL}"
                ))
            });
        }
        let before = self.parts.as_ref().map_or(0, BytesMut::len);
        let most = self.max_message.saturating_sub(before);
        short.filter(|len| *len <= most).ok_or_else(|| {
            let why = format!(
                "message of {} bytes is larger than the limit of {} (raise max_message_size if this is expected)",
                len.saturating_add(before as u64),
                self.max_message
            );
            Error::new(ErrorKind::MessageTooLarge, Fate::Unknown, why)
        })
    }

    /// The payload of a frame that [`next`](Self::next) has found at the front of `data`, if it is a whole message.
    pub(super) fn whole<'a>(&self, frame: &Frame, data: &'a [u8]) -> Option<&'a [u8]> {
        let is_whole =
            frame.head.is_final && frame.head.kind == self.encoding.kind() && self.parts.is_none();
        if is_whole { data.get(frame.head.len..frame.len) } else { None }
    }

    /// Reads a frame found by [`next`](Self::next), given its bytes. Returns `None` if it holds nothing for the caller.
    ///
    /// # Errors
    ///
    /// `Protocol` when a server must not send it here.
    pub fn read(&mut self, frame: &Frame, bytes: Bytes) -> Result<Option<Incoming>> {
        let mut payload = bytes;
        payload.advance(frame.head.len.min(payload.len()));
        let FrameHead { kind, is_final, .. } = frame.head;
        match kind {
            _ if kind.is_control() && !is_final => {
                Err(Error::protocol("a control frame is fragmented"))
            }
            FrameKind::Ping => Ok(Some(Incoming::Ping(payload))),
            FrameKind::Pong => Ok(Some(Incoming::Pong)),
            FrameKind::Close => Ok(Some(Incoming::Close)),
            FrameKind::Part => {
                let Some(mut parts) = self.parts.take() else {
                    return Err(Error::protocol(
                        "a continuation frame arrived without a message to continue",
                    ));
                };
                parts.extend_from_slice(&payload);
                if is_final {
                    return Ok(Some(Incoming::Message(parts.freeze())));
                }
                self.parts = Some(parts);
                Ok(None)
            }
            _ if kind != self.encoding.kind() || self.parts.is_some() => Err(Error::protocol(
                "the message has the wrong type (text or binary) for this path",
            )),
            _ if is_final => Ok(Some(Incoming::Message(payload))),
            _ => {
                self.parts = Some(payload.into());
                Ok(None)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(encoding: Encoding) -> Frames {
        Frames::new(encoding, 64 << 20, 1)
    }

    fn bytes(data: &'static [u8]) -> Bytes {
        Bytes::from_static(data)
    }

    fn start(encoding: Encoding, host: &str, out: &mut BytesMut) -> Result<Upgrade> {
        Upgrade::start(encoding, host, &mut Random::new(7), out)
    }

    /// The first frame and its length.
    fn take(frames: &mut Frames, data: &Bytes) -> Result<(usize, Option<Incoming>)> {
        match frames.next(data)? {
            FrontFrame::Frame(frame) => {
                let bytes = data.slice(..frame.len());
                Ok((frame.len(), frames.read(&frame, bytes)?))
            }
            FrontFrame::Missing(missing) => panic!("{missing} bytes are missing"),
        }
    }

    /// The real server's answer, under Mono or on Windows.
    fn answer(key: &str, end: &str) -> String {
        let accept = accept_key(key);
        ["HTTP/1.1 101 Switching Protocols", "Upgrade: websocket", "Connection: Upgrade"]
            .map(|line| format!("{line}{end}"))
            .concat()
            + &format!("Sec-WebSocket-Accept: {accept}{end}{end}")
    }

    #[test]
    fn an_upgrade_is_asked_for_and_its_answer_is_read_however_it_is_cut() {
        let mut out = BytesMut::new();
        let upgrade = start(Encoding::Binary, "127.0.0.1:6230", &mut out).unwrap();
        let asked = String::from_utf8(out.to_vec()).unwrap();
        assert!(
            asked.starts_with("GET /queue/bin HTTP/1.1\r\nHost: 127.0.0.1:6230\r\n"),
            "{asked}"
        );
        let mut again = BytesMut::new();
        start(Encoding::Binary, "127.0.0.1:6230", &mut again).unwrap();
        assert_eq!(asked.as_bytes(), again, "the same seed gives the same bytes");
        assert!(asked.ends_with("\r\n\r\n") && !asked.contains("Protocol:"), "{asked}");
        for end in ["\n", "\r\n"] {
            let whole = answer(&upgrade.key, end);
            for len in 0..whole.len() {
                assert_eq!(upgrade.finish(&whole.as_bytes()[..len]).unwrap(), None);
            }
            let more = format!("{whole}\x02frames");
            assert_eq!(upgrade.finish(more.as_bytes()).unwrap(), Some(whole.len()));
        }
    }

    #[test]
    fn reports_a_failed_upgrade() {
        let mut out = BytesMut::new();
        let upgrade = start(Encoding::Json, "q", &mut out).unwrap();
        let said = |data: &[u8]| upgrade.finish(data).unwrap_err().to_string();
        assert_eq!(
            said(b"HTTP/1.1 200 OK\nContent-Type: text/html\n\n"),
            "the server answered 200 OK instead of upgrading to WebSocket: is this an Adf.QueueServer?"
        );
        let right = answer(&upgrade.key, "\n");
        for (part, other) in [("101", "200"), ("Upgrade: websocket", "Upgrade: h2c")] {
            assert!(said(right.replace(part, other).as_bytes()).contains("instead of upgrading"));
        }
        assert!(said(answer("another key", "\n").as_bytes()).contains("another request"));
        assert!(said(b"UNKNOWN_COMMAND\r\n").contains("does not speak HTTP"));
        let endless = [&b"HTTP/1.1 101 X\nA: "[..], &[b'a'; 17 << 10]].concat();
        assert!(said(&endless).contains("longer than 16384 bytes"));
        let long = "h".repeat(513);
        let before = out.clone();
        assert!(start(Encoding::Json, &long, &mut out).is_err());
        assert!(start(Encoding::Json, "a\r\nX: y", &mut out).is_err());
        assert_eq!(out, before);
    }

    #[test]
    fn a_message_is_one_masked_frame() {
        let mut frames = frames(Encoding::Binary);
        for (len, header) in [(8, 6), (125, 6), (126, 8), (65_535, 8), (65_536, 14)] {
            let mut out = BytesMut::new();
            frames.message(&vec![7; len], &mut out);
            assert_eq!((out[0], out.len()), (0x82, header + len));
            let mask: [u8; 4] = out[header - 4..header].try_into().unwrap();
            assert!(
                out[header..].iter().zip(mask.iter().cycle()).all(|(byte, mask)| byte ^ mask == 7)
            );
        }
        let mut out = BytesMut::new();
        frames.close(&mut out);
        assert_eq!((out[0], out[1], out.len()), (0x88, 0x82, 8));
    }

    #[test]
    fn frames_of_the_real_server_are_read_however_they_are_cut() {
        let data = bytes(b"\x82\x0c\x09\0\x011\0\x02/q\0\x02ok\x8a\0");
        let mut frames = frames(Encoding::Binary);
        for len in 0..14 {
            let missing = frames.next(&data.slice(..len)).unwrap();
            assert!(
                matches!(missing, FrontFrame::Missing(n) if n > 0 && n <= 14 - len),
                "{missing:?}"
            );
        }
        let message = bytes(b"\x09\0\x011\0\x02/q\0\x02ok");
        let first = take(&mut frames, &data).unwrap();
        assert_eq!(first, (14, Some(Incoming::Message(message))));
        assert_eq!(take(&mut frames, &data.slice(14..)).unwrap(), (2, Some(Incoming::Pong)));
        let close = take(&mut frames, &bytes(b"\x88\0")).unwrap();
        assert_eq!(close, (2, Some(Incoming::Close)));
    }

    #[test]
    fn a_message_that_was_split_on_its_way_is_put_together() {
        let mut frames = frames(Encoding::Json);
        let parts = [
            (bytes(b"\x01\x01{"), None),
            (bytes(b"\x89\x01?"), Some(Incoming::Ping(bytes(b"?")))),
            (bytes(b"\0\x01 "), None),
            (bytes(b"\x80\x01}"), Some(Incoming::Message(bytes(b"{ }")))),
        ];
        for (frame, incoming) in parts {
            assert_eq!(take(&mut frames, &frame).unwrap(), (3, incoming));
        }
    }

    #[test]
    fn an_invalid_server_frame_is_an_error() {
        for (data, why) in [
            (&b"\x82\x81abcdx"[..], "masked"),
            (b"\xc2\x01x", "an extension"),
            (b"\x81\x01x", "wrong type"),
            (b"\x80\x01x", "without a message"),
            (b"\x89\x7e\0\x7e", "larger than the limit"),
            (b"\x09\x01x", "fragmented"),
            (b"\x82\x7f\0\0\0\0\x04\0\0\x01", "larger than the limit"),
            (b"\x82\x7f\xff\xff\xff\xff\xff\xff\xff\xff", "larger than the limit"),
            (b"\x83\x01x", "does not speak WebSocket"),
        ] {
            let error = take(&mut frames(Encoding::Binary), &bytes(data)).unwrap_err();
            assert!(error.to_string().contains(why), "{data:x?}: {error}");
        }
        let mut frames = Frames::new(Encoding::Binary, 3, 1);
        take(&mut frames, &bytes(b"\x02\x02ab")).unwrap();
        let error = take(&mut frames, &bytes(b"\x80\x02cd")).unwrap_err();
        assert_eq!(*error.kind(), ErrorKind::MessageTooLarge);
    }
}
