//! Every command in every format: nothing but results on stdout, nothing but one error object for a failure.

use std::collections::BTreeSet;

use bsctl::Bsctl;
use ctl_core::tool::cli::tree;
use fixtures::beanstalkd::Server;

use crate::harness::*;

const TRANSCRIPT: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../fixtures/wire/beanstalkd/use.txt");

/// A command line that succeeds on the server that [`prepared`] gives, for every command of the grammar.
pub(crate) const SUCCEEDS: &[(&str, &[&str])] = &[
    ("put", &["put", "-t", "mail", "x", "y"]),
    ("reserve", &["reserve", "-t", "mail"]),
    ("pop", &["pop", "-t", "mail"]),
    ("peek", &["peek", "1", "4"]),
    ("jobs", &["jobs", "--with-body"]),
    ("job", &["job", "1", "--with-body"]),
    ("tubes", &["tubes"]),
    ("stats", &["stats"]),
    ("stats-tube", &["stats-tube", "mail", "default"]),
    ("server", &["server"]),
    ("delete", &["delete", "1", "2"]),
    ("kick", &["kick", "-t", "mail", "--all"]),
    ("bury", &["bury", "1"]),
    ("release", &["release", "4"]),
    ("pause", &["pause", "mail", "5s"]),
    ("resume", &["resume", "mail"]),
    ("clear", &["clear", "mail", "--yes"]),
    ("drain", &["drain", "mail", "--yes"]),
    ("move", &["move", "--from", "mail", "--to", "sms", "--yes"]),
    ("copy", &["copy", "--from", "mail", "--to", "sms"]),
    ("requeue", &["requeue", "mail", "--yes"]),
    ("retry", &["retry", "mail"]),
    ("bury-all", &["bury-all", "mail", "--yes"]),
    ("populate", &["populate", "mail", "--count", "2"]),
    ("tail", &["tail", "mail", "--action", "release", "-c", "2", "-i", "1ms"]),
    ("work", &["work", "-t", "mail", "--exit-when-empty", "--exec", "true"]),
    ("export", &["export"]),
    ("import", &["import", "-"]),
    ("smoke", &["smoke"]),
    ("top", &["top", "--once"]),
    ("check server", &["check", "server"]),
    ("check tube", &["check", "tube", "mail", "--zero-workers", "ok"]),
    ("check tubes", &["check", "tubes", "*", "--zero-workers", "ok"]),
    ("check job", &["check", "job", "1"]),
    ("check roundtrip", &["check", "roundtrip"]),
    ("wait", &["wait", "--for", "ready>=1", "-t", "mail"]),
    ("ping", &["ping", "--count", "2", "--interval", "1ms"]),
    ("watch", &["watch", "-c", "2", "-i", "1ms", "--", "stats-tube", "mail"]),
    ("repl", &["repl", "-e", "stats-tube mail"]),
    ("raw", &["raw", "stats-tube mail"]),
    ("bench", &["bench", "--msgs", "5"]),
    ("top", &["top", "--once"]),
    ("exporter", &["exporter", "--once"]),
    ("tap", &["tap", "--dry-run", "--replay", TRANSCRIPT]),
    ("latency", &["latency", "--every", "100ms", "-i", "1ms", "-c", "1"]),
    ("serve", &["serve", "--print-addr", "--", "true"]),
    ("context add", &["context", "add", "new", "-n"]),
    ("context ls", &["context", "ls"]),
    ("context show", &["context", "show"]),
    ("context unselect", &["context", "unselect", "-n"]),
    ("context validate", &["context", "validate"]),
    ("config path", &["config", "path"]),
    ("config set", &["config", "set", "retry", "1", "-n"]),
    ("config show", &["config", "show"]),
    ("doctor", &["doctor"]),
    ("completions", &["completions", "bash"]),
    ("man", &["man"]),
    ("docs", &["docs"]),
];

/// Commands that cannot succeed outside of a session.
const NEVER_SUCCEEDS: &[(&str, &[&str])] = &[
    ("touch", &["touch", "1"]),
    ("web", &["web", "--listen", "127.0.0.1:x"]),
    ("context copy", &["context", "copy", "none", "new"]),
    ("context edit", &["context", "edit", "none"]),
    ("context previous", &["context", "previous"]),
    ("context rm", &["context", "rm", "none"]),
    ("context select", &["context", "select", "none"]),
    ("config edit", &["config", "edit", "-n"]),
    ("config unset", &["config", "unset", "retry"]),
];

