//! `repl`: an interactive or scripted session.

mod grammar;
mod guest;
mod jobs;
mod leave;
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
The commands are those of the command line, and some that need a session: start, fg, :jobs, attach. Type help in it.
Ctrl-C during run leaves the job to itself: fg brings it back. Foreground jobs need their client: leaving the session
asks what becomes of them.

A script (stdin, -f, -e) stops at the first error with that error's exit code. # starts a comment, <<END takes the
lines up to END as a workload, `expect 'workers>=1' functions mail` fails with exit 1 unless it is so, ${NAME} is what
--var says. For a person, results that are higher than the screen go to the pager, and \\e opens the editor. !CMD runs a
line of the shell, :watch repeats a command.

Examples:
  gearctl repl
  gearctl repl -e 'submit mail \"a letter\"' -e 'functions'
  gearctl -s one:4730,two:4730 repl -f test.script --var function=mail";

/// Arguments of `repl`.
#[derive(Debug, Default, Args)]
pub struct ReplArgs {
    #[command(flatten)]
    session: SessionArgs,

    /// Exit 1 when a script ends while foreground jobs are under way
    #[arg(long)]
    strict_jobs: bool,
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
    let (exit, left_behind) = start.run(guest::kit(), State::new(tool, person, names))?;
    let strict = args.strict_jobs && left_behind && exit.is_done();
    Ok(if strict { Exit::Negative } else { exit })
}
