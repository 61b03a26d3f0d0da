//! `--timeout` bounds a command, whatever a server does.

use ctl_core::contract::bounds::{Peer, the_timeout_holds_for_every_command};
use ctl_core::contract::formats::Sample;

use crate::harness::*;
use crate::samples::SAMPLES;

#[test]
fn the_timeout_holds_for_every_command_whatever_the_server_does() {
    // A worker goes on until somebody stops it.
    let ends = |sample: &&Sample| !sample.is_offline() && sample.command != "work";
    let lines: Vec<&[&str]> = SAMPLES.succeed.iter().filter(ends).map(|it| it.line).collect();
    assert!(lines.len() > 20);
    let peers = [
        Peer::Silent,
        Peer::Dripping(b"\0RES\0\0\0\x11\0\x10\0\0"),
        // NOOP: a packet that no request is answered by, and no text either.
        Peer::Flooding(b"\0RES\0\0\0\x06\0\0\0\0"),
    ];
    // Without a line or a record there is no job.
    the_timeout_holds_for_every_command(&PROGRAM, &lines, &peers, |_, line| {
        ["map", "import"].contains(&line[0])
    });
}
