//! `--timeout` bounds a command, whatever a server does.

use ctl_core::contract::bounds::{Peer, the_timeout_holds_for_every_command};

use crate::harness::*;
use crate::samples::SAMPLES;

#[test]
fn the_timeout_holds_for_every_command_whatever_the_server_does() {
    let lines = SAMPLES.bounded();
    assert!(lines.len() > 20);
    let peers = [
        Peer::Silent,
        Peer::Dripping(b"HTTP/1.1 101 Switching Protocols\r\nX: "),
        // Status lines without end.
        Peer::Flooding(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n."),
    ];
    // Without a record nothing is pushed.
    the_timeout_holds_for_every_command(&PROGRAM, &lines, &peers, |_, line| {
        line.contains(&"import")
    });
}
