//! What a session needs from its tool and from the person in front of it.

use std::io::Write;

use clap::{ArgMatches, Command};

use super::Prompt;
use super::editor::Edited;
use super::history::Keep;
use crate::context::command::Mark;
use crate::error::{CliError, Exit};
use crate::output::Destination;
use crate::system::signals::Interrupts;
use crate::text::lexer::Word;

/// What a tool adds to make its own session.
pub trait Shell {
    /// Every command that can be typed, with [`builtin::commands`](super::builtin::commands) among them
    /// and without binary name.
    fn grammar(&mut self) -> &mut Command;

    /// The help on a topic, a command or a group of commands; `more` is a topic of `examples`. Without a topic, the
    /// overview.
    ///
    /// # Errors
    /// There is no such topic, command or group: exit 2.
    fn help(&mut self, topic: Option<&str>, more: Option<&str>) -> Result<String, CliError>;

    /// The text before the cursor. Called before each statement that a person types.
    fn prompt(&mut self) -> Prompt;

    /// Runs a command of the tool: `words` are parsed by the grammar. `person` can be asked in a session at a terminal.
    ///
    /// # Errors
    /// What the command reports; the session continues or ends by its own rules.
    fn run(
        &mut self,
        matches: &ArgMatches,
        words: &[Word],
        person: Option<&mut dyn Terminal>,
    ) -> Result<Exit, CliError>;

    /// Sends results to `sink` from now on, in the format of a pipe.
    fn divert(&mut self, sink: Box<dyn Write + Send>, destination: Destination);

    /// Sends results to stdout again, and closes the previous target.
    ///
    /// # Errors
    /// Something could not be written there.
    fn undivert(&mut self) -> Result<(), CliError>;

    /// Sets whether results that would be rows have one line per value from now on.
    fn upright(&mut self, on: bool);

    /// The tool's settings.
    fn settings(&self) -> Vec<Setting>;

    /// Changes one of [`Shell::settings`].
    ///
    /// # Errors
    /// The value is not allowed: exit 2.
    fn set(&mut self, name: &str, value: &str) -> Result<(), CliError>;

    /// Text for stdout: help, lists of settings.
    ///
    /// # Errors
    /// Write failures.
    fn show(&mut self, text: &str) -> Result<(), CliError>;

    /// Reports a failed statement on stderr; `place` is `FILE:LINE` in scripts.
    fn report(&mut self, error: &CliError, place: Option<&str>);

    /// Writes a line for a person to stderr, such as a time.
    fn note(&mut self, text: &str);

    /// Called before each statement.
    fn starts(&mut self);

    /// The signals that interrupt commands.
    fn interrupts(&self) -> &Interrupts;

    /// The exit of a signal that ends the session, if one arrived.
    fn ending(&self) -> Option<Exit>;

    /// Whether this sets the command of this name apart.
    fn has(&self, verb: &str, mark: Mark) -> bool;

    /// Called before the session ends or its state is put at risk; returns true to continue.
    ///
    /// # Errors
    /// The failure to settle what is held.
    fn may_leave(
        &mut self,
        reason: Leaving,
        person: Option<&mut dyn Terminal>,
    ) -> Result<bool, CliError>;
}

/// Why the state of a session is about to be lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaving {
    /// `quit`, Ctrl-D, or three Ctrl-C.
    Quit,
    /// The session switches to another server.
    Connect,
    /// The input ended, an error ended the script, or a signal arrived.
    End,
}

/// A person at a terminal.
pub trait Terminal {
    /// Reads one text of complete statements.
    ///
    /// # Errors
    /// The terminal fails.
    fn read(&mut self, prompt: &Prompt) -> Result<Edited, CliError>;

    /// Asks a question.
    ///
    /// # Errors
    /// The terminal fails.
    fn ask(&mut self, question: &Prompt) -> Result<Edited, CliError>;

    /// Adds an entry to the history, and to its file if it should be kept.
    fn remember(&mut self, entry: Keep);

    /// The entries, oldest first.
    fn entries(&self) -> &[String];

    /// Turns hints on or off.
    fn set_hints(&mut self, on: bool);
}

/// A setting as `:set` shows it.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Its name.
    pub name: &'static str,
    /// Its value now.
    pub value: String,
    /// The allowed values; empty for free text.
    pub allowed: &'static [&'static str],
    /// Its purpose, in one line.
    pub about: &'static str,
}

/// The values of a setting that can be on or off.
pub const ON_OFF: &[&str] = &["on", "off"];
