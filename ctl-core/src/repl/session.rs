//! A session: reads statements, runs them, and decides what errors end.

mod again;
mod settings;
mod typed;

use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::redirect::{self, Target, Way};
use super::shell::{Leaving, Shell, Terminal};
use super::source::{Input, Lines, ReadLines, Script};
use super::vars::Vars;
use super::{builtin, grammar, help, outside};
use crate::error::{CliError, Exit};
use crate::link::CONNECT;
use crate::system::files;
use crate::text::escape;
use crate::text::lexer::{LexError, Word};
use crate::text::literal;

/// A session's rules for errors and commands.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    /// Scripts continue after an error; the exit code is then 3.
    pub keep_going: bool,
    /// Scripts show each command on stderr before running it.
    pub echo: bool,
    /// `!` is disabled.
    pub no_shell: bool,
    /// The values of `${name}`.
    pub vars: Vars,
}

/// A running session.
pub struct Session<'s, S> {
    shell: &'s mut S,
    rules: Rules,
    timing: bool,
    /// How long the current statement has slept between rounds, which does not count as the server's time.
    slept: Duration,
    hints: bool,
    failures: u64,
    depth: u32,
}

/// Commands slower than this show their time.
const SLOW: Duration = Duration::from_millis(500);
/// Maximum nesting depth of `:source`.
const MAX_DEPTH: u32 = 16;

/// How one statement ended.
enum Flow {
    Next,
    Leave,
    Failed(Exit),
}

impl<'s, S: Shell> Session<'s, S> {
    /// A session with these rules.
    pub fn new(shell: &'s mut S, rules: Rules) -> Self {
        Self {
            shell,
            rules,
            timing: false,
            slept: Duration::ZERO,
            hints: true,
            failures: 0,
            depth: 0,
        }
    }

    /// Runs a script to its end, `quit`, a signal, or its first error; `name` stands before line numbers.
    /// The exit is that of the first error, or 3 if the script continued after errors.
    ///
    /// # Errors
    /// The script cannot be read, or stdout is closed.
    pub fn script<L: Lines>(&mut self, name: &str, script: Script<L>) -> Result<Exit, CliError> {
        let flow = self.lines(name, script)?;
        self.shell.may_leave(Leaving::End, None)?;
        Ok(match flow {
            Flow::Failed(exit) => exit,
            Flow::Next | Flow::Leave if self.failures > 0 => Exit::Partial,
            Flow::Next | Flow::Leave => Exit::Done,
        })
    }

    /// Runs the commands of a file, if there is one, up to the first error, which is reported. Returns true to leave.
    ///
    /// # Errors
    /// stdout is closed.
    pub fn prepare(&mut self, file: &Path) -> Result<bool, CliError> {
        let (name, script) = match open_own(file) {
            Ok(opened) => opened,
            Err(error) if error.exit == Exit::NoInput => return Ok(false),
            Err(error) if error.exit == Exit::Config => return Err(error),
            Err(error) => return self.survive(error).map(|()| false),
        };
        let flow = self.lines(&name, script)?;
        self.shell.interrupts().clear();
        Ok(matches!(flow, Flow::Leave))
    }

    /// A person's session continues after every error, but not without its stdout.
    fn survive(&mut self, error: CliError) -> Result<(), CliError> {
        if error.is_broken_pipe() {
            return Err(error);
        }
        self.shell.report(&error, None);
        Ok(())
    }

    fn lines<L: Lines>(&mut self, name: &str, mut script: Script<L>) -> Result<Flow, CliError> {
        loop {
            let input = script.next_input().map_err(|e| CliError::reading(name, &e))?;
            if let Some(exit) = self.stop_asked() {
                return Ok(Flow::Failed(exit));
            }
            let (line, text, parsed) = match input {
                Input::Statement { line, text, parsed } => (line, text, parsed),
                Input::End => return Ok(Flow::Next),
                Input::Interrupted => return Ok(Flow::Failed(Exit::Interrupted)),
            };
            let is_object = self.rules.echo && self.writes_objects();
            if self.rules.echo && !is_object {
                let text = String::from_utf8_lossy(&text);
                text.lines().for_each(|line| self.shell.note(&format!("> {line}")));
            }
            let place = format!("{name}:{line}");
            let filled = parsed.map_err(|error| lex_error(&error)).and_then(|mut statement| {
                self.rules.vars.fill(&text, &mut statement).map(|()| statement)
            });
            let flow = match filled {
                Ok(statement) if is_object => {
                    self.echoed(&statement.words, (&text, line), &place)?
                }
                Ok(statement) => self.statement(&statement.words, Some(&place), None)?,
                Err(error) => {
                    self.shell.report(&error, Some(&place));
                    Flow::Failed(error.exit)
                }
            };
            match flow {
                Flow::Next => {}
                Flow::Leave => return Ok(Flow::Leave),
                Flow::Failed(exit) => {
                    if let Some(exit) = self.stop_asked() {
                        return Ok(Flow::Failed(exit));
                    }
                    if !self.rules.keep_going {
                        return Ok(Flow::Failed(exit));
                    }
                    self.failures += 1;
                }
            }
        }
    }

