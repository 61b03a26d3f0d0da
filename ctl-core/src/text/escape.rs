//! Makes untrusted text (names, bodies, server replies) safe for terminals and line formats.
//!
//! A terminal obeys control characters, and bidirectional or zero-width characters make text look like
//! something else (CWE-150). Such characters are shown as `\x1b` or `\u{202e}`.

use std::borrow::Cow;
use std::fmt::Write as _;

use queue_core::escaped_byte;
pub use queue_core::unname;

/// One line for a terminal: escapes every character that could act on it, including line ends and tabs.
pub fn line(text: &str) -> Cow<'_, str> {
    escape_chars(text, |_| false)
}

/// As [`line()`], but keeps line ends, for messages of several lines.
pub fn lines(text: &str) -> Cow<'_, str> {
    escape_chars(text, |c| c == '\n')
}

/// The text of a name of any bytes, which [`unname`] reads back. Each byte of a character that a terminal would act on
/// or hide becomes `\xNN`, as does one that is not UTF-8; a backslash that would then start an escape becomes `\\`.
pub fn name(bytes: &[u8]) -> String {
    let mut out = Vec::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        let mut rest = chunk.valid().chars();
        while let Some(c) = rest.next() {
            let mut utf8 = [0; 4];
            let utf8 = c.encode_utf8(&mut utf8).as_bytes();
            let rest = rest.as_str();
            let starts_escape = || {
                rest.starts_with('\\')
                    || rest.starts_with(acts)
                    || escaped_byte(rest.as_bytes()).is_some()
            };
            match c {
                c if acts(c) => utf8.iter().for_each(|byte| push_hex(*byte, &mut out)),
                '\\' if starts_escape() || rest.is_empty() && !chunk.invalid().is_empty() => {
                    out.extend_from_slice(b"\\\\");
                }
                _ => out.extend_from_slice(utf8),
            }
        }
        chunk.invalid().iter().for_each(|byte| push_hex(*byte, &mut out));
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Bytes as one line for a terminal; bytes that are not UTF-8 become `\xNN`.
pub(crate) fn bytes_line(bytes: &[u8]) -> String {
    escape_bytes(bytes, |_| false)
}

/// The bytes of a body for a terminal; keeps line ends and tabs.
pub fn bytes_view(bytes: &[u8]) -> String {
    escape_bytes(bytes, |c| c == '\n' || c == '\t')
}

/// One field of a TAB-separated line: TAB, LF, CR, NUL and backslash become `\t`, `\n`, `\r`, `\0`, `\\`. Each byte of
/// a character that a terminal would act on or hide becomes `\xNN`, as does invalid UTF-8 of that kind.
///
/// So it can be read back. Every other byte is unchanged.
pub fn field(bytes: &[u8]) -> Vec<u8> {
    let is_plain = |byte: &u8| matches!(byte, b' '..=b'~') && *byte != b'\\';
    if bytes.iter().all(is_plain) {
        return bytes.to_vec();
    }
    let mut out = Vec::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            let mut utf8 = [0; 4];
            let utf8 = c.encode_utf8(&mut utf8).as_bytes();
            match c {
                '\t' => out.extend_from_slice(b"\\t"),
                '\n' => out.extend_from_slice(b"\\n"),
                '\r' => out.extend_from_slice(b"\\r"),
                '\0' => out.extend_from_slice(b"\\0"),
                '\\' => out.extend_from_slice(b"\\\\"),
                c if acts(c) => utf8.iter().for_each(|byte| push_hex(*byte, &mut out)),
                _ => out.extend_from_slice(utf8),
            }
        }
        for &byte in chunk.invalid() {
            // A terminal with an 8-bit character set takes these for C1 controls.
            if matches!(byte, 0x80..=0x9f) { push_hex(byte, &mut out) } else { out.push(byte) }
        }
    }
    out
}

fn push_hex(byte: u8, out: &mut Vec<u8>) {
    out.extend_from_slice(format!("\\x{byte:02x}").as_bytes());
}

/// Maximum length of a text in a message, in bytes.
const LONGEST: usize = 4096;

/// A text for a message: the first 4 KiB of a long one, and its length.
pub fn shorten(text: &str) -> Cow<'_, str> {
    if text.len() <= LONGEST {
        return text.into();
    }
    let shown = text.get(..text.floor_char_boundary(LONGEST)).unwrap_or_default();
    format!("{shown}… (the first {} of {} bytes)", shown.len(), text.len()).into()
}

