//! `--timeout` bounds a command, whatever a server does.

use ctl_contract::bounds::{Peer, every_command_honours_the_timeout, takes_less_than_twice};
use fixtures::fault::Fault;

use crate::harness::*;
use crate::samples::SAMPLES;

#[test]
fn every_command_honours_the_timeout_on_a_hostile_server() {
    let lines = SAMPLES.bounded();
    assert!(lines.len() > 20);
    let peers = [
        Peer::Silent,
        Peer::Dripping(b"HTTP/1.1 101 Switching Protocols\r\nX: "),
        // Status lines without end.
        Peer::Flooding(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n."),
    ];
    // Without a record nothing is pushed.
    every_command_honours_the_timeout(&PROGRAM, &lines, &peers, |_, line| line.contains(&"import"));
}

/// Losing the connection returns its pulled messages, so nothing more is sent to a silent server.
#[test]
fn waits_once_for_a_server_that_falls_silent() {
    let ends = |line: &[&str], limit: &str| {
        let server = fixtures::adf_queue::Server::start().unwrap();
        let address = server.address();
        adfctl(address, &["push", "/a", "--create", "1", "2", "3"]).exits(0);
        server.faults().add(Fault::nth(2).of("pull").hang());
        server.faults().add(Fault::always().of("page").hang());
        adfctl(address, &[line, &["--timeout", limit]].concat())
    };
    let lines = [
        &["export", "/a"][..],
        &["copy", "--from", "/a", "--to", "/b", "--create"],
        &["move", "--from", "/a", "--to", "/b", "--create", "--yes"],
    ];
    std::thread::scope(|scope| {
        for line in lines {
            scope.spawn(move || {
                assert!(takes_less_than_twice(124, |limit| ends(line, limit)), "{line:?}");
            });
        }
    });
}
