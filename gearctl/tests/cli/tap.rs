//! `tap`, beyond the contract of every tool.

use ctl_contract::tap::{Tap, python};

use crate::harness::*;

/// Clients of another language, workers and administration.
#[test]
fn tap_decodes_other_clients() {
    on_both_with_tools(|site| {
        let mut tap = Tap::start(&PROGRAM, site.address(), &[]);
        let through = site.at(&tap.address);
        fed(through.tool("gearman", &["-b", "-f", "rev", "hello"]), b"").exits(0);
        let submitted = tap.line(|line| line["verb"] == "SUBMIT_JOB_BG");
        let args = submitted["args"].as_str().unwrap();
        assert!(args.starts_with("rev ") && submitted["body"] == "hello", "{submitted}");
        let created = tap.line(|line| line["verb"] == "JOB_CREATED");
        let to = created["to"].as_str().unwrap();
        assert!(
            created["duration_ms"].is_number() && to == format!("SUBMIT_JOB_BG {args}"),
            "{created}"
        );
        let worker =
            Running::of(through.tool("gearman", &["-w", "-f", "rev", "rev"]).spawn().unwrap());
        let assigned = tap
            .line(|line| line["verb"].as_str().is_some_and(|verb| verb.starts_with("JOB_ASSIGN")));
        assert!(assigned["to"].as_str().unwrap().starts_with("GRAB_JOB"), "{assigned}");
        tap.line(|line| line["verb"] == "WORK_COMPLETE" && line["size"] == 5);
        drop(worker);
        let listed = fed(through.tool("gearadmin", &["--status"]), b"").exits(0);
        let list = tap.line(|line| line["verb"] == "(list)");
        let size = list["size"].as_u64().unwrap();
        assert_eq!((&list["to"], size), (&"status".into(), listed.bytes.len() as u64 - 2));
        let (_, ran) = tap.end();
        assert!(!ran.err.contains("undecoded"), "{}", ran.err);
    });
}

/// gear, in Python, as client and worker.
#[test]
fn tap_decodes_a_python_client_and_worker() {
    const SCRIPT: &str = r#"
import sys, threading, time, gear
host, port = sys.argv[1].rsplit(":", 1)
client = gear.Client()
client.addServer(host, int(port))
client.waitForServer()
job = gear.Job(b"rev", b"hello")
client.submitJob(job)
worker = gear.Worker("worker")
worker.addServer(host, int(port))
worker.waitForServer()
worker.registerFunction("rev")
taken = worker.getJob()
assert taken.arguments == b"hello", taken.arguments
taken.sendWorkStatus(1, 2)
taken.sendWorkComplete(taken.arguments[::-1])
while not job.complete:
    time.sleep(0.01)
assert b"".join(job.data) == b"olleh", job.data
client.shutdown()
worker.shutdown()
"#;
    on_both(|site| {
        let mut tap = Tap::start(&PROGRAM, site.address(), &[]);
        let Some(client) = python("gear", SCRIPT, &tap.address) else { return };
        ended({ client }.spawn().unwrap()).exits(0);
        let submitted = tap.line(|line| line["verb"] == "SUBMIT_JOB");
        assert_eq!(submitted["body"], "hello", "{submitted}");
        let (lines, ran) = tap.end();
        for verb in ["CAN_DO", "JOB_CREATED", "JOB_ASSIGN_UNIQ", "WORK_STATUS", "WORK_COMPLETE"] {
            assert!(lines.iter().any(|line| line["verb"] == verb), "{verb}: {lines:?}");
        }
        assert!(!ran.err.contains("undecoded"), "{}", ran.err);
    });
}
