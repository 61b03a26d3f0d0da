//! `tap`, in addition to what every tool's has to do.

use std::path::{Path, PathBuf};

use ctl_contract::tap::Tap;
use fixtures::adf_queue::{Quirks, Server};

use crate::harness::*;

#[test]
fn actions_and_answers_are_understood_over_both_transports() {
    on_both(|site| {
        let queue = site.queue("tapped");
        let name = queue.name.as_str();
        for scheme in ["", "http://"] {
            let mut tap = Tap::start(&PROGRAM, site.address(), &[]);
            let through = format!("{scheme}{}", tap.address);
            adfctl(&through, &["push", name, "hello"]).exits(0);
            let push = tap.line(|line| line["verb"] == "rpush");
            assert_eq!((&push["size"], &push["body"]), (&5.into(), &"hello".into()), "{push}");
            let done = tap.line(|line| line["from"] == "server" && line["verb"] == "ok");
            assert!(done["to"].as_str().unwrap().starts_with("rpush "), "{done}");
            adfctl(&through, &["pop", name]).exits(0);
            let pull = tap.line(|line| line["verb"] == "pull");
            assert!(pull["args"].as_str().unwrap().contains("tapped"), "{pull}");
            let missing = site.no_queue("nowhere");
            adfctl(&through, &["push", &missing.name, "x"]).exits(1);
            let refused = tap.line(|line| line["error"] == true);
            assert_eq!(refused["verb"], "queue not exists.", "{refused}");
            let (_, ran) = tap.end();
            assert!(!ran.err.contains("undecoded"), "{}", ran.err);
        }
    });
}

/// The record of a client over HTTP, and a server whose queue has given more numbers than the recorded one.
fn recorded_over_http(scheme: &str, folder: &Path) -> (PathBuf, Server) {
    let [first, second] = ["1", "12"].map(|before| {
        let server = Server::start().unwrap();
        adfctl(server.address(), &["queue", "create", "/mail"]).exits(0);
        for line in [&["push", "/mail", "before"][..], &["pop", "/mail"]] {
            adfctl(server.address(), &[line, &["-c", before]].concat()).exits(0);
        }
        server
    });
    let file = folder.join("record.txt");
    let tap = Tap::start(&PROGRAM, first.address(), &["--record", file.to_str().unwrap()]);
    let through = format!("{scheme}{}", tap.address);
    for line in [
        &["push", "/mail", "one \"messageid\":7"][..],
        &["push", "/mail", "two"],
        &["pop", "/mail"],
        &["pop", "/mail"],
    ] {
        adfctl(&through, line).exits(0);
    }
    tap.end();
    (file, second)
}

#[test]
fn a_replay_over_http_accepts_other_ids_unless_it_is_exact() {
    for scheme in ["http://", "http+json://"] {
        let folder = tempfile::tempdir().unwrap();
        let (file, server) = recorded_over_http(scheme, folder.path());
        let line = ["tap", "--replay", file.to_str().unwrap(), "--to", server.address()];
        let exact = bare(&[&line[..], &["--exact"]].concat()).exits(1);
        assert!(exact.err.contains("DIFFERENT"), "{scheme}: {}", exact.err);
        adfctl(server.address(), &["clear", "/mail", "--yes"]).exits(0);
        for _ in 0..2 {
            let played = bare(&[&line[..], &["-o", "json"]].concat()).exits(0).json();
            assert_eq!(played["other_ids"], 2, "{scheme}: {played}");
            assert_eq!(ready(server.address(), "/mail"), 0);
        }
        // A message with another body is no other id.
        let text = std::fs::read_to_string(&file).unwrap();
        let changed = folder.path().join("changed.txt");
        let requests = text.lines().map(|line| match line.split_once("> ") {
            Some(_) => line.replace("two", "TWO"),
            None => line.to_owned(),
        });
        std::fs::write(&changed, requests.collect::<Vec<_>>().join("\n")).unwrap();
        let line = ["tap", "--replay", changed.to_str().unwrap(), "--to", server.address()];
        let ran = bare(&line).exits(1);
        assert!(ran.err.contains("DIFFERENT"), "{scheme}: {}", ran.err);
    }
}

#[test]
fn an_exact_replay_over_http_accepts_the_same_ids() {
    for scheme in ["http://", "http+json://"] {
        let folder = tempfile::tempdir().unwrap();
        let (file, _) = recorded_over_http(scheme, folder.path());
        let server = Server::start().unwrap();
        adfctl(server.address(), &["queue", "create", "/mail"]).exits(0);
        adfctl(server.address(), &["push", "/mail", "before"]).exits(0);
        adfctl(server.address(), &["pop", "/mail"]).exits(0);
        let line = ["tap", "--replay", file.to_str().unwrap(), "--to", server.address()];
        bare(&[&line[..], &["--exact"]].concat()).exits(0);
    }
}

/// Waiting pulls, refusals, pages, several requests on a connection: all that was recorded over HTTP.
#[test]
fn transcripts_of_the_real_server_over_http_replay_with_and_without_other_ids() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/wire/adf-queue");
    for name in ["http.txt", "http-push.txt", "http-lines.txt", "ghost-pull.txt", "pipelined.txt"] {
        let file = folder.join(name);
        // One expects silence, and waits for it as long as for an answer.
        let limit = if name == "http-push.txt" { "1s" } else { "60s" };
        for flags in [&[][..], &["--exact"]] {
            // A replay opens all its connections first, and a busy machine lets them idle.
            let quirks = Quirks { idle_limit: None, ..Quirks::default() };
            let server = Server::builder().quirks(quirks).start().unwrap();
            let line = ["tap", "--replay", file.to_str().unwrap(), "--to", server.address()];
            let ran = bare(&[&line[..], &["--timeout", limit], flags].concat());
            assert_eq!(ran.code, Some(0), "{name} {flags:?}: {}", ran.err);
        }
    }
}