/// Commands that need no server, or whose result it is that none answers.
const OFFLINE: &[&str] = &["touch", "tap", "web", "serve", "doctor", "completions", "man", "docs"];

/// Whether a command asks no server.
pub(crate) fn is_offline(name: &str) -> bool {
    let about_settings = ["context ", "config "].iter().any(|start| name.starts_with(start));
    about_settings || OFFLINE.contains(&name)
}

/// Ready jobs 1 and 2, a delayed one 3, a buried one 4, all in the tube mail; bodies of every kind.
fn prepared() -> Server {
    let server = Server::start().unwrap();
    let address = server.address();
    put(address, "mail", "hello\tworld\n");
    put(address, "mail", b"\xff\x00");
    put_delayed(address, "mail", "");
    put_buried(address, "mail", "{\"a\":1}");
    server
}

/// The commands of the grammar, subcommands as `check tube`.
fn commands() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for command in tree::<Bsctl>().get_subcommands() {
        let inner: Vec<_> = command.get_subcommands().filter(|c| c.get_name() != "help").collect();
        if inner.is_empty() {
            names.insert(command.get_name().to_owned());
        }
        for sub in inner {
            names.insert(format!("{} {}", command.get_name(), sub.get_name()));
        }
    }
    names.remove("help");
    // What shells ask.
    names.remove("complete");
    names
}

#[test]
fn every_command_has_a_sample_here() {
    let samples: BTreeSet<String> =
        SUCCEEDS.iter().chain(NEVER_SUCCEEDS).map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(samples, commands());
}

fn run_sample(format: &str, name: &str, arguments: &[&str]) -> Ran {
    let server = prepared();
    let record = br#"{"v":1,"tube":"imported","state":"ready","pri":1,"body":"x"}"#;
    let stdin: &[u8] = if name == "import" { record } else { b"" };
    let line = [&["-o", format], arguments].concat();
    bsctl_with(server.address(), &line, stdin)
}

#[test]
fn json_is_one_document_for_every_command_and_stderr_has_none() {
    for (name, arguments) in SUCCEEDS {
        let ran = run_sample("json", name, arguments).exits(0);
        ran.json();
        let has_json = |line: &str| serde_json::from_str::<serde_json::Value>(line).is_ok();
        assert!(!ran.err.lines().any(has_json), "{name}: {}", ran.err);
    }
}

#[test]
fn ndjson_is_one_document_per_line_for_every_command() {
    for (name, arguments) in SUCCEEDS {
        // A check is one verdict, whose document is written for people and programs alike.
        let ran = run_sample("ndjson", name, arguments).exits(0);
        if name.starts_with("check") {
            ran.json();
            continue;
        }
        for line in ran.lines() {
            assert!(
                serde_json::from_str::<serde_json::Value>(line).is_ok(),
                "{name}: {line:?} is not JSON"
            );
        }
    }
}

#[test]
fn yaml_is_what_json_is() {
    for (name, arguments) in SUCCEEDS {
        // Checks have formats of their own; a session prints one document per line of its script.
        if name.starts_with("check") {
            continue;
        }
        let yaml = run_sample("yaml", name, arguments).exits(0);
        let value: Result<serde_json::Value, _> = serde_yaml::from_slice(&yaml.bytes);
        assert!(value.is_ok(), "{name}: {:?} {value:?}", yaml.out());
    }
}

#[test]
fn tables_and_plain_lines_work_for_every_command() {
    for format in ["table", "wide", "plain", "name"] {
        for (name, arguments) in SUCCEEDS {
            // Records of jobs have to be read back.
            if ["drain", "export"].contains(name) {
                continue;
            }
            let ran = run_sample(format, name, arguments).exits(0);
            assert!(!ran.bytes.contains(&0x1b), "{name} {format}");
        }
    }
}

#[test]
fn nothing_listens_is_69_with_one_error_object() {
    let dead = dead_address();
    for (name, arguments) in SUCCEEDS {
        if is_offline(name) || *name == "repl" {
            continue;
        }
        let line =
            [&["-o", "json", "--connect-timeout", "5s", "--timeout", "1s"], *arguments].concat();
        let ran = bsctl(&dead, &line);
        if name.starts_with("check") {
            let verdict = ran.exits(2).json();
            assert_eq!(verdict["status"], "CRITICAL", "{name}");
            continue;
        }
        let ran = ran.exits(69);
        assert_eq!(ran.bytes, b"", "{name}");
        assert_eq!(ran.error()["exit"], 69, "{name}");
        assert_eq!(ran.error()["code"], "UNAVAILABLE", "{name}");
    }
}

