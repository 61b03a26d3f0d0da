//! What producers put into bodies: the class of a job, its attempts, its queue and its arguments.
//!
//! Bodies are parsed, never executed: no object is created, nothing is unserialized. Parsing is limited to [`MOST`]
//! bytes, and in depth. A body is never changed; its envelope is shown beside it.

mod field;
mod format;
mod found;
mod mod_gearman;
mod short;

use clap::ValueEnum;

use self::format::{BACKBURNER, Format, JSON, LARAVEL, STALKER, SYMFONY};
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
    /// Not decoded, but written as a string; bytes that are not UTF-8 are an error.
    Utf8,
    /// Not decoded, but written in base64.
    Base64,
    /// Not decoded, but written in hexadecimal.
    Hex,
    /// Bodies are not decoded.
    None,
}

/// The values of `--decode` for what is in bodies, as words.
pub const DECODERS: [&str; 8] =
    ["auto", "laravel", "symfony", "backburner", "stalker", "mod-gearman", "json", "none"];

/// Decodes a body. [`Decode::Auto`] returns `None` for a body in no known format; the others report why.
#[must_use]
pub fn decode(decode: Decode, body: &[u8]) -> Option<Envelope> {
    let format = match decode {
        Decode::Utf8 | Decode::Base64 | Decode::Hex | Decode::None => return None,
        Decode::Auto => return detect(body),
        Decode::Laravel => LARAVEL,
        Decode::Symfony => SYMFONY,
        Decode::Backburner => BACKBURNER,
        Decode::Stalker => STALKER,
        Decode::Json => JSON,
        Decode::ModGearman => {
            let read = if body.len() > MOST { Err(Why::Large) } else { mod_gearman::read(body) };
            return Some(read.unwrap_or_else(|why| Envelope::unread("mod-gearman", why)));
        }
    };
    let read = if body.len() > MOST { Err(Why::Large) } else { format::parse(body) };
    let read = read.and_then(|value| match format.of(&value) {
        Err(_) if decode == Decode::Json => {
            Ok(Envelope { arguments: Some(value), ..Envelope::of(format.name) })
        }
        read => read,
    });
    Some(read.unwrap_or_else(|why| Envelope::unread(format.name, why)))
}

/// Detects the format of a body.
fn detect(body: &[u8]) -> Option<Envelope> {
    /// Other producers have the same members, so a format that finds no class leaves it to the next one.
    const ALL: [Format; 5] = [LARAVEL, SYMFONY, BACKBURNER, STALKER, JSON];
    if body.len() > MOST {
        return None;
    }
    match body.trim_ascii_start().first()? {
        b'{' | b'[' => {
            let value = format::parse(body).ok()?;
            ALL.iter().find_map(|format| format.of(&value).ok())
        }
        _ => mod_gearman::read(body).ok(),
    }
}

#[cfg(test)]
mod tests;
