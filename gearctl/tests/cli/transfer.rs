//! `move`, `peek`, `export` and `import`, and the pace of `submit`.

use std::time::{Duration, Instant};

use fixtures::fault::Fault;
use fixtures::gearmand::{Flavour, Server, Version};
use fixtures::proxy::Proxy;
use serde_json::Value;

use crate::harness::*;

/// The bodies of the jobs of a function, in their order; this removes the jobs.
fn drained(address: &str, function: &str) -> Vec<String> {
    let ran = gearctl(address, &["drain", function, "--to", "-", "--yes"]).exits(0);
    ran.lines().iter().map(|line| body(line)).collect()
}

/// The body of a record.
fn body(line: &str) -> String {
    let record: Value = serde_json::from_str(line).unwrap();
    record["body"].as_str().unwrap().to_owned()
}

#[test]
fn move_changes_the_function() {
    on_both(|server| {
        let address = server.address();
        for n in 0..5 {
            queue(address, "old", n.to_string().as_bytes());
        }
        gearctl_with(address, &["submit", "old", "-u", "mine"], b"5").exits(0);
        let line = ["move", "--from", "old", "--to", "new", "--priority", "low", "-o", "json"];
        let ran = gearctl(address, &line).exits(2);
        assert!(ran.err.contains("move 6 jobs of old on"), "{}", ran.err);
        assert_eq!(gearctl(address, &[&line[..], &["-n"]].concat()).exits(0).json()["jobs"], 6);
        let report = gearctl(address, &[&line[..], &["--yes"]].concat()).exits(0).json();
        assert_eq!(report["succeeded"], 6);
        assert_eq!((queued(address, "old"), queued(address, "new")), (0, 6));
        let unique = gearctl(address, &["job", "--unique", "mine", "-o", "json"]);
        assert!(unique.out().contains("true"), "the unique id is kept: {}", unique.out());
        assert_eq!(drained(address, "new"), ["0", "1", "2", "3", "4", "5"]);
        let ran = gearctl(address, &["move", "--from", "old", "--to", "old", "--yes"]).exits(2);
        assert!(ran.err.contains("--to-server"), "{}", ran.err);
        gearctl(address, &["move", "--from", "old"]).exits(2);
        let ran = gearctl(address, &["move", "old", "new"]).exits(2);
        assert!(ran.err.contains("gearctl move --from OLD --to NEW"), "{}", ran.err);
        gearctl(address, &["move", "--from", "old", "--to", "new", "--dry-run"]).exits(0);
    });
}

/// Ids that are not UTF-8 would become equal as text, and the server merges jobs with the same id.
#[test]
fn move_keeps_binary_ids_distinct() {
    use gearman_client::{SubmitOptions, UniqueId, blocking::Client};
    on_both(|server| {
        let address = server.address();
        let mut client = Client::connect(address).unwrap();
        let ids = [b"\xff\xfe", b"\xfe\xff"].map(|id| UniqueId::try_from(&id[..]).unwrap());
        for (id, body) in ids.iter().zip(["0", "1"]) {
            let options = SubmitOptions::default().unique(*id);
            client.submit_background("old", body, options).unwrap();
        }
        gearctl(address, &["move", "--from", "old", "--to", "new", "--yes"]).exits(0);
        assert_eq!(queued(address, "new"), 2);
        assert!(ids.iter().all(|id| client.status_unique(*id).unwrap().is_known));
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("new.ndjson");
        let name = file.to_str().unwrap();
        gearctl(address, &["drain", "new", "--to", name, "--yes"]).exits(0);
        let records = std::fs::read(&file).unwrap();
        for line in [&["import", name][..], &["submit", "--ndjson"]] {
            gearctl_with(address, line, &records).exits(0);
            assert_eq!(queued(address, "new"), 2, "{line:?}");
            assert!(ids.iter().all(|id| client.status_unique(*id).unwrap().is_known));
            assert_eq!(drained(address, "new"), ["0", "1"]);
        }
    });
}

#[test]
fn moves_to_another_server_or_keeps_jobs_if_it_is_down() {
    on_both(|server| {
        let address = server.address();
        let target = Server::start().unwrap();
        for n in 0..3 {
            queue(address, "mail", n.to_string().as_bytes());
        }
        let dead = fixtures::Port::take().unwrap().dead().to_string();
        gearctl(address, &["move", "--from", "mail", "--to-server", &dead, "--yes"]).exits(69);
        assert_eq!(queued(address, "mail"), 3);
        gearctl(address, &["move", "--from", "mail", "--to-server", target.address(), "--yes"])
            .exits(0);
        assert_eq!(queued(address, "mail"), 0);
        assert_eq!(drained(target.address(), "mail"), ["0", "1", "2"]);
    });
}

