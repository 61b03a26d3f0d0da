//! Statements and their words, and why a text is invalid.

use std::fmt;

/// One word of a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word {
    /// The decoded bytes.
    pub bytes: Vec<u8>,
    /// Whether the first byte was quoted or encoded: such a word is data, never a flag, a file name
    /// after `@` or the `-` that means stdin.
    pub literal: bool,
    /// Where the word starts in the text, in bytes.
    pub start: usize,
    /// Where the word ends in the text, in bytes.
    pub end: usize,
    /// Whether the word is the body of a `<<` (its text is not at `start..end`, but below).
    pub heredoc: bool,
}

impl Word {
    pub(crate) fn new(bytes: Vec<u8>, literal: bool, start: usize, end: usize) -> Self {
        Self { bytes, literal, start, end, heredoc: false }
    }

    /// The sign that redirects results to a file or to another program, if this is one. In quotes, it is data.
    pub(crate) fn redirection(&self) -> Option<&'static str> {
        let is_data = self.literal || self.heredoc;
        let signs = [">>", ">", "|"];
        signs.into_iter().find(|sign| !is_data && self.bytes == sign.as_bytes())
    }
}

/// A statement: one command with its words. Empty for blank lines and comments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Statement {
    /// The words, the verb first.
    pub words: Vec<Word>,
    /// Length of the statement in bytes, including its line ends and `<<` bodies.
    pub used: usize,
}

/// The part that is still missing at the end of the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Open {
    /// A `"` or `'` is not closed.
    Quote(char),
    /// A `{` or `[` at the start of a word is not closed.
    Bracket(char),
    /// The text ends after a backslash.
    Backslash,
    /// The end line of a `<<` has not arrived.
    Heredoc {
        /// The end line.
        tag: Vec<u8>,
        /// Whether leading tabs are dropped (`<<-`).
        strip_tabs: bool,
    },
}

/// The reason why a text is not a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LexError {
    /// More text could complete it.
    Incomplete(Open),
    /// No further text can make it valid.
    Invalid(String),
}

impl fmt::Display for LexError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Invalid argument(s): ")?;
        match self {
            Self::Incomplete(Open::Quote(quote)) => {
                write!(
                    f,
                    "the {quote} is not closed (write the body after <<END to use more lines)"
                )
            }
            Self::Incomplete(Open::Bracket(bracket)) => write!(
                f,
                "the {bracket} that starts the word is not closed (put it in quotes to send it as it is)"
            ),
            Self::Incomplete(Open::Backslash) => {
                f.write_str("the line ends with \\ but no line follows")
            }
            Self::Incomplete(Open::Heredoc { tag, .. }) => {
                write!(f, "the line {} that ends the << is missing", String::from_utf8_lossy(tag))
            }
            Self::Invalid(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for LexError {}
