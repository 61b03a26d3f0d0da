//! Assistance while a line is typed: completion, hints, and whether Enter ends the text.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use clap::Command;
use rustyline::completion::{Completer, Pair};
use rustyline::highlight::{CmdKind, Highlighter};
use rustyline::hint::{Hint, Hinter};
use rustyline::history::SearchDirection;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Context, Helper};

use super::live::{Live, columns};
use crate::repl::complete::{Candidate, Values, complete};
use crate::repl::hint::hint;
use crate::text::color::Role;
use crate::text::lexer::{self, LexError, Open};

/// Assistance while a line is typed.
pub(super) struct Assistant {
    pub(super) grammar: Command,
    pub(super) values: Box<dyn Values>,
    pub(super) color: bool,
    pub(super) hints: Rc<Cell<bool>>,
    /// The width of the prompt.
    pub(super) prompt: Cell<usize>,
    /// Whether the line belongs to a body, which is not a command.
    pub(super) in_body: Cell<bool>,
    /// The line that is being edited.
    pub(super) live: RefCell<Option<Arc<Live>>>,
}

impl Assistant {
    /// Remembers what is typed, for a new start.
    fn note(&self, line: &str, pos: usize) {
        if let Some(live) = &*self.live.borrow() {
            live.note(line, pos);
        }
    }
}

impl Helper for Assistant {}

impl Completer for Assistant {
    type Candidate = Pair;

    fn complete(
        &self,
        line: &str,
        pos: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<Pair>)> {
        if self.in_body.get() {
            return Ok((pos, Vec::new()));
        }
        let text = line.get(..pos).unwrap_or(line);
        let (start, candidates) = complete(&self.grammar, self.values.as_ref(), text);
        let pair = |c: Candidate| Pair { display: c.shown, replacement: c.replacement };
        Ok((start, candidates.into_iter().map(pair).collect()))
    }
}

/// A hint; only one from history can be accepted with the right arrow.
pub(super) struct Suggestion {
    shown: String,
    text: Option<String>,
}

impl Hint for Suggestion {
    fn display(&self) -> &str {
        &self.shown
    }

    fn completion(&self) -> Option<&str> {
        self.text.as_deref()
    }
}

impl Hinter for Assistant {
    type Hint = Suggestion;

    fn hint(&self, line: &str, pos: usize, context: &Context<'_>) -> Option<Suggestion> {
        self.note(line, pos);
        // Without colours, hints could not be distinguished from what was typed.
        if self.in_body.get()
            || !self.hints.get()
            || !self.color
            || pos < line.len()
            || line.trim().is_empty()
        {
            return None;
        }
        let room = room(self.prompt.get(), line, columns());
        if let Some(text) = from_history(line, context) {
            return Some(Suggestion { shown: fitting(&text, room)?, text: Some(text) });
        }
        let shown = fitting(&hint(&self.grammar, line)?, room)?;
        Some(Suggestion { shown, text: None })
    }
}

/// How much fits after the line in its last row. A hint that continues in the next row would not be erased there.
fn room(prompt: usize, line: &str, width: usize) -> usize {
    let column = match line.rsplit_once('\n') {
        Some((_, last)) => last.chars().count(),
        None => prompt + line.chars().count(),
    };
    // The last column would wrap the cursor.
    (width.max(1) - column % width.max(1)).saturating_sub(1)
}

/// The hint, cut to the room there is; none if a cut one would be meaningless.
fn fitting(hint: &str, room: usize) -> Option<String> {
    if hint.chars().count() <= room {
        return Some(hint.to_owned());
    }
    let kept = room.checked_sub(1).filter(|kept| *kept >= 3)?;
    Some(hint.chars().take(kept).chain(['…']).collect())
}

/// The rest of the newest entry that starts with `line`.
fn from_history(line: &str, context: &Context<'_>) -> Option<String> {
    let newest = context.history_index().min(context.history().len()).checked_sub(1)?;
    let found = context.history().starts_with(line, newest, SearchDirection::Reverse).ok()??;
    let rest = found.entry.get(line.len()..)?;
    (!rest.is_empty() && !rest.contains('\n')).then(|| rest.to_owned())
}

impl Highlighter for Assistant {
    fn highlight_hint<'h>(&self, hint: &'h str) -> Cow<'h, str> {
        Cow::Owned(Role::Faint.paint(hint, self.color))
    }

    /// Called after every key, also where only the cursor moves; without colours, the editor asks for hints alone, and
    /// a new start puts the cursor where the text was changed last.
    fn highlight_char(&self, line: &str, pos: usize, _: CmdKind) -> bool {
        self.note(line, pos);
        false
    }
}

impl Validator for Assistant {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        let open = what_is_open(context.input().as_bytes());
        // The lines of a body are read one by one.
        let goes_on = open.is_some_and(|open| !matches!(open, Open::Heredoc { .. }));
        Ok(if goes_on && !self.in_body.get() {
            ValidationResult::Incomplete
        } else {
            ValidationResult::Valid(None)
        })
    }
}

/// Unfinished quotes, brackets, `<<` body or backslash at the end of the text.
pub(super) fn what_is_open(text: &[u8]) -> Option<Open> {
    let mut rest = text;
    while !rest.is_empty() {
        match lexer::next_statement(rest) {
            Ok(statement) => rest = rest.get(statement.used.max(1)..).unwrap_or_default(),
            Err(LexError::Incomplete(open)) => return Some(open),
            Err(LexError::Invalid(_)) => return None,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use rustyline::history::{History as _, MemHistory};

    use super::*;

    #[test]
    fn enter_continues_an_unfinished_statement() {
        for open in [
            "put \"a",
            "put 'a\nb",
            "put <<E\nx",
            "put {",
            "put \\",
            "put a\nput \"",
            "put <<E\nE\nput '",
        ] {
            assert!(what_is_open(open.as_bytes()).is_some(), "{open}");
        }
        for done in
            ["", "put a", "put \"a\nb\"", "put <<E\nx\nE", "put \"a\"b", "put a\nput b", "put {\n}"]
        {
            assert!(what_is_open(done.as_bytes()).is_none(), "{done}");
        }
    }

    #[test]
    fn hints_stay_on_the_cursor_line() {
        for (prompt, line, width, expected) in [
            (10, "put ", 60, 45),
            (10, "put ", 14, 13),
            (50, "put abcde", 60, 0),
            (10, "x\ny", 60, 58),
        ] {
            assert_eq!(room(prompt, line, width), expected, "{prompt} {line:?} {width}");
        }
        assert_eq!(fitting("[-t TUBE] BODY", 14).as_deref(), Some("[-t TUBE] BODY"));
        assert_eq!(fitting("[-t TUBE] BODY", 8).as_deref(), Some("[-t TUB…"));
        assert_eq!(fitting("[-t TUBE] BODY", 3), None);
        assert_eq!(fitting("[-t TUBE] BODY", 0), None);
    }

    #[test]
    fn suggests_the_newest_matching_entry() {
        let mut history = MemHistory::new();
        for entry in ["put a", "put b", "stats", "put <<E\nx\nE"] {
            history.add(entry).unwrap();
        }
        let context = Context::new(&history);
        assert_eq!(from_history("pu", &context), None, "the newest has several lines");
        assert_eq!(from_history("put b", &context), None);
        assert_eq!(from_history("st", &context).as_deref(), Some("ats"));
        assert_eq!(from_history("put a", &context), None);
        assert_eq!(from_history("x", &Context::new(&MemHistory::new())), None);
    }
}
