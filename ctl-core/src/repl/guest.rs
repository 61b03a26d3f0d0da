//! What a tool brings to a session: its words and its state.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use clap::{ArgMatches, Command, Subcommand};

use super::Prompt;
use super::complete::Wanted;
use super::help::Group;
use super::known::{Fetch, KnownNames};
use super::on_exit::{Answers, OnExit};
use super::shell::{Leaving, Setting};
use crate::commands::tap;
use crate::error::{CliError, Exit};
use crate::input::filter::Field;
use crate::tool::{Context, Tool};

/// A tool that has sessions.
pub trait Interactive: Tool<Session: Default> {
    /// What its sessions know by name.
    const WORDS: Words;

    /// What filters can name of its jobs or messages.
    const FILTERS: &'static [Field] = &[];

    /// The verbs that only make sense on connections that last; they stand for commands of the same name.
    type Verb: Subcommand;
    /// The state of a session.
    type Guest<'t>: Guest<Tool = Self>;

    /// A session; `person` says whether a person is there.
    fn guest(context: &mut Context<Self>, person: bool, names: KnownNames) -> Self::Guest<'_>;

    /// Gets names for completion over this connection.
    fn live_names(link: Self::Link) -> Fetch;

    /// What is different about a command in a session.
    #[must_use]
    fn here(command: Command) -> Command {
        command
    }
}

/// What a tool's sessions know by name.
#[derive(Debug, Clone, Copy)]
pub struct Words {
    /// The groups of `help`, besides that of the session itself.
    pub groups: &'static [Group],
    /// Commands that only look. After a lost connection they are asked again; nothing else ever is.
    pub reads: &'static [&'static str],
    /// Commands after which names of the server may have come or gone.
    pub renames: &'static [&'static str],
    /// Commands that history keeps out of its file.
    pub secrets: &'static [&'static str],
    /// Commands of the command line that make no sense in a session of this tool.
    pub left_out: &'static [&'static str],
    /// Global flags that a line may have, beside those of every tool.
    pub line_flags: &'static [&'static str],
    /// The name of the error that says that the connection broke after a request went out.
    pub lost: &'static str,
    /// What `on_exit` decides.
    pub on_exit: &'static str,
}

/// What filters of a command of this tool can name.
pub(crate) fn filters<T: Interactive>(verb: &str) -> &'static [Field] {
    if verb == tap::VERB { tap::FIELDS } else { T::FILTERS }
}

/// Runs a line of a session that is a command of the command line, too.
pub type RunLine<T> = fn(&mut Context<T>, &ArgMatches) -> Result<Exit, CliError>;

/// What every session has.
pub struct Parts<'a, T: Tool> {
    /// What commands work with.
    pub tool: &'a mut Context<T>,
    /// The names that completion knows.
    pub names: &'a KnownNames,
    /// What becomes of what the session holds.
    pub on_exit: &'a mut OnExit,
}

/// The state of a tool's session. A thread of the session shares it: it is locked while a command runs, and free while
/// a line is typed.
pub trait Guest: Send {
    /// The tool.
    type Tool: Interactive;

    /// What a person can answer who is asked what becomes of what the session holds.
    const ANSWERS: Answers;

    /// What becomes of it where nobody is asked.
    const UNASKED: &'static str;

    /// What is still to be said when this program ends by a defect while the session holds something: the names that
    /// completion keeps of it under this key, behind these words.
    const LAST_WORDS: (&'static str, &'static str);

    /// What every session has.
    fn parts(&mut self) -> Parts<'_, Self::Tool>;

    /// The prompt for the next line; `rich` terminals have more than ASCII and one colour.
    fn prompt(&mut self, rich: bool) -> Prompt;

    /// Does what has to be done although nobody typed anything. Gives sentences for the person.
    fn tick(&mut self, now: Instant) -> Vec<String>;

    /// Looks whether a connection was lost since the last look. Gives a sentence for the person.
    fn notice_loss(&mut self) -> Option<String>;

    /// Brings the names for completion in line with what the session holds.
    fn tidy(&mut self);

    /// The connections are about to be given up for those to other servers: that the next ones are others is no loss.
    fn leave_servers(&mut self);

    /// Runs one of the session's own verbs.
    ///
    /// # Errors
    /// What the verb reports.
    fn verb(&mut self, verb: <Self::Tool as Interactive>::Verb) -> Result<Exit, CliError>;

    /// Notes what a line changed. `firsts` are the first words of the lines that it wrote.
    fn after_line(&mut self, _verb: &str, _firsts: &[String], _result: &Result<Exit, CliError>) {}

    /// Whether the session ended while something was left to itself.
    fn left_behind(&self) -> bool;

    /// A word that the line leaves out and the session knows, such as the last job.
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

    /// The names that completion offers here; those that the line has already are left out later.
    fn candidates(names: &KnownNames, wanted: &Wanted<'_>) -> Vec<String>;

    /// Whether what it holds is at risk when the session is left for this reason.
    fn is_risky(_reason: Leaving) -> bool {
        true
    }

    /// Whether it holds something that has to be settled before it is left.
    fn holds(&mut self) -> bool;

    /// Shows what it holds.
    ///
    /// # Errors
    /// Failures of writing.
    fn show_held(&mut self) -> Result<Exit, CliError>;

    /// What it holds, for a question to a person, such as `2 jobs reserved`; none when it holds nothing any more.
    fn question(&mut self) -> Option<String>;

    /// Makes `fate`, a word of `on_exit`, of what it holds. True to go on.
    ///
    /// # Errors
    /// Something could not be settled: the session stays.
    fn let_go(&mut self, fate: &'static str) -> Result<bool, CliError>;
}

/// What is still to be said when this program ends by a defect.
pub(super) fn last_words<G: Guest>(names: &KnownNames) -> Option<String> {
    let (key, words) = G::LAST_WORDS;
    let held = names.kept(key);
    (!held.is_empty()).then(|| format!("{words} {}", held.join(", ")))
}

/// Says that a connection was lost, if one was since the last look.
pub fn say_loss<G: Guest>(guest: &mut G) {
    if let Some(said) = guest.notice_loss() {
        guest.parts().tool.messages.note(said);
    }
}

/// Locks the state; a panic elsewhere does not take the session down.
pub fn lock<G>(shared: &Mutex<G>) -> MutexGuard<'_, G> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
