//! `--timeout` bounds a command, whatever a server does.

use ctl_contract::bounds::{Peer, the_timeout_holds_for_every_command};

use crate::harness::*;
use crate::samples::SAMPLES;

#[test]
fn the_timeout_holds_for_every_command_whatever_the_server_does() {
    let lines = SAMPLES.bounded();
    assert!(lines.len() > 25);
    let peers =
        [Peer::Silent, Peer::Dripping(b"OK 100000\r\n"), Peer::Flooding(b"USING default\r\n")];
    // An answer may be the right one; without a line, nothing is put.
    let may_succeed =
        |peer, line: &[&str]| matches!(peer, Peer::Flooding(_)) || line.contains(&"import");
    the_timeout_holds_for_every_command(&PROGRAM, &lines, &peers, may_succeed);
}
