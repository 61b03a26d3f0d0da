//! `wait`.

use std::time::Duration;

use fixtures::beanstalkd::Server;
use serde_json::json;

use crate::harness::*;

#[test]
fn wait_reports_the_tube_and_last_value() {
    let server = Server::start().unwrap();
    let wait = |condition: &str, more: &[&str]| {
        bsctl(server.address(), &[&["wait", "-t", "t", "--for", condition], more].concat())
    };
    for (condition, tube) in [("server", None), ("job-gone=999", None), ("ready==0", Some("t"))] {
        assert_eq!(wait(condition, &["-o", "json"]).exits(0).json()["queue"], json!(tube));
    }
    put(server.address(), "t", "");
    let empty = |limit: &str| wait("empty", &["--timeout", limit, "-o", "json"]);
    let ran = late("last seen: 1 job", empty).exits(124);
    assert!(ran.error()["message"].as_str().unwrap().contains("last seen: 1 job"), "{}", ran.err);
    let ready = |limit: &str| {
        let line = ["-a", server.address(), "wait", "--for", "job-state=9:ready", "--timeout"];
        let mut command = command(&[&line[..], &[limit]].concat());
        ended(command.env("BSCTL_PROGRESS", "json").spawn().unwrap())
    };
    late("\"label\":\"waiting for `job-state=9:ready`\"", ready).exits(124);
}

#[test]
fn wait_returns_at_once_if_the_condition_holds() {
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
fn wait_rejects_an_impossible_condition() {
    let dead = dead_address();
    for condition in ["", "nonsense", "nonsense==1", "job-gone=x", "job-state=1", "job-state=1:odd"]
    {
        bsctl(&dead, &["wait", "--for", condition]).exits(2);
    }
    let both = format!("{dead},{}", dead_address());
    let ran = bsctl(&both, &["wait", "--for", "server", "--timeout", "1h"]).exits(2);
    assert!(ran.err.contains("takes a single server"), "{}", ran.err);
}

#[test]
fn wait_accepts_a_tube_that_does_not_exist_yet() {
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
