//! The shell of every tool: how the session's engine reaches the tool's state.

use std::io::{self, Write};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::{ArgMatches, Command, FromArgMatches, Subcommand};

use super::editor::Edited;
use super::grammar::{Parsed, parse};
use super::guest::{Guest, Interactive, RunLine, is, lock, prompt, say_loss};
use super::help;
use super::shell::{Leaving, Setting, Shell, Terminal};
use super::sink::Written;
use super::tree::{self, FORMATS};
use super::values::KnownSettings;
use super::{Prompt, connect, on_exit};
use crate::args::GlobalArgs;
use crate::context::Tool;
use crate::context::command::{self, Mark};
use crate::error::{CliError, Exit};
use crate::help::topics;
use crate::link::{CONNECT, Link};
use crate::output::{Destination, Format, Output, Style};
use crate::program::Program;
use crate::system::env::word_of;
use crate::system::signals::Interrupts;
use crate::text::color::Role;
use crate::text::escape;
use crate::text::lexer::Word;

/// The command that takes the whole screen, where there is one.
const ON_SCREEN: &str = "top";

/// The setting that decides the fate of held jobs.
const ON_EXIT: &str = "on_exit";

/// The shell of a tool.
pub(super) struct Host<'s, G: Guest> {
    pub(super) shared: &'s Mutex<G>,
    /// The grammar.
    pub(super) grammar: Command,
    /// Ids of global flags that only count when the session starts.
    pub(super) start_flags: Vec<String>,
    pub(super) line: RunLine<G::Tool>,
    pub(super) interrupts: Interrupts,
    pub(super) ending: Interrupts,
    pub(super) written: Written,
    /// Whether the session is waiting for the person, so that a signal must wake the line editor.
    pub(super) waiting: &'s AtomicBool,
    /// Whether the person's terminal has more than ASCII and one colour.
    pub(super) rich: bool,
    /// Whether a person is using the session.
    pub(super) person: bool,
    /// The flags that the session was started with.
    pub(super) globals: GlobalArgs,
    /// The format of results, unless a line overrides it.
    pub(super) style: Style,
    pub(super) known_settings: KnownSettings,
    /// stdout and its style, while results go elsewhere.
    pub(super) usual: Option<(Output, Style)>,
    /// Something that the session held was left unattended.
    pub(super) left_behind: bool,
}

