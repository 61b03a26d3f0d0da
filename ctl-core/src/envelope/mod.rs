//! The envelopes that producers put into bodies: the class of a job, its attempts, its queue and its arguments.
//!
//! Bodies are parsed, never executed: no object is created, nothing is unserialized. Parsing is limited to [`MOST`]
//! bytes, and in depth. A body is never changed; its envelope is shown beside it.

mod field;
mod format;
mod found;
mod mod_gearman;
mod short;

use std::sync::Arc;

use crate::error::CliError;
use crate::text::escape;
use crate::text::spelling::or_else;

pub use field::FIELD;
pub use format::Format;
pub(crate) use format::Wrong;
pub use found::{Envelope, MOST, Why};
pub use mod_gearman::Key;
pub use short::short;

/// The key of what a body contains, in a [`Record`](crate::output::Record).
pub const ENVELOPE: &str = "envelope";

/// The format of any JSON, even without a class.
const JSON: &str = "json";

/// The format that is no row of pointers.
const MOD_GEARMAN: &str = "mod-gearman";

/// The same with the name of a file that has its key.
const WITH_KEY: &str = "mod-gearman=";

/// The values of `--decode` that are no format.
const WORDS: [(&str, Decode); 5] = [
    ("auto", Decode::Auto),
    ("none", Decode::None),
    ("utf8", Decode::Utf8),
    ("base64", Decode::Base64),
    ("hex", Decode::Hex),
];

/// The value of `--decode`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decode {
    /// Whichever format a body is in.
    Auto,
    /// JSON of this format.
    Format(Format),
    /// Base64 of lines of key=value, as mod_gearman writes it, perhaps encrypted.
    ModGearman(Option<Key>),
    /// Not decoded, but written as a string; bytes that are not UTF-8 are an error.
    Utf8,
    /// Not decoded, but written in base64.
    Base64,
    /// Not decoded, but written in hexadecimal.
    Hex,
    /// Bodies are not decoded.
    None,
}

/// The known formats, in the order in which [`Decode::Auto`] tries them: those of the configuration file, and the
/// built-in ones.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Formats(
    /// None for the built-in ones alone, which are read when a format is asked for first.
    Option<Arc<[Format]>>,
);

impl Formats {
    fn rows(&self) -> &[Format] {
        self.0.as_deref().unwrap_or(&format::BUILT_IN)
    }

    /// The built-in formats behind these, which replace those of the same name.
    #[must_use]
    pub(crate) fn behind(own: Vec<Format>) -> Self {
        let is_replaced = |row: &&Format| own.iter().any(|own| own.name == row.name);
        let others = format::BUILT_IN.iter().filter(|row| !is_replaced(row)).cloned();
        Self(Some(own.iter().cloned().chain(others).collect()))
    }

    /// Whether a format cannot have this name, because it is another value of `--decode`.
    pub(crate) fn is_taken(name: &str) -> bool {
        name == MOD_GEARMAN || WORDS.iter().any(|(word, _)| *word == name)
    }

    /// The values of `--decode`.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let formats = self.rows().iter().map(|format| format.name.as_str());
        formats.chain([MOD_GEARMAN]).chain(WORDS.map(|(word, _)| word))
    }

    /// The value of `--decode` with this name.
    ///
    /// # Errors
    /// There is none: exit 2.
    pub fn named(&self, name: &str) -> Result<Decode, CliError> {
        if let Some((_, decode)) = WORDS.iter().find(|(word, _)| *word == name) {
            return Ok(decode.clone());
        }
        let key_file = name.strip_prefix(WITH_KEY).filter(|file| !file.is_empty());
        if let Some(file) = key_file.filter(|_| cfg!(feature = "aes")) {
            return Key::read(file).map(|key| Decode::ModGearman(Some(key)));
        }
        let format = self.rows().iter().find(|format| format.name == name);
        let decode = format.cloned().map(Decode::Format);
        decode.or((name == MOD_GEARMAN).then_some(Decode::ModGearman(None))).ok_or_else(|| {
            let known: Vec<&str> = self.names().collect();
            let meant = or_else(name, self.names());
            CliError::usage(format!("--decode cannot be `{}`{meant}", escape::line(name)))
                .hint(format!("one of {}", known.join(", ")))
                .hint(
                    "a table [envelopes.NAME] in the configuration file, for a format of your own",
                )
        })
    }

    /// Decodes a body. [`Decode::Auto`] returns `None` for a body in no known format; the others report why.
    pub fn decode(&self, decode: &Decode, body: &[u8]) -> Option<Envelope> {
        let is_large = body.len() > MOST;
        let (name, read) = match decode {
            Decode::Utf8 | Decode::Base64 | Decode::Hex | Decode::None => return None,
            Decode::Auto if is_large => return None,
            Decode::Auto => return self.detect(body),
            Decode::ModGearman(_) if is_large => (MOD_GEARMAN, Err(Why::Large)),
            Decode::ModGearman(key) => (MOD_GEARMAN, mod_gearman::read(body, key.as_ref())),
            Decode::Format(format) if is_large => (format.name.as_str(), Err(Why::Large)),
            Decode::Format(format) => {
                let read = format::parse(body).and_then(|value| match format.of(&value) {
                    Err(_) if format.name == JSON => {
                        Ok(Envelope::of(JSON).with("arguments", Some(value)))
                    }
                    read => read,
                });
                (format.name.as_str(), read)
            }
        };
        Some(
            read.unwrap_or_else(|why| {
                Envelope::of(name).with("why", serde_json::to_value(why).ok())
            }),
        )
    }

    /// Other producers have the same members, so a format that finds no class leaves the body to the next one.
    fn detect(&self, body: &[u8]) -> Option<Envelope> {
        match body.trim_ascii_start().first()? {
            b'{' | b'[' => {
                let value = format::parse(body).ok()?;
                self.rows().iter().find_map(|format| format.of(&value).ok())
            }
            _ => mod_gearman::read(body, None).ok(),
        }
    }
}

#[cfg(test)]
mod tests;
