//! `clear`: removes the ready messages of queues.

use adf_queue_client::QueueName;
use clap::Args;
use ctl_core::bulk::{Action, OnError};
use ctl_core::context::fleet::on_each;
use ctl_core::error::{CliError, Exit};
use ctl_core::input::named::Several;

use crate::names::Queue;
use crate::targets::Targets;
use crate::tool::Tool;

/// The end of `clear --help`.
pub const HELP: &str = "\
Protocol: clear.
Removes the ready messages in one step. Messages already pulled stay with their consumer and can still be put back. Asks
for confirmation; --yes skips it.
With several servers, each is processed in turn and named in the output; the exit code is the most severe one.

Examples:
  adfctl clear /mail --yes
  adfctl -s one,two clear /mail --yes
  adfctl clear /mail /sms --dry-run";

/// Arguments of `clear`.
#[derive(Debug, Args)]
pub struct ClearArgs {
    #[command(flatten)]
    queues: Several<Queue>,
}

/// Runs `clear`.
///
/// # Errors
/// As documented in the table of exit codes.
pub fn run(tool: &mut Tool, args: &ClearArgs) -> Result<Exit, CliError> {
    let queues = args.queues.names()?;
    on_each(tool, |tool| clear(tool, queues.clone()))
}

fn clear(tool: &mut Tool, queues: Vec<QueueName>) -> Result<Exit, CliError> {
    let mut targets = Targets::count(&mut tool.link, queues)?;
    if tool.globals.dry_run {
        return targets.would(&mut tool.out, "delete", None);
    }
    let (ready, place) = (targets.total(None), targets.place());
    if ready == 0 {
        // Nobody has agreed to lose messages that arrive from now on.
        targets.queues.clear();
    } else {
        let address = tool.link.dialer.address()?;
        let question = format!("delete {} on {address}", targets.describe(None));
        tool.confirm().many(&question, &tool.messages)?;
    }
    let action = Action { past: "deleted", noun: "message", place };
    let mut bulk = tool.bulk(action, OnError::Continue, Some(ready))?;
    let cleared = targets.queues.iter().try_for_each(|(queue, _)| {
        let what = format!("clear {queue}");
        match tool.link.ask(what, |client| client.clear(queue.clone())) {
            Ok(count) => {
                bulk.successes(count.into());
                Ok(())
            }
            Err(error) => bulk.failure(format!("queue {queue}"), error),
        }
    });
    bulk.after(cleared)?.finish(&mut tool.out)
}