impl<G: Guest> Shell for Host<'_, G> {
    fn grammar(&mut self) -> &mut Command {
        &mut self.grammar
    }

    fn help(&mut self, topic: Option<&str>, more: Option<&str>) -> Result<String, CliError> {
        let shared = topic.and_then(|topic| topics::text(&G::Tool::PROGRAM, topic, more, false));
        let groups = || tree::groups::<G::Tool>(&self.grammar);
        shared.map_or_else(|| help::text(&self.grammar, &groups(), topic), Ok)
    }

    fn prompt(&mut self) -> Prompt {
        *lock(&self.known_settings) = self.settings();
        let mut guest = lock(self.shared);
        say_loss(&mut *guest);
        self.end_open_line();
        self.waiting.store(true, Ordering::SeqCst);
        prompt(&mut *guest, self.rich)
    }

    fn run(
        &mut self,
        matches: &ArgMatches,
        words: &[Word],
        mut person: Option<&mut dyn Terminal>,
    ) -> Result<Exit, CliError> {
        let name = matches.subcommand_name().unwrap_or_default().to_owned();
        if name == CONNECT {
            self.refuse_misplaced(matches)?;
            connect::reach(&mut *lock(self.shared), matches)?;
            if !self.may_leave(Leaving::Connect, borrow(&mut person))? {
                return Ok(Exit::Done);
            }
        }
        if name == ON_SCREEN {
            // Nothing else may write to it meanwhile.
            self.written.occupy(true);
            let result = self.line(matches, words);
            self.written.occupy(false);
            return result;
        }
        let reads = is_repeated::<G::Tool>(&name, matches);
        loop {
            let error = match self.line(matches, words) {
                Err(error) if error.code == G::Tool::WORDS.lost => error,
                result => return result,
            };
            if reads {
                return self.line(matches, words);
            }
            if !repeats(&name, borrow(&mut person))? {
                return Err(error.hint("check before retrying: it may or may not have run"));
            }
        }
    }

    fn divert(&mut self, sink: Box<dyn Write + Send>, destination: Destination) {
        let style = self.style.in_a_pipe();
        let out = Output::to(sink, style.clone()).at(destination);
        let usual_style = std::mem::replace(&mut self.style, style);
        let mut guest = lock(self.shared);
        let usual = std::mem::replace(&mut guest.parts().tool.out, out);
        self.usual = Some((usual, usual_style));
        self.written.occupy(true);
    }

    fn undivert(&mut self) -> Result<(), CliError> {
        let Some((out, style)) = self.usual.take() else { return Ok(()) };
        self.style = style;
        self.written.occupy(false);
        let mut guest = lock(self.shared);
        let mut diverted = std::mem::replace(&mut guest.parts().tool.out, out);
        diverted.flush()
    }

    fn upright(&mut self, on: bool) {
        self.style.upright = on;
    }

    fn settings(&self) -> Vec<Setting> {
        let mut guest = lock(self.shared);
        let mut settings = guest.settings();
        let on_exit = *guest.parts().on_exit;
        settings.push(Setting {
            name: ON_EXIT,
            value: on_exit.word.to_owned(),
            allowed: on_exit.words,
            about: G::Tool::WORDS.on_exit,
        });
        settings.push(Setting {
            name: "format",
            value: word_of(&self.style.format),
            allowed: FORMATS,
            about: "output format of results",
        });
        settings
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), CliError> {
        match name {
            ON_EXIT => lock(self.shared).parts().on_exit.set(value),
            "format" => {
                let format = <Format as clap::ValueEnum>::from_str(value, true);
                self.style.format = format.map_err(CliError::usage)?;
                lock(self.shared).parts().tool.out.style = self.style.clone();
            }
            name => lock(self.shared).set(name, value),
        }
        Ok(())
    }

    fn show(&mut self, text: &str) -> Result<(), CliError> {
        let mut guest = lock(self.shared);
        let out = &mut guest.parts().tool.out;
        out.text(&escape::lines(text))?;
        out.flush()
    }

    fn report(&mut self, error: &CliError, place: Option<&str>) {
        if self.person {
            self.end_open_line();
        }
        let mut guest = lock(self.shared);
        let messages = &guest.parts().tool.messages;
        if self.person && place.is_none() && error.code == "INTERRUPTED" {
            // The terminal has shown ^C after the existing text.
            let _ = writeln!(io::stderr());
            messages.note("cancelled");
            return;
        }
        let error = within_session(error, &G::Tool::PROGRAM);
        match place {
            None => messages.failure(&error, false),
            Some(place) if self.style.format.is_json() => {
                messages.failure(&error.context(place), true);
            }
            Some(place) => messages.failure_at(place, &error),
        }
    }

    fn note(&mut self, text: &str) {
        if self.person {
            self.end_open_line();
        }
        lock(self.shared).parts().tool.messages.note(text);
    }

    fn starts(&mut self) {
        self.waiting.store(false, Ordering::SeqCst);
    }

    fn interrupts(&self) -> &Interrupts {
        &self.interrupts
    }

    fn ending(&self) -> Option<Exit> {
        self.ending.requested()
    }

    fn has(&self, verb: &str, mark: Mark) -> bool {
        is::<G::Tool>(verb, mark)
    }

    fn may_leave(
        &mut self,
        reason: Leaving,
        person: Option<&mut dyn Terminal>,
    ) -> Result<bool, CliError> {
        self.waiting.store(person.is_some(), Ordering::SeqCst);
        let settled = on_exit::settle(self.shared, reason, person, &mut self.left_behind);
        self.waiting.store(false, Ordering::SeqCst);
        settled
    }
}

impl<G: Guest> Host<'_, G> {
    /// The result had no line end, and what is shown next must not overwrite it.
    fn end_open_line(&self) {
        if self.written.take_open_line() {
            // A closed stdout is noticed at the next write.
            let _ = writeln!(io::stdout());
        }
    }

    /// Refuses flags that only count when the session starts.
    fn refuse_misplaced(&self, matches: &ArgMatches) -> Result<(), CliError> {
        let Some(flag) = tree::misplaced_flag(matches, &self.start_flags) else { return Ok(()) };
        let tool = G::Tool::PROGRAM.name;
        Err(CliError::usage(format!("{flag} only works when the session starts"))
            .hint(format!("leave, then {tool} repl {flag}")))
    }

    /// Runs one line, with its flags on top of those of the session.
    fn line(&mut self, matches: &ArgMatches, words: &[Word]) -> Result<Exit, CliError> {
        self.refuse_misplaced(matches)?;
        let mut guest = lock(self.shared);
        say_loss(&mut *guest);
        let completed = complete(&mut self.grammar, &*guest, matches, words)?;
        let matches = completed.as_ref().unwrap_or(matches);
        let verb = matches.subcommand_name().unwrap_or_default();
        let flags = GlobalArgs::from_arg_matches(matches).map_err(unreadable)?;
        let tool = guest.parts().tool;
        tool.out.style = flags.restyle(&self.style)?;
        tool.globals = of_line(&self.globals, flags);
        let _ = self.written.take_firsts();
        let attention = tool.link.dialer().attention().cloned().unwrap_or_default();
        attention.running(true);
        let result = run_line(&mut *guest, self.line, matches);
        let tool = guest.parts().tool;
        let result = result.map_err(|error| tool.link.dialer().unless_cancelled(error));
        attention.running(false);
        tool.out.style = self.style.clone();
        tool.globals = self.globals.clone();
        let firsts = self.written.take_firsts();
        look_back(&mut *guest, verb, &firsts, &result);
        result
    }
}

