//! `reserve` and `pop`.

use std::io::{BufReader, Read as _};
use std::time::{Duration, Instant};

use beanstalk_client::PutOptions;
use ctl_contract::program::hears;
use fixtures::beanstalkd::Server;
use fixtures::fault::Fault;

use crate::harness::*;

#[test]
fn pop_prints_the_exact_body_and_deletes_the_job() {
    on_both(|address| {
        let body: Vec<u8> = (0..=u8::MAX).collect();
        let id = put(address, "t", &body);
        let ran = bsctl(address, &["pop", "-t", "t", "-o", "raw"]).exits(0);
        assert_eq!(ran.bytes, body);
        assert_eq!(state(address, id), "gone");
        bsctl(address, &["pop", "-t", "t"]).exits(1);
    });
}

#[test]
fn pop_many_with_null_separators() {
    on_both(|address| {
        for body in ["a\n", "b", ""] {
            put(address, "t", body);
        }
        let ran = bsctl(address, &["pop", "-t", "t", "-c", "100", "-0"]).exits(0);
        assert_eq!(ran.bytes, b"a\n\0b\0\0");
        assert_eq!(client(address).stats().unwrap().current_jobs_ready, 0);
    });
}

#[test]
fn pop_deletes_after_the_whole_document() {
    on_both(|address| {
        put(address, "t", "a");
        put(address, "t", "b");
        let jobs = bsctl(address, &["pop", "-t", "t", "-c", "5", "-o", "json"]).exits(0).json();
        let bodies: Vec<_> =
            jobs.as_array().unwrap().iter().map(|job| job["body"].clone()).collect();
        assert_eq!(bodies, ["a", "b"]);
        assert_eq!(jobs[0]["state"], "reserved");
        assert_eq!(client(address).stats().unwrap().current_jobs_ready, 0);
    });
}

#[test]
fn watches_several_tubes() {
    on_both(|address| {
        put(address, "one", "1");
        put(address, "two", "2");
        put(address, "default", "3");
        let line = ["pop", "-t", "one", "-t", "two", "-c", "9", "--columns", "tube,body"];
        assert_eq!(bsctl(address, &line).exits(0).out(), "one\t1\ntwo\t2\n");
    });
}

#[test]
fn pop_keeps_jobs_it_cannot_write() {
    on_both(|address| {
        put(address, "default", "kept");
        for output in [["-o", "name"], ["--columns", "id"]] {
            let ran = bsctl(address, &[&["pop"][..], &output].concat()).exits(2);
            assert!(ran.err.contains("leaves out the bodies"), "{}", ran.err);
        }
        assert_eq!(bsctl(address, &["pop", "--columns", "body"]).exits(0).out(), "kept\n");
    });
}

#[test]
fn exits_1_when_empty_and_124_on_timeout() {
    let server = Server::start().unwrap();
    let ran = bsctl(server.address(), &["reserve", "-o", "json"]).exits(1);
    assert_eq!(ran.error()["code"], "NOTHING_RESERVED");
    let ran = bsctl(server.address(), &["pop", "--wait", "1ms", "-o", "json"]).exits(124);
    assert_eq!((ran.error()["code"].as_str(), ran.bytes.len()), (Some("TIMEOUT"), 0));
    // To take no job is no wish.
    for verb in ["pop", "reserve"] {
        let ran = bsctl(&dead_address(), &[verb, "-c", "0"]).exits(2);
        assert!(!ran.err.contains("no job is ready"), "{}", ran.err);
    }
}

#[cfg(unix)]
#[test]
fn shows_progress_while_waiting_for_several_jobs() {
    let server = Server::start().unwrap();
    for verb in ["reserve", "pop"] {
        let line = ["-a", server.address(), verb, "-c", "2", "--wait", "1h"];
        let mut child = command(&line).env("BSCTL_PROGRESS", "json").spawn().unwrap();
        let mut err = BufReader::new(child.stderr.take().unwrap());
        hears(&mut err, "\"label\":\"waiting for a job\"");
        signal(&child, rustix::process::Signal::INT);
        err.read_to_string(&mut String::new()).unwrap();
        ended(child).exits(130);
    }
}

#[test]
fn a_waiting_pop_gets_a_later_job() {
    let server = Server::start().unwrap();
    let line = ["-a", server.address(), "pop", "-t", "t", "--wait", "60s", "-o", "raw"];
    let child = command(&line).spawn().unwrap();
    assert!(server.wait_for(Duration::from_secs(30), |view| view.waiting == 1));
    put(server.address(), "t", "late");
    assert_eq!(ended(child).exits(0).bytes, b"late");
}

