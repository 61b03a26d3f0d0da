//! Where statements come from when they are not edited: scripts, pipes, `-e` texts, plain terminals.
//!
//! Lines are bytes; nothing is decoded, echoed or written here.

use std::io::{self, BufRead, Read as _};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, SyncSender};
use std::thread;
use std::time::Duration;

use crate::text::lexer::{self, LexError, Open, Statement};

/// The longest statement with its `<<` body, in bytes.
pub(crate) const MAX_STATEMENT: usize = 64 * 1024 * 1024;

/// The next item of a source.
#[derive(Debug)]
pub enum Input {
    /// A statement or its error, and where it starts.
    Statement {
        /// The number of the line that the statement begins on, from 1.
        line: usize,
        /// The text that was read for it.
        text: Vec<u8>,
        /// The statement; an error consumes only these lines.
        parsed: Result<Statement, LexError>,
    },
    /// There are no more.
    End,
    /// The user or a signal asked to stop while there was no input yet.
    Interrupted,
}

/// A source of lines with their LF.
pub trait Lines {
    /// Appends the next line to `line`. `more` means that it continues a statement.
    ///
    /// # Errors
    /// The input cannot be read.
    fn next_line(&mut self, more: bool, line: &mut Vec<u8>) -> io::Result<LineRead>;
}

/// How reading a line ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineRead {
    /// A line was read; the last one may lack its LF.
    Line,
    /// There are no more lines.
    End,
    /// See [`Input::Interrupted`].
    Interrupted,
}

/// Assembles lines into statements.
#[derive(Debug)]
pub struct Script<L> {
    lines: L,
    line: usize,
    open_lines: bool,
}

impl<L: Lines> Script<L> {
    /// A script: a quote or bracket that is open at the end of a line is an error there, so that a
    /// forgotten quote does not swallow the statements after it.
    pub fn new(lines: L) -> Self {
        Self { lines, line: 0, open_lines: false }
    }

    /// Lines typed by a person: quotes and brackets stay open over line ends.
    pub fn typed(lines: L) -> Self {
        Self { lines, line: 0, open_lines: true }
    }

    /// The next line unchanged, for an answer to a question.
    ///
    /// # Errors
    /// The input cannot be read.
    pub fn answer(&mut self, line: &mut Vec<u8>) -> io::Result<LineRead> {
        self.line += 1;
        self.lines.next_line(false, line)
    }

    /// The next statement; lines without one are skipped.
    ///
    /// # Errors
    /// The input cannot be read.
    pub fn next_input(&mut self) -> io::Result<Input> {
        loop {
            let mut text = Vec::new();
            match self.lines.next_line(false, &mut text)? {
                LineRead::Line => {}
                LineRead::End => return Ok(Input::End),
                LineRead::Interrupted => return Ok(Input::Interrupted),
            }
            self.line += 1;
            let line = self.line;
            let Some(parsed) = self.complete(&mut text)? else { return Ok(Input::Interrupted) };
            if parsed.as_ref().is_ok_and(|statement| statement.words.is_empty()) {
                continue;
            }
            return Ok(Input::Statement { line, text, parsed });
        }
    }

    /// Continues reading while the statement is incomplete. `None` if interrupted.
    fn complete(&mut self, text: &mut Vec<u8>) -> io::Result<Option<Result<Statement, LexError>>> {
        loop {
            let error = match lexer::next_statement(text) {
                Err(LexError::Incomplete(open))
                    if self.open_lines
                        || matches!(open, Open::Backslash | Open::Heredoc { .. }) =>
                {
                    open
                }
                parsed => return Ok(Some(parsed)),
            };
            if !text.ends_with(b"\n") {
                // The last line has no LF, so nothing follows.
                return Ok(Some(Err(LexError::Incomplete(error))));
            }
            let mut line_start;
            loop {
                line_start = text.len();
                match self.lines.next_line(true, text)? {
                    LineRead::Line => self.line += 1,
                    LineRead::End => return Ok(Some(Err(LexError::Incomplete(error)))),
                    LineRead::Interrupted => return Ok(None),
                }
                if text.len() > MAX_STATEMENT {
                    return Ok(Some(Err(LexError::Invalid(format!(
                        "the statement is longer than {MAX_STATEMENT} bytes"
                    )))));
                }
                // A body is parsed once, when its end line has arrived, not once per line.
                let line = text.get(line_start..).unwrap_or_default();
                if !matches!(&error, Open::Heredoc { tag, .. } if line.trim_ascii() != tag) {
                    break;
                }
            }
        }
    }
}

/// Lines of a file or a text, read on demand.
#[derive(Debug)]
pub struct ReadLines<R>(pub R);

impl<R: BufRead> Lines for ReadLines<R> {
    fn next_line(&mut self, _more: bool, line: &mut Vec<u8>) -> io::Result<LineRead> {
        let read = read_line(&mut self.0, line)?;
        Ok(if read == 0 { LineRead::End } else { LineRead::Line })
    }
}

/// Lines of stdin, read on a thread so that signals and deadlines are noticed while waiting.
///
/// A pipe is read ahead. A terminal is not: a line is read only on demand, so that answers to a command's question
/// reach the command.
#[derive(Debug)]
pub struct StdinLines<F> {
    lines: Receiver<io::Result<Vec<u8>>>,
    ask: Option<Sender<()>>,
    asked: bool,
    tick: F,
}

/// How often [`StdinLines`] calls back while waiting.
const TICK: Duration = Duration::from_millis(100);
const READ_AHEAD: usize = 256;

