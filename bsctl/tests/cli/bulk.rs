//! `clear` and `drain`: confirmation, targets, interruption.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use beanstalk_client::PutOptions;
use fixtures::beanstalkd::Server;
use fixtures::fault::Fault;

use crate::harness::*;

/// Three jobs in each state that can be cleared, and a reserved one.
fn filled(address: &str) -> beanstalk_client::blocking::Client {
    for _ in 0..3 {
        put(address, "t", "r");
        put_delayed(address, "t", "d");
        put_buried(address, "t", "b");
    }
    let mut holder = client(address);
    holder.watch("t").unwrap();
    holder.reserve().unwrap().job().unwrap();
    put(address, "t", "r");
    holder
}

#[test]
fn without_a_terminal_and_yes_nothing_is_deleted() {
    on_both(|address| {
        let _holder = filled(address);
        for line in [&["clear", "t"][..], &["clear", "t", "--no-input"], &["drain", "t"]] {
            let ran = bsctl(address, line).exits(2);
            assert!(ran.err.contains("--yes"), "{}", ran.err);
            assert!(ran.err.contains("9 jobs (3 ready, 3 delayed, 3 buried)"), "{}", ran.err);
            assert!(ran.err.contains(address), "{}", ran.err);
        }
        assert_eq!(client(address).stats_tube("t").unwrap().unwrap().cmd_delete, 0);
    });
}

#[test]
fn clear_removes_every_state_but_reserved() {
    on_both(|address| {
        let _holder = filled(address);
        let line = ["clear", "t", "--yes", "-o", "json"];
        let report = bsctl(address, &line).exits(0).json();
        assert_eq!((&report["attempted"], &report["succeeded"]), (&9.into(), &9.into()));
        let left = client(address).stats_tube("t").unwrap().unwrap();
        assert_eq!(
            left.current_jobs_ready + left.current_jobs_delayed + left.current_jobs_buried,
            0
        );
        assert_eq!(left.current_jobs_reserved, 1);
    });
}

#[test]
fn clear_by_state_and_limit() {
    on_both(|address| {
        let _holder = filled(address);
        bsctl(address, &["clear", "t", "--yes", "--state", "buried", "--limit", "2"]).exits(0);
        let left = client(address).stats_tube("t").unwrap().unwrap();
        assert_eq!(
            (left.current_jobs_ready, left.current_jobs_delayed, left.current_jobs_buried),
            (3, 3, 1)
        );
    });
}

#[test]
fn clear_reaches_the_jobs_of_a_paused_tube() {
    on_both(|address| {
        put(address, "t", "1");
        put(address, "t", "2");
        client(address).pause_tube("t", std::time::Duration::from_secs(3600)).unwrap();
        let report = bsctl(address, &["clear", "t", "--yes", "-o", "json"]).exits(0).json();
        assert_eq!(report["succeeded"], 2);
    });
}

#[test]
fn a_tube_that_does_not_exist_is_clear_already() {
    on_both(|address| {
        let ran = bsctl(address, &["clear", "none", "--yes"]).exits(0);
        assert_eq!(ran.out(), "");
        assert!(ran.err.contains("does not exist"), "{}", ran.err);
    });
}

#[test]
fn all_tubes_need_the_servers_name() {
    let server = Server::start().unwrap();
    put(server.address(), "a", "");
    put(server.address(), "b", "");
    bsctl(server.address(), &["clear", "--all-tubes", "--yes"]).exits(2);
    bsctl(server.address(), &["clear", "--all-tubes", "--confirm=other"]).exits(2);
    let confirm = format!("--confirm={}", server.address());
    let ran = bsctl(server.address(), &["clear", "--all-tubes", &confirm]).exits(0);
    assert!(ran.out().is_empty() && ran.err.contains("2 jobs"), "{ran:?}");
}

/// Puts jobs until it should stop.
fn with_producer<T>(address: &str, run: impl FnOnce() -> T) -> T {
    let stop = AtomicBool::new(false);
    let mut producer = client(address);
    producer.use_tube("t").unwrap();
    for _ in 0..500 {
        let _ = producer.put("x", PutOptions::default()).unwrap();
    }
    thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::SeqCst) {
                let _ = producer.put("x", PutOptions::default()).unwrap();
            }
        });
        let result = run();
        stop.store(true, Ordering::SeqCst);
        result
    })
}

