//! What a tool finds out about a server for `doctor`.

use serde_json::Value;

/// What is known about a server.
#[derive(Debug, Default)]
pub struct Diagnosis {
    /// What it reports, and what it supports; null is unknown.
    pub facts: Vec<(&'static str, Value)>,
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
            Value::Null => format!("{name} unknown"),
            Value::String(text) => format!("{name} {text}"),
            Value::Bool(true) => format!("{name} yes"),
            Value::Bool(false) => format!("{name} no"),
            other => format!("{name} {other}"),
        };
        self.facts.iter().map(shown).collect::<Vec<_>>().join(", ")
    }
}