impl<F: FnMut(Waiting) -> bool> StdinLines<F> {
    /// Reads a pipe or file on stdin. `tick` is called before each line and every 100 ms while waiting;
    /// it returns true to interrupt.
    pub fn piped(tick: F) -> Self {
        let (sender, lines) = mpsc::sync_channel(READ_AHEAD);
        thread::spawn(move || while send_line(&sender) {});
        Self { lines, ask: None, asked: false, tick }
    }

    /// Reads a terminal that cannot edit lines, one line at a time.
    pub fn terminal(tick: F) -> Self {
        let (sender, lines) = mpsc::sync_channel(1);
        let (ask, asked) = mpsc::channel();
        thread::spawn(move || while asked.recv().is_ok() && send_line(&sender) {});
        Self { lines, ask: Some(ask), asked: false, tick }
    }
}

/// The event that a line source is waiting for when it calls back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// The first line of a statement is needed.
    First,
    /// A line that continues a statement is needed.
    More,
    /// Still waiting.
    Still,
}

impl<F: FnMut(Waiting) -> bool> Lines for StdinLines<F> {
    fn next_line(&mut self, more: bool, line: &mut Vec<u8>) -> io::Result<LineRead> {
        if let (Some(ask), false) = (&self.ask, self.asked) {
            // The thread ends only with stdin, which closes the channel below.
            self.asked = ask.send(()).is_ok();
        }
        let mut interrupted = (self.tick)(if more { Waiting::More } else { Waiting::First });
        loop {
            if interrupted {
                return Ok(LineRead::Interrupted);
            }
            match self.lines.recv_timeout(TICK) {
                Ok(read) => {
                    self.asked = false;
                    line.extend_from_slice(&read?);
                    return Ok(LineRead::Line);
                }
                Err(RecvTimeoutError::Timeout) => interrupted = (self.tick)(Waiting::Still),
                Err(RecvTimeoutError::Disconnected) => return Ok(LineRead::End),
            }
        }
    }
}

/// Reads a line with its LF, if it is not longer than a statement may be.
fn read_line(from: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<usize> {
    let read = from.take(MAX_STATEMENT as u64 + 1).read_until(b'\n', line)?;
    if read > MAX_STATEMENT {
        let why = format!("a line is longer than {MAX_STATEMENT} bytes");
        return Err(io::Error::new(io::ErrorKind::InvalidData, why));
    }
    Ok(read)
}

/// Sends one line of stdin; returns false if there are no more or the session is over.
fn send_line(sender: &SyncSender<io::Result<Vec<u8>>>) -> bool {
    let mut line = Vec::new();
    match read_line(&mut io::stdin().lock(), &mut line) {
        Ok(0) => false,
        Ok(_) => sender.send(Ok(line)).is_ok(),
        Err(error) => {
            // The session is over.
            let _ = sender.send(Err(error));
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Words = Result<Vec<Vec<u8>>, String>;

    fn read_all(text: &[u8], typed: bool) -> Vec<(usize, Words)> {
        let lines = ReadLines(text);
        let mut script = if typed { Script::typed(lines) } else { Script::new(lines) };
        let mut all = Vec::new();
        while let Input::Statement { line, parsed, .. } = script.next_input().unwrap() {
            let words = parsed
                .map(|statement| statement.words.into_iter().map(|w| w.bytes).collect())
                .map_err(|e| e.to_string());
            all.push((line, words));
        }
        all
    }

    fn words(words: &[&str]) -> Words {
        Ok(words.iter().map(|w| w.as_bytes().to_vec()).collect())
    }

    #[test]
    fn rejects_an_endless_line() {
        let mut script = Script::new(ReadLines(io::BufReader::new(io::repeat(b'x'))));
        let error = script.next_input().unwrap_err();
        assert!(error.to_string().contains("longer than 67108864 bytes"), "{error}");
    }

    #[test]
    fn statements_know_their_first_line() {
        let text = b"# c\n\nput \\\n a\nput <<E\n1\n2\nE\n  \nlast";
        let expected =
            [(3, words(&["put", "a"])), (5, words(&["put", "1\n2"])), (10, words(&["last"]))];
        assert_eq!(read_all(text, false), expected);
        assert_eq!(read_all(text, true), expected);
    }

    #[test]
    fn lines_are_bytes() {
        assert_eq!(
            read_all(b"put \xff\x08x\n", false)[0].1,
            Ok(vec![b"put".into(), b"\xff\x08x".into()])
        );
    }

    #[test]
    fn an_open_quote_in_a_script_costs_only_its_line() {
        let all = read_all(b"put \"a\nput b\n", false);
        assert!(all[0].1.as_ref().unwrap_err().starts_with("Invalid argument(s)"));
        assert_eq!(all[1], (2, words(&["put", "b"])));
        assert_eq!(read_all(b"put \"a\nb\"\n", true), [(1, words(&["put", "a\nb"]))]);
        assert_eq!(read_all(b"put {\n}\n", true), [(1, words(&["put", "{\n}"]))]);
    }

    #[test]
    fn an_unfinished_statement_at_the_end_is_an_error() {
        for (text, why) in [
            ("put \\\n", "ends with \\"),
            ("put \\", "ends with \\"),
            ("put <<E\nx\n", "the line E"),
        ] {
            let all = read_all(text.as_bytes(), true);
            assert_eq!(all.len(), 1, "{text}");
            assert!(all[0].1.as_ref().unwrap_err().contains(why), "{text}: {all:?}");
        }
    }

    #[test]
    fn a_body_may_contain_its_terminator() {
        let all = read_all(b"put <<E <<-F\n\tE\n E\nE\n\tF\nput x\n", false);
        assert_eq!(all[0].1, words(&["put", "\tE\n E", ""]));
        assert_eq!(all[1], (6, words(&["put", "x"])));
    }
}
