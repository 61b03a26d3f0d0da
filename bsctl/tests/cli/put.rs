//! `put` from every source.

use std::fs;

use fixtures::beanstalkd::Server;
use fixtures::fault::Fault;

use crate::harness::*;

/// Takes every body of a tube.
fn bodies(address: &str, tube: &str) -> Vec<Vec<u8>> {
    let mut client = client(address);
    client.watch(tube).unwrap();
    let mut bodies = Vec::new();
    while let Some(job) = client.reserve_with_timeout(std::time::Duration::ZERO).unwrap().job() {
        bodies.push(job.body.to_vec());
        client.delete(&job).unwrap();
    }
    bodies
}

#[test]
fn puts_bodies_from_arguments_files_and_stdin() {
    on_both(|address| {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("body");
        fs::write(&file, b"\x00\xff\r\nfile").unwrap();
        let at_file = format!("@{}", file.display());
        let line = ["put", "-t", "t", "plain", &at_file, "-", "@@at", ""];
        let ran = bsctl_with(address, &line, b"from\nstdin").exits(0);
        assert_eq!(ran.lines().len(), 5);
        let expected: [&[u8]; 5] = [b"plain", b"\x00\xff\r\nfile", b"from\nstdin", b"@at", b""];
        assert_eq!(bodies(address, "t"), expected);
    });
}

#[test]
fn put_at_delays_until_a_time() {
    on_both(|address| {
        let then = std::time::SystemTime::now() + std::time::Duration::from_secs(7200);
        let then = then.duration_since(std::time::UNIX_EPOCH).unwrap().as_secs().to_string();
        for (at, states) in [(&*then, "delayed"), ("2001-01-01T00:00:00Z", "ready")] {
            let ran = bsctl(address, &["put", "-t", "t", "--at", at, "x", "-o", "id"]).exits(0);
            let stats = stats(address, ran.out().trim().parse::<u64>().unwrap().into()).unwrap();
            assert_eq!(stats.state.as_str(), states);
            assert!(stats.delay <= 7200 && (stats.delay == 0) == (states == "ready"), "{stats:?}");
        }
        let ran = bsctl(address, &["put", "--at", "tomorrow", "x"]).exits(2);
        assert!(ran.err.contains("`tomorrow` is not a time"), "{}", ran.err);
        bsctl(address, &["put", "--at", &then, "-d", "5", "x"]).exits(2);
    });
}

#[test]
fn puts_records_from_stdin() {
    on_both(|address| {
        bsctl_with(address, &["put", "-t", "lines", "--lines"], b"a\n\nb").exits(0);
        assert_eq!(bodies(address, "lines"), [&b"a"[..], b"", b"b"]);
        bsctl_with(address, &["put", "-t", "null", "-0"], b"a\nb\0\0c").exits(0);
        assert_eq!(bodies(address, "null"), [&b"a\nb"[..], b"", b"c"]);
        let records = b"{\"body\":\"x\",\"tube\":\"nd\"}\n\n{\"body_base64\":\"/w==\",\"tube\":\"nd\",\"pri\":1}\n";
        let ran = bsctl_with(address, &["put", "--ndjson"], records).exits(0);
        assert!(ran.says("put 2 jobs into the tubes of their records in "), "{}", ran.err);
        assert_eq!(bodies(address, "nd"), [&b"\xff"[..], b"x"]);
    });
}

#[test]
fn flags_fill_in_missing_record_fields() {
    let server = Server::start().unwrap();
    let records =
        b"{\"body\":\"x\",\"tube\":\"theirs\",\"pri\":1,\"delay\":9,\"ttr\":9}\n{\"body\":\"y\"}\n";
    let line = ["put", "--ndjson", "-t", "ours", "-p", "7", "-d", "1h", "-r", "2m", "-o", "id"];
    let ran = bsctl_with(server.address(), &line, records).exits(0);
    let found: Vec<_> = ran
        .lines()
        .iter()
        .map(|id| stats(server.address(), id.parse::<u64>().unwrap().into()).unwrap())
        .map(|job| (job.tube.to_string(), job.pri.get(), job.delay, job.ttr))
        .collect();
    assert_eq!(found, [("theirs".to_owned(), 1, 9, 9), ("ours".to_owned(), 7, 3600, 120)]);
    for note in ["-t is only for records without `tube`", "-p is only", "-d is only", "-r is only"]
    {
        assert_eq!(ran.err.matches(note).count(), 1, "{note}: {}", ran.err);
    }
    assert!(ran.err.contains("stdin record 1"), "{}", ran.err);
}

#[test]
fn a_body_over_max_job_size_exits_65_unsent() {
    on_both(|address| {
        let big = vec![b'x'; 65_536];
        let ran = bsctl_with(address, &["put", "-o", "json"], &big).exits(65);
        assert!(ran.error()["message"].as_str().unwrap().contains("65535"), "{}", ran.err);
        let fits = &big[..65_535];
        bsctl_with(address, &["put"], fits).exits(0);
        assert_eq!(client(address).stats().unwrap().total_jobs, 1);
    });
}

