//! Messages over HTTP, which belong to no connection.

use crate::harness::*;

/// The request id of a message that was pulled over HTTP.
fn pull(http: &str, queue: &str) -> String {
    let ran = adfctl(http, &["pull", queue, "-o", "json"]).exits(0);
    let id = ran.json()[0]["requestid"].as_str().unwrap().to_owned();
    assert!(ran.err.contains(&format!("stays pulled as {id}")), "{}", ran.err);
    id
}

#[test]
fn a_message_stays_pulled_until_its_request_id_is_settled() {
    on_both(|site| {
        let (http, queue) = (site.http(), site.queue("settled"));
        adfctl(&http, &["push", &queue.name, "a", "b"]).exits(0);
        let id = pull(&http, &queue.name);
        assert_eq!(ready(&http, &queue.name), 1);
        adfctl(&http, &["rcancel", &queue.name, &id]).exits(0);
        let ran = adfctl(&http, &["settle", "right", &queue.name, &id]).exits(1);
        assert!(ran.says("error: NOT_PULLED"), "{}", ran.err);
        // Now the other one is at the left end.
        let id = pull(&http, &queue.name);
        adfctl(&http, &["lcancel", &queue.name, &id]).exits(0);
        let id = pull(&http, &queue.name);
        adfctl(&http, &["delete", &queue.name, &id]).exits(0);
        let ran = adfctl(&http, &["pop", &queue.name, "-o", "raw"]).exits(0);
        assert_eq!(ran.out(), "a");
    });
}

#[test]
fn recovers_an_abandoned_http_pull() {
    on_both(|site| {
        let queue = site.queue("ghost");
        adfctl(site.address(), &["push", &queue.name, "a"]).exits(0);
        let id = pull(&site.http(), &queue.name);
        assert_eq!(ready(site.address(), &queue.name), 0);
        let dry = adfctl(site.address(), &["recover", &queue.name, &id, "-n"]).exits(0);
        assert!(dry.out().contains("would lcancel"), "{}", dry.out());
        adfctl(site.address(), &["recover", &queue.name, &id]).exits(0);
        assert_eq!(ready(site.address(), &queue.name), 1);
    });
}

#[test]
fn rejects_an_ambiguous_single_argument() {
    for command in ["delete", "lcancel", "rcancel", "recover"] {
        let ran = adfctl("http://127.0.0.1:1", &[command, "/q"]).exits(2);
        assert!(
            ran.err.contains("`/q` is not enough: give a queue and the request id"),
            "{}",
            ran.err
        );
    }
}

#[test]
fn the_hint_of_an_http_pull_works_verbatim() {
    on_both(|site| {
        let queue = site.queue("printed");
        adfctl(&site.http(), &["push", &queue.name, "a"]).exits(0);
        let ran = adfctl(&site.http(), &["pull", &queue.name]).exits(0);
        let (_, line) = ran.err.split_once(": adfctl ").unwrap_or_else(|| panic!("{}", ran.err));
        let (line, _) = line.split_once(" deletes it").unwrap();
        bare(&line.split(' ').collect::<Vec<_>>()).exits(0);
    });
}

#[test]
fn a_websocket_pull_cannot_be_settled_by_request_id() {
    on_both(|site| {
        let (address, queue) = (site.address(), site.queue("session"));
        adfctl(address, &["push", &queue.name, "a"]).exits(0);
        let pull = format!("pull {} -o json", queue.name);
        let pulled = adfctl(address, &["repl", "-e", &pull]).exits(0).json();
        // Each connection numbers its pulls in the same way.
        let settle =
            format!("settle delete {} {}", queue.name, pulled["requestid"].as_str().unwrap());
        let ran = adfctl(address, &["repl", "-e", &pull, "-e", &settle]).exits(1);
        assert!(ran.err.contains("no message was pulled over HTTP as"), "{}", ran.err);
        assert!(ran.err.contains("over the transport that pulled it"), "{}", ran.err);
        assert_eq!(ready(address, &queue.name), 1);
    });
}

#[test]
fn pop_and_exec_settle_over_http_too() {
    on_both(|site| {
        let (http, queue) = (site.http(), site.queue("popped"));
        adfctl(&http, &["push", &queue.name, "a", "b"]).exits(0);
        let ran = adfctl(&http, &["pop", &queue.name, "-o", "raw"]).exits(0);
        assert_eq!(ran.out(), "a");
        adfctl(&http, &["pull", &queue.name, "--exec", "false"]).exits(1);
        assert_eq!(ready(&http, &queue.name), 1);
        adfctl(&http, &["pull", &queue.name, "--exec", "true"]).exits(0);
        let rows = adfctl(&http, &["queues", &queue.name, "-o", "json"]).exits(0).json();
        assert_eq!((&rows[0]["ready"], &rows[0]["pulled"]), (&0.into(), &0.into()));
    });
}

#[test]
fn roundtrip_passes_over_http() {
    on_both(|site| {
        for address in [site.http(), site.http().replacen("http", "http+json", 1)] {
            adfctl(&address, &["check", "roundtrip"]).exits(0);
        }
        adfctl(&site.http(), &["ping"]).exits(0);
    });
}
