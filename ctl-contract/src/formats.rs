//! Every command in every format: stdout has only results, and a failure prints exactly one error object.

use std::any::Any;
use std::collections::BTreeSet;

use clap::error::ErrorKind;
use clap::{Command, FromArgMatches as _};
use ctl_core::context::Tool;
use ctl_core::context::command::Ready;
use ctl_core::repl::guest::Interactive;
use ctl_core::rules::preset;
use ctl_core::tool::cli::tree;
use serde_json::Value;

use crate::Case;
use crate::program::Ran;

/// A sample command line.
#[derive(Debug, Clone, Copy)]
pub struct Sample {
    /// The command; a nested one is preceded by its parent's name.
    pub command: &'static str,
    /// The whole line.
    pub line: &'static [&'static str],
    stdin: &'static str,
    asks: bool,
    has_shape: bool,
}

impl Sample {
    /// A line with an empty stdin.
    #[must_use]
    pub const fn of(command: &'static str, line: &'static [&'static str]) -> Self {
        Self { command, line, stdin: "", asks: true, has_shape: true }
    }

    /// The same line, which contacts no server.
    #[must_use]
    pub const fn offline(self) -> Self {
        Self { asks: false, ..self }
    }

    /// The same line with this stdin.
    #[must_use]
    pub const fn fed(self, stdin: &'static str) -> Self {
        Self { stdin, ..self }
    }

    /// The same line, whose columns depend on the server's reply.
    #[must_use]
    pub const fn without_shape(self) -> Self {
        Self { has_shape: false, ..self }
    }

    /// Whether it contacts no server, or succeeds when none answers.
    #[must_use]
    fn is_offline(&self) -> bool {
        let about_settings = self.command.starts_with("context ");
        !self.asks
            || about_settings
            || ["tap", "web", "serve", "doctor", "completions", "docs"].contains(&self.command)
    }

    /// Whether it has the exit codes and formats of a check.
    fn is_check(&self) -> bool {
        self.command.starts_with("check ")
    }
}

/// Lines that succeed with every tool.
const COMMON: &[Sample] = &[
    Sample::of("top", &["top", "-c", "1"]),
    Sample::of("ping", &["ping", "--count", "2", "--interval", "1ms"]),
    Sample::of("exporter", &["exporter", "-c", "1"]),
    Sample::of("bench", &["bench", "--count", "5"]),
    Sample::of("context add", &["context", "add", "new", "-n"]),
    Sample::of("context ls", &["context", "ls"]),
    Sample::of("context show", &["context", "show"]),
    Sample::of("context unselect", &["context", "unselect", "-n"]),
    Sample::of("doctor", &["doctor"]),
    Sample::of("completions", &["completions", "bash"]),
    Sample::of("docs", &["docs"]),
];

/// Lines of every tool's commands that cannot succeed in such a test.
const COMMON_FAILING: &[Sample] = &[
    Sample::of("tap", &["tap", "--listen", "127.0.0.1:x"]),
    Sample::of("web", &["web", "--listen", "127.0.0.1:x"]),
    Sample::of("serve", &["serve", "--listen", "127.0.0.1:x"]),
    Sample::of("context edit", &["context", "edit", "none"]),
    Sample::of("context rm", &["context", "rm", "none"]),
    Sample::of("context select", &["context", "select", "none"]),
];

/// Sample lines for the commands that a tool does not share with all others, or that need its own arguments.
#[derive(Debug, Clone, Copy)]
pub struct Samples {
    /// Lines that succeed against the server of `prepared`.
    pub succeeding: &'static [Sample],
    /// Lines of commands that cannot succeed in such a test.
    pub failing: &'static [Sample],
    /// Starts a server with the data that the lines need; also returns what has to stay alive.
    pub prepared: fn() -> (Box<dyn Any>, String),
}

impl Samples {
    /// Every line that succeeds against the server of `prepared`.
    pub fn succeed(&self) -> impl Iterator<Item = &'static Sample> + use<> {
        self.succeeding.iter().chain(COMMON)
    }

    /// A line for every command.
    fn all(&self) -> impl Iterator<Item = &'static Sample> + use<> {
        self.succeed().chain(self.failing).chain(COMMON_FAILING)
    }

    /// The lines of commands that ask a server and end by themselves.
    #[must_use]
    pub fn bounded(&self) -> Vec<&'static [&'static str]> {
        // A worker runs until it is stopped.
        let ends = |sample: &&Sample| !sample.is_offline() && sample.command != "work";
        self.succeed().filter(ends).map(|sample| sample.line).collect()
    }

    fn run<T: Tool>(&self, case: &Case<T>, format: &str, sample: &Sample) -> Ran {
        let (_server, address) = (self.prepared)();
        let line = [&["-o", format], sample.line].concat();
        case.program.fed(&address, &line, sample.stdin.as_bytes())
    }
}