/// Nothing is asked, taken or changed for the sake of an output that cannot be: also without a server it is told.
#[test]
fn a_wrong_column_is_2_before_anything_is_sent() {
    let dead = dead_address();
    let mut told = BTreeSet::new();
    for (name, arguments) in SUCCEEDS {
        // What their columns are is known from the answer.
        if is_offline(name) || ["repl", "watch", "stats", "server"].contains(name) {
            continue;
        }
        let server = prepared();
        let line = [&["--columns", "no-such"][..], arguments].concat();
        let ran = bsctl_with(server.address(), &line, b"{\"body\":\"x\"}\n");
        if ran.err.contains("no-such") {
            let ran = bsctl_with(&dead, &line, b"{\"body\":\"x\"}\n").exits(2);
            assert!(ran.err.contains("no-such"), "{name}: {}", ran.err);
            told.insert(*name);
        }
    }
    let least =
        ["put", "reserve", "pop", "peek", "jobs", "job", "tubes", "drain", "export", "tail"];
    assert!(least.iter().all(|name| told.contains(name)), "{told:?}");
}

#[test]
fn a_wrong_flag_is_2_with_one_error_object() {
    for (name, arguments) in SUCCEEDS.iter().chain(NEVER_SUCCEEDS) {
        let ran = bare(&[&["-o", "json", "--no-such-flag"], *arguments].concat());
        if name.starts_with("check") {
            assert!(ran.exits(3).out().starts_with("BSCTL UNKNOWN - "), "{name}");
            continue;
        }
        let ran = ran.exits(2);
        assert_eq!(ran.bytes, b"", "{name}");
        assert_eq!(ran.error()["code"], "USAGE", "{name}");
    }
}

#[test]
fn touch_explains_itself() {
    let ran = bare(&["touch", "1", "-o", "json"]).exits(2);
    assert_eq!(ran.bytes, b"");
    let error = ran.error();
    assert!(error["message"].as_str().unwrap().contains("only the connection"), "{error}");
    assert!(error["hints"].to_string().contains("repl"), "{error}");
}

#[test]
fn every_command_names_its_protocol_command_in_its_help() {
    for command in tree::<Bsctl>().get_subcommands().filter(|command| !command.is_hide_set()) {
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        let name = command.get_name();
        let tool =
            ["watch", "repl", "serve", "context", "config", "doctor", "completions", "man", "help"];
        assert!(tool.contains(&name) || about.contains('('), "{name}: {about}");
        if name != "help" {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(!help.is_empty(), "{name} has no examples");
        }
    }
}

/// A job of Laravel, whose command is in PHP's serialization.
const LARAVEL: &str = r#"{"displayName":"App\\SendMail","job":"Illuminate\\Queue\\CallQueuedHandler@call","data":{"commandName":"App\\SendMail","command":"O:12:\"App\\SendMail\":2:{s:2:\"to\";s:3:\"joe\";s:5:\"queue\";s:4:\"mail\";}"}}"#;

/// Every command that shows bodies, and the body stays what it is.
#[test]
fn what_is_in_bodies_is_shown_beside_them() {
    on_both(|address| {
        let id = put(address, "mail", LARAVEL).to_string();
        put(address, "other", "plain");
        for filter in
            ["envelope.class~=SendMail", "envelope.arguments.to==joe", "envelope.queue=mail"]
        {
            let ran = bsctl(address, &["jobs", "--filter", filter, "-o", "id"]).exits(0);
            assert_eq!(ran.out().trim(), id, "{filter}");
        }
        let envelope = serde_json::json!({
            "format": "laravel", "class": "App\\SendMail", "queue": "mail", "arguments": {"to": "joe"},
        });
        for line in [
            &["peek", &id][..],
            &["jobs", "mail", "--with-body"],
            &["job", &id, "--with-body"],
            &["export", "mail"],
            &["reserve", "-t", "mail"],
            &["pop", "-t", "mail"],
        ] {
            let decoded = [line, &["-o", "ndjson", "--decode", "auto"]].concat();
            if line[0] != "pop" {
                let plain = bsctl(address, &[line, &["-o", "ndjson"]].concat()).exits(0);
                assert!(!plain.out().contains("envelope"), "{}", plain.out());
            }
            let record = bsctl(address, &decoded).exits(0).json();
            assert_eq!(
                (&record["envelope"], &record["body"]),
                (&envelope, &LARAVEL.into()),
                "{line:?}"
            );
        }
    });
}
