//! `push`: messages from arguments, files, stdin.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;

use adf_queue_client::{Push, QueueName};
use clap::{ArgGroup, Args};
use ctl_core::bulk::{Action, BulkArgs};
use ctl_core::context::fleet::Fleet;
use ctl_core::error::{CliError, Exit};
use ctl_core::input::intake::{self, Batches, Cut};
use ctl_core::input::named::{self, Leading};
use ctl_core::input::own::OwnFirst;
use ctl_core::input::{Argument, Framing};
use ctl_core::output::progress::Meter;
use ctl_core::output::{Column, Record, Shape};

use crate::error::QUEUE_NOT_FOUND;
use crate::link::Link;
use crate::messages;
use crate::names::Queue;
use crate::producer::{NewMessage, create_queue, create_queues, push_batch};
use crate::tool::Tool;

/// The end of `push --help`.
pub const HELP: &str = "\
Protocol: rpush, or lpush with --left; createqueue with --create.
Prints the id of each message as soon as the server confirms it; each queue numbers its messages from 1.
BODY is the text itself, @FILE a file, - stdin (also if no BODY is given), and @@x the text @x.
With --ndjson, each record may name its own queue; QUEUE is for those that name none, and otherwise not needed. import
--queue pushes all of them to one queue.
The server keeps messages in memory only, and only createqueue creates queues.
Bodies can have up to 65,535 bytes in binary frames, and 1 byte to 10 MiB over HTTP (-s http://...); JSON carries text
only.
Many messages are in flight at once (--batch) and arrive in the queue in the given order. If a connection breaks, it is
unknown which of those in flight have arrived: none is resent, and the last line says how many were acknowledged, how
many may have arrived, and how many were not sent.
With several servers, batches go to each in turn, and SERVER shows where a message went. A server that does not answer
at the start is named and gets no messages, which is no failure if the others take them; losing a server later ends
the command.

Examples:
  adfctl push /mail 'hello'
  adfctl push /mail @letter.bin --create
  seq 1000 | adfctl push /numbers --lines
  find . -print0 | adfctl push -Q /files -0";

/// Arguments of `push`.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("framing"))]
pub struct PushArgs {
    #[command(flatten)]
    queue: Leading<Queue>,

    /// Bodies: text, @FILE, or - for stdin
    #[arg(value_name = "BODY|@FILE|-", allow_hyphen_values = false)]
    bodies: Vec<OsString>,

    /// Push at the left end, where the next pull takes messages
    #[arg(long)]
    left: bool,

    /// Create the queue if it does not exist
    #[arg(long)]
    create: bool,

    /// Use all of stdin or of the file as one body (the default)
    #[arg(hide_short_help = true, long, group = "framing")]
    whole: bool,

    /// One message per line, without its line end (LF or CRLF); an empty line is an empty message
    #[arg(long, group = "framing")]
    lines: bool,

    /// One message per NUL-terminated record
    #[arg(hide_short_help = true, short = '0', long = "null", group = "framing")]
    null: bool,

    /// One message record per line, as written by `pull -o ndjson`; QUEUE is for those without one
    #[arg(hide_short_help = true, long, group = "framing")]
    ndjson: bool,

    /// Push each body N times
    #[arg(long, value_name = "N", default_value_t = 1)]
    repeat: u64,

    #[command(flatten)]
    bulk: BulkArgs,
}

/// Messages that were pushed.
static PUSHED: Shape = Shape::rows(
    "messageid",
    &[Column::new("messageid", "ID"), Column::on_request("queue", "QUEUE")],
);

/// If all bodies are arguments, up to this size they are sent without a thread that reads ahead.
const USUAL_LIMIT: usize = 65_535;

/// Runs `push`.
///
/// # Errors
/// As documented in the table of exit codes.
pub fn run(tool: &mut Tool, args: PushArgs) -> Result<Exit, CliError> {
    let (queue, bodies) = args.queue.split_for(args.ndjson, &args.bodies)?;
    let mut fleet = Fleet::of(tool)?;
    if !tool.globals.dry_run {
        fleet.expect(&mut tool.out, &PUSHED)?;
    }
    if args.queue.is_by_flag() && !tool.globals.dry_run {
        let exists = |queue: &QueueName| matches!(tool.link.queue_stats(queue), Ok(Some(_)));
        named::note_first_body::<Queue>(&tool.messages, &bodies, exists);
    }
    // Any of the servers may get a message, so all have to accept it.
    let limits = fleet.ask(&mut tool.link, Link::max_body)?;
    let limit = limits.into_iter().map(|(_, limit)| limit).min().unwrap_or_default();
    let sources = intake::sources(&bodies, &tool.input, &tool.messages);
    let simple = !args.ndjson && sources.iter().all(is_small);
    let known = simple.then(|| args.repeat.saturating_mul(sources.len() as u64));
    let framing = Framing::of(args.lines, args.null);
    let cut = if args.ndjson { Cut::Ndjson } else { Cut::Bodies(framing) };
    let push: fn(QueueName, Vec<u8>) -> Push = if args.left { Push::left } else { Push::right };
    let (to, ndjson, own) = (queue.clone(), args.ndjson, OwnFirst::new(&tool.messages));
    let make = move |label: &str, bytes: Vec<u8>| {
        let (named, body) = if ndjson { messages::parse(&bytes)? } else { (None, bytes) };
        let queue = own.name::<Queue>(label, named, to.clone())?;
        Ok(NewMessage { push: push(queue, body), label: label.to_owned() })
    };
    let (items, meter) =
        intake::chain(sources, cut, limit, (&mut tool.input, &tool.messages), make)?;
    let items = intake::take(intake::repeat(items, args.repeat), args.bulk.items.count);
    let common = queue.filter(|_| !ndjson);
    let place = common.as_ref().map(ToString::to_string);
    let place = place.unwrap_or_else(|| "the queues of their records".to_owned());
    if tool.globals.dry_run {
        let end = if args.left { "left" } else { "right" };
        let place = format!("to the {end} of {place}");
        return intake::would(&mut tool.out, items, ("push", "message", &place));
    }
    if let Some(queue) = common.filter(|_| args.create) {
        fleet.ask(&mut tool.link, |link| create_queue(link, &queue))?;
    }
    let batches = Batches::of(items, simple, limit, args.bulk.window(), NewMessage::size)?;
    push_all(tool, fleet, (batches, meter), (&args, known), place)
}

fn is_small(source: &Argument) -> bool {
    matches!(source, Argument::Literal(body) if body.len() <= USUAL_LIMIT)
}

fn push_all(
    tool: &mut Tool,
    mut fleet: Fleet<Link>,
    (batches, meter): (Batches<NewMessage>, Option<Meter>),
    (args, known): (&PushArgs, Option<u64>),
    place: String,
) -> Result<Exit, CliError> {
    let interrupts = tool.interrupts()?;
    let action = Action { past: "pushed", noun: "message", place: format!("to {place}") };
    let mut bulk = tool.bulk(action, &args.bulk.items, known)?;
    // A number names a message of one server only.
    let servers = if fleet.is_several() {
        fleet.ask(&mut tool.link, |link| link.client().map(drop))?
    } else {
        tool.out.style.prefer_names();
        vec![(None, ())]
    };
    let mut turns = servers.into_iter().map(|(server, ())| server).cycle();
    let mut list = fleet.list(&mut tool.out, &PUSHED)?;
    bulk.measure(meter);
    bulk.beside(&list);
    let mut created: BTreeMap<Option<String>, BTreeSet<QueueName>> = BTreeMap::new();
    let pushed = batches.each(&mut bulk, &interrupts, |bulk, good| {
        let server = turns.next().flatten();
        let link = fleet.at(&mut tool.link, server.as_deref());
        if args.create && args.ndjson {
            create_queues(link, &good, created.entry(server.clone()).or_default())?;
        }
        push_batch(link, good, |label, queue, outcome| match outcome {
            Ok(id) => {
                bulk.success();
                let record = Record::new().of_server(server.as_deref()).with("messageid", id.get());
                list.push(record.with("queue", queue.as_str()))
            }
            // Without their queue, the others cannot be pushed either, so there is no need to try.
            Err(error) if !args.ndjson && error.code == QUEUE_NOT_FOUND => Err(error),
            Err(error) => {
                bulk.unsent(label, error);
                Ok(())
            }
        })?;
        list.flush()
    });
    bulk.finish_list(pushed, list)
}
