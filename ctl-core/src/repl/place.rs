//! The cursor's place in a command's grammar, shared by completion and hints.

use std::collections::HashSet;

use clap::{Arg, Command};

use crate::rules::preset::{self, is_letter, is_long};
use crate::text::lexer::Word;

/// A place in the grammar, after some finished words.
#[derive(Debug)]
pub(super) struct Place<'g> {
    /// The innermost command that was named; the whole grammar before a verb.
    pub(super) command: &'g Command,
    /// The option whose value comes next.
    pub(super) pending: Option<&'g Arg>,
    /// The positional argument that comes next.
    pub(super) positional: Option<&'g Arg>,
    /// The ids of the arguments that were given.
    pub(super) given: HashSet<&'g str>,
    /// Whether `--` was given, after which nothing is a flag.
    pub(super) after_dashes: bool,
}

impl<'g> Place<'g> {
    /// Follows `words` through `tree`. `None` if the first word is not a verb.
    pub(super) fn after(tree: &'g Command, words: &[Word]) -> Option<Self> {
        let mut place = Self {
            command: tree,
            pending: None,
            positional: None,
            given: HashSet::new(),
            after_dashes: false,
        };
        let mut values = 0;
        let expanded = expanded(tree, words).map(|(begun, _)| begun);
        for word in expanded.as_deref().unwrap_or(words) {
            let text = String::from_utf8_lossy(&word.bytes);
            if place.pending.take().is_some() {
                continue;
            }
            if !word.literal && !place.after_dashes {
                if text == "--" {
                    place.after_dashes = true;
                    continue;
                }
                if text.len() > 1 && text.starts_with('-') {
                    place.flag(&text);
                    continue;
                }
            }
            if values == 0 && place.command.has_subcommands() {
                place.command = place.command.find_subcommand(text.as_ref())?;
                place.given.clear();
            } else {
                let given = place.nth_positional(values);
                place.given.extend(given.map(|arg| arg.get_id().as_str()));
                values += 1;
            }
        }
        place.positional = place.nth_positional(values);
        Some(place)
    }

    /// Whether a verb comes next.
    pub(super) fn wants_verb(&self) -> bool {
        self.command.has_subcommands() && self.pending.is_none()
    }

    /// Finds an option by its spelling, without its dashes.
    pub(super) fn option(&self, written: &str) -> Option<&'g Arg> {
        match written.strip_prefix("--") {
            Some(long) => self.command.get_arguments().find(|arg| is_long(arg, long)),
            None => {
                let short = written.chars().last()?;
                self.command.get_arguments().find(|arg| is_letter(arg, short))
            }
        }
    }

    fn flag(&mut self, text: &str) {
        let (written, has_value) = match text.split_once('=') {
            Some((written, _)) if text.starts_with("--") => (written, true),
            _ => (text, false),
        };
        if text.starts_with("--") {
            let Some(arg) = self.option(written) else { return };
            self.given.insert(arg.get_id().as_str());
            if takes_value(arg) && !has_value {
                self.pending = Some(arg);
            }
            return;
        }
        // A cluster such as `-yt mail` or `-tmail`: the first letter with a value takes the rest.
        let mut letters = text.chars().skip(1);
        while let Some(letter) = letters.next() {
            let Some(arg) = self.option(&format!("-{letter}")) else { return };
            self.given.insert(arg.get_id().as_str());
            if takes_value(arg) {
                if letters.next().is_none() {
                    self.pending = Some(arg);
                }
                return;
            }
        }
    }

    /// The positional for value number `n`; the last one may take many.
    fn nth_positional(&self, n: usize) -> Option<&'g Arg> {
        let mut left = n;
        for arg in self.command.get_positionals() {
            let most = arg.get_num_args().map_or(1, |range| range.max_values());
            if left < most {
                return Some(arg);
            }
            left -= most;
        }
        None
    }
}

/// The words that a line with a short word stands for, as [`preset::expanded`].
pub(super) fn expanded(grammar: &Command, words: &[Word]) -> Option<(Vec<Word>, Vec<Word>)> {
    let made = |short: &Word, text: &str| Word { bytes: text.into(), ..short.clone() };
    preset::expanded(grammar, words, |word| String::from_utf8_lossy(&word.bytes), made)
}

/// Whether the option is followed by a value.
pub(super) fn takes_value(arg: &Arg) -> bool {
    arg.get_num_args().is_some_and(|range| range.takes_values())
}

/// The name that stands for the value in help texts, such as `TUBE`.
pub(crate) fn value_name(arg: &Arg) -> &str {
    arg.get_value_names()
        .and_then(|names| names.first())
        .map_or_else(|| arg.get_id().as_str(), |name| name.as_str())
}
