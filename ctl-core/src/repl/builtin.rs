//! The commands that every session has, whatever the tool: help, settings, scripts, leaving.

use clap::{Arg, Command};

use crate::link::CONNECT;
use crate::rules::preset;

/// The title of their group in `help`.
pub(crate) const TITLE: &str = "Session";
/// Their names.
pub(crate) const VERBS: &[&str] =
    &["connect", "doctor", "help", "quit", ":set", ":history", "\\e", "!"];

pub(super) const ADDRESS: &str = "address";

/// The value name of a setting's name, for [`Values`](super::complete::Values).
pub(crate) const SETTING: &str = "SETTING";
/// The value name of a setting's value.
pub(crate) const SETTING_VALUE: &str = "VALUE";
/// The value name of a verb or `@group` to explain.
pub(crate) const TOPIC: &str = "TOPIC";

/// The commands, to be added to the tool's grammar. `addresses` describes the forms of addresses.
pub fn commands(addresses: &'static str) -> Vec<Command> {
    let optional = |id: &'static str, name: &'static str| Arg::new(id).value_name(name);
    let commands = [
        Command::new(CONNECT)
            .about("Switch to another server or context, settling what the session holds first")
            .after_help("connect --context NAME switches to a context's servers and settings.")
            .arg(optional(ADDRESS, "ADDR").required_unless_present("context").help(addresses)),
        Command::new("help")
            .visible_alias("?")
            .about("Explain the session, a command, a topic, or a @group of commands")
            .arg(optional("topic", TOPIC))
            .arg(optional("more", "MORE")),
        Command::new("quit")
            .visible_aliases(["exit", "\\q"])
            .about("Leave the session; so does Ctrl-D"),
        Command::new(":set")
            .about("Show or change settings")
.after_help("Examples: :set nohints, :set format json, :set timing")
            .arg(optional("setting", SETTING))
            .arg(optional("value", SETTING_VALUE).allow_hyphen_values(true)),
        Command::new("\\e")
            .about("Edit the last command, or this one, with $VISUAL or $EDITOR, then run the result")
            .after_help("Nothing is run if the editor exits with a code other than 0, or the text is unchanged.\nExample: \\e put")
            .arg(
                optional("command", "COMMAND")
                    .num_args(1..)
                    .trailing_var_arg(true)
                    .allow_hyphen_values(true)
                    .value_parser(clap::value_parser!(std::ffi::OsString)),
            ),
        Command::new("!")
            .about("Run the rest of the line, unchanged, as a shell command")
            .after_help("An exit code other than 0 is a failure.\nExample: !ls -l")
            .arg(
                optional("line", "LINE")
                    .allow_hyphen_values(true)
                    .value_parser(clap::value_parser!(std::ffi::OsString)),
            ),
        Command::new(":history")
            .about("Show the newest N history entries, or those containing /text/")
            .arg(optional("which", "N|/TEXT/")),
    ];
    let short = [(":format", ":set format"), (":timing", ":set timing")];
    commands.into_iter().chain(short.map(preset::grammar)).collect()
}
