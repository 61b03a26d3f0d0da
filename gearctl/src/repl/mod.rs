//! `repl`: an interactive or scripted session.

mod grammar;
mod guest;
mod prompt;
mod state;
mod values;

use clap::Args;
use ctl_core::error::{CliError, Exit};
use ctl_core::repl::start::{SessionArgs, Start};

use self::state::State;
use self::values::Names;
use crate::tool::{Session, Tool};

/// The end of `repl --help`.
pub const HELP: &str = "\
The commands are those of the command line, on connections that last. Type help in it.

A script (stdin, -f, -e) stops at the first error with that error's exit code. # starts a comment, <<END takes the
lines up to END as a workload, `expect 'workers>=1' functions mail` fails with exit 1 unless it is so.

Examples:
  gearctl repl
  gearctl repl -e 'submit mail \"a letter\"' -e 'functions'
  gearctl -s one:4730,two:4730 repl -f test.script";

/// Arguments of `repl`.
#[derive(Debug, Default, Args)]
pub struct ReplArgs {
    #[command(flatten)]
    session: SessionArgs,
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
    tool.session = Some(Session::default());
    tool.set_interrupts(start.interrupts());
    tool.out = start.output(tool.out.style.clone());
    tool.input = start.input();
    let person = start.person();
    let names = if person { Names::live(tool.link.sibling()) } else { Names::default() };
    let (exit, _) = start.run(guest::kit(), State::new(tool, person, names))?;
    Ok(exit)
}
