//! Splits typed text into words of bytes.
//!
//! The grammar is that of redis' `sdssplitargs`, with a few additions:
//!
//! | Written | Word |
//! |---|---|
//! | `mail` | the bytes as they are; a backslash means itself |
//! | `"a\n\x00"` | escapes `\n \r \t \a \b \\ \" \xHH`; any other `\c` is `c` |
//! | `'it\'s'` | unchanged, except `\'` |
//! | `{"a": 1}`, `[1, 2]` | up to the matching bracket, blanks and quotes included |
//! | `json:{…}`, `b64:…`, `hex:…` | checked JSON, decoded base64, decoded hex |
//! | `<<END`, `<<-END` | the following lines up to `END`, joined by LF; `<<-` drops leading tabs |
//! | `! …` | at the start of a statement: the word `!`, and the rest of the line as it is, for a shell |
//! | `CMD | …` | the word `|`, and the rest of the line as it is, for a shell |
//! | `CMD > F`, `CMD >> F` | the word `>` or `>>` at the start of a word, whatever follows |
//! | `# …` | a comment, up to the end of the line |
//! | `\` at the end of a line | the next line continues this one |
//!
//! A closing quote must be followed by a blank or the end. Blanks are space, TAB, CR, VT and FF;
//! an LF outside quotes ends the statement.

mod partial;
mod quote;
mod word;

use crate::text::encoding::{from_base64, from_hex, hex_digit};
pub use crate::text::lexer::partial::{Partial, partial};
pub use crate::text::lexer::quote::quote;
pub use crate::text::lexer::word::{LexError, Open, Statement, Word};

/// Removes the first statement from `text`.
///
/// # Errors
///
/// [`LexError::Incomplete`] if more text could complete the statement, [`LexError::Invalid`]
/// otherwise. Nothing is taken in either case.
pub fn next_statement(text: &[u8]) -> Result<Statement, LexError> {
    let mut lexer = Lexer { text, at: 0 };
    let mut words = Vec::new();
    let mut heredocs = Vec::new();
    while lexer.skip_blanks()? {
        let start = lexer.at;
        if words.is_empty() && lexer.peek() == Some(b'!') || lexer.peek() == Some(b'|') {
            words.extend(lexer.shell_line());
            break;
        }
        if let Some(sign) = lexer.file_sign() {
            words.push(sign);
            continue;
        }
        match lexer.heredoc_start() {
            Some((tag, strip_tabs)) => {
                heredocs.push((words.len(), tag, strip_tabs));
                let (bytes, end) = (Vec::new(), lexer.at);
                words.push(Word { bytes, literal: true, start, end, heredoc: true });
            }
            None => words.push(lexer.word()?),
        }
    }
    if lexer.peek() == Some(b'\n') {
        lexer.at += 1;
    }
    for (index, tag, strip_tabs) in heredocs {
        let body = lexer.heredoc_body(tag, strip_tabs)?;
        if let Some(word) = words.get_mut(index) {
            word.bytes = body;
        }
    }
    Ok(Statement { words, used: lexer.at })
}

const ENCODINGS: [&[u8]; 3] = [b"b64:", b"hex:", b"json:"];

struct Lexer<'t> {
    text: &'t [u8],
    at: usize,
}

impl Lexer<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn rest(&self) -> &[u8] {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// Advances to the next word; returns false if the command ends here.
    fn skip_blanks(&mut self) -> Result<bool, LexError> {
        loop {
            match self.peek() {
                None | Some(b'\n') => return Ok(false),
                Some(b) if is_blank(b) => self.at += 1,
                Some(b'#') => {
                    let len = self.rest().iter().position(|b| *b == b'\n');
                    self.at += len.unwrap_or(self.rest().len());
                }
                Some(b'\\') => match self.continuation()? {
                    Some(len) => self.at += len,
                    None => return Ok(true),
                },
                Some(_) => return Ok(true),
            }
        }
    }

    fn in_comment(&self, base: usize) -> bool {
        let typed = self.text.get(base..).unwrap_or_default();
        let line = typed.rsplit(|b| *b == b'\n').next().unwrap_or_default();
        let mut previous_is_blank = true;
        line.iter().any(|b| {
            let starts_comment = *b == b'#' && previous_is_blank;
            previous_is_blank = is_blank(*b);
            starts_comment
        })
    }

    /// The length of a backslash with its line end, if one is here and another line follows.
    fn continuation(&self) -> Result<Option<usize>, LexError> {
        match self.rest() {
            [b'\\'] | [b'\\', b'\r'] | [b'\\', b'\n'] | [b'\\', b'\r', b'\n'] => {
                Err(LexError::Incomplete(Open::Backslash))
            }
            [b'\\', b'\n', ..] => Ok(Some(2)),
            [b'\\', b'\r', b'\n', ..] => Ok(Some(3)),
            _ => Ok(None),
        }
    }

