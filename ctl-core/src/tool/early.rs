//! A command line before its flags are known: help, usage errors, panics.

use std::borrow::Cow;
use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::panic::{self, AssertUnwindSafe};

use clap::error::ErrorKind;

use crate::error::{CliError, Exit};
use crate::help::{self, Extent, tip};
use crate::output::Format;
use crate::output::messages::{LogFormat, Messages};
use crate::program::Program;
use crate::rules::preset::{self, command_at};
use crate::rules::thresholds::Verdict;
use crate::system::env::{Environment, word};
use crate::text::color::ColorWhen;
use crate::text::escape;

/// A command line that may be wrong.
pub(super) struct Early<'l> {
    pub(super) program: &'l Program,
    /// Its words; the first is the program's name.
    pub(super) line: &'l [OsString],
    pub(super) environment: &'l Environment,
}

impl Early<'_> {
    /// Runs the whole line with `run`, and returns the exit code. A panic is 70; `check` has its own codes.
    pub(super) fn run(&self, run: impl FnOnce() -> Exit) -> Exit {
        // The panic hook has printed the cause.
        let exit = panic::catch_unwind(AssertUnwindSafe(run)).unwrap_or(Exit::Internal);
        // A monitoring system would take 1 and 2 for verdicts.
        if (exit.code() > 3 || exit == Exit::Usage) && self.is_check() {
            return Verdict::Unknown.exit();
        }
        exit
    }

    /// Without a command: the first screen of the help, as a usage error.
    pub(super) fn without_command(&self) -> Exit {
        if self.wants_json() {
            let hint = format!("{} --help", self.program.name);
            return self.failure(&CliError::usage("no command given").hint(hint));
        }
        let _ = io::stderr().write_all(help::first(self.program).as_bytes());
        Exit::Usage
    }

    /// Prints a clap error: help and version are results, everything else is exit 2.
    pub(super) fn grammar_error(&self, mut error: clap::Error) -> Exit {
        if error.kind() == ErrorKind::DisplayVersion {
            let _ = error.print();
            return Exit::Done;
        }
        // Parses the line again with everything that help shows.
        let again = || {
            let tree = help::shown(self.program, self.extent(), help::width());
            let expanded = preset::of_line(&tree, self.line);
            tree.try_get_matches_from(expanded.as_deref().unwrap_or(self.line)).err()
        };
        if error.kind() == ErrorKind::DisplayHelp {
            // A closed pipe is fine.
            let _ = again().unwrap_or(error).print();
            return Exit::Done;
        }
        let tree = (self.program.tree)();
        let expanded = preset::of_line(&tree, self.line);
        let line = expanded.as_deref().unwrap_or(self.line);
        tip::correct(&mut error, self.program, &tree, (line, self.line));
        tip::escape(&mut error);
        if self.is_check() {
            self.unknown(&first_sentence(&error));
        }
        if self.wants_json() || self.log_format() == LogFormat::Json {
            let text = tip::text(&error, false);
            let message = text.strip_prefix("error: ").unwrap_or(&text).trim();
            return self.report(&CliError::usage(message));
        }
        let shows_help = error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
        match shows_help.then(again).flatten() {
            Some(help) => {
                let _ = help.print();
            }
            None => self.print(&error),
        }
        Exit::Usage
    }

    /// `-h` asks for a screen, `--help` for more.
    fn extent(&self) -> Extent {
        let is_whole = self.line.iter().any(|word| word == "--help" || word == "help");
        if is_whole { Extent::Whole } else { Extent::Screen }
    }

    /// Prints a usage error, without colours where the words of a parser may quote something that acts on a terminal.
    /// The verdict of a check has said the first paragraph on the same terminal.
    fn print(&self, error: &clap::Error) {
        let messages = self.messages();
        let quotes = std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
        let plain = tip::text(error, false);
        let is_harmless =
            matches!(escape::lines(&plain), Cow::Borrowed(_)) && !quotes.chars().any(escape::acts);
        let text = match is_harmless && messages.color() {
            true => tip::text(error, true),
            false => escape::lines(&plain).into_owned(),
        };
        let text = match text.split_once("\n\n").filter(|_| self.is_said(&messages)) {
            Some((_, rest)) => rest,
            None => &text,
        };
        messages.text(text.trim_end());
    }

    /// A failure before flags could be applied. For a check it is also a verdict.
    pub(super) fn failure(&self, error: &CliError) -> Exit {
        if self.is_check() {
            self.unknown(&error.message);
        }
        let messages = self.messages();
        if self.is_said(&messages) && !self.wants_json() && self.log_format() == LogFormat::Text {
            error.hints.iter().for_each(|hint| messages.note(format!("  try: {hint}")));
            return error.exit;
        }
        self.report(error)
    }

    /// Whether the verdict of a check has been said where these messages are read.
    fn is_said(&self, messages: &Messages) -> bool {
        self.is_check() && io::stdout().is_terminal() && messages.is_terminal()
    }

    /// Where messages go.
    fn messages(&self) -> Messages {
        let stderr = io::stderr();
        let terminal = stderr.is_terminal();
        let color = self.environment.colors(ColorWhen::Auto, terminal);
        Messages::to(Box::new(stderr), self.program.name, color, terminal)
            .with_format(self.log_format())
    }

    /// The verdict of a check that cannot be made.
    fn unknown(&self, why: &str) {
        let why = escape::line(why);
        let _ = writeln!(io::stdout(), "{}", Verdict::Unknown.headline(self.program, &why));
    }

    fn report(&self, error: &CliError) -> Exit {
        self.messages().failure(error, self.wants_json());
        error.exit
    }

    /// Whether the command is `check`, even on an otherwise invalid line.
    fn is_check(&self) -> bool {
        if !self.line.iter().any(|word| word == "check") {
            return false;
        }
        let words = || self.line.iter().skip(1).map(|word| word.to_string_lossy());
        let at = command_at(&(self.program.tree)(), words());
        at.and_then(|at| words().nth(at)).is_some_and(|word| word == "check")
    }

    /// Whether the command line or the environment requests a JSON format, even on an otherwise invalid line.
    fn wants_json(&self) -> bool {
        let texts: Vec<_> = self.line.iter().map(|text| text.to_string_lossy()).collect();
        let flag = texts.iter().enumerate().rev().find_map(|(at, text)| {
            if text == "--output" || text == "-o" {
                return texts.get(at + 1).map(ToString::to_string);
            }
            let rest = text.strip_prefix("--output=").or_else(|| text.strip_prefix("-o"))?;
            Some(rest.trim_start_matches('=').to_owned())
        });
        let chosen = flag.or_else(|| self.variable("OUTPUT"));
        chosen.is_some_and(|text| word::<Format>(&text).is_ok_and(Format::is_json))
    }

    /// The format of messages.
    fn log_format(&self) -> LogFormat {
        let chosen = self.variable("LOG_FORMAT");
        chosen.and_then(|text| word::<LogFormat>(&text).ok()).unwrap_or_default()
    }

    /// The variable with this name behind the tool's prefix.
    fn variable(&self, name: &str) -> Option<String> {
        self.environment.var(&format!("{}_{name}", self.program.prefix))
    }
}

