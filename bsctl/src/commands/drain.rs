//! `drain`: take the jobs of a tube out of the queue into a file or a pipe.

use std::ffi::{OsStr, OsString};

use beanstalk_client::TubeName;
use clap::Args;
use ctl_core::bulk::{Bulk, BulkArgs};
use ctl_core::context::fleet::on_each;
use ctl_core::error::{CliError, Exit};
use ctl_core::input::named::Several;
use ctl_core::output::{Handover, Output, records};

use crate::jobs::JOBS_WITH_BODY;
use crate::jobs::sweep::{Ask, Plan, SweepArgs, Way};
use crate::link::Link;
use crate::names::Tube;
use crate::tool::Tool;

/// The end of `drain --help`.
pub const HELP: &str = "\
Protocol: as clear, with reserve-job for ready jobs selected by filters (server 1.12 or later) and stats-job for each
job's record.
A job is deleted once its record has arrived, as with `pop`, so an interruption, a full disk or a closed pipe loses
nothing: at worst, jobs are both in the file and in the queue. In a file, ready jobs are synced to disk in batches
(--batch), delayed and buried ones one by one. Records have the format of `export`.
Asks for confirmation; --yes skips it. Tubes that the server cannot report on are left alone, as with clear.
Filters: see `bsctl help filters`.

Examples:
  bsctl drain mail --to mail.ndjson --yes
  bsctl drain mail --filter 'body~=newsletter' --yes | jq .body";

/// Arguments of `drain`.
#[derive(Debug, Args)]
pub struct DrainArgs {
    #[command(flatten)]
    tubes: Several<Tube>,

    /// New file to write, or - for stdout
    #[arg(long, value_name = "FILE", default_value = "-")]
    to: OsString,

    #[command(flatten)]
    sweep: SweepArgs,

    #[command(flatten)]
    bulk: BulkArgs,
}

/// Runs `drain`.
///
/// # Errors
/// As documented in the table of exit codes.
pub fn run(tool: &mut Tool, args: DrainArgs) -> Result<Exit, CliError> {
    let tubes = args.tubes.names()?;
    // One file receives the jobs of all servers.
    let mut file = None;
    on_each(tool, |tool| drain(tool, tubes.clone(), (&args.to, &mut file), &args.sweep, &args.bulk))
}

fn drain(
    tool: &mut Tool,
    tubes: Vec<TubeName>,
    (to, file): (&OsString, &mut Option<Output>),
    sweep: &SweepArgs,
    args: &BulkArgs,
) -> Result<Exit, CliError> {
    records::prepare(&mut tool.out, tool.globals.output, to, &JOBS_WITH_BODY)?;
    let plan = Plan::make(tool, tubes, sweep, args, false)?;
    let Some(bulk) = plan.start(tool, ("drain", "drained"), ("", Ask::Jobs), args)? else {
        return Ok(plan.exit(Exit::Done));
    };
    let saved = save(tool, (to, file), bulk, |link, bulk, way| plan.run(link, bulk, way));
    saved.map(|exit| plan.exit(exit))
}

/// Runs a sweep that writes each job as a record before it is deleted, into this new file or to stdout.
///
/// # Errors
/// The file exists or cannot be written; the failure of the sweep.
pub(super) fn save(
    tool: &mut Tool,
    (to, file): (&OsStr, &mut Option<Output>),
    mut bulk: Bulk,
    sweep: impl FnOnce(&mut Link, &mut Bulk, &mut dyn Way) -> Result<(), CliError>,
) -> Result<Exit, CliError> {
    let interrupts = tool.interrupts()?;
    if file.is_none() {
        *file = records::create(to, &tool.out.style)?;
    }
    let out = file.as_mut().unwrap_or(&mut tool.out);
    let list = out.list(&JOBS_WITH_BODY)?;
    bulk.beside(&list);
    let mut leaving = Handover::new(list, interrupts, &tool.messages)?;
    let swept = sweep(tool.link.side(), &mut bulk, &mut leaving);
    let bulk = bulk.after(swept.and_then(|()| leaving.finish(&mut |_| Ok(()))))?;
    drop(leaving);
    bulk.finish_beside(file.as_ref(), &mut tool.out)
}
