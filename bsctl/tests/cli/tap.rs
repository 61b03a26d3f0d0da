//! `tap`, beyond the contract of every tool.

use std::io::{Read, Write};
use std::net::TcpStream;

use ctl_contract::tap::{Tap, python};
use fixtures::beanstalkd::Server;

use crate::harness::*;

#[test]
fn tap_matches_server_replies_to_commands() {
    on_both(|address| {
        let mut tap = Tap::start(&PROGRAM, address, &["--body", "3"]);
        let mut stream = TcpStream::connect(&tap.address).unwrap();
        // In one write, and with a body that looks like a command.
        let sent = b"put 0 0 60 9\r\ndelete 1\n\r\nwhat\r\nreserve-with-timeout 0\r\nquit\r\n";
        stream.write_all(sent).unwrap();
        let mut replies = String::new();
        stream.read_to_string(&mut replies).unwrap();
        let expected = "INSERTED 1\r\nUNKNOWN_COMMAND\r\nRESERVED 1 9\r\ndelete 1\n\r\n";
        assert_eq!(replies, expected);
        let put = tap.line(|line| line["verb"] == "put");
        assert_eq!((&put["size"], &put["body"]), (&9.into(), &"del".into()));
        let unknown = tap.line(|line| line["verb"] == "UNKNOWN_COMMAND");
        assert_eq!((&unknown["to"], &unknown["error"]), (&"(unknown) what".into(), &true.into()));
        let reserved = tap.line(|line| line["verb"] == "RESERVED");
        assert_eq!(reserved["to"], "reserve-with-timeout 0");
        assert_eq!((&reserved["size"], &reserved["args"]), (&9.into(), &"1 9".into()));
        tap.end();
    });
}

/// The lines are not read while 60,000 of them arrive.
#[test]
fn tap_does_not_block_traffic_on_a_stalled_reader() {
    let server = Server::start().unwrap();
    let tap = Tap::start(&PROGRAM, server.address(), &[]);
    let mut stream = TcpStream::connect(&tap.address).unwrap();
    let reply = b"USING default\r\n";
    for _ in 0..30 {
        stream.write_all(&b"list-tube-used\r\n".repeat(1000)).unwrap();
        stream.read_exact(&mut vec![0; 1000 * reply.len()]).unwrap();
    }
    let (lines, ran) = tap.end();
    assert!(lines.len() < 60_000 && ran.err.contains("lines dropped"), "{}", ran.err);
    assert!(!ran.err.contains(" 0 lines dropped"), "{}", ran.err);
    let counted = ran.err.lines().find(|line| line.contains("list-tube-used")).unwrap();
    assert!(counted.contains("30000"), "{counted}");
}

/// greenstalk, in Python: its traffic is shown and passes unchanged.
#[test]
fn tap_decodes_a_python_client() {
    const SCRIPT: &str = r#"
import sys, greenstalk
host, port = sys.argv[1].rsplit(":", 1)
with greenstalk.Client((host, int(port)), encoding=None, use="mail", watch="mail") as client:
    ids = [client.put(body, priority=7) for body in (b"hello", bytes(range(256)), b"")]
    job = client.reserve(timeout=5)
    assert (job.id, job.body) == (ids[0], b"hello"), job
    client.touch(job)
    client.release(job, priority=9)
    job = client.reserve_job(ids[1])
    assert job.body == bytes(range(256)), job
    client.bury(job)
    assert client.kick(10) == 1
    assert client.stats_job(ids[2])["id"] == ids[2]
    assert client.stats_tube("mail")["current-jobs-ready"] == 3
    for id in ids:
        client.delete(id)
"#;
    on_both(|address| {
        let mut tap = Tap::start(&PROGRAM, address, &[]);
        let Some(client) = python("greenstalk", SCRIPT, &tap.address) else { return };
        ended({ client }.spawn().unwrap()).exits(0);
        let put = tap.line(|line| line["verb"] == "put");
        assert_eq!((&put["args"], &put["body"]), (&"7 0 60 5".into(), &"hello".into()));
        let (lines, ran) = tap.end();
        assert!(!ran.err.contains("undecoded"), "{}", ran.err);
        assert!(lines.iter().any(|line| line["verb"] == "KICKED"), "{lines:?}");
    });
}
