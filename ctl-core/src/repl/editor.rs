//! Lines from a person at a terminal that supports editing. Nothing outside this module knows rustyline.

mod assistant;
mod live;

use std::cell::{Cell, RefCell};
use std::io::{self, IsTerminal, Write};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use clap::Command;
use queue_core::lock;
use rustyline::error::ReadlineError;
use rustyline::history::MemHistory;
use rustyline::{Behavior, Cmd, ColorMode, CompletionType, Config, KeyCode, KeyEvent, Modifiers};

use self::assistant::{Assistant, what_is_open};
pub use self::live::Notices;
pub(crate) use self::live::wake_editor;
use self::live::{Live, Screen, Typed};
use super::complete::Values;
use super::history::MAX_ENTRIES;
use super::prompt::Prompt;
use super::source::MAX_STATEMENT;
use crate::error::CliError;
use crate::system::signals::{self, Interrupts};
use crate::text::color::Role;
use crate::text::escape;
use crate::text::lexer::Open;

/// A line editor on the terminal.
pub struct Editor {
    inner: rustyline::Editor<Assistant, MemHistory>,
    color: bool,
    screen: Arc<Screen>,
    interrupts: Interrupts,
    /// Wake-ups that arrived when the line had already ended: the next lines will see them.
    late: usize,
}

/// Input from the terminal.
#[derive(Debug)]
pub enum Edited {
    /// A text of one or more complete statements.
    Text(Vec<u8>),
    /// Ctrl-C, or a signal.
    Interrupted,
    /// Ctrl-D on an empty line, or the terminal is gone.
    End,
}

/// Whether lines can be edited here: stdin is a terminal that knows cursor movement.
pub(crate) fn is_possible() -> bool {
    let term = std::env::var("TERM").unwrap_or_default();
    let plain = ["dumb", "cons25", "emacs"].iter().any(|name| term.eq_ignore_ascii_case(name));
    io::stdin().is_terminal() && !plain
}

impl Editor {
    /// An editor on the terminal of stdin. The grammar, which must be built, and the source of live names complete and
    /// hint; `entries` are older ones, oldest first. A new prompt clears the interrupts: it interrupts the editor by the
    /// same signal as a person.
    ///
    /// # Errors
    /// The terminal cannot be used: exit 74.
    pub fn new(
        (grammar, values): (Command, Box<dyn Values>),
        color: bool,
        hints: Rc<Cell<bool>>,
        entries: &[String],
        interrupts: Interrupts,
    ) -> Result<Self, CliError> {
        let config = config(color)?;
        let history = MemHistory::with_config(&config);
        let mut inner = rustyline::Editor::with_history(config, history).map_err(unusable)?;
        let (prompt, in_body) = (Cell::default(), Cell::default());
        let live = RefCell::default();
        let assistant = Assistant { grammar, values, color, hints, prompt, in_body, live };
        inner.set_helper(Some(assistant));
        inner.bind_sequence(KeyEvent(KeyCode::Enter, Modifiers::ALT), Cmd::Newline);
        // Elsewhere than on stdout, the editor opens the terminal itself.
        let redraws = cfg!(unix) && io::stdout().is_terminal();
        let screen = Arc::new(Screen { redraws, ..Screen::default() });
        let mut editor = Self { inner, color, screen, interrupts, late: 0 };
        entries.iter().for_each(|entry| editor.remember(entry));
        Ok(editor)
    }

    /// Reads one text, with quotes, brackets and `<<` bodies complete. The lines of a body have their own prompt.
    ///
    /// # Errors
    /// The terminal fails: exit 74. Input that is not UTF-8: exit 65.
    pub fn read(&mut self, prompt: &Prompt) -> Result<Edited, CliError> {
        let mut text = match self.line(prompt, false)? {
            Edited::Text(text) => text,
            other => return Ok(other),
        };
        let more = Prompt::new().role(Role::Faint, if self.color { "…" } else { "..." }).text("> ");
        while what_is_open(&text).is_some_and(|open| matches!(open, Open::Heredoc { .. })) {
            match self.line(&more, true)? {
                Edited::Text(line) if text.len() + line.len() < MAX_STATEMENT => {
                    text.push(b'\n');
                    text.extend_from_slice(&line);
                }
                Edited::Interrupted => return Ok(Edited::Interrupted),
                // What is missing is reported as for any other text.
                Edited::Text(_) | Edited::End => break,
            }
        }
        Ok(Edited::Text(text))
    }

