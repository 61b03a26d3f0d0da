//! `count`: how many messages are ready.

use adf_queue_client::QueueName;
use clap::Args;
use ctl_core::error::{CliError, Exit};
use ctl_core::named::Several;
use ctl_core::output::{Column, Record, Shape};
use ctl_core::twice::{Twice, look_twice};

use super::queues::FIGURES;
use crate::names::Queue;
use crate::tool::Tool;

/// The end of `count --help`.
pub const HELP: &str = "\
Protocol: count.
Counts the messages that are ready. Those that somebody has pulled are not among them: adfctl queues shows these, too.

--rates and --diff look twice, --interval apart: how the counts have changed, and how fast.

Examples:
  adfctl count /mail
  adfctl count /mail /sms -o json
  test $(adfctl count /mail -o name) -lt 1000";

/// Arguments of `count`.
#[derive(Debug, Args)]
pub struct CountArgs {
    #[command(flatten)]
    queues: Several<Queue>,

    #[command(flatten)]
    twice: Twice,
}

static COUNTS: Shape =
    Shape::rows("ready", &[Column::new("ready", "READY"), Column::new("queue", "QUEUE")]);

/// Runs `count`.
///
/// # Errors
/// As documented in the table of exit codes.
pub fn run(tool: &mut Tool, args: &CountArgs) -> Result<Exit, CliError> {
    let queues = args.queues.names_or_usual(tool.settings())?;
    if args.twice.is_wanted()? {
        return look_twice(tool, &args.twice, &FIGURES, |tool| {
            let of = |queue: &QueueName| {
                let asked = format!("count {queue}");
                let ready = tool.link.ask(asked, |client| client.count(queue.clone()))?;
                Ok(Record::new().with("name", queue.as_str()).with("ready", ready))
            };
            Ok((queues.iter().map(of).collect::<Result<_, CliError>>()?, Exit::Done))
        });
    }
    let mut bulk = tool.bulk_of("counted", "queue", queues.len() as u64)?;
    let mut list = tool.out.list(&COUNTS)?;
    bulk.beside(&list);
    let counted = queues.iter().try_for_each(|queue| {
        let asked = format!("count {queue}");
        match tool.link.ask(asked, |client| client.count(queue.clone())) {
            Ok(ready) => {
                bulk.success();
                list.push(Record::new().with("ready", ready).with("queue", queue.as_str()))
            }
            Err(error) => bulk.failure(format!("queue {queue}"), error),
        }
    });
    let exit = bulk.after(counted)?.finish_silently()?;
    list.finish()?;
    Ok(exit)
}
