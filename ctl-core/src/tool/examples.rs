//! The command `examples`: cheat sheets in the terminal. A sheet reads as a shell script with comments.

use std::collections::BTreeSet;

use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Args, Command};
use serde_json::Value;

use crate::error::{CliError, Exit};
use crate::output::{Column, Output, Record, Shape};
use crate::program::Program;
use crate::program::sheet::{self, Example, Sheet};
use crate::text::color::Role;

/// Arguments of `examples`.
#[derive(Debug, Args)]
pub struct ExamplesArgs {
    /// A topic, or a command for the examples that use it; without one, the topics are listed
    #[arg(value_name = TOPIC)]
    topic: Option<String>,
}

/// The value name of the topic.
const TOPIC: &str = "TOPIC";

static TOPICS: Shape =
    Shape::rows("topic", &[Column::new("topic", TOPIC), Column::new("about", "ABOUT")]);

static EXAMPLES: Shape = Shape::rows(
    "command",
    &[
        Column::new("topic", TOPIC),
        Column::new("about", "ABOUT"),
        Column::new("command", "COMMAND"),
        Column::new("exit", "EXIT"),
    ],
);

/// The command with the topics of this tool.
pub(crate) fn with_topics(command: Command, program: &Program, tree: &Command) -> Command {
    let name = program.name;
    let topics: BTreeSet<&str> = sheets(program).map(|sheet| sheet.topic).collect();
    let commands: BTreeSet<&str> = examples(program)
        .flat_map(|(_, example)| commands(&example, program, tree))
        .filter(|command| !topics.contains(command))
        .collect();
    let topics = sheets(program).map(|sheet| PossibleValue::new(sheet.topic).help(sheet.about));
    let commands =
        commands.into_iter().map(|command| PossibleValue::new(command.to_owned()).hide(true));
    let parser = PossibleValuesParser::new(topics.chain(commands));
    let topic = sheets(program).next().map_or("", |sheet| sheet.topic);
    command.mut_arg("topic", |arg| arg.value_parser(parser)).after_help(format!(
        "A sheet is a shell script: its command lines are ready to copy, its comments say what they do and, unless it is 0,\n\
         the exit code. With -o json, each example is an object.\n\n\
         Examples:\n  {name} examples\n  {name} examples {topic}\n  {name} examples serve -o json"
    ))
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

fn sheets(program: &Program) -> impl Iterator<Item = Sheet> {
    sheet::sheets(program.sheets)
}

fn examples(program: &Program) -> impl Iterator<Item = (Sheet, Example)> {
    sheets(program).flat_map(|sheet| sheet.examples().map(move |example| (sheet, example)))
}

/// Runs `examples`.
///
/// # Errors
/// Write failures.
pub fn run(
    out: &mut Output,
    messages: &crate::output::messages::Messages,
    program: &Program,
    args: &ExamplesArgs,
) -> Result<Exit, CliError> {
    match &args.topic {
        None => {
            list(out, program)?;
            if out.style.terminal {
                messages.note(format!("{} examples TOPIC shows one of them", program.name));
            }
        }
        Some(topic) if out.style.format.takes_apart() => records(out, program, topic)?,
        Some(topic) => {
            let script = script(program, topic, out.style.color);
            out.text(&script)?;
        }
    }
    Ok(Exit::Done)
}

fn list(out: &mut Output, program: &Program) -> Result<(), CliError> {
    let mut list = out.list(&TOPICS)?;
    for sheet in sheets(program) {
        list.push(Record::new().with("topic", sheet.topic).with("about", sheet.about))?;
    }
    list.finish()
}

fn records(out: &mut Output, program: &Program, topic: &str) -> Result<(), CliError> {
    let mut list = out.list(&EXAMPLES)?;
    for (sheet, example) in chosen(program, topic) {
        let exit = example.exit().map_or(Value::Null, Value::from);
        let record = Record::new().with("topic", sheet.topic).with("about", example.about());
        list.push(record.with("command", example.line).with("exit", exit))?;
    }
    list.finish()
}

/// The examples of a sheet, or those of all sheets that use a command.
fn chosen(program: &Program, topic: &str) -> Vec<(Sheet, Example)> {
    let is_topic = sheets(program).any(|sheet| sheet.topic == topic);
    let tree = (!is_topic).then(program.tree);
    let is_meant = |sheet: &Sheet, example: &Example| match &tree {
        None => sheet.topic == topic,
        Some(tree) => commands(example, program, tree).contains(topic),
    };
    examples(program).filter(|(sheet, example)| is_meant(sheet, example)).collect()
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
            let commands = ["put", "pop", "serve", "examples"].map(Command::new);
            Command::new("tool").subcommands(commands)
        };
        Program { sheets: SHEETS, tree, ..TOOL }
    }

    #[test]
    fn a_sheet_is_a_script() {
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
    fn a_command_finds_the_examples_that_use_it() {
        let lines =
            |topic| chosen(&program(), topic).iter().map(|(_, e)| e.line).collect::<Vec<_>>();
        assert_eq!(lines("pop"), ["tool --flag pop | tool put -"]);
        assert_eq!(lines("serve"), ["tool serve"]);
        assert_eq!(lines("put").len(), 2);
    }

    #[test]
    fn topics_and_their_commands_can_be_typed_and_topics_are_offered() {
        let command = Command::new("examples").arg(clap::Arg::new("topic"));
        let mut command = with_topics(command, &program(), &(program().tree)());
        let offered = command.get_arguments().find(|arg| arg.get_id() == "topic").unwrap();
        let offered = offered.get_possible_values();
        let shown: Vec<_> =
            offered.iter().filter(|v| !v.is_hide_set()).map(|v| v.get_name()).collect();
        assert_eq!(shown, ["put", "run"]);
        for (topic, fits) in [("put", true), ("pop", true), ("examples", false)] {
            let line = ["examples", topic];
            assert_eq!(command.try_get_matches_from_mut(line).is_ok(), fits, "{topic}");
        }
    }
}
