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

/// The information in a body about its job.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Envelope {
    /// The format, as a value of `--decode`.
    pub format: String,
    /// The class, command or function to run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// The producer's own id of the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Number of earlier attempts, as counted by the producer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u64>,
    /// The queue named by the producer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// The arguments of the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Value>,
    /// Further options of the producer, such as time limits.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub options: Map<String, Value>,
    /// Why the rest could not be decoded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<Why>,
}

impl Envelope {
    pub(super) fn of(format: &str) -> Self {
        Self { format: format.to_owned(), ..Self::default() }
    }

    /// As JSON: `format`, and those of `class`, `id`, `attempts`, `queue`, `arguments`, `options` and `why` that are
    /// known.
    pub fn into_value(self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }
}