/// Truncates a text to `most` bytes; a cut text ends with an ellipsis.
pub(crate) fn clip(text: &str, most: usize) -> Cow<'_, str> {
    const ELLIPSIS: &str = "…";
    if text.len() <= most {
        return text.into();
    }
    let end = text.floor_char_boundary(most.saturating_sub(ELLIPSIS.len()));
    format!("{}{ELLIPSIS}", text.get(..end).unwrap_or_default()).into()
}

/// JSON text for a terminal: characters that act on it, and that JSON permits, become `\uXXXX`.
///
/// Such characters occur only inside strings, where the escape is equivalent. Line ends between tokens stay.
pub fn json(text: &str) -> Cow<'_, str> {
    let dangerous = |c: char| acts(c) && c != '\n';
    if text.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\n')) {
        return text.into();
    }
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

/// Whether a terminal would act on or hide this character.
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

fn escape_chars(text: &str, keep: fn(char) -> bool) -> Cow<'_, str> {
    if !text.chars().any(|c| acts(c) && !keep(c)) {
        return text.into();
    }
    let mut out = String::with_capacity(text.len() + 16);
    push_escaped(text, keep, &mut out);
    out.into()
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

/// The inverse of [`field`].
#[cfg(test)]
pub(crate) fn unescape_field(field: &[u8]) -> Vec<u8> {
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
            Some(b'x') => {
                let digits: Option<Vec<u8>> =
                    bytes.by_ref().take(2).map(super::encoding::hex_digit).collect();
                if let Some([high, low]) = digits.as_deref() {
                    out.push(high << 4 | low);
                }
            }
            Some(other) => out.push(other),
            None => out.push(b'\\'),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn escapes_control_sequences() {
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
    fn escapes_names_only_where_needed() {
        for (bytes, shown) in [
            (&b"Linux Servers"[..], "Linux Servers"),
            ("größe".as_bytes(), "größe"),
            (b"a\tb\x1b", "a\\x09b\\x1b"),
            (b"b\xff", "b\\xff"),
            (br"App\Jobs\xylo", r"App\Jobs\xylo"),
            (br"a\xffb\\", r"a\\xffb\\\"),
            (b"a\\\xff", r"a\\\xff"),
        ] {
            assert_eq!((name(bytes).as_str(), unname(shown)), (shown, bytes.to_vec()));
        }
        assert_eq!(unname(r"\\\xFf\xf\n\"), b"\\\xff\\xf\\n\\");
    }

    #[test]
    fn ordinary_text_is_not_copied() {
        assert!(matches!(line("größe 1"), Cow::Borrowed(_)));
        assert!(matches!(json("{\n \"a\": 1}"), Cow::Borrowed(_)));
    }

    #[test]
    fn fields_contain_no_control_characters() {
        let out =
            [field("a\x1b[2J\x07\x7f\u{9b}\u{202e}ü\\".as_bytes()), field(b"\x9b\xff")].concat();
        let shown = b"a\\x1b[2J\\x07\\x7f\\xc2\\x9b\\xe2\\x80\\xae\xc3\xbc\\\\\\x9b\xff";
        assert_eq!(out, shown);
        assert_eq!(unescape_field(b"\\x1b\\xe"), b"\x1b");
    }

    #[test]
    fn truncates_long_texts_and_states_their_length() {
        assert_eq!(shorten(&"x".repeat(4096)).len(), 4096);
        let cut = shorten(&"ü".repeat(3000)).into_owned();
        assert!(cut.len() < 4200 && cut.ends_with("… (the first 4096 of 6000 bytes)"), "{cut}");
        let odd = shorten(&format!("x{}", "ü".repeat(3000))).into_owned();
        assert!(odd.ends_with("(the first 4095 of 6001 bytes)"), "{odd}");
    }

    proptest! {
            #[test]
            fn fields_round_trip(bytes: Vec<u8>) {
    let out = field(&bytes);
    let text = String::from_utf8_lossy(&out);
                prop_assert!(!text.chars().any(acts), "{text:?}");
                prop_assert_eq!(unescape_field(&out), bytes);
            }

            #[test]
            fn names_round_trip(bytes in proptest::collection::vec(
                prop_oneof![any::<u8>(), proptest::sample::select(br"\xfF".to_vec())], 0..40,
            )) {
                let text = name(&bytes);
                prop_assert!(!text.chars().any(acts), "{text:?}");
                prop_assert_eq!(unname(&text), bytes);
            }

            #[test]
            fn escaped_json_keeps_its_value(text: String) {
                let plain = serde_json::to_string(&text).unwrap();
                let escaped = json(&plain);
                prop_assert!(!escaped.chars().any(|c| acts(c) && c != '\n'));
                prop_assert_eq!(serde_json::from_str::<String>(&escaped).unwrap(), text);
            }
        }
}
