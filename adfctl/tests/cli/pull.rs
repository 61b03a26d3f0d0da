//! `pull` and `pop`.

#[cfg(unix)]
use std::io::Read as _;
use std::time::Duration;

use ctl_contract::program::{Running, ended};
#[cfg(unix)]
use ctl_contract::program::{hears, signal};
use fixtures::adf_queue::{Request, Sent, Server};
use fixtures::fault::Fault;
use serde_json::json;

use crate::harness::*;

fn bodies(ran: &Ran) -> Vec<String> {
    let all = ran.json();
    let body = |one: &serde_json::Value| one["body"].as_str().unwrap().to_owned();
    all.as_array().unwrap().iter().map(body).collect()
}

#[test]
fn pull_returns_the_message_to_its_place() {
    on_both(|site| {
        let (address, queue) = (site.address(), filled(site, "back", &["a", "b", "c"]));
        let ran = adfctl(address, &["pull", &queue.name, "-c", "2", "-o", "json"]).exits(0);
        assert_eq!(bodies(&ran), ["a", "b"]);
        assert!(ran.err.contains("2 messages are back in place"), "{}", ran.err);
        assert_eq!(ready(address, &queue.name), 3);
        let ran = adfctl(address, &["pop", &queue.name, "-c", "9", "-o", "json"]).exits(0);
        assert_eq!(bodies(&ran), ["a", "b", "c"]);
        let counts: Vec<_> =
            ran.json().as_array().unwrap().iter().map(|m| m["duplications"].clone()).collect();
        assert_eq!(counts, [2, 2, 1]);
    });
}

/// Whether it holds them until a signal, or a reader of its output takes its time.
#[cfg(unix)]
#[test]
fn does_not_claim_a_return_by_a_dead_server() {
    let lost = "the connection was lost; unless the server stopped, 3 messages are back in place";
    for is_held in [true, false] {
        let server = Server::builder().queue("/q").start().unwrap();
        let body = "x".repeat(60_000);
        adfctl(server.address(), &["push", "/q", &body, &body, &body]).exits(0);
        let line = ["--server", server.address(), "pull", "/q", "-c", "3", "-o", "raw"];
        let hold: &[&str] = if is_held { &["--then", "hold"] } else { &[] };
        let mut child = PROGRAM.command(&[&line, hold].concat()).spawn().unwrap();
        let mut out = child.stdout.take().unwrap();
        if is_held {
            let reader = std::thread::spawn(move || std::io::copy(&mut out, &mut std::io::sink()));
            let mut err = std::io::BufReader::new(child.stderr.take().unwrap());
            hears(&mut err, "holding until Ctrl-C");
            drop(server);
            signal(&child, rustix::process::Signal::INT);
            hears(&mut err, lost);
            reader.join().unwrap().unwrap();
            ended(child).exits(69);
        } else {
            // A pipe does not hold all three, so the messages are still held.
            out.read_exact(&mut [0]).unwrap();
            drop(server);
            std::io::copy(&mut out, &mut std::io::sink()).unwrap();
            let ran = ended(child).exits(69);
            assert!(ran.err.contains(lost), "{}", ran.err);
        }
    }
}

#[test]
fn records_carry_the_server_fields() {
    on_both(|site| {
        let (address, queue) = (site.address(), filled(site, "record", &["x"]));
        let ran = adfctl(address, &["pop", &queue.name, "-o", "ndjson"]).exits(0);
        let expected =
            json!({"v": 1, "messageid": 1, "queue": queue.name, "duplications": 1, "body": "x"});
        assert_eq!(ran.json(), expected);
    });
}

#[test]
fn then_settles_messages_in_order() {
    on_both(|site| {
        let (address, queue) = (site.address(), filled(site, "then", &["a", "b", "c"]));
        let then = |what: &str| {
            let line = ["pull", &queue.name, "-c", "2", "-o", "json", "--then", what];
            bodies(&adfctl(address, &line).exits(0))
        };
        assert_eq!(then("lcancel"), ["a", "b"]);
        assert_eq!(then("rcancel"), ["a", "b"]);
        assert_eq!(then("delete"), ["c", "a"]);
        let rest = adfctl(address, &["pop", &queue.name, "-c", "9", "-o", "json"]).exits(0);
        assert_eq!(bodies(&rest), ["b"]);
    });
}

#[test]
fn exits_1_when_empty_and_124_on_timeout() {
    on_both(|site| {
        let (address, queue) = (site.address(), site.queue("empty"));
        for command in ["pull", "pop"] {
            let ran = adfctl(address, &[command, &queue.name]).exits(1);
            assert!(ran.says("error: NOTHING_PULLED"), "{}", ran.err);
            adfctl(address, &[command, &queue.name, "--wait", "200ms"]).exits(124);
        }
    });
}

/// They were taken for an empty queue, and the command ended well.
#[test]
fn takes_all_messages_from_a_slow_server() {
    let server = Server::builder().queue("/q").start().unwrap();
    adfctl(server.address(), &["push", "/q", "1", "2"]).exits(0);
    server.faults().add(Fault::always().of("pull").delay(Duration::from_millis(800)));
    for line in [&["export", "/q"][..], &["pop", "/q", "-c", "2", "-o", "ndjson"]] {
        assert_eq!(adfctl(server.address(), line).exits(0).lines().len(), 2, "{line:?}");
    }
    assert_eq!(server.view().ready, 0);
}

