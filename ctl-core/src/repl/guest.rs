//! What a tool brings to a session: its words and its state.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use clap::{ArgMatches, Command};

use super::Prompt;
use super::complete::Values;
use super::help::Group;
use super::shell::{Leaving, Setting, Terminal};
use crate::args::GlobalArgs;
use crate::error::{CliError, Exit};
use crate::messages::Messages;
use crate::output::Output;

/// What a tool is in a session: names and lists that never change.
#[derive(Debug, Clone)]
pub struct Kit {
    /// The tool's name. Hints that begin with it are shown without it.
    pub name: &'static str,
    /// The prefix of its environment variables.
    pub prefix: &'static str,
    /// What can be typed; see [`tree::grammar`](super::tree::grammar).
    pub grammar: Command,
    /// The groups of `help`.
    pub groups: &'static [Group],
    /// Commands that only look. After a lost connection they are asked again; nothing else ever is.
    pub reads: &'static [&'static str],
    /// Commands that history keeps out of its file.
    pub secrets: &'static [&'static str],
    /// Ids of global flags, beside [`tree::START_FLAGS`](super::tree::START_FLAGS), that only count when the session
    /// starts.
    pub start_flags: &'static [&'static str],
    /// The name of the error that says that the connection broke after a request went out.
    pub lost: &'static str,
}

/// The parts of a tool that a session gives to each line in its own shape.
pub struct Parts<'a> {
    /// The flags in force.
    pub globals: &'a mut GlobalArgs,
    /// The way to stdout.
    pub out: &'a mut Output,
    /// The way to stderr.
    pub messages: &'a Messages,
}

/// The state of a tool's session. A thread of the session shares it: it is locked while a command runs, and free while a
/// line is typed.
pub trait Guest: Send {
    /// The parts that a session changes from line to line.
    fn parts(&mut self) -> Parts<'_>;

    /// Says who answers, or that nobody does: the session starts in any case.
    fn greet(&mut self);

    /// The prompt for the next line; `rich` terminals have more than ASCII and one colour.
    fn prompt(&mut self, rich: bool) -> Prompt;

    /// Does what has to be done although nobody typed anything. Gives sentences for the person.
    fn tick(&mut self, now: Instant) -> Vec<String>;

    /// Looks whether a connection was lost since the last look. Gives a sentence for the person.
    fn notice_loss(&mut self) -> Option<String>;

    /// A word that the line leaves out and the session knows, such as the last job.
    ///
    /// # Errors
    /// The word is needed, and the session does not know it either.
    fn missing_word(&self, verb: &str, line: &ArgMatches) -> Result<Option<String>, CliError>;

    /// Runs a command: one of the session's own, or one of the command line.
    ///
    /// # Errors
    /// What the command reports.
    fn command(&mut self, matches: &ArgMatches) -> Result<Exit, CliError>;

    /// Notes what a line changed. `firsts` are the first words of the lines that it wrote.
    fn after_line(&mut self, verb: &str, firsts: &[String], result: &Result<Exit, CliError>);

    /// The tool's settings.
    fn settings(&self) -> Vec<Setting>;

    /// Changes one of [`Guest::settings`].
    ///
    /// # Errors
    /// The value is not allowed: exit 2.
    fn set(&mut self, name: &str, value: &str) -> Result<(), CliError>;

    /// The names that completion offers.
    fn values(&self) -> Box<dyn Values>;

    /// What is still to be said when this program ends by a defect.
    fn last_words(&self) -> Box<dyn Fn() -> Option<String> + Send + Sync>;

    /// Whether the session ended while something was left to itself.
    fn left_behind(&self) -> bool;

    /// Settles what the session holds, before it ends or its state is put at risk. True to go on. The state must not be
    /// locked while the person thinks.
    ///
    /// # Errors
    /// Something could not be settled: the session stays.
    fn settle(
        shared: &Mutex<Self>,
        reason: Leaving,
        person: Option<&mut dyn Terminal>,
    ) -> Result<bool, CliError>
    where
        Self: Sized;
}

/// Locks the state; a panic elsewhere does not take the session down.
pub fn lock<G>(shared: &Mutex<G>) -> MutexGuard<'_, G> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
