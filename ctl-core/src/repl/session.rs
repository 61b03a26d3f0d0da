//! A session: reads statements, runs them, and decides what errors end.

mod settings;
mod typed;

use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::time::{Duration, Instant};

use super::redirect::{self, Target, Way};
use super::shell::{Leaving, Shell, Terminal};
use super::source::{Input, Lines, ReadLines, Script};
use super::{grammar, help, outside};
use crate::context::command::Mark;
use crate::error::{CliError, Exit};
use crate::system::files;
use crate::text::escape;
use crate::text::lexer::Word;

/// A running session.
pub struct Session<'s, S> {
    shell: &'s mut S,
    /// Scripts continue after an error; the exit code is then 3.
    keep_going: bool,
    timing: bool,
    hints: bool,
    failures: u64,
}

/// Commands slower than this show their time.
const SLOW: Duration = Duration::from_millis(500);

/// How one statement ended.
enum Flow {
    Next,
    Leave,
    Failed(Exit),
}

impl<'s, S: Shell> Session<'s, S> {
    /// A session whose scripts stop at the first error, or keep going.
    pub fn new(shell: &'s mut S, keep_going: bool) -> Self {
        Self { shell, keep_going, timing: false, hints: true, failures: 0 }
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
        let (name, script) = match open(file) {
            Ok(opened) => opened,
            Err(error) if error.exit == Exit::NoInput => return Ok(false),
            Err(error) => return self.survive(error).map(|()| false),
        };
        must_be_own(file)?;
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
            let (line, parsed) = match input {
                Input::Statement { line, parsed, .. } => (line, parsed),
                Input::End => return Ok(Flow::Next),
                Input::Interrupted => return Ok(Flow::Failed(Exit::Interrupted)),
            };
            let place = format!("{name}:{line}");
            let flow = match parsed {
                Ok(statement) => self.statement(&statement.words, Some(&place), None)?,
                Err(error) => {
                    let error = CliError::usage(error.to_string());
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
                    if !self.keep_going {
                        return Ok(Flow::Failed(exit));
                    }
                    self.failures += 1;
                }
            }
        }
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
        self.shell.starts();
        // A script may wait in silence.
        let shows_slow = terminal.is_some();
        let flow = self.execute(words, terminal);
        let took = started.elapsed();
        let flow = match flow {
            Err(error) if error.is_broken_pipe() => return Err(error),
            Err(error) => {
                self.shell.report(&error, place);
                Flow::Failed(error.exit)
            }
            Ok(flow) => flow,
        };
        if self.timing || (shows_slow && took >= SLOW && matches!(flow, Flow::Next)) {
            self.shell.note(&format!("({:.1} ms)", took.as_secs_f64() * 1000.0));
        }
        Ok(flow)
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
        let matches = match self.parse(words)? {
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
                let shown = self.shell.help(text("topic"), text("more"))?;
                self.shell.show(&shown)?;
            }
            "!" => self.outside(words.get(1), terminal.is_some())?,
            // A person's are run before they get here.
            "\\e" => return Err(CliError::usage("\\e needs an interactive terminal")),
            ":set" => return self.set(text("setting"), text("value"), terminal),
            ":history" => {
                let entries = terminal.map(|t| t.entries().to_vec()).unwrap_or_default();
                let shown = which_entries(&entries, text("which"))?;
                self.shell.show(&shown)?;
            }
            _ => {
                let exit = self.shell.run(&matches, words, terminal)?;
                return Ok(if exit.is_done() { Flow::Next } else { Flow::Failed(exit) });
            }
        }
        Ok(Flow::Next)
    }

    fn parse(&mut self, words: &[Word]) -> Result<grammar::Parsed, CliError> {
        let verb = words.first().map(|word| String::from_utf8_lossy(&word.bytes));
        let absent = verb.filter(|verb| self.shell.has(verb, Mark::Absent));
        let grammar = self.shell.grammar();
        let Some(verb) = absent else { return grammar::parse(grammar, words) };
        Err(CliError::usage(format!("`{verb}` runs in a shell only"))
            .hint(format!("!{} {verb}, to run it from here", grammar.get_name())))
    }

    /// Runs a line with redirected results. Nothing is sent unless the target is open.
    fn redirected(
        &mut self,
        words: &[Word],
        target: Target,
        terminal: Option<&mut dyn Terminal>,
    ) -> Result<Flow, CliError> {
        // A line that cannot be run leaves files unchanged.
        self.parse(upright(words).unwrap_or(words))?;
        let Way { sink, destination, reader } = target.open()?;
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
            // A read-only command ends when its reader closes the pipe.
            (Ok(flow), Err(error)) if error.is_broken_pipe() => read.map(|()| flow),
            (Ok(flow), written) => written.and(read).map(|()| flow),
            (Err(error), _) => Err(error),
        }
    }

    fn outside(&mut self, line: Option<&Word>, person: bool) -> Result<(), CliError> {
        let Some(line) = line.filter(|line| !line.bytes.is_empty()) else {
            return Err(CliError::usage("no shell command after the !").hint("!ls"));
        };
        let ran = outside::shell(line, person);
        self.shell.interrupts().check().and(ran)
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

/// A file that runs automatically must not be writable by other users.
fn must_be_own(file: &Path) -> Result<(), CliError> {
    let Some(why) = std::fs::metadata(file).ok().as_ref().and_then(files::distrust) else {
        return Ok(());
    };
    let shown = escape::line(&file.display().to_string()).into_owned();
    let hint = files::trust(why, &shown, "");
    Err(CliError::config(format!("{shown} {why}, and its commands are not run")).hint(hint))
}

/// The words before a `\\G` at the end, which shows each result with one line per value.
fn upright(words: &[Word]) -> Option<&[Word]> {
    let (last, words) = words.split_last()?;
    (!last.literal && last.bytes == b"\\G" && !words.is_empty()).then_some(words)
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