/// Runs a verb of every session, one of the tool's own, or a command of the command line.
fn run_line<G: Guest>(
    guest: &mut G,
    command: RunLine<G::Tool>,
    matches: &ArgMatches,
) -> Result<Exit, CliError> {
    let tool = guest.parts().tool;
    let timeout = tool.globals.timeout;
    let name = matches.subcommand_name().unwrap_or_default();
    if name == CONNECT {
        return connect::go_to(guest, matches);
    }
    // Some commands have shorter time limits than others.
    let plan = tool.link.dialer().plan().clone();
    tool.link.dialer_mut().bound(timeout);
    let result = if Verb::<G>::has_subcommand(name) {
        let verb = Verb::<G>::from_arg_matches(matches).map_err(unreadable)?;
        let result = guest.verb(verb);
        result.and_then(|exit| guest.parts().tool.out.flush().map(|()| exit))
    } else {
        command(guest.parts().tool, matches)
    };
    let dialer = guest.parts().tool.link.dialer_mut();
    if *dialer.plan() != plan {
        dialer.set_plan(plan);
    }
    result
}

type Verb<G> = <<G as Guest>::Tool as Interactive>::Verb;

/// The command of every tool that is repeated after a lost connection.
const PING: &str = "ping";

/// Whether a line of this command or verb is repeated after a lost connection.
fn is_repeated<T: Interactive>(name: &str, matches: &ArgMatches) -> bool {
    let is_known = || is::<T>(name, Mark::Repeats) && command::only_reads::<T>(matches);
    name == PING || T::WORDS.reads.contains(&name) || is_known()
}

/// Records what a line changed.
fn look_back<G: Guest>(
    guest: &mut G,
    verb: &str,
    firsts: &[String],
    result: &Result<Exit, CliError>,
) {
    guest.after_line(verb, firsts, result);
    say_loss(guest);
    guest.tidy();
    if G::Tool::WORDS.renames.contains(&verb) || is::<G::Tool>(verb, Mark::Renames) {
        guest.parts().names.refresh();
    }
}

/// The line has been parsed already, so a mismatch now is a defect.
///
/// For tools that parse a line of a session into the arguments of their own commands.
#[must_use]
pub(crate) fn unreadable(error: clap::Error) -> CliError {
    CliError::internal(format!("cannot parse the line: {error}"))
}

/// The connection broke after sending a command that changes something. Only a person can decide to send it again.
fn repeats(name: &str, person: Option<&mut dyn Terminal>) -> Result<bool, CliError> {
    let Some(person) = person else { return Ok(false) };
    let question = format!(
        "connection lost after sending {name}, which the server may have executed: retry? [y/N] "
    );
    let answer = person.ask(&Prompt::new().role(Role::Warning, question))?;
    Ok(matches!(answer, Edited::Text(text) if matches!(text.trim_ascii(), b"y" | b"Y" | b"yes")))
}

/// Reborrows the person, for one more question.
fn borrow<'p>(person: &'p mut Option<&mut dyn Terminal>) -> Option<&'p mut dyn Terminal> {
    match person {
        Some(person) => Some(&mut **person),
        None => None,
    }
}

/// Adds the word that the line omits, if the session knows it.
fn complete<G: Guest>(
    grammar: &mut Command,
    guest: &G,
    matches: &ArgMatches,
    words: &[Word],
) -> Result<Option<ArgMatches>, CliError> {
    let Some((verb, line)) = matches.subcommand() else { return Ok(None) };
    let Some(word) = guest.missing_word(verb, line)? else { return Ok(None) };
    let mut words = words.to_vec();
    let end = words.last().map_or(0, |word| word.end);
    words.push(Word::new(word.into_bytes(), false, end, end));
    match parse(grammar, &words)? {
        Parsed::Matches(matches) => Ok(Some(matches)),
        Parsed::Help(_) => Ok(None),
    }
}

/// The flags that apply to a line.
fn of_line(session: &GlobalArgs, line: GlobalArgs) -> GlobalArgs {
    GlobalArgs {
        timeout: line.timeout.or(session.timeout),
        output: line.output.or(session.output),
        yes: session.yes || line.yes,
        dry_run: session.dry_run || line.dry_run,
        confirm: line.confirm.or_else(|| session.confirm.clone()),
        ..session.clone()
    }
}

/// An error whose hints make sense in a session.
pub(super) fn within_session(error: &CliError, program: &Program) -> CliError {
    let hints = error.hints.iter().filter_map(|hint| program.within_session(hint)).collect();
    CliError { hints, ..error.clone() }
}
