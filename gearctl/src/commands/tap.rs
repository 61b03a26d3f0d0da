//! `tap`: shows what applications and the job server send each other.

use std::borrow::Cow;
use std::collections::VecDeque;

use bytes::Bytes;
use ctl_core::commands::tap::{Decoder, Look, Role, Said, Side};
use gearman_client::protocol::{AdminCommand, Magic, Packet, PacketType, ReplyShape};

/// The end of `tap --help`.
pub const HELP: &str = "\
Protocol: any packet.
A relay: clients and workers connect to it instead of the server, and it prints a line for each packet and each line of
the admin protocol: time, connection, sender, data size and, for replies, the server's response time, counted from the
last byte of the request, and (-o wide) which request it answers. Unsolicited packets (NOOP, a worker's job updates)
have no response time. No byte is changed or held back; closes and resets are passed on. Lines that cannot be written
fast enough are dropped and counted. The summary at the end goes to stderr.
--decode decodes bodies of up to 4 KiB, whatever --body says.
FILTER tests a line: verb==SUBMIT_JOB, size>1k, took>50ms, connection==3 or body~=REGEX; also from, to, args and error.

Examples:
  gearctl tap --listen 127.0.0.1:4731 --to 127.0.0.1:4730
  gearctl tap --slow 50ms -o ndjson
  gearctl tap --listen :4731 --filter 'verb==WORK_COMPLETE' --body 200";

/// The decoder of one connection.
#[derive(Debug, Default)]
pub struct Packets {
    /// How the answers to lines of administration end.
    lines: VecDeque<ReplyShape>,
    /// How much of a list has arrived.
    listed: u64,
}

/// Maximum number of lines waiting for their answers; beyond that, replies are treated as single lines.
const MOST_LINES: usize = 1024;

/// Magic, type and size.
const HEADER: usize = 12;

impl Decoder for Packets {
    fn look(&mut self, side: Side, data: &[u8]) -> Look {
        match data.first() {
            Some(0) => packet(side, data),
            Some(byte) if byte.is_ascii_control() && !b"\r\n".contains(byte) => {
                Look::Stranger("no Gearman packet or line starts like this")
            }
            _ => match data.iter().position(|byte| *byte == b'\n') {
                Some(end) => Look::Unit(end as u64 + 1),
                None => Look::More,
            },
        }
    }

    fn read(&mut self, side: Side, unit: &[u8], len: u64) -> Option<Said> {
        if unit.first() == Some(&0) {
            return Some(said(side, unit, len));
        }
        let line = unit.strip_suffix(b"\n").unwrap_or(unit);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        match side {
            Side::Client => Some(self.asked(line)),
            Side::Server => self.answered(line, len),
        }
    }
}

fn packet(side: Side, data: &[u8]) -> Look {
    const STRANGE: Look = Look::Stranger("it starts with NUL, but is not a Gearman packet");
    let magic = data.get(..4).unwrap_or(data);
    // Some servers pass on a worker's packet unchanged.
    let magics: &[Magic] = match side {
        Side::Client => &[Magic::Request],
        Side::Server => &[Magic::Response, Magic::Request],
    };
    if !magics.iter().any(|known| known.bytes().starts_with(magic)) {
        return STRANGE;
    }
    match number(data, 8) {
        Some(size) => Look::Unit(HEADER as u64 + u64::from(size)),
        None => Look::More,
    }
}

fn number(data: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(*data.get(at..)?.first_chunk()?))
}

/// The contents of a packet whose end may be cut off.
fn said(side: Side, unit: &[u8], len: u64) -> Said {
    let packet_type = PacketType::from(number(unit, 4).unwrap_or_default());
    let name: Cow<'static, str> = match packet_type {
        PacketType::Other(number) => format!("(type {number})").into(),
        known => known.name().into(),
    };
    let said = Said::new(name).error_if(packet_type == PacketType::Error);
    let said = Said { role: role(side, packet_type), ..said };
    let body = Bytes::copy_from_slice(unit.get(HEADER..).unwrap_or_default());
    let packet = Packet { magic: Magic::Request, packet_type, body };
    let names = packet_type.arguments();
    let has_data = names.last() == Some(&"data");
    let Ok(mut arguments) = packet.arguments() else { return said.of(&packet.body) };
    let data = if has_data { arguments.pop() } else { None };
    let said = said.of(&arguments.join(&b' '));
    match data {
        Some(data) => {
            let before = unit.len() - data.len();
            said.with_body(&data, len.saturating_sub(before as u64))
        }
        None => said,
    }
}

/// Matches answers with requests.
fn role(side: Side, packet_type: PacketType) -> Role {
    let is_it = |(_, asked, answered): &&Answered| match side {
        Side::Client => asked.contains(&packet_type),
        Side::Server => answered.contains(&packet_type),
    };
    match (ANSWERED.iter().find(is_it), side) {
        (Some((what, ..)), Side::Client) => Role::Asks((*what).into()),
        (Some((what, ..)), Side::Server) => Role::Answers(Some((*what).into())),
        (None, Side::Server) if packet_type == PacketType::Error => Role::Answers(None),
        (None, _) => Role::Tells,
    }
}

