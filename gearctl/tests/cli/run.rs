//! Submitting jobs, with the standard tools as workers.

use serde_json::{Value, json};

use crate::harness::*;

/// A worker of the standard tool.
fn worker(server: &Site, function: &str, program: &[&str]) -> Running {
    let line = [&["-w", "-f", function], program].concat();
    let worker = Running::of(server.tool("gearman", &line).spawn().unwrap());
    workers(server.address(), function, 1);
    worker
}

#[test]
fn the_standard_worker_serves_run() {
    on_both_with_tools(|server| {
        let _worker = worker(server, "up", &["--", "tr", "a-z", "A-Z"]);
        let address = server.address();
        assert_eq!(gearctl(address, &["run", "up", "hello"]).exits(0).out(), "HELLO");
        assert_eq!(
            gearctl_with(address, &["run", "up"], b"from stdin\n").exits(0).out(),
            "FROM STDIN\n"
        );
        assert_eq!(gearctl(address, &["run", "up", "a", "b"]).exits(0).out(), "AB");
        let encoded = gearctl(address, &["run", "up", "a", "b", "--decode", "hex"]).exits(0);
        assert_eq!(encoded.out(), "41\n42\n");
        let one = gearctl(address, &["run", "up", "x", "-u", "id-1", "-o", "json"]).exits(0).json();
        assert_eq!(
            (&one["ok"], &one["outcome"], &one["body"], &one["unique"]),
            (&json!(true), &json!("complete"), &json!("X"), &json!("id-1"))
        );
        let many = ["run", "up", "--lines", "-j", "4", "-o", "json"];
        let many = gearctl_with(address, &many, b"a\nb\nc").exits(0).json();
        let bodies: Vec<&str> =
            many.as_array().unwrap().iter().map(|job| job["body"].as_str().unwrap()).collect();
        assert_eq!(bodies, ["A", "B", "C"]);
        assert_eq!(gearctl_with(address, &["run", "up", "-0"], b"a\0b").exits(0).out(), "A\0B\0");
    });
}

#[test]
fn run_passes_bytes_unchanged() {
    on_both_with_tools(|server| {
        let _worker = worker(server, "cat", &["--", "cat"]);
        let all: Vec<u8> = (0..=u8::MAX).collect();
        let ran = gearctl_with(server.address(), &["run", "cat"], &all).exits(0);
        assert_eq!(ran.bytes, all);
        let json =
            gearctl_with(server.address(), &["run", "cat", "-o", "json"], &all).exits(0).json();
        assert!(json["body_base64"].is_string() && json.get("body").is_none(), "{json}");
    });
}

#[test]
fn a_failed_job_exits_1() {
    on_both_with_tools(|server| {
        let _worker = worker(server, "no", &["--", "false"]);
        let address = server.address();
        let ran = gearctl(address, &["run", "no", "x"]).exits(1);
        assert!(ran.err.contains("JOB_FAILED") && ran.bytes.is_empty(), "{}", ran.err);
        let error = gearctl(address, &["run", "no", "x", "-o", "json"]).exits(1).error_alone();
        assert_eq!(error["code"], "JOB_FAILED");
        gearctl_with(address, &["run", "no", "--lines"], b"a\nb\n").exits(1);
    });
}

