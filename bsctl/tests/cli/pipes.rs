//! A reader that goes away: no panic, no lost job. (Unix: there a closed pipe is an error of the writer.)
#![cfg(unix)]

use std::io::Read;
use std::process::{Command, Stdio};

use fixtures::beanstalkd::Server;

use crate::harness::*;

/// A pipe whose reader has already gone.
fn closed_pipe() -> Stdio {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    writer.into()
}

fn into_closed_pipe(mut command: Command) -> Ran {
    ended(command.stdout(closed_pipe()).spawn().unwrap())
}

#[test]
fn commands_that_look_end_quietly() {
    let server = Server::start().unwrap();
    for _ in 0..3 {
        put(server.address(), "t", "x".repeat(60_000));
    }
    for line in [
        &["jobs", "--with-body"][..],
        &["export"],
        &["tubes"],
        &["stats"],
        &["peek", "1", "2", "3"],
        &["stats", "-o", "json"],
        &["completions", "bash"],
        &["man"],
        &["--help"],
        &["put", "--help"],
        &["--version"],
    ] {
        let ran = into_closed_pipe(command(&[&["-a", server.address()], line].concat()));
        assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{line:?}");
    }
}

#[test]
fn a_reader_that_takes_one_line_gets_it() {
    let server = Server::start().unwrap();
    for _ in 0..20 {
        put(server.address(), "t", "x".repeat(60_000));
    }
    let line = ["-a", server.address(), "jobs", "--with-body"];
    let mut child = command(&line).spawn().unwrap();
    let mut first = [0; 1];
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_exact(&mut first).unwrap();
    drop(stdout);
    let ran = ended(child).exits(0);
    assert_eq!((first, ran.err.as_str()), (*b"1", ""));
}

/// R8: the job is still in the queue when its output could not be written.
#[test]
fn what_cannot_be_written_stays_in_the_queue() {
    on_both(|address| {
        for (body, id) in [("a", 1), ("b", 2), ("c", 3)] {
            assert_eq!(put(address, "t", body).get(), id);
        }
        put_buried(address, "t", "d");
        for line in [
            &["pop", "-t", "t"][..],
            &["pop", "-t", "t", "-c", "3", "-0"],
            &["pop", "-t", "t", "-o", "json"],
            &["reserve", "-t", "t", "--then", "delete"],
            &["drain", "t", "--yes"],
            &["export", "t", "--drain", "--yes"],
        ] {
            let ran = into_closed_pipe(command(&[&["-a", address], line].concat())).exits(74);
            assert!(ran.err.contains("closed by its reader"), "{line:?}: {}", ran.err);
        }
        let left = client(address).stats_tube("t").unwrap().unwrap();
        assert_eq!((left.current_jobs_ready, left.current_jobs_buried, left.cmd_delete), (3, 1, 0));
    });
}

#[test]
fn a_put_whose_id_cannot_be_written_is_done_and_says_so() {
    let server = Server::start().unwrap();
    into_closed_pipe(command(&["-a", server.address(), "put", "x"])).exits(74);
    assert_eq!(client(server.address()).stats().unwrap().current_jobs_ready, 1);
}
