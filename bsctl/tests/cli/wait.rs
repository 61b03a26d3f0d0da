//! `wait`.

use std::time::Duration;

use fixtures::beanstalkd::Server;
use serde_json::json;

use crate::harness::*;

#[test]
fn a_wait_names_its_tube_and_what_it_saw_last() {
    let server = Server::start().unwrap();
    let wait = |condition: &str, more: &[&str]| {
        bsctl(server.address(), &[&["wait", "-t", "t", "--for", condition], more].concat())
    };
    for (condition, tube) in [("server", None), ("job-gone=999", None), ("ready==0", Some("t"))] {
        assert_eq!(wait(condition, &["-o", "json"]).exits(0).json()["queue"], json!(tube));
    }
    put(server.address(), "t", "");
    let line = ["-a", server.address(), "wait", "--for", "job-state=9:ready", "--timeout", "3s"];
    let other = command(&line).env("BSCTL_PROGRESS", "json").spawn().unwrap();
    let ran = wait("empty", &["--timeout", "3s", "-o", "json"]).exits(124);
    assert!(ran.error()["message"].as_str().unwrap().contains("last seen: 1 job"), "{}", ran.err);
    let ran = ended(other).exits(124);
    assert!(ran.err.contains("\"label\":\"waiting for `job-state=9:ready`\""), "{}", ran.err);
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
fn a_condition_that_cannot_become_true_is_a_usage_error() {
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