/// The server skips a job that the last waiting client has left, and merges every other one of its id with it.
#[test]
fn reports_jobs_skipped_because_of_their_id() {
    on_both(|server| {
        let address = server.address();
        let submit = ["submit", "f", "--unique", "k", "important"];
        gearctl(address, &submit).exits(0);
        gearctl(address, &submit).exits(0);
        // The job stays, because this is seen before it is merged.
        let run = ["run", "f", "--unique", "k", "x", "--timeout"];
        let refused = gearctl(address, &[&run[..], &["1h"]].concat()).exits(1);
        assert!(refused.err.contains("JOB_QUEUED"), "{}", refused.err);
        let merged = late("a job with the id k is queued already", |limit| {
            let record = br#"{"unique":"k","body":"x"}"#;
            gearctl_with(address, &["run", "f", "--ndjson", "--timeout", limit], record)
        });
        let merged = merged.exits(124);
        assert!(merged.err.contains("and every other one with the id k"), "{}", merged.err);
        eventually("the loss of the client", || {
            let jobs = gearctl(address, &["jobs", "-o", "json"]).exits(0).json();
            jobs[0]["ignored"].as_bool().filter(|ignored| *ignored)
        });
        for (line, code) in
            [(&submit[..], "JOB_SKIPPED"), (&[&run[..], &["1h"]].concat(), "JOB_QUEUED")]
        {
            let skipped = gearctl(address, line).exits(1);
            assert!(skipped.err.contains(code), "{}", skipped.err);
        }
        let other = late("try: a worker of f", |limit| {
            let unique = format!("other{limit}");
            gearctl(address, &["run", "f", "--unique", &unique, "x", "--timeout", limit])
        });
        let other = other.exits(124);
        assert!(!other.err.contains("is queued already"), "{}", other.err);
        assert!(!other.err.contains("a longer --timeout"), "{}", other.err);
    });
}

#[test]
fn a_background_job_merged_into_a_foreground_job_fails() {
    on_both(|server| {
        let address = server.address();
        let run = ["-s", address, "run", "f", "-u", "k", "x"];
        let _client = Running::of(command(&run).spawn().unwrap());
        eventually("the job", || (queued(address, "f") == 1).then_some(()));
        let refused = gearctl(address, &["submit", "f", "-u", "k", "x"]).exits(1);
        assert!(refused.err.contains("JOB_SKIPPED: a client waits"), "{}", refused.err);
        // The same id is another job there.
        gearctl(address, &["submit", "g", "-u", "k", "x"]).exits(0);
    });
}

/// Whatever chooses the id: a flag, a record, the workload, or the job that is moved.
#[test]
fn every_command_reports_jobs_merged_into_skipped_ones() {
    on_both(|server| {
        let address = server.address();
        leaves(address, &["run", "hashed", "-u", "-", "a"]);
        for function in ["named", "new"] {
            leaves(address, &["run", function, "-u", function, "a"]);
        }
        let record: &[u8] = br#"{"v":1,"function":"named","unique":"named","body":"x"}"#;
        let import = ["import", "-", "--function", "named"];
        for (line, input) in [
            (&["submit", "hashed", "-u", "-", "a"][..], &b""[..]),
            (&["map", "hashed", "-u", "-", "--timeout", "1h"], b"a"),
            (&["submit", "--ndjson"], record),
            (&import, record),
        ] {
            let skipped = gearctl_with(address, line, input).exits(1);
            assert!(skipped.err.contains("JOB_SKIPPED"), "{line:?}: {}", skipped.err);
            let again = skipped.err.contains("gearctl import - --function named");
            assert_eq!(again, line == import, "{line:?}: {}", skipped.err);
        }
        gearctl(address, &["submit", "old", "-u", "new", "keep"]).exits(0);
        let kept = gearctl(address, &["move", "--from", "old", "--to", "new", "--yes"]).exits(1);
        assert!(kept.err.contains("JOB_SKIPPED"), "{}", kept.err);
        let counts = gearctl(address, &["functions", "old", "--columns", "total"]).exits(0);
        assert_eq!(counts.out(), "1\n");
        let merged = late("is queued already, and this one is merged", |limit| {
            gearctl(address, &["submit", "joined", "-u", "-", limit]).exits(0);
            gearctl(address, &["run", "joined", "-u", "-", limit, "--timeout", limit])
        });
        merged.exits(124);
    });
}

