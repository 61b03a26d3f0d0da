//! `clear`: removes the queued jobs of functions, as a worker that discards them.

use std::ffi::OsString;

use clap::Args;
use ctl_core::error::{CliError, Exit};
use ctl_core::input::named::Several;

use super::{DrainArgs, EndArgs, Removal, TakeArgs, remove};
use crate::names::Function;
use crate::tool::Tool;

/// The end of `clear --help`.
pub const HELP: &str = "\
Protocol: as drain.
No server has a command to empty a function (`function drop` leaves its jobs behind), so clear acts as a worker that
discards its jobs. Nothing is written, unless --backup makes it drain --to FILE.
While clients wait for the results of jobs, nothing is removed, unless --as fail tells them that their jobs failed, or
--background-only skips such jobs, as with drain. With filters, other jobs are given back, as with drain.
Removes as many jobs as are queued at the start; --until-empty continues until there are none. Running jobs and jobs
scheduled for later stay. Asks for confirmation; --yes skips it.

Examples:
  gearctl clear mail --filter 'unique==order-7' --yes
  gearctl clear mail --backup mail.ndjson --yes";

/// Arguments of `clear`.
#[derive(Debug, Args)]
pub struct ClearArgs {
    #[command(flatten)]
    functions: Several<Function>,

    /// Write the jobs into this new file first, as records for import
    #[arg(long, value_name = "FILE")]
    backup: Option<OsString>,

    #[command(flatten)]
    end: EndArgs,

    #[command(flatten)]
    take: TakeArgs,
}

/// Runs `clear`.
///
/// # Errors
/// As documented in the table of exit codes.
pub fn run(tool: &mut Tool, args: ClearArgs) -> Result<Exit, CliError> {
    if let Some(to) = args.backup {
        let ClearArgs { functions, end, take, .. } = args;
        return super::run(tool, DrainArgs { functions, to, end, take });
    }
    let what = Removal::of("delete", "deleted", args.functions.names()?);
    remove(tool, what, (args.end, &args.take), None, |_| Ok(None))
}
