//! A command line for every command.

use std::any::Any;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use ctl_contract::formats::{Sample, Samples};
use fixtures::adf_queue::Server;

pub(crate) const SAMPLES: Samples = Samples {
    succeeding: &[
        Sample::of("push", &["push", "mail", "x", "y"]),
        Sample::of("pull", &["pull", "mail"]),
        Sample::of("pop", &["pop", "mail"]),
        Sample::of("work", &["work", "-Q", "mail", "--max-idle", "0", "--exec", "true"]),
        Sample::of("settle", &["settle", "left", "mail", "pulled"]),
        Sample::of("queues", &["queues"]),
        Sample::of("queue create", &["queue", "create", "new"]),
        Sample::of("queue delete", &["queue", "delete", "mail", "--yes"]),
        Sample::of("clear", &["clear", "mail", "--yes"]),
        Sample::of("drain", &["drain", "mail", "--yes"]),
        Sample::of("move", &["move", "--from", "mail", "--to", "sms", "--create", "--yes"]),
        Sample::of("export", &["export"]),
        Sample::of("import", &["import", "--create"]).fed(r#"{"queue":"imported","body":"x"}"#),
        Sample::of("check server", &["check", "server"]),
        Sample::of("check queue", &["check", "queue", "mail", "-c", "waiting=0:"]),
        Sample::of("check queues", &["check", "queues", "*", "-c", "waiting=0:"]),
        Sample::of("check roundtrip", &["check", "roundtrip"]),
        Sample::of("wait", &["wait", "--for", "ready>=1", "-Q", "mail"]),
        Sample::of("repl", &["repl", "-e", "queues"]),
        Sample::of("raw", &["raw", "count", "mail"]),
    ],
    failing: &[],
    prepared,
};

/// Two ready messages of `mail`, one of them not text, and one that was pulled over HTTP as `pulled`.
fn prepared() -> (Box<dyn Any>, String) {
    let server = Server::builder().queue("mail").start().unwrap();
    let address = server.address().to_owned();
    for body in [&b"first"[..], b"hello\tworld\n", b"\xff\x00"] {
        let answer = asked(&address, "POST /queue/rpush.bin?queue=mail&requestid=pushed", body);
        assert!(answer.contains("ok"), "{answer}");
    }
    let answer = asked(&address, "GET /queue/pull?queue=mail&requestid=pulled", b"");
    assert!(answer.contains("first"), "{answer}");
    (Box::new(server), address)
}

/// The answer to an HTTP request.
fn asked(address: &str, line: &str, body: &[u8]) -> String {
    let mut http = TcpStream::connect(address).unwrap();
    let head = "HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
                Content-Type: application/octet-stream\r\nContent-Length:";
    let head = format!("{line} {head} {}\r\n\r\n", body.len());
    http.write_all(&[head.as_bytes(), body].concat()).unwrap();
    let mut answer = Vec::new();
    http.read_to_end(&mut answer).unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}
