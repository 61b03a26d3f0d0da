//! `export`: the messages of queues as NDJSON records. The protocol shows a message only by pulling it, so each is
//! pulled, written, and given back with all others.

use std::collections::HashSet;

use adf_queue_client::protocol::Request;
use adf_queue_client::{Delivery, QueueName, RequestId};
use clap::Args;
use ctl_core::bulk::{Action, Bulk, ItemArgs};
use ctl_core::context::fleet::on_each;
use ctl_core::error::{CliError, Exit};
use ctl_core::input::named::Several;
use ctl_core::link::Link as _;
use ctl_core::output::records;
use ctl_core::rules::filter::{self, FilterArgs, Filters};
use ctl_core::text::units;

use super::queues::list;
use crate::link::Link;
use crate::messages::{BODIES, Candidate, FILTER, check_whole, label, record};
use crate::names::{Queue, queue};
use crate::taker::pull_ready;
use crate::targets::Targets;
use crate::tool::Tool;

/// The end of `export --help`.
pub const HELP: &str = "\
Protocol: count and pull, then close the connection, which puts every message back in place.
The server shows a message only to the client that pulls it. So the messages of a queue are pulled, written one by one,
and given back together; until then, no other client gets them, and the delivery count (duplications) of each grows by
one. Pulls waiting at that point get the first messages. If this process ends early, they go back all the same.
Each queue is given back before the next one starts; --count keeps that short. Messages pushed in the meantime are left
out.
Over HTTP, nothing gives messages back, so this requires WebSocket; `drain` takes messages for good. Over JSON, the
server replaces bytes that are not UTF-8, so a message that may have had such bytes fails there.
Without QUEUE, exports the queues on the status page, which lists at most 100 (exit 3 if there are more).
Records have the format of `drain`, and `import` reads them.
With filters, every message is pulled, but only matching ones are written, at most --count.
Filters: see `adfctl help filters`.

Examples:
  adfctl export > all.ndjson
  adfctl export /mail --filter 'body~=timeout'
  adfctl export /mail | adfctl -s other import - --create";

/// Arguments of `export`.
#[derive(Debug, Args)]
#[command(mut_args(filter::described(FILTER)))]
pub struct ExportArgs {
    #[command(flatten)]
    queues: Several<Queue>,

    #[command(flatten)]
    filter: FilterArgs,

    #[command(flatten)]
    bulk: ItemArgs,
}

/// Runs `export`.
///
/// # Errors
/// As documented in the table of exit codes.
pub fn run(tool: &mut Tool, args: &ExportArgs) -> Result<Exit, CliError> {
    on_each(tool, |tool| export(tool, args))
}

fn export(tool: &mut Tool, args: &ExportArgs) -> Result<Exit, CliError> {
    records::prepare(&mut tool.out, tool.globals.output, records::STDOUT.as_ref(), &BODIES)?;
    let filters = args.filter.read::<Candidate<'_>>()?;
    require_websocket(tool.link.side(), "export")
        .map_err(|error| error.hint("adfctl drain, to take the messages for good"))?;
    let (queues, incomplete) = match args.queues.given()? {
        queues if queues.is_empty() => every_queue(tool)?,
        queues => (queues, None),
    };
    let targets = Targets::count(&mut tool.link, queues)?;
    if tool.globals.dry_run {
        return targets.would(&mut tool.out, "export", args.bulk.count, "");
    }
    let mut left = targets.total(args.bulk.count);
    let action = Action { past: "exported", noun: "message", place: targets.place() };
    let mut bulk = tool.bulk(action, &args.bulk, Some(left))?;
    let mut list = tool.out.list(&BODIES)?.eager();
    bulk.beside(&list);
    for (queue, ready) in targets.queues {
        // Its own connection, so that closing it gives back only these.
        let mut link = tool.link.sibling();
        let mut pulled = Pulled::default();
        let before = bulk.succeeded();
        let look = Look { queue: &queue, ready, most: left, filters: &filters };
        let exported = look.at(&mut link, &mut pulled, &mut bulk, |_, message, bulk| {
            list.push(record(&message))?;
            bulk.success();
            Ok(())
        });
        left = left.saturating_sub(bulk.succeeded() - before);
        let returned = give_back(&mut link, &queue, &pulled);
        bulk = bulk.after(exported.and(returned))?;
    }
    list.finish()?;
    let exit = bulk.finish_quietly()?;
    let Some(why) = incomplete else { return Ok(exit) };
    tool.messages.warn(why);
    Ok(if exit.is_done() { Exit::Partial } else { exit })
}

