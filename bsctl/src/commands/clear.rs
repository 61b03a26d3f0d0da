//! `clear`: delete the jobs of a tube.

use std::ffi::OsString;

use beanstalk_client::protocol::ListTubes;
use clap::Args;
use ctl_core::bulk::BulkArgs;
use ctl_core::context::fleet::on_each;
use ctl_core::error::{CliError, Exit};
use ctl_core::input::named::{self, Several};
use ctl_core::output::{Output, records};

use super::drain::save;
use crate::jobs::JOBS_WITH_BODY;
use crate::jobs::sweep::{Ask, Nowhere, Plan, SweepArgs};
use crate::names::Tube;
use crate::tool::Tool;

/// The end of `clear --help`.
pub const HELP: &str = "\
Protocol: reserve-with-timeout 0 and delete for ready jobs, pipelined; peek-delayed or peek-buried and delete for the
others; with filters, stats-job (and peek) for every id, and delete. beanstalkd has no command to clear a tube.
Deletes as many jobs as there were at the start, so that a busy producer cannot keep it running forever; --until-empty
continues until there are none. Reserved jobs belong to their workers and stay.
With --backup, the jobs are taken as drain takes them: each is deleted only once its record is on disk.
Asks for confirmation; --yes skips it. --all-tubes requires --confirm=ADDRESS and a single server.
Tubes that the server cannot report on (names over 195 bytes, before 1.11) are reported and skipped; the exit code is
then 3.
Filters: see `bsctl help filters`.

Examples:
  bsctl clear mail --backup mail.ndjson --yes
  bsctl clear mail --state buried --filter 'age>7d' --dry-run";

/// Arguments of `clear`.
#[derive(Debug, Args)]
pub struct ClearArgs {
    #[command(flatten)]
    tubes: Several<Tube>,

    #[command(flatten)]
    sweep: SweepArgs,

    /// Every tube on the server
    #[arg(long, conflicts_with = named::NAMES)]
    all_tubes: bool,

    /// Write the jobs into this new file first, as records for import
    #[arg(long, value_name = "FILE")]
    backup: Option<OsString>,

    #[command(flatten)]
    bulk: BulkArgs,
}

/// Runs `clear`.
///
/// # Errors
/// As documented in the table of exit codes.
pub fn run(tool: &mut Tool, args: ClearArgs) -> Result<Exit, CliError> {
    if args.all_tubes {
        // The user confirms by typing the address of the one server that is emptied.
        return clear(tool, &args, &mut None);
    }
    // One file receives the jobs of all servers.
    let mut file = None;
    on_each(tool, |tool| clear(tool, &args, &mut file))
}

fn clear(tool: &mut Tool, args: &ClearArgs, file: &mut Option<Output>) -> Result<Exit, CliError> {
    if let Some(to) = &args.backup {
        records::prepare(&mut tool.out, tool.globals.output, to, &JOBS_WITH_BODY)?;
    }
    let tubes = if args.all_tubes { tool.link.call(ListTubes)? } else { args.tubes.names()? };
    let plan = Plan::make(tool, tubes, &args.sweep, &args.bulk, false)?;
    let ask = if args.all_tubes { Ask::Address } else { Ask::Jobs };
    let started = plan.start(tool, ("delete", "deleted"), ("", ask), &args.bulk)?;
    let Some(mut bulk) = started else { return Ok(plan.exit(Exit::Done)) };
    if let Some(to) = &args.backup {
        let saved = save(tool, (to, file), bulk, |link, bulk, way| plan.run(link, bulk, way));
        return saved.map(|exit| plan.exit(exit));
    }
    let swept = plan.run(tool.link.side(), &mut bulk, &mut Nowhere);
    bulk.after(swept)?.finish(&mut tool.out).map(|exit| plan.exit(exit))
}
