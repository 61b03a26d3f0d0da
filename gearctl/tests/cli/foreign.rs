//! Servers of the field that are not gearmand: what they lack is said, and takes nothing else along.

use fixtures::gearmand::{Flavour, Server};
use fixtures::real::{Geard, RealServer, Rustygeard};
use serde_json::json;

use crate::harness::*;

/// Runs a scenario against the server as it is imitated, and against the real one where it is installed.
fn on(flavour: Flavour, scenario: impl Fn(&str)) {
    let server = Server::builder().flavour(flavour).start().unwrap();
    scenario(server.address());
    if let Some(real) = real(flavour) {
        scenario(real.address());
    }
}

fn real(flavour: Flavour) -> Option<RealServer> {
    match flavour {
        Flavour::Geard => Geard::start(),
        Flavour::Rustygeard => Rustygeard::start(),
        _ => None,
    }
}

const FOREIGN: [Flavour; 3] = [Flavour::Geard, Flavour::Rustygeard, Flavour::G2];

#[test]
fn what_a_silent_server_answers_is_shown_and_the_rest_is_named() {
    on(Flavour::Geard, |address| {
        let soon = |line: &[&str]| gearctl(address, &[&["--timeout", "0.5"], line].concat());
        let all = soon(&["server", "-o", "json"]).exits(0).json();
        assert_eq!((&all["functions"], &all["connections"]), (&json!(0), &json!(1)), "{all}");
        for key in ["version", "pid", "verbose", "show-jobs", "prioritystatus"] {
            assert!(all[key].is_null(), "{key}: {all}");
        }
        let silent =
            ["version", "getpid", "verbose", "show jobs", "show unique jobs", "prioritystatus"];
        assert_eq!(all["no-answer"], json!(silent));
        let listed = soon(&["functions", "-o", "json"]).exits(0);
        assert_eq!(listed.json(), json!([]));
        assert!(listed.err.contains("so HIGH, NORMAL and LOW are not known"), "{}", listed.err);
        for line in [&["version"][..], &["pid"], &["verbose"], &["jobs"], &["unique-jobs"]] {
            let error = soon(&[line, &["-o", "json"]].concat()).exits(124).error();
            assert!(error["hints"].to_string().contains("gearctl server shows"), "{error}");
        }
    });
}

#[test]
fn a_refusal_in_any_dialect_is_not_supported() {
    let lacks: [(Flavour, &[&[&str]]); 2] = [
        (Flavour::Rustygeard, &[&["pid"], &["verbose"], &["jobs"], &["unique-jobs"]]),
        (Flavour::G2, &[&["version"], &["pid"], &["verbose"], &["jobs"], &["unique-jobs"]]),
    ];
    for (flavour, lines) in lacks {
        on(flavour, |address| {
            for line in lines {
                let error =
                    gearctl(address, &[line, &["-o", "json"][..]].concat()).exits(76).error();
                assert_eq!(error["code"], "UNSUPPORTED", "{flavour} {line:?}");
            }
            let all = gearctl(address, &["server", "-o", "json"]).exits(0).json();
            assert_eq!((&all["pid"], &all["show-jobs"]), (&json!(null), &json!(false)), "{all}");
            assert_eq!((&all["prioritystatus"], &all["no-answer"]), (&json!(true), &json!([])));
            gearctl(address, &["workers"]).exits(0);
            let line = ["functions", "-o", "json"];
            assert_eq!(gearctl(address, &line).exits(0).json(), json!([]));
        });
    }
}

#[test]
fn one_job_that_cannot_be_cancelled_is_one_error() {
    on(Flavour::Rustygeard, |address| {
        let ran = gearctl(address, &["cancel", "H:x:1"]).exits(76);
        assert!(ran.err.starts_with("error: UNSUPPORTED: cancel job"), "{}", ran.err);
        let ran = gearctl(address, &["cancel", "H:x:1", "H:x:2"]).exits(76);
        assert!(ran.err.contains("before that: cancelled 0 jobs, 1 failed"), "{}", ran.err);
    });
}

#[test]
fn a_drain_is_refused_where_the_server_cannot_tell_who_waits() {
    for flavour in FOREIGN {
        on(flavour, |address| {
            let line = ["drain", "f", "--yes", "--timeout", "0.5", "-o", "json"];
            let error = gearctl(address, &line).exits(1).error();
            assert_eq!(error["code"], "CLIENTS_WAITING", "{flavour}");
            let hints = error["hints"].to_string();
            assert!(hints.contains("--as fail"), "{flavour}: {hints}");
            assert!(!hints.contains("--background-only"), "{flavour}: {hints}");
        });
    }
}

#[test]
fn what_is_no_gearman_server_is_said_at_once() {
    let server = fixtures::beanstalkd::Server::start().unwrap();
    // Without the answer it would be a timeout.
    for line in [&["functions"][..], &["server"], &["workers"], &["version"], &["pid"]] {
        let line = [line, &["-o", "json"]].concat();
        let error = gearctl(server.address(), &line).exits(76).error();
        let message = error["message"].to_string();
        assert!(message.contains("UNKNOWN_COMMAND"), "{line:?}: {message}");
        assert!(message.contains("is a Gearman server there?"), "{line:?}: {message}");
    }
}

#[test]
fn a_server_that_ends_with_a_word_of_its_own_has_ended() {
    let server = Server::builder().flavour(Flavour::Rustygeard).start().unwrap();
    let confirm = format!("--confirm={}", server.address());
    gearctl(server.address(), &["shutdown", &confirm]).exits(0);
}
