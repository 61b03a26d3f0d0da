//! `--timeout` bounds a command, whatever a server does.

use ctl_contract::bounds::{Peer, every_command_honours_the_timeout, takes_less_than_twice};

use crate::harness::*;
use crate::samples::SAMPLES;

#[test]
fn every_command_honours_the_timeout_on_a_hostile_server() {
    let lines = SAMPLES.bounded();
    assert!(lines.len() > 20);
    let peers = [
        Peer::Silent,
        Peer::Dripping(b"\0RES\0\0\0\x11\0\x10\0\0"),
        // NOOP: a packet that answers no request, and is not text either.
        Peer::Flooding(b"\0RES\0\0\0\x06\0\0\0\0"),
    ];
    // Without a line or a record, there is no job.
    every_command_honours_the_timeout(&PROGRAM, &lines, &peers, |_, line| {
        ["map", "import"].contains(&line[0])
    });
}

/// Whether a worker serves the function of a late job is not worth the same time again.
#[test]
fn a_late_job_ends_at_the_timeout() {
    let server = fixtures::gearmand::Server::start().unwrap();
    server.faults().add(fixtures::fault::Fault::always().of("status").hang());
    assert!(takes_less_than_twice(124, |limit| {
        gearctl(server.address(), &["run", "nobody", "x", "--timeout", limit])
    }));
}
