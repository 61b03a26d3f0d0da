//! `pop`: take messages for good. A message is deleted only after its output has been written.

use clap::Args;
use ctl_core::error::{CliError, Exit};
use ctl_core::leaving;
use ctl_core::output::Handover;

use super::pull::TakeArgs;
use crate::leaving::Queue;
use crate::messages::BODIES;
use crate::tool::Tool;

/// The end of `pop --help`.
pub const HELP: &str = "\
Protocol: count, pull, delete.
A message is deleted when its output has arrived: in a file when it is on the disk, in a pipe when its reader has
read it, elsewhere when it is written and the reader is still there. If the output cannot be written, the messages go
back to where they were (exit 74). Into anything but a file one message goes at a time, so that a reader that goes away
leaves the others in the queue; the one that it read last is named. A message that its reader leaves unread is waited
for, and a note says so after 10 s; only the last of -c messages is deleted then, read or not.
Only on Linux can it be seen what the reader of a pipe has read.
With --dump a body is on the disk, in a file named for the message's number, before its message is deleted; no file is
written over.
Without --wait only what is ready now is taken; nothing there is exit 1. A --wait that runs out is exit 124.

Examples:
  adfctl pop /mail -o raw > letter
  adfctl pop /files -c 100 -0 | xargs -0 rm --
  adfctl pop /mail -c 100 --dump letters
  adfctl pop /mail --wait 1m -o ndjson";

/// Arguments of `pop`.
#[derive(Debug, Args)]
pub struct PopArgs {
    #[command(flatten)]
    take: TakeArgs,
}

/// Runs `pop`.
///
/// # Errors
/// As documented in the table of exit codes.
pub fn run(tool: &mut Tool, args: PopArgs) -> Result<Exit, CliError> {
    tool.refuse_dry_run("pop", "adfctl count only looks")?;
    let interrupts = tool.interrupts()?;
    let taker = args.take.prepare(tool)?;
    let mut bulk = tool.bulk_of("took", "message", args.take.count)?;
    let list = tool.out.list(&BODIES)?;
    bulk.beside(&list);
    let out = Handover::new(list, interrupts.clone(), &tool.messages)?;
    let mut queue = Queue { link: tool.link.side(), taker };
    leaving::pop(&mut queue, out, args.take.count, bulk, &interrupts)
}
