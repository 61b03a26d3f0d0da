//! One file per command, and the one place that runs them.

pub mod check;
pub mod clear;
pub mod delete;
pub mod docs;
pub mod drain;
pub mod export;
pub mod finish;
pub mod import;
pub mod job;
pub mod jobs;
pub mod kick;
pub mod pause;
pub mod peek;
pub mod ping;
pub mod pop;
pub mod put;
pub mod raw;
pub mod reserve;
pub mod serve;
pub mod server;
pub mod smoke;
pub mod stats;
pub mod tubes;
pub mod wait;
pub mod watch;
pub mod work;

use ctl_core::error::{CliError, Exit};

use crate::cli::Command;
use crate::tool::Tool;

/// Runs one command. In a session, used tube and watch list are afterwards what they were before.
///
/// # Errors
/// Why the command did not do what was asked.
pub fn dispatch(tool: &mut Tool, command: Command) -> Result<Exit, CliError> {
    let place = if tool.session.is_some() { tool.link.place() } else { None };
    let style = tool.out.style.clone();
    let reads_only = reads_only(&command);
    let result = run(tool, command).and_then(|exit| tool.out.flush().map(|()| exit));
    tool.out.style = style;
    tool.link.close_side();
    if let Some(place) = place.filter(|_| tool.link.is_connected()) {
        // A lost connection is reported by the next command that needs it.
        let _ = tool.link.restore(&place);
    }
    match result {
        Err(error) if error.is_broken_pipe() && reads_only => Ok(Exit::Done),
        other => other,
    }
}

fn run(tool: &mut Tool, command: Command) -> Result<Exit, CliError> {
    match command {
        Command::Put(args) => put::run(tool, args),
        Command::Reserve(args) => reserve::run(tool, args),
        Command::Pop(args) => pop::run(tool, args),
        Command::Work(args) => work::run(tool, *args),
        Command::Peek(args) => peek::run(tool, args),
        Command::Jobs(args) => jobs::run(tool, args),
        Command::Job(args) => job::run(tool, args),
        Command::Tubes(args) => tubes::run(tool, args),
        Command::Stats(args) => stats::run(tool, args),
        Command::StatsTube(args) => stats::run_tube(tool, args),
        Command::Server(args) => server::run(tool, args),
        Command::Delete(args) => delete::run(tool, args),
        Command::Kick(args) => kick::run(tool, args),
        Command::Bury(args) => finish::bury(tool, args),
        Command::Release(args) => finish::release(tool, args),
        Command::Touch(args) => finish::touch(tool, args),
        Command::Pause(args) => pause::pause(tool, args),
        Command::Resume(args) => pause::resume(tool, args),
        Command::Clear(args) => clear::run(tool, args),
        Command::Drain(args) => drain::run(tool, args),
        Command::Export(args) => export::run(tool, args),
        Command::Import(args) => import::run(tool, args),
        Command::Smoke(args) => smoke::run(tool, args),
        Command::Check(args) => check::run(tool, args),
        Command::Wait(args) => wait::run(tool, args),
        Command::Ping(args) => ping::run(tool, args),
        Command::Watch(args) => watch::run(tool, args),
        Command::Repl(args) => crate::repl::run(tool, args),
        Command::Raw(args) => raw::run(tool, args),
        Command::Serve(args) => serve::run(tool, args),
        Command::Completions(args) => docs::completions(tool, args),
        Command::Man(args) => docs::man(tool, args),
        Command::Docs(args) => docs::readme(tool, args),
    }
}

/// Whether the command leaves server and files as they are: a reader who goes away ends it quietly, and
/// `watch` may repeat it.
#[must_use]
pub fn reads_only(command: &Command) -> bool {
    matches!(
        command,
        Command::Peek(_)
            | Command::Jobs(_)
            | Command::Job(_)
            | Command::Tubes(_)
            | Command::Stats(_)
            | Command::StatsTube(_)
            | Command::Server(_)
            | Command::Check(_)
            | Command::Wait(_)
            | Command::Ping(_)
            | Command::Watch(_)
            | Command::Completions(_)
            | Command::Docs(_)
    ) || matches!(command, Command::Export(args) if !args.drains())
        || matches!(command, Command::Man(args) if !args.writes())
}
