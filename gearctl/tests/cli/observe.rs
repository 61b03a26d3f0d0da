//! `wait`, `shutdown`.

use std::io::BufRead;

use serde_json::json;

use crate::harness::*;

#[test]
fn wait_ends_when_the_condition_holds() {
    on_both(|server| {
        let address = server.address();
        let wait =
            |line: &[&str]| gearctl(address, &[&["wait", "-i", "10ms", "--for"], line].concat());
        let done = wait(&["server", "-o", "json"]).exits(0).json();
        assert_eq!((&done["condition"], &done["polls"]), (&json!("server"), &json!(1)));
        wait(&["empty", "-f", "f"]).exits(0);
        wait(&["idle", "-f", "f"]).exits(0);
        let told = gearctl(address, &["functions", "ff"]).exits(0);
        assert!(told.err.contains("no functions match ff"), "{}", told.err);
        wait(&["empty", "-f", "f", "--must-exist"]).exits(1);
        wait(&["idle"]).exits(2);
        wait(&["nonsense==1", "-f", "f"]).exits(2);
        let handle = queue(address, "f", b"x");
        wait(&["function-exists", "-f", "f"]).exits(0);
        wait(&["queued==1", "-f", "f", "--stable", "2"]).exits(0);
        let done = format!("handle-done={handle}");
        at_once(["idle", &done], |condition| {
            let late = wait(&[condition, "-f", "f", "--timeout", "3"]).exits(124);
            let seen = if condition == "idle" { "last seen: total 1" } else { "queued" };
            assert!(late.err.contains(seen), "{}", late.err);
        });
        let line = ["-s", address, "-v", "wait", "-i", "10ms", "--for", &done];
        let mut waiting = command(&line).spawn().unwrap();
        // Only a job that was seen can be observed to end.
        let stderr = std::io::BufReader::new(waiting.stderr.take().unwrap());
        let mut lines = stderr.lines().map(Result::unwrap);
        assert!(lines.any(|line| line.contains("it is queued")));
        let rest = std::thread::spawn(move || lines.count());
        gearctl(address, &["work", "-f", "f", "--builtin", "echo", "-c", "1"]).exits(0);
        assert_eq!(waiting.wait().unwrap().code(), Some(0));
        rest.join().unwrap();
        wait(&[&done, "--timeout", "1"]).exits(124);
        wait(&[&done, "--assume-done"]).exits(0);
    });
    let line = ["wait", "--for", "server", "--timeout", "0.3", "-i", "50ms"];
    gearctl(&dead_address(), &line).exits(124);
}

#[test]
fn shutdown_asks_and_reports_missing_support() {
    on_both(|server| {
        let address = server.address();
        gearctl(address, &["shutdown"]).exits(2);
        gearctl(address, &["shutdown", "--yes"]).exits(2);
        gearctl(address, &["server", "shutdown", "-n", "-i", "1s"]).exits(2);
        gearctl(address, &["server", "version", "--graceful"]).exits(2);
        let confirm = format!("--confirm={address}");
        let error = gearctl(address, &["shutdown", &confirm, "-o", "json"]).exits(76).error_alone();
        assert!(error["message"].as_str().unwrap().contains("1.1.14"), "{error}");
        gearctl(address, &["ping"]).exits(0);
        gearctl(address, &["shutdown", "-n"]).exits(0);
    });
}
