//! How the session's engine reaches beanstalkd.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use beanstalk_client::TubeName;
use clap::{ArgMatches, Command, FromArgMatches};
use ctl_core::args::GlobalArgs;
use ctl_core::color::Role;
use ctl_core::error::{CliError, Exit};
use ctl_core::escape;
use ctl_core::output::{Format, Output, Style};
use ctl_core::repl::ending::Ending;
use ctl_core::repl::grammar::{Parsed, parse};
use ctl_core::repl::help::Group;
use ctl_core::repl::lexer::Word;
use ctl_core::repl::shell::{Leaving, ON_OFF, Setting, Shell, Terminal};
use ctl_core::repl::{Prompt, editor::Edited};
use ctl_core::signals::Interrupts;
use serde_json::Value;

use super::grammar::{self, FORMATS, GROUPS, ON_LAST_JOB, Verb};
use super::leave;
use super::sink::Written;
use super::state::{OnExit, State, lock};
use crate::cli::Cli;
use crate::commands;

/// The shell of `bsctl repl`.
pub(super) struct Host<'s, 't> {
    pub(super) shared: &'s Mutex<State<'t>>,
    pub(super) grammar: Command,
    pub(super) interrupts: Interrupts,
    pub(super) ending: Ending,
    pub(super) written: Written,
    /// Whether the person is being waited for: then a signal must wake the line editor.
    pub(super) waiting: &'s AtomicBool,
    /// Whether the terminal has more than ASCII and one colour.
    pub(super) rich: bool,
    /// Whether a person is there.
    pub(super) person: bool,
}

/// Commands that only look. After a lost connection they are asked again; nothing else ever is.
const READS: &[&str] =
    &["peek", "jobs", "job", "tubes", "stats", "stats-tube", "server", "ping", "reserved"];
/// Commands after which tubes may have come or gone.
const MAKES_TUBES: &[&str] =
    &["put", "use", "watch", "ignore", "delete", "pop", "clear", "drain", "import", "move", "copy"];

impl Shell for Host<'_, '_> {
    fn grammar(&mut self) -> &mut Command {
        &mut self.grammar
    }

    fn groups(&self) -> &'static [Group] {
        GROUPS
    }

    fn prompt(&mut self) -> Prompt {
        let mut state = lock(self.shared);
        if let Some(said) = state.notice_loss() {
            state.tool.messages.note(said);
        }
        if self.written.take_open_line() {
            // The result had no line end: the prompt must not hide it. A closed stdout shows at the next write.
            let _ = writeln!(io::stdout());
        }
        let settings = state.settings();
        state.names.settings(settings);
        self.waiting.store(true, Ordering::SeqCst);
        state.prompt(self.rich)
    }

    fn run(
        &mut self,
        matches: &ArgMatches,
        words: &[Word],
        person: Option<&mut dyn Terminal>,
    ) -> Result<Exit, CliError> {
        let name = matches.subcommand_name().unwrap_or_default().to_owned();
        let mut person = person;
        if name == "connect" && !self.may_leave(Leaving::Connect, borrow(&mut person))? {
            return Ok(Exit::Done);
        }
        loop {
            let error = match self.line(matches, words) {
                Err(error) if error.code == LOST => error,
                result => return result,
            };
            if READS.contains(&name.as_str()) {
                return self.line(matches, words);
            }
            if !self.repeats(&name, borrow(&mut person))? {
                return Err(
                    error.hint("look before you repeat it: nobody knows whether it was done")
                );
            }
        }
    }

    fn result(&mut self, matches: &ArgMatches, words: &[Word]) -> Result<Value, CliError> {
        let captured = Captured::default();
        let style = Style { format: Format::Json, ..Style::default() };
        let usual = {
            let mut state = lock(self.shared);
            state.style.format = Format::Json;
            std::mem::replace(
                &mut state.tool.out,
                Output::to(Box::new(captured.clone()), style.clone()),
            )
        };
        let result = self.line(matches, words);
        {
            let mut state = lock(self.shared);
            state.style = usual.style.clone();
            state.tool.out = usual;
        }
        result?;
        captured.json()
    }

    fn settings(&self) -> Vec<Setting> {
        lock(self.shared).settings()
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), CliError> {
        lock(self.shared).set(name, value)
    }

    fn show(&mut self, text: &str) -> Result<(), CliError> {
        let mut state = lock(self.shared);
        state.tool.out.text(&escape::lines(text))?;
        state.tool.out.flush()
    }

    fn report(&mut self, error: &CliError, place: Option<&str>) {
        let state = lock(self.shared);
        if self.person && place.is_none() && error.code == "INTERRUPTED" {
            // The terminal has shown ^C behind what was there.
            let _ = writeln!(io::stderr());
            state.tool.messages.note("cancelled");
            return;
        }
        let error = within_session(error);
        match place {
            None => state.tool.messages.failure(&error, false),
            Some(place) if state.style.format.is_json() => {
                state.tool.messages.failure(&error.context(place), true);
            }
            Some(place) => print_script_error(&error, place),
        }
    }

    fn note(&mut self, text: &str) {
        lock(self.shared).tool.messages.note(text);
    }

    fn output_time(&mut self) -> Duration {
        self.waiting.store(false, Ordering::SeqCst);
        self.written.take_spent()
    }

    fn interrupts(&self) -> &Interrupts {
        &self.interrupts
    }

    fn ending(&self) -> Option<Exit> {
        self.ending.requested()
    }

    fn is_secret(&self, verb: &str) -> bool {
        verb == "raw"
    }

    fn may_leave(
        &mut self,
        reason: Leaving,
        person: Option<&mut dyn Terminal>,
    ) -> Result<bool, CliError> {
        let _ = reason;
        self.waiting.store(person.is_some(), Ordering::SeqCst);
        let settled = leave::settle(self.shared, person);
        self.waiting.store(false, Ordering::SeqCst);
        settled
    }
}

