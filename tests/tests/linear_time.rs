//! S18: the time that reading takes grows with the bytes, and not with their square, however they arrive: here each
//! byte arrives alone. A reader that examines everything it has whenever another byte arrives would need
//! minutes for this.

use std::time::Duration;

use beanstalk_client::protocol::{RawCommand, Response, Session};
use fixtures::{beanstalkd, gearmand};
use gearman_client::protocol::{
    AdminReply, Decoder, Magic, Packet, PacketType, ReplyShape, TextDecoder,
};

const SIZE: usize = 1 << 19;

/// In processor time, so that a busy machine does not matter: much more than reading needs, and much less than the
/// square of the bytes would take.
const LIMIT: Duration = Duration::from_secs(6);

/// How long this thread has had the processor.
#[cfg(unix)]
fn busy() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[cfg(not(unix))]
fn busy() -> Duration {
    static START: std::sync::LazyLock<std::time::Instant> =
        std::sync::LazyLock::new(std::time::Instant::now);
    START.elapsed()
}

/// Returns the bytes one by one.
fn each(bytes: &[u8], mut take: impl FnMut(u8)) {
    let start = busy();
    for (number, byte) in bytes.iter().enumerate() {
        take(*byte);
        let is_time_to_look = number % 4096 == 0;
        assert!(!is_time_to_look || busy() - start < LIMIT, "{number} bytes took {LIMIT:?}");
    }
}

/// The replies of a beanstalkd.
fn replies(bytes: &[u8]) -> Vec<Response> {
    let command = RawCommand::new("anything").unwrap();
    let mut session = Session::new(2 * SIZE);
    let mut ticket = session.send(&command).unwrap();
    session.sent(session.outgoing().len());
    let mut found = Vec::new();
    each(bytes, |byte| {
        session.space()[0] = byte;
        session.received(1);
        if let Some(reply) = session.reply(ticket).unwrap() {
            found.push(reply);
            ticket = session.send(&command).unwrap();
            session.sent(session.outgoing().len());
        }
    });
    found
}

#[test]
fn beanstalkd_bodies_and_lists_parse_in_linear_time() {
    let body = vec![b'x'; SIZE];
    let reply = [format!("RESERVED 1 {SIZE}\r\n").as_bytes(), &body, b"\r\n"].concat();
    let found = replies(&reply);
    let [Response::Reserved(job)] = &found[..] else { panic!("{} replies", found.len()) };
    assert!(job.body == body);

    let list = [b"---\n".to_vec(), b"- tube\n".repeat(SIZE / 7)].concat();
    let reply = [format!("OK {}\r\n", list.len()).as_bytes(), &list, b"\r\n"].concat();
    let found = replies(&reply);
    let [Response::Ok(text)] = &found[..] else { panic!("{} replies", found.len()) };
    assert!(*text == list);
}

#[test]
fn beanstalkd_short_replies_parse_in_linear_time() {
    let count = SIZE / 16;
    assert_eq!(replies(&b"INSERTED 12345\r\n".repeat(count)).len(), count);
}

/// The packets of a gearmand.
fn packets(bytes: &[u8]) -> Vec<Packet> {
    let mut decoder = Decoder::new(Magic::Response, 2 * SIZE);
    let mut found = Vec::new();
    each(bytes, |byte| {
        decoder.space()[0] = byte;
        decoder.received(1);
        found.extend(decoder.next().unwrap());
    });
    found
}

#[test]
fn gearmand_packets_parse_in_linear_time() {
    let encode = |packet: &Packet| {
        let mut bytes = bytes::BytesMut::new();
        packet.encode(&mut bytes);
        bytes.to_vec()
    };
    let new = |parts: &[&[u8]]| Packet::new(Magic::Response, PacketType::WorkData, parts).unwrap();
    let large = new(&[b"H:x:1", &vec![0; SIZE]]);
    assert!(packets(&encode(&large)) == [large]);
    let small = encode(&new(&[b"H:x:1", b"data"]));
    let count = SIZE / small.len();
    assert_eq!(packets(&small.repeat(count)).len(), count);
}

#[test]
fn gearmand_lists_and_lines_parse_in_linear_time() {
    let lines = [b"function\t1\t2\t3\n".repeat(SIZE / 15), b".\n".to_vec()].concat();
    let line = [vec![b'x'; SIZE], b"\n".to_vec()].concat();
    for (bytes, shape) in [(lines, ReplyShape::List), (line, ReplyShape::Line)] {
        let mut decoder = TextDecoder::new(2 * SIZE);
        let mut found = None;
        each(&bytes, |byte| {
            decoder.push(&[byte]);
            if let Some(reply) = decoder.reply(shape).unwrap() {
                found = Some(reply);
            }
        });
        match found.unwrap() {
            AdminReply::List { lines, .. } => assert_eq!(lines.len(), SIZE / 15),
            AdminReply::Line(line) => assert_eq!(line.len(), SIZE),
        }
    }
}

#[test]
fn in_memory_servers_parse_requests_in_linear_time() {
    let put = [format!("put 0 0 60 {SIZE}\r\n").as_bytes(), &vec![0; SIZE], b"\r\n"].concat();
    let mut decoder = beanstalkd::decode::Decoder::new(beanstalkd::Version::default());
    let (mut lines, mut bodies) = (0, 0);
    each(&put, |byte| {
        decoder.feed(&[byte]);
        let is_line = match decoder.next_input() {
            Some(beanstalkd::decode::Input::Line(_)) => true,
            Some(beanstalkd::decode::Input::Body { body, .. }) => {
                assert_eq!(body.len(), SIZE);
                bodies += 1;
                false
            }
            _ => false,
        };
        if is_line {
            lines += 1;
            decoder.expect_body(SIZE);
        }
    });
    assert_eq!((lines, bodies), (1, 1));

    let submit = gearmand::PacketType::SubmitJob.request(&["f", "id", &"x".repeat(SIZE)]);
    let mut decoder =
        gearmand::decode::Decoder::new(gearmand::decode::Framing::default(), u64::MAX);
    let mut found = Vec::new();
    each(&submit, |byte| {
        decoder.feed(&[byte]);
        found.extend(decoder.next_input());
    });
    let [gearmand::decode::Input::Packet(packet)] = &found[..] else { panic!("{}", found.len()) };
    assert_eq!(packet.data.len(), SIZE);
}
