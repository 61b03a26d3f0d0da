//! `shutdown`: shuts a server down, if it supports that.

use clap::Args;
use ctl_core::error::{CliError, Exit};
use ctl_core::output::Record;
use gearman_client::protocol::AdminCommand;

use crate::error::{UNSUPPORTED, cli_error};
use crate::tool::Tool;

/// The end of `shutdown --help`.
pub const HELP: &str = "\
Protocol: shutdown, shutdown graceful. gearmand has not had this command since 1.1.14, and says so; other servers have
it.
Asks for the server's address as confirmation; --confirm=ADDRESS answers that, --yes is not enough.

Example:
  gearctl shutdown --graceful --confirm=127.0.0.1:4730";

/// Arguments of `shutdown`.
#[derive(Debug, Args)]
pub struct ShutdownArgs {
    /// Let it finish its jobs
    #[arg(long)]
    graceful: bool,
}

/// Runs `shutdown`.
///
/// # Errors
/// As documented in the table of exit codes.
pub fn run(tool: &mut Tool, args: ShutdownArgs) -> Result<Exit, CliError> {
    let address = tool.link.dialer.address()?;
    if address.contains(',') {
        return Err(CliError::usage("shutdown takes one server").hint("-s with one address"));
    }
    let record = Record::new().with("address", address.as_str()).with("graceful", args.graceful);
    if tool.globals.dry_run {
        let record = record.with("dry_run", true);
        let sentence = format!("would shut down {address}");
        return tool.out.done_with(&record, &["address"], &sentence);
    }
    let question = format!("shut down the server {address}");
    tool.confirm().everything(&question, &address, &tool.messages)?;
    let command = AdminCommand::Shutdown { graceful: args.graceful };
    match tool.link.admin(&command).and_then(|reply| reply.ok().map_err(cli_error)) {
        Ok(()) => {}
        Err(error) if error.code == UNSUPPORTED => {
            let message = format!(
                "the server {address} has no shutdown command (gearmand has none since 1.1.14)"
            );
            return Err(CliError::new(error.exit, UNSUPPORTED, message)
                .hint("gearctl pid, to find the process and stop it with SIGTERM"));
        }
        Err(error) => return Err(error),
    }
    let sentence = format!("the server {address} is shutting down");
    tool.out.done_with(&record, &["address"], &sentence)
}