/// The name of the error that says that the connection broke after the request went out.
const LOST: &str = "CONNECTION_LOST";

impl Host<'_, '_> {
    /// Runs one line: its flags on top of those of the session.
    fn line(&mut self, matches: &ArgMatches, words: &[Word]) -> Result<Exit, CliError> {
        if let Some(flag) = grammar::misplaced_flag(matches) {
            return Err(CliError::usage(format!("{flag} cannot be given on a line of a session"))
                .hint(format!("leave, and give {flag} to bsctl repl")));
        }
        let mut state = lock(self.shared);
        if let Some(said) = state.notice_loss() {
            state.tool.messages.note(said);
        }
        let matches = match with_last_job(&mut self.grammar, &state, matches, words)? {
            Some(completed) => &completed.clone(),
            None => matches,
        };
        let flags = GlobalArgs::from_arg_matches(matches).map_err(internal)?;
        state.tool.out.style = flags.restyle(&state.style);
        state.tool.globals = of_line(&state.globals, flags);
        self.written.take_ids();
        let result = state.command(matches);
        state.after_line(matches.subcommand_name().unwrap_or_default(), &result);
        result
    }

    /// The connection broke after a command was sent that changes something. Only a person can decide to
    /// send it again.
    fn repeats(&self, name: &str, person: Option<&mut dyn Terminal>) -> Result<bool, CliError> {
        let Some(person) = person else { return Ok(false) };
        let question = format!(
            "the connection broke after {name} was sent, and nobody knows whether the server did it: retry? [y/N] "
        );
        let answer = person.ask(&Prompt::new().role(Role::Warning, question))?;
        Ok(
            matches!(answer, Edited::Text(text) if matches!(text.trim_ascii(), b"y" | b"Y" | b"yes")),
        )
    }
}

/// The person again, for one more question.
fn borrow<'p>(person: &'p mut Option<&mut dyn Terminal>) -> Option<&'p mut dyn Terminal> {
    match person {
        Some(person) => Some(&mut **person),
        None => None,
    }
}

/// `release`, `bury` and `delete` without an id act on the job that was reserved last.
fn with_last_job(
    grammar: &mut Command,
    state: &State<'_>,
    matches: &ArgMatches,
    words: &[Word],
) -> Result<Option<ArgMatches>, CliError> {
    let Some((name, line)) = matches.subcommand() else { return Ok(None) };
    let has_ids = line.try_contains_id("ids").unwrap_or(true);
    if !ON_LAST_JOB.contains(&name) || has_ids {
        return Ok(None);
    }
    let id = state.last_held()?.to_string();
    let mut words = words.to_vec();
    let end = words.last().map_or(0, |word| word.end);
    words.push(Word { bytes: id.into_bytes(), literal: false, start: end, end, heredoc: false });
    match parse(grammar, &words)? {
        Parsed::Matches(matches) => Ok(Some(matches)),
        Parsed::Help(_) => Ok(None),
    }
}

/// The flags that are in force for a line.
fn of_line(session: &GlobalArgs, line: GlobalArgs) -> GlobalArgs {
    GlobalArgs {
        progress: line.progress.or(session.progress),
        yes: session.yes || line.yes,
        no_input: session.no_input || line.no_input,
        dry_run: session.dry_run || line.dry_run,
        confirm: line.confirm.or_else(|| session.confirm.clone()),
        ..session.clone()
    }
}

