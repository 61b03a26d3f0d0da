//! Names as text that is read back, whatever their bytes.

use std::{borrow::Cow, fmt::Write as _, str};

use bytes::Bytes;
use queue_core::unname;
use serde::{Deserialize, Deserializer, Serializer};

/// Bytes that are not UTF-8 as `\xHH`; so is every backslash of a name where one would read as an escape.
pub(crate) fn written(name: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = str::from_utf8(name)
        && unname(text) == name
    {
        return text.into();
    }
    let mut text = String::new();
    for chunk in name.utf8_chunks() {
        text += &chunk.valid().replace('\\', "\\x5c");
        for byte in chunk.invalid() {
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text.into()
}

pub(crate) fn serialize<S: Serializer>(name: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&written(name))
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Bytes, D::Error> {
    Ok(unname(&<Cow<'_, str>>::deserialize(deserializer)?).into())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn escapes_only_ambiguous_text() {
        for (name, text) in [
            (&b"plain"[..], "plain"),
            ("M\u{fc}nchen C:\\temp".as_bytes(), "M\u{fc}nchen C:\\temp"),
            (b"a\\\\b", r"a\x5c\x5cb"),
            (br"\xff", r"\x5cxff"),
            (b"a\xff\\", r"a\xff\x5c"),
        ] {
            assert_eq!(written(name), text);
            assert_eq!(unname(text), name);
        }
        // As the tools show such a name.
        assert_eq!(unname(r"\\xff\n\x5"), b"\\xff\\n\\x5");
    }

    proptest! {
        #[test]
        fn escaped_text_round_trips(name in prop::collection::vec(
            prop::sample::select(b"\\x5cf0a\xff\xc3\xbc".to_vec()), 0..12)) {
            prop_assert_eq!(unname(&written(&name)), name);
        }
    }
}
