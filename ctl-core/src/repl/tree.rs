//! The grammar of a session: the commands of the command line that make sense in it, the tool's own verbs, and
//! those of every session.

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command, Subcommand};

use super::builtin;
use super::guest::{Interactive, is};
use super::help::Group;
use crate::context::command::Mark;
use crate::context::repeat;
use crate::help;
use crate::link::CONNECT;
use crate::rules::preset;

/// Global flags that a line may have; the others only count when the session starts.
const LINE_FLAGS: &[&str] = &["output", "columns", "decode", "yes", "dry_run", "confirm"];

/// The flag that `connect` takes.
const CONTEXT: &str = "context";

/// The values of the setting `format`.
pub(crate) const FORMATS: &[&str] =
    &["table", "wide", "plain", "json", "ndjson", "yaml", "csv", "name", "raw"];

/// The grammar of a session: the commands of the command line that make sense in it, the tool's own verbs, which
/// replace commands of the same name, and those of every session.
#[must_use]
pub fn grammar<T: Interactive>() -> Command {
    let (program, command_line) = (T::PROGRAM, (T::PROGRAM.tree)());
    let verbs = T::Verb::augment_subcommands(Command::new("verbs"));
    let kept = command_line.get_subcommands().filter(|command| {
        let short = preset::command(command);
        let name = short.as_deref().unwrap_or(command.get_name());
        command.get_name() != "help"
            && !is::<T>(name, Mark::Absent)
            && !T::Verb::has_subcommand(command.get_name())
    });
    let flags = command_line
        .get_arguments()
        .cloned()
        .map(|flag| if is_for_lines::<T>(&flag) { flag } else { flag.hide(true) });
    let mut grammar = Command::new(program.name)
        .no_binary_name(true)
        .subcommand_required(true)
        .disable_help_subcommand(true)
        .disable_version_flag(true)
        .args(flags)
        .subcommands(kept.cloned().map(once).map(T::here))
        .subcommands(verbs.get_subcommands().cloned())
        .subcommands(builtin::commands(program.servers.forms));
    grammar = help::reflow(grammar, Some(help::width()));
    grammar.build();
    grammar
}

/// The groups of `help`: those of the command line as far as they exist here, with the tool's own verbs, and that of
/// every session.
pub fn groups<T: Interactive>(grammar: &Command) -> Vec<Group> {
    let own = || T::WORDS.verbs.iter().chain(&[(builtin::TITLE, builtin::VERBS)]);
    let is_kept = |name: &&str| {
        grammar.find_subcommand(name).is_some() && !own().any(|(_, verbs)| verbs.contains(name))
    };
    let of_line = (T::PROGRAM.groups)().into_iter().chain([(builtin::TITLE, Vec::new())]);
    let group = |(title, names): (&'static str, Vec<&'static str>)| {
        let added = own().filter(|(of, _)| *of == title).flat_map(|(_, verbs)| *verbs);
        Group { title, verbs: names.into_iter().filter(is_kept).chain(added.copied()).collect() }
    };
    of_line.map(group).filter(|group| !group.verbs.is_empty()).collect()
}

/// A command without the flag that repeats it, which a session refuses.
fn once(command: Command) -> Command {
    command.mut_args(|arg| if arg.get_id() == repeat::FLAG { arg.hide(true) } else { arg })
}

/// Whether a line of a session of this tool may have this global flag.
fn is_for_lines<T: Interactive>(flag: &Arg) -> bool {
    let id = flag.get_id().as_str();
    LINE_FLAGS.contains(&id) || T::WORDS.line_flags.contains(&id)
}

/// The ids of the global flags that only count when a session of this tool starts.
pub(crate) fn start_flags<T: Interactive>(grammar: &Command) -> Vec<String> {
    let flags = grammar.get_arguments().filter(|flag| !is_for_lines::<T>(flag));
    flags.map(|flag| flag.get_id().to_string()).collect()
}

/// A flag of a line that only counts when the session starts: one of these ids. `connect` may take a context.
pub(crate) fn misplaced_flag(matches: &ArgMatches, start_flags: &[String]) -> Option<String> {
    let (verb, line) = matches.subcommand()?;
    let given = |id: &str| {
        line.try_contains_id(id).unwrap_or(false)
            && line.value_source(id) == Some(ValueSource::CommandLine)
    };
    let has_place = |id: &str| verb == CONNECT && id == CONTEXT;
    let found = start_flags.iter().find(|id| given(id) && !has_place(id));
    found.map(|id| format!("--{}", id.replace('_', "-")))
}

/// The verbs that help and completion offer.
pub fn visible(grammar: &Command) -> Vec<String> {
    let is_shown = |command: &&Command| !command.is_hide_set() && !preset::is_short(command);
    let shown = grammar.get_subcommands().filter(is_shown);
    shown.map(|command| command.get_name().to_owned()).collect()
}
