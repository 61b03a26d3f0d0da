//! The input of a person: texts of any number of statements, and `\e`, which edits one.

use std::time::{Duration, Instant};

use super::{Flow, Session};
use crate::context::command::Mark;
use crate::error::{CliError, Exit};
use crate::repl::editor::Edited;
use crate::repl::history::{self, Keep};
use crate::repl::outside;
use crate::repl::shell::{Leaving, Shell, Terminal};
use crate::system::env::Environment;
use crate::text::lexer::{self, Statement};

impl<S: Shell> Session<'_, S> {
    /// Talks with a person until they leave.
    ///
    /// # Errors
    /// The terminal fails, or stdout is closed.
    pub(crate) fn interactive(&mut self, terminal: &mut dyn Terminal) -> Result<Exit, CliError> {
        terminal.set_hints(self.hints);
        let mut interruptions: Vec<Instant> = Vec::new();
        loop {
            let prompt = self.shell.prompt();
            let leaves = match terminal.read(&prompt) {
                Ok(Edited::Text(text)) => {
                    interruptions.clear();
                    self.typed(&text, terminal)?
                }
                Ok(Edited::Interrupted) => {
                    interruptions.retain(|at| at.elapsed() < Duration::from_secs(1));
                    interruptions.push(Instant::now());
                    interruptions.len() >= 3
                }
                Ok(Edited::End) => true,
                Err(error) if error.exit == Exit::BadData => {
                    self.shell.report(&error, None);
                    false
                }
                Err(error) => return Err(error),
            };
            if let Some(exit) = self.shell.ending() {
                self.shell.may_leave(Leaving::End, None)?;
                return Ok(exit);
            }
            self.shell.interrupts().clear();
            if leaves && self.leave(terminal)? {
                return Ok(Exit::Done);
            }
        }
    }

    fn leave(&mut self, terminal: &mut dyn Terminal) -> Result<bool, CliError> {
        let leaves = self.shell.may_leave(Leaving::Quit, Some(terminal));
        leaves.or_else(|error| self.survive(error).map(|()| false))
    }

    /// Runs everything in a typed or pasted text; returns true to leave.
    fn typed(&mut self, mut text: &[u8], terminal: &mut dyn Terminal) -> Result<bool, CliError> {
        while !text.is_empty() {
            let statement = match lexer::next_statement(text) {
                Ok(statement) => statement,
                Err(error) => {
                    // It may have been a typing error, so offer it again unchanged.
                    let entry = String::from_utf8_lossy(text).into_owned();
                    terminal.remember(Keep::InMemory(entry));
                    self.shell.report(&CliError::usage(error.to_string()), None);
                    return Ok(false);
                }
            };
            let (this, rest) = text.split_at(statement.used.max(1).min(text.len()));
            self.remember(this, &statement, terminal);
            text = rest;
            if statement.words.is_empty() {
                continue;
            }
            self.shell.interrupts().clear();
            if statement.words.first().is_some_and(|verb| verb.bytes == b"\\e") {
                if self.edit(this, &statement, terminal)? {
                    return Ok(true);
                }
                continue;
            }
            // A signal that arrived before may just have been cleared.
            if self.shell.ending().is_some() {
                return Ok(false);
            }
            match self.statement(&statement.words, None, Some(terminal))? {
                Flow::Next => {}
                Flow::Leave => return Ok(true),
                // Pasted commands are a script: later ones may rely on the one that failed.
                Flow::Failed(_) => return Ok(false),
            }
        }
        Ok(false)
    }

    /// `\\e`: lets the person edit the text after it, or the last entry, and runs the result. Returns true to leave.
    fn edit(
        &mut self,
        text: &[u8],
        statement: &Statement,
        terminal: &mut dyn Terminal,
    ) -> Result<bool, CliError> {
        let behind = statement.words.first().map_or(0, |verb| verb.end);
        let behind = text.get(behind..).unwrap_or_default().trim_ascii();
        // The newest entry is this very command.
        let last = terminal.entries().iter().rev().find(|entry| !entry.starts_with("\\e"));
        let mut before = if behind.is_empty() {
            last.map(|entry| entry.as_bytes().to_vec()).unwrap_or_default()
        } else {
            behind.to_vec()
        };
        before.push(b'\n');
        let edited = match outside::edit(&before, &Environment::process()) {
            Ok(edited) => edited,
            Err(error) => {
                self.shell.report(&error, None);
                return Ok(false);
            }
        };
        if edited.trim_ascii() == before.trim_ascii() || edited.trim_ascii().is_empty() {
            self.shell.note("nothing was run: the text is unchanged or empty");
            return Ok(false);
        }
        let shown = String::from_utf8_lossy(&edited).into_owned();
        shown.lines().for_each(|line| self.shell.note(&format!("> {line}")));
        self.typed(&edited, terminal)
    }

    fn remember(&mut self, text: &[u8], statement: &Statement, terminal: &mut dyn Terminal) {
        let secret = statement.words.iter().any(|word| {
            std::str::from_utf8(&word.bytes).is_ok_and(|verb| self.shell.has(verb, Mark::Secret))
        });
        terminal.remember(history::keep(text, statement, secret));
    }
}
