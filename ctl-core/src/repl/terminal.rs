//! A person at a terminal: the line editor or the plain one, with the history of both.

use std::cell::Cell;
use std::rc::Rc;

use clap::Command;

use super::Prompt;
use super::complete::Values;
use super::editor::{self, Edited, Editor, Notices};
use super::history::{HistoryFile, Keep};
use super::plain::PlainTerminal;
use super::shell::Terminal;
use crate::error::CliError;
use crate::system::signals::Interrupts;

/// A person at the terminal of stdin.
pub struct Person {
    lines: LinesFrom,
    hints: Rc<Cell<bool>>,
    history: HistoryFile,
    entries: Vec<String>,
    notices: Notices,
}

enum LinesFrom {
    Editor(Box<Editor>),
    Plain(PlainTerminal),
}

impl Person {
    /// Starts with what the terminal supports; the grammar, which must be built, and the source of live names help to
    /// type. The second value is a problem that does not prevent working, such as an
    /// unreadable history file.
    ///
    /// # Errors
    /// The terminal cannot be used: exit 74.
    pub fn new(
        help: (Command, Box<dyn Values>),
        color: bool,
        mut history: HistoryFile,
        interrupts: Interrupts,
    ) -> Result<(Self, Option<CliError>), CliError> {
        let (entries, trouble) = match history.load() {
            Ok(entries) => (entries, None),
            Err(error) => (Vec::new(), Some(history_error(&history, &error))),
        };
        let hints = Rc::new(Cell::new(true));
        let (lines, notices) = if editor::is_possible() {
            let mut editor = Editor::new(help, color, Rc::clone(&hints), &entries, interrupts)?;
            let notices = editor.notices();
            (LinesFrom::Editor(Box::new(editor)), notices)
        } else {
            (LinesFrom::Plain(PlainTerminal::new(interrupts)), Notices::stderr())
        };
        Ok((Self { lines, hints, history, entries, notices }, trouble))
    }

    /// A way to print from other threads while a line is edited.
    pub fn notices(&self) -> Notices {
        self.notices.clone()
    }
}

impl Terminal for Person {
    fn read(&mut self, prompt: &Prompt) -> Result<Edited, CliError> {
        match &mut self.lines {
            LinesFrom::Editor(editor) => editor.read(prompt),
            LinesFrom::Plain(plain) => plain.read(prompt),
        }
    }

    fn ask(&mut self, question: &Prompt) -> Result<Edited, CliError> {
        match &mut self.lines {
            LinesFrom::Editor(editor) => editor.ask(question),
            LinesFrom::Plain(plain) => plain.ask(question),
        }
    }

    fn remember(&mut self, entry: Keep) {
        let (entry, in_file) = match entry {
            Keep::Nothing => return,
            Keep::InMemory(entry) => (entry, false),
            Keep::InFile(entry) => (entry, true),
        };
        if in_file && let Err(error) = self.history.append(&entry) {
            // Reported once, because the session works without the file.
            self.notices.print(&format!("warning: {}", history_error(&self.history, &error)));
            self.history = HistoryFile::default();
        }
        if let LinesFrom::Editor(editor) = &mut self.lines {
            editor.remember(&entry);
        }
        self.entries.push(entry);
    }

    fn entries(&self) -> &[String] {
        &self.entries
    }

    fn set_hints(&mut self, on: bool) {
        self.hints.set(on);
    }
}

fn history_error(history: &HistoryFile, error: &std::io::Error) -> CliError {
    let path = history.path().map(|path| path.display().to_string()).unwrap_or_default();
    CliError::reading(&format!("the history file {path}"), error)
        .hint("set this tool's HISTFILE variable to another file, or to an empty value for none")
}
