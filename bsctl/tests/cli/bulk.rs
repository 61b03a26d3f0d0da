//! `clear` and `drain`: confirmation, targets, files.

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
fn clear_asks_and_removes_all_but_reserved_jobs() {
    on_both(|address| {
        let _holder = filled(address);
        let left = || {
            let stats = client(address).stats_tube("t").unwrap().unwrap();
            let states = [stats.current_jobs_ready, stats.current_jobs_delayed];
            (states, stats.current_jobs_buried, stats.current_jobs_reserved)
        };
        for command in ["clear", "drain"] {
            let ran = bsctl(address, &[command, "t"]).exits(2);
            assert!(ran.err.contains("9 jobs (3 ready, 3 delayed, 3 buried)"), "{}", ran.err);
        }
        bsctl(address, &["clear", "t", "--yes", "--state", "buried", "-c", "2"]).exits(0);
        assert_eq!(left(), ([3, 3], 1, 1));
        client(address).pause_tube("t", std::time::Duration::from_secs(3600)).unwrap();
        let report = bsctl(address, &["clear", "t", "--yes", "-o", "json"]).exits(0).json();
        assert_eq!((&report["attempted"], &report["succeeded"]), (&7.into(), &7.into()));
        assert_eq!(left(), ([0, 0], 0, 1));
    });
}

/// There is nothing to confirm.
#[test]
fn clearing_a_missing_tube_succeeds() {
    on_both(|address| {
        let ran = bsctl(address, &["clear", "none", "--yes"]).exits(0);
        assert_eq!(ran.out(), "");
        assert!(ran.err.contains("does not exist"), "{}", ran.err);
        for command in ["clear", "drain"] {
            let ran = bsctl(address, &[command, "none", "--until-empty"]).exits(0);
            assert!(!ran.err.contains("--yes"), "{command}: {}", ran.err);
        }
    });
}

#[test]
fn clearing_all_tubes_requires_the_server_name() {
    let server = Server::start().unwrap();
    let confirm = format!("--confirm={}", server.address());
    put_buried(server.address(), "a", "");
    put_buried(server.address(), "b", "");
    for (line, done) in [
        (&["kick", "--all-tubes", "--all"][..], "kicked 2 jobs"),
        (&["clear", "--all-tubes"], "2 jobs"),
    ] {
        let run = |more: &str| bsctl(server.address(), &[line, &[more]].concat());
        run("--yes").exits(2);
        run("--confirm=other").exits(2);
        let ran = run(&confirm).exits(0);
        assert!(ran.out().is_empty() && ran.err.contains(done), "{ran:?}");
    }
}

#[test]
fn a_lost_connection_reports_progress() {
    let server = Server::start().unwrap();
    let ids: Vec<_> = (0..10).map(|_| put_buried(server.address(), "t", "")).collect();
    server.faults().add(Fault::nth(5).of("delete").cut_after(0));
    let line = ["clear", "t", "--yes", "--state", "buried", "-o", "json"];
    let ran = bsctl(server.address(), &line).exits(4);
    assert_eq!(ran.bytes, b"");
    assert_eq!(ran.error()["code"], "CONNECTION_LOST");
    assert!(ran.err.contains("before that: deleted 4 jobs"), "{}", ran.err);
    let look = format!("bsctl job {}, to see whether it still exists", ids[4]);
    assert_eq!(ran.error()["hints"][0], look.as_str());
}

#[test]
fn drain_and_import_a_file() {
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
fn backup_saves_cleared_and_deleted_jobs() {
    on_both(|address| {
        let _holder = filled(address);
        let (free, held) = (put(address, "u", "free"), put(address, "u", "held"));
        let mut other = client(address);
        other.reserve_job(held).unwrap().unwrap();
        let directory = tempfile::tempdir().unwrap();
        let name = |file: &str| directory.path().join(file).to_str().unwrap().to_owned();
        let (cleared, deleted) = (name("cleared"), name("deleted"));
        let line = ["clear", "t", "--backup", &cleared, "--yes", "-c", "2", "-o", "json"];
        let report = bsctl(address, &line).exits(0).json();
        assert_eq!((&report["action"], &report["succeeded"]), (&"deleted".into(), &2.into()));
        assert_eq!(std::fs::read_to_string(&cleared).unwrap().lines().count(), 2);
        bsctl(address, &["clear", "t", "--backup", &cleared, "--yes"]).exits(74);
        assert_eq!(client(address).stats_tube("t").unwrap().unwrap().current_jobs_ready, 1);

        let ids = [free.to_string(), held.to_string(), "999".to_owned()];
        let line = ["delete", &ids[0], &ids[1], &ids[2], "--backup", &deleted];
        let ran = bsctl(address, &line).exits(3);
        assert!(ran.err.contains("reserved by another connection"), "{}", ran.err);
        assert!(ran.err.contains("job 999 does not exist"), "{}", ran.err);
        assert!(stats(address, free).is_none() && stats(address, held).is_some());
        bsctl(address, &["delete", &ids[1], "--backup", &deleted]).exits(74);
        bsctl(address, &["import", &deleted]).exits(0);
        let bodies = bsctl(address, &["jobs", "-t", "u", "--state", "ready", "-o", "raw"]).exits(0);
        assert_eq!(bodies.out().trim_end(), "free");
    });
}

#[test]
fn drain_writes_only_records_to_stdout() {
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
        bsctl(address, &["drain", "t", "--yes", "--decode", "utf8"]).exits(2);
    });
}
