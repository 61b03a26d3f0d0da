//! What producers put into bodies: the class of a job, its attempts, its queue and its arguments.
//!
//! Bodies are parsed, never executed: no object is created, nothing is unserialized. Parsing is limited to [`MOST`]
//! bytes, and in depth and number of values. A body is never changed; its envelope is shown beside it.

mod field;
mod json;
mod laravel;
mod mod_gearman;
mod msgpack;
pub mod php;
mod short;
mod symfony;

use std::fmt;

use clap::ValueEnum;
use serde_json::{Map, Value};

pub use field::{FIELD, value};
pub use short::short;

/// The key of an envelope in a record.
pub const ENVELOPE: &str = "envelope";

/// Maximum length of a parsed body, in bytes.
pub const MOST: usize = 1 << 20;
/// Maximum nesting depth.
const DEEPEST: usize = 64;
/// Maximum number of values in a body.
const MOST_VALUES: usize = 20_000;

/// The value of `--decode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Decode {
    /// Whichever of these a body is.
    Auto,
    /// JSON of Laravel and Lumen.
    Laravel,
    /// JSON of Symfony Messenger's beanstalkd transport.
    Symfony,
    /// JSON of Backburner: class and args.
    Backburner,
    /// JSON of Stalker: a name and what it is given.
    Stalker,
    /// Base64 of lines of key=value, as mod_gearman writes it.
    ModGearman,
    /// Any JSON.
    Json,
    /// PHP's serialization, as yii2-queue writes it.
    Php,
    /// MessagePack.
    Msgpack,
    /// Bodies are not decoded.
    None,
}

/// The values of `--decode`, as words, in the order of [`Decode`].
pub const DECODERS: [&str; 10] = [
    "auto",
    "laravel",
    "symfony",
    "backburner",
    "stalker",
    "mod-gearman",
    "json",
    "php",
    "msgpack",
    "none",
];

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
    /// It is nested too deeply.
    Deep,
    /// It has too many values.
    Many,
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
            Self::Deep => "deep",
            Self::Many => "many",
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
    pub format: &'static str,
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
    fn of(format: &'static str) -> Self {
        Self { format, ..Self::default() }
    }

    /// A body in this format that cannot be decoded.
    fn unread(format: &'static str, why: Why) -> Self {
        Self { why: Some(why), ..Self::of(format) }
    }

    /// Adds an option, if it has a value.
    fn with_option(&mut self, key: &str, value: Option<&Value>) {
        let says = |value: &&Value| match value {
            Value::Null | Value::Bool(false) => false,
            Value::Array(all) => !all.is_empty(),
            _ => true,
        };
        if let Some(value) = value.filter(says) {
            self.options.insert(key.to_owned(), value.clone());
        }
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

/// Decodes a body. [`Decode::Auto`] returns `None` for a body in no known format; the others report why.
#[must_use]
pub fn decode(decode: Decode, body: &[u8]) -> Option<Envelope> {
    let read: (&'static str, Read) = match decode {
        Decode::None => return None,
        Decode::Auto => return detect(body),
        Decode::Laravel => ("laravel", laravel::read),
        Decode::Symfony => ("symfony", symfony::read),
        Decode::Backburner => ("backburner", json::read_backburner),
        Decode::Stalker => ("stalker", json::read_stalker),
        Decode::ModGearman => ("mod-gearman", mod_gearman::read),
        Decode::Json => ("json", json::read),
        Decode::Php => ("php", php::read_body),
        Decode::Msgpack => ("msgpack", msgpack::read),
    };
    let (format, read) = read;
    let outcome = if body.len() > MOST { Err(Why::Large) } else { read(body) };
    Some(outcome.unwrap_or_else(|why| Envelope::unread(format, why)))
}

type Read = fn(&[u8]) -> Result<Envelope, Why>;

/// Detects the format of a body.
fn detect(body: &[u8]) -> Option<Envelope> {
    if body.len() > MOST {
        return None;
    }
    match body.trim_ascii_start().first()? {
        b'{' | b'[' => {
            let value = json::parse(body).ok()?;
            let readers = [laravel::from_json, symfony::from_json, json::from_json];
            // Other producers have the same outer members, so a format that finds no class leaves it to the next one.
            readers
                .into_iter()
                .find_map(|read| read(&value).ok().filter(|found| found.class.is_some()))
        }
        _ if php::looks_like(body) => {
            let unread = |why| Envelope::unread("php", why);
            Some(php::read_body(body).unwrap_or_else(unread))
        }
        _ => mod_gearman::read(body).or_else(|_| msgpack::read_sure(body)).ok(),
    }
}

/// The text of a member.
fn text(value: &Value, key: &str) -> Option<String> {
    value.get(key).and_then(Value::as_str).map(str::to_owned)
}

/// An id, which may be a number.
fn id(value: &Value, key: &str) -> Option<String> {
    match value.get(key)? {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
