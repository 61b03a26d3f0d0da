//! Parses a statement by the tool's grammar; errors take one line.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgMatches, Command};

use super::lexer::Word;
use super::literal;
use super::place::value_name;
use crate::error::CliError;
use crate::tool::tip;

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
    let verb = words.first().map(|word| String::from_utf8_lossy(&word.bytes).into_owned());
    let bodies = verb.and_then(|verb| grammar.find_subcommand(&verb)).is_some_and(takes_bodies);
    let arguments = literal::to_arguments(words, bodies).map_err(CliError::usage)?;
    match grammar.try_get_matches_from_mut(arguments) {
        Ok(matches) => Ok(Parsed::Matches(matches)),
        Err(error) => match error.kind() {
            ErrorKind::InvalidSubcommand => Err(unknown_verb(grammar, &error)),
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

fn unknown_verb(grammar: &Command, error: &clap::Error) -> CliError {
    let verb = match error.get(ContextKind::InvalidSubcommand) {
        Some(ContextValue::String(verb)) => verb.as_str(),
        _ => "",
    };
    let names = grammar.get_subcommands().filter(|command| !command.is_hide_set());
    let spellings =
        names.flat_map(|c| std::iter::once(c.get_name()).chain(c.get_visible_aliases()));
    CliError::usage(match closest(verb, spellings) {
        Some(meant) => format!("unknown command `{verb}`: did you mean {meant}?"),
        None => format!("unknown command `{verb}`"),
    })
    .hint("help")
}

/// The word that was probably meant: a few letters more, fewer, wrong or swapped, and some of them right. A sign such
/// as `?` is not a misspelt word, nor is a word a misspelt sign.
pub(crate) fn closest<'g>(
    typed: &str,
    spellings: impl Iterator<Item = &'g str>,
) -> Option<&'g str> {
    let letters = typed.chars().count();
    let tolerance = if letters <= 4 { 1 } else { 2 }.min(letters.saturating_sub(1));
    spellings
        .filter(|name| name.chars().any(char::is_alphanumeric))
        .map(|name| (distance(typed, name), name))
        .filter(|(distance, _)| *distance <= tolerance)
        // If there are several, prefer an unfinished word.
        .min_by_key(|(distance, name)| (*distance, !name.starts_with(typed)))
        .map(|(_, name)| name)
}

/// Number of letters that must be added, removed, changed or swapped with their neighbour.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows: [Vec<usize>; 3] = [Vec::new(), Vec::new(), (0..=b.len()).collect()];
    for (i, from) in a.iter().enumerate() {
        rows.rotate_left(1);
        let [before, above, row] = &mut rows;
        *row = vec![i + 1];
        for (j, to) in b.iter().enumerate() {
            let at = |row: &[usize], j: usize| row.get(j).copied().unwrap_or(usize::MAX - 1);
            let changed = at(above, j) + usize::from(from != to);
            let mut least = changed.min(at(above, j + 1) + 1).min(at(row, j) + 1);
            let swapped = i > 0 && j > 0 && a.get(i - 1) == Some(to) && b.get(j - 1) == Some(from);
            if swapped {
                least = least.min(at(before, j - 1) + 1);
            }
            row.push(least);
        }
    }
    rows[2].last().copied().unwrap_or_default()
}

fn refused(error: &clap::Error, words: &[Word]) -> CliError {
    let context = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        Some(ContextValue::Strings(all)) if !all.is_empty() => Some(all.join(", ")),
        _ => None,
    };
    // The first paragraph says what is wrong; usage and tips follow it.
    let text = tip::text(error);
    let lines = text.trim_start_matches("error: ").lines().take_while(|line| !line.is_empty());
    let said: Vec<&str> = lines.map(str::trim).collect();
    let mut refused = CliError::usage(literal::unmark(&said.join(" "), words));
    if let Some(meant) = context(ContextKind::SuggestedArg) {
        refused.message.push_str(&format!(" (did you mean {meant}?)"));
    }
    match words.first().map(|word| String::from_utf8_lossy(&word.bytes)) {
        Some(verb) => refused.hint(format!("help {verb}")),
        None => refused,
    }
}

#[cfg(test)]
mod tests {
    use clap::Arg;

    use super::super::lexer::next_statement;
    use super::*;

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
    fn unknown_verbs_and_flags_name_what_was_meant() {
        assert_eq!(message("pt x"), "unknown command `pt`: did you mean put?");
        assert_eq!(message("xyz"), "unknown command `xyz`");
        assert!(message("put --tub x y").contains("did you mean --tube?"));
    }

    #[test]
    fn one_letter_and_signs_are_no_misspelt_words() {
        let signs = ["?", "!", "\\e"].map(Command::new);
        let grammar = grammar().subcommands(signs).subcommands(["ls", "use"].map(Command::new));
        for (typed, meant) in [
            ("x", None),
            ("l", None),
            ("??", None),
            ("", None),
            ("sl", Some("ls")),
            ("lss", Some("ls")),
            ("e", None),
            ("us", Some("use")),
        ] {
            let names = grammar.get_subcommands().map(Command::get_name);
            assert_eq!(closest(typed, names), meant, "{typed}");
        }
    }

    #[test]
    fn distance_counts_letters() {
        for (a, b, letters) in [
            ("put", "put", 0),
            ("", "put", 3),
            ("pt", "put", 1),
            ("sttas", "stats", 1),
            ("resrev", "reserve", 2),
            ("use", "kick", 4),
        ] {
            assert_eq!(distance(a, b), letters, "{a} {b}");
            assert_eq!(distance(b, a), letters, "{b} {a}");
        }
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
    fn help_of_a_command_is_text() {
        let words = next_statement(b"put --help").unwrap().words;
        assert!(
            matches!(parse(&mut grammar(), &words), Ok(Parsed::Help(text)) if text.contains("Put"))
        );
    }
}
