//! `wait`, `ping`, `watch`.

use std::time::Duration;

use fixtures::beanstalkd::Server;
use serde_json::json;

use crate::harness::*;

#[test]
fn a_wait_that_runs_out_says_what_was_seen_last() {
    let server = Server::start().unwrap();
    put(server.address(), "t", "");
    let line = ["wait", "--for", "empty", "-t", "t", "--timeout", "3s", "-o", "json"];
    let ran = bsctl(server.address(), &line).exits(124);
    assert!(ran.error()["message"].as_str().unwrap().contains("last seen: 1 job"));
}

#[test]
fn conditions_that_hold_already() {
    on_both(|address| {
        let id = put_buried(address, "t", "");
        put(address, "t", "");
        for condition in [
            "ready>=1",
            "ready==1",
            "buried!=0",
            "buried<2",
            "workers==0",
            "tube-exists",
            "job-gone=999",
            &format!("job-state={id}:buried"),
            "server",
        ] {
            bsctl(address, &["wait", "--for", condition, "-t", "t"]).exits(0);
        }
        bsctl(address, &["wait", "--for", "empty", "-t", "none"]).exits(0);
        bsctl(address, &["wait", "--for", "empty", "-t", "none", "--must-exist"]).exits(1);
    });
}

#[test]
fn a_wait_for_the_server_or_a_job_names_no_tube() {
    let server = Server::start().unwrap();
    for (condition, tube) in [("server", None), ("job-gone=999", None), ("ready==0", Some("t"))] {
        let line = ["wait", "--for", condition, "-t", "t", "-o", "json"];
        assert_eq!(bsctl(server.address(), &line).exits(0).json()["tube"], json!(tube));
    }
    let line = ["wait", "--for", "job-state=9:ready", "--timeout", "3s", "--progress", "json"];
    let ran = bsctl(server.address(), &line).exits(124);
    assert!(ran.err.contains("\"label\":\"waiting for `job-state=9:ready`\""), "{}", ran.err);
}

#[test]
fn wrong_conditions_are_usage_errors() {
    let server = Server::start().unwrap();
    for condition in ["", "nonsense", "nonsense==1", "job-gone=x", "job-state=1", "job-state=1:odd"]
    {
        bsctl(server.address(), &["wait", "--for", condition]).exits(2);
    }
}

#[test]
fn what_does_not_exist_yet_is_waited_for() {
    let server = Server::start().unwrap();
    let line = [
        "-a",
        server.address(),
        "wait",
        "--for",
        "ready>=1",
        "-t",
        "t",
        "-i",
        "1ms",
        "--stable",
        "3",
    ];
    let child = command(&line).spawn().unwrap();
    while !server.requests().iter().any(|request| request.line == b"stats-tube t") {
        std::thread::sleep(Duration::from_millis(1));
    }
    put(server.address(), "t", "");
    ended(child).exits(0);
}

#[test]
fn waiting_for_a_server_that_starts_later() {
    let address = dead_address();
    let line = ["-a", &address, "wait", "--for", "server", "-i", "1ms", "--timeout", "60s"];
    let child = command(&line).spawn().unwrap();
    let listen = fixtures::beanstalkd::Listen::Tcp(address.parse().unwrap());
    let _server = Server::builder().listen(listen).start().unwrap();
    ended(child).exits(0);
}

#[test]
fn ping_counts_round_trips() {
    on_both(|address| {
        let ran =
            bsctl(address, &["ping", "--count", "3", "--interval", "1ms", "-o", "json"]).exits(0);
        assert_eq!(ran.json().as_array().unwrap().len(), 3);
    });
}

#[test]
fn watch_repeats_and_stops() {
    let server = Server::start().unwrap();
    put(server.address(), "t", "");
    let ran =
        bsctl(server.address(), &["watch", "-c", "2", "-i", "1ms", "--", "tubes", "-o", "name"])
            .exits(0);
    assert_eq!(ran.out(), "default\nt\n\ndefault\nt\n");
    let line =
        ["-o", "ndjson", "watch", "-i", "1ms", "--until", "ready==1", "--", "stats-tube", "t"];
    let ran = bsctl(server.address(), &line).exits(0);
    let tick: serde_json::Value = serde_json::from_str(ran.lines()[0]).unwrap();
    assert_eq!((ran.lines().len(), &tick["result"][0]["current-jobs-ready"]), (1, &1.into()));
    assert!(tick["ts"].is_string());
    // Something that does not exist (yet) is shown, and polled again.
    let ran =
        bsctl(server.address(), &["watch", "-c", "2", "-i", "1ms", "--", "stats-tube", "none"])
            .exits(0);
    assert_eq!(ran.out().matches("NOT_FOUND").count(), 2);
    bsctl(server.address(), &["watch", "--", "clear", "t", "--yes"]).exits(2);
    bsctl(server.address(), &["watch", "--", "watch", "stats"]).exits(2);
}

#[test]
fn watch_diff_marks_what_changed() {
    let server = Server::start().unwrap();
    let line =
        ["watch", "-c", "2", "-i", "1ms", "--diff", "--", "stats", "--columns", "cmd-stats,pid"];
    let ran = bsctl(server.address(), &line).exits(0);
    let lines = ran.lines();
    assert!(lines[3].starts_with("* cmd-stats\t"), "{lines:?}");
    assert!(lines[4].starts_with("  pid\t"), "{lines:?}");
}

#[test]
fn a_line_that_cannot_become_right_is_not_waited_for() {
    let both = format!("{},{}", dead_address(), dead_address());
    let ran = bsctl(&both, &["wait", "--for", "server", "--timeout", "1h"]).exits(2);
    assert!(ran.err.contains("takes a single server"), "{}", ran.err);
}