fn commands(tree: &Command) -> BTreeSet<String> {
    // `complete` is called by shells, not by people.
    let is_command = |command: &&Command| {
        !["help", "complete"].contains(&command.get_name()) && !preset::is_short(command)
    };
    let mut names = BTreeSet::new();
    for command in tree.get_subcommands().filter(is_command) {
        let name = command.get_name();
        let inner: Vec<_> = command.get_subcommands().filter(is_command).collect();
        if inner.is_empty() {
            names.insert(name.to_owned());
        }
        names.extend(inner.iter().map(|sub| format!("{name} {}", sub.get_name())));
    }
    names
}

/// Every command has a sample.
pub fn every_command_has_a_sample<T: Interactive>(case: &Case<T>) {
    let samples = case.samples.all().map(|sample| sample.command.to_owned());
    let samples: BTreeSet<String> = samples.collect();
    assert_eq!(samples, commands(&tree::<T>()));
}

/// The fields of commands that all tools have, under a tool's own word if need be.
const FIELDS: &[(&str, &[&str])] = &[
    ("ping", &["server", "n", "duration_ms"]),
    ("top", &["ts", "servers", "queues"]),
    ("check", &["status", "exit", "summary", "metrics"]),
    ("wait", &["condition", "queue", "duration_ms", "polls"]),
    ("exporter", &["metric", "server", "value"]),
    ("doctor", &["status", "subject", "finding"]),
    ("bench", &["client", "ops", "errors", "duration_seconds", "ops_per_second"]),
    ("tubes", &["queue"]),
    ("functions", &["queue"]),
    ("queues", &["queue"]),
    ("context ls", &["name", "in_force", "selected", "protected"]),
    ("clear", &["action", "attempted", "succeeded", "failed", "skipped", "duration_ms"]),
    ("move", &["action", "attempted", "succeeded", "failed", "skipped", "duration_ms"]),
];

/// Fields of rows in a document of such a command.
const INNER: &[(&str, &str, &[&str])] = &[
    ("top", "servers", &["server", "up", "version"]),
    ("top", "queues", &["server", "queue", "problem"]),
    ("check", "metrics", &["name", "queue", "server", "value", "unit", "problem", "status"]),
];

/// Checks the fields of the first object, if the command is one that all tools have.
fn has_the_fields(sample: &Sample, document: &Value) {
    let has = |object: &Value, fields: &[&str]| {
        let Some(object) = object.get(0).or(Some(object)).filter(|first| first.is_object()) else {
            return;
        };
        let missing: Vec<_> = fields.iter().filter(|key| object.get(**key).is_none()).collect();
        assert!(missing.is_empty(), "{}: no {missing:?} in {object}", sample.command);
    };
    let is_of = |command: &str| {
        sample.command == command || sample.command.split(' ').next() == Some(command)
    };
    for (command, fields) in FIELDS.iter().filter(|(command, _)| is_of(command)) {
        has(document, fields);
        assert!(document.get("address").is_none(), "{command}: a server is called server");
    }
    for (_, list, fields) in INNER.iter().filter(|(command, ..)| is_of(command)) {
        has(&document[*list], fields);
    }
}

/// stderr has no JSON. Commands that all tools have call their fields the same.
pub fn json_is_one_document_for_every_command<T: Tool>(case: &Case<T>) {
    for sample in case.samples.succeed() {
        let ran = case.samples.run(case, "json", sample);
        assert_eq!(ran.code, Some(0), "{sample:?} {ran:?}");
        let document: Result<Value, _> = serde_json::from_slice(&ran.bytes);
        assert!(document.is_ok(), "{sample:?} {ran:?}");
        has_the_fields(sample, &document.unwrap());
        let has_json = |line: &str| serde_json::from_str::<Value>(line).is_ok();
        assert!(!ran.err.lines().any(has_json), "{sample:?} {}", ran.err);
    }
}

/// A check prints a single verdict.
pub fn ndjson_is_one_document_per_line_for_every_command<T: Tool>(case: &Case<T>) {
    for sample in case.samples.succeed() {
        let ran = case.samples.run(case, "ndjson", sample).exits(0);
        if sample.is_check() {
            ran.json();
            continue;
        }
        let is_json = |line: &&str| serde_json::from_str::<Value>(line).is_ok();
        assert!(ran.lines().iter().all(is_json), "{sample:?} {}", ran.out());
    }
}