impl State<'_> {
    fn command(&mut self, matches: &ArgMatches) -> Result<Exit, CliError> {
        if let Some(verb) = grammar::verb(matches) {
            let exit = self.verb(verb)?;
            return self.tool.out.flush().map(|()| exit);
        }
        let line = Cli::from_arg_matches(matches).map_err(internal)?;
        let Some(command) = line.command else {
            return Err(CliError::usage("no command").hint("help"));
        };
        let is_first = self.tool.link.place().is_none();
        let result = commands::dispatch(self.tool, command);
        if is_first && self.is_connected() {
            // There was no place to come back to: a session begins with the server's own.
            let tube = TubeName::default();
            let link = &mut self.tool.link;
            // A lost connection is told by the next command.
            let _ = link.use_tube(&tube).and_then(|()| link.watch_only(&[tube]));
        }
        result
    }

    fn verb(&mut self, verb: Verb) -> Result<Exit, CliError> {
        match verb {
            Verb::Use { tube } => self.use_tube(&tube),
            Verb::Watch { tubes } => self.watch(&tubes),
            Verb::Ignore { tubes } => self.ignore(&tubes),
            Verb::Reserve { wait, job } => self.reserve(wait, job),
            Verb::Reserved => self.show_reserved(),
            Verb::Touch { job } => self.touch_some(job.as_deref()),
            Verb::Hold { job } => self.hold_some(job.as_deref(), true),
            Verb::Unhold { job } => self.hold_some(job.as_deref().or(Some("all")), false),
            Verb::Save { id, file } => self.save(id.into(), &file),
            Verb::SaveLast { file } => self.save_last(&file),
            Verb::Connect { server } => self.connect(&server),
        }
    }

    /// Puts the session's own flags back, and notes what the line changed.
    fn after_line(&mut self, name: &str, result: &Result<Exit, CliError>) {
        self.tool.out.style = self.style.clone();
        self.tool.globals = self.globals.clone();
        let ids = self.written.take_ids();
        if let (Some(last), "peek" | "job") = (ids.last(), name) {
            self.last_shown = Some(*last);
        }
        self.names.saw(&ids);
        match result {
            Err(error) if error.code == "DRAINING" => self.draining = true,
            Ok(_) if name == "put" => self.draining = false,
            _ => {}
        }
        if let Some(said) = self.notice_loss() {
            self.tool.messages.note(said);
        }
        self.tidy();
        if MAKES_TUBES.contains(&name) {
            self.names.refresh();
        }
    }

    fn settings(&self) -> Vec<Setting> {
        let autotouch = if self.notebook.autotouch { "on" } else { "off" };
        let format = format_name(self.style.format);
        vec![
            Setting {
                name: "autotouch",
                value: autotouch.to_owned(),
                allowed: ON_OFF,
                about: "touch reserved jobs each third of their time to run",
            },
            Setting {
                name: "on_exit",
                value: self.on_exit.word().to_owned(),
                allowed: OnExit::WORDS,
                about: "what becomes of reserved jobs at the end",
            },
            Setting {
                name: "format",
                value: format.to_owned(),
                allowed: FORMATS,
                about: "how results look",
            },
        ]
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), CliError> {
        match name {
            "autotouch" => self.notebook.autotouch = value == "on",
            "on_exit" => self.on_exit = OnExit::of(value).unwrap_or(self.on_exit),
            "format" => {
                let format = <Format as clap::ValueEnum>::from_str(value, true);
                self.style.format = format.map_err(CliError::usage)?;
                self.tool.out.style = self.style.clone();
            }
            _ => return Err(CliError::usage(format!("there is no setting `{name}`"))),
        }
        Ok(())
    }
}

fn format_name(format: Format) -> String {
    let value = clap::ValueEnum::to_possible_value(&format);
    value.map(|value| value.get_name().to_owned()).unwrap_or_default()
}

/// The grammar was read already: what does not fit now is a defect.
fn internal(error: clap::Error) -> CliError {
    CliError::internal(format!("cannot read a line that fits the grammar: {error}"))
}

/// An error whose hints are commands of the session.
fn within_session(error: &CliError) -> CliError {
    let here = |hint: &String| hint.strip_prefix("bsctl ").unwrap_or(hint).to_owned();
    let said = CliError::new(error.exit, error.code, error.message.clone());
    error.hints.iter().map(here).fold(said, CliError::hint)
}

/// `FILE:LINE: CODE: message`, as compilers say it.
fn print_script_error(error: &CliError, place: &str) {
    let code = if error.exit == Exit::Usage { String::new() } else { format!("{}: ", error.code) };
    let message = escape::lines(&error.message);
    let mut text = format!("{}: {code}{message}\n", escape::line(place));
    for hint in &error.hints {
        text.push_str(&format!("  try: {}\n", escape::line(hint)));
    }
    // A stderr that cannot be written has nowhere to be reported.
    let _ = io::stderr().write_all(text.as_bytes());
}

/// A result that is kept instead of shown.
#[derive(Clone, Default)]
struct Captured(Arc<Mutex<Vec<u8>>>);

impl Captured {
    fn json(&self) -> Result<Value, CliError> {
        let bytes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if bytes.trim_ascii().is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_slice(&bytes).map_err(|error| {
            CliError::usage(format!("the result of this command is not JSON: {error}"))
        })
    }
}

impl Write for Captured {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
