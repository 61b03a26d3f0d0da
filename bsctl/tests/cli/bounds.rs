//! `--timeout` bounds a command, whatever a server does.

use ctl_contract::bounds::{Peer, every_command_honours_the_timeout};

use crate::harness::*;
use crate::samples::SAMPLES;

#[test]
fn every_command_honours_the_timeout_on_a_hostile_server() {
    let lines = SAMPLES.bounded();
    assert!(lines.len() > 25);
    let peers =
        [Peer::Silent, Peer::Dripping(b"OK 100000\r\n"), Peer::Flooding(b"USING default\r\n")];
    // An answer may be the right one; without a line, nothing is put.
    let may_succeed =
        |peer, line: &[&str]| matches!(peer, Peer::Flooding(_)) || line.contains(&"import");
    every_command_honours_the_timeout(&PROGRAM, &lines, &peers, may_succeed);
}
