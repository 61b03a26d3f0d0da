//! The command `help`: everything, a topic, or a command.

use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::error::ErrorKind;
use clap::{Args, Command};

use crate::error::{CliError, Exit};
use crate::help::{self, Extent, examples, tip, topics};
use crate::output::Output;
use crate::program::Program;

/// Arguments of `help`.
#[derive(Debug, Args)]
pub struct HelpArgs {
    /// A topic or a command; without one, the commands are listed
    #[arg(value_name = "TOPIC", hide_possible_values = true)]
    topic: Option<String>,

    /// A cheat sheet or a command for `examples`, or a command below another one
    #[arg(value_name = "MORE", hide_possible_values = true)]
    more: Vec<String>,

    /// Show all topics
    #[arg(long, conflicts_with = "topic")]
    all: bool,
}

/// The command with what there is help on.
pub(crate) fn with_topics(command: Command, program: &Program, tree: &Command) -> Command {
    let about_topics =
        topics::all(program).map(|(name, about)| PossibleValue::new(name).help(about));
    let commands = help::visible(tree).flat_map(|command| {
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        let aliases =
            command.get_all_aliases().map(|alias| PossibleValue::new(alias.to_owned()).hide(true));
        [PossibleValue::new(command.get_name().to_owned()).help(about)].into_iter().chain(aliases)
    });
    let below = tree.get_subcommands().flat_map(Command::get_subcommands);
    let hidden = help::visible(tree)
        .chain(below)
        .map(|command| PossibleValue::new(command.get_name().to_owned()).hide(true));
    let sheets: Vec<&str> = examples::topics(program).collect();
    let hidden: Vec<_> = hidden.filter(|value| !sheets.contains(&value.get_name())).collect();
    let more = sheets.iter().copied().map(PossibleValue::new).chain(hidden);
    let (topic, more) = (
        PossibleValuesParser::new(
            about_topics.chain(commands).chain([PossibleValue::new("help").hide(true)]),
        ),
        PossibleValuesParser::new(more),
    );
    let (name, first) = (program.name, sheets.first().unwrap_or(&""));
    command
        .mut_arg("topic", |arg| arg.value_parser(topic))
        .mut_arg("more", |arg| arg.value_parser(more))
        .after_help(format!(
            "Examples:\n  {name} help options\n  {name} help examples {first}\n  {name} help ping"
        ))
}

/// Runs `help`.
///
/// # Errors
/// There is no such command below another one: exit 2. Write failures.
pub fn run(out: &mut Output, program: &Program, args: &HelpArgs) -> Result<Exit, CliError> {
    let color = out.style.color;
    let text = match &args.topic {
        None if args.all => {
            format!("{}\n{}", help::overview(program), topics::everything(program))
        }
        None => help::overview(program),
        Some(topic) => {
            let more = args.more.first().map(String::as_str);
            match topics::text(program, topic, more, color) {
                Some(text) => text,
                None => of_command(program, [topic].into_iter().chain(&args.more), color)?,
            }
        }
    };
    out.text(&text)?;
    Ok(Exit::Done)
}

/// The help of the command that these words name.
fn of_command<'w>(
    program: &Program,
    words: impl Iterator<Item = &'w String>,
    color: bool,
) -> Result<String, CliError> {
    let words: Vec<&str> = words.map(String::as_str).collect();
    let line = [program.name].into_iter().chain(words.iter().copied()).chain(["--help"]);
    let shown = help::shown(program, Extent::Whole, help::width()).try_get_matches_from(line).err();
    let shown = shown.filter(|error| error.kind() == ErrorKind::DisplayHelp).ok_or_else(|| {
        let words = words.join(" ");
        CliError::usage(format!("there is no help on `{words}`"))
            .hint(format!("{} help", program.name))
    })?;
    Ok(tip::text(&shown, color))
}
