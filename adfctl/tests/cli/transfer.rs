//! `move`, `copy`, the filters of `export`, and the pace of `push`.

use std::time::{Duration, Instant};

use fixtures::adf_queue::Server;
use fixtures::fault::Fault;

use crate::harness::*;

/// The bodies of a queue's messages, in order.
fn bodies(address: &str, queue: &str) -> Vec<String> {
    let ran = adfctl(address, &["export", queue]).exits(0);
    let body = |line: &&str| {
        let record: serde_json::Value = serde_json::from_str(line).unwrap();
        record["body"].as_str().unwrap().to_owned()
    };
    ran.lines().iter().map(body).collect()
}

#[test]
fn move_keeps_the_order() {
    on_both(|site| {
        let (address, from) = (site.address(), filled(site, "from", &["1", "2", "3", "4"]));
        let to = filled(site, "to", &["0"]);
        let line = ["move", "--from", &from.name, "--to", &to.name, "--batch", "3", "-o", "json"];
        let ran = adfctl(address, &line).exits(2);
        assert!(ran.err.contains("move 4 messages from queue"), "{}", ran.err);
        let dry = adfctl(address, &[&line[..], &["--dry-run"]].concat()).exits(0).json();
        assert_eq!(dry["messages"], 4);
        let report = adfctl(address, &[&line[..], &["--yes"]].concat()).exits(0).json();
        assert_eq!((&report["succeeded"], &report["failed"]), (&4.into(), &0.into()));
        assert_eq!(bodies(address, &to.name), ["0", "1", "2", "3", "4"]);
        assert_eq!(ready(address, &from.name), 0);
    });
}

#[test]
fn filters_keep_the_other_messages_in_place() {
    on_both(|site| {
        let all = ["a1", "b1", "a2", "b2", "a3"];
        let (address, from) = (site.address(), filled(site, "from", &all));
        let to = site.queue("to");
        let line = [
            "move", "--from", &from.name, "--to", &to.name, "--filter", "body~=^a", "-c", "2",
            "--yes",
        ];
        adfctl(address, &line).exits(0);
        assert_eq!(bodies(address, &to.name), ["a1", "a2"]);
        assert_eq!(bodies(address, &from.name), ["b1", "b2", "a3"]);
        let ran =
            adfctl(address, &["export", &from.name, "--filter", "body!~b", "--filter", "size==2"])
                .exits(0);
        assert_eq!(ran.lines().len(), 1);
        let ran = adfctl(address, &["export", &from.name, "--filter", "pri<1"]).exits(2);
        assert!(
            ran.err.contains("the fields of a message are id, queue, duplications"),
            "{}",
            ran.err
        );
    });
}

#[test]
fn copy_leaves_the_source_unchanged() {
    on_both(|site| {
        let (address, from) = (site.address(), filled(site, "from", &["1", "2", "3"]));
        let to = site.no_queue("to");
        let line = ["copy", "--from", &from.name, "--to", &to.name];
        let ran = adfctl(address, &line).exits(1);
        assert!(ran.err.contains("there is no queue"), "{}", ran.err);
        adfctl(address, &[&line[..], &["--create", "-c", "2"]].concat()).exits(0);
        assert_eq!(bodies(address, &to.name), ["1", "2"]);
        assert_eq!(bodies(address, &from.name), ["1", "2", "3"]);
        adfctl(address, &["copy", "--from", &from.name, "--to", &from.name]).exits(2);
        adfctl(&site.http(), &["copy", "--from", &from.name, "--to", &to.name]).exits(2);
    });
}

#[test]
fn moves_to_another_server() {
    on_both(|site| {
        let target = Server::start().unwrap();
        let (address, from) = (site.address(), filled(site, "from", &["1", "2"]));
        let line =
            ["move", "--from", &from.name, "--to-server", target.address(), "--create", "--yes"];
        adfctl(address, &line).exits(0);
        assert_eq!(bodies(target.address(), &from.name), ["1", "2"]);
        assert_eq!(ready(address, &from.name), 0);
    });
}

#[test]
fn recognizes_the_same_server_by_another_name() {
    on_both(|site| {
        let (address, from) = (site.address(), filled(site, "alias", &["1"]));
        let alias = format!("localhost:{}", address.rsplit(':').next().unwrap());
        let line = ["move", "--from", &from.name, "--to-server", &alias, "--yes"];
        let ran = adfctl(address, &line).exits(2);
        assert!(ran.err.contains("the same queue"), "{}", ran.err);
        assert_eq!(bodies(address, &from.name), ["1"]);
    });
}

#[test]
fn a_lost_connection_names_possible_duplicates() {
    let (server, target) = (Server::start().unwrap(), Server::start().unwrap());
    let (address, to) = (server.address(), target.address());
    adfctl(address, &["push", "/q", "1", "2", "3", "--create"]).exits(0);
    adfctl(to, &["queue", "create", "/q"]).exits(0);
    target.faults().add(Fault::nth(2).of("rpush").cut_after(0));
    let line = ["move", "--from", "/q", "--to-server", to, "--yes", "-o", "json"];
    let ran = adfctl(address, &line).exits(4);
    let message = ran.error_alone()["message"].to_string();
    assert!(
        message.contains("may now exist both where") && message.contains("queue /q"),
        "{message}"
    );
    let mut all = [bodies(address, "/q"), bodies(to, "/q")].concat();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all, ["1", "2", "3"]);
    adfctl(address, &["move", "--from", "/q", "--to-server", to, "--yes"]).exits(0);
    assert_eq!(ready(address, "/q"), 0);
}

#[test]
fn honours_the_rate_limit() {
    let server = Server::start().unwrap();
    let address = server.address();
    let took = |line: &str| {
        let start = Instant::now();
        adfctl(address, &line.split(' ').collect::<Vec<_>>()).exits(0);
        start.elapsed()
    };
    // Four messages have three pauses of a tenth of a second between them, however fast the machine.
    let least = Duration::from_millis(300);
    assert!(took("push /q x --repeat 4 --create --rate 10/s") >= least);
    let moves = format!("move --from /q --to-server {address} --to /r --create --yes --rate 600/m");
    assert!(took(&moves) >= least);
}
