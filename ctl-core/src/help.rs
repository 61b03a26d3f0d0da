//! The help of a whole tool: its commands in groups, environment and exit codes.

pub(crate) mod tip;

use clap::Command;

use crate::error::ExitCode;
use crate::program::Program;
use crate::rules::preset;
use crate::text::wrap;

/// The subcommands that documentation shows.
pub fn visible(tree: &Command) -> impl Iterator<Item = &Command> {
    let is_shown = |command: &&Command| !command.is_hide_set() && command.get_name() != "help";
    tree.get_subcommands().filter(is_shown).filter(|command| !preset::is_short(command))
}

/// The short help: the commands in groups, without options.
#[must_use]
pub(crate) fn short(program: &Program) -> String {
    let mut tree = (program.tree)();
    let groups = grouped(&tree, &(program.groups)());
    let usage = tree.render_usage();
    let about = tree.get_about().map(ToString::to_string).unwrap_or_default();
    let name = program.name;
    let text = format!(
        "{about}\n\n{usage}\n\n{groups}{name} help COMMAND shows a command with examples, {name} --help all options."
    );
    let width = wrap::of_stdout().unwrap_or(usize::MAX);
    format!("{}\n", wrap::words(&text, width))
}

/// The grammar with grouped commands, environment and exit codes in its help, whose lists are wrapped at this width.
/// Built only if help is shown.
#[must_use]
pub fn documented(program: &Program, width: Option<usize>) -> Command {
    let tree = (program.tree)();
    let groups = grouped(&tree, &(program.groups)());
    let environment = table(program.environment);
    let name = program.name;
    reflow(tree, width).help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{groups}Options:\n{{options}}{{after-help}}"
    ))
    .after_help(format!("{name} help COMMAND shows a command with examples; {name} --help also shows all options, environment and exit codes."))
    .after_long_help(format!("Environment:\n{environment}\n{}", exit_codes(&program.exit_codes())))
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
            let about = hung(&about, width + 4);
            text.push_str(&format!("  {name:<width$}  {about}\n"));
        }
        text.push('\n');
    }
    text
}

/// Wraps a text with a hanging indent of this many columns, for the terminal on stdout, if any.
fn hung(text: &str, column: usize) -> String {
    wrap::of_stdout().map_or_else(|| text.to_owned(), |width| wrap::hanging(text, width, column))
}

/// The exit codes for the end of help texts and man pages.
fn exit_codes(codes: &[(ExitCode, String)]) -> String {
    let codes: Vec<(String, &str)> = codes
        .iter()
        .map(|(row, meaning)| (format!("{:>3}", row.exit.code()), meaning.as_str()))
        .collect();
    format!("Exit codes:\n{}", table(&codes))
}

/// The width of tables in help texts, unless the terminal is narrower.
const TABLE_WIDTH: usize = 80;

/// Longer names get their own line.
const NAME_WIDTH: usize = 34;

/// Narrower terminals get no table.
const NARROW: usize = 40;

/// Names and their meanings, in two columns.
fn table<N: AsRef<str>>(rows: &[(N, &str)]) -> String {
    let names = rows.iter().map(|(name, _)| name.as_ref().len());
    let most = wrap::of_stdout().map_or(TABLE_WIDTH, |width| width.clamp(NARROW, TABLE_WIDTH));
    let limit = if most < TABLE_WIDTH { most / 3 } else { NAME_WIDTH };
    let width = names.filter(|width| *width <= limit).max().unwrap_or(0);
    let mut text = String::new();
    for (name, meaning) in rows {
        let mut line = format!("  {:width$} ", name.as_ref());
        if name.as_ref().len() > width {
            text.push_str(line.trim_end());
            text.push('\n');
            line = " ".repeat(width + 3);
        }
        for word in meaning.split(' ') {
            if line.len() + 1 + word.len() > most && !line.trim_start().is_empty() {
                text.push_str(line.trim_end());
                text.push('\n');
                line = " ".repeat(width + 3);
            }
            line.push(' ');
            line.push_str(word);
        }
        text.push_str(&line);
        text.push('\n');
    }
    text
}

/// Joins each paragraph of the help texts into one line, for terminals of any width. The sources wrap long lines; a
/// line end stays after an indented line or a sentence. Indented lines are wrapped at `width`, below their text.
#[must_use]
pub(crate) fn reflow(command: Command, width: Option<usize>) -> Command {
    let text = |text: &dyn ToString| match width {
        Some(width) => set_in(&joined(&text.to_string()), width),
        None => joined(&text.to_string()),
    };
    let command = match command.get_after_help() {
        Some(help) => {
            let help = text(help);
            command.after_help(help)
        }
        None => command,
    };
    command.mut_subcommands(|command| reflow(command, width))
}

/// The width at which help is wrapped: that of a terminal, even if the help goes into a pipe.
pub(crate) fn width() -> usize {
    // Those of the grammar, without a terminal and on a wide one.
    const PIPE: usize = 100;
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
    fn rows_of_a_list_are_wrapped_below_their_text() {
        let text = "Metrics:\n  server:  one two three four five six\n           seven eight nine ten\n  tool run --with-a-flag and a value";
        assert_eq!(
            set_in(text, 31),
            "Metrics:\n  server:  one two three four\n           five six\n           seven eight nine ten\n  tool run --with-a-flag and a\n    value"
        );
        assert_eq!(set_in(text, 80), text);
    }

    #[test]
    fn tables_hang() {
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
        let program = Program { environment: &[("TOOL_X", "x")], ..TOOL };
        let help = documented(&program, None).render_long_help().to_string();
        for part in ["TOOL_X", "124", "nothing there"] {
            assert!(help.contains(part), "{part} is not in {help}");
        }
    }
}