    /// Whether results are objects, one per line.
    fn writes_objects(&self) -> bool {
        let settings = self.shell.settings();
        settings.iter().any(|setting| setting.name == "format" && setting.value == "ndjson")
    }

    /// Runs a statement of a script, and shows its text, place, result and duration as one object. Statements that are
    /// not commands of the tool have no result.
    fn echoed(
        &mut self,
        words: &[Word],
        (text, line): (&[u8], usize),
        place: &str,
    ) -> Result<Flow, CliError> {
        let started = Instant::now();
        let is_more = !matches!(redirect::split(words), Ok((_, None)))
            || upright(words).is_some()
            || again::repetition(words).is_some();
        let verb = words.first().map(|verb| verb.bytes.as_slice()).unwrap_or_default();
        let is_builtin = verb != CONNECT.as_bytes()
            && builtin::VERBS.iter().any(|known| known.as_bytes() == verb);
        let (flow, result) = match grammar::parse(self.shell.grammar(), words) {
            Ok(grammar::Parsed::Matches(matches))
                if !is_more && !is_builtin && !grammar::asks_for_editor(&matches) =>
            {
                match self.shell.result(&matches, words) {
                    Ok((exit, result)) if exit.is_done() => (Flow::Next, result),
                    Ok((exit, result)) => (Flow::Failed(exit), result),
                    Err(error) if error.is_broken_pipe() => return Err(error),
                    Err(error) => {
                        self.shell.report(&error, Some(place));
                        return Ok(Flow::Failed(error.exit));
                    }
                }
            }
            _ => match self.statement(words, Some(place), None)? {
                Flow::Failed(exit) => return Ok(Flow::Failed(exit)),
                flow => (flow, Value::Null),
            },
        };
        let ms = (started.elapsed().as_secs_f64() * 1e6).round() / 1e3;
        let cmd = String::from_utf8_lossy(text);
        let object = json!({"cmd": cmd.trim(), "line": line, "result": result, "ms": ms});
        self.shell.show(&format!("{}\n", escape::json(&object.to_string())))?;
        Ok(flow)
    }

    /// The exit of a signal, if one arrived.
    fn stop_asked(&self) -> Option<Exit> {
        self.shell.ending().or_else(|| self.shell.interrupts().requested())
    }

    /// Runs one statement and reports its error. Returns `Err` only for what ends the whole session.
    fn statement(
        &mut self,
        words: &[Word],
        place: Option<&str>,
        terminal: Option<&mut dyn Terminal>,
    ) -> Result<Flow, CliError> {
        let started = Instant::now();
        self.shell.output_time();
        self.shell.reading_time();
        // Nobody is surprised by a script that waits.
        let shows_slow = terminal.is_some();
        let flow = self.execute(words, terminal);
        let idle = self.shell.reading_time() + std::mem::take(&mut self.slept);
        let took = started.elapsed().saturating_sub(idle);
        let flow = match flow {
            Err(error) if error.is_broken_pipe() => return Err(error),
            Err(error) => {
                let error = if shows_slow { about_screen(error, words) } else { error };
                self.shell.report(&error, place);
                Flow::Failed(error.exit)
            }
            Ok(flow) => flow,
        };
        self.show_time(took, shows_slow && matches!(flow, Flow::Next));
        Ok(flow)
    }

