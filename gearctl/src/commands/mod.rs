//! One file per command, and the one place that runs them.

pub mod cancel;
pub mod check;
pub mod docs;
pub mod drain;
pub mod function;
pub mod functions;
pub mod job;
pub mod jobs;
pub mod map;
pub mod ping;
pub mod raw;
pub mod run;
pub mod serve;
pub mod server;
pub mod shutdown;
pub mod smoke;
pub mod submit;
pub mod wait;
pub mod watch;
pub mod work;
pub mod workers;

use ctl_core::error::{CliError, Exit};

use crate::cli::Command;
use crate::tool::Tool;

/// Runs one command.
///
/// # Errors
/// Why the command did not do what was asked.
pub fn dispatch(tool: &mut Tool, command: Command) -> Result<Exit, CliError> {
    let style = tool.out.style.clone();
    let reads_only = reads_only(&command);
    let result = execute(tool, command).and_then(|exit| tool.out.flush().map(|()| exit));
    tool.out.style = style;
    match result {
        Err(error) if error.is_broken_pipe() && reads_only => Ok(Exit::Done),
        other => other,
    }
}

fn execute(tool: &mut Tool, command: Command) -> Result<Exit, CliError> {
    match command {
        Command::Run(args) => run::run(tool, args),
        Command::Map(args) => map::run(tool, args),
        Command::Submit(args) => submit::run(tool, args),
        Command::Work(args) => work::run(tool, args),
        Command::Job(args) => job::run(tool, args),
        Command::Jobs(args) => jobs::run(tool, args),
        Command::UniqueJobs(args) => jobs::run_unique(tool, args),
        Command::Drain(args) => drain::run(tool, args),
        Command::Cancel(args) => cancel::run(tool, args),
        Command::Functions(args) => functions::run(tool, args),
        Command::Function(args) => function::run(tool, args),
        Command::Workers(args) => workers::run(tool, args),
        Command::Smoke(args) => smoke::run(tool, args),
        Command::Check(args) => check::run(tool, args),
        Command::Wait(args) => wait::run(tool, args),
        Command::Watch(args) => watch::run(tool, args),
        Command::Ping(args) => ping::run(tool, args),
        Command::Server(args) => server::run(tool, args),
        Command::Version(args) => server::version(tool, args),
        Command::Pid(args) => server::pid(tool, args),
        Command::Verbose(args) => server::verbose(tool, args),
        Command::Shutdown(args) => shutdown::run(tool, args),
        Command::Repl(args) => crate::repl::run(tool, args),
        Command::Raw(args) => raw::run(tool, args),
        Command::Serve(args) => serve::run(tool, args),
        Command::Completions(args) => docs::completions(tool, args),
        Command::Man(args) => docs::man(tool, args),
        Command::Docs(args) => docs::readme(tool, args),
    }
}

/// Whether the command leaves server and files as they are: a reader who goes away ends it quietly.
#[must_use]
pub fn reads_only(command: &Command) -> bool {
    matches!(
        command,
        Command::Job(_)
            | Command::Jobs(_)
            | Command::UniqueJobs(_)
            | Command::Functions(_)
            | Command::Workers(_)
            | Command::Check(_)
            | Command::Wait(_)
            | Command::Ping(_)
            | Command::Watch(_)
            | Command::Server(_)
            | Command::Version(_)
            | Command::Pid(_)
            | Command::Verbose(_)
            | Command::Completions(_)
            | Command::Docs(_)
    ) || matches!(command, Command::Man(args) if !args.writes())
}
