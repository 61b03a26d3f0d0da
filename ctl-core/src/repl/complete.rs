//! Tab completion: verbs, flags and fixed values from the grammar, files after `@`, and all names that the tool knows.

use std::fs;
use std::path::MAIN_SEPARATOR;

use clap::builder::ValueHint;
use clap::{Arg, Command};

use super::place::{Place, value_name};
use crate::rules::filter::Field;
use crate::rules::metrics::{self, Measurable};
use crate::rules::{filter, preset, thresholds};
use crate::text::lexer::{self, Partial};

/// A value to complete.
#[derive(Debug)]
#[non_exhaustive]
pub struct Wanted<'a> {
    /// The verb's name in the grammar.
    pub verb: &'a str,
    /// The name that stands for the value in help texts, such as `TUBE`.
    pub value_name: &'a str,
    /// Its typed part.
    pub typed: &'a str,
    /// The values typed before it on this line, without the verb.
    pub before: Vec<String>,
}

/// The names that a tool knows.
pub trait Values {
    /// Candidates for the value; those that do not start with what was typed are left out later. Must return at once,
    /// or after [`names::DEADLINE`](super::names::DEADLINE) at the latest.
    fn values(&self, wanted: &Wanted<'_>) -> Vec<String>;

    /// The fields that filters of this verb can name.
    fn filters(&self, verb: &str) -> &'static [Field];

    /// The metrics that thresholds can name.
    fn checks(&self) -> &'static [Measurable];
}

/// One way to continue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The text in the list of candidates.
    pub shown: String,
    /// The replacement of the text from the start of the word to the cursor.
    pub replacement: String,
}

/// The candidates at the end of `text` (the line up to the cursor), and where the word they replace
/// starts. Empty when there is nothing to offer.
pub fn complete(grammar: &Command, values: &dyn Values, text: &str) -> (usize, Vec<Candidate>) {
    let Some(partial) = lexer::partial(text.as_bytes()) else {
        return (text.len(), Vec::new());
    };
    let found = find(grammar, values, &partial);
    let candidates = found.map(|found| candidates(found, partial.literal));
    (partial.start, candidates.unwrap_or_default())
}

fn candidates(Found { before, what }: Found, in_quotes: bool) -> Vec<Candidate> {
    let mut found: Vec<Candidate> = match what {
        What::Flags(flags) => flags.into_iter().map(Candidate::from).collect(),
        What::Verbs(verbs) => {
            let whole = |(name, _)| Candidate { replacement: format!("{name} "), shown: name };
            verbs.into_iter().map(whole).collect()
        }
        What::Names(names) => names.iter().map(|name| word(name, in_quotes)).collect(),
        What::Beginnings(words) => words.iter().map(|word| open(word, in_quotes)).collect(),
        What::Files(typed) => files(&typed),
    };
    for candidate in &mut found {
        candidate.replacement.insert_str(0, &before);
    }
    found
}

/// A completion of a word.
#[derive(Debug)]
pub(crate) struct Found {
    /// The part of the word before it, such as `--output=` or `@`.
    pub(crate) before: String,
    /// It.
    pub(crate) what: What,
}

/// See [`Found`].
#[derive(Debug)]
pub(crate) enum What {
    /// Flags of the command.
    Flags(Vec<Flag>),
    /// Commands, with their descriptions.
    Verbs(Vec<(String, String)>),
    /// Names and fixed values.
    Names(Vec<String>),
    /// Completions that continue without a blank.
    Beginnings(Vec<String>),
    /// Files that begin with this.
    Files(String),
}

/// A flag that can be given.
#[derive(Debug)]
pub(crate) struct Flag {
    /// As it is written, with its dashes.
    pub(crate) name: String,
    /// The name of its value, if it has one.
    pub(crate) value: Option<String>,
    /// What it does.
    pub(crate) about: String,
}

impl From<Flag> for Candidate {
    fn from(Flag { name, value, .. }: Flag) -> Self {
        let replacement = format!("{name} ");
        let shown = value.map_or_else(|| name.clone(), |value| format!("{name} {value}"));
        Self { shown, replacement }
    }
}

/// The completions of the word at the end; none if there is nothing to offer.
pub(crate) fn find(grammar: &Command, values: &dyn Values, partial: &Partial) -> Option<Found> {
    let typed = String::from_utf8(partial.current.clone()).ok()?;
    let words = partial.words.as_slice();
    let place = Place::after(grammar, words)?;
    let words_as_text = || {
        let text = |w: &lexer::Word| String::from_utf8_lossy(&w.bytes).into_owned();
        words.iter().skip(1).map(text).collect()
    };
    let value = |arg: &Arg, typed: &str| {
        let wanted = Wanted {
            verb: place.command.get_name(),
            value_name: value_name(arg),
            typed,
            before: words_as_text(),
        };
        value_of(arg, values, &wanted)
    };
    let whole = |what| Some(Found { before: String::new(), what });
    if let Some(arg) = place.pending {
        return whole(value(arg, &typed));
    }
    if !partial.literal && typed.starts_with('-') && !place.after_dashes {
        if let Some((option, text)) = typed.split_once('=').filter(|_| typed.starts_with("--")) {
            let what = value(preset::flags(place.command, option).0.first()?, text);
            return Some(Found { before: format!("{option}="), what });
        }
        return whole(What::Flags(flags(&place, &typed)));
    }
    if place.wants_verb() {
        return whole(What::Verbs(verbs(place.command, &typed)));
    }
    if let Some(file) = typed.strip_prefix('@').filter(|_| !partial.literal) {
        return Some(Found { before: "@".to_owned(), what: What::Files(file.to_owned()) });
    }
    whole(value(place.positional?, &typed))
}

