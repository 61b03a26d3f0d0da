//! `clear` and `drain` remove jobs, and no client loses a result by accident.

use std::time::Duration;

use fixtures::fault::Fault;
use serde_json::{Value, json};

use crate::harness::*;

/// A client that waits for a job, once the server has the job.
fn waiting(address: &str, function: &str, flags: &[&str]) -> std::process::Child {
    let before = queued(address, function);
    let line = [&["-s", address, "run", function, "x"], flags].concat();
    let client = command(&line).spawn().unwrap();
    eventually("the job", || (queued(address, function) > before).then_some(()));
    client
}

#[test]
fn drain_takes_queued_jobs_only() {
    on_both(|server| {
        let address = server.address();
        for at in 0..20 {
            queue(address, "mail", format!("{at}").as_bytes());
        }
        queue(address, "sms", b"x");
        let refused = gearctl(address, &["clear", "mail"]).exits(2);
        assert!(refused.err.contains("delete 20 jobs of mail on"), "{}", refused.err);
        let would = gearctl(address, &["clear", "mail", "-n", "-o", "json"]).exits(0).json();
        assert_eq!(would, json!({"dry_run": true, "jobs": 20}));
        let done = gearctl(address, &["clear", "mail", "-y", "-c", "5", "-o", "json"]).exits(0);
        assert_eq!(done.json()["succeeded"], 5);
        assert_eq!((queued(address, "mail"), queued(address, "sms")), (15, 1));
        let done =
            gearctl(address, &["clear", "mail", "-y", "-j", "3", "-o", "json"]).exits(0).json();
        assert_eq!((&done["action"], &done["succeeded"]), (&json!("deleted"), &json!(15)));
        assert_eq!((queued(address, "mail"), queued(address, "sms")), (0, 1));
        gearctl(address, &["purge", "mail", "nobody-knows-it"]).exits(0);
        let directory = tempfile::tempdir().unwrap();
        let backup = directory.path().join("backup");
        let line = ["clear", "sms", "-y", "--backup", backup.to_str().unwrap()];
        gearctl(address, &line).exits(0);
        assert_eq!(std::fs::read_to_string(&backup).unwrap().lines().count(), 1);
        assert_eq!(queued(address, "sms"), 0);
        gearctl(address, &["clear", "", "-y"]).exits(65);
    });
}

/// The schema published for programs.
fn schema() -> jsonschema::Validator {
    let text = include_str!("../../../docs/submission-record.schema.json");
    jsonschema::validator_for(&serde_json::from_str(text).unwrap()).unwrap()
}