    /// The `!` or `|` here, and the rest of its line.
    fn shell_line(&mut self) -> [Word; 2] {
        let (start, len) = (self.at, self.rest().iter().position(|byte| *byte == b'\n'));
        let end = len.map_or(self.text.len(), |len| start + len);
        let sign = self.text.get(start..start + 1).unwrap_or_default().to_vec();
        let line = self.text.get(start + 1..end).unwrap_or_default().trim_ascii().to_vec();
        self.at = end;
        [Word::new(sign, false, start, start + 1), Word::new(line, true, start + 1, end)]
    }

    /// The `>` or `>>` here.
    fn file_sign(&mut self) -> Option<Word> {
        let signs: [&[u8]; 2] = [b">>", b">"];
        let sign = signs.into_iter().find(|sign| self.rest().starts_with(sign))?;
        let start = self.at;
        self.at += sign.len();
        Some(Word::new(sign.to_vec(), false, start, self.at))
    }

    fn word(&mut self) -> Result<Word, LexError> {
        let start = self.at;
        let first = self.peek();
        let encoding = ENCODINGS.iter().find(|prefix| self.rest().starts_with(prefix));
        let literal = encoding.is_some() || matches!(first, Some(b'"' | b'\'' | b'{' | b'['));
        let bytes = match encoding {
            Some(prefix) => {
                self.at += prefix.len();
                self.encoded(prefix)?
            }
            None => self.plain()?,
        };
        Ok(Word::new(bytes, literal, start, self.at))
    }

    fn plain(&mut self) -> Result<Vec<u8>, LexError> {
        let mut bytes = Vec::new();
        if let Some(open @ (b'{' | b'[')) = self.peek() {
            bytes.extend_from_slice(self.bracketed(open)?);
        }
        while let Some(b) = self.peek() {
            match b {
                b'\n' => break,
                b if is_blank(b) => break,
                b'"' => {
                    self.double_quoted(&mut bytes)?;
                    break;
                }
                b'\'' => {
                    self.single_quoted(&mut bytes)?;
                    break;
                }
                b'\\' => match self.continuation()? {
                    Some(len) => self.at += len,
                    None => self.backslashes(&mut bytes),
                },
                b => {
                    bytes.push(b);
                    self.at += 1;
                }
            }
        }
        Ok(bytes)
    }

    /// Two backslashes stand for themselves, so only an odd number at a line's end continues it.
    fn backslashes(&mut self, bytes: &mut Vec<u8>) {
        let pair = usize::from(self.rest().get(1) == Some(&b'\\'));
        bytes.extend(std::iter::repeat_n(b'\\', 1 + pair));
        self.at += 1 + pair;
    }

    fn double_quoted(&mut self, bytes: &mut Vec<u8>) -> Result<(), LexError> {
        self.at += 1;
        loop {
            match *self.rest() {
                [] => return Err(LexError::Incomplete(Open::Quote('"'))),
                [b'"', ..] => return self.close_quote('"'),
                [b'\\', b'\n', ..] => self.at += 2,
                [b'\\', b'\r', b'\n', ..] => self.at += 3,
                [b'\\', b'x', high, low, ..]
                    if hex_digit(high).is_some() && hex_digit(low).is_some() =>
                {
                    bytes.extend(
                        hex_digit(high).zip(hex_digit(low)).map(|(high, low)| high << 4 | low),
                    );
                    self.at += 4;
                }
                [b'\\', escaped, ..] => {
                    bytes.push(match escaped {
                        b'n' => b'\n',
                        b'r' => b'\r',
                        b't' => b'\t',
                        b'a' => 0x07,
                        b'b' => 0x08,
                        other => other,
                    });
                    self.at += 2;
                }
                [b, ..] => {
                    bytes.push(b);
                    self.at += 1;
                }
            }
        }
    }

    fn single_quoted(&mut self, bytes: &mut Vec<u8>) -> Result<(), LexError> {
        self.at += 1;
        loop {
            match *self.rest() {
                [] => return Err(LexError::Incomplete(Open::Quote('\''))),
                [b'\\', b'\'', ..] => {
                    bytes.push(b'\'');
                    self.at += 2;
                }
                [b'\'', ..] => return self.close_quote('\''),
                [b, ..] => {
                    bytes.push(b);
                    self.at += 1;
                }
            }
        }
    }