#[test]
fn advice_about_an_unanswered_move_names_the_function() {
    let server = Server::start().unwrap();
    queue(server.address(), "old", b"");
    server.faults().add(Fault::nth(1).of("SUBMIT_JOB_BG").cut_after(0));
    let line = ["move", "--from", "old", "--to", "new", "--yes", "-o", "json"];
    let error = gearctl(server.address(), &line).exits(4).error();
    let look = "gearctl functions new, to see whether the server has it";
    assert_eq!(error["hints"][0], look, "{error}");
}

#[test]
fn a_move_onto_itself_keeps_unique_jobs() {
    on_both(|server| {
        let address = server.address();
        let port = address.rsplit(':').next().unwrap();
        let relay = Proxy::start(address.parse().unwrap()).unwrap();
        gearctl_with(address, &["submit", "mail", "-u", "mine"], b"x").exits(0);
        // The same server under another name is recognised before anything is taken, one behind a relay by its answer.
        let alias = format!("localhost:{port}");
        let ran =
            gearctl(address, &["move", "--from", "mail", "--to-server", &alias, "--yes"]).exits(2);
        assert!(ran.err.contains("the same function: mail"), "{}", ran.err);
        let line = ["move", "--from", "mail", "--to-server", &relay.address().to_string(), "--yes"];
        let ran = gearctl(address, &line).exits(1);
        assert!(ran.err.contains("SAME_SERVER"), "{}", ran.err);
        eventually("the job", || (queued(address, "mail") == 1).then_some(()));
        assert_eq!(drained(address, "mail"), ["x"]);
    });
}