#[test]
fn counts_bad_records_and_puts_the_rest() {
    let server = Server::start().unwrap();
    let records = b"{\"body\":\"a\"}\n{oops\n{\"body\":\"b\"}\n";
    let ran = bsctl_with(server.address(), &["put", "--ndjson"], records).exits(3);
    assert_eq!(ran.lines(), ["1", "2"]);
    assert!(ran.err.contains("stdin record 2"), "{}", ran.err);
    let stop = ["put", "--ndjson", "--on-error", "stop", "--batch", "1"];
    let ran = bsctl_with(server.address(), &stop, records).exits(3);
    assert_eq!(ran.lines().len(), 1);
    // Over several connections, with a refusal among them.
    server.faults().add(Fault::nth(7).of("put").reply("OUT_OF_MEMORY"));
    let records = "{\"body\":\"a\"}\n".repeat(20) + "{oops\n";
    let line = ["put", "--ndjson", "-j", "3", "--batch", "2"];
    let ran = bsctl_with(server.address(), &line, records.as_bytes()).exits(3);
    assert_eq!(ran.lines().len(), 19);
    assert!(ran.err.contains("2 failed"), "{}", ran.err);
}

#[test]
fn a_refused_put_is_partial_among_others_and_keeps_its_code_alone() {
    let server = Server::start().unwrap();
    let line = ["put", "-t", "default", "a", "b", "c"];
    server.faults().add(Fault::nth(2).of("put").reply("OUT_OF_MEMORY"));
    let ran = bsctl(server.address(), &[&line[..], &["-o", "json"]].concat()).exits(3);
    assert_eq!(ran.json().as_array().unwrap().len(), 2);
    server.faults().add(Fault::nth(2).of("put").reply("DRAINING"));
    let ran = bsctl(server.address(), &line).exits(3);
    assert!(ran.err.contains("warning: body 2: DRAINING: "), "{}", ran.err);
    server.faults().add(Fault::nth(1).of("put").reply("OUT_OF_MEMORY"));
    let error = bsctl(server.address(), &["put", "a", "-o", "json"]).exits(75).error_alone();
    assert_eq!(error["code"], "OUT_OF_MEMORY");
    server.faults().add(Fault::nth(1).of("put").reply("BURIED 7"));
    let ran = bsctl(server.address(), &["put", "a"]).exits(75);
    assert_eq!(ran.out(), "7\n");
    assert!(ran.err.contains("warning: "), "{}", ran.err);
    server.faults().add(Fault::always().of("put").reset_after(0));
    let ran = bsctl(server.address(), &["put", "x"]);
    assert!(ran.code != Some(0) && !ran.err.contains("before that"), "told once: {}", ran.err);
}

#[test]
fn a_dry_run_reports_in_a_pipe() {
    let dead = dead_address();
    let ran = bsctl(&dead, &["put", "-n", "-t", "t", "x"]).exits(0);
    assert_eq!(ran.out(), "would put 1 job into tube t\n");
    let ran = bsctl_with(&dead, &["put", "--lines", "-n"], b"a\nb\n").exits(0);
    assert_eq!(ran.out(), "would put 2 jobs into tube default\n");
}

