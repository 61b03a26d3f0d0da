//! `queue`: create and delete queues.

use adf_queue_client::{QueueName, QueueStats};
use clap::{Args, Subcommand};
use ctl_core::context::fleet::on_each;
use ctl_core::error::{CliError, Exit};
use ctl_core::input::named::Several;
use ctl_core::output::Record;
use ctl_core::text::units;

use crate::error::{QUEUE_EXISTS, no_queue};
use crate::names::Queue;
use crate::tool::Tool;

/// The end of `queue --help`.
pub const HELP: &str = "\
Protocol: createqueue, deletequeue.
A queue must be created before anything can be pushed to it or pulled from it. Queues are gone when the server stops,
except those in its initqueue.txt.
delete removes the queue with its ready messages and asks for confirmation; --yes skips it. Clients waiting for its
messages are never answered, not even if it is created again. Messages pulled from it are lost when they are given back.

Examples:
  adfctl queue create /mail /sms --if-missing
  adfctl queue delete /mail --yes";

/// Arguments of `queue`.
#[derive(Debug, Args)]
pub struct QueueArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Create queues
    Create {
        #[command(flatten)]
        queues: Several<Queue>,

        /// Do not fail for queues that exist
        #[arg(long)]
        if_missing: bool,
    },
    /// Delete queues with their ready messages
    Delete {
        #[command(flatten)]
        queues: Several<Queue>,
    },
}

impl QueueArgs {
    /// Whether existing queues stay as they are.
    pub fn only_adds(&self) -> bool {
        matches!(self.what, What::Create { .. })
    }
}

/// Runs `queue`.
///
/// # Errors
/// As documented in the table of exit codes.
pub fn run(tool: &mut Tool, args: &QueueArgs) -> Result<Exit, CliError> {
    match &args.what {
        What::Create { queues, if_missing } => {
            let queues = queues.names()?;
            on_each(tool, |tool| create(tool, &queues, *if_missing))
        }
        What::Delete { queues } => {
            let queues = queues.names()?;
            on_each(tool, |tool| delete(tool, &queues))
        }
    }
}

fn create(tool: &mut Tool, queues: &[QueueName], if_missing: bool) -> Result<Exit, CliError> {
    if tool.globals.dry_run {
        return would(tool, "create", queues);
    }
    let mut bulk = tool.bulk_of("created", "queue", queues.len() as u64)?;
    let created = queues.iter().try_for_each(|queue| {
        let what = format!("createqueue {queue}");
        match tool.link.ask(what, |client| client.create_queue(queue.clone())) {
            Err(error) if if_missing && error.code == QUEUE_EXISTS => {
                bulk.skip();
                Ok(())
            }
            outcome => bulk.count(format!("queue {queue}"), outcome),
        }
    });
    bulk.after(created)?.finish(&mut tool.out)
}

fn delete(tool: &mut Tool, queues: &[QueueName]) -> Result<Exit, CliError> {
    let stats = |queue| tool.link.queue_stats(queue)?.ok_or_else(|| no_queue(queue));
    let all = queues.iter().map(stats).collect::<Result<Vec<_>, CliError>>()?;
    if tool.globals.dry_run {
        return would(tool, "delete", queues);
    }
    let address = tool.link.dialer.address()?;
    tool.confirm().many(&format!("delete {} on {address}", describe(&all)), &tool.messages)?;
    let mut bulk = tool.bulk_of("deleted", "queue", queues.len() as u64)?;
    let deleted = queues.iter().try_for_each(|queue| {
        let what = format!("deletequeue {queue}");
        let outcome = tool.link.ask(what, |client| client.delete_queue(queue.clone()));
        bulk.count(format!("queue {queue}"), outcome)
    });
    bulk.after(deleted)?.finish(&mut tool.out)
}

/// "queue /q with 3 ready messages, 1 pulled and 2 waiting pulls", or "3 queues with ...".
fn describe(all: &[QueueStats]) -> String {
    let names: Vec<&str> = all.iter().map(|queue| queue.name.as_str()).collect();
    let what = units::which("queue", &names);
    let ready = units::count(all.iter().map(|queue| queue.ready).sum(), "ready message");
    let pulled: i64 = all.iter().map(|queue| queue.pulled).sum();
    let waiting = units::count(all.iter().map(|queue| queue.waiting).sum(), "waiting pull");
    format!("{what} with {ready}, {pulled} pulled and {waiting}")
}

fn would(tool: &mut Tool, verb: &str, queues: &[QueueName]) -> Result<Exit, CliError> {
    let names: Vec<&str> = queues.iter().map(QueueName::as_str).collect();
    let sentence = format!("would {verb} {}", names.join(", "));
    let record = Record::new().with("dry_run", true).with("queues", names);
    tool.out.done_with(&record, &["queues"], &sentence)
}
