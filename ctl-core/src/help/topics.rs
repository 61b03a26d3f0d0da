//! The topics of `help TOPIC`: everything that commands share.

use clap::Command;

use super::{examples, reflow_text, table, width};
use crate::program::Program;

/// A topic of the help: its name, what it is about, and its text.
type Topic = (&'static str, &'static str, fn(&Program) -> String);

const TOPICS: &[Topic] = &[
    ("options", "flags that every command takes", options),
    ("environment", "environment variables", |program| table(program.environment)),
    ("exit-codes", "how commands end", exit_codes),
    ("formats", "how results and bodies are shown", formats),
    ("comparisons", "KEY OP VALUE, in filters, thresholds, conditions and limits", comparisons),
    ("servers", "several servers at the same time", servers),
    ("workers", "how work runs commands: arguments, output and exit", workers),
];

/// The cheat sheets are a topic, too.
const EXAMPLES: (&str, &str) = ("examples", "cheat sheets of ready-to-copy command lines");

/// The topics of a tool, and what each is about.
pub(crate) fn all(program: &Program) -> impl Iterator<Item = (&'static str, &'static str)> {
    let shared = TOPICS.iter().map(|(name, about, _)| (*name, *about));
    shared.chain(program.topics.iter().map(|(name, about, _)| (*name, *about))).chain([EXAMPLES])
}

/// The text of a topic; `more` is a topic of `examples`.
pub(crate) fn text(
    program: &Program,
    topic: &str,
    more: Option<&str>,
    color: bool,
) -> Option<String> {
    if topic == EXAMPLES.0 {
        return examples::text(program, more, color);
    }
    let shared = TOPICS.iter().find(|(name, ..)| *name == topic);
    let shared = shared.map(|(_, _, text)| text(program));
    let own = || program.topics.iter().find(|(name, ..)| *name == topic);
    shared.or_else(|| own().map(|(_, _, text)| reflow_text(text, width())))
}

/// The topics with their texts, for the whole help and the man page; their sheets are listed only.
pub(super) fn everything(program: &Program) -> String {
    let topics = all(program).filter_map(|(name, _)| {
        let text = text(program, name, None, false)?;
        Some(format!("{}:\n{}\n", name.to_uppercase(), text.trim_end()))
    });
    topics.collect::<Vec<_>>().join("\n")
}

/// The flags that every command takes.
fn options(program: &Program) -> String {
    let tree = (program.tree)();
    let flags = tree.get_arguments().cloned().map(|flag| flag.hide_short_help(false));
    Command::new(program.name)
        .args(flags)
        .disable_help_flag(true)
        .term_width(width())
        .help_template("{options}")
        .render_help()
        .to_string()
        + "\n"
}

fn exit_codes(program: &Program) -> String {
    let codes = program.exit_codes().into_iter();
    table(&codes.map(|(code, meaning)| (format!("{code:>3}"), meaning)).collect::<Vec<_>>())
}

fn formats(program: &Program) -> String {
    let name = program.name;
    let rows = [
        ("table", "aligned columns; the default on a terminal"),
        ("wide", "a table of all columns"),
        ("plain", "tab-separated values without a header; the default in a pipe"),
        ("json", "one document"),
        ("ndjson", "one object per line, as results arrive"),
        ("yaml", "one document"),
        ("csv", "a header, then a line for each row"),
        ("name", "only the id or the name of each row"),
        ("raw", "only bodies, unchanged"),
    ];
    let text = format!(
        "`-o FMT` chooses one, `--columns A,B` the columns. Results go to stdout, everything else to stderr; with \
         json and ndjson an error is an object there, too. A body that is not UTF-8 is `body_base64` in json, \
         ndjson and yaml.\n\
         `--decode FMT` decodes bodies; auto detects their format.\n\n\
         Examples:\n  {name} top -o json\n  {name} ping -o ndjson"
    );
    format!("{}\n{}", table(&rows), reflow_text(&text, width()))
}

