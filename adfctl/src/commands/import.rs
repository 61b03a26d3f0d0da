//! `import`: push the records that `export` and `drain` wrote.

use std::collections::BTreeSet;
use std::ffi::OsString;

use adf_queue_client::Push;
use clap::Args;
use ctl_core::bulk::{Action, BulkArgs};
use ctl_core::error::{CliError, Exit};
use ctl_core::input::Argument;
use ctl_core::input::intake::{self, Batches, Cut};
use ctl_core::output::progress::Meter;

use crate::producer::{NewMessage, create_queues, push_batch};
use crate::tool::Tool;
use crate::{messages, names};

/// The end of `import --help`.
pub const HELP: &str = "\
Protocol: rpush; createqueue with --create.
Messages are added at the right end of their queues in the order of the records and get new ids; their delivery count
starts at 0 again. Bodies can have up to 65,535 bytes in binary frames, and 1 byte to 10 MiB over HTTP; JSON carries
text only.
If a connection breaks, the messages in flight may or may not have arrived, and are not resent: the last line says how
many were acknowledged, how many may have arrived, and how many were not sent.

Examples:
  adfctl import all.ndjson --create
  adfctl export /mail | adfctl import - --queue /mail-copy";

/// Arguments of `import`.
#[derive(Debug, Args)]
pub struct ImportArgs {
    /// File of records, or - for stdin
    #[arg(value_name = "FILE|-", default_value = "-")]
    from: OsString,

    /// Push all messages to this queue
    #[arg(short = 'Q', long, value_name = "QUEUE")]
    queue: Option<String>,

    /// Create queues that do not exist
    #[arg(long)]
    create: bool,

    #[command(flatten)]
    bulk: BulkArgs,
}

/// The likely meaning of `-q NAME`, where NAME is taken for a file.
const NOT_QUIET: &str = "-Q QUEUE, to name a queue: -q is --quiet";

/// Runs `import`.
///
/// # Errors
/// As documented in the table of exit codes.
pub fn run(tool: &mut Tool, args: ImportArgs) -> Result<Exit, CliError> {
    let queue = args.queue.as_deref().map(names::queue).transpose()?;
    let limit = tool.link.max_body()?;
    if args.from == "-" {
        tool.input.invite("records", &tool.messages);
    }
    let from = Argument::Read(args.from);
    let make = move |label: &str, line: Vec<u8>| {
        let (own, body) = messages::parse(&line)?;
        let no_queue =
            || CliError::bad_data("message record without `queue`").hint("--queue QUEUE");
        let queue = queue.clone().or(own).ok_or_else(no_queue)?;
        let label = label.to_owned();
        Ok(NewMessage { push: Push::right(queue, body), label })
    };
    let input = (&mut tool.input, &tool.messages);
    let (items, meter) = intake::chain(vec![from], Cut::Ndjson, limit, input, make)
        .map_err(|error| if tool.globals.quiet { error.hint(NOT_QUIET) } else { error })?;
    let items = intake::take(items, args.bulk.items.count);
    if tool.globals.dry_run {
        return intake::would(&mut tool.out, items, ("push", "message", ""));
    }
    let batches = Batches::of(items, false, limit, args.bulk.window(), NewMessage::size)?;
    import(tool, (batches, meter), &args.bulk, args.create)
}

fn import(
    tool: &mut Tool,
    (batches, meter): (Batches<NewMessage>, Option<Meter>),
    args: &BulkArgs,
    create: bool,
) -> Result<Exit, CliError> {
    let interrupts = tool.interrupts()?;
    let action = Action { past: "imported", noun: "message", place: String::new() };
    let mut bulk = tool.bulk(action, &args.items, None)?;
    bulk.measure(meter);
    let mut known = BTreeSet::new();
    let imported = batches.each(&mut bulk, &interrupts, |bulk, good| {
        if create {
            create_queues(&mut tool.link, &good, &mut known)?;
        }
        push_batch(&mut tool.link, good, |label, _, outcome| {
            match outcome {
                Ok(_) => bulk.success(),
                Err(error) => bulk.unsent(label, error),
            }
            Ok(())
        })
    });
    bulk.after(imported)?.finish(&mut tool.out)
}
