//! The findings about a server for `doctor`.

use std::time::Duration;

use serde_json::Value;

use crate::text::units;

/// The facts about a server.
#[derive(Debug, Default)]
pub struct Diagnosis {
    /// Its reports and its features; null is unknown.
    pub facts: Vec<(&'static str, Value)>,
    /// Which of them are seconds.
    seconds: Vec<&'static str>,
    /// Whether some questions were left unanswered, so that the time for all says nothing about the server.
    pub is_partial: bool,
    /// Problems with it, and their remedies.
    pub warnings: Vec<(String, String)>,
}

impl Diagnosis {
    /// Adds a fact reported by the server.
    #[must_use]
    pub fn fact(mut self, name: &'static str, value: impl Into<Value>) -> Self {
        self.facts.push((name, value.into()));
        self
    }

    /// Adds a time reported by the server, in seconds.
    #[must_use]
    pub fn seconds(mut self, name: &'static str, seconds: u64) -> Self {
        self.seconds.push(name);
        self.fact(name, seconds)
    }

    /// Adds a problem, if `is_wrong`.
    #[must_use]
    pub fn warn_if(mut self, is_wrong: bool, what: impl Into<String>, next: &str) -> Self {
        if is_wrong {
            self.warnings.push((what.into(), next.to_owned()));
        }
        self
    }

    /// The facts in one line.
    pub(crate) fn text(&self) -> String {
        let shown = |(name, value): &(&str, Value)| match value {
            Value::Number(number) if self.seconds.contains(name) => {
                let time = Duration::from_secs(number.as_u64().unwrap_or_default());
                format!("{name} {}", units::show_duration(time))
            }
            Value::Null => format!("{name} unknown"),
            Value::String(text) => format!("{name} {text}"),
            Value::Bool(true) => format!("{name} yes"),
            Value::Bool(false) => format!("{name} no"),
            other => format!("{name} {other}"),
        };
        self.facts.iter().map(shown).collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_unit_in_text_and_are_numbers_in_json() {
        let diagnosis = Diagnosis::default().fact("version", "1").seconds("uptime", 5400);
        assert_eq!(diagnosis.text(), "version 1, uptime 1h 30m");
        assert_eq!(diagnosis.facts[1], ("uptime", 5400.into()));
    }
}
