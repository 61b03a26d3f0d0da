//! Which messages are shown: their severity, and the filter of `-q`, `-v` and the tool's log variable.

use crate::error::CliError;
use crate::system::env::Environment;

/// The severity of a message. `RUST_LOG` calls both the fourth and the fifth `debug`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Always shown.
    Error,
    /// Needs attention.
    Warn,
    /// Information for the user; the default.
    Info,
    /// `-v`: decisions, such as the chosen address and the reason.
    Decision,
    /// `-vv`: retries and reconnects.
    Debug,
    /// `-vvv`: protocol lines.
    Trace,
}

impl Level {
    /// As a filter calls it; a decision is a message for developers there.
    pub(super) fn word(self) -> &'static str {
        let level = if self == Self::Decision { Self::Debug } else { self };
        WORDS.iter().find(|(_, of)| *of == Some(level)).map_or("", |(word, _)| word)
    }
}

/// The words of levels; that without one is for nothing at all.
const WORDS: [(&str, Option<Level>); 6] = [
    ("off", None),
    ("error", Some(Level::Error)),
    ("warn", Some(Level::Warn)),
    ("info", Some(Level::Info)),
    ("debug", Some(Level::Debug)),
    ("trace", Some(Level::Trace)),
];

/// Which messages are shown: `debug`, or `bsctl=info,bsctl::protocol=trace`, as in `RUST_LOG`.
#[derive(Debug, Clone)]
pub struct Filter {
    /// Target prefixes with their levels; the longest match applies.
    rules: Vec<(String, Option<Level>)>,
}

impl Filter {
    /// The same level for all targets.
    #[must_use]
    pub fn at(level: Level) -> Self {
        Self { rules: vec![(String::new(), Some(level))] }
    }

    /// Nothing at all.
    #[must_use]
    pub(crate) fn none() -> Self {
        Self { rules: vec![(String::new(), None)] }
    }

    /// From the level of `-q` or `-v`, which takes precedence, or the variable `PREFIX_LOG`.
    ///
    /// # Errors
    /// An unreadable variable: exit 2.
    pub fn resolve(
        prefix: &str,
        flag: Option<Level>,
        environment: &Environment,
    ) -> Result<Self, CliError> {
        let variable = format!("{prefix}_LOG");
        let level = match flag {
            Some(level) => Some(Self::at(level)),
            None => environment.read(&variable, Self::parse)?,
        };
        Ok(level.unwrap_or_else(|| Self::at(Level::Info)))
    }

    /// Parses `LEVEL`, `TARGET=LEVEL` and `TARGET`, separated by commas.
    ///
    /// # Errors
    /// A message that names the wrong part and the levels.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut rules = vec![(String::new(), Some(Level::Error))];
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            rules.push(match part.split_once('=') {
                Some((target, word)) => {
                    let level = level(word).ok_or_else(|| {
                        format!("`{word}` is not a level (off, error, warn, info, debug, trace)")
                    })?;
                    (target.to_owned(), level)
                }
                None => match level(part) {
                    Some(level) => (String::new(), level),
                    None => (part.to_owned(), Some(Level::Trace)),
                },
            });
        }
        Ok(Self { rules })
    }

    pub(super) fn shows(&self, level: Level, target: &str) -> bool {
        let fits = |rule: &&(String, Option<Level>)| {
            target
                .strip_prefix(rule.0.as_str())
                .is_some_and(|rest| rule.0.is_empty() || rest.is_empty() || rest.starts_with("::"))
        };
        let best = self.rules.iter().filter(fits).max_by_key(|rule| rule.0.len());
        best.and_then(|rule| rule.1).is_some_and(|most| level <= most)
    }
}

/// The level of a word; the inner `None` is `off`.
fn level(word: &str) -> Option<Option<Level>> {
    WORDS.iter().find(|(known, _)| word.eq_ignore_ascii_case(known)).map(|(_, level)| *level)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_read_like_rust_log() {
        let filter = Filter::parse("warn,tool::protocol=trace").unwrap();
        assert!(filter.shows(Level::Warn, "tool"));
        assert!(!filter.shows(Level::Info, "tool"));
        assert!(filter.shows(Level::Trace, "tool::protocol"));
        assert!(!filter.shows(Level::Trace, "tool::protocolx"));
        assert!(!Filter::parse("off").unwrap().shows(Level::Error, "tool"));
        assert!(Filter::parse("tool").unwrap().shows(Level::Trace, "tool::x"));
        assert!(Filter::parse("tool=loud").unwrap_err().contains("loud"));
    }

    #[test]
    fn a_flag_beats_the_variable() {
        let environment = Environment::of(&[("X_LOG", "trace")]);
        let filter = Filter::resolve("X", Some(Level::Error), &environment).unwrap();
        assert!(!filter.shows(Level::Warn, "tool"));
        let filter = Filter::resolve("X", None, &environment).unwrap();
        assert!(filter.shows(Level::Trace, "tool"));
    }
}
