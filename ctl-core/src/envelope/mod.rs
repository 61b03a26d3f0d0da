//! What producers put into bodies: the class of a job, its attempts, its queue and its arguments.
//!
//! Bodies are parsed, never executed: no object is created, nothing is unserialized. Parsing is limited to [`MOST`]
//! bytes, and in depth and number of values. A body is never changed; its envelope is shown beside it.

mod field;
mod found;
mod json;
mod laravel;
mod mod_gearman;
mod msgpack;
pub mod php;
mod short;
mod symfony;

use clap::ValueEnum;

pub use field::{FIELD, value};
pub use found::{Envelope, MOST, Why};
pub use short::short;

/// The key of what a body contains, in a [`Record`](crate::output::Record).
pub const ENVELOPE: &str = "envelope";

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

#[cfg(test)]
mod tests;
