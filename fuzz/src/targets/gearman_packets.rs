//! The packets of Gearman, read by the decoder of both roles.

use bytes::BytesMut;
use gearman_client::protocol::{Decoder, Magic, Packet};

use super::pieces::{Cut, copy, cuts};

/// The packets are the same however the bytes are cut, and written again they are the bytes that came.
pub fn gearman_packets(data: &[u8]) {
    let magic = if data.starts_with(b"\0REQ") { Magic::Request } else { Magic::Response };
    for max_packet in [64, 1 << 16] {
        let (whole, error) = packets(data, Cut::Whole, magic, max_packet);
        for cut in cuts(data) {
            let other = packets(data, cut, magic, max_packet);
            assert_eq!(other, (whole.clone(), error.clone()), "cut as {cut:?}");
        }
        let mut again = BytesMut::new();
        for packet in &whole {
            packet.encode(&mut again);
            check_arguments(packet);
        }
        assert!(data.starts_with(&again), "what was read is not what came");
    }
}

/// The packets, and what ended them.
fn packets(data: &[u8], cut: Cut, magic: Magic, max: usize) -> (Vec<Packet>, Option<String>) {
    let mut decoder = Decoder::new(magic, max);
    let mut found = Vec::new();
    for piece in cut.pieces(data) {
        let outcome = copy(&mut decoder, piece, Decoder::space, Decoder::received, |decoder| {
            while let Some(packet) = decoder.next()? {
                assert!(packet.body.len() <= max, "a packet is over the limit");
                found.push(packet);
            }
            Ok::<(), gearman_client::Error>(())
        });
        if let Err(error) = outcome {
            let text = error.to_string();
            assert!(text.len() < 1024, "an error is short: {text}");
            // How much of what is no packet is shown depends on how much was there.
            return (found, Some(format!("{:?}", error.kind())));
        }
    }
    (found, None)
}

/// A packet whose arguments can be read can be made of them.
fn check_arguments(packet: &Packet) {
    let Ok(arguments) = packet.arguments() else { return };
    if arguments.is_empty() {
        return;
    }
    let again = Packet::new(packet.magic, packet.packet_type, &arguments)
        .expect("arguments that were read can be written");
    assert_eq!(again, *packet);
}
