//! The commands that every session has, whatever the tool: help, settings, scripts, leaving.

use clap::builder::ValueHint;
use clap::{Arg, Command};

use super::complete::COMMAND_WORDS;
use crate::link::CONNECT;

/// The title of their group in `help`.
pub(crate) const TITLE: &str = "Session";
/// Their names.
pub(crate) const VERBS: &[&str] = &[
    "connect", "doctor", "help", "examples", "quit", ":watch", ":set", ":source", ":timing",
    ":format", ":pager", ":history", ":cls", "\\e", "!",
];

pub(super) const ADDRESS: &str = "address";

/// The value name of a setting's name, for [`Values`](super::complete::Values).
pub(crate) const SETTING: &str = "SETTING";
/// The value name of a setting's value.
pub(crate) const SETTING_VALUE: &str = "VALUE";
/// The value name of a verb or `@group` to explain.
pub(crate) const TOPIC: &str = "TOPIC";

/// The commands, to be added to the tool's grammar. `formats` are the names of output formats, `addresses` describes
/// the forms of addresses.
#[must_use]
pub fn commands(formats: &'static [&'static str], addresses: &'static str) -> Vec<Command> {
    let optional = |id: &'static str, name: &'static str| Arg::new(id).value_name(name);
    let words = || {
        optional("command", COMMAND_WORDS)
            .num_args(1..)
            .trailing_var_arg(true)
            .allow_hyphen_values(true)
            .value_parser(clap::value_parser!(std::ffi::OsString))
    };
    let commands = [
        Command::new(CONNECT)
            .about("Switch to another server or context, settling what the session holds first")
            .after_help("connect --context NAME switches to a context's servers and settings.")
            .arg(optional(ADDRESS, "ADDR").required_unless_present("context").help(addresses)),
        Command::new("help")
            .visible_alias("?")
            .about("Explain the session, a command, or a @group of commands")
            .arg(optional("topic", TOPIC)),
        Command::new("quit")
            .visible_aliases(["exit", "\\q"])
            .about("Leave the session; so does Ctrl-D"),
        Command::new(":watch")
            .about("Repeat a command, until Ctrl-C or a given number of times")
            .after_help(
                "i=DUR: interval between runs [default: 2s]; c=N: number of runs; m=N: until it shows fewer than N rows.\n\
                 Example: :watch i=5s c=10 stats",
            )
            .arg(words().required(true)),
        Command::new(":set")
            .about("Show or change settings; -e and +e: stop at errors or continue")
            .after_help("A prompt shows %a the address, %t the used tube, %r what is held, %w what is watched or waited for, %c the context, %d what\nelse there is to know; :set prompt default is the usual one.\nExamples: :set nohints, :set +e, :set prompt '%a %t%r> '")
            .arg(optional("setting", SETTING).allow_hyphen_values(true))
            .arg(optional("value", SETTING_VALUE).allow_hyphen_values(true)),
        Command::new(":source")
            .about("Run the commands in a file, up to the first error")
            .arg(optional("file", "FILE").required(true).value_hint(ValueHint::FilePath)),
        Command::new(":timing")
            .about("Show how long commands take (always shown for slow ones)")
            .arg(optional("on", "on|off").value_parser(["on", "off"])),
        Command::new(":format")
            .about("Show or change the output format of the session")
            .arg(optional("format", "FMT").value_parser(formats.to_vec())),
        Command::new(":pager")
            .about("Show or change when to use the pager: never, always, or for results taller than the screen")
            .arg(optional("when", "on|off|auto").value_parser(["on", "off", "auto"])),
        Command::new("\\e")
            .about("Edit the last command, or this one, with $VISUAL or $EDITOR, then run the result")
            .after_help("Nothing is run if the editor exits with a code other than 0, or the text is unchanged.\nExample: \\e put")
            .arg(words()),
        Command::new("!")
            .about("Run the rest of the line, unchanged, as a shell command")
            .after_help("An exit code other than 0 is a failure. Variables (--var) are in its environment, not substituted into the line.\nExample: !ls -l \"$name\"")
            .arg(
                optional("line", "LINE")
                    .allow_hyphen_values(true)
                    .value_parser(clap::value_parser!(std::ffi::OsString)),
            ),
        Command::new(":history")
            .about("Show the newest N history entries, or those containing /text/")
            .arg(optional("which", "N|/TEXT/")),
        Command::new(":cls").about("Clear the screen; so does Ctrl-L"),
    ];
    commands.into_iter().collect()
}