/// If the client leaves, the server skips the job, and with it the copy.
#[test]
fn move_keeps_a_job_merged_into_a_foreground_job() {
    on_both(|server| {
        let address = server.address();
        let run = ["-s", address, "run", "new", "-u", "k", "a"];
        let _waiting = Running::of(command(&run).spawn().unwrap());
        eventually("the job", || {
            let jobs = gearctl(address, &["jobs", "-o", "json"]).exits(0).json();
            jobs.as_array().filter(|jobs| !jobs.is_empty()).map(drop)
        });
        gearctl(address, &["submit", "old", "-u", "k", "keep"]).exits(0);
        let line = ["move", "--from", "old", "--to", "new", "--background-only", "--yes"];
        let kept = gearctl(address, &line).exits(1);
        assert!(kept.err.contains("if the client leaves"), "{}", kept.err);
        let counts = gearctl(address, &["functions", "old", "--columns", "total"]).exits(0);
        assert_eq!(counts.out(), "1\n");
    });
}

#[test]
fn a_timeout_without_a_worker_states_the_reason() {
    on_both(|server| {
        let run = |limit: &str, more: &[&str]| {
            let line = ["run", "nobody", "x", "--timeout", limit];
            gearctl(server.address(), &[&line, more].concat())
        };
        let ran = late("(no worker serves nobody)", |limit| run(limit, &["-o", "json"]));
        assert_eq!(ran.exits(124).error_alone()["code"], "TIMEOUT");
        late("no worker serves nobody: waiting for one", |limit| run(limit, &[])).exits(124);
    });
}

#[test]
fn background_jobs_print_handles() {
    on_both(|server| {
        let address = server.address();
        let one = gearctl(address, &["submit", "up", "x"]).exits(0);
        assert!(one.out().starts_with("H:") && one.out().lines().count() == 1, "{}", one.out());
        let many =
            gearctl_with(address, &["submit", "up", "--lines", "-j", "2"], b"a\nb\nc\n").exits(0);
        assert_eq!(many.out().lines().count(), 3);
        gearctl(address, &["submit", "up", "x", "-p", "high"]).exits(0);
        gearctl(address, &["submit", "up", "x", "--delay", "1h"]).exits(0);
        gearctl(address, &["submit", "up", "x", "--at", "yesterday"]).exits(2);
        gearctl(address, &["submit", "up", "x", "--delay", "18446744073709551615s"]).exits(2);
        let queued = gearctl(address, &["functions", "-o", "json"]).exits(0).json();
        assert_eq!((&queued[0]["queued"], &queued[0]["high"]), (&json!(6), &json!(1)));
        let dry = gearctl(address, &["submit", "up", "x", "-n", "-o", "json"]).exits(0).json();
        assert_eq!(dry, json!({"dry_run": true, "jobs": 1}));
    });
}

#[test]
fn equal_workloads_are_one_job_with_a_hash() {
    on_both(|server| {
        let ran = ["submit", "f", "-u", "-", "x", "x", "y"];
        let ran = gearctl(server.address(), &ran).exits(0);
        let handles: Vec<&str> = ran.out().lines().collect();
        assert!(handles[0] == handles[1] && handles[1] != handles[2], "{handles:?}");
        gearctl(server.address(), &["submit", "f", "-u", "one", "x", "y"]).exits(2);
    });
}

#[test]
fn a_record_id_beats_a_hash_of_the_workload() {
    on_both(|server| {
        let records = b"{\"body\":\"x\",\"unique\":\"mine\"}\n{\"body\":\"x\"}\n{\"body\":\"x\"}\n";
        let line = ["submit", "f", "--ndjson", "-u", "-"];
        let ran = gearctl_with(server.address(), &line, records).exits(0);
        let handles: Vec<&str> = ran.out().lines().collect();
        assert!(handles[0] != handles[1] && handles[1] == handles[2], "{handles:?}");
        let ran = gearctl(server.address(), &["job", "--unique", "mine", "-o", "json"]).exits(0);
        assert_eq!(ran.json()["known"], true, "{}", ran.out());
    });
}

