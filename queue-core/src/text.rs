//! Numbers and text in replies and messages.

#[cfg(feature = "json")]
pub(crate) mod json;
pub(crate) mod made_of;
pub(crate) mod words;

use std::{any::Any, borrow::Cow};

/// Parses a strict decimal number: digits only, no sign, no leading zero, no overflow.
#[must_use]
pub fn decimal(text: &[u8]) -> Option<u64> {
    let is_plain = text.len() == 1 || !text.starts_with(b"0");
    (is_plain && !text.is_empty()).then_some(())?;
    text.iter().try_fold(0_u64, |number, byte| {
        let digit = byte.wrapping_sub(b'0');
        (digit < 10).then_some(())?;
        number.checked_mul(10)?.checked_add(digit.into())
    })
}

/// The bytes of a name that is shown as text: `\xHH` is a byte and `\\` a backslash; any other backslash is itself.
#[must_use]
pub fn unname(text: &str) -> Vec<u8> {
    let (mut name, mut rest) = (Vec::with_capacity(text.len()), text.as_bytes());
    while let [first, after @ ..] = rest {
        let (byte, after) = match (first, after) {
            (b'\\', [b'\\', after @ ..]) => (b'\\', after),
            (b'\\', _) => escaped_byte(after).unwrap_or((b'\\', after)),
            _ => (*first, after),
        };
        name.push(byte);
        rest = after;
    }
    name
}

/// The byte of `xHH`, and what follows it.
#[must_use]
pub fn escaped_byte(bytes: &[u8]) -> Option<(u8, &[u8])> {
    let [b'x', high, low, after @ ..] = bytes else { return None };
    let digit = |digit: u8| char::from(digit).to_digit(16);
    Some(((digit(*high)? << 4 | digit(*low)?) as u8, after))
}

/// The message of a panic, if any.
#[must_use]
pub fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message")
}

/// Foreign text for a message: control and non-ASCII bytes escaped, truncated to 64 bytes.
#[must_use]
pub fn excerpt(bytes: &[u8]) -> String {
    const LIMIT: usize = 64;
    let shown = bytes.get(..LIMIT).unwrap_or(bytes).escape_ascii();
    if bytes.len() > LIMIT { format!("\"{shown}…\"") } else { format!("\"{shown}\"") }
}

/// A message of any length, stored in at most 4 KiB: for a longer one, its start and its length.
#[must_use]
pub fn shorten(message: Cow<'static, str>) -> Cow<'static, str> {
    const LIMIT: usize = 4096;
    if message.len() <= LIMIT {
        return message;
    }
    let end = (0..=LIMIT).rev().find(|at| message.is_char_boundary(*at)).unwrap_or_default();
    let shown = message.get(..end).unwrap_or_default();
    format!("{shown}… (the first {} of {} bytes)", shown.len(), message.len()).into()
}

/// A number of things, in words: `1 server`, `2 servers`.
#[must_use]
pub fn counted(count: u64, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_strict() {
        for bad in ["", "-1", "+1", " 1", "1 ", "01", "1x", "18446744073709551616"] {
            assert_eq!(decimal(bad.as_bytes()), None, "{bad:?}");
        }
        for good in [0, 1, 10, 4_294_967_295, u64::MAX] {
            assert_eq!(decimal(good.to_string().as_bytes()), Some(good));
        }
    }

    #[test]
    fn truncated_messages_state_their_length() {
        assert_eq!(shorten("as it is".into()), "as it is");
        let cut = shorten(format!("x{}", "\u{fc}".repeat(1 << 20)).into());
        assert!(cut.len() < 4200 && cut.ends_with("(the first 4095 of 2097153 bytes)"), "{cut}");
    }

    #[test]
    fn excerpts_are_short_and_plain() {
        assert_eq!(excerpt(b"a\x1b[2J\xff\r\n"), r#""a\x1b[2J\xff\r\n""#);
        assert_eq!(excerpt(&[b'x'; 65]).len(), "\"…\"".len() + 64);
    }
}
