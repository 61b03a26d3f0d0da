//! `pop`: take jobs for good. A job is deleted only after its output has been written.

use clap::Args;
use ctl_core::bulk::{Action, Bulk, OnError};
use ctl_core::error::{CliError, Exit};

use super::reserve::TakeArgs;
use crate::jobs::{self, BODIES};
use crate::taker::{Taker, delete_all, stats_of};
use crate::tool::Tool;

/// The end of `pop --help`.
pub const HELP: &str = "\
Protocol: watch TUBE, ignore default, reserve-with-timeout, delete.
The job is written and flushed first and deleted afterwards: if the output cannot be written, the
connection is closed and the job goes back to the queue (exit 74).
Without --wait only what is ready now is taken; nothing there is exit 1. A --wait that runs out is exit 124.

Examples:
  bsctl pop -t mail -o raw > letter
  bsctl pop -t files -c 100 -0 | xargs -0 rm --
  bsctl pop -t mail --wait 1m -o ndjson";

/// Arguments of `pop`.
#[derive(Debug, Args)]
pub struct PopArgs {
    #[command(flatten)]
    take: TakeArgs,
}

/// Jobs that are held at once: the server's cost grows with them.
const WINDOW: u64 = 100;

/// Runs `pop`.
///
/// # Errors
/// As documented in the table of exit codes.
pub fn run(tool: &mut Tool, args: PopArgs) -> Result<Exit, CliError> {
    if tool.globals.dry_run {
        return Err(CliError::usage("pop has no dry run").hint("bsctl peek --ready looks only"));
    }
    let interrupts = tool.interrupts()?;
    args.take.prepare(tool)?;
    let taker = Taker::new(args.take.wait, interrupts.clone(), &tool.messages);
    let action = Action { past: "took", noun: "job", place: String::new() };
    let progress = tool.globals.progress.unwrap_or_default();
    let known = Some(args.take.count);
    let mut bulk =
        Bulk::start(action, OnError::Continue, known, progress, interrupts.clone(), &tool.messages);
    let mut list = tool.out.list(&BODIES)?;
    let streams = list.streams();
    let link = tool.link.side();
    // Written, but not yet deleted: all of them when the format is one document.
    let mut held = Vec::new();
    let mut taken = 0;
    while taken < args.take.count && bulk.gate().is_open() {
        let most = usize::try_from((args.take.count - taken).min(WINDOW)).unwrap_or(1);
        let jobs = taker.next(link, most, &held)?;
        if jobs.is_empty() {
            break;
        }
        taken += jobs.len() as u64;
        let stats = stats_of(link, &jobs)?;
        for (job, stats) in jobs.iter().zip(&stats) {
            list.push(jobs::record_with_body(job.id, stats.as_ref(), &job.body))?;
        }
        held.extend(jobs);
        if streams {
            list.flush()?;
            if let Err(error) = delete_all(link, &held, &mut bulk) {
                return Err(bulk.abort(error));
            }
            held.clear();
        }
    }
    if taken == 0 {
        interrupts.check()?;
        return Err(args.take.nothing());
    }
    list.finish()?;
    if let Err(error) = delete_all(link, &held, &mut bulk) {
        return Err(bulk.abort(error));
    }
    bulk.finish_quietly()
}
