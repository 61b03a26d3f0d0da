//! Finding packets in the received bytes, however they are split.

use bytes::Buf;
use queue_core::Io;

use crate::{
    Error, ErrorKind, Fate,
    error::excerpt,
    protocol::{Direction, Magic, Packet, PacketType, packet::HEADER},
};

/// Finds packets in a stream.
///
/// A read goes straight into the buffer, and a workload leaves it without being copied.
///
/// ```
/// use gearman_client::protocol::{Decoder, Magic, PacketType};
///
/// let mut decoder = Decoder::new(Magic::Response, 1 << 20);
/// let wire = b"\0RES\0\0\0\x11\0\0\0\x02hi";
/// decoder.space()[..wire.len()].copy_from_slice(wire);
/// decoder.received(wire.len());
/// let packet = decoder.next()?.expect("it is whole");
/// assert_eq!((packet.packet_type, &packet.body[..]), (PacketType::EchoRes, &b"hi"[..]));
/// # Ok::<(), gearman_client::Error>(())
/// ```
#[derive(Debug)]
pub struct Decoder {
    io: Io<()>,
    framing: Framing,
}

impl Decoder {
    /// Expects packets of one direction, of at most `max_packet` bytes.
    #[must_use]
    pub fn new(magic: Magic, max_packet: usize) -> Self {
        let mut io = Io::default();
        io.opened();
        Decoder { io, framing: Framing::new(magic, max_packet) }
    }

    /// Buffer space for the next read: never empty, and never sized by a length that the peer announced.
    pub fn space(&mut self) -> &mut [u8] {
        self.io.space()
    }

    /// Records that the first `n` bytes of [`space`](Self::space) were read.
    pub fn received(&mut self, n: usize) {
        self.io.came(n);
    }

    /// The next whole packet, or `None` if more bytes are needed.
    ///
    /// # Errors
    ///
    /// `Protocol` if the bytes are not a packet of the expected direction, `PacketTooLarge` over the limit; the stream
    /// is unusable then. A worker's job updates are accepted from a server with either magic.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Result<Option<Packet>, Error> {
        self.framing.take(&mut self.io)
    }
}

/// The packet format of one connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Framing {
    magic: Magic,
    max_packet: usize,
}

impl Framing {
    /// Packets of one direction, of at most `max_packet` bytes.
    pub(crate) fn new(magic: Magic, max_packet: usize) -> Self {
        Framing { magic, max_packet }
    }

    /// The next whole packet of a connection, or `None` if more bytes are needed. The body is not copied.
    ///
    /// # Errors
    ///
    /// The errors of [`Decoder::next`].
    pub(crate) fn take<F>(&self, io: &mut Io<F>) -> Result<Option<Packet>, Error> {
        let data = io.data();
        let magic = self.magic.bytes();
        let has_magic =
            data.first_chunk().map_or_else(|| magic.starts_with(data), |start| *start == magic);
        if !has_magic && !self.is_passed_on(data) {
            return Err(bad_magic(data));
        }
        let Some((packet_type, size)) = announced(data) else {
            io.want(0);
            return Ok(None);
        };
        if size > self.max_packet {
            return Err(Error::new(
                ErrorKind::PacketTooLarge,
                Fate::Unknown,
                format!(
                    "packet of {size} bytes is larger than the limit of {} (raise max_packet_size if this is expected)",
                    self.max_packet
                ),
            ));
        }
        let len = HEADER + size;
        let missing = len.saturating_sub(data.len());
        if missing > 0 {
            io.want(missing);
            return Ok(None);
        }
        let mut body = io.take(len);
        body.advance(HEADER);
        let magic = if has_magic { self.magic } else { Magic::Request };
        Ok(Some(Packet { magic, packet_type, body }))
    }

    /// Whether this may be a worker's message about its job, as the server received it: rustygeard passes these on with
    /// the magic of a request.
    fn is_passed_on(&self, data: &[u8]) -> bool {
        self.magic == Magic::Response
            && Magic::Request.bytes().starts_with(data.get(..4).unwrap_or(data))
            && number(data, 4).is_none_or(|number| {
                PacketType::from(number).direction() == Direction::WorkerToClient
            })
    }
}

/// The error for bytes that are not a packet.
fn bad_magic(data: &[u8]) -> Error {
    let what = if data.first() == Some(&0) {
        "the packet does not start with the expected magic"
    } else {
        "received text instead of a packet"
    };
    Error::protocol(what).with_detail(excerpt(data))
}

/// The type and the size of the packet that these bytes start with, once its header has arrived.
pub(crate) fn announced(data: &[u8]) -> Option<(PacketType, usize)> {
    Some((PacketType::from(number(data, 4)?), usize::try_from(number(data, 8)?).ok()?))
}