fn verbs(command: &Command, typed: &str) -> Vec<(String, String)> {
    let mut names: Vec<(String, String)> = Vec::new();
    // Short words only if one is begun, so that the list stays short.
    let is_offered =
        |sub: &&Command| !(sub.is_hide_set() || typed.is_empty() && preset::is_short(sub));
    for sub in command.get_subcommands().filter(is_offered) {
        let about = sub.get_about().map(ToString::to_string).unwrap_or_default();
        if sub.get_name().starts_with(typed) {
            names.push((sub.get_name().to_owned(), about));
        } else if !typed.is_empty() {
            // An alias only if nothing else of this command matches, so that the list stays short.
            let alias = sub.get_visible_aliases().find(|alias| alias.starts_with(typed));
            names.extend(alias.map(|alias| (alias.to_owned(), about)));
        }
    }
    names.sort_unstable();
    names
}

fn flags(place: &Place<'_>, typed: &str) -> Vec<Flag> {
    let mut found = Vec::new();
    for arg in place.command.get_arguments().filter(|arg| !arg.is_hide_set()) {
        let repeatable =
            matches!(arg.get_action(), clap::ArgAction::Append | clap::ArgAction::Count);
        if place.given.contains(arg.get_id().as_str()) && !repeatable {
            continue;
        }
        let long = arg.get_long().map(|long| format!("--{long}"));
        let short = arg.get_short().map(|short| format!("-{short}"));
        let fits = |name: &String| name.starts_with(typed);
        // `-` alone offers the long names, which are self-explanatory.
        if let Some(name) = long.clone().filter(fits).or_else(|| short.filter(fits)) {
            let value = preset::takes_value(arg).then(|| value_name(arg).to_owned());
            let about = arg.get_help().map(ToString::to_string).unwrap_or_default();
            found.push(Flag { name, value, about });
        }
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    found
}

fn value_of(arg: &Arg, values: &dyn Values, wanted: &Wanted<'_>) -> What {
    let fields = match wanted.value_name {
        filter::VALUE => Some(values.filters(wanted.verb).to_vec()),
        thresholds::VALUE => Some(metrics::fields(values.checks(), wanted.verb)),
        _ => None,
    };
    if let Some(fields) = fields {
        let goes = filter::complete::continued(&fields, wanted.typed);
        return if goes.is_open { What::Beginnings(goes.on) } else { What::Names(goes.on) };
    }
    let fixed = arg.get_possible_values();
    let mut names: Vec<String> = if fixed.is_empty() {
        values.values(wanted)
    } else {
        let shown = fixed.iter().filter(|value| !value.is_hide_set());
        shown.map(|value| value.get_name().to_owned()).collect()
    };
    let is_file = matches!(arg.get_value_hint(), ValueHint::FilePath | ValueHint::AnyPath)
        || wanted.value_name.starts_with("FILE");
    if names.is_empty() && is_file {
        return What::Files(wanted.typed.to_owned());
    }
    names.retain(|name| name.starts_with(wanted.typed));
    if !names.is_empty() && names.iter().all(|name| name.ends_with('=')) {
        return What::Beginnings(names);
    }
    What::Names(names)
}

/// A name as a word of the line: quoted if necessary; inside an open quote, only escaped.
fn word(name: &str, in_quotes: bool) -> Candidate {
    let quoted = lexer::quote(name.as_bytes());
    let inner = quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    let replacement = match (in_quotes, inner) {
        (true, Some(inner)) => inner.to_owned(),
        (true, None) => name.to_owned(),
        (false, _) => format!("{quoted} "),
    };
    Candidate { shown: crate::text::escape::line(name).into_owned(), replacement }
}

/// The beginning of a word of the line, which continues after it.
fn open(name: &str, in_quotes: bool) -> Candidate {
    let quoted = lexer::quote(name.as_bytes());
    let is_read_as_it_is = lexer::next_statement(name.as_bytes())
        .is_ok_and(|read| matches!(read.words.as_slice(), [word] if word.bytes == name.as_bytes()));
    let replacement = match quoted.strip_suffix('"') {
        _ if is_read_as_it_is && !in_quotes => name,
        Some(begun) if in_quotes => begun.strip_prefix('"').unwrap_or(begun),
        Some(begun) => begun,
        None => name,
    };
    Candidate {
        shown: crate::text::escape::line(name).into_owned(),
        replacement: replacement.to_owned(),
    }
}

/// Files whose names start with `typed`.
fn files(typed: &str) -> Vec<Candidate> {
    let (folder, start) = match typed.rfind(['/', MAIN_SEPARATOR]) {
        Some(at) => typed.split_at(at + 1),
        None => ("", typed),
    };
    let listed = fs::read_dir(if folder.is_empty() { "." } else { folder });
    let mut found: Vec<Candidate> = listed
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            if !name.starts_with(start) || (name.starts_with('.') && start.is_empty()) {
                return None;
            }
            let is_folder = entry.path().is_dir();
            let path = format!("{folder}{name}{}", if is_folder { "/" } else { "" });
            let quoted = lexer::quote(path.as_bytes());
            let end = if is_folder { "" } else { " " };
            Some(Candidate {
                shown: crate::text::escape::line(&name).into_owned(),
                replacement: format!("{quoted}{end}"),
            })
        })
        .collect();
    found.sort_by(|a, b| a.shown.cmp(&b.shown));
    found
}

#[cfg(test)]
mod tests;
