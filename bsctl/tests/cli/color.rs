//! What a person sees on a terminal.
#![cfg(unix)]

use ctl_contract::terminal::Terminal;
use fixtures::beanstalkd::Server;

use crate::harness::*;

/// The program's output on a terminal, without progress.
fn on_terminal(server: &Server, line: &[&str]) -> String {
    let mut terminal =
        Terminal::run(&PROGRAM, server.address(), &[("BSCTL_PROGRESS", "never")], line);
    terminal.ends();
    terminal.shown
}

#[test]
fn escapes_bodies_on_a_terminal() {
    let server = Server::start().unwrap();
    let attack = "\x1b]52;c;aGk=\x07\x1b[2J\u{9b}31m\u{202e}";
    put(server.address(), "t", attack);
    for format in ["table", "wide", "plain", "json", "ndjson", "yaml"] {
        let shown = on_terminal(&server, &["peek", "1", "-o", format, "--color", "never"]);
        let acts = |c: char| ctl_core::text::escape::acts(c) && !"\r\n\t".contains(c);
        assert!(!shown.chars().any(acts), "{format}: {shown:?}");
    }
    let refused = on_terminal(&server, &["pop", "-t", "t", "-o", "raw", "--color", "never"]);
    assert!(refused.contains("binary body not shown on a terminal"), "{refused:?}");
    assert!(!refused.contains('\x1b'));
    // Refused before it was deleted.
    assert_eq!(state(server.address(), 1.into()), "ready");
    let piped = bsctl(server.address(), &["peek", "1", "-o", "raw"]).exits(0);
    assert_eq!(piped.bytes, attack.as_bytes());
}