    fn show_time(&mut self, total: Duration, shows_slow: bool) {
        let output = self.shell.output_time().min(total);
        if self.timing || (shows_slow && total >= SLOW) {
            let milliseconds = |time: Duration| time.as_secs_f64() * 1000.0;
            self.shell.note(&format!(
                "({:.1} ms server and tool, {:.1} ms output)",
                milliseconds(total.saturating_sub(output)),
                milliseconds(output)
            ));
        }
    }

    fn execute(
        &mut self,
        words: &[Word],
        terminal: Option<&mut dyn Terminal>,
    ) -> Result<Flow, CliError> {
        if let (words, Some(target)) = redirect::split(words)? {
            return self.redirected(words, target, terminal);
        }
        if let Some(words) = upright(words) {
            self.shell.upright(true);
            let ran = self.execute(words, terminal);
            self.shell.upright(false);
            return ran;
        }
        if let Some((times, words)) = again::repetition(words) {
            return self.repeat(times, words, terminal);
        }
        let matches = match grammar::parse(self.shell.grammar(), words)? {
            grammar::Parsed::Matches(matches) => matches,
            grammar::Parsed::Help(text) => {
                self.shell.show(&text)?;
                return Ok(Flow::Next);
            }
        };
        let Some((verb, arguments)) = matches.subcommand() else {
            return Err(CliError::usage("no command").hint("help"));
        };
        let text = |id: &str| arguments.get_one::<String>(id).map(String::as_str);
        match verb {
            "quit" => return Ok(Flow::Leave),
            "help" => {
                let groups = self.shell.groups();
                let shown = help::text(self.shell.grammar(), &groups, text("topic"))?;
                self.shell.show(&shown)?;
            }
            ":watch" => return self.watch(words.get(1..).unwrap_or_default(), terminal),
            "!" => self.outside(words.get(1), terminal.is_some())?,
            "\\e" => {
                return Err(needs_person("\\e"));
            }
            ":pager" => match text("when") {
                Some(when) => self.shell.set("pager", when)?,
                None => self.show_settings(Some("pager"))?,
            },
            ":set" => return self.set(text("setting"), text("value"), terminal),
            ":timing" => self.timing = text("on").map_or(!self.timing, |on| on == "on"),
            ":format" => match text("format") {
                Some(format) => self.shell.set("format", format)?,
                None => self.show_settings(Some("format"))?,
            },
            ":cls" => {
                if let Some(terminal) = terminal {
                    terminal.clear()?;
                }
            }
            ":history" => {
                let entries = terminal.map(|t| t.entries().to_vec()).unwrap_or_default();
                let shown = which_entries(&entries, text("which"))?;
                self.shell.show(&shown)?;
            }
            ":source" => return self.source(words, terminal),
            _ if grammar::asks_for_editor(&matches) => return self.written(words, terminal),
            _ => {
                let exit = self.shell.run(&matches, words, terminal)?;
                return Ok(if exit.is_done() { Flow::Next } else { Flow::Failed(exit) });
            }
        }
        Ok(Flow::Next)
    }

    /// Runs a line with redirected results. Nothing is sent unless the target is open.
    fn redirected(
        &mut self,
        words: &[Word],
        target: Target,
        terminal: Option<&mut dyn Terminal>,
    ) -> Result<Flow, CliError> {
        if self.rules.no_shell {
            let text = "redirections are disabled: this session has --no-shell";
            return Err(CliError::usage(text));
        }
        // A line that cannot be run leaves files unchanged.
        let mut command = upright(words).unwrap_or(words);
        while let Some((_, rest)) = again::repetition(command) {
            command = rest;
        }
        grammar::parse(self.shell.grammar(), command)?;
        let Way { sink, destination, reader } = target.open(&self.rules.vars)?;
        self.shell.divert(sink, destination);
        let ran = self.execute(words, terminal);
        let written = self.shell.undivert();
        let read = redirect::end(reader);
        self.shell.interrupts().check()?;
        match (ran, written) {
            // This session's stdout is not the one that is closed.
            (Err(error), _) if error.is_broken_pipe() => {
                let text = "the shell command stopped reading before all results were written";
                Err(CliError::new(Exit::Io, "IO", text))
            }
            // A read-only command is over once nobody reads its results.
            (Ok(flow), Err(error)) if error.is_broken_pipe() => read.map(|()| flow),
            (Ok(flow), written) => written.and(read).map(|()| flow),
            (Err(error), _) => Err(error),
        }
    }

