//! Parses a statement by the tool's grammar; errors take one line.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgMatches, Command};

use super::place::{expanded, value_name};
use crate::error::CliError;
use crate::help::tip;
use crate::text::lexer::Word;
use crate::text::literal;
use crate::text::spelling::or_else;

/// A parsed statement.
#[derive(Debug)]
pub enum Parsed {
    /// A command with its arguments.
    Matches(ArgMatches),
    /// `--help` was asked for: this is the text.
    Help(String),
}

/// Reads the words of a statement.
///
/// # Errors
/// They do not match the grammar: exit 2, with a suggestion.
pub fn parse(grammar: &mut Command, words: &[Word]) -> Result<Parsed, CliError> {
    let expanded = expanded(grammar, words).map(|(begun, end)| [begun, end].concat());
    let words = expanded.as_deref().unwrap_or(words);
    let verb = words.first().map(|word| String::from_utf8_lossy(&word.bytes).into_owned());
    let bodies = verb.and_then(|verb| grammar.find_subcommand(&verb)).is_some_and(takes_bodies);
    let arguments = literal::to_arguments(words, bodies).map_err(CliError::usage)?;
    match grammar.try_get_matches_from_mut(arguments) {
        Ok(matches) => Ok(Parsed::Matches(matches)),
        Err(error) => match error.kind() {
            ErrorKind::InvalidSubcommand => Err(unknown_verb(grammar, &error, words)),
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
                Ok(Parsed::Help(error.render().to_string()))
            }
            _ => Err(refused(&error, words)),
        },
    }
}

/// Whether the command takes bodies as arguments.
fn takes_bodies(command: &Command) -> bool {
    command.get_positionals().any(|arg| value_name(arg).starts_with("BODY"))
}

fn unknown_verb(grammar: &Command, error: &clap::Error, words: &[Word]) -> CliError {
    let verb = match error.get(ContextKind::InvalidSubcommand) {
        Some(ContextValue::String(verb)) => verb.as_str(),
        _ => "",
    };
    let first = words.first().map(|word| String::from_utf8_lossy(&word.bytes));
    // The word after a command that has its own commands.
    let outer = first.and_then(|first| grammar.find_subcommand(&*first));
    let names = outer.unwrap_or(grammar).get_subcommands();
    let spellings = names
        .filter(|command| !command.is_hide_set())
        .flat_map(|c| std::iter::once(c.get_name()).chain(c.get_visible_aliases()));
    let meant = or_else(verb, spellings);
    match outer.map(Command::get_name) {
        Some(outer) => CliError::usage(format!("`{outer}` has no command `{verb}`{meant}"))
            .hint(format!("help {outer}")),
        None => CliError::usage(format!("unknown command `{verb}`{meant}")).hint("help"),
    }
}

fn refused(error: &clap::Error, words: &[Word]) -> CliError {
    let context = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        Some(ContextValue::Strings(all)) if !all.is_empty() => Some(all.join(", ")),
        _ => None,
    };
    let mut refused = CliError::usage(literal::unmark(&tip::sentence(error), words));
    if let Some(meant) = context(ContextKind::SuggestedArg)
        && context(ContextKind::InvalidArg).is_some_and(|wrong| tip::is_near(&wrong, &meant))
    {
        refused.message.push_str(&format!(" (did you mean {meant}?)"));
    }
    let help = words.first().map(|verb| format!("help {}", String::from_utf8_lossy(&verb.bytes)));
    help.into_iter().fold(refused, CliError::hint)
}

#[cfg(test)]
mod tests {
    use clap::Arg;

    use super::*;
    use crate::rules::preset;
    use crate::text::lexer::next_statement;

    fn grammar() -> Command {
        Command::new("t").no_binary_name(true).subcommand_required(true).subcommand(
            Command::new("put")
                .about("Put")
                .arg(Arg::new("tube").short('t').long("tube"))
                .arg(Arg::new("n").short('n').value_parser(clap::value_parser!(u32)))
                .arg(Arg::new("body").value_name("BODY").required(true)),
        )
    }

    fn message(text: &str) -> String {
        let words = next_statement(text.as_bytes()).unwrap().words;
        parse(&mut grammar(), &words).unwrap_err().message
    }

    #[test]
    fn suggests_close_verbs_and_flags() {
        assert_eq!(message("pt x"), "unknown command `pt`: did you mean put?");
        assert_eq!(message("xyz"), "unknown command `xyz`");
        assert!(message("put --tub x y").contains("did you mean --tube?"));
    }

    #[test]
    fn a_wrong_word_after_a_command_is_not_called_a_command() {
        let on = Command::new("on").about("On");
        let mut grammar = grammar().subcommand(Command::new("set").subcommand(on));
        let mut refused = |text: &[u8]| {
            let words = next_statement(text).unwrap().words;
            parse(&mut grammar, &words).unwrap_err()
        };
        let near = refused(b"set onn");
        assert_eq!(near.message, "`set` has no command `onn`: did you mean on?");
        assert_eq!(near.hints, ["help set"]);
        assert_eq!(refused(b"set put").message, "`set` has no command `put`");
        assert_eq!(refused(b"sett").message, "unknown command `sett`: did you mean set?");
    }

    #[test]
    fn errors_are_one_line_without_the_usage() {
        for (text, said) in
            [("put", "BODY"), ("put -n x y", "invalid value 'x'"), ("put a b", "'b'")]
        {
            let message = message(text);
            assert!(message.contains(said) && !message.contains("Usage"), "{message}");
            assert_eq!(message.lines().count(), 1, "{message}");
        }
    }

    #[test]
    fn expands_aliases() {
        let mut grammar = grammar().subcommand(preset::grammar(("note", "put ... note")));
        let words = next_statement(b"note -t mail").unwrap().words;
        let Ok(Parsed::Matches(matches)) = parse(&mut grammar, &words) else { panic!("note") };
        let put = matches.subcommand_matches("put").unwrap();
        let value = |id| put.get_one::<String>(id).map(String::as_str);
        assert_eq!((value("tube"), value("body")), (Some("mail"), Some("note")));
        let words = next_statement(b"note --help").unwrap().words;
        let help = parse(&mut grammar, &words);
        assert!(matches!(help, Ok(Parsed::Help(text)) if text.contains("Put")));
    }

    #[test]
    fn help_of_a_command_is_text() {
        let words = next_statement(b"put --help").unwrap().words;
        assert!(
            matches!(parse(&mut grammar(), &words), Ok(Parsed::Help(text)) if text.contains("Put"))
        );
    }
}