#[test]
fn submits_jobs_without_ids() {
    on_both(|server| {
        let address = server.address();
        let ran = gearctl(address, &["submit", "f", "--no-unique", "x", "x"]).exits(0);
        assert_eq!(ran.out().lines().count(), 2);
        let listed = gearctl(address, &["unique-jobs", "-o", "json"]).exits(0).json();
        let ids: Vec<_> = listed.as_array().unwrap().iter().map(|job| &job["unique"]).collect();
        assert_eq!(ids, [&json!(null); 2]);
        gearctl(address, &["submit", "f", "--no-unique", "-u", "-", "x"]).exits(2);
    });
}

#[test]
fn records_set_function_priority_and_id() {
    on_both(|server| {
        let address = server.address();
        let records = b"{\"body\":\"x\",\"function\":\"g\",\"priority\":\"low\",\"unique\":\"u1\"}\n\n{\"body_base64\":\"/w==\"}\n{}\n";
        let ran = gearctl_with(address, &["submit", "f", "--ndjson"], records).exits(3);
        assert!(
            ran.err.contains("stdin record 4") && ran.err.contains("without `body`"),
            "{}",
            ran.err
        );
        let rows = gearctl(address, &["functions", "-o", "json"]).exits(0).json();
        assert_eq!((&rows[0]["queue"], &rows[0]["normal"]), (&json!("f"), &json!(1)));
        assert_eq!((&rows[1]["queue"], &rows[1]["low"]), (&json!("g"), &json!(1)));
        gearctl(address, &["job", "--unique", "u1"]).exits(0);
        assert!(ran.err.contains("-f is only for records without `function`"), "{}", ran.err);
    });
}

