//! Job bodies in text formats, always lossless.

use base64::display::Base64Display;
use base64::engine::general_purpose::STANDARD;
use serde::{Serialize, Serializer};

use super::record::BODY;
use crate::error::CliError;
use crate::text::encoding::{HexDisplay, base64, hex};
use crate::text::escape;

/// How the bytes of bodies are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Encoding {
    /// A string when the bytes are UTF-8, else base64.
    #[default]
    Auto,
    /// A string; bytes that are not UTF-8 are an error.
    Utf8,
    /// Base64, always.
    Base64,
    /// Hexadecimal, always.
    Hex,
}

impl Encoding {
    /// The body as shown in JSON objects.
    ///
    /// # Errors
    /// [`Encoding::Utf8`], and the bytes are not UTF-8: exit 65.
    pub fn shown(self, body: &[u8]) -> Result<Shown<'_>, CliError> {
        Ok(match (self, std::str::from_utf8(body)) {
            (Self::Base64, _) | (Self::Auto, Err(_)) => Shown::Base64(body),
            (Self::Hex, _) => Shown::Hex(body),
            (Self::Auto | Self::Utf8, Ok(text)) => Shown::Text(text),
            (Self::Utf8, Err(_)) => return Err(not_utf8()),
        })
    }

    /// Whether parts of a body cannot be encoded separately.
    pub fn is_of_a_whole(self) -> bool {
        self != Self::Auto
    }

    /// The body as text for tables and plain lines, if this encoding produces one; otherwise its bytes are used.
    ///
    /// # Errors
    /// [`Encoding::Utf8`], and the bytes are not UTF-8: exit 65.
    pub fn text(self, body: &[u8]) -> Result<Option<String>, CliError> {
        match self {
            Self::Base64 => Ok(Some(base64(body))),
            Self::Hex => Ok(Some(hex(body))),
            Self::Utf8 if std::str::from_utf8(body).is_err() => Err(not_utf8()),
            Self::Auto | Self::Utf8 => Ok(None),
        }
    }
}

/// A body as shown in JSON objects. It is encoded while being written, since bodies may be large.
#[derive(Debug, Clone, PartialEq)]
pub enum Shown<'a> {
    /// As a string under `body`.
    Text(&'a str),
    /// As a string under `body_base64`.
    Base64(&'a [u8]),
    /// As a string under `body_hex`.
    Hex(&'a [u8]),
}

impl Shown<'_> {
    /// The key of a base64 body.
    pub(super) const BASE64: &'static str = "body_base64";
    /// The key of a hexadecimal body.
    pub(super) const HEX: &'static str = "body_hex";

    /// The key, which implies the encoding.
    pub fn key(&self) -> &'static str {
        match self {
            Self::Text(_) => BODY,
            Self::Base64(_) => Self::BASE64,
            Self::Hex(_) => Self::HEX,
        }
    }

    /// The value under the key, as text.
    pub(super) fn text(&self) -> String {
        match self {
            Self::Text(text) => (*text).to_owned(),
            Self::Base64(bytes) => base64(bytes),
            Self::Hex(bytes) => hex(bytes),
        }
    }
}

impl Serialize for Shown<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) => serializer.serialize_str(text),
            Self::Base64(bytes) => serializer.collect_str(&Base64Display::new(bytes, &STANDARD)),
            Self::Hex(bytes) => serializer.collect_str(&HexDisplay(bytes)),
        }
    }
}

/// Whether these bytes are safe to show on a terminal.
pub fn is_text(bytes: &[u8]) -> bool {
    let harmless = |c| matches!(c, '\n' | '\t' | '\r') || !escape::acts(c);
    std::str::from_utf8(bytes).is_ok_and(|text| text.chars().all(harmless))
}

fn not_utf8() -> CliError {
    CliError::bad_data("body is not UTF-8").hint("use --decode none, base64 or hex")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_for_terminals() {
        assert!(is_text("grün\n\t".as_bytes()));
        assert!(!is_text(b"\x1b[2J"));
        assert!(!is_text(b"\xff"));
    }
}
