//! What can be typed in a session: the commands of the command line that make sense in it, the tool's own verbs, and
//! those of every session.

use clap::parser::ValueSource;
use clap::{ArgMatches, Command};

use super::builtin;
use crate::docs;

/// Global flags that a line may have; the others are for the start of the session.
const LINE_FLAGS: &[&str] = &[
    "output",
    "columns",
    "sort_by",
    "no_headers",
    "encoding",
    "progress",
    "yes",
    "no_input",
    "dry_run",
    "confirm",
    "force_raw",
];

/// Global flags of every tool that only count when the session starts.
pub const START_FLAGS: &[&str] =
    &["embedded", "connect_timeout", "retry", "wait_for_server", "quiet", "verbose", "color"];

/// The formats of `:format`.
pub const FORMATS: &[&str] = &["table", "wide", "plain", "json", "ndjson", "yaml", "name", "raw"];

/// Commands of the command line that make no sense in any session.
const LEFT_OUT: &[&str] = &["repl", "serve", "completions", "man", "help"];

/// The grammar of a session, made from that of the command line. `verbs` has the tool's own verbs as subcommands; they
/// stand for commands of the same name. `left_out` are further commands that make no sense in a session of this tool,
/// `line_flags` further global flags that a line may have, and `here` changes what is different in a session.
#[must_use]
pub fn grammar(
    name: &'static str,
    command_line: &Command,
    verbs: &Command,
    left_out: &[&str],
    line_flags: &[&str],
    here: impl Fn(Command) -> Command,
) -> Command {
    let is_verb = |name: &str| verbs.get_subcommands().any(|verb| verb.get_name() == name);
    let kept = command_line.get_subcommands().filter(|command| {
        let name = command.get_name();
        !LEFT_OUT.contains(&name) && !left_out.contains(&name) && !is_verb(name)
    });
    let flags = command_line.get_arguments().cloned().map(|flag| {
        let id = flag.get_id().as_str();
        let shown = LINE_FLAGS.contains(&id) || line_flags.contains(&id);
        if shown { flag } else { flag.hide(true) }
    });
    let mut grammar = Command::new(name)
        .no_binary_name(true)
        .subcommand_required(true)
        .disable_help_subcommand(true)
        .disable_version_flag(true)
        .args(flags)
        .subcommands(kept.cloned().map(here))
        .subcommands(verbs.get_subcommands().cloned())
        .subcommands(builtin::commands(FORMATS));
    grammar = docs::reflow(grammar);
    grammar.build();
    grammar
}

/// A flag of a line that only counts when the session starts: one of [`START_FLAGS`] or of `more`.
#[must_use]
pub fn misplaced_flag(matches: &ArgMatches, more: &[&str]) -> Option<String> {
    let (_, line) = matches.subcommand()?;
    let given = |id: &str| {
        line.try_contains_id(id).unwrap_or(false)
            && line.value_source(id) == Some(ValueSource::CommandLine)
    };
    START_FLAGS
        .iter()
        .chain(more)
        .find(|id| given(id))
        .map(|id| format!("--{}", id.replace('_', "-")))
}

/// The verbs that help and completion offer.
#[must_use]
pub fn visible(grammar: &Command) -> Vec<String> {
    let shown = grammar.get_subcommands().filter(|command| !command.is_hide_set());
    shown.map(|command| command.get_name().to_owned()).collect()
}
