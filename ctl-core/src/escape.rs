//! Text from elsewhere (names, bodies, server replies) made harmless for terminals and line formats.
//!
//! A terminal obeys control characters, and bidirectional or zero-width characters make text look like
//! something else (CWE-150). Such characters are shown as `\x1b` or `\u{202e}`.

use std::borrow::Cow;
use std::fmt::Write as _;

/// One line for a terminal: every character that could act on it is escaped, also line ends and tabs.
#[must_use]
pub fn line(text: &str) -> Cow<'_, str> {
    if text.chars().any(acts) { Cow::Owned(escape_chars(text, |_| false)) } else { text.into() }
}

/// A message of several lines: as [`line()`], but line ends stay.
#[must_use]
pub fn lines(text: &str) -> Cow<'_, str> {
    let keep = |c| c == '\n';
    if text.chars().any(|c| acts(c) && !keep(c)) {
        Cow::Owned(escape_chars(text, keep))
    } else {
        text.into()
    }
}

/// Bytes as one line for a terminal; bytes that are not UTF-8 become `\xNN`.
#[must_use]
pub fn bytes_line(bytes: &[u8]) -> String {
    escape_bytes(bytes, |_| false)
}

/// Bytes as a view of a body for a terminal: line ends and tabs stay as they are.
#[must_use]
pub fn bytes_view(bytes: &[u8]) -> String {
    escape_bytes(bytes, |c| c == '\n' || c == '\t')
}

/// One field of a TAB-separated line: TAB, LF, CR, NUL and backslash become `\t`, `\n`, `\r`, `\0`, `\\`.
///
/// [`unescape_field`] is the inverse. Every other byte stays as it is.
pub fn field(bytes: &[u8], out: &mut Vec<u8>) {
    for &byte in bytes {
        match byte {
            b'\t' => out.extend_from_slice(b"\\t"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            0 => out.extend_from_slice(b"\\0"),
            b'\\' => out.extend_from_slice(b"\\\\"),
            other => out.push(other),
        }
    }
}

/// The bytes that [`field`] wrote.
#[must_use]
pub fn unescape_field(field: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(field.len());
    let mut bytes = field.iter().copied();
    while let Some(byte) = bytes.next() {
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        match bytes.next() {
            Some(b't') => out.push(b'\t'),
            Some(b'n') => out.push(b'\n'),
            Some(b'r') => out.push(b'\r'),
            Some(b'0') => out.push(0),
            Some(other) => out.push(other),
            None => out.push(b'\\'),
        }
    }
    out
}

/// JSON text for a terminal: characters that act on it, which JSON leaves alone, become `\uXXXX`.
///
/// Such characters stand only inside strings, where the escape means the same character. Line ends
/// between the tokens stay.
#[must_use]
pub fn json(text: &str) -> Cow<'_, str> {
    let dangerous = |c: char| acts(c) && c != '\n';
    if !text.chars().any(dangerous) {
        return text.into();
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if dangerous(c) {
            let mut units = [0u16; 2];
            for unit in c.encode_utf16(&mut units) {
                let _ = write!(out, "\\u{unit:04x}");
            }
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

/// Whether a terminal would obey or hide this character.
#[must_use]
pub fn acts(c: char) -> bool {
    c.is_control()
        || matches!(c,
            // Bidirectional marks, embeddings, overrides and isolates.
            '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
            // Zero width, invisible operators, separators that break lines, tags.
            | '\u{00ad}' | '\u{180e}' | '\u{200b}'..='\u{200d}' | '\u{2028}' | '\u{2029}'
            | '\u{2060}'..='\u{2065}' | '\u{206a}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}')
}

fn escape_bytes(bytes: &[u8], keep: fn(char) -> bool) -> String {
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        push_escaped(chunk.valid(), keep, &mut out);
        for byte in chunk.invalid() {
            let _ = write!(out, "\\x{byte:02x}");
        }
    }
    out
}

fn escape_chars(text: &str, keep: fn(char) -> bool) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    push_escaped(text, keep, &mut out);
    out
}

fn push_escaped(text: &str, keep: fn(char) -> bool, out: &mut String) {
    for c in text.chars() {
        match c {
            c if !acts(c) || keep(c) => out.push(c),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if u32::from(c) <= 0xff => {
                let _ = write!(out, "\\x{:02x}", u32::from(c));
            }
            c => {
                let _ = write!(out, "\\u{{{:x}}}", u32::from(c));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn terminal_attacks_are_shown_not_obeyed() {
        let corpus: &[&[u8]] = &[
            b"\x1b]52;c;aGk=\x07",
            b"\x1b]8;;http://x\x1b\\click",
            b"\x1b[2J",
            b"\x1bP$q\x1b\\",
            b"\x07",
            b"\x7f",
            "\u{9b}2J".as_bytes(),
            b"\x9b2J",
            b"\xc0\x9b",
            "\u{202e}evil\u{2066}".as_bytes(),
            "zero\u{200b}width\u{feff}".as_bytes(),
        ];
        for attack in corpus {
            let shown = bytes_view(attack);
            assert!(!shown.chars().any(|c| acts(c) && c != '\n' && c != '\t'), "{shown:?}");
        }
        assert_eq!(bytes_line(b"a\x1b[2J\n\xff"), "a\\x1b[2J\\n\\xff");
        assert_eq!(line("x\u{202e}y"), "x\\u{202e}y");
        assert_eq!(lines("a\nb\x07"), "a\nb\\x07");
    }

    #[test]
    fn ordinary_text_is_not_copied() {
        assert!(matches!(line("größe 1"), Cow::Borrowed(_)));
        assert!(matches!(json("{\n \"a\": 1}"), Cow::Borrowed(_)));
    }

    proptest! {
        #[test]
        fn fields_come_back(bytes: Vec<u8>) {
            let mut out = Vec::new();
            field(&bytes, &mut out);
            prop_assert!(!out.iter().any(|byte| matches!(byte, b'\t' | b'\n' | b'\r' | 0)));
            prop_assert_eq!(unescape_field(&out), bytes);
        }

        #[test]
        fn escaped_json_means_the_same(text: String) {
            let plain = serde_json::to_string(&text).unwrap();
            let escaped = json(&plain);
            prop_assert!(!escaped.chars().any(|c| acts(c) && c != '\n'));
            prop_assert_eq!(serde_json::from_str::<String>(&escaped).unwrap(), text);
        }
    }
}
