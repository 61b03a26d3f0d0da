//! What clients send to the in-memory servers.

use fixtures::{
    beanstalkd, gearmand,
    gearmand::PacketType,
    offline::{End, Offline},
};

use super::pieces::{Cut, cuts};

/// Inputs are cut off here: the lists that a server writes grow with its earlier input.
const MAX_INPUT: usize = 4096;
const MAX_OUTPUT: usize = 4 << 20;

/// A beanstalkd answers the same however the bytes are cut, ends the connection when its client does, and serves
/// others.
pub fn beanstalkd_input(data: &[u8]) {
    let data = &data[..data.len().min(MAX_INPUT)];
    let versions = beanstalkd::Version::ALL;
    let version = versions[data.len() % versions.len()];
    let server = || beanstalkd::Server::builder().version(version).instance(1).offline();
    check(data, server, b"list-tube-used\r\n", b"USING default\r\n");
}

/// A gearmand answers the same however the bytes are cut, ends the connection when its client does, and serves others.
pub fn gearmand_input(data: &[u8]) {
    let data = &data[..data.len().min(MAX_INPUT)];
    let versions = gearmand::Version::ALL;
    let version = versions[data.len() % versions.len()];
    let server = || {
        let builder = gearmand::Server::builder().version(version).job_retries(1);
        builder.started(std::time::Duration::from_secs(1_000_000_000)).offline()
    };
    check(
        data,
        server,
        &PacketType::EchoReq.request(&["x"]),
        &PacketType::EchoRes.response(&["x"]),
    );
}

/// The server gives the same replies however the bytes are cut, ends the connection when its client does, and then
/// gives this answer to another one's question.
pub(super) fn check(data: &[u8], server: impl Fn() -> Offline, question: &[u8], answer: &[u8]) {
    let whole = replies(data, Cut::Whole, server(), question, answer);
    assert!(whole.len() <= MAX_OUTPUT, "{} bytes in answer to {}", whole.len(), data.len());
    for cut in cuts(data) {
        assert!(replies(data, cut, server(), question, answer) == whole, "cut as {cut:?}");
    }
}

fn replies(data: &[u8], cut: Cut, mut server: Offline, question: &[u8], answer: &[u8]) -> Vec<u8> {
    let client = server.connect();
    let mut received = Vec::new();
    for piece in cut.pieces(data) {
        server.send(client, piece);
        received.extend(server.receive(client).bytes);
    }
    server.half_close(client);
    let last = server.receive(client);
    received.extend(last.bytes);
    assert_eq!(last.end, Some(End::Close), "the connection does not end with its client");
    let other = server.connect();
    server.send(other, question);
    assert!(server.receive(other).bytes.ends_with(answer), "others are served no longer");
    received
}