#[test]
fn peek_and_export_give_jobs_back() {
    on_both(|server| {
        let address = server.address();
        for n in 0..3 {
            queue(address, "mail", n.to_string().as_bytes());
        }
        for line in [&["peek", "mail"][..], &["export", "mail"]] {
            let ran = gearctl(address, line).exits(2);
            assert!(ran.err.contains("--yes") && ran.err.contains("drop"), "{}", ran.err);
        }
        let back = || eventually("the jobs", || (queued(address, "mail") == 3).then_some(()));
        let ran = gearctl(address, &["peek", "mail", "--yes", "-c", "2", "-o", "json"]).exits(0);
        assert_eq!(ran.json().as_array().unwrap().len(), 2);
        back();
        let ran = gearctl(address, &["export", "mail", "--yes"]).exits(0);
        assert_eq!(ran.lines().len(), 3);
        back();
        let ran = gearctl(address, &["peek", "nobody", "--yes"]).exits(1);
        assert!(ran.err.contains("nobody"), "{}", ran.err);
        let ran = gearctl(address, &["drain", "nobody", "--until-empty", "--yes"]).exits(0);
        assert!(ran.err.contains("nobody"), "{}", ran.err);
        let functions = gearctl(address, &["functions", "-o", "id"]).exits(0);
        assert!(!functions.out().contains("nobody"), "nothing has announced it");
        // Exported jobs are imported, into another function and unchanged.
        let exported = ran_of(&gearctl(address, &["drain", "mail", "--to", "-", "--yes"]).exits(0));
        gearctl_with(address, &["import", "-", "-f", "copy"], exported.as_bytes()).exits(0);
        // In their order, those that were shown behind the others.
        assert_eq!(drained(address, "copy"), ["2", "0", "1"]);
        let line = ["import", "-", "--priority", "high", "-c", "2"];
        let ran = gearctl_with(address, &line, exported.as_bytes()).exits(0);
        assert_eq!(ran.lines().len(), 2, "a handle of each");
        assert_eq!(queued(address, "mail"), 2);
        gearctl_with(address, &["import"], br#"{"body":"x"}"#).exits(65);
        let nothing = gearctl_with(address, &["import"], b"").exits(0);
        assert!(nothing.err.starts_with("imported 0 jobs in "), "{}", nothing.err);
        let would = gearctl_with(address, &["import", "-n", "-o", "json"], exported.as_bytes());
        assert_eq!(would.exits(0).json()["jobs"], 3);
    });
}

fn ran_of(ran: &Ran) -> String {
    ran.out().to_owned()
}

#[test]
fn honours_the_rate_limit() {
    let server = Server::start().unwrap();
    let address = server.address();
    let took = |line: &[&str]| {
        let start = Instant::now();
        gearctl_with(address, line, b"0\n1\n2\n3\n").exits(0);
        start.elapsed()
    };
    // Four jobs have three pauses of a tenth of a second between them, however fast the machine.
    let least = Duration::from_millis(300);
    assert!(took(&["submit", "a", "--lines", "--rate", "10/s", "-j", "3"]) >= least);
    assert!(took(&["move", "--from", "a", "--to", "b", "--yes", "--rate", "600/m"]) >= least);
    assert!(took(&["drain", "b", "--yes", "--rate", "10"]) >= least);
}

#[test]
fn filters_take_matching_jobs_and_keep_the_order_of_others() {
    on_both(|server| {
        let address = server.address();
        for n in ["0", "1", "2", "3", "4", "5"] {
            gearctl(address, &["submit", "mail", "-u", &format!("id-{n}"), n]).exits(0);
        }
        let run = |line: &[&str]| gearctl(address, &[line, &["--yes"]].concat());
        let exported = run(&["export", "mail", "--filter", "body~=[135]", "-c", "2"]).exits(0);
        let bodies: Vec<_> = exported.lines().iter().map(|line| body(line)).collect();
        assert_eq!(bodies, ["1", "3"]);
        let drained_now = run(&["drain", "mail", "--filter", "unique==id-2"]).exits(0);
        assert_eq!(body(drained_now.lines()[0]), "2");
        run(&["move", "--from", "mail", "--to", "other", "--filter", "body==4"]).exits(0);
        let some =
            ["clear", "mail", "--filter", "size==1", "--filter", "body!=0", "-c", "2", "-j", "2"];
        assert_eq!(run(&[&some[..], &["-o", "json"]].concat()).exits(0).json()["succeeded"], 2);
        run(&["clear", "mail", "--filter", "unique==id-2"]).exits(0);
        assert_eq!(drained(address, "other"), ["4"]);
        let left = drained(address, "mail");
        assert!(left.len() == 2 && left.contains(&"0".to_owned()), "{left:?}");
        run(&["clear", "mail", "--filter", "age>1"]).exits(2);
        run(&["clear", "mail", "--filter", "size>1", "-n"]).exits(2);
    });
}

#[test]
fn non_matching_jobs_survive_failures() {
    let clear = ["clear", "mail", "--filter", "body==1", "--yes", "--as", "fail"];
    // gearmand drops a job whose retries are used up.
    let server = Server::builder().job_retries(1).start().unwrap();
    for n in ["0", "1", "2"] {
        gearctl(server.address(), &["submit", "mail", "-u", n, n]).exits(0);
    }
    let ran = gearctl(server.address(), &clear).exits(0);
    assert!(ran.err.contains("has dropped 2 jobs that did not match"), "{}", ran.err);
    assert_eq!(drained(server.address(), "mail"), ["0", "2"]);
    for flavour in [Flavour::Rustygeard, Flavour::G2] {
        let server = Server::builder().flavour(flavour).start().unwrap();
        gearctl(server.address(), &["submit", "mail", "0"]).exits(0);
        let refused = gearctl(server.address(), &clear).exits(1);
        assert!(refused.err.contains("not gearmand"), "{}", refused.err);
        assert_eq!(queued(server.address(), "mail"), 1, "{flavour}");
    }
}

#[test]
fn cancels_by_unique_id() {
    for version in [Version::V1_1_20, Version::V2_2] {
        let server = Server::builder().version(version).start().unwrap();
        let run = |line: &[&str]| gearctl(server.address(), line);
        for id in [r"mine\xff", r"mine\xfe"] {
            run(&["submit", "mail", "-u", id, "x"]).exits(0);
        }
        let ids = run(&["jobs", "--unique-ids", "-o", "json"]).exits(0).json();
        assert!(ids.as_array().unwrap().iter().any(|job| job["unique"] == r"mine\xff"), "{ids}");
        run(&["cancel", "--unique", "nobody"]).exits(1);
        let cancelled = run(&["cancel", "--unique", r"mine\xff"]);
        if version == Version::V1_1_20 {
            let hint = r"gearctl clear FUNCTION --filter 'unique==mine\xff'";
            assert!(cancelled.exits(76).err.contains(hint));
            continue;
        }
        cancelled.exits(0);
        let ignored = run(&["jobs", "-o", "json"]).exits(0).json();
        let ignored = ignored.as_array().unwrap().iter().filter(|job| job["ignored"] == true);
        assert_eq!(ignored.count(), 1);
        assert_eq!(drained(server.address(), "mail").len(), 1);
    }
}