/// Except for records, which must stay readable by `import`, and for names of what is deleted with its body. Plain
/// lines are what all other tests read.
pub fn tables_work_for_every_command<T: Tool>(case: &Case<T>) {
    for format in ["wide", "name"] {
        for sample in case.samples.succeed() {
            if ["drain", "export"].contains(&sample.command) {
                continue;
            }
            let ran = case.samples.run(case, format, sample);
            let leaves_out_bodies = format == "name" && sample.command == "pop";
            let code = if leaves_out_bodies { 2 } else { 0 };
            assert_eq!(ran.code, Some(code), "{format} {sample:?} {ran:?}");
            assert!(!ran.bytes.contains(&0x1b), "{format} {sample:?}");
        }
    }
}

/// What a command would change is shown, or `--dry-run` is refused: it is never ignored.
pub fn commands_with_effects_support_dry_run_or_refuse_it<T: Interactive>(case: &Case<T>) {
    let mut tree = tree::<T>();
    let mut is_tested = |sample: &&Sample| {
        let words = std::iter::once(&T::PROGRAM.name).chain(sample.line);
        let matches = tree.try_get_matches_from_mut(words).unwrap();
        let command = Ready::<T>::from_arg_matches(&matches).unwrap();
        let own = T::COMMANDS.iter().flat_map(|(_, rows)| *rows).map(|row| row.name);
        let changes = !command.effect().reads_only()
            && own.into_iter().any(|name| Some(name) == matches.subcommand_name());
        // The exporter changes nothing.
        changes && sample.command != "exporter" || sample.command == "check roundtrip"
    };
    let mut refused = 0;
    for sample in case.samples.succeed().filter(|sample| is_tested(sample)) {
        let (_server, address) = (case.samples.prepared)();
        let line = [&["-o", "json", "--dry-run"], sample.line].concat();
        let ran = case.program.fed(&address, &line, sample.stdin.as_bytes());
        let is_refused = format!("{}{}", ran.out(), ran.err).contains("does not support --dry-run");
        assert!(is_refused || ran.out().contains("\"dry_run\""), "{sample:?} {ran:?}");
        refused += usize::from(is_refused);
    }
    assert!(refused >= 3, "{refused}");
}

/// At once; for a check this is CRITICAL.
pub fn every_command_exits_69_on_a_dead_port<T: Tool>(case: &Case<T>) {
    let (_port, dead) = Case::<T>::dead_address();
    for sample in case.samples.succeed() {
        // A session connects only at its first line.
        if sample.is_offline() || sample.command == "repl" {
            continue;
        }
        let line = [&["-o", "json"], sample.line].concat();
        let ran = case.program.fed(&dead, &line, sample.stdin.as_bytes());
        if sample.is_check() {
            assert_eq!(ran.exits(2).json()["status"], "CRITICAL", "{sample:?}");
            continue;
        }
        assert_eq!(ran.code, Some(69), "{sample:?} {ran:?}");
        let error = ran.error_alone();
        assert_eq!((&error["exit"], &error["code"]), (&69.into(), &"UNAVAILABLE".into()));
    }
}

/// For a check this is UNKNOWN. The grammar refuses it; a command and a check show what becomes of that.
pub fn every_command_exits_2_on_an_unknown_flag<T: Tool>(case: &Case<T>) {
    let wrong = ["-o", "json", "--no-such-flag"];
    let mut tree = tree::<T>();
    for sample in case.samples.all() {
        let words = [T::PROGRAM.name].iter().chain(&wrong).chain(sample.line);
        let refused = tree.try_get_matches_from_mut(words).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::UnknownArgument, "{sample:?}");
    }
    let ran = case.program.bare(&[&wrong[..], &["check", "server"]].concat()).exits(3);
    assert!(ran.out().starts_with(&format!("{} UNKNOWN - ", case.program.prefix)), "{ran:?}");
    let ran = case.program.bare(&[&wrong[..], &[case.list]].concat()).exits(2);
    assert_eq!(ran.error_alone()["code"], "USAGE");
}

/// Nothing is requested, taken or changed if the output is impossible. The error comes even without a server.
pub fn rejects_an_unknown_column_before_sending<T: Tool>(case: &Case<T>) {
    let (_port, dead) = Case::<T>::dead_address();
    let mut told = 0;
    for sample in case.samples.succeed() {
        if sample.is_offline() || !sample.has_shape || sample.command == "repl" {
            continue;
        }
        let (_server, address) = (case.samples.prepared)();
        let line = [&["--columns", "no-such"], sample.line].concat();
        let ran = case.program.fed(&address, &line, sample.stdin.as_bytes());
        if ran.err.contains("no-such") {
            let ran = case.program.fed(&dead, &line, sample.stdin.as_bytes());
            assert!(ran.code == Some(2) && ran.err.contains("no-such"), "{sample:?}: {}", ran.err);
            told += 1;
        }
    }
    assert!(told >= 8, "{told}");
}
