//! A command line for every command.

use std::any::Any;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use ctl_contract::formats::{Sample, Samples};
use fixtures::adf_queue::Server;

use crate::harness::*;

const TRANSCRIPT: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../fixtures/wire/adf-queue/actions.txt");

pub(crate) const SAMPLES: Samples = Samples {
    succeeding: &[
        Sample::of("push", &["push", "mail", "x", "y"]),
        Sample::of("pull", &["pull", "mail"]),
        Sample::of("pop", &["pop", "mail"]),
        Sample::of("work", &["work", "-Q", "mail", "--exit-when-empty", "--exec", "true"]),
        Sample::of("delete", &["--transport", "http-bin", "delete", "mail", "pulled"]),
        Sample::of("lcancel", &["--transport", "http-bin", "lcancel", "mail", "pulled"]),
        Sample::of("rcancel", &["--transport", "http-bin", "rcancel", "mail", "pulled"]),
        Sample::of("recover", &["recover", "mail", "pulled"]),
        Sample::of("queues", &["queues"]),
        Sample::of("count", &["count", "mail"]),
        Sample::of("queue create", &["queue", "create", "new"]),
        Sample::of("queue delete", &["queue", "delete", "mail", "--yes"]),
        Sample::of("clear", &["clear", "mail", "--yes"]),
        Sample::of("drain", &["drain", "mail", "--yes"]),
        Sample::of("move", &["move", "--from", "mail", "--to", "sms", "--create", "--yes"]),
        Sample::of("copy", &["copy", "--from", "mail", "--to", "sms", "--create"]),
        Sample::of("export", &["export"]),
        Sample::of("import", &["import", "--create"]).fed(r#"{"queue":"imported","body":"x"}"#),
        Sample::of("check server", &["check", "server"]),
        Sample::of("check queue", &["check", "queue", "mail", "--zero-workers", "ok"]),
        Sample::of("check queues", &["check", "queues", "*", "--zero-workers", "ok"]),
        Sample::of("check roundtrip", &["check", "roundtrip"]),
        Sample::of("wait", &["wait", "--for", "ready>=1", "-Q", "mail"]),
        Sample::of("watch", &["watch", "-c", "2", "-i", "1ms", "--", "queues"]),
        Sample::of("tap", &["tap", "--dry-run", "--replay", TRANSCRIPT]),
        Sample::of("repl", &["repl", "-e", "queues"]),
        Sample::of("raw", &["raw", "count", "mail"]),
        Sample::of("examples", &["examples", "push"]),
    ],
    failing: &[],
    prepared,
};

/// Two ready messages of `mail`, one of them not text, and one that was pulled over HTTP as `pulled`.
fn prepared() -> (Box<dyn Any>, String) {
    let server = Server::builder().queue("mail").start().unwrap();
    let address = server.address().to_owned();
    adfctl(&address, &["push", "mail", "first", "hello\tworld\n"]).exits(0);
    adfctl_with(&address, &["push", "mail"], b"\xff\x00").exits(0);
    let mut http = TcpStream::connect(&address).unwrap();
    let request = "GET /queue/pull?queue=mail&requestid=pulled HTTP/1.1\r\nHost: localhost\r\n\
                   Connection: close\r\n\r\n";
    http.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    http.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("first"), "{answer}");
    (Box::new(server), address)
}
