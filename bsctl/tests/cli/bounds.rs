//! `--timeout` bounds a command, whatever a server does.

use ctl_core::contract::bounds::{Peer, the_timeout_holds_for_every_command};

use crate::formats::{SUCCEEDS, is_offline};
use crate::harness::*;

#[test]
fn the_timeout_holds_for_every_command_whatever_the_server_does() {
    // A worker goes on until somebody stops it.
    let never_ends = |name: &str| is_offline(name) || name == "work";
    let commands = SUCCEEDS.iter().filter(|(name, _)| !never_ends(name));
    let lines: Vec<&[&str]> = commands.map(|(_, line)| *line).collect();
    assert!(lines.len() > 25);
    let peers =
        [Peer::Silent, Peer::Dripping(b"OK 100000\r\n"), Peer::Flooding(b"USING default\r\n")];
    // An answer may be the right one; without a line nothing is put.
    let may_succeed =
        |peer, line: &[&str]| matches!(peer, Peer::Flooding(_)) || line.contains(&"import");
    the_timeout_holds_for_every_command(&PROGRAM, &lines, &peers, may_succeed);
}
