//! `drain`, `export` and `import`.

use std::{sync::LazyLock, thread, time::Duration};

use adf_queue_client::{QueueName, blocking::Client};
use fixtures::adf_queue::Server;
use fixtures::fault::Fault;
use serde_json::{Value, json};

use crate::harness::*;

const PATIENCE: Duration = Duration::from_secs(60);

fn records(bytes: &[u8]) -> Vec<Value> {
    let text = std::str::from_utf8(bytes).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn of(records: &[Value], key: &str) -> Vec<Value> {
    records.iter().map(|record| record[key].clone()).collect()
}

/// The schema published for programs.
static SCHEMA: LazyLock<jsonschema::Validator> = LazyLock::new(|| {
    let text = include_str!("../../../docs/message-record.schema.json");
    jsonschema::validator_for(&serde_json::from_str(text).unwrap()).unwrap()
});

#[test]
fn the_record_schema_matches_import() {
    let server = Server::start().unwrap();
    for (line, is_record) in [
        (r#"{"body":"x"}"#, true),
        (r#"{"v":1,"messageid":7,"queue":"/q","body_hex":"78","more":[]}"#, true),
        (r#"{"v":2,"body":"x"}"#, false),
        (r#"{"v":1}"#, false),
        (r#"{"body":"x","body_base64":"eA=="}"#, false),
        (r#"{"body_base64":"x"}"#, false),
        (r#"{"body_hex":"7"}"#, false),
        (r#"{"body":"x","queue":""}"#, false),
    ] {
        assert_eq!(SCHEMA.is_valid(&serde_json::from_str(line).unwrap()), is_record, "{line}");
        let import = ["import", "-Q", "/q", "--create"];
        let imported = adfctl_with(server.address(), &import, line.as_bytes());
        assert_eq!(imported.code == Some(0), is_record, "{line}: {}", imported.err);
    }
}

#[test]
fn export_keeps_messages_and_adds_one_delivery() {
    on_both(|site| {
        let (address, queue) = (site.address(), filled(site, "stays", &["a", "b", "c", "d"]));
        let ran = adfctl(address, &["export", &queue.name, "-c", "3", "-o", "json"]).exits(0);
        assert_eq!(of(ran.json().as_array().unwrap(), "body"), ["a", "b", "c"]);
        let drained = adfctl(address, &["drain", &queue.name, "--yes"]).exits(0).objects();
        assert_eq!(of(&drained, "body"), ["a", "b", "c", "d"]);
        assert_eq!(of(&drained, "duplications"), [2, 2, 2, 1]);
        assert_eq!(of(&drained, "queue"), [&*queue.name; 4]);
        assert_eq!(ready(address, &queue.name), 0);
    });
}

#[test]
fn exports_every_queue_by_default() {
    let server = Server::builder().queue("/a").queue("/b").queue("/c").start().unwrap();
    adfctl(server.address(), &["push", "/a", "x"]).exits(0);
    adfctl(server.address(), &["push", "/c", "y", "z"]).exits(0);
    let exported = records(&adfctl(server.address(), &["export"]).exits(0).bytes);
    assert_eq!(of(&exported, "queue"), ["/a", "/c", "/c"]);
    assert_eq!(server.view().ready, 3);
}

/// Clients that started to wait while an export held everything get the first messages.
#[cfg(unix)]
#[test]
fn waiting_clients_get_the_first_messages_after_export() {
    on_both(|site| {
        let (address, queue) = (site.address(), site.queue("waits"));
        let bodies = ["0", "1", "2", "3", "4", "5", "6", "7"];
        adfctl(address, &[&["push", &queue.name], &bodies[..]].concat()).exits(0);
        // Its record does not fit in any pipe.
        adfctl_with(address, &["push", &queue.name], &[0; 65_535]).exits(0);
        let mut export = PROGRAM.command(&["--server", address, "export", &queue.name]);
        let export = export.spawn().unwrap();
        let wait = |what: &str| {
            adfctl(address, &["wait", "--for", what, &queue.name, "--interval", "10ms"]).exits(0)
        };
        // Stdout is not read, so it holds all of them.
        wait("pulled>=9");
        // `pop` asks for what is ready twice a second, so it could get one of those that return before the first ones.
        let pulls = [(); 2].map(|()| {
            let mut client = Client::connect(address).unwrap();
            let name: QueueName = queue.name.parse().unwrap();
            thread::spawn(move || {
                let message = client.pull(name).unwrap();
                client.delete(&message).unwrap();
                message.into_body()
            })
        });
        wait("waiting>=2");
        let exported = ctl_contract::program::ended(export).exits(0);
        assert_eq!(exported.objects().len(), 9);
        let mut got = pulls.map(|pull| pull.join().unwrap());
        got.sort();
        assert_eq!(got, ["0", "1"]);
        let left = adfctl(address, &["drain", &queue.name, "--yes"]).exits(0);
        let left = of(&left.objects(), "body");
        assert_eq!(left[..6], ["2", "3", "4", "5", "6", "7"]);
        assert_eq!(left.len(), 7);
    });
}

#[test]
fn export_over_http_is_refused_in_favour_of_drain() {
    on_both(|site| {
        let queue = filled(site, "http", &["a"]);
        let ran = adfctl(&site.http(), &["export", &queue.name]).exits(2);
        assert!(ran.err.contains("order") && ran.err.contains("adfctl drain"), "{}", ran.err);
        let drained = adfctl(&site.http(), &["drain", &queue.name, "--yes"]).exits(0);
        assert_eq!(of(&drained.objects(), "body"), ["a"]);
        assert_eq!(ready(site.address(), &queue.name), 0);
    });
}

#[test]
fn messages_json_cannot_carry_fail_and_stay() {
    on_both(|site| {
        let (address, queue) = (site.address(), filled(site, "json", &["a"]));
        adfctl_with(address, &["push", &queue.name], b"\xff").exits(0);
        adfctl(address, &["push", &queue.name, "b"]).exits(0);
        let addresses = [format!("adf+json://{address}"), format!("http+json://{address}")];
        let ran = adfctl(&addresses[0], &["export", &queue.name]).exits(3);
        assert_eq!(of(&ran.objects(), "body"), ["a", "b"]);
        assert!(ran.err.contains("message 2 of") && ran.err.contains("U+FFFD"), "{}", ran.err);
        assert_eq!(ready(address, &queue.name), 3);
        for json in &addresses {
            let ran = adfctl(json, &["drain", &queue.name, "--yes", "-c", "2"]);
            assert!(ran.err.contains("U+FFFD"), "{}", ran.err);
        }
        let rest = adfctl(address, &["pop", &queue.name, "-c", "9", "-o", "raw"]).exits(0);
        assert_eq!(rest.bytes, b"\xff");
    });
}

#[test]
fn drain_asks_and_writes_a_new_file() {
    on_both(|site| {
        let (address, queue) = (site.address(), filled(site, "file", &["a", "b", "c"]));
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("out.ndjson");
        let file = file.to_str().unwrap();
        let dry = ["drain", &queue.name, "-n", "-c", "2", "--to", file, "-o", "json"];
        assert_eq!(adfctl(address, &dry).exits(0).json(), json!({"dry_run": true, "messages": 2}));
        let ran = adfctl(address, &["drain", &queue.name, "--to", file]).exits(2);
        assert!(ran.err.contains("--yes") && ran.err.contains("3 messages"), "{}", ran.err);
        assert_eq!(ready(address, &queue.name), 3);
        let line = ["drain", &queue.name, "--to", file, "--yes", "-c", "2", "-o", "json"];
        assert_eq!(adfctl(address, &line).exits(0).json()["succeeded"], 2);
        assert_eq!(of(&records(&std::fs::read(file).unwrap()), "body"), ["a", "b"]);
        let line = ["drain", &queue.name, "--to", file, "--yes"];
        let ran = adfctl(address, &line).exits(74);
        assert!(ran.err.contains("already exists"), "{}", ran.err);
        assert_eq!(ready(address, &queue.name), 1);
        let backup = format!("{file}.backup");
        adfctl(address, &["clear", &queue.name, "--backup", &backup, "--yes"]).exits(0);
        assert_eq!(of(&records(&std::fs::read(backup).unwrap()), "body"), ["c"]);
        assert_eq!(ready(address, &queue.name), 0);
    });
}

#[test]
fn drain_until_empty_takes_every_message() {
    let server = Server::builder().queue("/q").queue("/r").start().unwrap();
    adfctl(server.address(), &["push", "/q", "a", "b"]).exits(0);
    adfctl(server.address(), &["push", "/r", "c"]).exits(0);
    let line = ["drain", "/q", "/r", "--yes", "--until-empty", "--batch", "1"];
    let ran = adfctl(server.address(), &line).exits(0);
    assert_eq!(of(&ran.objects(), "body"), ["a", "b", "c"]);
    assert_eq!((server.view().ready, server.view().pulled), (0, 0));
    adfctl(server.address(), &["drain", "/q"]).exits(0);
    adfctl(server.address(), &["drain", "/none", "--yes"]).exits(1);
    adfctl(server.address(), &["drain"]).exits(2);
}

#[test]
fn unwritten_messages_are_not_deleted() {
    let Ok(full) = std::fs::OpenOptions::new().write(true).open("/dev/full") else { return };
    let drain = &["drain", "/q", "--yes"][..];
    let pop = &["pop", "/q", "-c", "3", "-o", "raw"][..];
    for (scheme, line) in [("", drain), ("http://", drain), ("", &["export", "/q"]), ("", pop)] {
        let server = Server::builder().queue("/q").start().unwrap();
        adfctl(server.address(), &["push", "/q", "a", "b", "c"]).exits(0);
        let address = format!("{scheme}{}", server.address());
        let mut command = PROGRAM.command(&[&["--server", &address], line].concat());
        let child = command.stdout(full.try_clone().unwrap()).spawn().unwrap();
        ctl_contract::program::ended(child).exits(74);
        assert!(server.wait_for(PATIENCE, |view| view.ready == 3), "{address} {line:?}");
        let bodies: Vec<_> = server.messages("/q").iter().map(|m| m.body.clone()).collect();
        assert_eq!(bodies, [b"a", b"b", b"c"], "{address} {line:?}");
    }
}

#[test]
fn names_bad_records_and_imports_the_rest() {
    let server = Server::builder().queue("/q").start().unwrap();
    let text = br#"{"queue":"/q","body":"a"}
{"body":"b"}
{"queue":"/none","body":"c"}

{"v":1,"queue":"/q","messageid":7,"duplications":3,"body_base64":"/w=="}
"#;
    let ran = adfctl_with(server.address(), &["import", "-o", "json"], text).exits(3);
    let failures = ran.json()["failures"].clone();
    assert_eq!(failures[0]["item"], "stdin record 2");
    assert!(failures[0]["message"].as_str().unwrap().contains("without `queue`"), "{failures}");
    assert_eq!(
        (&failures[1]["item"], &failures[1]["code"]),
        (&json!("stdin record 3"), &json!("QUEUE_NOT_FOUND"))
    );
    let bodies: Vec<_> = server.messages("/q").iter().map(|m| m.body.clone()).collect();
    assert_eq!(bodies, [&b"a"[..], b"\xff"]);
    let ran = adfctl_with(server.address(), &["import", "--on-error", "stop"], text).exits(3);
    assert_eq!(server.view().ready, 3, "{}", ran.err);
    let line = ["import", "-n", "-c", "1", "-o", "json"];
    let ran = adfctl_with(server.address(), &line, text).exits(0);
    assert_eq!(ran.json(), json!({"dry_run": true, "messages": 1}));
    adfctl(server.address(), &["import", "/no/such/file"]).exits(66);
}

#[test]
fn import_keeps_order_and_bytes() {
    on_both(|site| {
        let queue = site.queue("ordered");
        let records = br#"{"body":"a"}
{"body_base64":"/wA="}
{"body":"c"}
"#;
        adfctl_with(site.address(), &["import", "-Q", &queue.name], records).exits(0);
        let popped =
            adfctl(site.address(), &["pop", &queue.name, "-c", "3", "-o", "json"]).exits(0);
        let popped = popped.json();
        let bodies =
            popped.as_array().unwrap().iter().map(|one| one.get("body").or(one.get("body_base64")));
        let bodies: Vec<_> = bodies.map(Option::unwrap).collect();
        assert_eq!(bodies, ["a", "/wA=", "c"]);
    });
}

#[test]
fn import_creates_queues_on_request() {
    on_both(|site| {
        let (one, two) = (site.no_queue("made-a"), site.no_queue("made-b"));
        let line = |queue: &Queue| format!("{{\"queue\":\"{}\",\"body\":\"x\"}}\n", queue.name);
        let text = [line(&one), line(&two), line(&one)].concat();
        adfctl_with(site.address(), &["import", "--create"], text.as_bytes()).exits(0);
        assert_eq!((ready(site.address(), &one.name), ready(site.address(), &two.name)), (2, 1));
    });
}

#[test]
fn a_broken_connection_ends_import_with_a_report() {
    let server = Server::builder().queue("/q").start().unwrap();
    server.faults().add(Fault::nth(50).of("rpush").reset_after(0));
    let text = "{\"queue\":\"/q\",\"body\":\"x\"}\n".repeat(500);
    let line = ["import", "--batch", "10"];
    let ran = adfctl_with(server.address(), &line, text.as_bytes()).exits(4);
    let last = ran.err.lines().find(|line| line.starts_with("error: ")).unwrap();
    assert!(last.contains("; before that: imported 4") && last.contains("of unknown"), "{last}");
    assert!(server.view().ready <= 60, "{:?}", server.view());
}

/// In the last line, and under JSON as numbers: a retry has to know where to begin.
#[test]
fn counts_pushes_by_fate_after_a_broken_connection() {
    for (line, text, total) in [
        (&["push", "/q", "x", "--repeat", "500", "-o", "json"][..], "", Some(500)),
        (&["push", "/q", "--lines", "-o", "json"], "x\n", None),
        (&["import", "-o", "json"], "{\"queue\":\"/q\",\"body\":\"x\"}\n", None),
    ] {
        let server = Server::builder().queue("/q").start().unwrap();
        server.faults().add(Fault::nth(50).of("rpush").cut_after(0));
        let text = text.repeat(500);
        let error = adfctl_with(server.address(), line, text.as_bytes()).exits(4).error();
        let count = |name: &str| error["counts"][name].as_u64().unwrap();
        let [pushed, unknown, not_sent] = ["succeeded", "unknown", "not_sent"].map(count);
        assert_eq!((count("failed"), pushed), (0, 49), "{line:?} {error}");
        let there = server.view().ready as u64;
        assert!((pushed..=pushed + unknown).contains(&there), "{there} {error}");
        assert!(pushed + unknown + not_sent <= 500, "{error}");
        assert!(total.is_none_or(|total| pushed + unknown + not_sent == total), "{error}");
        assert_eq!(error["hints"][0], "adfctl queues /q, to see whether it is there");
        let said = format!("{unknown} of unknown fate");
        assert!(error["message"].as_str().unwrap().contains(&said), "{error}");
    }
    let dead = dead_address();
    let error = adfctl(&dead, &["push", "/q", "a", "b", "c", "-o", "json"]).exits(69).error_alone();
    assert_eq!((&error["counts"]["unknown"], &error["counts"]["not_sent"]), (&json!(0), &json!(3)));
}

#[cfg(unix)]
#[test]
fn a_signal_during_import_reports_progress() {
    use std::io::Write as _;
    let server = Server::builder().queue("/q").start().unwrap();
    let line = ["--server", server.address(), "import"];
    let mut command = PROGRAM.command(&line);
    let mut child = command.stdin(std::process::Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all("{\"queue\":\"/q\",\"body\":\"x\"}\n".repeat(3).as_bytes()).unwrap();
    // It waits for more.
    assert!(server.wait_for(PATIENCE, |view| view.ready == 3));
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let ran = ctl_contract::program::ended(child).exits(130);
    drop(stdin);
    assert!(
        ran.err.contains("interrupted") || ran.out().contains('3'),
        "{} {}",
        ran.out(),
        ran.err
    );
}

/// Of messages that do not match, only their pulls are kept.
#[cfg(target_os = "linux")]
#[test]
fn filtered_drain_memory_is_bounded() {
    let server = Server::start().unwrap();
    let address = server.address();
    let body = "x".repeat(60_000);
    adfctl(address, &["push", "/a", &body, "--repeat", "1000", "--create"]).exits(0);
    adfctl(address, &["push", "/a", "last"]).exits(0);
    let line = ["-s", address, "drain", "/a", "--filter", "size<100", "--yes"];
    let child = PROGRAM.command(&line).spawn().unwrap();
    // It has seen all of them, and waits for the reader of the last one.
    assert!(server.wait_for(PATIENCE, |view| view.ready == 0));
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let kilobytes: u64 = peak.trim().trim_end_matches("kB").trim().parse().unwrap();
    assert!(ctl_contract::program::ended(child).exits(0).out().contains("last"));
    assert!(kilobytes < 32 * 1024, "{kilobytes} kB");
    assert_eq!(server.view().ready, 1000);
}
