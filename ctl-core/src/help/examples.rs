//! Cheat sheets in the terminal. A sheet reads as a shell script with comments.

use std::collections::BTreeSet;

use clap::Command;

use super::table;
use crate::program::Program;
use crate::program::sheet::{self, Example, Sheet};
use crate::text::color::Role;

/// The text of `help examples`: the sheets, or one of them, or the examples that use a command.
pub(super) fn text(program: &Program, topic: Option<&str>, color: bool) -> Option<String> {
    let Some(topic) = topic else {
        let sheets = sheet::sheets(program.sheets);
        let rows: Vec<_> = sheets.map(|sheet| (sheet.topic, sheet.about)).collect();
        let name = program.name;
        return Some(format!(
            "Cheat sheets, shown by {name} help examples TOPIC:\n{}",
            table(&rows)
        ));
    };
    Some(script(program, topic, color)).filter(|script| !script.is_empty())
}

/// The topics of the sheets.
pub(crate) fn topics(program: &Program) -> impl Iterator<Item = &'static str> {
    sheet::sheets(program.sheets).map(|sheet| sheet.topic)
}

/// The commands of this tool that an example's line has.
fn commands<'t>(example: &Example, program: &Program, tree: &'t Command) -> BTreeSet<&'t str> {
    let words: Vec<&str> = example.line.split_whitespace().collect();
    let of_tool = words.split(|word| *word == program.name).skip(1);
    of_tool
        .filter_map(|words| words.iter().find_map(|word| tree.find_subcommand(word)))
        .map(Command::get_name)
        .collect()
}

/// The examples of a sheet, or those of all sheets that use a command.
fn chosen(program: &Program, topic: &str) -> Vec<(Sheet, Example)> {
    let is_topic = topics(program).any(|known| known == topic);
    let tree = (!is_topic).then(program.tree);
    let is_meant = |sheet: &Sheet, example: &Example| match &tree {
        None => sheet.topic == topic,
        Some(tree) => commands(example, program, tree).contains(topic),
    };
    let all = sheet::sheets(program.sheets)
        .flat_map(|sheet| sheet.examples().map(move |example| (sheet, example)));
    all.filter(|(sheet, example)| is_meant(sheet, example)).collect()
}

/// The examples as a shell script: a heading for each sheet, and each line below what it does.
fn script(program: &Program, topic: &str, color: bool) -> String {
    let (mut script, mut last) = (String::new(), None);
    for (sheet, example) in chosen(program, topic) {
        if last.replace(sheet.topic) != Some(sheet.topic) {
            let start = if script.is_empty() { "" } else { "\n" };
            script +=
                &format!("{start}{}\n", Role::Heading.paint(&format!("# {}", sheet.about), color));
        }
        let comment = Role::Faint.paint(&format!("# {}", example.explained), color);
        script += &format!("\n{comment}\n{}\n", example.line);
    }
    script
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::TOOL;

    const SHEETS: &str = "\n## put: Put jobs\n\n```sh\n# Put one\ntool put x\n\n\
                          # Take it elsewhere (exit code 1)\ntool --flag pop | tool put -\n```\n\n\
                          ## run: Run servers\n\n```sh\n# Serve (until Ctrl-C)\ntool serve\n```\n";

    fn program() -> Program {
        let tree = || {
            let commands = ["put", "pop", "serve"].map(Command::new);
            Command::new("tool").subcommands(commands)
        };
        Program { sheets: SHEETS, tree, ..TOOL }
    }

    #[test]
    fn sheets_are_scripts() {
        assert_eq!(
            script(&program(), "put", false),
            "# Put jobs\n\n# Put one\ntool put x\n\n# Take it elsewhere (exit code 1)\n\
             tool --flag pop | tool put -\n"
        );
        assert_eq!(
            script(&program(), "run", false),
            "# Run servers\n\n# Serve (until Ctrl-C)\ntool serve\n"
        );
        assert!(script(&program(), "run", true).ends_with("\x1b[0m\ntool serve\n"));
    }

    #[test]
    fn finds_examples_by_command() {
        let lines =
            |topic| chosen(&program(), topic).iter().map(|(_, e)| e.line).collect::<Vec<_>>();
        assert_eq!(lines("pop"), ["tool --flag pop | tool put -"]);
        assert_eq!(lines("serve"), ["tool serve"]);
        assert_eq!(lines("put").len(), 2);
    }
}
