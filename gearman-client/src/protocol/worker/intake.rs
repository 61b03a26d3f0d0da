//! The packets that a worker takes off its connection.

use bytes::Buf;
use queue_core::Io;

use super::assignment::Grab;
use crate::{
    Error, ErrorKind,
    protocol::{
        Magic, Packet,
        decoder::{Framing, announced},
        packet::HEADER,
    },
};

/// Takes packets off a connection. A job over the limit is read, but not kept.
#[derive(Debug)]
pub(super) struct Intake {
    framing: Framing,
    limit: usize,
    /// Whether a job over the limit is skipped. Otherwise it is an error, as any other packet.
    skips: bool,
    skipping: Option<Skipping>,
}

/// The packets that were taken.
pub(super) enum TakenJob {
    Packet(Packet),
    /// The packet of a job over the limit, without its workload.
    Oversized(Packet, Oversize),
}

/// The size of a packet over the limit, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Oversize {
    pub(crate) size: usize,
    pub(crate) limit: usize,
}

#[derive(Debug)]
struct Skipping {
    start: Packet,
    size: usize,
    left: usize,
}

/// Maximum size of a job's arguments: gearmand takes none of more than 8 KiB, and there are at most four.
const LONGEST_START: usize = 32 << 10;

impl Intake {
    pub(super) fn new(limit: usize, skips: bool) -> Self {
        Intake { framing: Framing::new(Magic::Response, limit), limit, skips, skipping: None }
    }

    /// Starts on a new connection.
    pub(super) fn reopen(&mut self) {
        self.skipping = None;
    }

    /// The next packet, or `None` if more bytes are needed.
    ///
    /// # Errors
    ///
    /// As [`Framing::take`]. The server sends a job as long as it keeps it, so nothing can be said about one before all
    /// of it was read.
    pub(super) fn take<F>(&mut self, io: &mut Io<F>) -> Result<Option<TakenJob>, Error> {
        if self.skipping.is_none() {
            match self.framing.take(io) {
                Ok(packet) => return Ok(packet.map(TakenJob::Packet)),
                Err(error) if self.skips && error.kind() == ErrorKind::PacketTooLarge => {
                    self.skipping = Skipping::begin(io, error)?;
                }
                Err(error) => return Err(error),
            }
        }
        let limit = self.limit;
        let whole = self.skipping.take_if(|skipping| skipping.is_past(io));
        Ok(whole.map(|Skipping { start, size, .. }| {
            TakenJob::Oversized(start, Oversize { size, limit })
        }))
    }
}

impl Skipping {
    /// Begins to skip a job, once everything before its workload has arrived.
    ///
    /// # Errors
    ///
    /// The given one, for any other packet.
    fn begin<F>(io: &mut Io<F>, error: Error) -> Result<Option<Self>, Error> {
        let job = announced(io.data()).filter(|(kind, _)| Grab::answered_with(*kind).is_some());
        let Some((packet_type, size)) = job else { return Err(error) };
        let body = io.data().get(HEADER..).unwrap_or_default();
        let most = size.min(LONGEST_START);
        let body = body.get(..most).unwrap_or(body);
        let mut nuls = body.iter().enumerate().filter(|(_, byte)| **byte == 0);
        // One ends each argument but the workload.
        let Some((end, _)) = nuls.nth(packet_type.arguments().len() - 2) else {
            return if body.len() < most { Ok(None) } else { Err(error) };
        };
        let mut body = io.take(HEADER + end + 1);
        body.advance(HEADER);
        let start = Packet { magic: Magic::Response, packet_type, body };
        Ok(Some(Skipping { start, size, left: size - end - 1 }))
    }

    /// Drops what has arrived of the workload; returns whether that was the rest.
    fn is_past<F>(&mut self, io: &mut Io<F>) -> bool {
        let arrived = io.data().len().min(self.left);
        io.skip(arrived);
        self.left -= arrived;
        io.want(self.left);
        self.left == 0
    }
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;

    use super::*;
    use crate::protocol::PacketType;

