//! What is found in a body, or why nothing is.

use std::fmt;

use serde_json::{Map, Value};

/// Maximum length of a parsed body, in bytes.
pub const MOST: usize = 1 << 20;

/// Why a body, or a part of it, could not be decoded: one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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

impl Why {
    /// The reason as a stable word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Foreign => "foreign",
            Self::Malformed => "malformed",
            Self::Truncated => "truncated",
            Self::Encrypted => "encrypted",
            Self::Large => "large",
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// The information in a body about its job.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Envelope {
    /// The format, as a value of `--decode`.
    pub format: String,
    /// The class, command or function to run.
    pub class: Option<String>,
    /// The producer's own id of the job.
    pub id: Option<String>,
    /// Number of earlier attempts, as counted by the producer.
    pub attempts: Option<u64>,
    /// The queue named by the producer.
    pub queue: Option<String>,
    /// The arguments of the job.
    pub arguments: Option<Value>,
    /// Further options of the producer, such as time limits.
    pub options: Map<String, Value>,
    /// Why the rest could not be decoded.
    pub why: Option<Why>,
}

impl Envelope {
    pub(super) fn of(format: &str) -> Self {
        Self { format: format.to_owned(), ..Self::default() }
    }

    /// As JSON: `format`, and those of `class`, `id`, `attempts`, `queue`, `arguments`, `options` and `why` that are
    /// known.
    #[must_use]
    pub fn into_value(self) -> Value {
        let mut map = Map::new();
        map.insert("format".to_owned(), self.format.into());
        let mut add = |key: &str, value: Option<Value>| {
            if let Some(value) = value {
                map.insert(key.to_owned(), value);
            }
        };
        add("class", self.class.map(Value::from));
        add("id", self.id.map(Value::from));
        add("attempts", self.attempts.map(Value::from));
        add("queue", self.queue.map(Value::from));
        add("arguments", self.arguments);
        add("options", Some(self.options).filter(|all| !all.is_empty()).map(Value::Object));
        add("why", self.why.map(|why| why.word().into()));
        Value::Object(map)
    }
}