/// A4: the target is what existed at the start, so a producer does not keep it running.
#[test]
fn clear_ends_though_a_producer_is_running() {
    on_both(|address| {
        let report = with_producer(address, || {
            bsctl(address, &["clear", "t", "--yes", "-o", "json"]).exits(0).json()
        });
        assert!(report["succeeded"].as_u64().unwrap() >= 500, "{report}");
    });
}

#[test]
fn a_tube_that_does_not_exist_leaves_nothing_to_confirm() {
    let server = Server::start().unwrap();
    for command in ["clear", "drain"] {
        let ran = bsctl(server.address(), &[command, "nobody", "--until-empty"]).exits(0);
        assert!(!ran.err.contains("--yes"), "{command}: {}", ran.err);
    }
}

/// A4: Ctrl-C midway finishes what is in flight and reports it.
#[cfg(unix)]
#[test]
fn ctrl_c_midway_reports_what_was_done() {
    let server = Server::start().unwrap();
    let address = server.address();
    let ran = with_producer(address, || {
        let line = ["-a", address, "clear", "t", "--yes", "--until-empty", "-o", "json"];
        let child = command(&line).spawn().unwrap();
        let deletes = || client(address).stats().unwrap().cmd_delete;
        while deletes() < 500 {
            thread::yield_now();
        }
        signal(&child, rustix::process::Signal::INT);
        ended(child).exits(130)
    });
    let report = ran.json();
    let deleted = client(address).stats().unwrap().cmd_delete;
    assert_eq!(report["succeeded"], deleted);
    assert_eq!(client(address).stats().unwrap().current_jobs_reserved, 0);
}

#[test]
fn a_lost_connection_says_what_was_done_before() {
    let server = Server::start().unwrap();
    for _ in 0..10 {
        put_buried(server.address(), "t", "");
    }
    server.faults().add(Fault::nth(5).of("delete").cut_after(0));
    let line = ["clear", "t", "--yes", "--state", "buried", "-o", "json"];
    let ran = bsctl(server.address(), &line).exits(4);
    assert_eq!(ran.bytes, b"");
    assert_eq!(ran.error()["code"], "CONNECTION_LOST");
    assert!(ran.err.contains("before that: deleted 4 jobs"), "{}", ran.err);
}

#[test]
fn drain_into_a_file_and_back() {
    on_both(|address| {
        let _holder = filled(address);
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("jobs.ndjson");
        let name = file.to_str().unwrap();
        let report =
            bsctl(address, &["drain", "t", "--to", name, "--yes", "-o", "json"]).exits(0).json();
        assert_eq!(report["succeeded"], 9);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        }
        // An existing file is not overwritten, and no job is touched.
        bsctl(address, &["import", name, "--keep-state"]).exits(0);
        bsctl(address, &["drain", "t", "--to", name, "--yes"]).exits(74);
        let back = client(address).stats_tube("t").unwrap().unwrap();
        assert_eq!(
            (back.current_jobs_ready, back.current_jobs_delayed, back.current_jobs_buried),
            (3, 3, 3)
        );
    });
}

#[test]
fn drain_to_stdout_writes_records_and_nothing_else() {
    on_both(|address| {
        let _holder = filled(address);
        let ran = bsctl(address, &["drain", "t", "--yes", "--state", "ready"]).exits(0);
        assert_eq!(ran.lines().len(), 3);
        for line in ran.lines() {
            let record: serde_json::Value = serde_json::from_str(line).unwrap();
            assert_eq!(
                (&record["v"], &record["tube"], &record["body"]),
                (&1.into(), &"t".into(), &"r".into())
            );
        }
        let all = bsctl(address, &["drain", "t", "--yes", "-o", "json"]).exits(0).json();
        assert_eq!(all.as_array().unwrap().len(), 6);
        bsctl(address, &["drain", "t", "--yes", "-o", "table"]).exits(2);
        bsctl(address, &["drain", "t", "--yes", "--encoding", "json"]).exits(2);
    });
}