    const LIMIT: usize = 30;

    fn wire(packet_type: PacketType, arguments: &[&str]) -> BytesMut {
        let mut wire = BytesMut::new();
        Packet::new(Magic::Response, packet_type, arguments).unwrap().encode(&mut wire);
        wire
    }

    fn bring(io: &mut Io<()>, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let space = io.space();
            let (piece, rest) = bytes.split_at(bytes.len().min(space.len()));
            space[..piece.len()].copy_from_slice(piece);
            io.came(piece.len());
            bytes = rest;
        }
    }

    /// What is taken of these bytes, and the largest number of bytes that had to be kept.
    fn taken(
        intake: &mut Intake,
        bytes: &[u8],
        piece: usize,
    ) -> Result<(Vec<TakenJob>, usize), Error> {
        let mut io = Io::default();
        io.opened();
        let (mut taken, mut kept) = (Vec::new(), 0);
        for piece in bytes.chunks(piece) {
            bring(&mut io, piece);
            while let Some(one) = intake.take(&mut io)? {
                taken.push(one);
            }
            kept = kept.max(io.data().len());
        }
        Ok((taken, kept))
    }

    #[test]
    fn a_job_over_the_limit_is_skipped_however_its_bytes_are_cut() {
        let workload = "w\0".repeat(500);
        for (packet_type, arguments) in [
            (PacketType::JobAssign, &["H:x:1", "f"][..]),
            (PacketType::JobAssignUniq, &["H:x:1", "f", ""]),
            (PacketType::JobAssignAll, &["H:x:1", "f", "u", "r"]),
        ] {
            let mut bytes = wire(packet_type, &[arguments, &[&workload]].concat());
            let size = bytes.len() - HEADER;
            bytes.extend(wire(PacketType::NoJob, &[]));
            for piece in 1..bytes.len() {
                let mut intake = Intake::new(LIMIT, true);
                let (taken, kept) = taken(&mut intake, &bytes, piece).unwrap();
                let [TakenJob::Oversized(start, oversize), TakenJob::Packet(next)] = &taken[..]
                else {
                    panic!("{packet_type}, {piece}: {} packets", taken.len());
                };
                assert_eq!(*oversize, Oversize { size, limit: LIMIT });
                assert_eq!(start.arguments().unwrap(), [arguments, &[""]].concat());
                assert_eq!(next.packet_type, PacketType::NoJob);
                assert!(kept <= HEADER + start.body.len(), "{kept} bytes are kept");
            }
        }
    }

    #[test]
    fn any_other_packet_over_the_limit_is_an_error() {
        let long = "x".repeat(2 * LONGEST_START);
        let mut short = wire(PacketType::JobAssign, &["H:x:1", &long[..LIMIT], "w"]);
        // It ends before its second argument does.
        short[11] -= 2;
        for (bytes, skips) in [
            (wire(PacketType::EchoRes, &[&long]), true),
            (wire(PacketType::JobAssign, &["H:x:1", &long, "w"]), true),
            (short, true),
            (wire(PacketType::JobAssign, &["H:x:1", "f", &long]), false),
        ] {
            // Each piece is searched from the start.
            for piece in [bytes.len().div_ceil(1000), 1000, bytes.len()] {
                let error = taken(&mut Intake::new(LIMIT, skips), &bytes, piece).err().unwrap();
                assert_eq!(error.kind(), ErrorKind::PacketTooLarge);
            }
        }
    }

    #[test]
    fn a_new_connection_begins_with_a_packet() {
        let job = wire(PacketType::JobAssign, &["H:x:1", "f", &"w".repeat(100)]);
        let mut intake = Intake::new(LIMIT, true);
        let (begun, _) = taken(&mut intake, &job[..50], 50).unwrap();
        assert!(begun.is_empty());
        intake.reopen();
        let (next, _) = taken(&mut intake, &wire(PacketType::NoJob, &[]), 100).unwrap();
        assert!(matches!(next[..], [TakenJob::Packet(_)]));
    }
}