    fn close_quote(&mut self, quote: char) -> Result<(), LexError> {
        self.at += 1;
        match self.peek() {
            None | Some(b'\n') => Ok(()),
            Some(b) if is_blank(b) => Ok(()),
            Some(_) => Err(LexError::Invalid(format!(
                "a space must follow the closing {quote} (write \\{quote} for a literal one)"
            ))),
        }
    }

    /// The text from `{` or `[` up to the matching bracket, skipping JSON strings.
    fn bracketed(&mut self, open: u8) -> Result<&[u8], LexError> {
        let start = self.at;
        let (mut depth, mut in_string) = (0_usize, false);
        while let Some(b) = self.peek() {
            self.at += 1;
            match b {
                b'\\' if in_string => self.at += 1,
                b'"' => in_string = !in_string,
                b'{' | b'[' if !in_string => depth += 1,
                b'}' | b']' if !in_string => {
                    depth -= 1;
                    if depth == 0 {
                        return Ok(self.text.get(start..self.at).unwrap_or_default());
                    }
                }
                _ => {}
            }
        }
        self.at = start;
        Err(LexError::Incomplete(Open::Bracket(char::from(open))))
    }

    fn encoded(&mut self, prefix: &[u8]) -> Result<Vec<u8>, LexError> {
        if prefix == b"json:" {
            return self.json();
        }
        let text = String::from_utf8_lossy(self.until_blank());
        let (name, bytes) = match prefix {
            b"hex:" => ("hex:", from_hex(&text)),
            _ => ("b64:", from_base64(&text)),
        };
        bytes.map_err(|why| LexError::Invalid(format!("the text after {name} is {why}")))
    }

    fn json(&mut self) -> Result<Vec<u8>, LexError> {
        let text = match self.peek() {
            Some(open @ (b'{' | b'[')) => self.bracketed(open)?,
            Some(b'"') => {
                let start = self.at;
                self.double_quoted(&mut Vec::new())?;
                self.text.get(start..self.at).unwrap_or_default()
            }
            _ => self.until_blank(),
        }
        .to_vec();
        match serde_json::from_slice::<serde::de::IgnoredAny>(&text) {
            Ok(_) => Ok(text),
            Err(e) => Err(LexError::Invalid(format!("the text after json: is not JSON: {e}"))),
        }
    }

    fn until_blank(&mut self) -> &[u8] {
        let start = self.at;
        while self.peek().is_some_and(|b| b != b'\n' && !is_blank(b)) {
            self.at += 1;
        }
        self.text.get(start..self.at).unwrap_or_default()
    }

    /// Takes `<<TAG` or `<<-TAG` (the tag may be quoted, as in a shell).
    fn heredoc_start(&mut self) -> Option<(Vec<u8>, bool)> {
        let mut rest = self.rest().strip_prefix(b"<<")?;
        let strip_tabs = rest.first() == Some(&b'-');
        rest = rest.get(usize::from(strip_tabs)..)?;
        let quote = rest.first().copied().filter(|b| matches!(b, b'\'' | b'"'));
        rest = rest.get(usize::from(quote.is_some())..)?;
        let is_tag = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.');
        let len = rest.iter().position(|b| !is_tag(b)).unwrap_or(rest.len());
        let (tag, mut after) = rest.split_at_checked(len)?;
        if let Some(quote) = quote {
            after = after.strip_prefix(&[quote])?;
        }
        let ends = after.first().is_none_or(|b| *b == b'\n' || is_blank(*b));
        if tag.is_empty() || !ends {
            return None;
        }
        let tag = tag.to_vec();
        self.at = self.text.len() - after.len();
        Some((tag, strip_tabs))
    }

    fn heredoc_body(&mut self, tag: Vec<u8>, strip_tabs: bool) -> Result<Vec<u8>, LexError> {
        let mut body = Vec::new();
        let mut lines = 0_usize;
        let mut at = self.at;
        while let Some(rest) = self.text.get(at..).filter(|rest| !rest.is_empty()) {
            let len = rest.iter().position(|b| *b == b'\n').unwrap_or(rest.len());
            let mut line = rest.get(..len).unwrap_or_default();
            at = (at + len + 1).min(self.text.len());
            while strip_tabs && let Some(rest) = line.strip_prefix(b"\t") {
                line = rest;
            }
            if line.strip_suffix(b"\r").unwrap_or(line) == tag {
                self.at = at;
                return Ok(body);
            }
            if lines > 0 {
                body.push(b'\n');
            }
            body.extend_from_slice(line);
            lines += 1;
        }
        Err(LexError::Incomplete(Open::Heredoc { tag, strip_tabs }))
    }
}

fn is_blank(b: u8) -> bool {
    matches!(b, b' ' | b'\t' | b'\r' | 0x0b | 0x0c)
}

#[cfg(test)]
mod tests;
