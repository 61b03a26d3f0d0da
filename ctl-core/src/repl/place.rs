//! The cursor's place in a command's grammar, shared by completion and hints.

use std::collections::HashSet;

use clap::{Arg, Command};

use crate::rules::preset;
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
                    let (flags, pending) = preset::flags(place.command, &text);
                    place.given.extend(flags.iter().map(|flag| flag.get_id().as_str()));
                    place.pending = pending;
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

/// The name that stands for the value in help texts, such as `TUBE`.
pub(crate) fn value_name(arg: &Arg) -> &str {
    arg.get_value_names()
        .and_then(|names| names.first())
        .map_or_else(|| arg.get_id().as_str(), |name| name.as_str())
}