    fn line(&mut self, prompt: &Prompt, in_body: bool) -> Result<Edited, CliError> {
        let (mut prompt, mut typed) = (prompt.clone(), Typed::default());
        let screen = Arc::clone(&self.screen);
        loop {
            let live = Arc::new(Live::new(&prompt, in_body));
            if let Some(assistant) = self.inner.helper() {
                assistant.prompt.set(prompt.plain().chars().count());
                assistant.in_body.set(in_body);
                assistant.live.replace(Some(Arc::clone(&live)));
            }
            *lock(&screen.live) = Some(Arc::clone(&live));
            let read = self.inner.readline_with_initial(&*live, typed.halves());
            let mut shown = lock(&screen.live);
            *shown = None;
            let is_woken = live.woken.load(Ordering::SeqCst);
            if !self.was_woken(&read, is_woken) {
                screen.ended.notify_all();
                return edited(read);
            }
            prompt = lock(&live.next).take().unwrap_or(prompt);
            typed = lock(&live.typed).clone();
            erase_row();
            screen.ended.notify_all();
        }
    }

    /// Whether the line ended only because another thread woke the editor.
    fn was_woken(&mut self, read: &rustyline::Result<String>, is_asked: bool) -> bool {
        if is_asked {
            // The signal was meant for the editor alone.
            self.interrupts.clear();
            let _ = signals::take_echo();
        }
        let is_interrupted = matches!(read, Err(ReadlineError::Interrupted));
        match (is_interrupted, is_asked) {
            (true, true) => true,
            (true, false) if self.late > 0 => {
                self.late -= 1;
                true
            }
            (false, true) => {
                self.late += 1;
                false
            }
            (_, false) => false,
        }
    }

    /// Asks a question, without history and completion.
    ///
    /// # Errors
    /// See [`Editor::read`].
    pub fn ask(&mut self, question: &Prompt) -> Result<Edited, CliError> {
        let config = config(self.color)?;
        let mut plain: rustyline::Editor<(), MemHistory> =
            rustyline::Editor::with_history(config, MemHistory::new()).map_err(unusable)?;
        edited(plain.readline(&question.plain()))
    }

    /// Adds an entry to what Up and Ctrl-R find. Entries come from a file that others may have written, so only lines
    /// that a terminal shows unchanged are used.
    pub(crate) fn remember(&mut self, entry: &str) {
        if entry.chars().all(|c| c == '\n' || !escape::acts(c)) {
            // Only a full disk could fail, and this history is in memory.
            let _ = self.inner.add_history_entry(entry);
        }
    }

    /// A way to print above the edited line from other threads.
    pub fn notices(&mut self) -> Notices {
        match self.inner.create_external_printer() {
            Ok(printer) => Notices::to(Box::new(printer), Arc::clone(&self.screen)),
            // stdin and stdout are not both terminals, so there is no line to keep whole.
            Err(_) => Notices::stderr(),
        }
    }
}

/// Erases the row above, where a line was that the editor has left, and goes there.
fn erase_row() {
    let mut out = io::stdout();
    // A terminal that is gone shows at the next read.
    let _ = out.write_all(b"\x1b[A\r\x1b[J").and_then(|()| out.flush());
}

fn config(color: bool) -> Result<Config, CliError> {
    // The prompt must not end up in a redirected stdout, so the terminal itself is used then.
    let behavior = if io::stdout().is_terminal() { Behavior::Stdio } else { Behavior::PreferTerm };
    let builder = Config::builder()
        .max_history_size(MAX_ENTRIES)
        .and_then(|builder| builder.history_ignore_dups(true))
        .map_err(unusable)?;
    Ok(builder
        .completion_type(CompletionType::List)
        .completion_show_all_if_ambiguous(true)
        .color_mode(if color { ColorMode::Enabled } else { ColorMode::Disabled })
        .behavior(behavior)
        .bracketed_paste(true)
        .build())
}

fn edited(result: rustyline::Result<String>) -> Result<Edited, CliError> {
    match result {
        Ok(text) => Ok(Edited::Text(text.into_bytes())),
        Err(ReadlineError::Interrupted) => Ok(Edited::Interrupted),
        Err(ReadlineError::Eof) => Ok(Edited::End),
        Err(ReadlineError::Io(error)) if error.kind() == io::ErrorKind::InvalidData => {
            Err(CliError::bad_data("the input is not UTF-8")
                .hint("write other bytes as \"\\xHH\" or hex:…"))
        }
        Err(error) => Err(unusable(error)),
    }
}

fn unusable(error: ReadlineError) -> CliError {
    CliError::reading("the terminal", &io::Error::other(error.to_string()))
}
