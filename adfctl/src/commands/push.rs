//! `push`: messages from arguments, files, stdin.

use std::ffi::OsString;

use adf_queue_client::{MessageId, QueueName};
use clap::{ArgGroup, Args};
use ctl_core::bulk::{Action, Bulk, OnError};
use ctl_core::error::{CliError, Exit};
use ctl_core::input::{Argument, Framing, Input, named};
use ctl_core::output::{Column, Record, Shape};
use ctl_core::records::is_blank;
use ctl_core::units;

use crate::link::Link;
use crate::tool::Tool;
use crate::{messages, names};

/// The end of `push --help`.
pub const HELP: &str = "\
Protocol: rpush, or lpush with --left; createqueue with --create.
Prints the id of each message as soon as the server has confirmed it; ids count from 1 in each queue.
BODY is the body itself, @FILE is a file, - is stdin (also when no BODY is given), @@x is the text @x.
The server keeps messages in memory only, and nothing creates a queue but createqueue.
A body has up to 65,535 bytes in binary frames, and 1 byte to 10 MiB over HTTP (-s http://...); JSON carries text only.
When a connection breaks during a push, nobody knows whether the message is in the queue: it is not sent again.

Examples:
  adfctl push /mail 'hello'
  adfctl push /mail @letter.bin --create
  seq 1000 | adfctl push /numbers --lines
  find . -print0 | adfctl push -Q /files -0";

/// Arguments of `push`.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("framing"))]
pub struct PushArgs {
    /// The queue, unless -Q names it; then bodies: text, @FILE, or - for stdin
    #[arg(value_names = ["QUEUE", "BODY|@FILE|-"], num_args = 0.., allow_hyphen_values = false)]
    words: Vec<OsString>,

    /// The queue, by flag
    #[arg(short = 'Q', long, value_name = "QUEUE")]
    queue: Option<String>,

    /// Add at the left end, where messages are pulled next
    #[arg(long)]
    left: bool,

    /// Create the queue if it does not exist
    #[arg(long)]
    create: bool,

    /// All of stdin or of the file is one body (the default)
    #[arg(long, group = "framing")]
    whole: bool,

    /// One message per line
    #[arg(long, group = "framing")]
    lines: bool,

    /// One message per NUL-terminated record
    #[arg(short = '0', long = "null", group = "framing")]
    null: bool,

    /// One message record per line, as `pull -o ndjson` writes them; the queue is the one that is named here
    #[arg(long, group = "framing")]
    ndjson: bool,

    /// Push each body N times
    #[arg(short = 'c', long, value_name = "N", default_value_t = 1)]
    count: u64,

    /// What to do when an item fails
    #[arg(long, value_name = "WHAT", default_value = "continue")]
    on_error: OnError,
}

/// Messages that were pushed.
pub static PUSHED: Shape = Shape::rows(
    "messageid",
    &[Column::new("messageid", "ID"), Column::on_request("queue", "QUEUE")],
);

/// A body, or why a record has none; with the record's name.
type Item = (String, Result<Vec<u8>, CliError>);

/// Runs `push`.
///
/// # Errors
/// As documented in the table of exit codes.
pub fn run(tool: &mut Tool, mut args: PushArgs) -> Result<Exit, CliError> {
    let queue = args.take_queue()?;
    if args.words.is_empty() {
        args.words.push("-".into());
        if tool.input.is_terminal() {
            tool.messages.note("reading the body from the terminal; Ctrl-D ends it");
        }
    }
    let limit = tool.link.max_body()?;
    let mut items: Box<dyn Iterator<Item = Item>> = Box::new(std::iter::empty());
    for word in &args.words {
        items = Box::new(items.chain(args.items(word, limit, &mut tool.input)?));
    }
    if tool.globals.dry_run {
        return dry_run(tool, items, &args, &queue);
    }
    if args.create {
        let create = format!("createqueue {queue}");
        tool.link.ask(create, |client| client.ensure_queue(queue.clone()))?;
    }
    push_all(tool, items, &args, &queue)
}

impl PushArgs {
    /// The queue, which is the first word unless a flag names it.
    fn take_queue(&mut self) -> Result<QueueName, CliError> {
        if let Some(queue) = &self.queue {
            return names::queue(queue);
        }
        if self.words.is_empty() {
            return Err(names::no_queue());
        }
        let word = self.words.remove(0);
        let text = word.to_str().ok_or_else(|| {
            CliError::bad_data(format!("queue name {} is not UTF-8", word.to_string_lossy()))
        })?;
        names::queue(text)
    }

    fn items(
        &self,
        word: &OsString,
        limit: u64,
        input: &mut Input,
    ) -> Result<Box<dyn Iterator<Item = Item>>, CliError> {
        let framing = Framing::of(self.lines || self.ndjson, self.null);
        let ndjson = self.ndjson;
        // JSON may need six bytes for one, and has other fields.
        let longest = if ndjson { limit.saturating_mul(6).saturating_add(4096) } else { limit };
        let records = named(Argument::parse(word), "body".to_owned(), framing, longest, input)?;
        let records = records.filter(move |(_, bytes)| !(ndjson && is_blank(bytes)));
        let read = move |(label, bytes): Item| {
            let body = bytes.and_then(|bytes| match ndjson {
                true => messages::parse(&bytes).map(|described| described.body),
                false => Ok(bytes),
            });
            (label, body)
        };
        let count = usize::try_from(self.count).unwrap_or(usize::MAX);
        Ok(Box::new(records.map(read).flat_map(move |item| repeat(item, count))))
    }
}

fn repeat((label, body): Item, times: usize) -> Box<dyn Iterator<Item = Item>> {
    match body {
        Ok(body) => Box::new(std::iter::repeat_n((label, body), times).map(|(l, b)| (l, Ok(b)))),
        bad => Box::new(std::iter::once((label, bad))),
    }
}

fn dry_run(
    tool: &mut Tool,
    items: impl Iterator<Item = Item>,
    args: &PushArgs,
    queue: &QueueName,
) -> Result<Exit, CliError> {
    let mut count = 0_u64;
    for (label, body) in items {
        body.map_err(|error| error.context(label))?;
        count += 1;
    }
    let record = Record::new().with("dry_run", true).with("messages", count);
    let end = if args.left { "left" } else { "right" };
    let sentence = format!("would push {} to the {end} of {queue}", units::count(count, "message"));
    tool.out.done_with(&record, &["messages"], &sentence)?;
    Ok(Exit::Done)
}

fn push_all(
    tool: &mut Tool,
    items: impl Iterator<Item = Item>,
    args: &PushArgs,
    queue: &QueueName,
) -> Result<Exit, CliError> {
    let action = Action { past: "pushed", noun: "message", place: format!("to {queue}") };
    let mut bulk = tool.bulk(action, args.on_error, None)?;
    let gate = bulk.gate();
    tool.out.style.prefer_names();
    let mut list = tool.out.list(&PUSHED)?;
    for (label, body) in items {
        if !gate.is_open() {
            break;
        }
        let pushed = body.and_then(|body| push(&mut tool.link, queue, body, args.left));
        let counted = match pushed {
            Ok(id) => {
                bulk.success();
                let record = Record::new().with("messageid", id.get());
                list.push(record.with("queue", queue.as_str()))
            }
            Err(error) => fail(&mut bulk, label, error),
        };
        if let Err(error) = counted {
            return Err(bulk.abort(error));
        }
    }
    let exit = bulk.finish_quietly()?;
    list.finish()?;
    Ok(exit)
}

/// Without its queue no message can be pushed, so there is no need to try the others.
fn fail(bulk: &mut Bulk, label: String, error: CliError) -> Result<(), CliError> {
    if error.code == crate::error::QUEUE_NOT_FOUND {
        return Err(error);
    }
    bulk.failure(label, error)
}

/// Adds a message at one end of a queue.
///
/// # Errors
/// The server's refusal, or the failure of the connection.
pub fn push(
    link: &mut Link,
    queue: &QueueName,
    body: Vec<u8>,
    left: bool,
) -> Result<MessageId, CliError> {
    let action = if left { "lpush" } else { "rpush" };
    link.ask(format!("{action} {queue} {}", body.len()), |client| match left {
        true => client.lpush(queue.clone(), body),
        false => client.rpush(queue.clone(), body),
    })
}
