//! Wraps lines between words to fit a terminal.

use std::borrow::Cow;
use std::io::{self, IsTerminal};

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Narrower terminals are not worth wrapping for.
const LEAST: usize = 20;

/// Wraps a message to `width`; longer words stay whole. Continuation lines are indented by two more blanks.
pub(crate) fn words(text: &str, width: usize) -> Cow<'_, str> {
    if width < LEAST || text.lines().all(|line| shown(line) <= width) {
        return Cow::Borrowed(text);
    }
    let lines: Vec<String> = text.lines().map(|line| broken(line, width)).collect();
    Cow::Owned(lines.join("\n"))
}

/// The width of the terminal on stdout, if any.
pub(crate) fn of_stdout() -> Option<usize> {
    let width = io::stdout().is_terminal().then(terminal_size::terminal_size).flatten();
    width.map(|(width, _)| width.0.into())
}

/// Wraps a text that begins at `column`, with a hanging indent.
pub(crate) fn hanging(text: &str, width: usize, column: usize) -> String {
    hanging_from(text, width, column, column)
}

/// Wraps a text that begins at `column`, with another indent.
pub(crate) fn hanging_from(text: &str, width: usize, column: usize, indent: usize) -> String {
    if width < LEAST || indent + LEAST > width || column + shown(text) <= width {
        return text.to_owned();
    }
    fill(text, width, column, indent)
}

fn broken(line: &str, width: usize) -> String {
    let start = line.len() - line.trim_start_matches(' ').len();
    fill(line, width, 0, start.min(width / 2) + 2)
}

/// Wraps a line that begins at `column` to this width, with the given indent.
fn fill(line: &str, width: usize, mut column: usize, indent: usize) -> String {
    let indent = " ".repeat(indent);
    let mut out = String::new();
    for word in line.split_inclusive(' ') {
        let length = shown(word.trim_end_matches(' '));
        if column + length > width && column > indent.len() {
            out.truncate(out.trim_end_matches(' ').len());
            out.push('\n');
            out.push_str(&indent);
            column = indent.len();
        }
        out.push_str(word);
        column += shown(word);
    }
    out
}

/// The lines of a text that is wrapped to this width; longer words stay whole.
pub(crate) fn lines(text: &str, width: usize) -> Vec<String> {
    fill(text, width, 0, 0).lines().map(str::to_owned).collect()
}

/// The start of a text, with an ellipsis if it was cut.
pub(crate) fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut taken = 0;
    let fits = |c: &char| {
        taken += c.width().unwrap_or(0);
        taken < width
    };
    let start: String = text.chars().take_while(fits).collect();
    if width == 0 { start } else { format!("{start}…") }
}

/// A text that is filled up to this width: at its end, or at its start if it goes to the right.
pub(crate) fn padded(text: &str, width: usize, is_right: bool) -> String {
    let blanks = " ".repeat(width.saturating_sub(shown(text)));
    if is_right { format!("{blanks}{text}") } else { format!("{text}{blanks}") }
}

/// The columns that a text takes, without its colour codes.
fn shown(text: &str) -> usize {
    let mut in_color = false;
    let mut columns = 0;
    for c in text.chars() {
        match (in_color, c) {
            (false, '\x1b') => in_color = true,
            (true, 'm') => in_color = false,
            (true, _) => {}
            (false, _) => columns += c.width().unwrap_or(0),
        }
    }
    columns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wraps_between_words_with_an_indent() {
        let text = "error: NOT_FOUND: job 42 does not exist\n  try: bsctl jobs, to list the jobs";
        assert_eq!(
            words(text, 24),
            "error: NOT_FOUND: job 42\n  does not exist\n  try: bsctl jobs, to\n    list the jobs"
        );
        assert_eq!(words(text, 80), text);
        let long = format!("see {}", "x".repeat(50));
        assert_eq!(words(&long, 30), format!("see\n  {}", "x".repeat(50)));
    }

    #[test]
    fn hanging_lines_align_with_the_first_word() {
        assert_eq!(hanging("one two three four", 24, 12), "one two three four"[..18].to_owned());
        assert_eq!(
            hanging("one two three four five", 32, 12),
            "one two three four\n            five"
        );
        assert_eq!(hanging("one two", 15, 12), "one two", "no room to hang");
    }

    #[test]
    fn cuts_at_the_end() {
        assert_eq!(cut("größer", 4), "grö…");
        assert_eq!(cut("漢字漢字", 5), "漢字…");
    }

    #[test]
    fn colours_have_no_width() {
        let text = "\x1b[1m\x1b[31merror:\x1b[0m a message of 30 columns";
        assert_eq!(words(text, 30), text);
    }
}
