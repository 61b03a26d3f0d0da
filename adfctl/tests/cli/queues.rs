//! Queues: listing, counting, creating, deleting, clearing.

use fixtures::adf_queue::Server;

use crate::harness::*;

#[test]
fn lists_queues_with_counts() {
    on_both(|site| {
        let (address, queue) = (site.address(), site.queue("listed"));
        adfctl(address, &["push", &queue.name, "a", "b"]).exits(0);
        let rows = adfctl(address, &["queues", &queue.name, "-o", "json"]).exits(0).json();
        let row = &rows[0];
        assert_eq!((&row["queue"], &row["ready"]), (&queue.name.clone().into(), &2.into()));
        assert_eq!((&row["waiting"], &row["pulled"]), (&0.into(), &0.into()));
        let glob = format!("{}*", &queue.name[..queue.name.len() - 2]);
        assert_eq!(
            adfctl(address, &["queues", &glob, "-o", "name"]).exits(0).lines(),
            [&queue.name]
        );
        let ran = adfctl(address, &["queues", "/no*thing"]).exits(0);
        assert_eq!((ran.out(), &*ran.err), ("", "no queues match /no*thing\n"));
    });
}

#[test]
fn reports_queues_missing_from_the_status_page() {
    let mut builder = Server::builder();
    for n in 0..101 {
        builder = builder.queue(format!("/q{n:03}"));
    }
    let server = builder.start().unwrap();
    let ran = adfctl(server.address(), &["queues", "-o", "name"]).exits(3);
    assert_eq!(ran.lines().len(), 100);
    assert!(ran.lines().is_sorted() && ran.err.contains("100 of its 101 queues"), "{}", ran.err);
    // Whatever the page lists, a queue is found by its name.
    let names: Vec<String> = (0..101).map(|n| format!("/q{n:03}")).collect();
    let line = [&["queues"], &names.iter().map(String::as_str).collect::<Vec<_>>()[..]].concat();
    assert_eq!(adfctl(server.address(), &line).exits(0).lines().len(), 101);
    // One that is left out is not named.
    let others = adfctl(server.address(), &["queues", "!/q000"]).exits(3);
    assert!(others.err.contains("100 of its 101 queues"), "{}", others.err);
    assert_eq!(adfctl(server.address(), &["queues", "/q000", "!/q0*"]).exits(0).out(), "");
}

#[test]
fn creates_a_queue_once() {
    on_both(|site| {
        let (address, queue) = (site.address(), site.no_queue("new"));
        adfctl(address, &["queue", "create", &queue.name, "-n"]).exits(0);
        adfctl(address, &["queue", "create", &queue.name]).exits(0);
        let again = adfctl(address, &["queue", "create", &queue.name]).exits(1);
        assert!(again.says("error: QUEUE_EXISTS"), "{}", again.err);
        adfctl(address, &["queue", "create", &queue.name, "--if-missing"]).exits(0);
    });
}

#[test]
fn delete_and_clear_need_confirmation() {
    on_both(|site| {
        let (address, queue) = (site.address(), site.queue("gone"));
        adfctl(address, &["push", &queue.name, "a", "b"]).exits(0);
        for line in [&["clear", &queue.name][..], &["queue", "delete", &queue.name]] {
            let ran = adfctl(address, line).exits(2);
            assert!(ran.err.contains("--yes") && ran.err.contains(address), "{}", ran.err);
            adfctl(address, &[line, &["-n"]].concat()).exits(0);
        }
        let refused = adfctl(address, &["queue", "delete", &queue.name]).exits(2);
        let what =
            format!("queue {} with 2 ready messages, 0 pulled and 0 waiting pulls", queue.name);
        assert!(refused.err.contains(&what), "{}", refused.err);
        assert_eq!(ready(address, &queue.name), 2);
        let cleared =
            adfctl(address, &["clear", &queue.name, "--yes", "-o", "json"]).exits(0).json();
        assert_eq!(cleared["succeeded"], 2);
        // With nothing to delete, there is nothing to confirm.
        adfctl(address, &["clear", &queue.name]).exits(0);
        adfctl(address, &["queue", "delete", &queue.name, "--yes"]).exits(0);
        adfctl(address, &["queue", "delete", &queue.name, "--yes"]).exits(1);
    });
}

