//! The help of a whole tool: its first screen, its commands in groups, and its topics.

pub(crate) mod examples;
pub(crate) mod tip;
pub(crate) mod topics;

use clap::builder::{PossibleValue, Resettable, StyledStr};
use clap::{Arg, Command};

use crate::program::Program;
use crate::rules::preset;
use crate::text::wrap;

/// The subcommands that documentation shows.
pub fn visible(tree: &Command) -> impl Iterator<Item = &Command> {
    let is_shown = |command: &&Command| !command.is_hide_set() && command.get_name() != "help";
    tree.get_subcommands().filter(is_shown).filter(|command| !preset::is_short(command))
}

/// The first screen: what the tool is, the commands of a first hour, and where the rest is.
pub(crate) fn first(program: &Program) -> String {
    let Program { name, about, first, .. } = program;
    let usage = (program.tree)().render_usage();
    let groups = (program.groups)().into_iter();
    let groups: Vec<_> = groups.map(|(title, names)| (title, names.join(" "))).collect();
    let topics: Vec<&str> = topics::all(program).map(|(topic, _)| topic).collect();
    let topics = topics.join(", ");
    let more = [
        (format!("{name} [COMMAND] --help"), "list all commands, or describe one; -h is shorter"),
        (format!("{name} help TOPIC"), &topics),
        (format!("{name} help --all"), "everything"),
    ];
    let text = format!(
        "{about}\n\n{usage}\n\nStart here:\n{}  Without a server: {name} serve, or --embedded for one command.\n\n\
         {}\n{}",
        table(first),
        table(&groups),
        table(&more)
    );
    wrap::words(&text, width()).trim_end().to_owned() + "\n"
}

/// The help of the whole tool: a line for each command.
pub(crate) fn overview(program: &Program) -> String {
    let Program { name, about, .. } = program;
    let mut tree = (program.tree)();
    let usage = tree.render_usage();
    let groups = grouped(&tree, &(program.groups)());
    let text = format!(
        "{about}\n\n{usage}\n\n{groups}{}",
        table(&[
            (format!("{name} COMMAND --help"), "a command with its options and examples"),
            (format!("{name} help TOPIC"), "a shared topic, such as options; --all for everything"),
        ])
    );
    wrap::words(&text, width()).trim_end().to_owned() + "\n"
}

/// The grammar as help shows it: with all options, or with the usual ones in a screen. The flags of every command are a
/// separate topic, which each command names. It is as wide as this says, but for the tool's own.
#[must_use]
pub fn shown(program: &Program, extent: Extent, width: usize) -> Command {
    let whole = match extent {
        Extent::Screen => first(program),
        Extent::Whole => overview(program),
    };
    let tree =
        (program.tree)().mut_args(|arg| if arg.is_global_set() { arg.hide(true) } else { arg });
    let ended = |command| ended(command, program.name, program.name, extent);
    reflow(tree.mut_subcommands(ended), Some(width)).term_width(width).override_help(whole)
}

/// How much of the help is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// What fits a screen, for `-h`.
    Screen,
    /// Everything, for `--help`.
    Whole,
}

/// A command whose help names what it leaves out. No text is only for `--help`: clap would spread the options of a help
/// that has one over three lines each.
fn ended(command: Command, path: &str, name: &str, extent: Extent) -> Command {
    let path = format!("{path} {}", command.get_name());
    let end = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let options = format!("Global options: see {name} help options");
    let (end, options) = match extent {
        Extent::Screen => (some_examples(&end), format!("More: {path} --help. {options}")),
        Extent::Whole => (end, options),
    };
    let gap = if end.is_empty() { "" } else { "\n\n" };
    with_options(command, extent)
        .after_help(format!("{end}{gap}{options}"))
        .mut_subcommands(|inner| ended(inner, &path, name, extent))
}

/// A command whose help has these of its options, and the explained values of an option below it.
pub(crate) fn with_options(command: Command, extent: Extent) -> Command {
    let is_whole = extent == Extent::Whole;
    command.mut_args(|arg| {
        let is_hidden = arg.is_hide_short_help_set() && !is_whole;
        let arg = explained(arg.hide_short_help(false), is_whole);
        if is_hidden { arg.hide(true) } else { arg }
    })
}

