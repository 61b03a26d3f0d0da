//! The topics of `help TOPIC`: everything that commands share.

use clap::Command;

use super::{examples, filled, reflow_text, table, width};
use crate::program::Program;

/// A topic of the help: its name, what it is about, and its text.
type Topic = (&'static str, &'static str, fn(&Program) -> String);

const TOPICS: &[Topic] = &[
    ("options", "flags that every command takes", options),
    ("environment", "environment variables", |program| table(&environment(program))),
    ("exit-codes", "how commands end", exit_codes),
];

/// Topics that are prose, with the words of a tool in braces.
const TEXTS: &[(&str, &str, &str)] = &[
    ("formats", "how results and bodies are shown", include_str!("topics/formats.txt")),
    (
        "comparisons",
        "KEY OP VALUE, in filters, thresholds, conditions and limits",
        include_str!("topics/comparisons.txt"),
    ),
    ("servers", "several servers at the same time", include_str!("topics/servers.txt")),
    (
        "workers",
        "how work runs commands: arguments, output and exit",
        include_str!("topics/workers.txt"),
    ),
];

/// The cheat sheets are a topic, too.
const EXAMPLES: (&str, &str) = ("examples", "cheat sheets of ready-to-copy command lines");

/// The variables that every tool reads.
const ENVIRONMENT: &[(&str, &str)] = &[
    ("{server}", "server address if {short} is not given{others}"),
    ("{tls}", "TLS files, as --tls=ca, --tls=cert, --tls=key, --tls=crl"),
    ("{prefix}_CONFIG, {prefix}_CONTEXT", "as --config, --context"),
    ("{prefix}_TIMEOUT", "as --timeout"),
    ("{prefix}_OUTPUT", "as --output"),
    ("{prefix}_LOG", "log filter in RUST_LOG syntax: debug, or {name}::protocol=trace"),
    ("{prefix}_LOG_FORMAT", "format of stderr lines: text or json"),
    ("{prefix}_PROGRESS", "how to show progress on stderr: auto, bar, plain, json, never"),
    ("{prefix}_HISTFILE", "history file of the REPL; empty or /dev/null for none"),
    ("VISUAL, EDITOR", "editor of the REPL [default: vi]"),
    ("NO_COLOR, CLICOLOR, CLICOLOR_FORCE", "colours if --color is not given"),
];

/// The topics of a tool, and what each is about.
pub(crate) fn all(program: &Program) -> impl Iterator<Item = (&'static str, &'static str)> {
    let shared = TOPICS.iter().map(|(name, about, _)| (*name, *about));
    let texts = TEXTS.iter().chain(program.topics).map(|(name, about, _)| (*name, *about));
    shared.chain(texts).chain([EXAMPLES])
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
    let prose = || TEXTS.iter().chain(program.topics).find(|(name, ..)| *name == topic);
    shared.or_else(|| prose().map(|(_, _, text)| reflow_text(&filled(text, program), width())))
}

/// The topics with their texts, for the whole help and the man page; their sheets are listed only.
pub(crate) fn everything(program: &Program) -> String {
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

/// The variables that the tool reads, and what they are for.
pub(crate) fn environment(program: &Program) -> Vec<(String, String)> {
    let rows = ENVIRONMENT.iter().chain(program.own_variables);
    rows.map(|(names, about)| (filled(names, program), filled(about, program))).collect()
}

fn exit_codes(program: &Program) -> String {
    let codes = program.exit_codes().into_iter();
    table(&codes.map(|(code, meaning)| (format!("{code:>3}"), meaning)).collect::<Vec<_>>())
}