#[test]
fn records_carry_their_function() {
    on_both(|server| {
        let address = server.address();
        let records = b"{\"body\":\"x\",\"function\":\"g\"}\n{\"body\":\"y\"}\n";
        for source in [&[][..], &["-"]] {
            let line = [&["submit", "--ndjson"], source].concat();
            let ran = gearctl_with(address, &line, records).exits(3);
            assert_eq!(ran.lines().len(), 1);
            assert!(ran.err.contains("stdin record 2: "), "{}", ran.err);
            assert!(ran.err.contains("the record names no function"), "{}", ran.err);
            assert!(ran.err.contains("-f FUNCTION"), "{}", ran.err);
        }
        let ran = gearctl(address, &["submit", "--ndjson", r#"{"body":"z","function":"g"}"#]);
        ran.exits(0);
        let rows = gearctl(address, &["functions", "-o", "json"]).exits(0).json();
        assert_eq!((&rows[0]["queue"], &rows[0]["queued"]), (&json!("g"), &json!(3)));
        let dry = gearctl_with(address, &["submit", "--ndjson", "-n"], records).exits(65);
        assert!(dry.err.contains("stdin record 2"), "{}", dry.err);
        gearctl_with(address, &["submit"], b"x").exits(2);
    });
}

#[test]
fn a_full_queue_exits_75_and_a_missing_file_66() {
    on_both(|server| {
        let address = server.address();
        queue(address, "f", b"x");
        gearctl(address, &["function", "maxqueue", "f", "1"]).exits(0);
        let error = gearctl(address, &["submit", "f", "y", "-o", "json"]).exits(75).error_alone();
        assert_eq!(error["code"], "QUEUE_FULL");
        gearctl(address, &["submit", "f", "@/no/such/file"]).exits(66);
        gearctl(address, &["submit", "", "y"]).exits(65);
    });
}

#[test]
fn ordered_prints_results_in_order_and_records_identify_them() {
    on_both(|server| {
        let address = server.address();
        // The first job is the slowest.
        let shell = "read x; sleep 0.0$x; printf 'a%s\\nb' $x";
        let line = ["-s", address, "work", "-f", "slow", "-j", "4", "--shell", shell];
        let _worker = Running::of(command(&line).spawn().unwrap());
        workers(address, "slow", 4);
        let run = |flags: &[&str]| {
            let line = [&["run", "slow", "--lines", "-j", "4"], flags].concat();
            gearctl_with(address, &line, b"6\n3\n2\n").exits(0).out().to_owned()
        };
        assert_eq!(run(&["--ordered"]), "a6\nba3\nba2\nb");
        let numbers: Vec<u64> = run(&["--ordered", "-o", "ndjson"])
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap()["n"].as_u64().unwrap())
            .collect();
        assert!(numbers.is_sorted() && numbers.last() == Some(&3), "{numbers:?}");
    });
}

#[test]
fn passes_the_reducer_to_the_worker() {
    on_both(|server| {
        let address = server.address();
        let line = ["-s", address, "work", "-f", "split", "--shell", "echo $GEARCTL_REDUCER"];
        let _worker = Running::of(command(&line).spawn().unwrap());
        let line = ["run", "split", "x", "--reduce", "join"];
        assert_eq!(gearctl(address, &line).exits(0).out(), "join\n");
        assert_eq!(gearctl(address, &["run", "split", "x"]).exits(0).out(), "\n");
        gearctl(address, &["submit", "split", "x", "--reduce", "join"]).exits(0);
        gearctl(address, &["wait", "--for", "empty", "-f", "split"]).exits(0);
        gearctl(address, &["run", "split", "x", "--reduce", ""]).exits(65);
        gearctl(address, &["submit", "split", "x", "--reduce", "join", "--delay", "1h"]).exits(2);
    });
}

#[test]
fn an_oversized_result_fails_but_raw_output_streams() {
    on_both(|server| {
        let address = server.address();
        let shell = "head -c 300000 /dev/zero | tr '\\0' x";
        for stream in [&[][..], &["--stream", "chunks"]] {
            let line = ["-s", address, "work", "-f", "big", "-j", "2", "--shell", shell];
            let _worker = Running::of(command(&[&line[..], stream].concat()).spawn().unwrap());
            workers(address, "big", 2);
            let run = |flags: &[&str]| gearctl(address, &[&["run", "big"], flags].concat());
            let json = run(&["x", "-o", "json"]).exits(0).json();
            assert_eq!(json["body"].as_str().unwrap().len(), 300_000);
            let few = ["--max-result", "100k", "-o", "json"];
            let error = run(&[&["x"], &few[..]].concat()).exits(65).error_alone();
            assert_eq!(error["code"], "RESULT_TOO_LARGE");
            assert!(error["message"].to_string().contains("exceeds --max-result (100 KiB)"));
            let raw = run(&["x", "--max-result", "100k"]).exits(0);
            assert_eq!(raw.bytes.len(), 300_000);
            // One is kept, the other would be too much; with records, nothing is kept until the end.
            let some = ["x", "y", "--max-result", "400k", "-o", "json"];
            let ran = run(&some).exits(3);
            assert_eq!(ran.json().as_array().unwrap().len(), 1);
            assert!(ran.err.contains("buffered results exceed"), "{}", ran.err);
            run(&["x", "y", "-j", "2", "--max-result", "400k", "-o", "ndjson"]).exits(0);
            let ran = run(&["x", "y", "-j", "2", "--max-result", "100k"]).exits(65);
            assert!(ran.err.contains("RESULT_TOO_LARGE") && ran.err.contains("and 1 more"));
        }
    });
}

/// Each attempt and each server had the whole time again: 300 ms took 3.8 s, and with more attempts minutes.
#[test]
fn the_timeout_covers_all_attempts() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap().to_string();
    let servers = format!("{address},{address}");
    let started = std::time::Instant::now();
    for line in [&["job", "H:x:1"][..], &["functions"], &["submit", "f", "x"]] {
        let line = [&["--timeout", "1s"], line].concat();
        gearctl(&servers, &line).exits(124);
    }
    assert!(started.elapsed() < std::time::Duration::from_secs(20), "{:?}", started.elapsed());
}
