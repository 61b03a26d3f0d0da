//! One file per command, and the one place that runs them.

pub mod delete;
pub mod peek;
pub mod ping;
pub mod pop;
pub mod put;
pub mod reserve;

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
        Command::Peek(args) => peek::run(tool, args),
        Command::Delete(args) => delete::run(tool, args),
        Command::Ping(args) => ping::run(tool, args),
        Command::Repl(args) => crate::repl::run(tool, args),
    }
}

/// Whether the command leaves server and files as they are: a reader who goes away ends it quietly.
fn reads_only(command: &Command) -> bool {
    matches!(command, Command::Peek(_) | Command::Ping(_))
}
