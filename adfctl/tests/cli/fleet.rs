//! Several servers, one of which may be dead.

use fixtures::adf_queue::Server;

use crate::harness::*;

#[test]
fn manages_queues_on_every_server() {
    let (one, two) = (Server::start().unwrap(), Server::start().unwrap());
    let (one, two) = (one.address(), two.address());
    let both = format!("{one},{two}");
    let report = adfctl(&both, &["queue", "create", "/q", "-o", "json"]).exits(0).json();
    assert_eq!(report.as_array().unwrap().len(), 2, "{report}");
    adfctl(one, &["push", "/q", "x"]).exits(0);
    adfctl(two, &["push", "/q", "x", "y"]).exits(0);
    let counts = adfctl(&both, &["queues", "/q", "-o", "json"]).exits(0).json();
    let of = |at: usize| (counts[at]["ready"].clone(), counts[at]["queue"].clone());
    assert_eq!((of(0), of(1)), ((1.into(), "/q".into()), (2.into(), "/q".into())));
    assert!(counts[0]["server"].as_str().unwrap().contains(one), "{counts}");
    let dead = dead_address();
    let ran = adfctl(&format!("{dead},{both}"), &["queues", "/q", "-o", "plain"]).exits(69);
    assert_eq!(ran.lines().len(), 2, "{}", ran.out());
    assert!(ran.err.contains(&dead), "{}", ran.err);
    adfctl(&both, &["clear", "/q"]).exits(2);
    assert_eq!((ready(one, "/q"), ready(two, "/q")), (1, 2));
    adfctl(&format!("{one},{dead}"), &["clear", "/q", "--yes"]).exits(69);
    assert_eq!((ready(one, "/q"), ready(two, "/q")), (0, 2));
    adfctl(&both, &["queue", "delete", "/q", "--yes"]).exits(0);
    assert_eq!(adfctl(one, &["queues"]).exits(0).out(), "");
}

#[test]
fn spreads_lists_and_pops_messages_on_every_server() {
    let (one, two) = (Server::start().unwrap(), Server::start().unwrap());
    let (one, two) = (one.address(), two.address());
    let (both, dead) = (format!("{one},{two}"), dead_address());
    let line = ["push", "/q", "--lines", "--create", "--batch", "10", "-o", "ndjson"];
    let lines = "x\n".repeat(50);
    let ran = adfctl_with(&both, &line, lines.as_bytes()).exits(0);
    let told = |address: &str| ran.out().matches(address).count() as u64;
    let each = (told(one), told(two));
    // A batch has the lines read by the time its turn comes, ten at most: both servers get some, but how many is open.
    assert!(each.0 > 0 && each.1 > 0 && each.0 + each.1 == 50, "{each:?}");
    assert_eq!(each, (ready(one, "/q"), ready(two, "/q")));
    let exported = adfctl(&both, &["export", "/q", "-o", "json"]).exits(0).json();
    let of = |server: &str| {
        let records = exported.as_array().unwrap().iter();
        records.filter(|record| record["server"].as_str().unwrap().contains(server)).count() as u64
    };
    assert_eq!((of(one), of(two)), each);
    let ran = adfctl(&format!("{dead},{one}"), &["push", "/q", "y", "-o", "json"]).exits(0);
    assert!(ran.err.contains(&dead), "{}", ran.err);
    assert!(ran.json()[0]["server"].as_str().unwrap().contains(one), "{}", ran.out());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("q.ndjson");
    adfctl(&both, &["drain", "/q", "--yes", "--to", file.to_str().unwrap()]).exits(0);
    assert_eq!(std::fs::read_to_string(&file).unwrap().lines().count(), 51);
    assert_eq!((ready(one, "/q"), ready(two, "/q")), (0, 0));
}

#[test]
fn a_worker_serves_every_server() {
    let (one, two) = (Server::start().unwrap(), Server::start().unwrap());
    let (one, two) = (one.address(), two.address());
    let all = format!("{one},{},{two}", dead_address());
    for address in [one, two] {
        // Equal numbers on both.
        adfctl(address, &["push", "/q", "good\n", "bad\n", "--create"]).exits(0);
    }
    let script = "read -r body; [ $body != bad ]";
    let flags = ["work", "/q", "--max-duplications", "1", "-o", "ndjson", "-c", "4"];
    let ran = adfctl(&all, &[&flags[..], &["--exec", "sh", "-c", script]].concat()).exits(0);
    // A failed message is delivered again at once, but is not run then, however often it is delivered before the other
    // server is done.
    let jobs = ran.objects();
    let run = |address: &str| {
        let runs = jobs.iter().filter(|job| job["server"] == address && !job["exit"].is_null());
        runs.map(|job| job["fate"].as_str().unwrap()).collect::<Vec<_>>()
    };
    for address in [one, two] {
        assert_eq!(run(address), ["deleted", "returned"], "{}", ran.out());
        assert!(ran.err.contains(&format!("of /q at {address}")), "{}", ran.err);
    }
}
