//! `bsctl`, the beanstalkd tool, as a library: the grammar, the commands, and what they share.

pub mod cli;
pub mod commands;
pub mod error;
pub mod hidden;
pub mod jobs;
pub mod leaving;
pub mod link;
pub mod names;
pub mod producer;
pub mod repl;
pub mod scan;
pub mod seen;
pub mod sweep;
pub mod taker;
pub mod tool;
pub mod tube_stats;
pub mod work;

use std::ffi::OsString;

use ctl_core::config::Environment;
use ctl_core::error::Exit;

use crate::cli::PROGRAM;
use crate::tool::Tool;

/// Runs a whole command line, as the program does; the first word is the program's name.
pub fn main_with(line: impl IntoIterator<Item = OsString>) -> Exit {
    let line: Vec<OsString> = line.into_iter().collect();
    PROGRAM.run(&line, || run(&line))
}

fn run(line: &[OsString]) -> Exit {
    let environment = Environment::process();
    let cli = match cli::parse(line) {
        Ok(cli) => cli,
        Err(error) => return PROGRAM.grammar_error(&error, line, &environment),
    };
    let Some(command) = cli.command else { return PROGRAM.without_command(line, &environment) };
    let cli = cli::Cli { command: None, ..cli };
    let mut tool = match Tool::new(&cli, environment.clone()) {
        Ok(tool) => tool,
        Err(error) => return PROGRAM.early_failure(&error, line, &environment),
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
