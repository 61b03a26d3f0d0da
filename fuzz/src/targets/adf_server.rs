//! What clients send to the in-memory Adf.QueueServer, decoder by decoder.

use fixtures::{
    adf_queue::{Quirks, Server},
    offline::Offline,
};

use super::server_input::check;

/// Inputs are cut off here.
const MAX_INPUT: usize = 4096;
/// Its answer is the same whatever was sent before.
const QUESTION: &[u8] = b"GET /queue/createqueue.bin?requestid=x HTTP/1.1\n\n";
const ANSWER: &[u8] = b"\x09\0\x01x\0\0\0\x12no set queue name.";

/// Heads, queries and bodies of requests over HTTP.
pub fn adf_server_http(data: &[u8]) {
    talk(data, &[], &data[..data.len().min(MAX_INPUT)]);
}

/// Frames of a WebSocket of either format.
pub fn adf_server_frames(data: &[u8]) {
    let data = &data[..data.len().min(MAX_INPUT)];
    let (is_json, frames) =
        data.split_first().map_or((false, data), |(n, rest)| (n % 2 == 1, rest));
    talk(data, &upgrade(if is_json { "/queue/json" } else { "/queue/bin" }), frames);
}

/// One binary message.
pub fn adf_server_binary(data: &[u8]) {
    let data = &data[..data.len().min(MAX_INPUT)];
    talk(data, &upgrade("/queue/bin"), &message(0x82, data));
}

/// One text.
pub fn adf_server_json(data: &[u8]) {
    let data = &data[..data.len().min(MAX_INPUT)];
    talk(data, &upgrade("/queue/json"), &message(0x81, data));
}

/// A server answers the same however the bytes are cut, ends the connection when its client does, and serves others.
fn talk(data: &[u8], opening: &[u8], rest: &[u8]) {
    let quirks = match data.len() % 2 {
        // A ghost would outlive its client.
        0 => Quirks { ghost_pulls: false, ..Quirks::default() },
        _ => Quirks::none(),
    };
    let server = || -> Offline {
        let builder = Server::builder().queue("/q").max_frame_size(MAX_INPUT);
        builder.quirks(quirks.clone()).offline()
    };
    let end: &[u8] = if quirks.chunked { b"\r\n0\r\n\r\n" } else { b"" };
    check(&[opening, rest].concat(), server, QUESTION, &[ANSWER, end].concat());
}

fn upgrade(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\nUpgrade: websocket\nSec-WebSocket-Key: x\n\n").into_bytes()
}

/// A frame without a mask, which the server takes too.
fn message(first: u8, payload: &[u8]) -> Vec<u8> {
    let length = u16::try_from(payload.len()).unwrap_or(u16::MAX).to_be_bytes();
    [&[first, 126], length.as_slice(), payload].concat()
}
