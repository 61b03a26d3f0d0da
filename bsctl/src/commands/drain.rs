//! `drain`: take the jobs of a tube out of the queue into a file or a pipe.

use std::ffi::OsString;

use beanstalk_client::{JobRef, TubeName};
use clap::Args;
use ctl_core::bulk::{Action, Bulk, BulkArgs};
use ctl_core::error::{CliError, Exit};
use ctl_core::named::Several;
use ctl_core::output::Handover;
use ctl_core::records;

use super::clear::{SweepArgs, dry_run, limited_total, place, plan};
use crate::jobs::JOBS_WITH_BODY;
use crate::link::Link;
use crate::names::Tube;
use crate::sweep::{Target, describe, sweep};
use crate::tool::Tool;

/// The end of `drain --help`.
pub const HELP: &str = "\
Protocol: as clear, with stats-job for each job's record.
A job is deleted when its record has arrived, as `pop` does, so that an interruption, a full disk or a closed pipe
loses nothing: at worst jobs are in the file and still in the queue. In a file, ready jobs are brought onto the disk
in batches (--batch), delayed and buried ones one by one. Records are those of `export`.
It asks first; --yes answers. Tubes that the server cannot be asked about stay as they are, as with clear.

Examples:
  bsctl drain mail --to mail.ndjson --yes
  bsctl drain mail --state buried --yes | jq .body";

/// Arguments of `drain`.
#[derive(Debug, Args)]
pub struct DrainArgs {
    #[command(flatten)]
    tubes: Several<Tube>,

    /// A new file, or - for stdout
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
    drain(tool, &args.tubes.names()?, &args.to, &args.sweep, &args.bulk)
}

/// Takes jobs out of the queue.
///
/// # Errors
/// As documented in the table of exit codes.
pub fn drain(
    tool: &mut Tool,
    tubes: &[TubeName],
    to: &OsString,
    sweep_args: &SweepArgs,
    bulk_args: &BulkArgs,
) -> Result<Exit, CliError> {
    records::prepare(tool, to)?;
    let targets = plan(tool, tubes, sweep_args)?;
    let total = limited_total(&targets.found, bulk_args);
    if tool.globals.dry_run {
        return dry_run(tool, "drain", &targets, total);
    }
    let address = tool.link.dialer.address()?;
    if total > 0 || sweep_args.until_empty {
        let question = format!("take {} on {address} out of the queue", describe(&targets.found));
        tool.confirm().many(&question, &tool.messages)?;
    }
    let interrupts = tool.interrupts()?;
    let action = Action { past: "drained", noun: "job", place: place(tubes) };
    let mut bulk = tool.bulk(action, bulk_args, Some(total))?;
    let mut file = records::create(to, &tool.out.style)?;
    let out = file.as_mut().unwrap_or(&mut tool.out);
    let list = out.list(&JOBS_WITH_BODY)?;
    bulk.beside(&list);
    let mut leaving = Handover::new(list, interrupts, &tool.messages)?;
    let link = tool.link.side();
    let swept = sweep_all(link, &targets.found, sweep_args, bulk_args, &mut bulk, &mut leaving);
    let bulk = bulk.after(swept.and_then(|()| leaving.finish(&mut |_| Ok(()))))?;
    let exit = bulk.finish_beside(file.as_ref(), &mut tool.out);
    exit.map(|exit| targets.exit(exit))
}

fn sweep_all(
    link: &mut Link,
    targets: &[Target],
    args: &SweepArgs,
    bulk_args: &BulkArgs,
    bulk: &mut Bulk,
    leaving: &mut Handover<'_, JobRef>,
) -> Result<(), CliError> {
    let mut left = bulk_args.limit.unwrap_or(u64::MAX);
    for target in targets {
        let done = bulk.succeeded();
        let most = if args.until_empty { left } else { target.count.min(left) };
        sweep(link, target, most, bulk_args.window(), bulk, Some(leaving))?;
        left = left.saturating_sub(bulk.succeeded() - done);
    }
    Ok(())
}
