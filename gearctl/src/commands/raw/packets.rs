//! `raw --packet`: sends packets, and prints those that come back.

use std::ffi::OsString;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use ctl_core::error::{CliError, Exit};
use ctl_core::input::{Argument, Input};
use ctl_core::output::{Column, List, Record, Shape};
use ctl_core::text::encoding::{base64, from_base64, from_hex, hex};
use gearman_client::UniqueId;
use gearman_client::protocol::{Magic, Packet, PacketType};
use serde_json::{Value, json};

use super::RawArgs;
use crate::error::cli_error;
use crate::tool::Tool;

/// The largest argument that can be sent.
const MAX_ARGUMENT: u64 = 64 << 20;
/// Time limit for the answer to the echo without `--timeout`.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often to check for signals.
const SLICE: Duration = Duration::from_millis(100);

static PACKETS: Shape = Shape::rows(
    "packet",
    &[
        Column::new("packet", "PACKET"),
        Column::new("number", "NUMBER"),
        Column::new("size", "SIZE"),
        Column::new("body", "ARGUMENTS"),
    ],
);

/// Sends the packets, and prints what arrives.
///
/// # Errors
/// A packet cannot be built (65), the connection fails (69), the echo is not answered (124).
pub(super) fn run(tool: &mut Tool, args: &RawArgs) -> Result<Exit, CliError> {
    let build = |words: &Vec<OsString>| packet(words, &mut tool.input);
    let packets = args.packets.0.iter().map(build).collect::<Result<Vec<_>, _>>()?;
    if tool.globals.dry_run {
        let wires: Vec<String> = packets.iter().map(|packet| hex(&wire(packet))).collect();
        let sentence = format!("would send: {}", wires.join(" "));
        let record = Record::new().with("dry_run", true).with("packets", wires);
        return tool.out.done_with(&record, &["packets"], &sentence);
    }
    tool.out.expect(&PACKETS)?;
    let interrupts = tool.interrupts()?;
    let bound = tool.link.dialer.timeout().unwrap_or(PATIENCE);
    let (mut connection, address) = tool.link.open_packets()?;
    let structured = tool.out.style.format.has_records();
    let trace = tool.link.dialer.trace();
    // The echoed bytes, also the handle of a job that does not exist.
    let mark = [UniqueId::random().as_bytes(), b" gearctl"].concat();
    for packet in packets.iter().chain(&questions(&mark)?) {
        if trace.is_on() {
            trace.sent(hex(&wire(packet)));
        }
        connection.send(packet).map_err(cli_error)?;
    }
    let mut refused = false;
    let mut deadline = Instant::now().checked_add(bound);
    let mut answered = false;
    let mut list = tool.out.list(&PACKETS)?;
    let outcome = loop {
        if interrupts.requested().is_some() {
            break Ok(());
        }
        let left = deadline.map_or(SLICE, |at| at.saturating_duration_since(Instant::now()));
        let packet = match connection.next(left.min(SLICE)) {
            Ok(Some(packet)) => packet,
            Ok(None) if !left.is_zero() => {
                list.flush()?;
                continue;
            }
            Ok(None) if answered => break Ok(()),
            Ok(None) => {
                break Err(CliError::timeout(format!(
                    "{address} answers neither ECHO_REQ nor GET_STATUS"
                )));
            }
            Err(error) => break Err(cli_error(error)),
        };
        if trace.is_on() {
            trace.came(hex(&wire(&packet)));
        }
        if is_answer(&packet, &mark) {
            let Some(wait) = args.wait else { break Ok(()) };
            if !std::mem::replace(&mut answered, true) {
                deadline = Instant::now().checked_add(wait);
            }
            continue;
        }
        refused |= packet.packet_type == PacketType::Error;
        push(&mut list, &packet, structured)?;
    };
    // What has arrived is a result even if nothing more can arrive.
    if outcome.is_ok() || !structured {
        list.finish()?;
    }
    outcome?;
    if let Some(exit) = interrupts.requested() {
        return Ok(exit);
    }
    Ok(if refused { Exit::Negative } else { Exit::Done })
}

