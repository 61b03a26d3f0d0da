//! Job bodies in text formats: never lossy, whatever the bytes are.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::ValueEnum;
use serde_json::{Map, Value};

use crate::error::CliError;
use crate::escape;

/// The value of `--encoding`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
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
    /// The parsed value when the body is JSON, else as `auto`.
    Json,
}

impl Encoding {
    /// Adds the body to a JSON object as `body`, `body_base64` or `body_hex`.
    ///
    /// # Errors
    /// [`Encoding::Utf8`] and the bytes are not UTF-8: exit 65.
    pub fn insert(self, body: &[u8], object: &mut Map<String, Value>) -> Result<(), CliError> {
        let text = std::str::from_utf8(body);
        let (key, value) = match (self, text) {
            (Self::Base64, _) | (Self::Auto | Self::Json, Err(_)) => {
                ("body_base64", base64(body).into())
            }
            (Self::Hex, _) => ("body_hex", hex(body).into()),
            (Self::Auto | Self::Utf8, Ok(text)) => ("body", text.into()),
            (Self::Utf8, Err(_)) => return Err(not_utf8()),
            (Self::Json, Ok(text)) => match serde_json::from_str(text) {
                Ok(value) => ("body", value),
                Err(_) => ("body", text.into()),
            },
        };
        if self == Self::Json && (text.is_err() || serde_json::from_slice::<Value>(body).is_err()) {
            object.insert("body_invalid_json".to_owned(), true.into());
        }
        object.insert(key.to_owned(), value);
        Ok(())
    }

    /// The body as text for tables and plain lines, when this encoding asks for one; else the bytes stand.
    ///
    /// # Errors
    /// [`Encoding::Utf8`] and the bytes are not UTF-8: exit 65.
    pub fn text(self, body: &[u8]) -> Result<Option<String>, CliError> {
        match self {
            Self::Base64 => Ok(Some(base64(body))),
            Self::Hex => Ok(Some(hex(body))),
            Self::Utf8 if std::str::from_utf8(body).is_err() => Err(not_utf8()),
            Self::Auto | Self::Utf8 | Self::Json => Ok(None),
        }
    }
}

/// Standard base64 with padding.
#[must_use]
pub fn base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// Reads standard base64.
///
/// # Errors
/// A message that says what is wrong.
pub fn from_base64(text: &str) -> Result<Vec<u8>, String> {
    STANDARD.decode(text).map_err(|error| format!("not base64: {error}"))
}

/// Lower-case hexadecimal.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Reads hexadecimal of either case.
///
/// # Errors
/// A message that says what is wrong.
pub fn from_hex(text: &str) -> Result<Vec<u8>, String> {
    let digits: Vec<u8> = text
        .chars()
        .map(|c| c.to_digit(16).and_then(|digit| u8::try_from(digit).ok()))
        .collect::<Option<_>>()
        .ok_or("not hexadecimal: only 0-9 and a-f are allowed")?;
    let (pairs, rest) = digits.as_chunks::<2>();
    if !rest.is_empty() {
        return Err("not hexadecimal: odd number of digits".to_owned());
    }
    Ok(pairs.iter().map(|[high, low]| high << 4 | low).collect())
}

/// Whether a terminal can show these bytes without being acted on.
#[must_use]
pub fn is_text(bytes: &[u8]) -> bool {
    let harmless = |c| matches!(c, '\n' | '\t' | '\r') || !escape::acts(c);
    std::str::from_utf8(bytes).is_ok_and(|text| text.chars().all(harmless))
}

fn not_utf8() -> CliError {
    CliError::bad_data("body is not UTF-8").hint("use --encoding auto, base64 or hex")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn shown(encoding: Encoding, body: &[u8]) -> Value {
        let mut object = Map::new();
        encoding.insert(body, &mut object).unwrap();
        Value::Object(object)
    }

    #[test]
    fn each_encoding() {
        assert_eq!(shown(Encoding::Auto, b"hi"), json!({"body": "hi"}));
        assert_eq!(shown(Encoding::Auto, b"\xff"), json!({"body_base64": "/w=="}));
        assert_eq!(shown(Encoding::Base64, b"hi"), json!({"body_base64": "aGk="}));
        assert_eq!(shown(Encoding::Hex, b"\x00\xff"), json!({"body_hex": "00ff"}));
        assert_eq!(shown(Encoding::Json, b"{\"a\":1}"), json!({"body": {"a": 1}}));
        assert_eq!(
            shown(Encoding::Json, b"nope"),
            json!({"body_invalid_json": true, "body": "nope"})
        );
        assert_eq!(
            shown(Encoding::Json, b"\xff"),
            json!({"body_invalid_json": true, "body_base64": "/w=="})
        );
        assert_eq!(Encoding::Utf8.insert(b"\xff", &mut Map::new()).unwrap_err().exit.code(), 65);
    }

    #[test]
    fn hexadecimal_refuses_other_text() {
        assert!(from_hex("0").unwrap_err().contains("odd"));
        assert!(from_hex("0g").unwrap_err().contains("0-9"));
        assert_eq!(from_hex("00FF"), Ok(vec![0, 255]));
    }

    #[test]
    fn text_for_terminals() {
        assert!(is_text("grün\n\t".as_bytes()));
        assert!(!is_text(b"\x1b[2J"));
        assert!(!is_text(b"\xff"));
    }

    proptest! {
        #[test]
        fn encodings_come_back(bytes: Vec<u8>) {
            prop_assert_eq!(from_base64(&base64(&bytes)).unwrap(), bytes.clone());
            prop_assert_eq!(from_hex(&hex(&bytes)).unwrap(), bytes);
        }
    }
}
