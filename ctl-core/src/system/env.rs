//! The environment, and where settings come from.

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;

use clap::ValueEnum;

use crate::error::CliError;
use crate::text::color::ColorWhen;

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// The named flag on the command line.
    Flag(&'static str),
    /// The named environment variable.
    Environment(String),
    /// The named context.
    Context(String),
    /// The defaults of the configuration file.
    File,
    /// `connect` in a session.
    Connect,
    /// The address of the servers, whatever it comes from.
    Address,
    /// Built in.
    Default,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(name) => write!(f, "flag {name}"),
            Self::Environment(name) => write!(f, "environment {name}"),
            Self::Context(name) => write!(f, "context {name}"),
            Self::File => f.write_str("configuration file"),
            Self::Connect => f.write_str("connect"),
            Self::Address => f.write_str("server address"),
            Self::Default => f.write_str("default"),
        }
    }
}

impl Source {
    /// The value of this source cannot be used: exit 2.
    pub(crate) fn refused(&self, why: &str) -> CliError {
        match self {
            Self::Environment(name) => {
                CliError::setting(format!("environment variable {name}: {why}"))
                    .hint(format!("correct or unset {name}"))
            }
            source => CliError::config(format!("{source}: {why}")),
        }
    }
}

/// A value with its source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting<T> {
    /// The value in force.
    pub value: T,
    /// Where it came from.
    pub source: Source,
    /// The overridden source, if a user might expect it: a context, or a variable that a context overrides.
    pub over: Option<Source>,
}

impl<T> Setting<T> {
    /// A value from this source.
    pub fn from(source: Source, value: T) -> Self {
        Self { value, source, over: None }
    }

    /// A built-in value.
    pub fn default(value: T) -> Self {
        Self::from(Source::Default, value)
    }

    /// The source, and what it overrides.
    pub fn origin(&self) -> String {
        match &self.over {
            Some(over) => format!("{}, which overrides {over}", self.source),
            None => self.source.to_string(),
        }
    }
}

/// The environment of the process, or a fictitious one in tests.
#[derive(Debug, Clone, Default)]
pub struct Environment {
    made_up: Option<HashMap<String, String>>,
}

impl Environment {
    /// The environment of the process.
    #[must_use]
    pub fn process() -> Self {
        Self { made_up: None }
    }

    /// An environment with exactly these variables.
    #[must_use]
    pub fn of(pairs: &[(&str, &str)]) -> Self {
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Self { made_up: Some(pairs.iter().map(own).collect()) }
    }

    /// The variable's value; an empty one counts as unset, and invalid UTF-8 is replaced.
    pub fn var(&self, name: &str) -> Option<String> {
        let value = match &self.made_up {
            Some(variables) => variables.get(name).cloned(),
            None => std::env::var_os(name).map(|value| value.to_string_lossy().into_owned()),
        };
        value.filter(|value| !value.is_empty())
    }

    /// The variable's value, read by `parse`.
    ///
    /// # Errors
    /// `parse` rejects it: exit 2, with the variable's name.
    pub fn read<T>(
        &self,
        name: &str,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Result<Option<T>, CliError> {
        let refused = |why: String| Source::Environment(name.to_owned()).refused(&why);
        self.var(name).map(|text| parse(&text).map_err(refused)).transpose()
    }

    /// Whether a stream gets colours: by the flag, then `NO_COLOR`, `CLICOLOR_FORCE`, `CLICOLOR`, `TERM`, then whether it
    /// is a terminal.
    pub fn colors(&self, when: ColorWhen, is_terminal: bool) -> bool {
        match when {
            ColorWhen::Always => return true,
            ColorWhen::Never => return false,
            ColorWhen::Auto => {}
        }
        if self.var("NO_COLOR").is_some() {
            return false;
        }
        if self.var("CLICOLOR_FORCE").is_some_and(|value| value != "0") {
            return true;
        }
        if self.var("CLICOLOR").is_some_and(|value| value == "0") {
            return false;
        }
        is_terminal && self.var("TERM").is_none_or(|value| value != "dumb")
    }

    /// The user's folder for files of a kind: that in a variable, or within the home directory, or else that of Windows.
    /// Only absolute ones count.
    pub(crate) fn folder(&self, variable: &str, in_home: &str, windows: &str) -> Option<PathBuf> {
        let absolute =
            |name: &str| self.var(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let home = || absolute("HOME").map(|home| home.join(in_home));
        absolute(variable).or_else(home).or_else(|| absolute(windows))
    }

    /// The names of the variables that are valid UTF-8.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = match &self.made_up {
            Some(variables) => variables.keys().cloned().collect(),
            None => std::env::vars_os().filter_map(|(name, _)| name.into_string().ok()).collect(),
        };
        names.sort_unstable();
        names
    }
}

/// Parses an environment value as one of a flag's words.
///
/// # Errors
/// A message that names the allowed words.
pub fn word<T: ValueEnum>(text: &str) -> Result<T, String> {
    T::from_str(text, true).map_err(|_| format!("`{text}` is not one of {}", words::<T>()))
}

/// A flag's words.
pub(crate) fn words<T: ValueEnum>() -> String {
    T::value_variants().iter().map(word_of).collect::<Vec<_>>().join(", ")
}

/// A flag's word for this value.
pub(crate) fn word_of(value: &impl ValueEnum) -> String {
    value.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::units;

    #[test]
    fn a_bad_variable_exits_2_and_is_named() {
        let environment = Environment::of(&[("X_T", "soon"), ("X_EMPTY", "")]);
        assert!(environment.read("X_EMPTY", units::duration).unwrap().is_none());
        let error = environment.read("X_T", units::duration).unwrap_err();
        assert_eq!(error.exit.code(), 2);
        assert!(error.message.contains("X_T") && error.message.contains("soon"), "{error}");
    }

    #[test]
    fn precedence_of_colour_settings() {
        use ColorWhen::{Always, Auto, Never};
        let decide = |when, variables: &[(&str, &str)], is_terminal| {
            Environment::of(variables).colors(when, is_terminal)
        };
        assert!(decide(Auto, &[], true));
        assert!(!decide(Auto, &[], false));
        assert!(!decide(Auto, &[("TERM", "dumb")], true));
        assert!(!decide(Auto, &[("NO_COLOR", "1"), ("CLICOLOR_FORCE", "1")], true));
        assert!(decide(Auto, &[("NO_COLOR", "")], true));
        assert!(decide(Auto, &[("CLICOLOR_FORCE", "1"), ("TERM", "dumb")], false));
        assert!(!decide(Auto, &[("CLICOLOR_FORCE", "0")], false));
        assert!(!decide(Auto, &[("CLICOLOR", "0")], true));
        assert!(decide(Always, &[("NO_COLOR", "1")], false));
        assert!(!decide(Never, &[("CLICOLOR_FORCE", "1")], true));
    }
}
