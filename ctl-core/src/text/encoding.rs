//! Bytes as text: base64 and hexadecimal.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Bytes, shown in lower-case hexadecimal.
pub(crate) struct HexDisplay<'a>(pub(crate) &'a [u8]);

impl fmt::Display for HexDisplay<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Standard base64 with padding.
pub fn base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// Decodes standard base64.
///
/// # Errors
/// A message with the reason.
pub fn from_base64(text: &str) -> Result<Vec<u8>, String> {
    STANDARD.decode(text).map_err(|error| format!("not base64: {error}"))
}

/// Lower-case hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    HexDisplay(bytes).to_string()
}

/// Decodes hexadecimal in either case.
///
/// # Errors
/// A message with the reason.
pub fn from_hex(text: &str) -> Result<Vec<u8>, String> {
    let digits: Option<Vec<u8>> = text.bytes().map(hex_digit).collect();
    let digits = digits.ok_or("not hexadecimal: only 0-9, a-f and A-F are digits")?;
    let (pairs, rest) = digits.as_chunks::<2>();
    if !rest.is_empty() {
        return Err("not hexadecimal: it has an odd number of digits".to_owned());
    }
    Ok(pairs.iter().map(|[high, low]| high << 4 | low).collect())
}

/// The value of a hexadecimal digit in either case.
pub(super) fn hex_digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn hexadecimal_rejects_other_text() {
        assert!(from_hex("0").unwrap_err().contains("odd"));
        assert!(from_hex("0g").unwrap_err().contains("0-9"));
        assert_eq!(from_hex("00FF"), Ok(vec![0, 255]));
    }

    proptest! {
        #[test]
        fn encodings_round_trip(bytes: Vec<u8>) {
            prop_assert_eq!(from_base64(&base64(&bytes)).unwrap(), bytes.clone());
            prop_assert_eq!(from_hex(&hex(&bytes)).unwrap(), bytes);
        }
    }
}
