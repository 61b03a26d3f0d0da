//! `move`: messages from one queue into another; with `--keep`, copies of them.

use std::collections::HashSet;

use adf_queue_client::{Delivery, Push, QueueName, RequestId};
use clap::Args;
use ctl_core::bulk::{Action, Bulk, BulkArgs};
use ctl_core::commands::leaving::doubting;
use ctl_core::error::{CliError, Exit};
use ctl_core::link::Link as _;
use ctl_core::rules::filter::{self, FilterArgs, Filters};

use super::export::{Look, Pulled, give_back, require_websocket};
use crate::link::Link;
use crate::messages::{Candidate, FILTER, label};
use crate::names;
use crate::producer::{NewMessage, push_batch};
use crate::targets::Targets;
use crate::tool::Tool;

/// The end of `move --help`.
pub const HELP: &str = "\
Protocol: count and pull, rpush at the target, then delete; createqueue with --create.
A message is pushed to the right end of the target, in order, and deleted at the source once the server confirms that,
so none is lost. If this process or a connection ends in between, up to --batch messages may exist twice; the error
names those it knows of. Messages get new ids, and their delivery count starts at 0 again. Messages that do not match
the filters, or that the target rejects, are pulled, too, and given back in place at the end; their delivery count
(duplications) grows by one. This needs WebSocket, as with export.
Processes as many messages as there were at the start. Messages already pulled stay with their consumer.
Asks for confirmation; --yes skips it.
With --keep, or as copy, messages are pulled and pushed, and closing the connection puts every one back in place: until
then no other client gets them, and the delivery count of each grows by one.
Filters: see `adfctl help filters`.

Examples:
  adfctl move --from /mail --to /mail-old
  adfctl move --from /mail --to-server other:6230 --create --rate 100/s
  adfctl move --from /mail --to /failed --filter 'duplications>5'
  adfctl copy --from /mail --to /mail-test --create -c 100";

/// Arguments of `move`.
#[derive(Debug, Args)]
#[command(mut_args(filter::described(FILTER)))]
pub struct TransferArgs {
    /// Source queue
    #[arg(long, value_name = "QUEUE")]
    from: String,

    /// Target queue [default with --to-server: the same name]
    #[arg(long, value_name = "QUEUE", required_unless_present = "to_server")]
    to: Option<String>,

    /// Target server
    #[arg(long, value_name = "ADDR")]
    to_server: Option<String>,

    /// Copy: leave the messages where they are
    #[arg(long)]
    keep: bool,

    /// Create the target if it does not exist
    #[arg(long)]
    create: bool,

    #[command(flatten)]
    filter: FilterArgs,

    #[command(flatten)]
    bulk: BulkArgs,
}

/// Runs `move`.
///
/// # Errors
/// As documented in the table of exit codes.
pub fn run(tool: &mut Tool, args: &TransferArgs) -> Result<Exit, CliError> {
    let deletes = !args.keep;
    let (verb, past) = if deletes { ("move", "moved") } else { ("copy", "copied") };
    let filters = args.filter.read::<Candidate<'_>>()?;
    let from = names::queue(&args.from)?;
    let to = args.to.as_deref().map(names::queue).transpose()?.unwrap_or_else(|| from.clone());
    let address = tool.link.dialer.address()?;
    // Its own connection, so that closing it gives back only these.
    let (mut target, elsewhere) = tool.link.elsewhere(args.to_server.as_deref())?;
    if from == to && elsewhere.is_none() {
        return Err(CliError::usage(format!("source and target are the same queue: {from}"))
            .hint("another queue, or --to-server for another server"));
    }
    require_websocket(tool.link.side(), verb)?;
    let targets = Targets::count(&mut tool.link, vec![from.clone()])?;
    let limit = args.bulk.items.count;
    let that_fit = filters.matching();
    let mut place = format!("to queue {to}");
    if let Some(elsewhere) = &elsewhere {
        place.push_str(&format!(" on {elsewhere}"));
    }
    if tool.globals.dry_run {
        return targets.would(&mut tool.out, verb, limit, &format!("{that_fit} {place}"));
    }
    if let (Some(elsewhere), true) = (&elsewhere, deletes) {
        tool.unlock_at(elsewhere)?;
    }
    // Check the target before pulling anything.
    if args.create {
        target.ask(format!("createqueue {to}"), |client| client.ensure_queue(to.clone()))?;
    } else {
        target.ask(format!("count {to}"), |client| client.count(to.clone()))?;
    }
    let ready = targets.total(None);
    if deletes && ready > 0 {
        let what = targets.describe(limit);
        let question = format!("{verb} {what} on {address}{that_fit} {place}");
        tool.confirm().many(&question, &tool.messages)?;
    }
    let most = limit.unwrap_or(u64::MAX);
    let total = filters.is_empty().then(|| ready.min(most));
    let action = Action { past, noun: "message", place: format!("{} {place}", targets.place()) };
    let mut bulk = tool.bulk(action, &args.bulk.items, total)?;
    let mut transfer = Transfer {
        target,
        from,
        to,
        deletes,
        window: args.bulk.window(),
        doubtful: Vec::new(),
        settled: HashSet::new(),
    };
    let mut link = tool.link.sibling();
    let transferred = transfer.run(&mut link, (ready, most), &filters, &mut bulk);
    bulk.after(transferred)?.finish(&mut tool.out)
}

