//! `pop`: take jobs for good. A job is deleted only after its output has been written.

use ctl_core::commands::leaving;
use ctl_core::error::{CliError, Exit};

use super::reserve::TakeArgs;
use crate::jobs::BODIES;
use crate::jobs::leaving::hand_over;
use crate::jobs::taker::Taker;
use crate::link::Link;
use crate::tool::Tool;

/// The end of `pop --help`.
pub const HELP: &str = "\
Protocol: watch TUBE, ignore default, reserve-with-timeout, delete.
A job is deleted once its output has arrived: in a file, when it is on disk; in a pipe, when the reader has read it;
elsewhere, when it is written and the reader is still there. If the output cannot be written, the connection is closed
and the jobs return to the queue (exit 74). Except into a file, jobs are written one at a time, so a reader that goes
away leaves the rest in the queue; the last job it read is named. If the reader does not read a job, pop waits, and says
so after 10 s; only the last of -c jobs is deleted regardless.
Only Linux shows what the reader of a pipe has read.
Without --wait, only what is ready now is taken, and nothing ready is exit 1. If --wait expires, the exit code is 124.

Examples:
  bsctl pop -t mail -o raw > letter
  bsctl pop -t files -c 100 -0 | xargs -0 rm --
  bsctl pop -t mail --wait 1m -o ndjson";

/// Runs `pop`.
///
/// # Errors
/// As documented in the table of exit codes.
pub fn run(tool: &mut Tool, args: TakeArgs) -> Result<Exit, CliError> {
    tool.refuse_dry_run("pop", "bsctl peek is read-only")?;
    let tubes = args.prepare(tool)?;
    let taker = Taker::new(args.wait, tool.interrupts()?, &tool.messages).showing(&tubes);
    let next = |link: &mut Link, most| taker.next(link, most, &[]);
    let popped = leaving::pop(tool, ("job", args.count, &BODIES), Link::side, next, hand_over)?;
    popped.ok_or_else(|| args.nothing(tool.link.side(), &tubes))
}
