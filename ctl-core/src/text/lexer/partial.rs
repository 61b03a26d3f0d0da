//! The unfinished statement at the cursor.

use std::ffi::OsString;

use super::{LexError, Lexer, Open, Word, next_statement};

/// The words before the cursor, for completion and hints: `text` is the line up to the cursor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partial {
    /// The finished words of the statement at the cursor.
    pub words: Vec<Word>,
    /// Where the word under the cursor starts in the text.
    pub start: usize,
    /// The word under the cursor so far, decoded; empty after a blank.
    pub current: Vec<u8>,
    /// Whether the word under the cursor began with a quote or an encoding.
    pub literal: bool,
}

impl Partial {
    /// The words of a shell; the last one is under the cursor.
    pub(crate) fn of_words(words: &[OsString]) -> Self {
        let bytes = |word: &OsString| word.as_encoded_bytes().to_vec();
        let word = |word: &OsString| Word::new(bytes(word), false, 0, 0);
        let (current, before) = match words.split_last() {
            Some((current, before)) => (bytes(current), before),
            None => (Vec::new(), words),
        };
        Self { words: before.iter().map(word).collect(), start: 0, current, literal: false }
    }
}

/// Parses the statement at the end of `text`, whatever its state. `None` inside a comment, a `<<` body or text that
/// cannot be valid.
pub fn partial(text: &[u8]) -> Option<Partial> {
    let mut base = 0;
    // Skip the statements before the one that is being typed.
    while let Some(rest) = text.get(base..) {
        match next_statement(rest) {
            Ok(statement) if rest.get(..statement.used).is_some_and(|t| t.ends_with(b"\n")) => {
                base += statement.used;
            }
            Err(LexError::Incomplete(Open::Heredoc { .. })) if rest.contains(&b'\n') => {
                return None;
            }
            _ => break,
        }
    }
    let mut lexer = Lexer { text, at: base };
    let mut words = Vec::new();
    loop {
        match lexer.skip_blanks() {
            Ok(true) => {}
            Ok(false) | Err(_) if lexer.in_comment(base) => return None,
            Ok(false) | Err(_) => {
                return Some(Partial {
                    words,
                    start: text.len(),
                    current: Vec::new(),
                    literal: false,
                });
            }
        }
        let start = lexer.at;
        let is_for_shell =
            words.is_empty() && lexer.peek() == Some(b'!') || lexer.peek() == Some(b'|');
        // The rest belongs to the shell, or is not an argument.
        if is_for_shell || lexer.file_sign().is_some() {
            return None;
        }
        match lexer.word() {
            Ok(word) if word.end < text.len() => words.push(word),
            Ok(word) => {
                return Some(Partial { words, start, current: word.bytes, literal: word.literal });
            }
            Err(_) => {
                let current = text.get(start..)?;
                let literal = current.first().is_some_and(|b| matches!(b, b'"' | b'\''));
                let skip = usize::from(literal);
                return Some(Partial {
                    words,
                    start: start + skip,
                    current: current.get(skip..)?.to_vec(),
                    literal,
                });
            }
        }
    }
}
