//! Properties over random input: every request as the server reads it, and names. Junk is for the fuzz targets.

use std::time::Duration;

use bytes::BytesMut;
use fixtures::gearmand as server;
use gearman_client::{
    Address, ClientId, FunctionName, JobHandle, Priority, Servers, SubmitOptions, UniqueId,
    protocol::{AdminCommand, Echo, GetStatus, GetStatusUnique, PacketType, Request, Submit},
};
use proptest::prelude::*;

/// A name with any content.
fn plain() -> impl Strategy<Value = String> {
    "[!-~]{1,60}"
}

fn workload() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![any::<Vec<u8>>(), "(\0|\0REQ|\0RES|a|\r\n){0,20}".prop_map(String::into_bytes)]
}

/// A request as parsed by the server's own parser: one packet, and nothing after it.
fn as_read(request: &impl Request) -> server::Packet {
    let mut out = BytesMut::new();
    request.encode(&mut out);
    let mut decoder = server::decode::Decoder::new(server::Framing::Strict, 1 << 24);
    decoder.feed(&out);
    let Some(server::decode::Input::Packet(packet)) = decoder.next_input() else {
        panic!("no packet in {out:?}")
    };
    assert_eq!(decoder.next_input(), None);
    assert_eq!(packet.packet_type.number(), request.packet_type().number());
    packet
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// S3: the server finds exactly the arguments that were meant, whatever the workload.
    #[test]
    fn every_submission_is_one_correct_packet(
        function in plain(), unique in "[!-,.-~][!-~]{0,62}", reducer in plain(), data in workload(),
        kind in 0..9_usize, seconds in 0..u64::from(u32::MAX),
    ) {
        let name = FunctionName::try_from(&function).unwrap();
        let id = UniqueId::try_from(&unique).unwrap();
        let options = |priority| SubmitOptions::default().priority(priority).unique(id);
        let normal = options(Priority::Normal);
        let at = std::time::UNIX_EPOCH + Duration::from_secs(seconds);
        let sum = FunctionName::try_from(&reducer).unwrap();
        let submit = match kind {
            0 => Submit::foreground(name, &data, options(Priority::High)),
            1 => Submit::foreground(name, &data, normal),
            2 => Submit::foreground(name, &data, options(Priority::Low)),
            3 => Submit::background(name, &data, options(Priority::High)),
            4 => Submit::background(name, &data, normal),
            5 => Submit::background(name, &data, options(Priority::Low)),
            6 => Submit::epoch(name, &data, at, normal),
            7 => Submit::reduce(name, &data, sum, normal),
            _ => Submit::reduce_background(name, &data, sum, normal),
        }.unwrap();
        let read = as_read(&submit);
        prop_assert_eq!(read.argument(0), function.as_bytes());
        prop_assert_eq!(read.argument(1), unique.as_bytes());
        prop_assert_eq!(&read.data[..], &data[..]);
        match kind {
            6 => prop_assert_eq!(read.argument(2).to_vec(), seconds.to_string().into_bytes()),
            7 | 8 => {
                prop_assert_eq!(read.argument(2), reducer.as_bytes());
                // The server reads a fourth argument, which no client uses.
                prop_assert_eq!(read.arguments.len(), 4);
            }
            _ => prop_assert_eq!(read.arguments.len(), 2),
        }
    }

    #[test]
    fn every_question_is_one_correct_packet(
        handle in "[!-~]{1,63}", unique in "[!-,.-~][!-~]{0,62}", data in workload(),
    ) {
        let asked: JobHandle = handle.as_bytes().try_into().unwrap();
        prop_assert_eq!(as_read(&GetStatus(asked)).argument(0).to_vec(), handle.into_bytes());
        let id = UniqueId::try_from(&unique).unwrap();
        prop_assert_eq!(as_read(&GetStatusUnique(id)).argument(0).to_vec(), unique.into_bytes());
        let echo = as_read(&Echo(&data));
        prop_assert!(echo.data[..] == data[..] || *echo.argument(0) == data[..]);
    }

    /// S3, S4.
    #[test]
    fn only_legal_names_are_names(bytes in prop_oneof![any::<Vec<u8>>(), "[ -~]{0,70}".prop_map(String::into_bytes)]) {
        let visible = bytes.iter().all(|byte| (0x21..0x7f).contains(byte));
        let is = |longest: usize| visible && (1..=longest).contains(&bytes.len());
        let function = FunctionName::try_from(&bytes[..]);
        prop_assert_eq!(function.is_ok(), !bytes.is_empty() && !bytes.contains(&0));
        prop_assert_eq!(function.is_ok_and(|name| name.is_plain()), is(usize::MAX));
        if let Ok(text) = std::str::from_utf8(&bytes) {
            let unique = UniqueId::try_from(text);
            prop_assert!(unique.is_err() || (text != "-" && bytes.len() <= 63 && !bytes.contains(&0)));
            let client = ClientId::try_from(text);
            prop_assert!(client.is_err() || is(127));
            if let Ok(handle) = text.parse::<JobHandle>() {
                prop_assert!(handle.name().len() <= 63 && !handle.name().contains(&0));
                let again: JobHandle = handle.to_string().parse().unwrap();
                prop_assert_eq!(again.name(), handle.name());
            }
            // Whatever it is, there is no panic, and valid input stays unchanged.
            if let Ok(address) = text.parse::<Address>() {
                prop_assert_eq!(address.to_string().parse::<Address>().unwrap(), address);
            }
            let _ = text.parse::<Servers>();
            if let Ok(line) = AdminCommand::raw(text) {
                let mut out = BytesMut::new();
                line.encode(&mut out).unwrap();
                prop_assert_eq!(out.iter().filter(|byte| **byte == b'\n').count(), 1);
            }
        }
    }
}

/// The table is complete, and the same as the server's own.
#[test]
fn every_packet_type_of_the_protocol_is_in_the_table() {
    assert_eq!(PacketType::ALL.len(), 42);
    for (number, packet_type) in (1..=42).zip(PacketType::ALL) {
        assert_eq!((packet_type.number(), PacketType::from(number)), (number, *packet_type));
        if *packet_type != PacketType::Unused {
            assert_eq!(PacketType::from_name(packet_type.name()), Some(*packet_type));
        }
        let Some(known) = server::PacketType::from_number(number) else { continue };
        if known.as_str() == packet_type.name() {
            let arguments = known.arguments() + usize::from(known.has_data());
            assert_eq!(arguments, packet_type.arguments().len(), "{packet_type}");
        }
    }
    let other = PacketType::from(4711);
    assert_eq!((other, other.number()), (PacketType::Other(4711), 4711));
}
