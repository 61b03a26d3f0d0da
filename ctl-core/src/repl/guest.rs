//! A tool's part of a session: its vocabulary and its state.

use std::time::Instant;

use clap::{ArgMatches, Command, Subcommand};
pub use queue_core::lock;

use super::complete::Wanted;
use super::known::{Fetch, KnownNames};
use super::prompt::Prompt;
use super::shell::{Leaving, Setting};
use crate::context::command::{self, Mark};
use crate::context::{Context, Tool};
use crate::error::{CliError, Exit};
use crate::rules::filter::Field;
use crate::rules::metrics::Measurable;

/// A tool that has sessions.
pub trait Interactive: Tool<Session: Default> {
    /// The names that its sessions know.
    const WORDS: Words;

    /// The fields of its jobs or messages that filters can name.
    const FILTERS: &'static [Field] = &[];

    /// The metrics that the thresholds of its checks can name.
    const CHECKS: &'static [Measurable];

    /// The verbs that need lasting connections; they replace commands of the same name.
    type Verb: Subcommand;
    /// The state of a session.
    type Guest<'t>: Guest<Tool = Self>;

    /// A session; `person` says whether a person is using it.
    fn guest(context: &mut Context<Self>, person: bool, names: KnownNames) -> Self::Guest<'_>;

    /// Fetches names for completion over this connection.
    fn live_names(link: Self::Link) -> Fetch;

    /// How a command differs in a session.
    #[must_use]
    fn here(command: Command) -> Command {
        command
    }
}

/// The names that a tool's sessions know.
#[derive(Debug, Clone, Copy)]
pub struct Words {
    /// The groups of verbs that the command line does not have, or has elsewhere: titles of [`Program::groups`], and
    /// the verbs that `help` adds to them.
    ///
    /// [`Program::groups`]: crate::program::Program::groups
    pub verbs: &'static [(&'static str, &'static [&'static str])],
    /// Read-only verbs. After a lost connection, only these and the commands that say so are repeated.
    pub reads: &'static [&'static str],
    /// Verbs after which the server's names may have changed.
    pub renames: &'static [&'static str],
    /// Global flags that a line may have, besides those of every tool.
    pub line_flags: &'static [&'static str],
    /// The name of the error for a connection that broke after a request was sent.
    pub lost: &'static str,
    /// The decision of `on_exit`.
    pub on_exit: &'static str,
}

/// Whether this is known of the command of this name; a verb that replaces a command is another one.
pub(super) fn is<T: Interactive>(name: &str, mark: Mark) -> bool {
    let row = command::named::<T>(name).filter(|_| !T::Verb::has_subcommand(name));
    row.is_some_and(|row| row.has(mark))
}

/// Runs a line of a session that is a command of the command line, too.
pub type RunLine<T> = fn(&mut Context<T>, &ArgMatches) -> Result<Exit, CliError>;

/// The parts of every session.
pub struct Parts<'a, T: Tool> {
    /// The context that commands work with.
    pub tool: &'a mut Context<T>,
    /// The names for completion.
    pub names: &'a KnownNames,
    /// The fate of the things that the session holds.
    pub on_exit: &'a mut OnExit,
}

/// The setting `on_exit`.
#[derive(Debug, Clone, Copy)]
pub struct OnExit {
    /// Its value.
    pub word: &'static str,
    /// The allowed values; the first is [`ASK`].
    pub words: &'static [&'static str],
}

/// A person is asked.
pub const ASK: &str = "ask";

impl OnExit {
    /// Asks, until changed.
    #[must_use]
    pub fn ask(words: &'static [&'static str]) -> Self {
        Self { word: ASK, words }
    }

    /// Changes the value, if it is allowed.
    pub fn set(&mut self, word: &str) {
        if let Some(word) = self.words.iter().find(|known| **known == word) {
            self.word = word;
        }
    }
}

/// The answers to a question.
#[derive(Debug, Clone, Copy)]
pub struct Answers {
    /// The answers, also by their first letter; an empty line means the first.
    pub words: &'static [&'static str],
    /// The meaning of Ctrl-D.
    pub at_end: &'static str,
}