/// A usage error in one line.
fn first_sentence(error: &clap::Error) -> String {
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return "the command line does not say what to check".to_owned();
    }
    tip::sentence(error)
}

#[cfg(test)]
mod tests {
    use clap::Command;

    use super::*;
    use crate::program::TOOL;

    /// What this command line says, in this environment.
    fn seen<S>(
        program: &Program,
        words: &[&str],
        environment: &Environment,
        see: impl FnOnce(&Early<'_>) -> S,
    ) -> S {
        let line: Vec<OsString> = words.iter().map(OsString::from).collect();
        see(&Early { program, line: &line, environment })
    }

    #[test]
    fn a_panic_exits_70_or_3_under_check() {
        let tree = || Command::new("tool").subcommand(Command::new("check"));
        let (program, none) = (Program { tree, ..TOOL }, Environment::of(&[]));
        let code = |words: &[&str], run: fn() -> Exit| {
            seen(&program, words, &none, |early| early.run(run).code())
        };
        assert_eq!(code(&["tool"], || panic!("a defect")), 70);
        assert_eq!(code(&["tool", "check"], || panic!("a defect")), 3);
        assert_eq!(code(&["tool", "check"], || Exit::Negative), 1);
        assert_eq!(code(&["tool", "check"], || Exit::Usage), 3);
    }

    #[test]
    fn finds_the_command_in_an_invalid_line() {
        let tree = || {
            let addr = clap::Arg::new("addr").short('a').long("addr").global(true);
            let embedded = clap::Arg::new("embedded").long("embedded");
            let embedded = embedded.action(clap::ArgAction::SetTrue);
            let format = clap::Arg::new("output").short('o');
            Command::new("tool").args([addr, embedded, format]).subcommand(Command::new("check"))
        };
        let (program, none) = (Program { tree, ..TOOL }, Environment::of(&[]));
        let is_check = |words: &[&str]| seen(&program, words, &none, |early| early.is_check());
        assert!(is_check(&["tool", "--nope", "-o", "json", "check", "x"]));
        assert!(is_check(&["tool", "-a", "check", "check"]));
        assert!(!is_check(&["tool", "-a", "check", "put", "check"]));
        assert!(!is_check(&["tool", "--embedded", "put", "check"]));
    }

    #[test]
    fn finds_the_json_format_in_an_invalid_line() {
        let (none, json) = (Environment::of(&[]), Environment::of(&[("TOOL_OUTPUT", "json")]));
        for words in [
            &["tool", "-o", "json", "nope"][..],
            &["tool", "nope", "-ojson"],
            &["tool", "nope", "--output=ndjson"],
            &["tool", "nope", "-o=json"],
        ] {
            assert!(seen(&TOOL, words, &none, |early| early.wants_json()), "{words:?}");
        }
        assert!(!seen(&TOOL, &["tool", "-o", "plain"], &none, |early| early.wants_json()));
        assert!(seen(&TOOL, &["tool"], &json, |early| early.wants_json()));
    }

    #[test]
    fn finds_the_log_format_in_an_invalid_line() {
        let (none, json) = (Environment::of(&[]), Environment::of(&[("TOOL_LOG_FORMAT", "json")]));
        let format = |environment: &Environment| {
            seen(&TOOL, &["tool", "nope"], environment, |early| early.log_format())
        };
        assert_eq!((format(&none), format(&json)), (LogFormat::Text, LogFormat::Json));
    }

    #[test]
    fn an_invalid_check_prints_one_line() {
        let server = Command::new("server").arg(clap::Arg::new("NAME").required(true));
        let check = Command::new("check").arg_required_else_help(true).subcommand(server);
        let mut tree = Command::new("tool").subcommand(check);
        let mut said = |words: &[&str]| {
            first_sentence(&tree.try_get_matches_from_mut(words.iter()).unwrap_err())
        };
        assert_eq!(said(&["tool", "check"]), "the command line does not say what to check");
        assert_eq!(
            said(&["tool", "check", "server"]),
            "the following required arguments were not provided: <NAME>"
        );
    }
}
