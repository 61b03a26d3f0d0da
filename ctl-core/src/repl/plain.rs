//! A person at a terminal without line editing (`TERM=dumb`): prompts on stderr, lines from stdin.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use queue_core::lock;

use super::Prompt;
use super::editor::Edited;
use super::source::{Input, LineRead, Script, StdinLines, Waiting};
use crate::error::CliError;
use crate::system::signals::Interrupts;

type Tick = Box<dyn FnMut(Waiting) -> bool>;

/// Lines from a terminal that supports only whole lines.
pub struct PlainTerminal {
    script: Script<StdinLines<Tick>>,
    prompt: Arc<Mutex<String>>,
}

impl PlainTerminal {
    /// Reads the terminal on stdin; a signal interrupts.
    #[must_use]
    pub fn new(interrupts: Interrupts) -> Self {
        let prompt = Arc::new(Mutex::new(String::new()));
        let shown = Arc::clone(&prompt);
        let tick = move |waiting| {
            match waiting {
                Waiting::First => show(&lock(&shown)),
                Waiting::More => show("...> "),
                Waiting::Still => {}
            }
            interrupts.requested().is_some()
        };
        Self { script: Script::typed(StdinLines::terminal(Box::new(tick) as Tick)), prompt }
    }

    /// Reads one statement.
    ///
    /// # Errors
    /// stdin cannot be read: exit 74.
    pub fn read(&mut self, prompt: &Prompt) -> Result<Edited, CliError> {
        self.set_prompt(prompt);
        let input = self.script.next_input();
        Ok(match input.map_err(|error| CliError::reading("stdin", &error))? {
            Input::Statement { text, .. } => Edited::Text(text),
            Input::Interrupted => after_line_end(Edited::Interrupted),
            Input::End => after_line_end(Edited::End),
        })
    }

    /// Asks a question; the answer is one line without its end.
    ///
    /// # Errors
    /// As [`PlainTerminal::read`].
    pub fn ask(&mut self, question: &Prompt) -> Result<Edited, CliError> {
        self.set_prompt(question);
        let mut line = Vec::new();
        let read = self.script.answer(&mut line);
        Ok(match read.map_err(|error| CliError::reading("stdin", &error))? {
            LineRead::Line => Edited::Text(line.trim_ascii_end().to_vec()),
            LineRead::Interrupted => after_line_end(Edited::Interrupted),
            LineRead::End => after_line_end(Edited::End),
        })
    }

    fn set_prompt(&mut self, prompt: &Prompt) {
        *lock(&self.prompt) = prompt.plain();
    }
}

/// The cursor is still after the prompt.
fn after_line_end(edited: Edited) -> Edited {
    show("\n");
    edited
}

/// A stderr that cannot be written has nowhere to be reported.
fn show(text: &str) {
    let mut stderr = io::stderr().lock();
    let _ = stderr.write_all(text.as_bytes());
    let _ = stderr.flush();
}