/// The state of a tool's session. A thread of the session shares it, so it is locked while a command runs, and free
/// while a line is typed.
pub trait Guest: Send {
    /// The tool.
    type Tool: Interactive;

    /// The possible answers to the question what to do with what the session holds.
    const ANSWERS: Answers;

    /// Its fate without a question.
    const UNASKED: &'static str;

    /// What to report if this program crashes while the session holds something: these words, followed by the names
    /// that completion keeps under this key.
    const LAST_WORDS: (&'static str, &'static str);

    /// The parts of every session.
    fn parts(&mut self) -> Parts<'_, Self::Tool>;

    /// The prompt for the next line; `rich` terminals have more than ASCII and one colour.
    fn prompt(&mut self, rich: bool) -> Prompt;

    /// Runs maintenance while the prompt is idle. Returns messages for the user.
    fn tick(&mut self, now: Instant) -> Vec<String>;

    /// Checks whether a connection was lost since the last check. Returns a message for the person.
    fn notice_loss(&mut self) -> Option<String>;

    /// Brings the names for completion in line with what the session holds.
    fn tidy(&mut self);

    /// The connections are about to be replaced by those to other servers, which is not a loss.
    fn leave_servers(&mut self);

    /// Runs one of the session's own verbs.
    ///
    /// # Errors
    /// The failures of the verb.
    fn verb(&mut self, verb: <Self::Tool as Interactive>::Verb) -> Result<Exit, CliError>;

    /// Records what a line changed. `firsts` are the first words of the lines that it wrote.
    fn after_line(&mut self, _verb: &str, _firsts: &[String], _result: &Result<Exit, CliError>) {}

    /// A word that the line omits and the session knows, such as the last job.
    ///
    /// # Errors
    /// The word is needed, and the session does not know it either.
    fn missing_word(&self, _verb: &str, _line: &ArgMatches) -> Result<Option<String>, CliError> {
        Ok(None)
    }

    /// The tool's settings besides `on_exit`.
    fn settings(&self) -> Vec<Setting> {
        Vec::new()
    }

    /// Changes one of [`Guest::settings`]. The value is one of those allowed.
    fn set(&mut self, _name: &str, _value: &str) {}

    /// The names that completion offers here; those already in the line are left out later.
    fn candidates(names: &KnownNames, wanted: &Wanted<'_>) -> Vec<String>;

    /// Whether what it holds is at risk if the session ends for this reason.
    fn is_risky(_reason: Leaving) -> bool {
        true
    }

    /// Whether it holds something that has to be settled before it ends.
    fn holds(&mut self) -> bool;

    /// Shows what it holds.
    ///
    /// # Errors
    /// Write failures.
    fn show_held(&mut self) -> Result<Exit, CliError>;

    /// The things it holds, for a question to a person, such as `2 jobs reserved`; none if it holds nothing any more.
    fn question(&mut self) -> Option<String>;

    /// Settles what it holds by `fate`, a value of `on_exit`. Returns true to continue.
    ///
    /// # Errors
    /// Something could not be settled: the session stays.
    fn let_go(&mut self, fate: &'static str) -> Result<bool, CliError>;
}

/// The prompt for the next line.
pub(super) fn prompt<G: Guest>(guest: &mut G, rich: bool) -> Prompt {
    let usual = guest.prompt(rich);
    usual.behind(guest.parts().tool.settings().mark())
}

/// Reports a connection that was lost since the last check.
pub fn say_loss<G: Guest>(guest: &mut G) {
    if let Some(said) = guest.notice_loss() {
        guest.parts().tool.messages.note(said);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_unknown_values_of_a_setting() {
        let mut on_exit = OnExit::ask(&[ASK, "wait"]);
        on_exit.set("nonsense");
        assert_eq!(on_exit.word, ASK);
        on_exit.set("wait");
        assert_eq!(on_exit.word, "wait");
    }
}
