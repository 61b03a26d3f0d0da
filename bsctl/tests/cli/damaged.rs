//! Jobs whose body the server lost in a crash: they are reported, block nothing, and are never passed on as if they
//! were whole.

use fixtures::beanstalkd::{Seed, Server};

use crate::harness::*;

/// A server whose tube `t` has three jobs in this state, of which the first, with the id 1, is damaged.
fn server(state: fn(Seed) -> Seed) -> Server {
    let server = Server::start().unwrap();
    let seed = |body: &str| state(Seed::new(body).tube("t").priority(77));
    server.seed(seed("half\0\0").damaged()).unwrap();
    server.seed(seed("second")).unwrap();
    server.seed(seed("third")).unwrap();
    server
}

fn ready(seed: Seed) -> Seed {
    seed
}

#[test]
fn showing_a_damaged_job_exits_65_with_a_hint() {
    let server = server(ready);
    let address = server.address();
    for line in [&["peek", "1"][..], &["peek", "-t", "t"], &["job", "1", "--with-body"]] {
        let error = bsctl(address, &[line, &["-o", "json"]].concat()).exits(65).error();
        assert_eq!(error["code"], "BODY_DAMAGED", "{line:?}");
        let message = error["message"].to_string();
        assert!(message.contains("job 1") && message.contains("bury or delete it"), "{message}");
    }
    let ran = bsctl(address, &["peek", "1", "2", "-o", "raw"]).exits(3);
    assert_eq!(ran.out(), "second");
    bsctl(address, &["raw", "peek 1"]).exits(65);
}

#[test]
fn a_damaged_job_is_listed_and_checked() {
    let server = server(ready);
    let address = server.address();
    let listed = bsctl(address, &["jobs", "-o", "id"]).exits(0);
    assert_eq!(listed.lines(), ["1", "2", "3"]);
    let ran = bsctl(address, &["jobs", "--with-body", "-o", "json"]).exits(0);
    let jobs = ran.json();
    assert_eq!(
        (jobs[0]["body"].clone(), &jobs[1]["body"]),
        (serde_json::Value::Null, &"second".into())
    );
    assert!(ran.err.contains("BODY_DAMAGED"), "{}", ran.err);
    bsctl(address, &["check", "tube", "t", "-w", "oldest-age=0:3600", "-c", "workers=0:"]).exits(0);
}

#[test]
fn pop_buries_a_damaged_job_with_a_warning() {
    for line in [&["pop", "-t", "t", "-o", "raw"][..], &["reserve", "-t", "t", "-o", "raw"]] {
        let server = server(ready);
        let ran = bsctl(server.address(), line).exits(0);
        assert_eq!(ran.out(), "second", "{line:?}");
        assert!(ran.err.contains("BODY_DAMAGED") && ran.err.contains("job 1"), "{}", ran.err);
        let stats = stats(server.address(), 1.into()).unwrap();
        assert_eq!((stats.state.as_str(), stats.pri.get()), ("buried", 77));
    }
    let server = Server::start().unwrap();
    server.seed(Seed::new("").damaged()).unwrap();
    bsctl(server.address(), &["pop"]).exits(1);
    assert_eq!(state(server.address(), 1.into()), "buried");
}

#[test]
fn a_damaged_job_can_be_buried_released_and_deleted_by_id() {
    let server = server(ready);
    let address = server.address();
    bsctl(address, &["bury", "1"]).exits(0);
    assert_eq!(state(address, 1.into()), "buried");
    bsctl(address, &["release", "1", "-d", "1h"]).exits(0);
    assert_eq!(state(address, 1.into()), "delayed");
    bsctl(address, &["delete", "1"]).exits(0);
    assert_eq!(state(address, 1.into()), "gone");
}

#[test]
fn drain_keeps_and_clear_deletes_a_damaged_job() {
    let server = server(ready);
    let address = server.address();
    let ran = bsctl(address, &["drain", "t", "--state", "ready", "--yes"]).exits(3);
    assert_eq!(ran.lines().len(), 2);
    assert!(!ran.out().contains("half"), "{}", ran.out());
    assert!(ran.err.contains("BODY_DAMAGED"), "{}", ran.err);
    assert_eq!(state(address, 1.into()), "buried");
    bsctl(address, &["clear", "t", "--yes"]).exits(0);
    assert_eq!(state(address, 1.into()), "gone");
}

#[test]
fn a_damaged_job_at_the_head_stops_drain_but_not_clear() {
    for state_of in [Seed::buried as fn(Seed) -> Seed, |seed| seed.delay(3600)] {
        let server = server(state_of);
        let address = server.address();
        let error = bsctl(address, &["drain", "t", "--yes", "-o", "json"]).exits(65).error();
        assert_eq!(error["code"], "BODY_DAMAGED");
        let left = client(address).stats().unwrap();
        assert_eq!(left.current_jobs_buried + left.current_jobs_delayed, 3);
        bsctl(address, &["clear", "t", "--yes"]).exits(0);
        let left = client(address).stats().unwrap();
        assert_eq!(left.current_jobs_buried + left.current_jobs_delayed, 0);
    }
}

#[test]
fn export_skips_a_damaged_job_and_warns() {
    let server = server(ready);
    let ran = bsctl(server.address(), &["export"]).exits(3);
    assert_eq!(ran.lines().len(), 2);
    assert!(ran.err.contains("job 1"), "{}", ran.err);
}

#[test]
fn a_worker_buries_a_damaged_job_and_continues() {
    let server = server(ready);
    let line = ["work", "-t", "t", "--max-idle", "0", "-o", "json", "--exec", "cat"];
    let ran = bsctl(server.address(), &line).exits(0);
    let report = ran.json();
    assert_eq!((&report["deleted"], &report["buried"]), (&2.into(), &1.into()), "{report}");
    assert!(ran.err.contains("burying job 1 without running it"), "{}", ran.err);
    assert_eq!(state(server.address(), 1.into()), "buried");
}
