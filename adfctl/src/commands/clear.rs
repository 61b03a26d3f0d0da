//! `clear`: removes the ready messages of queues.

use std::collections::HashSet;
use std::ffi::OsString;

use adf_queue_client::QueueName;
use clap::Args;
use ctl_core::bulk::{Action, Bulk, BulkArgs};
use ctl_core::context::fleet::on_each;
use ctl_core::error::{CliError, Exit};
use ctl_core::input::named::Several;
use ctl_core::link::Link as _;
use ctl_core::rules::filter::{self, FilterArgs, Filters};

use super::drain::{self, DrainArgs};
use super::export::{Look, Pulled, give_back, require_websocket};
use crate::messages::{Candidate, FILTER, label};
use crate::names::Queue;
use crate::targets::Targets;
use crate::tool::Tool;

/// The end of `clear --help`.
pub const HELP: &str = "\
Protocol: clear; with --filter, --count or --rate: count, pull and delete, then close the connection.
Removes the ready messages in one step, or those that match one by one; the others go back in place, with a delivery
count (duplications) that is one higher. That needs WebSocket, as with export. Messages already pulled stay with their
consumer and can still be put back. With --backup, clear is drain --to FILE. Asks for confirmation; --yes skips it.
Filters: see `adfctl help filters`.

Examples:
  adfctl clear /mail --backup mail.ndjson --yes
  adfctl clear /mail --filter 'duplications>5' --yes
  adfctl clear /mail /sms --dry-run";

/// Arguments of `clear`.
#[derive(Debug, Args)]
#[command(mut_args(filter::described(FILTER)))]
pub struct ClearArgs {
    #[command(flatten)]
    queues: Several<Queue>,

    /// Write the messages into this new file first, as records for import
    #[arg(long, value_name = "FILE")]
    backup: Option<OsString>,

    #[command(flatten)]
    filter: FilterArgs,

    #[command(flatten)]
    bulk: BulkArgs,
}

/// Runs `clear`.
///
/// # Errors
/// As documented in the table of exit codes.
pub fn run(tool: &mut Tool, args: ClearArgs) -> Result<Exit, CliError> {
    if let Some(to) = args.backup {
        return drain::run(tool, &DrainArgs::to(to, args.queues, args.filter, args.bulk));
    }
    let queues = args.queues.names()?;
    on_each(tool, |tool| clear(tool, queues.clone(), &args))
}

fn clear(tool: &mut Tool, queues: Vec<QueueName>, args: &ClearArgs) -> Result<Exit, CliError> {
    let filters = args.filter.read::<Candidate<'_>>()?;
    let limit = args.bulk.items.count;
    let one_by_one = !filters.is_empty() || limit.is_some() || args.bulk.items.rate.is_some();
    if one_by_one {
        require_websocket(tool.link.side(), "clear with --filter, --count or --rate")?;
    }
    let fitting = filters.matching();
    let mut targets = Targets::count(&mut tool.link, queues)?;
    if tool.globals.dry_run {
        return targets.would(&mut tool.out, "delete", limit, &fitting);
    }
    let (ready, place) = (targets.total(limit), targets.place());
    if ready == 0 {
        // The confirmation does not cover messages that arrive from now on.
        targets.queues.clear();
    } else {
        let address = tool.link.dialer.address()?;
        let question = format!("delete {} on {address}{fitting}", targets.describe(limit));
        tool.confirm().many(&question, &tool.messages)?;
    }
    let action = Action { past: "deleted", noun: "message", place };
    let total = filters.is_empty().then_some(ready);
    let mut bulk = tool.bulk(action, &args.bulk.items, total)?;
    let mut left = limit.unwrap_or(u64::MAX);
    let cleared = targets.queues.iter().try_for_each(|(queue, ready)| {
        if one_by_one {
            return delete(tool, (queue, *ready), &mut left, &filters, &mut bulk);
        }
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

/// Deletes messages that match, at most as many as are `left`, and gives the others back.
fn delete(
    tool: &mut Tool,
    (queue, ready): (&QueueName, u64),
    left: &mut u64,
    filters: &Filters,
    bulk: &mut Bulk,
) -> Result<(), CliError> {
    let mut link = tool.link.sibling();
    let mut pulled = Pulled::default();
    let look = Look { queue, ready, most: *left, filters };
    let mut settled = HashSet::new();
    let deleted = look.at(&mut link, &mut pulled, bulk, |link, message, bulk| {
        let outcome = link.delete(&message);
        if outcome.is_ok() {
            settled.insert(*message.request_id());
        }
        bulk.count(label(&message), outcome)
    });
    *left = left.saturating_sub(settled.len() as u64);
    pulled.forget(&settled);
    deleted.and(give_back(&mut link, queue, &pulled))
}
