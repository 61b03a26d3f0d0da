//! The inverse of splitting: bytes written as one word.

use super::ENCODINGS;
use crate::text::escape;

/// Writes `bytes` so that [`next_statement`](super::next_statement) reads them back as one word: bare if possible, in
/// double quotes otherwise. Bytes that are not UTF-8, and characters that a terminal would interpret or hide, are
/// escaped.
pub fn quote(bytes: &[u8]) -> String {
    let bare = |b: &u8| b.is_ascii_alphanumeric() || b"_-+/;.$():,=@%^~*?!|&".contains(b);
    let reads_as_itself = !bytes.is_empty()
        && bytes.iter().all(bare)
        && !matches!(bytes.first(), Some(b'@' | b'-' | b'!' | b'|'))
        && ENCODINGS.iter().all(|prefix| !bytes.starts_with(prefix));
    if reads_as_itself {
        return String::from_utf8_lossy(bytes).into_owned();
    }
    let mut out = String::with_capacity(bytes.len() + 2);
    out.push('"');
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '"' | '\\' => out.extend(['\\', c]),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                c if escape::acts(c) => {
                    let mut utf8 = [0; 4];
                    c.encode_utf8(&mut utf8).bytes().for_each(|b| push_hex(&mut out, b));
                }
                c => out.push(c),
            }
        }
        chunk.invalid().iter().for_each(|b| push_hex(&mut out, *b));
    }
    out.push('"');
    out
}

fn push_hex(out: &mut String, byte: u8) {
    out.push_str(&format!("\\x{byte:02x}"));
}