    fn outside(&mut self, line: Option<&Word>, person: bool) -> Result<(), CliError> {
        let Some(line) = line.filter(|line| !line.bytes.is_empty()) else {
            return Err(CliError::usage("no shell command after the !").hint("!ls"));
        };
        if self.rules.no_shell {
            return Err(CliError::usage(
                "shell commands are disabled: this session has --no-shell",
            ));
        }
        let ran = outside::shell(line, &self.rules.vars, person);
        self.shell.interrupts().check().and(ran)
    }

    fn source(
        &mut self,
        words: &[Word],
        terminal: Option<&mut dyn Terminal>,
    ) -> Result<Flow, CliError> {
        if self.depth >= MAX_DEPTH {
            return Err(CliError::usage(format!(":source is nested more than {MAX_DEPTH} deep")));
        }
        let file = words.get(1).map(literal::to_path).transpose().map_err(CliError::usage)?;
        let file = file.unwrap_or_default();
        if terminal.is_some() && !self.shell.may_leave(Leaving::Source, terminal)? {
            return Ok(Flow::Next);
        }
        let (name, script) = open(&file)?;
        self.depth += 1;
        let before = self.failures;
        let flow = self.lines(&name, script);
        self.depth -= 1;
        if self.failures > before && matches!(flow, Ok(Flow::Next)) && self.depth == 0 {
            self.shell.note(&format!("{name}: {} commands failed", self.failures - before));
        }
        flow
    }
}

/// A script file.
pub type FileScript = Script<ReadLines<BufReader<File>>>;

/// Opens a script file; errors refer to it by its name.
///
/// # Errors
/// The file is missing (66) or cannot be read (74).
pub fn open(file: &Path) -> Result<(String, FileScript), CliError> {
    let name = file.display().to_string();
    let opened = File::open(file).map_err(|error| CliError::reading(&name, &error))?;
    Ok((name, Script::new(ReadLines(BufReader::new(opened)))))
}

/// As [`open`], for a file that is run unasked: only if nobody else can change it.
fn open_own(file: &Path) -> Result<(String, FileScript), CliError> {
    let (name, script) = open(file)?;
    match std::fs::metadata(file).ok().as_ref().and_then(files::distrust) {
        None => Ok((name, script)),
        Some(why) => {
            let shown = escape::line(&name);
            let hint = match why == files::WRITABLE {
                true => format!("chmod go-w {shown}"),
                false => "a file of your own".to_owned(),
            };
            let message = format!("{shown} {why}, and its commands are not run");
            Err(CliError::config(message).hint(hint).hint("--no-replrc"))
        }
    }
}

/// The words before a `\\G` at the end, which shows each result with one line per value.
fn upright(words: &[Word]) -> Option<&[Word]> {
    let (last, words) = words.split_last()?;
    (!last.literal && last.bytes == b"\\G" && !words.is_empty()).then_some(words)
}

/// The error for what opens an editor where nobody could use it.
/// Who types `clear` alone, and misses a word, may have meant the screen.
fn about_screen(error: CliError, words: &[Word]) -> CliError {
    match words {
        [verb] if verb.bytes == b"clear" && error.exit == Exit::Usage => {
            error.hint("Ctrl-L or :cls, to clear the screen")
        }
        _ => error,
    }
}

fn needs_person(what: &str) -> CliError {
    CliError::usage(format!("{what} needs an interactive terminal"))
}

fn lex_error(error: &LexError) -> CliError {
    CliError::usage(error.to_string())
}

fn which_entries(entries: &[String], which: Option<&str>) -> Result<String, CliError> {
    let numbered = entries.iter().enumerate();
    let line = |(at, entry): (usize, &String)| {
        format!("{:5}  {}\n", at + 1, crate::text::escape::line(&entry.replace('\n', "↵")))
    };
    let text = which.and_then(|w| w.strip_prefix('/')).map(|w| w.strip_suffix('/').unwrap_or(w));
    if let Some(text) = text {
        return Ok(numbered.filter(|(_, entry)| entry.contains(text)).map(line).collect());
    }
    let newest = match which {
        None => 20,
        Some(number) => number.parse().map_err(|_| {
            CliError::usage(format!("`{number}` is neither a number of entries nor a /text/"))
        })?,
    };
    Ok(numbered.skip(entries.len().saturating_sub(newest)).map(line).collect())
}

#[cfg(test)]
mod tests;
