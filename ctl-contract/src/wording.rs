//! The wording of help texts.

use clap::Command;
use ctl_core::repl::guest::Interactive;
use ctl_core::repl::tree;
use ctl_core::tool::cli;

/// Number of words of the longest phrase that is searched for.
const LONGEST: usize = 5;

/// Number of letters of the shortest part of a word that counts.
const SHORTEST: usize = 3;

/// No phrase appears twice in a row, and no part of a word three times.
pub fn help_texts_do_not_repeat_themselves<T: Interactive>() {
    for tree in [cli::tree::<T>(), tree::grammar::<T>()] {
        check(&tree);
    }
}

fn check(command: &Command) {
    for text in texts(command) {
        let found = repetition(&text);
        assert!(found.is_none(), "{}: {found:?} is repeated in {text:?}", command.get_name());
    }
    command.get_subcommands().for_each(check);
}

/// Every text of a command's help.
fn texts(command: &Command) -> Vec<String> {
    let own = [
        command.get_about(),
        command.get_long_about(),
        command.get_before_help(),
        command.get_after_help(),
        command.get_after_long_help(),
    ];
    let of_arguments =
        command.get_arguments().flat_map(|arg| [arg.get_help(), arg.get_long_help()]);
    let mut texts: Vec<String> =
        own.into_iter().chain(of_arguments).flatten().map(ToString::to_string).collect();
    for arg in command.get_arguments() {
        let values = arg.get_possible_values();
        texts.extend(values.iter().filter_map(|value| value.get_help()).map(ToString::to_string));
    }
    texts
}

/// The first phrase or part of a word that follows itself.
fn repetition(text: &str) -> Option<String> {
    pieces(text).iter().find_map(|piece| {
        let words: Vec<&str> = piece.split_whitespace().collect();
        twice(&words).or_else(|| words.iter().find_map(|word| thrice(word)))
    })
}

/// Pieces of text that are compared separately: indented lines, and the columns of such a line.
fn pieces(text: &str) -> Vec<String> {
    let mut pieces = vec![String::new()];
    for line in text.lines() {
        if line.is_empty() || line.starts_with(' ') {
            pieces.extend(line.split("  ").map(str::to_owned));
            pieces.push(String::new());
        } else if let Some(piece) = pieces.last_mut() {
            piece.push_str(line);
            piece.push(' ');
        }
    }
    // An idiom, also in front of another "by".
    pieces.iter().map(|piece| piece.replace("one by one", "one-by-one")).collect()
}

fn twice(words: &[&str]) -> Option<String> {
    (1..=LONGEST).find_map(|length| {
        words.windows(2 * length).find_map(|window| {
            let (first, second) = window.split_at(length);
            let (first, second) = (first.join(" "), second.join(" "));
            let second = second.trim_end_matches(|end: char| end.is_ascii_punctuation());
            let repeats = first.eq_ignore_ascii_case(second);
            (repeats && first.contains(char::is_alphabetic)).then(|| first.clone())
        })
    })
}

fn thrice(word: &str) -> Option<String> {
    let letters: Vec<char> = word.chars().collect();
    (SHORTEST..=letters.len() / 3).find_map(|length| {
        letters.windows(3 * length).find_map(|window| {
            let (part, rest) = window.split_at(length);
            let repeats = rest.chunks(length).all(|other| other == part);
            (repeats && part.iter().all(|letter| letter.is_alphabetic()))
                .then(|| part.iter().collect())
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_repeated_words_phrases_and_endings() {
        let found = |text: &str| repetition(text);
        assert_eq!(found("Delete the the job").as_deref(), Some("the"));
        assert_eq!(found("Exit codes that bury the job the job").as_deref(), Some("the job"));
        assert_eq!(found("Set aside until\nkicked until kicked.").as_deref(), Some("until kicked"));
        assert_eq!(found("  pull     a message of beforehandhandhand").as_deref(), Some("hand"));
    }

    #[test]
    fn lists_columns_numbers_and_idioms_are_not_repetition() {
        assert_eq!(repetition("  put      put a job\n  put  2"), None);
        assert_eq!(repetition("Protocol: shutdown, shutdown graceful."), None);
        assert_eq!(repetition("kicked one by one by id"), None);
        assert_eq!(repetition("The tube [default: default]"), None);
        assert_eq!(repetition("'put 0 0 60 5' hello"), None);
        assert_eq!(repetition("Examples:\n  bsctl stats\n  bsctl stats --rates"), None);
    }
}
