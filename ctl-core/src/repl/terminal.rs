//! A person at a terminal: the line editor or the plain one, with the history of both.

use std::cell::Cell;
use std::rc::Rc;

use clap::Command;

use super::Prompt;
use super::complete::Values;
use super::editor::{self, Edited, Editor, EditorSetup, Notices};
use super::history::{HistoryFile, Keep};
use super::plain::PlainTerminal;
use super::shell::Terminal;
use crate::error::CliError;
use crate::system::signals::Interrupts;

/// What a terminal session needs.
pub struct PersonSetup {
    /// The grammar for completion and hints; it must be built.
    pub grammar: Command,
    /// The source of live names.
    pub values: Box<dyn Values>,
    /// Whether the terminal gets colours.
    pub color: bool,
    /// The history's file.
    pub history: HistoryFile,
    /// The signals that interrupt waiting for a line.
    pub interrupts: Interrupts,
}

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
    /// Starts with what the terminal supports. The second value is a problem that does not prevent working, such as an
    /// unreadable history file.
    ///
    /// # Errors
    /// The terminal cannot be used: exit 74.
    pub fn new(mut setup: PersonSetup) -> Result<(Self, Option<CliError>), CliError> {
        let (entries, trouble) = match setup.history.load() {
            Ok(entries) => (entries, None),
            Err(error) => (Vec::new(), Some(history_error(&setup.history, &error))),
        };
        let hints = Rc::new(Cell::new(true));
        let (lines, notices) = if editor::is_possible() {
            let mut editor = Editor::new(EditorSetup {
                grammar: setup.grammar,
                values: setup.values,
                color: setup.color,
                hints: Rc::clone(&hints),
                history: entries.clone(),
                interrupts: setup.interrupts,
            })?;
            let notices = editor.notices();
            (LinesFrom::Editor(Box::new(editor)), notices)
        } else {
            (LinesFrom::Plain(PlainTerminal::new(setup.interrupts)), Notices::stderr())
        };
        Ok((Self { lines, hints, history: setup.history, entries, notices }, trouble))
    }

    /// A way to print from other threads while a line is edited.
    #[must_use]
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
