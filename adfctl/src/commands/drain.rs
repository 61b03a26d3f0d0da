//! `drain`: take the messages of queues out into a file or a pipe.

use std::ffi::OsString;

use adf_queue_client::{Delivery, QueueName};
use clap::Args;
use ctl_core::bulk::{Action, Bulk, BulkArgs};
use ctl_core::error::{CliError, Exit};
use ctl_core::fleet::on_each;
use ctl_core::named::Several;
use ctl_core::output::{Handover, Output};
use ctl_core::records;
use ctl_core::signals::Interrupts;

use crate::leaving::hand_over;
use crate::link::Link;
use crate::messages::{BODIES, check_whole, label};
use crate::names::Queue;
use crate::taker::Taker;
use crate::targets::Targets;
use crate::tool::Tool;

/// The end of `drain --help`.
pub const HELP: &str = "\
Protocol: count, pull, delete.
A message is deleted when its record has arrived, as `pop` does, so that an interruption, a full disk or a closed pipe
loses nothing: at worst messages are in the file and still in the queue. In a file they are brought onto the disk in
batches (--batch). One record per line:
  {\"v\":1,\"messageid\":7,\"queue\":\"/mail\",\"duplications\":1,\"body\":\"...\"}
`body_base64` stands in place of `body` when the bytes are not UTF-8. `import` reads the same.
As many messages are taken as there were at the start, so a busy producer does not keep it going for ever;
--until-empty goes on until there are none. Those that somebody has pulled stay with whoever that is.
Over JSON the server replaces what is not UTF-8, so a message that may have had such bytes is a failure there, and stays.
It asks first; --yes answers.
Of several servers each is emptied in turn, and a record on stdout says whose it was; --limit counts on each; the exit code
is that of the worst.

Examples:
  adfctl drain /mail --to mail.ndjson --yes
  adfctl drain /mail --limit 10 --yes | jq .body";

/// Arguments of `drain`.
#[derive(Debug, Args)]
pub struct DrainArgs {
    #[command(flatten)]
    queues: Several<Queue>,

    /// A new file, or - for stdout
    #[arg(long, value_name = "FILE", default_value = "-")]
    to: OsString,

    /// Go on until there are no more, also with those that are pushed meanwhile
    #[arg(long)]
    until_empty: bool,

    #[command(flatten)]
    bulk: BulkArgs,
}

/// Runs `drain`.
///
/// # Errors
/// As documented in the table of exit codes.
pub fn run(tool: &mut Tool, args: &DrainArgs) -> Result<Exit, CliError> {
    let queues = args.queues.names()?;
    // One file has the messages of all servers.
    let mut file = None;
    on_each(tool, |tool| drain(tool, queues.clone(), args, &mut file))
}

fn drain(
    tool: &mut Tool,
    queues: Vec<QueueName>,
    args: &DrainArgs,
    file: &mut Option<Output>,
) -> Result<Exit, CliError> {
    records::prepare(tool, &args.to, &BODIES)?;
    let limit = args.bulk.limit;
    let targets = Targets::count(&mut tool.link, queues)?;
    if tool.globals.dry_run {
        return targets.would(&mut tool.out, "drain", limit);
    }
    let (total, address) = (targets.total(limit), tool.link.dialer.address()?);
    if total > 0 || args.until_empty {
        let what = targets.describe(limit);
        let question = format!("take {what} on {address} out of the queue");
        tool.confirm().many(&question, &tool.messages)?;
    }
    let interrupts = tool.interrupts()?;
    let action = Action { past: "drained", noun: "message", place: targets.place() };
    let mut bulk = tool.bulk(action, &args.bulk, Some(total))?;
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
    };
    let mut left = limit.unwrap_or(u64::MAX);
    let drained = targets.queues.into_iter().try_for_each(|(queue, ready)| {
        let most = if args.until_empty { left } else { ready.min(left) };
        left -= drain.queue(queue, most)?;
        Ok(())
    });
    let ended = drain.end(drained);
    bulk.after(ended)?.finish_beside(file.as_ref(), &mut tool.out)
}

struct Drain<'a> {
    link: &'a mut Link,
    out: Handover<'a, usize>,
    bulk: &'a mut Bulk,
    interrupts: Interrupts,
    window: usize,
    /// Messages that cannot be kept as they are. They go back at the end: until then they are not met again.
    unfit: Vec<Delivery>,
}

impl Drain<'_> {
    /// Takes messages of a queue, at most `most`; gives how many.
    fn queue(&mut self, queue: QueueName, most: u64) -> Result<u64, CliError> {
        let taker = Taker::new(queue, None, self.interrupts.clone());
        let transport = self.link.transport()?;
        let mut taken = 0;
        while taken < most {
            let window = usize::try_from(most - taken).unwrap_or(self.window).min(self.window);
            if !self.bulk.gate().turn(window) {
                break;
            }
            let messages = taker.next(self.link, self.out.window(window))?;
            if messages.is_empty() {
                break;
            }
            taken += messages.len() as u64;
            let mut fit = Vec::with_capacity(messages.len());
            for message in messages {
                match check_whole(&message, transport) {
                    Ok(()) => fit.push(message),
                    Err(error) => {
                        let counted = self.bulk.failure(label(&message), error);
                        self.unfit.push(message);
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
            false => self.link.give_back(&self.unfit),
        };
        ended.and(returned)
    }
}