#[cfg(unix)]
#[test]
fn shows_progress_while_waiting_for_several_messages() {
    let server = Server::builder().queue("/q").start().unwrap();
    for command in ["pull", "pop"] {
        let line = ["--server", server.address(), command, "/q", "-c", "2", "--wait", "1h"];
        let mut child = PROGRAM.command(&line).env("ADFCTL_PROGRESS", "json").spawn().unwrap();
        let mut err = std::io::BufReader::new(child.stderr.take().unwrap());
        hears(&mut err, "\"label\":\"waiting for a message\"");
        signal(&child, rustix::process::Signal::INT);
        err.read_to_string(&mut String::new()).unwrap();
        ended(child).exits(130);
    }
}

#[test]
fn a_wait_ends_at_the_first_message() {
    on_both(|site| {
        let (address, queue) = (site.address(), site.queue("late"));
        let line = ["--server", address, "pop", &queue.name, "--wait", "60s", "-o", "raw"];
        let child = PROGRAM.command(&line).spawn().unwrap();
        // Waits until it waits, or almost: it gets the message in either case.
        let line = ["wait", "--for", "waiting>=1", &queue.name, "--interval", "10ms"];
        adfctl(address, &line).exits(0);
        adfctl(address, &["push", &queue.name, "at last"]).exits(0);
        assert_eq!(ended(child).exits(0).out(), "at last");
    });
}

/// Such a message wakes no pull that waits already.
#[test]
fn a_wait_finds_a_returned_message() {
    let server = Server::builder().queue("/q").start().unwrap();
    let (address, http) = (server.address(), format!("http://{}", server.address()));
    adfctl(address, &["push", "/q", "back"]).exits(0);
    let held = adfctl(&http, &["pull", "/q", "-o", "json"]).exits(0).json();
    let id = held[0]["requestid"].as_str().unwrap();
    let line = ["--server", address, "pop", "/q", "--wait", "60s", "-o", "raw"];
    let child = PROGRAM.command(&line).spawn().unwrap();
    let line = ["wait", "--for", "waiting>=1", "/q", "--interval", "10ms"];
    adfctl(address, &line).exits(0);
    adfctl(&http, &["rcancel", "/q", id]).exits(0);
    assert_eq!(ended(child).exits(0).out(), "back");
}

#[test]
fn the_exit_code_settles_the_message() {
    on_both(|site| {
        let (address, queue) = (site.address(), filled(site, "exec", &["a", "b"]));
        let pull = |script: &str| {
            let line = ["pull", &queue.name, "-o", "plain", "--exec", "sh", "-c", script];
            adfctl(address, &line)
        };
        let script = "echo \"$ADFCTL_QUEUE $ADFCTL_MESSAGE_ID $ADFCTL_DUPLICATIONS $(cat)\"";
        let ran = pull(&format!("{script}; exit 3")).exits(1);
        assert!(ran.err.contains("COMMAND_FAILED") && ran.err.contains("code 3"), "{}", ran.err);
        assert!(ran.out().contains(&format!("{} 1 1 a", queue.name)), "{}", ran.err);
        assert_eq!(ready(address, &queue.name), 2);
        let ran = pull(script).exits(0);
        assert!(ran.out().contains(&format!("{} 1 2 a", queue.name)), "{}", ran.err);
        assert_eq!(ready(address, &queue.name), 1);
        let line = ["pull", &queue.name, "--exec", "/no/such/command"];
        adfctl(address, &line).exits(127);
        assert_eq!(ready(address, &queue.name), 1);
    });
}

#[test]
fn names_a_message_whose_delete_is_refused() {
    let server = Server::builder().queue("/q").start().unwrap();
    adfctl(server.address(), &["push", "/q", "a", "b"]).exits(0);
    server.faults().add(Fault::nth(1).of("delete").reply("message was not pulled."));
    let ran = adfctl(server.address(), &["pop", "/q", "-c", "2", "-o", "json"]).exits(3);
    assert!(ran.err.contains("message 1 of /q: NOT_PULLED"), "{}", ran.err);
}

/// A pull of the benchmark that has given up is answered later: its message is in no count, and the next pull gets it.
#[test]
fn bench_accounts_for_a_late_message() {
    let server = Server::start().unwrap();
    server.faults().add(Fault::nth(1).of("pull").delay(Duration::from_millis(1500)));
    adfctl(server.address(), &["bench", "cycle", "--count", "2"]).exits(0);
    assert_eq!(server.queues(), []);
}

/// A proxy closes a connection that is idle for longer than it allows. The usual interval is longer than the wait here.
#[test]
fn pings_an_idle_connection_at_the_interval() {
    let (pinged, pings) = std::sync::mpsc::channel();
    let note = move |request: &Request| {
        if request.sent == Sent::Ping {
            let _ = pinged.send(());
        }
    };
    let server = Server::builder().queue("/q").on_request(note).start().unwrap();
    let line = ["--server", server.address(), "pull", "/q", "--wait", "1h"];
    let every = |interval| {
        let mut command = PROGRAM.command(&line);
        command.env("ADFCTL_PING_INTERVAL", interval);
        Running::of(command.spawn().unwrap())
    };
    let child = every("100ms");
    for _ in 0..3 {
        pings.recv_timeout(Duration::from_secs(25)).unwrap();
    }
    child.terminated();
    let refused = every("soon").ended().exits(2);
    assert!(refused.err.contains("ADFCTL_PING_INTERVAL"), "{}", refused.err);
}
