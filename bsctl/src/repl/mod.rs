//! `repl`: an interactive or scripted session on one lasting connection.

mod grammar;
mod guest;
mod held;
mod jobs;
mod leave;
mod prompt;
mod state;
mod tubes;
mod values;

use clap::Args;
use ctl_core::error::{CliError, Exit};
use ctl_core::repl::start::{SessionArgs, Start};

use self::state::State;
use self::values::Names;
use crate::tool::Tool;

/// The end of `repl --help`.
pub const HELP: &str = "\
The commands are those of the command line, on one connection, and the verbs of the protocol that need one:
use, watch, ignore, reserve, touch. Type help in it.
Reserved jobs are yours until you finish them or leave; on leaving you are asked what becomes of them.

A script (stdin, -f, -e) stops at the first error with that error's exit code. # starts a comment, <<END takes the
lines up to END as a body, `expect 'ready==3' stats-tube mail` fails with exit 1 unless it is so, ${NAME} is what --var
says. For a person, results that are higher than the screen go to the pager, and \\e opens the editor. !CMD runs a line of
the shell, :watch repeats a command.

Examples:
  bsctl repl
  bsctl repl -e 'use mail' -e 'put \"x\"'
  bsctl --embedded repl -f test.script --var tube=mail";

/// Arguments of `repl`.
#[derive(Debug, Args)]
pub struct ReplArgs {
    #[command(flatten)]
    session: SessionArgs,

    /// Exit 1 when a script ends while it holds reserved jobs
    #[arg(long)]
    strict_reserved: bool,
}

/// Runs `repl`.
///
/// # Errors
/// The terminal or the script cannot be read; a script's errors are reported here, and only their exit
/// code is returned.
pub fn run(tool: &mut Tool, args: ReplArgs) -> Result<Exit, CliError> {
    if tool.session.is_some() {
        return Err(CliError::usage("this is a session already"));
    }
    let start = Start::new(args.session)?;
    tool.session = Some(crate::tool::Session::default());
    tool.set_interrupts(start.interrupts());
    tool.link.enter_session();
    tool.out = start.output(tool.out.style.clone());
    tool.input = start.input();
    let person = start.person();
    let names = if person { Names::live(tool.link.sibling()) } else { Names::default() };
    let (exit, left_behind) = start.run(guest::kit(), State::new(tool, person, names))?;
    let strict = args.strict_reserved && left_behind && exit.is_done();
    Ok(if strict { Exit::Negative } else { exit })
}
