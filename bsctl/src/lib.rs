//! `bsctl`, the beanstalkd tool, as a library: the grammar, the commands, and what they share.

pub mod cli;
pub mod commands;
pub mod error;
pub mod jobs;
pub mod link;
pub mod names;
pub mod producer;
pub mod repl;
pub mod scan;
pub mod sweep;
pub mod taker;
pub mod tool;
pub mod work;

use std::ffi::OsString;
use std::io::{IsTerminal, Write};
use std::panic::{self, AssertUnwindSafe};

use clap::error::ErrorKind;
use ctl_core::config::{Environment, word};
use ctl_core::error::{CliError, Exit};
use ctl_core::messages::Messages;
use ctl_core::output::Format;
use ctl_core::thresholds::Verdict;

use crate::tool::{PREFIX, Tool};

/// Runs a whole command line, as the program does; the first word is the program's name.
pub fn main_with(line: impl IntoIterator<Item = OsString>) -> Exit {
    let line: Vec<OsString> = line.into_iter().collect();
    let exit = guarded(|| run(&line));
    // A monitoring system would take 1 and 2 for verdicts.
    if (exit.code() > 3 || exit == Exit::Usage) && is_check(&line) {
        return Verdict::Unknown.exit();
    }
    exit
}

/// A panic is exit 70; the panic hook has said what happened.
fn guarded(run: impl FnOnce() -> Exit) -> Exit {
    panic::catch_unwind(AssertUnwindSafe(run)).unwrap_or(Exit::Internal)
}

fn run(line: &[OsString]) -> Exit {
    let environment = Environment::process();
    let cli = match cli::parse(line) {
        Ok(cli) => cli,
        Err(error) => return grammar_error(&error, line, &environment),
    };
    let Some(command) = cli.command else { return without_command(line, &environment) };
    let cli = cli::Cli { command: None, ..cli };
    let mut tool = match Tool::new(&cli, environment.clone()) {
        Ok(tool) => tool,
        Err(error) => return early_failure(&error, line, &environment),
    };
    let result = commands::dispatch(&mut tool, command);
    let json = tool.out.style.format.is_json();
    match result {
        Ok(exit) => exit,
        Err(error) => {
            tool.messages.failure(&error, json);
            error.exit
        }
    }
}

/// No command: short help for a person, a usage error for a script.
fn without_command(line: &[OsString], environment: &Environment) -> Exit {
    if std::io::stdin().is_terminal() && std::io::stdout().is_terminal() {
        let _ = std::io::stdout().write_all(cli::short_help().as_bytes());
        return Exit::Done;
    }
    let error = CliError::usage("no command given").hint("bsctl --help").hint("bsctl repl");
    early_failure(&error, line, environment)
}

/// What clap says: help and version are results, everything else is exit 2.
fn grammar_error(error: &clap::Error, line: &[OsString], environment: &Environment) -> Exit {
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        // The same line again, now with everything that help shows. A reader who goes away has seen enough.
        let _ = match cli::documented_tree().try_get_matches_from(line) {
            Err(help) => help.print(),
            Ok(_) => error.print(),
        };
        return Exit::Done;
    }
    if is_check(line) {
        let text = error.render().to_string();
        let why = text.lines().next().unwrap_or_default();
        let why = why.strip_prefix("error: ").unwrap_or(why);
        let _ = writeln!(std::io::stdout(), "{}", commands::check::unknown(why));
    }
    if !wants_json(line, environment) {
        let _ = error.print();
        return Exit::Usage;
    }
    let text = error.render().to_string();
    let message = text.strip_prefix("error: ").unwrap_or(&text).trim();
    early_failure(&CliError::usage(message), line, environment)
}

/// A failure before flags could be applied.
fn early_failure(error: &CliError, line: &[OsString], environment: &Environment) -> Exit {
    let stderr = std::io::stderr();
    let terminal = stderr.is_terminal();
    let color = ctl_core::color::ColorWhen::Auto.decide(|name| environment.var(name), terminal);
    let messages = Messages::to(Box::new(stderr), "bsctl", color, terminal);
    messages.failure(error, wants_json(line, environment));
    error.exit
}

/// Whether the command is `check`, also when the line is wrong otherwise.
fn is_check(line: &[OsString]) -> bool {
    if !line.iter().any(|word| word == "check") {
        return false;
    }
    let tree = cli::command_tree();
    let takes_value = |flag: &str| {
        tree.get_arguments().filter(|arg| arg.get_action().takes_values()).any(|arg| {
            let long = arg.get_long().is_some_and(|long| flag == format!("--{long}"));
            long || arg.get_short().is_some_and(|short| flag == format!("-{short}"))
        })
    };
    let mut words = line.iter().skip(1).map(|word| word.to_string_lossy());
    // The first word that is neither a flag nor a flag's value is the command.
    while let Some(word) = words.next() {
        if !word.starts_with('-') {
            return word == "check";
        }
        if takes_value(&word) {
            words.next();
        }
    }
    false
}

/// Whether the command line or the environment asks for a JSON format, also when the line is wrong otherwise.
fn wants_json(line: &[OsString], environment: &Environment) -> bool {
    let texts: Vec<_> = line.iter().map(|text| text.to_string_lossy()).collect();
    let flag = texts.iter().enumerate().rev().find_map(|(at, text)| {
        if text == "-o" || text == "--output" {
            return texts.get(at + 1).map(ToString::to_string);
        }
        let rest = text.strip_prefix("--output=").or_else(|| text.strip_prefix("-o"))?;
        Some(rest.trim_start_matches('=').to_owned())
    });
    let chosen = flag.or_else(|| environment.var(&format!("{PREFIX}_OUTPUT")));
    chosen.is_some_and(|text| word::<Format>(&text).is_ok_and(Format::is_json))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_is_found_in_a_wrong_line_too() {
        let line = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
        assert!(is_check(&line(&["bsctl", "--nope", "-o", "json", "check", "x"])));
        assert!(is_check(&line(&["bsctl", "-a", "check", "check"])));
        assert!(!is_check(&line(&["bsctl", "-a", "check", "put", "check"])));
        assert!(!is_check(&line(&["bsctl", "--embedded", "put", "check"])));
    }

    #[test]
    fn a_panic_is_70() {
        assert_eq!(guarded(|| panic!("a defect")).code(), 70);
        assert_eq!(guarded(|| Exit::Negative).code(), 1);
    }

    #[test]
    fn a_json_format_is_seen_in_a_wrong_line_too() {
        let none = Environment::of(&[]);
        let line = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
        for words in [
            &["bsctl", "-o", "json", "nope"][..],
            &["bsctl", "nope", "-ojson"],
            &["bsctl", "nope", "--output=ndjson"],
            &["bsctl", "nope", "-o=json"],
        ] {
            assert!(wants_json(&line(words), &none), "{words:?}");
        }
        assert!(!wants_json(&line(&["bsctl", "-o", "plain"]), &none));
        assert!(wants_json(&line(&["bsctl"]), &Environment::of(&[("BSCTL_OUTPUT", "json")])));
    }
}
