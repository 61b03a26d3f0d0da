//! A command line for every command.

use std::any::Any;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use ctl_core::contract::formats::{Sample, Samples};
use fixtures::adf_queue::Server;

use crate::harness::*;

const TRANSCRIPT: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../fixtures/wire/adf-queue/actions.txt");

pub(crate) const SAMPLES: Samples = Samples {
    succeed: &[
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
        Sample::of("top", &["top", "--once"]),
        Sample::of("smoke", &["smoke"]),
        Sample::of("check server", &["check", "server"]),
        Sample::of("check queue", &["check", "queue", "mail", "--zero-workers", "ok"]),
        Sample::of("check queues", &["check", "queues", "*", "--zero-workers", "ok"]),
        Sample::of("check roundtrip", &["check", "roundtrip"]),
        Sample::of("wait", &["wait", "--for", "ready>=1", "-Q", "mail"]),
        Sample::of("ping", &["ping", "--count", "2", "--interval", "1ms"]),
        Sample::of("latency", &["latency", "--every", "100ms", "-i", "1ms", "-c", "1"]),
        Sample::of("watch", &["watch", "-c", "2", "-i", "1ms", "--", "queues"]),
        Sample::of("exporter", &["exporter", "--once"]),
        Sample::of("tap", &["tap", "--dry-run", "--replay", TRANSCRIPT]),
        Sample::of("bench", &["bench", "--msgs", "5"]),
        Sample::of("repl", &["repl", "-e", "queues"]),
        Sample::of("raw", &["raw", "count", "mail"]),
        Sample::of("serve", &["serve", "--print-addr", "--", "true"]),
        Sample::of("context add", &["context", "add", "new", "-n"]),
        Sample::of("context ls", &["context", "ls"]),
        Sample::of("context show", &["context", "show"]),
        Sample::of("context unselect", &["context", "unselect", "-n"]),
        Sample::of("context validate", &["context", "validate"]),
        Sample::of("config path", &["config", "path"]),
        Sample::of("config set", &["config", "set", "retry", "1", "-n"]),
        Sample::of("config show", &["config", "show"]),
        Sample::of("doctor", &["doctor"]),
        Sample::of("examples", &["examples", "push"]),
        Sample::of("completions", &["completions", "bash"]),
        Sample::of("man", &["man"]),
        Sample::of("docs", &["docs"]),
    ],
    fail: &[
        Sample::of("web", &["web", "--listen", "127.0.0.1:x"]),
        Sample::of("context copy", &["context", "copy", "none", "new"]),
        Sample::of("context edit", &["context", "edit", "none"]),
        Sample::of("context previous", &["context", "previous"]),
        Sample::of("context rm", &["context", "rm", "none"]),
        Sample::of("context select", &["context", "select", "none"]),
        Sample::of("config edit", &["config", "edit", "-n"]),
        Sample::of("config unset", &["config", "unset", "retry"]),
    ],
    prepared,
};

/// Two messages of `mail` that are ready, one of them no text, and one that was pulled over HTTP as `pulled`.
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
