//! `map`: lines in, lines out.

use gearman_client::JobHandle;
use gearman_client::blocking::Client;
use serde_json::json;

use crate::harness::*;

#[test]
fn map_keeps_the_order_unless_unordered() {
    on_both(|server| {
        let address = server.address();
        let line = ["-s", address, "work", "-f", "up", "-j", "2", "--shell", "tr a-z A-Z"];
        let _worker = Running::of(command(&line).spawn().unwrap());
        workers(address, "up", 2);
        let lines: String = (0..50).map(|n| format!("line {n}\n")).collect();
        let ran = ["map", "up", "-j", "4", "--ordered"];
        let ran = gearctl_with(address, &ran, lines.as_bytes()).exits(0);
        assert_eq!(ran.out(), lines.to_uppercase());
        let ran = gearctl_with(address, &["map", "up", "-j", "4"], lines.as_bytes()).exits(0);
        let mut got: Vec<&str> = ran.out().lines().collect();
        got.sort_unstable();
        let upper = lines.to_uppercase();
        let mut wanted: Vec<&str> = upper.lines().collect();
        wanted.sort_unstable();
        assert_eq!(got, wanted);
    });
}

#[test]
fn failed_lines_become_records_and_exit_3() {
    on_both(|server| {
        let address = server.address();
        let line = ["-s", address, "work", "-f", "some", "--exec", "grep", "-v", "b"];
        let _worker = Running::of(command(&line).spawn().unwrap());
        workers(address, "some", 1);
        let ran = gearctl_with(address, &["map", "some", "--ordered"], b"a\nb\nc\n").exits(3);
        assert_eq!(ran.out(), "a\nc\n");
        let ran = gearctl_with(address, &["map", "some", "-o", "ndjson"], b"a\nb\nc\n").exits(3);
        let rows = ran.objects();
        assert_eq!(rows.iter().map(|row| &row["ok"]).collect::<Vec<_>>(), [true, false, true]);
        assert_eq!((&rows[2]["n"], &rows[2]["body"]), (&json!(3), &json!("c")));
        let ran = gearctl_with(address, &["map", "some", "--on-error", "stop"], b"b\n").exits(1);
        assert!(ran.err.contains("JOB_FAILED"), "{}", ran.err);
        // Nothing is started after the failure: `a` would be answered.
        for _ in 0..5 {
            let ran =
                gearctl_with(address, &["map", "some", "--on-error", "stop"], b"b\na\n").exits(1);
            assert_eq!(ran.out(), "", "{}", ran.err);
        }
    });
}

#[test]
fn an_oversized_result_fails_only_its_line() {
    on_both(|server| {
        let address = server.address();
        let shell = "read n; head -c $n /dev/zero | tr '\\0' x";
        let line = ["-s", address, "work", "-f", "big", "-j", "2", "--shell", shell];
        let _worker =
            Running::of(command(&[&line[..], &["--stream", "chunks"]].concat()).spawn().unwrap());
        workers(address, "big", 2);
        let map = |flags: &[&str], lines: &[u8]| {
            gearctl_with(address, &[&["map", "big", "-j", "2", "--ordered"], flags].concat(), lines)
        };
        let ran = map(&["--max-result", "100k"], b"3\n300000\n5\n").exits(3);
        assert_eq!(ran.out(), "xxx\nxxxxx\n");
        assert!(ran.err.contains("RESULT_TOO_LARGE"), "{}", ran.err);
        let ran = map(&["--max-result", "10", "-o", "json"], b"6\n6\n2\n").exits(3);
        let oks: Vec<bool> =
            ran.json().as_array().unwrap().iter().map(|row| row["ok"] == true).collect();
        assert_eq!(oks, [true, false, true]);
    });
}

#[test]
fn ordered_map_uses_bounded_memory() {
    on_both(|server| {
        let address = server.address();
        // The first job is the last to end, and all others have to wait for it; there is room for one of them.
        let shell = "read n; case $n in 0) sleep 0.3;; esac; printf '%05d' $n";
        let line = ["-s", address, "work", "-f", "n", "-j", "4", "--shell", shell];
        let _worker = Running::of(command(&line).spawn().unwrap());
        workers(address, "n", 4);
        let lines: String = (0..20).map(|n| format!("{n}\n")).collect();
        let line = ["map", "n", "-j", "4", "--ordered", "--max-result", "5"];
        let ran = gearctl_with(address, &line, lines.as_bytes()).exits(0);
        let wanted: String = (0..20).map(|n| format!("{n:05}\n")).collect();
        assert_eq!(ran.out(), wanted);
    });
}

/// The events of the second job have to wait for the first one's, and arrive more often than the tool waits for any.
#[cfg(unix)]
#[test]
fn an_ordered_map_ends_at_a_signal_while_a_later_job_reports_progress() {
    on_both(|server| {
        let address = server.address();
        let shell = "read line; \
            test $line = silent || while echo STATUS 1/2 >&2; do sleep 0.005; done; \
            exec sleep 1000";
        let line = ["-s", address, "work", "-f", "two", "-j", "2", "--status-prefix", "STATUS"];
        let line = [&line[..], &["--shell", shell]].concat();
        let _worker = Running::of(command(&line).spawn().unwrap());
        workers(address, "two", 2);
        let directory = tempfile::tempdir().unwrap();
        let lines = directory.path().join("lines");
        std::fs::write(&lines, "silent\nbusy\n").unwrap();
        let mut map = command(&["-s", address, "map", "two", "-j", "2", "--ordered"]);
        map.stdin(std::fs::File::open(&lines).unwrap());
        let map = Running::of(map.spawn().unwrap());
        let mut client = Client::connect(address).unwrap();
        eventually("progress", || {
            let jobs = gearctl(address, &["jobs", "-o", "json"]).exits(0).json();
            let is_busy = |job: &serde_json::Value| {
                let handle: JobHandle = job["handle"].as_str().unwrap().parse().unwrap();
                client.status(&handle).unwrap().progress.numerator() == Some(1)
            };
            jobs.as_array().unwrap().iter().any(is_busy).then_some(())
        });
        signal(&map, rustix::process::Signal::INT);
        map.ended().exits(130);
    });
}