fn number(data: &[u8], at: usize) -> Option<u32> {
    data.get(at..at + 4)?.try_into().ok().map(u32::from_be_bytes)
}

#[cfg(test)]
pub(super) mod tests {
    use bytes::{Bytes, BytesMut};

    use super::*;

    /// The requests that were written.
    pub(crate) fn requests(wire: &[u8]) -> Vec<Packet> {
        decode_in_pieces(Magic::Request, wire, wire.len().max(1)).unwrap()
    }

    fn decode_in_pieces(magic: Magic, input: &[u8], piece: usize) -> Result<Vec<Packet>, Error> {
        let mut decoder = Decoder::new(magic, 4 << 20);
        let mut found = Vec::new();
        for mut chunk in input.chunks(piece) {
            while !chunk.is_empty() {
                let space = decoder.space();
                let n = chunk.len().min(space.len());
                space[..n].copy_from_slice(&chunk[..n]);
                decoder.received(n);
                chunk = &chunk[n..];
                while let Some(packet) = decoder.next()? {
                    found.push(packet);
                }
            }
        }
        assert_eq!(decoder.io.data(), b"");
        Ok(found)
    }

    /// rustygeard passes on the packets of workers unchanged.
    #[test]
    fn quirk_worker_packets_may_carry_the_request_magic() {
        for packet_type in PacketType::ALL {
            let packet =
                Packet { magic: Magic::Request, packet_type: *packet_type, body: "H:x:1".into() };
            let mut wire = BytesMut::new();
            packet.encode(&mut wire);
            for piece in [1, 4, 8, wire.len()] {
                match decode_in_pieces(Magic::Response, &wire, piece) {
                    Ok(found) => {
                        assert_eq!(packet_type.direction(), Direction::WorkerToClient);
                        assert_eq!(found, std::slice::from_ref(&packet), "{piece}");
                    }
                    Err(error) => {
                        assert_ne!(packet_type.direction(), Direction::WorkerToClient);
                        assert_eq!(error.kind(), ErrorKind::Protocol);
                    }
                }
            }
        }
    }

    #[test]
    fn a_packet_of_exactly_the_limit_is_taken() {
        let wire = b"\0RES\0\0\0\x11\0\0\0\x05hello";
        for (limit, is_taken) in [(5, true), (4, false)] {
            let mut decoder = Decoder::new(Magic::Response, limit);
            decoder.space()[..wire.len()].copy_from_slice(wire);
            decoder.received(wire.len());
            assert_eq!(decoder.next().is_ok_and(|packet| packet.is_some()), is_taken, "{limit}");
        }
    }

    #[test]
    fn an_invalid_packet_fails_at_its_first_byte() {
        for (bytes, message) in [
            (&b"E"[..], "received text instead of a packet: \"E\""),
            (b"ERR x\r\n", "received text instead of a packet: \"ERR x\\r\\n\""),
            (
                b"\0REQ\0\0\0\x11",
                "the packet does not start with the expected magic: \"\\x00REQ\\x00\\x00\\x00\\x11\"",
            ),
        ] {
            let error = decode_in_pieces(Magic::Response, bytes, bytes.len()).unwrap_err();
            assert_eq!((error.kind(), error.to_string().as_str()), (ErrorKind::Protocol, message));
        }
    }

    #[test]
    fn a_connections_packets_are_taken_whole_and_their_rest_is_asked_for() {
        let framing = Framing::new(Magic::Response, 1 << 20);
        let mut io = Io::<()>::default();
        io.opened();
        let wire = b"\0RES\0\0\0\x11\0\0\0\x02hi\0RES\0\0\0\x06\0\0\0\0\0RE";
        let mut taken = Vec::new();
        for byte in wire {
            io.space()[0] = *byte;
            io.came(1);
            while let Some(packet) = framing.take(&mut io).unwrap() {
                taken.push((packet.packet_type, packet.body));
            }
        }
        let expected = [(PacketType::EchoRes, "hi".into()), (PacketType::Noop, Bytes::new())];
        assert_eq!((&taken[..], io.data()), (&expected[..], &b"\0RE"[..]));
        io.space()[0] = b'X';
        io.came(1);
        assert_eq!(framing.take(&mut io).unwrap_err().kind(), ErrorKind::Protocol);
    }

    #[test]
    fn one_read_can_bring_the_rest_of_a_large_packet() {
        let framing = Framing::new(Magic::Response, 1 << 20);
        let mut io = Io::<()>::default();
        io.opened();
        let header = b"\0RES\0\0\0\x11\0\0\xea\x60";
        io.space()[..header.len()].copy_from_slice(header);
        io.came(header.len());
        assert_eq!(framing.take(&mut io).unwrap(), None);
        assert!(io.space().len() >= 60_000, "{}", io.space().len());
    }
}