/// Requests of the tool's own; their answers follow all answers to earlier requests. There are two of them, because
/// geard leaves ECHO_REQ unanswered.
fn questions(mark: &[u8]) -> Result<[Packet; 2], CliError> {
    let ask = |kind| Packet::new(Magic::Request, kind, &[mark]).map_err(cli_error);
    Ok([ask(PacketType::EchoReq)?, ask(PacketType::GetStatus)?])
}

fn is_answer(packet: &Packet, mark: &[u8]) -> bool {
    match packet.packet_type {
        PacketType::EchoRes => packet.body == mark,
        PacketType::StatusRes => packet.body.starts_with(mark),
        _ => false,
    }
}

fn wire(packet: &Packet) -> BytesMut {
    let mut wire = BytesMut::new();
    packet.encode(&mut wire);
    wire
}

fn packet(words: &[OsString], input: &mut Input) -> Result<Packet, CliError> {
    let magic = Magic::Request;
    let Some((name, arguments)) = words.split_first() else {
        return Err(CliError::usage("a packet needs its name or number"));
    };
    let name = name.to_string_lossy();
    let load = |word: &OsString| argument(word, input);
    let arguments = arguments.iter().map(load).collect::<Result<Vec<_>, _>>()?;
    if let Ok(number) = name.parse::<u32>() {
        let body = Bytes::from(arguments.join(&0));
        return Ok(Packet { magic, packet_type: PacketType::from(number), body });
    }
    let packet_type = PacketType::from_name(&name).ok_or_else(|| {
        CliError::bad_data(format!("there is no packet `{name}`"))
            .hint("a name such as SUBMIT_JOB_BG, or a number")
    })?;
    Packet::new(magic, packet_type, &arguments)
        .map_err(|error| cli_error(error).hint("a packet given by number takes any arguments"))
}

fn argument(word: &OsString, input: &mut Input) -> Result<Vec<u8>, CliError> {
    if let Some(text) = word.to_str() {
        if let Some(digits) = text.strip_prefix("hex:") {
            return from_hex(digits).map_err(CliError::bad_data);
        }
        if let Some(digits) = text.strip_prefix("b64:") {
            return from_base64(digits).map_err(CliError::bad_data);
        }
    }
    Argument::parse(word).load(input, MAX_ARGUMENT)
}

fn push(list: &mut List<'_>, packet: &Packet, structured: bool) -> Result<(), CliError> {
    let record = Record::new()
        .with("packet", packet.packet_type.name())
        .with("number", packet.packet_type.number())
        .with("size", packet.body.len());
    list.push(if structured {
        // A packet with missing arguments is shown as the bytes that it has.
        let arguments = packet.arguments().unwrap_or_else(|_| vec![packet.body.clone()]);
        let all: Vec<Value> = arguments.iter().map(|argument| value(argument)).collect();
        record.with("arguments", all)
    } else {
        record.with_body(packet.body.to_vec())
    })
}

/// Text as it is, other bytes in base64.
fn value(bytes: &[u8]) -> Value {
    match std::str::from_utf8(bytes) {
        Ok(text) => json!(text),
        Err(_) => json!({ "base64": base64(bytes) }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn built(words: &[&str]) -> Result<Packet, CliError> {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        packet(&words, &mut Input::Bytes(b"in".to_vec()))
    }

    #[test]
    fn checks_names_but_not_numbers() {
        let submit = built(&["submit_job_bg", "f", "", "-"]).unwrap();
        assert_eq!((&submit.body[..], submit.packet_type.number()), (&b"f\0\0in"[..], 18));
        assert_eq!(built(&["SUBMIT_JOB", "f"]).unwrap_err().exit.code(), 65);
        assert_eq!(&built(&["7", "f"]).unwrap().body[..], b"f");
        let unknown = built(&["99", "hex:00ff", "b64:AQ=="]).unwrap();
        assert_eq!((unknown.packet_type.number(), &unknown.body[..]), (99, &b"\0\xff\0\x01"[..]));
        assert_eq!(built(&["NONSENSE"]).unwrap_err().exit.code(), 65);
        assert_eq!(built(&["ECHO_REQ", "hex:0"]).unwrap_err().exit.code(), 65);
    }
}
