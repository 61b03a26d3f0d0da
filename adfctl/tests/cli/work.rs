//! `work`: a command for every message.

use std::io::{BufReader, Read as _};

use ctl_contract::program::{hears, signal};
use fixtures::adf_queue::Server;
use rustix::process::Signal;

use crate::harness::*;

/// A worker that ends once nothing is left.
fn work(address: &str, queue: &str, arguments: &[&str]) -> Ran {
    adfctl(address, &[&["work", "-Q", queue, "--max-idle", "0"], arguments].concat())
}

#[test]
fn runs_a_command_for_each_message_and_deletes_it() {
    on_both(|site| {
        let (address, queue) = (site.address(), site.queue("worked"));
        adfctl(address, &["push", &queue.name, "a", "b", "c"]).exits(0);
        let script = "echo \"$ADFCTL_QUEUE $ADFCTL_MESSAGE_ID $(cat)\" >&2";
        let line = ["-o", "ndjson", "-j", "2", "--exec", "sh", "-c", script];
        let ran = work(address, &queue.name, &line).exits(0);
        for said in ["1 a", "2 b", "3 c"] {
            assert!(ran.err.contains(&format!("{} {said}", queue.name)), "{}", ran.err);
        }
        let records = ran.objects();
        assert_eq!(records.len(), 3);
        assert!(
            records.iter().all(|one| one["fate"] == "deleted" && one["exit"] == 0),
            "{records:?}"
        );
        assert_eq!(ready(address, &queue.name), 0);
    });
}

#[test]
fn a_missing_command_keeps_the_message_and_ends_the_worker() {
    on_both(|site| {
        let (address, queue) = (site.address(), filled(site, "kept", &["x"]));
        work(address, &queue.name, &["--exec", "/no/such/command"]).exits(127);
        assert_eq!(ready(address, &queue.name), 1);
    });
}

#[test]
fn moves_repeated_failures_to_the_dead_letter_queue() {
    on_both(|site| {
        let (address, queue, dead) = (site.address(), site.queue("failing"), site.queue("dead"));
        adfctl(address, &["push", &queue.name, "bad"]).exits(0);
        for end in ["right", "left"] {
            let line = ["--max-duplications", "3", "--dead-letter", &dead.name, "--on-fail", end];
            let line = [&line[..], &["-o", "ndjson", "--exec", "false"]].concat();
            let ran = work(address, &queue.name, &line).exits(1);
            let fates: Vec<_> = ran.objects().iter().map(|one| one["fate"].clone()).collect();
            assert_eq!(fates, ["returned", "returned", "dead-lettered"], "{end}");
            let ran = adfctl(address, &["pop", &dead.name, "-o", "raw"]).exits(0);
            assert_eq!(ran.out(), "bad");
            adfctl(address, &["push", &queue.name, "bad"]).exits(0);
        }
    });
}

#[test]
fn exit_code_75_is_not_counted_as_a_delivery() {
    on_both(|site| {
        let (address, queue, dead) = (site.address(), site.queue("later"), site.queue("dead"));
        adfctl(address, &["push", &queue.name, "busy"]).exits(0);
        let line = ["--max-duplications", "2", "--dead-letter", &dead.name, "-o", "ndjson"];
        let script = "test $ADFCTL_DUPLICATIONS -ge 5 || exit 75";
        let ran = work(address, &queue.name, &[&line[..], &["--shell", script]].concat()).exits(0);
        let fates: Vec<_> = ran.objects().iter().map(|one| one["fate"].clone()).collect();
        assert_eq!(fates, ["returned", "returned", "returned", "returned", "deleted"]);
        adfctl(address, &["push", &queue.name, "bad"]).exits(0);
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("failed");
        let line = ["--max-duplications", "2", "--failed-to", file.to_str().unwrap()];
        let script = "test $ADFCTL_DUPLICATIONS -ge 4 || exit 75; exit 1";
        let line = [&line[..], &["-o", "ndjson", "--shell", script]].concat();
        let ran = work(address, &queue.name, &line).exits(1);
        let fates: Vec<_> = ran.objects().iter().map(|one| one["fate"].clone()).collect();
        assert_eq!(fates, ["returned", "returned", "returned", "returned", "recorded"]);
    });
}

#[test]
fn the_second_signal_kills_commands_and_returns_messages() {
    let server = Server::builder().queue("/q").start().unwrap();
    adfctl(server.address(), &["push", "/q", "a"]).exits(0);
    let script = "echo started >&2; sleep 600";
    let line = ["--server", server.address(), "work", "-Q", "/q", "--exec", "sh", "-c", script];
    let mut child = PROGRAM.command(&line).spawn().unwrap();
    let mut err = BufReader::new(child.stderr.take().unwrap());
    hears(&mut err, "started");
    signal(&child, Signal::TERM);
    hears(&mut err, "a second signal gives them back");
    assert_eq!(server.view().pulled, 1);
    signal(&child, Signal::TERM);
    // All of its output is read, so that it can write it.
    err.read_to_string(&mut String::new()).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(143));
    assert_eq!(server.view().ready, 1);
}

#[test]
fn until_empty_refuses_a_missing_queue() {
    on_both(|site| {
        let (address, queue, none) = (site.address(), site.queue("there"), site.no_queue("none"));
        adfctl(address, &["push", &queue.name, "a"]).exits(0);
        let line = ["-Q", &none.name, "-o", "json", "--exec", "true"];
        let error = work(address, &queue.name, &line).exits(1).error_alone();
        assert_eq!(error["code"], "QUEUE_NOT_FOUND");
        assert!(error["message"].as_str().unwrap().contains(&none.name), "{error}");
        assert_eq!(ready(address, &queue.name), 1);
    });
}

#[test]
fn bad_command_lines_name_what_is_missing() {
    bare(&["work", "--exec", "true"]).exits(2);
    bare(&["work", "-Q", "/q"]).exits(2);
    let server = Server::builder().queue("/q").start().unwrap();
    let http = format!("http://{}", server.address());
    let ran = adfctl(&http, &["work", "-Q", "/q", "--exec", "true"]).exits(2);
    assert!(ran.err.contains("WebSocket"), "{}", ran.err);
    let line = ["work", "-Q", "/q", "--dead-letter", "/q", "--exec", "true"];
    adfctl(server.address(), &line).exits(65);
    let shell = ["work", "-Q", "/q", "--shell", "echo {queue}"];
    let ran = adfctl(server.address(), &shell).exits(2);
    assert!(ran.err.contains("$ADFCTL_QUEUE"), "{}", ran.err);
}