/// The queues on the status page, and why there may be more.
fn every_queue(tool: &mut Tool) -> Result<(Vec<QueueName>, Option<String>), CliError> {
    let listed = list(&mut tool.link, |_| true)?;
    let names = listed.queues.iter().map(|one| queue(&one.name));
    Ok((names.collect::<Result<_, CliError>>()?, listed.incomplete))
}

/// Refuses HTTP for a command that gives back what it has pulled.
///
/// # Errors
/// It is HTTP: exit 2. The address is wrong: exit 2.
pub(super) fn require_websocket(link: &mut Link, command: &str) -> Result<(), CliError> {
    if !link.is_http()? {
        return Ok(());
    }
    let why =
        "over HTTP, pulled messages cannot be given back in one step, so their order would be lost";
    let why = format!("{command} needs WebSocket: {why}");
    Err(CliError::new(Exit::Usage, "UNSUPPORTED", why)
        .hint("an address without http://, for WebSocket"))
}

/// Messages pulled from a queue that must be given back.
#[derive(Default)]
pub(super) struct Pulled {
    count: u64,
    /// The pulls of the messages, in their order, as far as there is room.
    ids: Vec<RequestId>,
    /// Pulls of this connection that wait because another client took the message first.
    waiting: u64,
}

impl Pulled {
    /// Records that these have been deleted, and must not be given back.
    pub(super) fn forget(&mut self, settled: &HashSet<RequestId>) {
        self.count = self.count.saturating_sub(settled.len() as u64);
        self.ids.retain(|id| !settled.contains(id));
    }
}

/// Maximum number of pull ids kept.
const MOST_KEPT: usize = 100_000;

/// A scan of the messages of a queue.
pub(super) struct Look<'a> {
    pub(super) queue: &'a QueueName,
    /// Maximum number to pull.
    pub(super) ready: u64,
    /// Maximum number of matching messages.
    pub(super) most: u64,
    pub(super) filters: &'a Filters,
}

impl Look<'_> {
    /// Pulls messages and passes those that match and are whole to `each`.
    ///
    /// # Errors
    /// The failure of the connection, or of `each`.
    pub(super) fn at(
        &self,
        link: &mut Link,
        pulled: &mut Pulled,
        bulk: &mut Bulk,
        mut each: impl FnMut(&mut Link, Delivery, &mut Bulk) -> Result<(), CliError>,
    ) -> Result<(), CliError> {
        let (gate, transport, queue) = (bulk.gate(), link.transport()?, self.queue);
        let formats = &link.dialer.settings().config().envelopes.clone();
        let mut fitting = 0;
        while pulled.count < self.ready && fitting < self.most && gate.turn(1) {
            let Some(message) = pull_ready(link, queue)? else {
                pulled.waiting += 1;
                return Ok(());
            };
            pulled.count += 1;
            if pulled.ids.len() < MOST_KEPT {
                pulled.ids.push(*message.request_id());
            }
            if !self.filters.fit(&Candidate(&message, formats)) {
                continue;
            }
            fitting += 1;
            match check_whole(&message, transport) {
                Ok(()) => each(link, message, bulk)?,
                Err(error) => bulk.failure(label(&message), error)?,
            }
        }
        Ok(())
    }
}

/// Gives everything back by closing the connection, which the server does in one step, the last message first. Each
/// message that returns this way wakes a waiting pull, so waiting pulls would get the last messages. If pulls are
/// waiting, all messages except the first ones, one for each pull, are therefore put back beforehand, one by one, which
/// does not wake a waiting pull. If the connection is lost, everything is back already.
pub(super) fn give_back(
    link: &mut Link,
    queue: &QueueName,
    pulled: &Pulled,
) -> Result<(), CliError> {
    if link.has_lost() {
        link.close();
        return Ok(());
    }
    let stats = link.queue_stats(queue)?;
    let waiting = stats.map_or(0, |stats| stats.waiting).saturating_sub(pulled.waiting);
    if waiting == 0 || pulled.count == 0 {
        link.close();
        return Ok(());
    }
    if (pulled.ids.len() as u64) < pulled.count {
        let most = units::count(MOST_KEPT as u64, "message");
        let pulls = units::count(waiting, "pull");
        link.dialer.messages().warn(format!(
            "{pulls} of {queue} got the last of these messages first: at most {most} can be given back in order to waiting clients"
        ));
        link.close();
        return Ok(());
    }
    let first = usize::try_from(waiting).unwrap_or(usize::MAX);
    for id in pulled.ids.iter().skip(first).rev() {
        link.call(Request::lcancel(*id, queue.clone()))?;
    }
    link.close();
    Ok(())
}