/// What a reply is about, the packets that ask for it, and those that bring it.
type Answered = (&'static str, &'static [PacketType], &'static [PacketType]);

const ANSWERED: &[Answered] = {
    use PacketType as Is;
    &[
        (
            "created",
            &[
                Is::SubmitJob,
                Is::SubmitJobBg,
                Is::SubmitJobHigh,
                Is::SubmitJobHighBg,
                Is::SubmitJobLow,
                Is::SubmitJobLowBg,
                Is::SubmitJobSched,
                Is::SubmitJobEpoch,
                Is::SubmitReduceJob,
                Is::SubmitReduceJobBackground,
            ],
            &[Is::JobCreated],
        ),
        (
            "grabbed",
            &[Is::GrabJob, Is::GrabJobUniq, Is::GrabJobAll],
            &[Is::NoJob, Is::JobAssign, Is::JobAssignUniq, Is::JobAssignAll],
        ),
        ("status", &[Is::GetStatus], &[Is::StatusRes]),
        ("status unique", &[Is::GetStatusUnique], &[Is::StatusResUnique]),
        ("echo", &[Is::EchoReq], &[Is::EchoRes]),
        ("option", &[Is::OptionReq], &[Is::OptionRes]),
    ]
};

/// The key of lines of administration.
const LINE: &str = "line";

impl Packets {
    fn asked(&mut self, line: &[u8]) -> Said {
        let command = AdminCommand::raw(line);
        if self.lines.len() < MOST_LINES {
            self.lines.push_back(command.as_ref().map_or(ReplyShape::Line, AdminCommand::shape));
        }
        let word = line.split(|byte| *byte == b' ').next().unwrap_or_default();
        let rest = line.get(word.len() + 1..).unwrap_or_default();
        let word = String::from_utf8_lossy(word.get(..64).unwrap_or(word)).into_owned();
        Said::new(word).of(rest).asks(LINE)
    }

    /// A list is reported as a whole, once its end has arrived.
    fn answered(&mut self, line: &[u8], len: u64) -> Option<Said> {
        let is_refusal = line.starts_with(b"ERR");
        let is_list = self.lines.front() == Some(&ReplyShape::List);
        if is_list && !(is_refusal && self.listed == 0) && line != b"." {
            self.listed = self.listed.saturating_add(len);
            return None;
        }
        self.lines.pop_front();
        let listed = std::mem::take(&mut self.listed);
        if is_list && !is_refusal {
            return Some(Said::new("(list)").with_body(b"", listed).answers(LINE));
        }
        let word = line.split(|byte| *byte == b' ').next().unwrap_or_default();
        let word = if word == b"OK" || word == b"ERR" { word } else { b"(line)" };
        let rest = line.strip_prefix(word).unwrap_or(line);
        let rest = rest.strip_prefix(b" ").unwrap_or(rest);
        let word = String::from_utf8_lossy(word).into_owned();
        Some(Said::new(word).of(rest).error_if(is_refusal).answers(LINE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unit(packets: &mut Packets, side: Side, bytes: &[u8]) -> Option<Said> {
        for cut in 1..bytes.len() {
            assert_eq!(
                packets.look(side, &bytes[..cut]),
                match cut {
                    cut if bytes[0] == 0 && cut >= HEADER => Look::Unit(bytes.len() as u64),
                    _ => Look::More,
                }
            );
        }
        assert_eq!(packets.look(side, bytes), Look::Unit(bytes.len() as u64));
        packets.read(side, bytes, bytes.len() as u64)
    }

    #[test]
    fn decodes_packets_with_truncated_data() {
        let mut packets = Packets::default();
        let bytes = b"\0REQ\0\0\0\x07\0\0\0\x09f n\0u\0abc";
        let said = unit(&mut packets, Side::Client, bytes).unwrap();
        assert_eq!((&*said.verb, &*said.arguments), ("SUBMIT_JOB", "f n u"));
        assert_eq!(said.body, Some((b"abc".to_vec(), 3)));
        let said = packets.read(Side::Client, &bytes[..19], 1 << 30).unwrap();
        assert_eq!(said.body.unwrap().1, (1 << 30) - 18);
        // None of its arguments has arrived whole.
        let said = packets.read(Side::Client, &bytes[..14], 1 << 30).unwrap();
        assert_eq!((&*said.arguments, said.body), ("f ", None));
        let said = unit(&mut packets, Side::Server, b"\0RES\0\0\0\x63\0\0\0\0").unwrap();
        assert_eq!(said.verb, "(type 99)");
        assert!(matches!(packets.look(Side::Client, b"\0RES"), Look::Stranger(_)));
        assert!(matches!(packets.look(Side::Server, b"\x16\x03"), Look::Stranger(_)));
    }

    #[test]
    fn treats_a_list_or_a_refusal_as_one_reply() {
        let mut packets = Packets::default();
        for line in [&b"status\n"[..], b"show jobs\r\n", b"version\n", b"workers\n"] {
            assert_eq!(
                unit(&mut packets, Side::Client, line).unwrap().role,
                Role::Asks(LINE.into())
            );
        }
        let mut told = Vec::new();
        for line in ["a\t1\t1\t1\n", "b\t0\t0\t0\n", ".\n", "ERR x y\r\n", "OK 1.1.21\n", ".\n"] {
            let said = unit(&mut packets, Side::Server, line.as_bytes());
            told.extend(said.map(|said| (said.verb, said.arguments, said.body.map(|body| body.1))));
        }
        let expected = [
            ("(list)", "", Some(16)),
            ("ERR", "x y", None),
            ("OK", "1.1.21", None),
            ("(list)", "", Some(0)),
        ];
        let expected = expected.map(|(verb, rest, size)| (verb.into(), rest.to_owned(), size));
        assert_eq!(told, expected);
    }
}