#[test]
fn the_record_schema_matches_submit() {
    let (server, schema) = (fixtures::gearmand::Server::start().unwrap(), schema());
    for (line, is_record) in [
        (r#"{"body":"x"}"#, true),
        (r#"{"function":"g","unique":"u","priority":"low","body_hex":"78","more":[]}"#, true),
        (r#"{"unique":"u"}"#, false),
        (r#"{"body":"x","body_base64":"eA=="}"#, false),
        (r#"{"body_base64":"x"}"#, false),
        (r#"{"body":"x","priority":"urgent"}"#, false),
        (r#"{"body":"x","unique":""}"#, false),
        (r#"{"body":"x","unique":"\\xff","unique_base64":"/w=="}"#, true),
        (r#"{"body":"x","unique_base64":"*"}"#, false),
        (r#"{"body":"x","v":1}"#, true),
        (r#"{"body":"x","v":2}"#, false),
    ] {
        assert_eq!(schema.is_valid(&serde_json::from_str(line).unwrap()), is_record, "{line}");
        let submit = ["submit", "f", "--ndjson"];
        let submitted = gearctl_with(server.address(), &submit, line.as_bytes());
        assert_eq!(submitted.code == Some(0), is_record, "{line}: {}", submitted.err);
    }
}

#[test]
fn drained_jobs_can_be_submitted_again() {
    on_both(|server| {
        let address = server.address();
        let all: Vec<u8> = (0..=u8::MAX).collect();
        queue(address, "mail", b"hello");
        queue(address, "mail", &all);
        gearctl_with(address, &["submit", "mail", "-u", "id-1"], b"").exits(0);
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("mail.ndjson");
        let name = file.to_str().unwrap();
        gearctl(address, &["drain", "mail", "--to", name, "-y"]).exits(0);
        assert_eq!(queued(address, "mail"), 0);
        let text = std::fs::read_to_string(&file).unwrap();
        let records: Vec<Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        records.iter().for_each(|record| schema().validate(record).unwrap());
        assert_eq!(
            (&records[0]["body"], &records[0]["function"]),
            (&json!("hello"), &json!("mail"))
        );
        assert_eq!((&records[2]["body"], &records[2]["unique"]), (&json!(""), &json!("id-1")));
        gearctl(address, &["drain", "mail", "--to", name, "-y", "--until-empty"]).exits(74);
        let again = format!("@{name}");
        gearctl(address, &["submit", "other", "--ndjson", &again]).exits(0);
        let back = gearctl(address, &["drain", "mail", "-y"]).exits(0);
        let mut bodies: Vec<Value> = Vec::new();
        for line in back.out().lines() {
            let record: Value = serde_json::from_str(line).unwrap();
            bodies.push(record.get("body").or(record.get("body_base64")).unwrap().clone());
        }
        let before: Vec<&Value> =
            records.iter().map(|r| r.get("body").or(r.get("body_base64")).unwrap()).collect();
        assert_eq!(bodies.iter().collect::<Vec<_>>(), before);
    });
}

#[test]
fn drain_skips_foreground_jobs_by_default() {
    on_both(|server| {
        let address = server.address();
        queue(address, "mail", b"x");
        let client = waiting(address, "mail", &[]);
        queue(address, "mail", b"y");
        for flags in [&["-y"][..], &["-y", "--as", "complete"], &["-n"]] {
            let error = gearctl(address, &[&["drain", "mail", "-o", "json"], flags].concat());
            if flags == ["-n"] {
                error.exits(0);
                continue;
            }
            assert_eq!(error.exits(1).error_alone()["code"], "CLIENTS_WAITING");
        }
        assert_eq!(queued(address, "mail"), 3);
        let line = ["clear", "mail", "-y", "--background-only", "-o", "json"];
        let done = gearctl(address, &line).exits(0).json();
        assert_eq!((&done["succeeded"], &done["skipped"]), (&json!(2), &json!(1)));
        eventually("the job that was given back", || (queued(address, "mail") == 1).then_some(()));
        gearctl(address, &["drain", "mail", "-y", "--as", "fail"]).exits(0);
        let ran = ended(client).exits(1);
        assert!(ran.err.contains("JOB_FAILED"), "{}", ran.err);
    });
}

#[test]
fn drain_detects_the_kind_of_a_job_without_an_id() {
    use gearman_client::{SubmitOptions, Unique, blocking::Client};
    on_both(|server| {
        let address = server.address();
        let none = SubmitOptions::default().unique(Unique::None);
        let mut client = Client::connect(address).unwrap();
        client.submit_background("f", b"x", none).unwrap();
        gearctl(address, &["drain", "f", "-y"]).exits(0);
        let mut submitter = Client::connect(address).unwrap();
        let job = submitter.submit("f", b"x", none).unwrap();
        gearctl(address, &["drain", "f", "-y"]).exits(1);
        let line = ["clear", "f", "-y", "--background-only", "-o", "json"];
        assert_eq!(gearctl(address, &line).exits(0).json()["skipped"], 1);
        drop(job);
    });
}

#[cfg(unix)]
#[test]
fn a_full_disk_loses_nothing() {
    on_both(|server| {
        let address = server.address();
        for at in 0..100 {
            queue(address, "mail", &vec![b'x'; 1000 + at]);
        }
        let directory = tempfile::tempdir().unwrap();
        // The limit on the size of files simulates a full disk.
        let script = "trap '' XFSZ; ulimit -f 64; \"$0\" -s \"$1\" drain mail --to here -y -j 3";
        let line = ["-c", script, env!("CARGO_BIN_EXE_gearctl"), address];
        let mut shell = std::process::Command::new("sh");
        let output = shell.args(line).current_dir(&directory).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(74), "{said}");
        assert!(said.contains("cannot write here: "), "{said}");
        let text = std::fs::read(directory.path().join("here")).unwrap();
        let lines = text.split(|byte| *byte == b'\n');
        let whole = lines.filter(|line| serde_json::from_slice::<Value>(line).is_ok()).count();
        eventually("the rest", || (whole as i64 + queued(address, "mail") >= 100).then_some(()));
    });
}

#[cfg(unix)]
#[test]
fn a_closed_pipe_loses_nothing() {
    on_both(|server| {
        let address = server.address();
        for at in 0..200 {
            queue(address, "mail", &vec![b'x'; 1000 + at]);
        }
        let program = env!("CARGO_BIN_EXE_gearctl");
        let script = "\"$0\" -s \"$1\" drain mail --to - -y | head -n 1";
        let line = ["-c", script, program, address];
        let output = std::process::Command::new("sh").args(line).output().unwrap();
        let first: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(first["function"], "mail");
        let said = String::from_utf8(output.stderr).unwrap();
        let taken: i64 = said
            .split_once("before that: drained ")
            .and_then(|(_, rest)| rest.split(' ').next()?.parse().ok())
            .unwrap_or_else(|| panic!("{said}"));
        assert_eq!(taken, 1, "{said}");
        assert!(said.contains("which it read last"), "{said}");
        // The one that could not be written goes back.
        eventually("the rest", || (queued(address, "mail") == 200 - taken).then_some(()));
    });
}

/// Each answer to a request for a job takes longer than any fixed time that would do for a fast server.
#[test]
fn does_not_mistake_a_slow_server_for_an_empty_one() {
    let lines = [
        &["export", "mail", "-y", "-o", "ndjson"][..],
        &["clear", "mail", "-y", "-o", "json"],
        &["work", "-f", "mail", "--builtin", "echo", "--max-idle", "0"],
    ];
    at_once(lines, |line| {
        let server = fixtures::gearmand::Server::start().unwrap();
        for grab in ["GRAB_JOB_ALL", "GRAB_JOB_UNIQ"] {
            server.faults().add(Fault::always().of(grab).delay(Duration::from_millis(1200)));
        }
        for body in [b"1", b"2"] {
            queue(server.address(), "mail", body);
        }
        let ran = gearctl(server.address(), line).exits(0);
        if line[0] == "export" {
            // No connection has got both, of which it would show one.
            assert_eq!(ran.lines().len(), 2, "{ran:?}");
        } else {
            assert_eq!(queued(server.address(), "mail"), 0, "{ran:?}");
        }
    });
}

#[test]
fn times_out_on_a_server_that_does_not_answer_a_grab() {
    let drain = |limit: &str| {
        let server = fixtures::gearmand::Server::start().unwrap();
        let address = server.address();
        queue(address, "mail", b"1");
        for grab in ["GRAB_JOB_ALL", "GRAB_JOB_UNIQ", "GRAB_JOB"] {
            server.faults().add(Fault::always().of(grab).hang());
        }
        gearctl(address, &["drain", "mail", "-y", "--timeout", limit])
    };
    late("the server has not said within ", drain).exits(124);
}

/// The server supports the query, so the error of a late server does not advise to end jobs anyway.
#[test]
fn a_drain_reports_a_silent_or_lost_server() {
    let silent = Fault::nth(8).of("GET_STATUS_UNIQUE");
    for (fault, limit, exit) in
        [(silent.clone().hang(), "2s", 124), (silent.cut_after(0), "60s", 69)]
    {
        let line = ["drain", "mail", "-y", "--timeout", limit, "-o", "json"];
        let server = fixtures::gearmand::Server::start().unwrap();
        let address = server.address();
        for at in 0..5 {
            queue(address, "mail", &[at]);
        }
        server.faults().add(fault);
        let ran = gearctl(address, &line).exits(exit);
        assert!(!ran.err.contains("--as fail"), "{}", ran.err);
        assert!(queued(address, "mail") > 0);
    }
}

/// The server takes the job off its list, or gives it to another worker.
#[test]
fn unconfirmed_completions_have_an_unknown_fate() {
    let server = fixtures::gearmand::Server::start().unwrap();
    let address = server.address();
    queue(address, "mail", b"x");
    server.faults().add(Fault::nth(1).of("WORK_COMPLETE").cut_after(0));
    let ran = gearctl(address, &["clear", "mail", "-y", "-o", "json"]).exits(4);
    assert_eq!((&ran.json()["succeeded"], &ran.json()["unknown"]), (&json!(0), &json!(1)));
}