#[test]
fn puts_each_line_as_it_arrives() {
    use std::io::{BufRead, BufReader, Write};
    let server = Server::start().unwrap();
    let line = ["-a", server.address(), "put", "--lines"];
    let mut child = command(&line).stdin(std::process::Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut ids = BufReader::new(child.stdout.take().unwrap()).lines();
    for n in 1..=3 {
        writeln!(stdin, "line {n}").unwrap();
        // Nothing more is written before the id has arrived.
        assert_eq!(ids.next().unwrap().unwrap(), n.to_string());
    }
    drop(stdin);
    assert!(child.wait().unwrap().success());
}

#[test]
fn several_connections_put_each_record_once() {
    on_both(|address| {
        let lines: String = (0..2000).map(|n| format!("{n}\n")).collect();
        let line = ["put", "-t", "t", "--lines", "-j", "4", "--batch", "10"];
        let ran = bsctl_with(address, &line, lines.as_bytes()).exits(0);
        let mut ids: Vec<u64> = ran.lines().iter().map(|id| id.parse().unwrap()).collect();
        ids.sort_unstable();
        assert!(ids.iter().copied().eq(1..=2000));
        let mut found: Vec<u32> = bodies(address, "t")
            .iter()
            .map(|body| std::str::from_utf8(body).unwrap().parse().unwrap())
            .collect();
        found.sort_unstable();
        assert!(found.iter().copied().eq(0..2000));
    });
    let line =
        ["--embedded", "put", "-t", "t", "x", "y", "--repeat", "50", "-j", "3", "--batch", "5"];
    assert_eq!(bare(&line).exits(0).lines().len(), 100);
    bsctl(&dead_address(), &["put", "x", "-j", "3"]).exits(69);
}

/// The statistics only save a round trip for a body that is too large.
#[test]
fn put_needs_no_statistics() {
    for fault in [
        Fault::always().of("stats").reply("UNKNOWN_COMMAND"),
        Fault::always().of("stats").reply_bytes("OK 12\r\n---\npid: 1\n\r\n"),
        Fault::always().of("stats").hang(),
    ] {
        late("1\n2\n", |limit| {
            let server = Server::start().unwrap();
            server.faults().add(fault.clone());
            let line = ["--timeout", limit, "put", "-t", "t", "--lines"];
            let ran = bsctl_with(server.address(), &line, b"a\nb\n");
            if ran.code == Some(0) {
                assert_eq!(bodies(server.address(), "t"), [b"a", b"b"]);
            }
            ran
        })
        .exits(0);
    }
    let server = Server::start().unwrap();
    server.faults().add(Fault::always().of("stats").reply("UNKNOWN_COMMAND"));
    let error = bsctl(server.address(), &["stats", "-o", "json"]).exits(76).error();
    assert_eq!(error["message"], "the server does not know the command stats");
}

/// In the last line, and under JSON as numbers: a retry has to know where to begin.
#[test]
fn counts_puts_by_fate_after_a_broken_connection() {
    for (line, text, total) in [
        (&["put", "-t", "t", "x", "--repeat", "500", "-o", "json"][..], "", Some(500)),
        (&["put", "-t", "t", "--lines", "-o", "json"], "x\n", None),
        (&["put", "-t", "t", "--lines", "-j", "2", "-o", "json"], "x\n", None),
        (&["import", "-o", "json"], "{\"tube\":\"t\",\"body\":\"x\"}\n", None),
    ] {
        let server = Server::start().unwrap();
        server.faults().add(Fault::nth(50).of("put").cut_after(0));
        let text = text.repeat(500);
        let error = bsctl_with(server.address(), line, text.as_bytes()).exits(4).error();
        let count = |name: &str| error["counts"][name].as_u64().unwrap();
        let [put, unknown, not_sent] = ["succeeded", "unknown", "not_sent"].map(count);
        assert_eq!(count("failed"), 0, "{line:?} {error}");
        let there = server.view().ready as u64;
        assert!((put..=put + unknown).contains(&there), "{line:?} {there} {error}");
        assert!(unknown > 0 && put + unknown + not_sent <= 500, "{error}");
        assert!(total.is_none_or(|total| put + unknown + not_sent == total), "{error}");
        let said = format!("{unknown} of unknown fate");
        assert!(error["message"].as_str().unwrap().contains(&said), "{error}");
    }
}

/// All puts of a batch are sent at once, also those behind a refused `use`.
#[test]
fn a_failed_use_leaves_no_job_in_the_wrong_tube() {
    for line in [&["put", "--ndjson"][..], &["import"]] {
        let server = Server::start().unwrap();
        server.faults().add(Fault::nth(2).of("use").reply("OUT_OF_MEMORY"));
        let records: String = ["a", "b", "b", "c"]
            .map(|tube| format!("{{\"tube\":\"{tube}\",\"body\":\"for {tube}\"}}\n"))
            .concat();
        let ran = bsctl_with(server.address(), line, records.as_bytes()).exits(3);
        // The second job for b shares the fate of the first one, unless it came too late to be sent with it.
        let there = places(server.address());
        let fitting = ["for a a ready", "for b b ready", "for c c ready"];
        assert!(there.iter().all(|job| fitting.contains(&job.as_str())), "{line:?} {there:?}");
        assert!([fitting[0], fitting[2]].iter().all(|job| there.iter().any(|at| at == job)));
        let refused = ran.err.matches("OUT_OF_MEMORY").count();
        assert!(refused > 0 && refused + there.len() == 4, "{line:?} {there:?}: {}", ran.err);
    }
}

#[test]
fn populate_fills_a_tube() {
    on_both(|address| {
        put(address, "a", "mine");
        let line = ["populate", "-t", "a", "-c", "30", "--size", "10..2k", "-j", "2"];
        let ran = bsctl(address, &line).exits(0);
        assert!(ran.err.contains("its jobs stay in tube a"), "{}", ran.err);
        let count = |filter: &str| {
            let line = ["jobs", "-t", "a", "--filter", filter, "-o", "name"];
            bsctl(address, &line).exits(0).lines().len()
        };
        assert_eq!((count("size<=2048"), count("size<10"), count("size>2k")), (31, 1, 0));
        let said = bsctl(address, &["populate", "-t", "a"]).exits(2).err;
        assert!(said.contains("--count"), "{said}");
    });
}
