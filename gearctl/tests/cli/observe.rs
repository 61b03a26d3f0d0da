//! `smoke`, `wait`, `shutdown`.

use std::io::BufRead;

use fixtures::fault::Fault;
use fixtures::gearmand::Server;
use serde_json::{Value, json};

use crate::harness::*;

#[test]
fn smoke_passes_and_leaves_nothing_behind() {
    on_both(|server| {
        let address = server.address();
        let rows = gearctl(address, &["smoke", "-o", "json"]).exits(0).json();
        let rows = rows.as_array().unwrap();
        let steps: Vec<&str> = rows.iter().map(|row| row["step"].as_str().unwrap()).collect();
        let all =
            ["register", "submit", "grab", "status", "complete", "admin", "version", "clean up"];
        assert_eq!(steps, all);
        assert!(rows.iter().all(|row| row["ok"] == true), "{rows:?}");
        assert_eq!(gearctl(address, &["functions"]).exits(0).out(), "");
        assert_eq!(gearctl(address, &["jobs"]).exits(0).out(), "");
    });
}

#[test]
fn a_step_that_fails_is_named_and_cleaned_up_after() {
    let steps = [
        ("register", "workers", b"ERR not today\r\n".to_vec()),
        ("submit", "SUBMIT_JOB", packet(19, b"ERR\0not today")),
        // As if another worker had taken it: an ERROR would mean that this kind of grab is unknown.
        ("grab", "GRAB_JOB_UNIQ", packet(10, b"")),
        ("status", "GET_STATUS", packet(19, b"ERR\0not today")),
        ("complete", "WORK_COMPLETE", packet(19, b"ERR\0not today")),
        ("admin", "status", b"ERR not today\r\n".to_vec()),
        ("version", "version", b"ERR not today\r\n".to_vec()),
        ("clean up", "drop", b"ERR not today\r\n".to_vec()),
    ];
    // Some of them are waited for.
    at_once(steps, |(step, command, refusal)| {
        let server = Server::start().unwrap();
        let fault = match command {
            // The first connection detects whether it is a Gearman server.
            "GET_STATUS" => Fault::nth(2),
            _ => Fault::always(),
        };
        server.faults().add(fault.of(command).reply_bytes(refusal));
        let ran = gearctl(server.address(), &["smoke", "-o", "json", "--timeout", "3s"]);
        assert!(![Some(0), None].contains(&ran.code), "{step}: {ran:?}");
        let rows: Vec<Value> = serde_json::from_slice(&ran.bytes).unwrap();
        let last = rows.last().unwrap();
        assert_eq!((&last["step"], &last["ok"]), (&json!(step), &json!(false)), "{ran:?}");
        assert!(rows[..rows.len() - 1].iter().all(|row| row["ok"] == true), "{rows:?}");
        assert_eq!(server.view().jobs, 0, "{step}");
    });
}

/// A packet of a server, with its type.
fn packet(kind: u8, data: &[u8]) -> Vec<u8> {
    let size = u8::try_from(data.len()).unwrap();
    [&b"\0RES\0\0\0"[..], &[kind, 0, 0, 0, size], data].concat()
}

#[test]
fn a_broken_connection_has_its_own_code_and_the_row_says_where() {
    type Effect = fn(Fault) -> Fault;
    let faults: [(Effect, i32); 3] = [
        (|fault| fault.cut_after(0), 69),
        (Fault::hang, 124),
        (|fault| fault.reply_bytes(*b"\0RES\0\0\0\x63\0\0\0\0"), 76),
    ];
    at_once(faults, |(fault, code)| {
        let server = Server::start().unwrap();
        // The first connection detects whether it is a Gearman server, and a request may be repeated.
        for at in 2..10 {
            server.faults().add(fault(Fault::nth(at).of("GET_STATUS")));
        }
        let ran = gearctl(server.address(), &["smoke", "--timeout", "3s"]).exits(code);
        let last = ran.lines().last().copied().unwrap_or_default();
        assert!(last.starts_with("status\t") && last.ends_with("\tfalse"), "{ran:?}");
    });
}

#[test]
fn waiting_ends_when_the_condition_is_true() {
    on_both(|server| {
        let address = server.address();
        let wait =
            |line: &[&str]| gearctl(address, &[&["wait", "-i", "10ms", "--for"], line].concat());
        let done = wait(&["server", "-o", "json"]).exits(0).json();
        assert_eq!((&done["condition"], &done["looks"]), (&json!("server"), &json!(1)));
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
fn shutdown_asks_and_says_that_gearmand_has_no_such_command() {
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