#[test]
fn reserve_releases_with_the_same_priority() {
    on_both(|address| {
        let options = PutOptions::default().priority(5);
        let id = put_with(address, "t", "x", options);
        let ran = bsctl(address, &["reserve", "-t", "t"]).exits(0);
        assert_eq!(ran.out(), format!("{id}\tt\tx\n"));
        assert!(ran.err.contains("ready again"), "{}", ran.err);
        let stats = stats(address, id).unwrap();
        assert_eq!((stats.state.as_str(), stats.pri.get()), ("ready", 5));
        assert_eq!((stats.reserves, stats.releases), (1, 0));
    });
}

#[test]
fn reserve_then_bury_or_delete() {
    on_both(|address| {
        let options = PutOptions::default().priority(5);
        let id = put_with(address, "t", "x", options);
        bsctl(address, &["reserve", "-t", "t", "--then", "bury"]).exits(0);
        let stats = stats(address, id).unwrap();
        assert_eq!((stats.state.as_str(), stats.pri.get()), ("buried", 5));
        let text = id.to_string();
        bsctl(address, &["reserve", "--job", &text, "--then", "delete"]).exits(0);
        assert_eq!(state(address, id), "gone");
        let ran = bsctl(address, &["reserve", "--job", &text]).exits(1);
        assert!(ran.err.contains("does not exist"), "{}", ran.err);
    });
}

#[cfg(unix)]
#[test]
fn hold_touches_until_ctrl_c() {
    let server = Server::builder().virtual_clock().start().unwrap();
    let ttr = Duration::from_secs(2);
    let id = put_with(server.address(), "t", "x", PutOptions::default().ttr(ttr));
    let line = ["-a", server.address(), "reserve", "-t", "t", "--then", "hold"];
    let child = command(&line).spawn().unwrap();
    outlives_the_time_to_run(&server, ttr);
    assert_eq!(state(server.address(), id), "reserved");
    signal(&child, rustix::process::Signal::INT);
    ended(child).exits(130);
    assert_eq!(state(server.address(), id), "ready");
}

/// Whether a signal ends it or not.
#[cfg(unix)]
#[test]
fn hold_does_not_claim_a_release_by_a_dead_server() {
    for is_signalled in [false, true] {
        let server = Server::start().unwrap();
        put(server.address(), "t", "x");
        let line = ["-a", server.address(), "reserve", "-t", "t", "--then", "hold"];
        let mut child = command(&line).spawn().unwrap();
        let mut err = BufReader::new(child.stderr.take().unwrap());
        hears(&mut err, "holding until Ctrl-C");
        drop(server);
        if is_signalled {
            signal(&child, rustix::process::Signal::INT);
        }
        let said = hears(&mut err, "job 1 went back to ready, unless the server stopped");
        assert!(!said.contains("ready again"), "{said}");
        ended(child).exits(69);
    }
}

#[cfg(unix)]
#[test]
fn reserve_does_not_claim_a_release_if_the_server_dies() {
    let server = Server::start().unwrap();
    for _ in 0..3 {
        put(server.address(), "t", vec![b'x'; 60_000]);
    }
    let line = ["-a", server.address(), "reserve", "-t", "t", "-c", "3", "-o", "raw"];
    let mut child = command(&line).spawn().unwrap();
    let mut out = child.stdout.take().unwrap();
    let mut first = [0];
    // A pipe does not hold all three, so the jobs are still held.
    out.read_exact(&mut first).unwrap();
    drop(server);
    std::io::copy(&mut out, &mut std::io::sink()).unwrap();
    let ran = ended(child).exits(69);
    let known = "the connection was lost; 3 jobs went back to ready, unless the server stopped";
    assert!(ran.err.contains(known), "{}", ran.err);
}

#[test]
fn reports_a_failed_delete() {
    let server = Server::start().unwrap();
    put(server.address(), "default", "x");
    server.faults().add(Fault::nth(1).of("delete").reply("NOT_FOUND"));
    let ran = bsctl(server.address(), &["pop"]).exits(1);
    assert!(ran.err.contains("time to run expired"), "{}", ran.err);
}

/// It would ask thousands of times a second.
#[test]
fn does_not_hammer_a_server_that_ends_waits_early() {
    for line in [&["pop", "--wait", "1h"][..], &["repl", "-e", "reserve 1h"]] {
        let server = Server::start().unwrap();
        server.faults().add(Fault::always().of("reserve-with-timeout").reply("TIMED_OUT"));
        let start = Instant::now();
        let child = command(&[&["-a", server.address()], line].concat()).spawn().unwrap();
        eventually("further questions", || (server.faults().struck() >= 4).then_some(()));
        put(server.address(), "default", "x");
        server.faults().clear();
        ended(child).exits(0);
        let (asked, took) = (u128::from(server.faults().struck()), start.elapsed());
        assert!(asked <= 2 + took.as_millis() / 50, "{asked} reserves in {took:?}");
    }
}