fn comparisons(program: &Program) -> String {
    let name = program.name;
    let rows = [
        ("== != < <= > >=", "numbers, times (90s, 1h30m) and sizes (64k); == and != also text"),
        ("~= !~", "text: a regular expression does or does not match"),
        ("=", "as ==; in a threshold a range, see below"),
    ];
    let text = format!(
        "Filters of jobs and lines, thresholds of `check`, conditions of `wait` and limits of `bench` compare a \
         key with a value; the help of a command names the keys. Spaces around both are ignored, text in double \
         quotes takes JSON escapes, and in a key a backslash makes the next character literal. Quote the whole \
         expression for a shell.\n\
         METRIC=RANGE is a threshold with the range of good values, as in monitoring plugins: 10 is 0 to 10, 10: \
         from 10, ~:10 up to 10, 10:20 between, and @10:20 outside.\n\n\
         Examples:\n  {name} check server -w 'rtt>50ms' -c rtt=200\n  {name} bench --fail-if 'p99>5ms'"
    );
    format!("{}\n{}", table(&rows), reflow_text(&text, width()))
}

fn workers(program: &Program) -> String {
    let (name, prefix) = (program.name, program.prefix);
    let text = format!(
        "{name} work runs the words after -- (or --exec) without a shell; --shell runs a line with one. \
         Placeholders such as {{id}} and {{file}} are replaced in words, but not in a shell line, because the \
         shell would execute their values: use the variables {prefix}_... there, and \"$1\" for the file or the \
         body. The body is part of a command line only with --arg, where other users can see it; one that cannot \
         be an argument (a NUL byte, over 128 KiB) fails for good.\n\
         The output of commands goes to stdout, the summary to stderr; with -o json, ndjson or yaml, stdout has \
         only the summary or, with ndjson, a record for each of them, and the output goes to stderr. Each failure \
         is reported on one line of stderr. Processes that a command leaves running with its output open are \
         killed 2 s after it ends, and named; those in another session continue, but their output is no longer \
         read.\n\
         On SIGTERM, SIGINT or SIGHUP, running commands may finish within --grace; a second SIGTERM or SIGINT, or \
         the end of that time, kills them and everything they started, and gives their jobs back. Under nohup, \
         SIGHUP is ignored.\n\
         When a job is lost, with its connection or at the end of its time, or the worker itself is killed, \
         commands are killed with everything they started. When the system runs out of file descriptors, \
         processes, threads or memory, the worker waits until some are free.\n\
         The worker exits with 0 if a command succeeded or none ran, with 1 if commands failed and none \
         succeeded, and after a signal with the code of that signal. With --max-idle 0, an unreachable server \
         makes it 69.\n\
         A job that failed for good goes to --dead-letter QUEUE, and is deleted once the copy is confirmed, or as \
         a record into --failed-to FILE, and is deleted once the record is synced; {name} import FILE queues it \
         again. If that fails, it stays on the server.\n\
         --metrics ADDR serves numbers of jobs and commands, and /healthz, which fails once a job is held for a \
         minute without its command running. systemd is notified once the first connection is up (Type=notify), \
         regularly under the same condition (WatchdogSec=), and when the worker stops.\n\n\
         Examples:\n  {name} help work\n  {name} help examples work"
    );
    reflow_text(&text, width())
}

fn servers(program: &Program) -> String {
    let (name, short, kind) = (program.name, program.servers.short, program.servers.kind);
    let text = format!(
        "{short} A,B names several {kind} servers. A command asks all of them, and its rows, records and messages \
         name their server (SERVER in tables, `server` in JSON). Changes and removals are made on one server \
         after another, and --count applies to each. A server that does not answer is named, the others are \
         processed, and the exit code is the most severe one.\n\
         New items go to servers that answer. A worker takes from all of them, with --jobs slots each; a server \
         that is down is retried without delaying the others.\n\n\
         Examples:\n  {name} {short} one,two ping\n  {name} context add prod {short} one,two"
    );
    reflow_text(&text, width())
}