#[test]
fn filtered_clear_keeps_the_other_messages() {
    on_both(|site| {
        let (address, queue) = (site.address(), site.queue("some"));
        adfctl(address, &["push", &queue.name, "a", "larger", "b", "c", "largest"]).exits(0);
        let clear = |more: &[&str]| {
            adfctl(address, &[&["clear", &queue.name, "--yes", "-o", "json"], more].concat())
        };
        let filter = ["--filter", "size>1"];
        assert_eq!(clear(&[&filter[..], &["-n"]].concat()).exits(0).json()["messages"], 5);
        let deleted = |more: &[&str]| clear(more).exits(0).json()["succeeded"].clone();
        assert_eq!(deleted(&[&filter[..], &["-c", "1"]].concat()), 1);
        assert_eq!(deleted(&["-c", "1", "--rate", "100/s"]), 1);
        assert_eq!(deleted(&filter), 1);
        let left = adfctl(address, &["pop", &queue.name, "-c", "9", "-o", "raw"]).exits(0);
        assert_eq!(left.out(), "bc");
        let over_http = adfctl(&site.http(), &["clear", &queue.name, "-c", "1"]).exits(2);
        assert!(over_http.err.contains("needs WebSocket"), "{}", over_http.err);
    });
}

#[test]
fn raw_prints_the_answer() {
    on_both(|site| {
        let (address, queue) = (site.address(), site.queue("raw"));
        let ran = adfctl(address, &["raw", "lpush", &queue.name, "--id", "7", "x", "-o", "json"]);
        let answer = ran.exits(0).json();
        assert_eq!((&answer["requestid"], &answer["messageid"]), (&"7".into(), &1.into()));
        let answer = adfctl(address, &["raw", "count", &queue.name, "-o", "json"]).exits(0).json();
        assert_eq!((&answer["result"], &answer["count"]), (&"ok".into(), &1.into()));
        let refused = adfctl(address, &["raw", "createqueue", &queue.name]).exits(1);
        assert!(refused.err.contains("the queue exists already"), "{}", refused.err);
    });
}

#[test]
fn answers_are_sentences() {
    let server = Server::start().unwrap();
    let run = |words: &[&str]| adfctl(server.address(), words);
    run(&["push", "alpha", "--create", "x"]).exits(0);
    assert_eq!(
        run(&["raw", "count", "alpha", "-o", "table"]).exits(0).out(),
        "ok: 1 ready in alpha\n"
    );
    let ran = run(&["clear", "nope"]).exits(1);
    assert!(ran.err.contains("there is no queue nope"), "{}", ran.err);
    assert!(!ran.err.contains("count"), "{}", ran.err);
    let help = bare(&["work", "--help"]).exits(0);
    assert!(help.out().contains("Command to run for each message"), "{}", help.out());
    assert!(!help.out().contains(" job"), "{}", help.out());
}

/// The server is asked for it only where a name is unknown.
#[test]
fn suggests_a_close_queue_name() {
    let server = Server::start().unwrap();
    let run = |words: &[&str]| adfctl(server.address(), words);
    run(&["push", "alpha", "--create", "x"]).exits(0);
    for line in [
        &["push", "alpa", "x"][..],
        &["pull", "alpa"],
        &["pop", "alpa"],
        &["clear", "alpa", "--yes"],
        &["drain", "alpa", "--yes"],
        &["export", "alpa"],
        &["move", "--from", "alpa", "--to", "beta", "--yes"],
        &["queues", "alpa"],
        &["queue", "delete", "alpa", "--yes"],
        &["check", "queue", "alpa"],
        &["wait", "--for", "empty", "alpa"],
        &["work", "-Q", "alpa", "--max-idle", "0", "--exec", "true"],
    ] {
        let ran = run(line);
        let said = format!("{}{}", ran.out(), ran.err);
        assert!(said.contains("did you mean alpha?"), "{line:?}: {said}");
    }
    let different = run(&["pop", "quite-different"]).exits(1);
    assert!(!different.err.contains("did you mean"), "{}", different.err);
}

#[test]
fn drain_honours_a_filter() {
    on_both(|site| {
        let (address, queue) = (site.address(), site.queue("filtered"));
        adfctl(address, &["push", &queue.name, "small", "a-larger-body", "tiny"]).exits(0);
        let drain = |more: &[&str]| {
            adfctl(
                address,
                &[&["drain", &queue.name, "--yes", "-o", "ndjson", "--filter"], more].concat(),
            )
        };
        let ran = drain(&["size>8"]).exits(0);
        assert_eq!(ran.lines().len(), 1, "{}", ran.out());
        assert!(ran.out().contains("a-larger-body"), "{}", ran.out());
        // The others are where they were, in their order.
        let rest = adfctl(address, &["drain", &queue.name, "--yes"]).exits(0);
        let bodies: Vec<bool> = rest.lines().iter().map(|line| line.contains("small")).collect();
        assert_eq!(bodies, [true, false], "{}", rest.out());
        assert!(drain(&["pri<1"]).exits(2).err.contains("duplications"));
        drain(&["size>1", "--dry-run"]).exits(2);
        let help = bare(&["drain", "--help"]).exits(0);
        assert!(
            help.out().contains("size>1k") && !help.out().contains("pri<100"),
            "{}",
            help.out()
        );
    });
}
