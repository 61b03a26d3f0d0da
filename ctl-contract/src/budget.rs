//! The limits of a tool: commands, flags, and lines of help on a terminal of 80 columns.

use std::collections::BTreeSet;

use clap::Command;
use clap::error::ErrorKind;
use ctl_core::context::Tool;
use ctl_core::help::{self, Extent, visible};
use ctl_core::tool::cli;

use crate::Case;

/// The budget of a tool. A new command or flag has to replace another one.
#[derive(Debug, Clone, Copy)]
pub struct Budget {
    /// Commands; words that are short for another one do not count.
    pub commands: usize,
    /// Different flags, those of every command included.
    pub flags: usize,
    /// Flags of every command.
    pub global_flags: usize,
    /// Lines of the whole `--help`.
    pub help: usize,
    /// Lines of the `-h` of a command, and of its `--help`.
    pub help_of_command: (usize, usize),
}

/// Lines of the first screen.
const SCREEN: usize = 25;

/// The widest line: the help is not shown on a terminal here.
const WIDTH: usize = 80;

/// Commands are counted without aliases and short words, flags by their long names.
pub fn commands_and_flags_are_within_the_budget<T: Tool>(case: &Case<T>) {
    let (tree, budget) = (cli::tree::<T>(), case.budget);
    let commands = visible(&tree).count();
    assert!(commands <= budget.commands, "{commands} commands");
    let global: BTreeSet<String> = flags(&tree).collect();
    assert!(global.len() <= budget.global_flags, "{} global flags: {global:?}", global.len());
    let mut all = global;
    below(&tree, &mut all);
    assert!(all.len() <= budget.flags, "{} flags: {all:?}", all.len());
}

/// The flags that help names.
fn flags(command: &Command) -> impl Iterator<Item = String> {
    let shown = command.get_arguments().filter(|arg| !arg.is_hide_set());
    shown.filter_map(|arg| arg.get_long()).map(str::to_owned)
}

fn below(command: &Command, all: &mut BTreeSet<String>) {
    for command in visible(command) {
        all.extend(flags(command));
        below(command, all);
    }
}

/// The first screen leads to the rest, and no help is longer than people read.
pub fn help_is_within_the_budget<T: Tool>(case: &Case<T>) {
    let (tree, budget) = (cli::tree::<T>(), case.budget);
    let program = &case.program;
    let none = program.bare(&[]).exits(2);
    let screen = program.bare(&["-h"]).exits(0);
    assert_eq!(none.err, screen.out());
    for (line, what) in T::PROGRAM.first {
        assert!(
            screen.lines().iter().any(|row| row.contains(line) && row.ends_with(what)),
            "{line}"
        );
    }
    let mut long = Vec::new();
    let mut fits = |words: &[&str], text: &str, most: usize| {
        if let Some(wide) = text.lines().find(|line| line.chars().count() > WIDTH) {
            long.push(format!("{words:?}: {wide:?}"));
        }
        let lines = text.lines().count();
        if lines > most {
            long.push(format!("{words:?}: {lines} lines of {most}"));
        }
    };
    fits(&["-h"], screen.out(), SCREEN);
    fits(&["--help"], program.bare(&["--help"]).exits(0).out(), budget.help);
    let (short, whole) = budget.help_of_command;
    for (flag, extent, most) in [("-h", Extent::Screen, short), ("--help", Extent::Whole, whole)] {
        let shown = help::shown(&T::PROGRAM, extent, WIDTH);
        // What the program prints.
        let ping = program.bare(&["ping", flag]).exits(0);
        assert_eq!(text(&shown, &["ping", flag]), ping.out());
        for command in visible(&tree) {
            let name = command.get_name();
            let inner = visible(command).map(|inner| vec![name, inner.get_name()]);
            for words in [vec![name]].into_iter().chain(inner) {
                let words = [&words[..], &[flag]].concat();
                fits(&words, &text(&shown, &words), most);
            }
        }
    }
    assert!(long.is_empty(), "{}", long.join("\n"));
}

/// The help that these words ask for.
fn text(shown: &Command, words: &[&str]) -> String {
    let line = [&[shown.get_name()], words].concat();
    let help = shown.clone().try_get_matches_from(line).unwrap_err();
    assert_eq!(help.kind(), ErrorKind::DisplayHelp, "{words:?}: {help}");
    help.render().to_string()
}

/// All of it, each topic, and each command; a topic that is not there is a usage error.
pub fn help_has_topics_and_commands<T: Tool>(case: &Case<T>) {
    let program = &case.program;
    let all = program.bare(&["help", "--all"]).exits(0);
    let overview = program.bare(&["help"]).exits(0);
    assert!(all.out().starts_with(overview.out()), "{}", all.out());
    for (topic, part) in [
        ("options", "--output"),
        ("environment", program.variables[0]),
        ("exit-codes", "124"),
        ("formats", "ndjson"),
        ("comparisons", "rtt>50ms"),
        ("servers", "one,two"),
    ] {
        let text = program.bare(&["help", topic]).exits(0);
        assert!(text.out().contains(part), "{topic}: {}", text.out());
        assert!(all.out().contains(&topic.to_uppercase()) && all.out().contains(part), "{topic}");
    }
    assert_eq!(program.bare(&["help", "ping"]).out(), program.bare(&["ping", "--help"]).out());
    assert_eq!(program.bare(&["help", "help"]).out(), program.bare(&["help", "--help"]).out());
    let wrong = program.bare(&["help", "optionz"]).exits(2);
    assert!(wrong.err.contains("'options'"), "{}", wrong.err);
    let wrong = program.bare(&["help", "ping", "add"]).exits(2);
    assert!(wrong.err.contains("ping add"), "{}", wrong.err);
}
