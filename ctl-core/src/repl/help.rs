//! `help`: an overview by groups, a group, a command.

use clap::Command;

use crate::error::CliError;
use crate::help::{Extent, with_options};
use crate::text::wrap;

/// A group of commands.
#[derive(Clone, Debug)]
pub struct Group {
    /// The title of the group.
    pub title: &'static str,
    /// The verbs.
    pub verbs: Vec<&'static str>,
}

impl Group {
    /// Its name in `help`: an at sign and the first word of its title, such as `@produce`.
    pub fn name(&self) -> String {
        let word = self.title.split(' ').next().unwrap_or_default();
        format!("@{}", word.to_lowercase())
    }
}

/// The text for `help TOPIC`; without a topic the overview.
///
/// # Errors
/// There is no such command or group: exit 2.
pub fn text(grammar: &Command, groups: &[Group], topic: Option<&str>) -> Result<String, CliError> {
    let Some(topic) = topic else { return Ok(overview(grammar, groups)) };
    if topic.starts_with('@') {
        let group = groups.iter().find(|group| group.name() == topic);
        return group.map(|group| of_group(grammar, group)).ok_or_else(|| unknown(topic, groups));
    }
    match grammar.find_subcommand(topic) {
        Some(command) => {
            let mut command = with_options(command.clone(), Extent::Whole).mut_args(|arg| {
                // Built, it promises more.
                if arg.get_id() == "help" { arg.help("Print help") } else { arg }
            });
            Ok(command.render_help().to_string())
        }
        None => Err(unknown(topic, groups)),
    }
}

fn overview(grammar: &Command, groups: &[Group]) -> String {
    let exists = |verb: &&str| grammar.find_subcommand(verb).is_some();
    let mut rows = String::new();
    for group in groups {
        let verbs: Vec<&str> = group.verbs.iter().copied().filter(exists).collect();
        if !verbs.is_empty() {
            rows.push_str(&format!("{}\t{}\n", group.name(), verbs.join(" ")));
        }
    }
    let notes = "help COMMAND explains a command, help @GROUP lists a group.\n\
         Bodies: \"\\x00 escapes\", 'as it is', {\"json\": 1}, b64:…, hex:…, @FILE, <<END.\n\
         Tab completes, Ctrl-R searches the history, Ctrl-C cancels, Ctrl-D leaves.";
    let notes = wrap::of_stdout().map_or(notes.into(), |width| wrap::words(notes, width));
    format!("{}\n{notes}\n", columns(&rows))
}

fn of_group(grammar: &Command, group: &Group) -> String {
    let mut rows = String::new();
    for verb in &group.verbs {
        if let Some(command) = grammar.find_subcommand(verb) {
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            rows.push_str(&format!("{verb}\t{about}\n"));
        }
    }
    format!("{}\n\n{}", group.title, columns(&rows))
}

fn unknown(topic: &str, groups: &[Group]) -> CliError {
    let names: Vec<String> = groups.iter().map(Group::name).collect();
    CliError::usage(format!("there is no help for `{topic}` (groups: {})", names.join(", ")))
        .hint("help")
}

/// Lines of TAB-separated cells as aligned columns; the last one is wrapped at the width of the terminal on stdout.
pub fn columns(rows: &str) -> String {
    let cells: Vec<Vec<&str>> = rows.lines().map(|row| row.split('\t').collect()).collect();
    let most = cells.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        cells.iter().filter_map(|row| row.get(column)).map(|c| c.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..most).map(width).collect();
    let terminal = wrap::of_stdout();
    let mut text = String::new();
    for row in &cells {
        let mut line = String::new();
        for (at, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let column = line.chars().count();
            match terminal.filter(|_| at + 1 == row.len()) {
                Some(terminal) => line.push_str(&wrap::hanging(cell, terminal, column)),
                None => line.push_str(&format!("{cell:width$}  ")),
            }
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        assert_eq!(columns("a\tbb\tc\naaa\tb\n"), "a    bb  c\naaa  b\n");
    }
}
