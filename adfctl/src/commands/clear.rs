//! `clear`: remove the ready messages of queues.

use adf_queue_client::QueueName;
use clap::Args;
use ctl_core::bulk::{Action, OnError};
use ctl_core::error::{CliError, Exit};
use ctl_core::output::Record;
use ctl_core::units;

use crate::names;
use crate::tool::Tool;

/// The end of `clear --help`.
pub const HELP: &str = "\
Protocol: clear.
Removes the messages that are ready, in one step. Those that somebody has pulled stay with whoever that is, and can
still be put back. It asks first; --yes answers.

Examples:
  adfctl clear /mail --yes
  adfctl clear /mail /sms --dry-run";

/// Arguments of `clear`.
#[derive(Debug, Args)]
pub struct ClearArgs {
    /// The queues
    #[arg(value_name = "QUEUE")]
    queues: Vec<String>,

    /// A queue, by flag; may be given several times
    #[arg(short = 'Q', long, value_name = "QUEUE")]
    queue: Vec<String>,
}

/// Runs `clear`.
///
/// # Errors
/// As documented in the table of exit codes.
pub fn run(tool: &mut Tool, args: &ClearArgs) -> Result<Exit, CliError> {
    let mut queues = names::queues(&args.queues)?;
    queues.extend(names::queues(&args.queue)?);
    if queues.is_empty() {
        return Err(names::no_queue());
    }
    let mut ready = 0;
    for queue in &queues {
        let what = format!("count {queue}");
        ready += u64::from(tool.link.ask(what, |client| client.count(queue.clone()))?);
    }
    let place = match queues.as_slice() {
        [queue] => format!("from queue {queue}"),
        queues => format!("from {} queues", queues.len()),
    };
    let messages = units::count(ready, "message");
    if tool.globals.dry_run {
        let record = Record::new().with("dry_run", true).with("messages", ready);
        let sentence = format!("would delete {messages} {place}");
        tool.out.done_with(&record, &["messages"], &sentence)?;
        return Ok(Exit::Done);
    }
    if ready == 0 {
        // What comes from now on, nobody has agreed to lose.
        queues.clear();
    } else {
        let address = tool.link.dialer.address()?;
        let question = format!("delete {messages} {place} on {address}");
        tool.confirm().many(&question, &tool.messages)?;
    }
    clear(tool, &queues, place, ready)
}

fn clear(
    tool: &mut Tool,
    queues: &[QueueName],
    place: String,
    ready: u64,
) -> Result<Exit, CliError> {
    let action = Action { past: "deleted", noun: "message", place };
    let mut bulk = tool.bulk(action, OnError::Continue, Some(ready))?;
    for queue in queues {
        let what = format!("clear {queue}");
        match tool.link.ask(what, |client| client.clear(queue.clone())) {
            Ok(count) => bulk.successes(count.into()),
            Err(error) => {
                if let Err(error) = bulk.failure(format!("queue {queue}"), error) {
                    return Err(bulk.abort(error));
                }
            }
        }
    }
    bulk.finish(&mut tool.out)
}
