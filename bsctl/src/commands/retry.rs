//! `retry`: bring the buried jobs of a tube back.

use clap::Args;
use ctl_core::bulk::BulkArgs;
use ctl_core::error::{CliError, Exit};
use ctl_core::input::named::One;

use super::kick::{self, KickArgs};
use crate::jobs::select::{SelectArgs, filter_help};
use crate::names::Tube;
use crate::tool::Tool;

/// The end of `retry --help`.
pub const HELP: &str = concat!(
    "\
Protocol: same as `kick -t TUBE --state buried --all`.
Jobs keep their ids, and their counter `kicks` grows by one. Asks for confirmation if there are many jobs; --yes skips
it.
With several servers, each is processed in turn and named in the output; the exit code is the most severe one.
",
    filter_help!(),
    "

Examples:
  bsctl retry mail
  bsctl retry mail --filter 'body~=timeout' --filter 'buries<3' --rate 10/s"
);

/// Arguments of `retry`.
#[derive(Debug, Args)]
pub struct RetryArgs {
    #[command(flatten)]
    tube: One<Tube>,

    #[command(flatten)]
    select: SelectArgs,

    #[command(flatten)]
    bulk: BulkArgs,
}

/// Runs `retry`.
///
/// # Errors
/// As documented in the table of exit codes.
pub fn run(tool: &mut Tool, args: RetryArgs) -> Result<Exit, CliError> {
    args.tube.name()?;
    kick::run(tool, KickArgs::buried(args.tube, args.select, args.bulk))
}
