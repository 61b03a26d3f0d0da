//! The envelope found in a body, or why there is none.

use serde::Serialize;
use serde_json::{Map, Value};

/// Maximum length of a parsed body, in bytes.
pub const MOST: usize = 1 << 20;

/// Why a body, or a part of it, could not be decoded: one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Why {
    /// It is something else.
    Foreign,
    /// It violates the format.
    Malformed,
    /// It is truncated.
    Truncated,
    /// It can only be read with a key.
    Encrypted,
    /// It is longer than [`MOST`].
    Large,
}

/// The information in a body about its job: `format`, a value of `--decode`, and those of `class` (command or function to
/// run), `id` (the producer's own), `attempts` (earlier ones, as counted by the producer), `queue` (named by the
/// producer), `arguments`, `options` (such as time limits) and `why` (the rest could not be decoded) that are known.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Envelope(Map<String, Value>);

impl Envelope {
    pub(super) fn of(format: &str) -> Self {
        Self::default().with("format", Some(format))
    }

    /// Adds a member, if it is known.
    pub(super) fn with(mut self, key: &str, value: Option<impl Into<Value>>) -> Self {
        self.0.extend(value.map(|value| (key.to_owned(), value.into())));
        self
    }

    /// As JSON.
    pub fn into_value(self) -> Value {
        Value::Object(self.0)
    }
}