/// Messages being transferred.
struct Transfer {
    target: Link,
    from: QueueName,
    to: QueueName,
    deletes: bool,
    window: usize,
    /// Messages that may exist twice.
    doubtful: Vec<u64>,
    /// The pulls of messages that are deleted.
    settled: HashSet<RequestId>,
}

impl Transfer {
    fn run(
        &mut self,
        link: &mut Link,
        (ready, most): (u64, u64),
        filters: &Filters,
        bulk: &mut Bulk,
    ) -> Result<(), CliError> {
        let mut pulled = Pulled::default();
        let (from, window) = (self.from.clone(), self.window);
        let look = Look { queue: &from, ready, most, filters };
        let mut waiting: Vec<Delivery> = Vec::new();
        let looked = look.at(link, &mut pulled, bulk, |link, message, bulk| {
            waiting.push(message);
            if waiting.len() < window {
                return Ok(());
            }
            self.send(link, std::mem::take(&mut waiting), bulk)
        });
        let sent = looked.and_then(|()| self.send(link, waiting, bulk));
        pulled.forget(&self.settled);
        let returned = give_back(link, &from, &pulled);
        sent.map_err(|error| {
            let doubtful = std::mem::take(&mut self.doubtful);
            doubting(error, "message", &doubtful, &format!("queue {}", self.to))
        })
        .and(returned)
    }

    /// Pushes messages and deletes those that have been confirmed.
    fn send(
        &mut self,
        link: &mut Link,
        messages: Vec<Delivery>,
        bulk: &mut Bulk,
    ) -> Result<(), CliError> {
        let of = |message: &Delivery| {
            let push = Push::right(self.to.clone(), message.body());
            NewMessage { push, label: label(message) }
        };
        let pushes = messages.iter().map(of).collect();
        let (mut confirmed, mut rest, mut broken) = (Vec::new(), messages.iter(), None);
        push_batch(&mut self.target, pushes, |label, _, outcome| {
            let Some(message) = rest.next() else { return Ok(()) };
            match outcome {
                Ok(_) => confirmed.push(message),
                Err(error) if error.ends_everything() => {
                    if error.is_unknown() {
                        self.doubtful.push(message.message_id().get());
                    }
                    broken.get_or_insert(error);
                }
                Err(error) => bulk.failure(label, error)?,
            }
            Ok(())
        })?;
        for message in confirmed {
            let deleted = if self.deletes { link.delete(message) } else { Ok(()) };
            match &deleted {
                Err(_) => self.doubtful.push(message.message_id().get()),
                Ok(()) if self.deletes => drop(self.settled.insert(*message.request_id())),
                Ok(()) => {}
            }
            match deleted {
                Err(error) if error.ends_everything() => broken = broken.or(Some(error)),
                outcome => bulk.count(label(message), outcome)?,
            }
        }
        broken.map_or(Ok(()), Err)
    }
}
