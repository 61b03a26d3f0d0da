//! Words that are data, passed through a command line that would interpret them as something else.
//!
//! `put "@x"` in a session means the body `@x`, not the file `x`; `put "-1"` is not a flag; and a body may
//! hold bytes that an operating system does not allow in an argument. Such a word travels as a NUL, an
//! `x` and hexadecimal digits. No real argument can look like this, because arguments never contain a NUL.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use super::lexer::Word;
use crate::text::encoding::{from_hex, hex};

const MARK: &str = "\0x";

/// The arguments for the words of a statement. With `bodies`, literal words that could be mistaken
/// for something else are marked; [`decode`] reads them.
///
/// # Errors
/// A word that cannot be an argument on this operating system: a message for the user.
pub fn to_arguments(words: &[Word], bodies: bool) -> Result<Vec<OsString>, String> {
    let argument = |(at, word): (usize, &Word)| match bodies && at > 0 && needs_mark(word) {
        true => Ok(mark(&word.bytes).into()),
        false => from_bytes(&word.bytes),
    };
    words.iter().enumerate().map(argument).collect()
}

/// The bytes of an argument that [`to_arguments`] marked; `None` for every other argument.
pub fn decode(argument: &OsStr) -> Option<Vec<u8>> {
    from_hex(argument.to_str()?.strip_prefix(MARK)?).ok()
}

/// `text` with its marked arguments shown as they were typed, for messages that quote arguments.
pub(crate) fn unmark(text: &str, words: &[Word]) -> String {
    words.iter().filter(|word| needs_mark(word)).fold(text.to_owned(), |text, word| {
        let typed = super::lexer::quote(&word.bytes);
        text.replace(&mark(&word.bytes), &typed)
    })
}

fn needs_mark(word: &Word) -> bool {
    let mistakable = matches!(word.bytes.first(), Some(b'@' | b'-' | 0));
    word.literal && (mistakable || std::str::from_utf8(&word.bytes).is_err())
}

fn mark(bytes: &[u8]) -> String {
    format!("{MARK}{}", hex(bytes))
}

/// The argument of these bytes.
#[cfg(unix)]
pub(crate) fn from_bytes(bytes: &[u8]) -> Result<OsString, String> {
    use std::os::unix::ffi::OsStringExt;
    Ok(OsString::from_vec(bytes.to_vec()))
}

#[cfg(not(unix))]
pub(crate) fn from_bytes(bytes: &[u8]) -> Result<OsString, String> {
    String::from_utf8(bytes.to_vec()).map(OsString::from).map_err(|_| {
        format!("{} is not UTF-8, which an argument must be here", super::lexer::quote(bytes))
    })
}

/// The file name that a word stands for, byte for byte if the operating system allows it.
///
/// # Errors
/// As [`to_arguments`].
pub(crate) fn to_path(word: &Word) -> Result<PathBuf, String> {
    from_bytes(&word.bytes).map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::lexer::{next_statement, quote};
    use super::*;

    fn arguments(text: &str, bodies: bool) -> Vec<OsString> {
        to_arguments(&next_statement(text.as_bytes()).unwrap().words, bodies).unwrap()
    }

    #[test]
    fn marks_only_ambiguous_values() {
        assert_eq!(
            arguments("put -t mail @f - \"a b\"", true),
            ["put", "-t", "mail", "@f", "-", "a b"]
        );
        let marked = arguments("put \"@f\" '-' \"-x\"", true);
        let decoded: Vec<_> = marked[1..].iter().map(|a| decode(a).unwrap()).collect();
        assert_eq!(decoded, [b"@f".to_vec(), b"-".to_vec(), b"-x".to_vec()]);
        assert_eq!(arguments("use '-x'", false), ["use", "-x"]);
        assert_eq!(decode(OsStr::new("x40")), None);
    }

    #[test]
    fn messages_quote_the_input() {
        let words = next_statement(b"put -t '-x' b").unwrap().words;
        let message = format!("tube {} is not valid", mark(b"-x"));
        assert_eq!(unmark(&message, &words), "tube \"-x\" is not valid");
    }

    proptest! {
        #[test]
        fn any_body_arrives(body: Vec<u8>) {
            let text = format!("put \"{}\"", body.iter().map(|b| format!("\\x{b:02x}")).collect::<String>());
            let arguments = arguments(&text, true);
            let arrived = decode(&arguments[1]).unwrap_or_else(|| arguments[1].clone().into_encoded_bytes());
            prop_assert_eq!(arrived, body.clone());
            prop_assert!(!quote(&body).is_empty());
        }
    }
}
