//! A worker on a system that temporarily has no descriptors or threads left.

use ctl_contract::shortage::{WAITING, Worker, limited};
use serde_json::json;

use crate::harness::*;

fn is_running(address: &str) -> bool {
    let rows = gearman_client::blocking::Admin::connect(address).unwrap().status().unwrap();
    rows.iter().any(|row| row.running == 1)
}

fn is_gone(address: &str) -> bool {
    let rows = gearman_client::blocking::Admin::connect(address).unwrap().status().unwrap();
    rows.iter().all(|row| row.total == 0)
}

#[test]
fn a_signal_without_free_threads_lets_running_jobs_finish() {
    on_both_in_turn(|server| {
        let address = server.address();
        queue(address, "f", b"x");
        // A thread each for main, the worker and its first slot, and none for the second.
        let line = ["-f", "f", "-j", "2", "--builtin", "sleep=1s"];
        let mut worker = Worker::start(&PROGRAM, address, (3, Some(3)), &line);
        worker.says(WAITING);
        // On a slow machine it may have ended by the time that it is looked for.
        eventually("the job", || (is_running(address) || is_gone(address)).then_some(()));
        assert_eq!(worker.terminated(), Some(143));
        assert!(is_gone(address));
    });
}

#[test]
fn server_needs_no_extra_thread() {
    on_both_in_turn(|server| {
        let (mut command, _folder) = limited(&PROGRAM, 4, Some(1));
        let asked =
            command.args(["-s", server.address(), "server", "-o", "json"]).output().unwrap();
        assert_eq!(asked.status.code(), Some(0), "{asked:?}");
        let all: serde_json::Value = serde_json::from_slice(&asked.stdout).unwrap();
        assert_eq!((&all["no_answer"], &all["prioritystatus"]), (&json!([]), &json!(true)));
    });
}

#[test]
fn a_lack_of_threads_suggests_a_retry() {
    on_both_in_turn(|server| {
        queue(server.address(), "mail", b"x");
        let of = |line: &[&str]| {
            let (mut command, _folder) = limited(&PROGRAM, 5, Some(1));
            let asked = command.args(["-s", server.address()]).args(line).output().unwrap();
            assert_eq!(asked.status.code(), Some(75), "{line:?}: {asked:?}");
        };
        of(&["submit", "mail", "y"]);
        of(&["drain", "mail", "--yes"]);
    });
}