/// A flag with its explained values in a line each; clap would make a long help of them.
fn explained(arg: Arg, is_whole: bool) -> Arg {
    let values = arg.get_possible_values();
    let mut shown = values.iter().filter(|value| !value.is_hide_set()).peekable();
    if arg.is_hide_possible_values_set() || !shown.clone().any(|value| value.get_help().is_some()) {
        return arg;
    }
    let mut help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    if is_whole {
        let defaults = arg.get_default_values().iter().map(|value| value.to_string_lossy());
        let defaults = defaults.collect::<Vec<_>>().join(",");
        if !defaults.is_empty() && !arg.is_hide_default_value_set() {
            help += &format!(" [default: {defaults}]");
        }
        for value in shown {
            let about = value.get_help().map(|about| format!(": {about}")).unwrap_or_default();
            help += &format!("\n- {}{about}", value.get_name());
        }
    } else {
        let names: Vec<&str> = shown.by_ref().map(PossibleValue::get_name).collect();
        help += &format!(": {}", names.join(", "));
    }
    let hides_default = is_whole || arg.is_hide_default_value_set();
    arg.help(help).hide_possible_values(true).hide_default_value(hides_default)
}

/// The first examples of a command.
fn some_examples(end: &str) -> String {
    const SOME: usize = 3;
    let lines = end.lines().skip_while(|line| !line.starts_with("Example"));
    let mut left = SOME;
    let shown = lines.take_while(|line| {
        let is_shown = left > 0;
        let is_begun = line.ends_with(['\\', ':']);
        left = left.saturating_sub(usize::from(!is_begun));
        is_shown && !line.is_empty()
    });
    shown.collect::<Vec<_>>().join("\n")
}

/// The grammar for man pages, with all topics on the tool's own.
#[must_use]
pub fn documented(program: &Program) -> Command {
    reflow((program.tree)(), None).after_long_help(topics::everything(program))
}

/// The commands of a tool in groups, for the top of its help.
fn grouped(tree: &Command, groups: &[(&str, Vec<&str>)]) -> String {
    let width = visible(tree).map(|command| command.get_name().len()).max().unwrap_or(0);
    let mut text = String::new();
    for (title, names) in groups {
        text.push_str(&format!("{title}:\n"));
        for name in names {
            let Some(command) = tree.find_subcommand(name) else { continue };
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            let about = wrap::hanging(&about, self::width(), width + 4);
            text.push_str(&format!("  {name:<width$}  {about}\n"));
        }
        text.push('\n');
    }
    text
}

/// The width of tables in help texts, unless the terminal is narrower.
const TABLE_WIDTH: usize = 80;

/// Longer names get their own line.
const NAME_WIDTH: usize = 34;

/// Narrower terminals get no table.
const NARROW: usize = 40;

/// Names and their meanings, in two columns.
fn table<N: AsRef<str>, M: AsRef<str>>(rows: &[(N, M)]) -> String {
    let names = rows.iter().map(|(name, _)| name.as_ref().len());
    let most = width().clamp(NARROW, TABLE_WIDTH);
    let limit = if most < TABLE_WIDTH { most / 3 } else { NAME_WIDTH };
    let width = names.filter(|width| *width <= limit).max().unwrap_or(0);
    let row = |(name, meaning): &(N, M)| {
        let (name, meaning) = (name.as_ref(), wrap::hanging(meaning.as_ref(), most, width + 4));
        match name.len() > width {
            true => format!("  {name}\n    {:width$}{meaning}\n", ""),
            false => format!("  {name:width$}  {meaning}\n"),
        }
    };
    rows.iter().map(row).collect()
}

/// A text of every tool, with the words of this one.
pub(crate) fn filled(text: &str, program: &Program) -> String {
    let Program { name, prefix, servers, queue, help, tls, .. } = program;
    let (about, session, examples) = help.repl;
    let (first, others) = servers.variables.split_first().unwrap_or((&"", &[]));
    let others =
        if others.is_empty() { String::new() } else { format!("; then {}", others.join(", ")) };
    let tls = [tls.authorities, tls.certificate, tls.key, tls.revocations].join(", ");
    let words = [
        ("{name}", *name),
        ("{prefix}", prefix),
        ("{server}", first),
        ("{others}", &others),
        ("{tls}", &tls),
        ("{kind}", servers.kind),
        ("{short}", servers.short),
        ("{address}", servers.default),
        ("{queue}", queue.key),
        ("{session}", about),
        ("{repl}", session),
        ("{sessions}", examples),
        ("{ping}", help.ping),
        ("{memory}", help.serve.about),
        ("{limits}", help.serve.limits),
        ("{seed}", help.serve.seed),
        ("{fault}", help.serve.fault),
        ("{port}", &servers.port.to_string()),
        ("{variables}", &servers.variables.join(", ")),
    ];
    words.iter().fold(text.to_owned(), |text, (word, with)| text.replace(word, with))
}

