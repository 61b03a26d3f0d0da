//! `drain`: moves the messages of queues into a file or a pipe.

use std::ffi::OsString;

use adf_queue_client::QueueName;
use clap::Args;
use ctl_core::bulk::{Action, Bulk, BulkArgs};
use ctl_core::context::fleet::on_each;
use ctl_core::error::{CliError, Exit};
use ctl_core::input::named::Several;
use ctl_core::output::{Handover, Output, records};
use ctl_core::rules::filter::{self, FilterArgs, Filters};
use ctl_core::system::signals::Interrupts;
use ctl_core::text::units;

use crate::leaving::hand_over;
use crate::link::{Link, Pull, pull_of};
use crate::messages::{BODIES, Candidate, FILTER, check_whole, label};
use crate::names::Queue;
use crate::taker::Taker;
use crate::targets::Targets;
use crate::tool::Tool;

/// The end of `drain --help`.
pub const HELP: &str = "\
Protocol: count, pull, delete.
A message is deleted once its record has arrived, as with `pop`, so an interruption, a full disk or a closed pipe loses
nothing: at worst, messages are both in the file and in the queue. In a file, they are synced to disk in batches
(--batch). One record per line:
  {\"v\":1,\"messageid\":7,\"queue\":\"/mail\",\"duplications\":1,\"body\":\"...\"}
`body_base64` replaces `body` if the bytes are not UTF-8. `import` reads this format.
Takes as many messages as there were at the start, so that a busy producer cannot keep it running forever; --until-empty
continues until there are none. Messages already pulled stay with their consumer.
Over JSON, the server replaces bytes that are not UTF-8, so a message that may have had such bytes fails there and
stays.
With filters, every message is pulled, and those that do not match are given back at the end; their delivery count
(duplications) grows by one. --count counts matching messages.
Asks for confirmation; --yes skips it.
Filters: see `adfctl help filters`.

Examples:
  adfctl drain /mail --to mail.ndjson --yes
  adfctl drain /mail --filter 'size>1k' --to large.ndjson --yes
  adfctl drain /mail -c 10 --yes | jq .body";

/// Arguments of `drain`.
#[derive(Debug, Args)]
#[command(mut_args(filter::described(FILTER)))]
pub struct DrainArgs {
    #[command(flatten)]
    queues: Several<Queue>,

    /// New file to write, or - for stdout
    #[arg(long, value_name = "FILE", default_value = "-")]
    to: OsString,

    /// Continue until empty, including messages pushed in the meantime
    #[arg(long)]
    until_empty: bool,

    #[command(flatten)]
    filter: FilterArgs,

    #[command(flatten)]
    bulk: BulkArgs,
}

impl DrainArgs {
    /// The messages that are there, into this file.
    pub(super) fn to(
        to: OsString,
        queues: Several<Queue>,
        filter: FilterArgs,
        bulk: BulkArgs,
    ) -> Self {
        Self { queues, to, until_empty: false, filter, bulk }
    }
}

/// Runs `drain`.
///
/// # Errors
/// As documented in the table of exit codes.
pub fn run(tool: &mut Tool, args: &DrainArgs) -> Result<Exit, CliError> {
    let queues = args.queues.names()?;
    // One file receives the messages of all servers.
    let mut file = None;
    on_each(tool, |tool| drain(tool, queues.clone(), args, &mut file))
}

fn drain(
    tool: &mut Tool,
    queues: Vec<QueueName>,
    args: &DrainArgs,
    file: &mut Option<Output>,
) -> Result<Exit, CliError> {
    records::prepare(&mut tool.out, tool.globals.output, &args.to, &BODIES)?;
    let filters = args.filter.read::<Candidate<'_>>()?;
    if !filters.is_empty() {
        tool.refuse_dry_run(
            "drain --filter",
            "adfctl export --filter, which gives every message back",
        )?;
    }
    let limit = args.bulk.items.count;
    let targets = Targets::count(&mut tool.link, queues)?;
    if tool.globals.dry_run {
        return targets.would(&mut tool.out, "drain", limit, "");
    }
    let (total, address) = (targets.total(limit), tool.link.dialer.address()?);
    if total > 0 || args.until_empty {
        let what = targets.describe(if filters.is_empty() { limit } else { None });
        let fit = if filters.is_empty() {
            String::new()
        } else {
            format!("those matching {filters} of ")
        };
        let question = format!("drain {fit}{what} on {address}");
        tool.confirm().many(&question, &tool.messages)?;
    }
    let interrupts = tool.interrupts()?;
    let action = Action { past: "drained", noun: "message", place: targets.place() };
    let mut bulk = tool.bulk(action, &args.bulk.items, Some(total))?;
    if file.is_none() {
        *file = records::create(&args.to, &tool.out.style)?;
    }
    let list = file.as_mut().unwrap_or(&mut tool.out).list(&BODIES)?;
    bulk.beside(&list);
    let mut drain = Drain {
        link: tool.link.side(),
        out: Handover::new(list, interrupts.clone(), &tool.messages)?,
        bulk: &mut bulk,
        interrupts,
        window: args.bulk.window(),
        unfit: Vec::new(),
        filters,
    };
    let mut left = limit.unwrap_or(u64::MAX);
    let drained = targets.queues.into_iter().try_for_each(|(queue, ready)| {
        let there = if args.until_empty { u64::MAX } else { ready };
        left -= drain.queue(queue, there, left)?;
        Ok(())
    });
    let ended = drain.end(drained);
    bulk.after(ended)?.finish_beside(file.as_ref(), &mut tool.out)
}

/// Maximum number of messages held that do not match: they go back at the end.
const MOST_KEPT: usize = 100_000;

fn too_many_unfit() -> CliError {
    let most = units::count(MOST_KEPT as u64, "message");
    CliError::new(Exit::BadData, "TOO_MANY", format!("more than {most} do not match the filter"))
        .hint("drain without a filter, and import the messages to keep")
}

struct Drain<'a> {
    link: &'a mut Link,
    out: Handover<'a, usize>,
    bulk: &'a mut Bulk,
    interrupts: Interrupts,
    window: usize,
    /// The pulls of messages that cannot be kept as they are. They go back only at the end, so that they are not pulled
    /// again.
    unfit: Vec<Pull>,
    filters: Filters,
}

