//! `count`: how many messages are ready.

use adf_queue_client::QueueName;
use clap::Args;
use ctl_core::error::{CliError, Exit};
use ctl_core::named::Several;
use ctl_core::output::{Column, Record, Shape};
use ctl_core::twice::{Twice, look_twice};

use super::queues::FIGURES;
use crate::link::Link;
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
        let mut last = Vec::new();
        look_twice(tool, &args.twice, &FIGURES, |tool| {
            last.clear();
            let mut records = Vec::new();
            for queue in &queues {
                let counted = match count(&mut tool.link, queue) {
                    Ok(ready) => {
                        let record = Record::new().with("name", queue.as_str());
                        records.push(record.with("ready", ready));
                        Ok(())
                    }
                    Err(error) if error.ends_everything() => return Err(error),
                    Err(error) => Err(error),
                };
                last.push((queue, counted));
            }
            Ok((records, Exit::Done))
        })?;
        let mut bulk = tool.bulk_of("counted", "queue", queues.len() as u64)?;
        for (queue, counted) in last {
            bulk.count(label(queue), counted)?;
        }
        return bulk.finish_silently();
    }
    let mut bulk = tool.bulk_of("counted", "queue", queues.len() as u64)?;
    let mut list = tool.out.list(&COUNTS)?;
    bulk.beside(&list);
    let counted = queues.iter().try_for_each(|queue| match count(&mut tool.link, queue) {
        Ok(ready) => {
            bulk.success();
            list.push(Record::new().with("ready", ready).with("queue", queue.as_str()))
        }
        Err(error) => bulk.failure(label(queue), error),
    });
    let exit = bulk.after(counted)?.finish_silently()?;
    list.finish()?;
    Ok(exit)
}

fn count(link: &mut Link, queue: &QueueName) -> Result<u32, CliError> {
    link.ask(format!("count {queue}"), |client| client.count(queue.clone()))
}

fn label(queue: &QueueName) -> String {
    format!("queue {queue}")
}