/// Joins each paragraph of the help texts into one line, for terminals of any width. The sources wrap long lines; a
/// line end stays after an indented line or a sentence. Indented lines are wrapped at `width`, below their text.
#[must_use]
pub(crate) fn reflow(command: Command, width: Option<usize>) -> Command {
    let text = |text: &dyn ToString| match width {
        Some(width) => set_in(&joined(&text.to_string()), width),
        None => joined(&text.to_string()),
    };
    let end = command.get_after_help().map(|help| StyledStr::from(text(help)));
    command.after_help(Resettable::from(end)).mut_subcommands(|command| reflow(command, width))
}

/// A text of several lines as [`reflow`] sets it.
fn reflow_text(text: &str, width: usize) -> String {
    let text = set_in(&joined(text), width);
    let lines = text.lines().map(|line| match line.starts_with(' ') {
        true => line.to_owned(),
        false => wrap::hanging(line, width, 0),
    });
    lines.map(|line| line + "\n").collect()
}

/// The width at which help is wrapped: that of a terminal, even if the help goes into a pipe.
pub(crate) fn width() -> usize {
    const PIPE: usize = 80;
    const MOST: usize = 110;
    terminal_size::terminal_size().map_or(PIPE, |(width, _)| width.0.into()).min(MOST)
}

/// Wraps indented lines: a row of a list below its second column, other lines two columns further in.
fn set_in(text: &str, width: usize) -> String {
    let set = |line: &str| {
        let indent = line.len() - line.trim_start().len();
        if indent == 0 {
            return line.to_owned();
        }
        let gap = line.trim_start().find("  ").map(|at| indent + at);
        let second =
            gap.map(|gap| line.len() - line.get(gap..).unwrap_or_default().trim_start().len());
        let column = match second {
            Some(column) if column <= width / 2 => column,
            _ if indent > FIRST => indent,
            _ => indent + FIRST,
        };
        let start = second.filter(|second| *second == column).unwrap_or(indent);
        let (start, rest) = line.split_at_checked(start).unwrap_or((line, ""));
        format!("{start}{}", wrap::hanging_from(rest, width, start.len(), column))
    };
    text.split('\n').map(set).collect::<Vec<_>>().join("\n")
}

/// The indent of the first column of a list.
const FIRST: usize = 2;

fn joined(text: &str) -> String {
    let mut whole = String::with_capacity(text.len());
    let mut is_open = false;
    for line in text.split('\n') {
        let is_prose = !line.is_empty() && !line.starts_with(' ');
        if !whole.is_empty() {
            whole.push(if is_open && is_prose { ' ' } else { '\n' });
        }
        whole.push_str(line);
        is_open = is_prose && !line.ends_with('.');
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::TOOL;

    #[test]
    fn prose_fits_terminals_of_any_width() {
        let text =
            "Protocol: put.\nA long line that\ngoes on.\n\nRows:\n  one\n  two\nand more\ntext";
        assert_eq!(
            joined(text),
            "Protocol: put.\nA long line that goes on.\n\nRows:\n  one\n  two\nand more text"
        );
    }

    #[test]
    fn list_rows_have_a_hanging_indent() {
        let text = "Metrics:\n  server:  one two three four five six\n           seven eight nine ten\n  tool run --with-a-flag and a value";
        assert_eq!(
            set_in(text, 31),
            "Metrics:\n  server:  one two three four\n           five six\n           seven eight nine ten\n  tool run --with-a-flag and a\n    value"
        );
        assert_eq!(set_in(text, 80), text);
    }

    #[test]
    fn tables_have_a_hanging_indent() {
        let long = "word ".repeat(20);
        let text = table(&[("A", long.trim_end()), (&"N".repeat(40), "x"), ("BCD", "y")]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 5, "{text}");
        assert!(lines.iter().all(|line| line.len() <= 80), "{text}");
        assert_eq!((&lines[0][..8], &lines[1][..8]), ("  A    w", "       w"));
        assert_eq!((lines[3], lines[4]), ("       x", "  BCD  y"));
    }

    #[test]
    fn help_shows_environment_and_exit_codes() {
        let program = Program { own_variables: &[("TOOL_X", "x")], ..TOOL };
        let help = documented(&program).render_long_help().to_string();
        for part in ["TOOL_X", "124", "nothing there"] {
            assert!(help.contains(part), "{part} is not in {help}");
        }
    }
}
