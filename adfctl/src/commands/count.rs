//! `count`: how many messages are ready.

use adf_queue_client::QueueName;
use clap::Args;
use ctl_core::context::fleet;
use ctl_core::context::fleet::{Answered, Fleet};
use ctl_core::error::{CliError, Exit};
use ctl_core::input::named::Several;
use ctl_core::output::{Column, Record, Shape};

use crate::link::Link;
use crate::names::Queue;
use crate::tool::Tool;

/// The end of `count --help`.
pub const HELP: &str = "\
Protocol: count.
Counts ready messages. Pulled ones are not included: adfctl queues shows those, too.

With several servers, all are queried, and the column SERVER shows where a count is from.

Examples:
  adfctl count /mail
  adfctl count /mail /sms -o json
  adfctl -s one,two count /mail
  test $(adfctl count /mail -o name) -lt 1000";

/// Arguments of `count`.
#[derive(Debug, Args)]
pub struct CountArgs {
    #[command(flatten)]
    queues: Several<Queue>,
}

/// Counts of queues.
static COUNTS: Shape =
    Shape::rows("ready", &[Column::new("ready", "READY"), Column::new("queue", "QUEUE")]);

/// Each queue with the result of its count.
type Counted = Vec<(QueueName, Result<u32, CliError>)>;

/// Runs `count`.
///
/// # Errors
/// As documented in the table of exit codes.
pub fn run(tool: &mut Tool, args: &CountArgs) -> Result<Exit, CliError> {
    let queues = args.queues.names_or_usual(tool.settings())?;
    let mut fleet = Fleet::of(tool)?;
    fleet.expect(&mut tool.out, &COUNTS)?;
    let all = fleet.ask(&mut tool.link, |link| count(link, &queues))?;
    let mut rows = Vec::new();
    let exit = finish(tool, all, fleet.exit(), |row| {
        rows.push(row);
        Ok(())
    })?;
    let mut list = fleet.list(&mut tool.out, &COUNTS)?;
    rows.into_iter().try_for_each(|row| list.push(row))?;
    list.finish()?;
    Ok(exit)
}

fn count(link: &mut Link, queues: &[QueueName]) -> Result<Counted, CliError> {
    let mut all = Vec::with_capacity(queues.len());
    for queue in queues {
        match link.ask(format!("count {queue}"), |client| client.count(queue.clone())) {
            Err(error) if error.ends_everything() => return Err(error),
            ready => all.push((queue.clone(), ready)),
        }
    }
    Ok(all)
}

/// Returns each count as a row and reports those that failed; the exit is that of the most severe failure.
fn finish(
    tool: &mut Tool,
    all: Vec<Answered<Counted>>,
    exit: Exit,
    mut show: impl FnMut(Record) -> Result<(), CliError>,
) -> Result<Exit, CliError> {
    let total: usize = all.iter().map(|(_, counted)| counted.len()).sum();
    let mut bulk = tool.bulk_of("counted", "queue", total as u64)?;
    for (server, counted) in all {
        for (queue, ready) in counted {
            let ready = ready.map(|ready| {
                let row = Record::new().of_server(server.as_deref());
                row.with("ready", ready).with("queue", queue.as_str())
            });
            match ready {
                Ok(row) => {
                    bulk.success();
                    show(row)?;
                }
                Err(error) => {
                    let name = fleet::name_at(queue.as_str(), server.as_deref());
                    bulk.failure(format!("queue {name}"), error)?;
                }
            }
        }
    }
    let told = bulk.finish_silently()?;
    Ok(if exit.is_done() { told } else { exit })
}
