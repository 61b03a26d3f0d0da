//! `--timeout` bounds a command, whatever a server does.

use ctl_core::contract::bounds::{Peer, the_timeout_holds_for_every_command};

use crate::exits::LINES;
use crate::harness::*;

#[test]
fn the_timeout_holds_for_every_command_whatever_the_server_does() {
    let peers = [
        Peer::Silent,
        Peer::Dripping(b"HTTP/1.1 101 Switching Protocols\r\nX: "),
        // Status lines without end.
        Peer::Flooding(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n."),
    ];
    the_timeout_holds_for_every_command(&PROGRAM, LINES, &peers, |_, _| false);
}
