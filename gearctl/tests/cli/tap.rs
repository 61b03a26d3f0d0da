//! `tap`, beside what every tool's has to do.

use ctl_core::contract::tap::Tap;

use crate::harness::*;

/// Clients of another language, workers and administration.
#[test]
fn what_other_programs_say_is_understood() {
    on_both_with_tools(|site| {
        let mut tap = Tap::start(&PROGRAM, site.address(), &[]);
        let through = site.at(&tap.address);
        fed(through.tool("gearman", &["-b", "-f", "rev", "hello"]), b"").exits(0);
        let submitted = tap.line(|line| line["verb"] == "SUBMIT_JOB_BG");
        let args = submitted["args"].as_str().unwrap();
        assert!(args.starts_with("rev ") && submitted["body"] == "hello", "{submitted}");
        let created = tap.line(|line| line["verb"] == "JOB_CREATED");
        let to = created["to"].as_str().unwrap();
        assert!(created["ms"].is_number() && to == format!("SUBMIT_JOB_BG {args}"), "{created}");
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