impl Drain<'_> {
    /// Takes up to `most` messages of a queue, and examines as many as there are; returns how many it has taken.
    fn queue(&mut self, queue: QueueName, there: u64, most: u64) -> Result<u64, CliError> {
        let messages = self.link.dialer.messages().clone();
        let taker = Taker::new(queue, None, self.interrupts.clone(), &messages);
        let transport = self.link.transport()?;
        let formats = &self.link.dialer.settings().config().envelopes.clone();
        let (mut seen, mut taken) = (0, 0);
        while taken < most && seen < there {
            let window = usize::try_from((most - taken).min(there - seen))
                .unwrap_or(self.window)
                .min(self.window);
            if !self.bulk.gate().turn(window) {
                break;
            }
            let messages = taker.next(self.link, self.out.window(window))?;
            if messages.is_empty() {
                break;
            }
            seen += messages.len() as u64;
            let mut fit = Vec::with_capacity(messages.len());
            for message in messages {
                if !self.filters.fit(&Candidate(&message, formats)) {
                    let is_full = self.unfit.len() >= MOST_KEPT;
                    self.unfit.push(pull_of(&message));
                    if is_full {
                        return Err(too_many_unfit());
                    }
                    continue;
                }
                taken += 1;
                match check_whole(&message, transport) {
                    Ok(()) => fit.push(message),
                    Err(error) => {
                        let counted = self.bulk.failure(label(&message), error);
                        self.unfit.push(pull_of(&message));
                        counted?;
                    }
                }
            }
            hand_over(self.link, &mut self.out, fit, false, self.bulk)?;
        }
        Ok(taken)
    }

    /// Ends the list, and gives back what cannot be kept.
    fn end(mut self, drained: Result<(), CliError>) -> Result<(), CliError> {
        let ended = drained.and_then(|()| self.out.finish(&mut |_| Ok(())));
        let returned = match self.unfit.is_empty() {
            true => Ok(()),
            false => self.link.give_back_pulls(&self.unfit),
        };
        ended.and(returned)
    }
}
