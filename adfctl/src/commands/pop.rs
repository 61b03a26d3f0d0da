//! `pop`: take messages for good. A message is deleted only after its output has been written.

use ctl_core::commands::leaving;
use ctl_core::error::{CliError, Exit};

use super::pull::TakeArgs;
use crate::leaving::hand_over;
use crate::link::Link;
use crate::messages::BODIES;
use crate::tool::Tool;

/// The end of `pop --help`.
pub const HELP: &str = "\
Protocol: count, pull, delete.
A message is deleted once its output has arrived: in a file, when it is on disk; in a pipe, when the reader has read it;
elsewhere, when it is written and the reader is still there. If the output cannot be written, the messages go back in
place (exit 74). Except into a file, messages are written one at a time, so a reader that goes away leaves the rest in
the queue; the last message it read is named. If the reader does not read a message, pop waits, and says so after 10 s;
only the last of -c messages is deleted regardless.
Only Linux shows what the reader of a pipe has read.
Without --wait, only what is ready now is taken, and nothing ready is exit 1. If --wait expires, the exit code is 124.

Examples:
  adfctl pop /mail -o raw > letter
  adfctl pop /files -c 100 -0 | xargs -0 rm --
  adfctl pop /mail --wait 1m -o ndjson";

/// Runs `pop`.
///
/// # Errors
/// As documented in the table of exit codes.
pub fn run(tool: &mut Tool, args: TakeArgs) -> Result<Exit, CliError> {
    tool.refuse_dry_run("pop", "adfctl queues is read-only")?;
    let taker = args.prepare(tool)?;
    let next = |link: &mut Link, most| taker.next(link, most);
    let popped = leaving::pop(tool, ("message", args.count, &BODIES), Link::side, next, hand_over)?;
    popped.ok_or_else(|| taker.nothing())
}
