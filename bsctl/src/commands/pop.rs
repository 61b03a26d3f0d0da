//! `pop`: take jobs for good. A job is deleted only after its output has been written.

use clap::Args;
use ctl_core::bulk::{Action, OnError};
use ctl_core::error::{CliError, Exit};

use super::reserve::TakeArgs;
use crate::jobs::BODIES;
use crate::leaving::Leaving;
use crate::taker::Taker;
use crate::tool::Tool;

/// The end of `pop --help`.
pub const HELP: &str = "\
Protocol: watch TUBE, ignore default, reserve-with-timeout, delete.
A job is deleted when its output has arrived: in a file when it is on the disk, in a pipe when its reader has
read it, elsewhere when it is written and the reader is still there. If the output cannot be written, the
connection is closed and the jobs go back to the queue (exit 74). Into anything but a file one job goes at a time, so
that a reader that goes away leaves the others in the queue; the one that it read last is named. A job that its reader
leaves unread is waited for, and a note says so after 10 s; only the last of -c jobs is deleted then, read or not.
Only on Linux can it be seen what the reader of a pipe has read.
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
const WINDOW: usize = 100;

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
    let known = Some(args.take.count);
    let mut bulk = tool.bulk(action, OnError::Continue, known)?;
    let list = tool.out.list(&BODIES)?;
    bulk.beside(&list);
    let mut leaving = Leaving::new(list, interrupts.clone(), &tool.messages)?;
    let link = tool.link.side();
    let mut taken = 0;
    while taken < args.take.count && bulk.gate().is_open() {
        let left = usize::try_from(args.take.count - taken).unwrap_or(usize::MAX);
        let jobs = taker.next(link, leaving.window(left.min(WINDOW)), &[])?;
        if jobs.is_empty() {
            break;
        }
        taken += jobs.len() as u64;
        if taken == args.take.count {
            return match leaving.take_last(link, &jobs, &mut bulk) {
                Ok(()) => bulk.finish_quietly(),
                Err(error) => Err(bulk.abort(error)),
            };
        }
        if let Err(error) = leaving.take(link, &jobs, &mut bulk) {
            return Err(bulk.abort(error));
        }
    }
    if taken == 0 {
        interrupts.check()?;
        return Err(args.take.nothing());
    }
    if let Err(error) = leaving.finish() {
        return Err(bulk.abort(error));
    }
    bulk.finish_quietly()
}
