//! `push`: messages from arguments, files, stdin.

use std::ffi::OsString;

use adf_queue_client::{MessageId, Push, QueueName};
use clap::{ArgGroup, Args};
use ctl_core::commands::bulk::{Action, Bulk, BulkArgs};
use ctl_core::error::{CliError, Exit};
use ctl_core::input::intake::{self, Batches, Cut};
use ctl_core::input::named::{self, Leading};
use ctl_core::input::{Argument, Framing, Meter};
use ctl_core::link::fleet::Fleet;
use ctl_core::output::{Column, Record, Shape};

use crate::link::Link;
use crate::messages;
use crate::names::Queue;
use crate::producer::{NewMessage, push_batch};
use crate::tool::Tool;

/// The end of `push --help`.
pub const HELP: &str = "\
Protocol: rpush, or lpush with --left; createqueue with --create.
Prints the id of each message as soon as the server confirms it; each queue numbers its messages from 1.
BODY is the text itself, @FILE a file, - stdin (also if no BODY is given), and @@x the text @x.
The server keeps messages in memory only, and only createqueue creates queues.
Bodies can have up to 65,535 bytes in binary frames, and 1 byte to 10 MiB over HTTP (-s http://...); JSON carries text
only.
Many messages are in flight at once (--batch) and arrive in the queue in the given order. If a connection breaks, it is
unknown which of those in flight have arrived: none is resent, and the last line says how many were acknowledged, how
many may have arrived, and how many were not sent.
With several servers, batches go to each in turn, and SERVER shows where a message went. A server that does not answer
at the start is named and gets no messages, and the exit code is that of its failure; losing a server later ends the
command.

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
    #[arg(long, group = "framing")]
    whole: bool,

    /// One message per line
    #[arg(long, group = "framing")]
    lines: bool,

    /// One message per NUL-terminated record
    #[arg(short = '0', long = "null", group = "framing")]
    null: bool,

    /// One message record per line, as written by `pull -o ndjson`; they all go to the queue given here
    #[arg(long, group = "framing")]
    ndjson: bool,

    /// Push each body N times
    #[arg(short = 'c', long, value_name = "N", default_value_t = 1)]
    count: u64,

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
    let (queue, bodies) = args.queue.split(&args.bodies)?;
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
    let known = simple.then(|| args.count.saturating_mul(sources.len() as u64));
    let framing = Framing::of(args.lines, args.null);
    let cut = if args.ndjson { Cut::Ndjson } else { Cut::Bodies(framing) };
    let push: fn(QueueName, Vec<u8>) -> Push = if args.left { Push::left } else { Push::right };
    let (to, ndjson) = (queue.clone(), args.ndjson);
    let make = move |label: &str, bytes: Vec<u8>| {
        let body = if ndjson { messages::parse(&bytes)?.body } else { bytes };
        Ok(NewMessage { push: push(to.clone(), body), label: label.to_owned() })
    };
    let (items, meter) = intake::chain(sources, cut, limit, &mut tool.input, make)?;
    let items = intake::take(intake::repeat(items, args.count), args.bulk.limit);
    if tool.globals.dry_run {
        let end = if args.left { "left" } else { "right" };
        let place = format!("to the {end} of {queue}");
        return intake::would(&mut tool.out, items, ("push", "message", &place));
    }
    if args.create {
        let create = format!("createqueue {queue}");
        fleet.ask(&mut tool.link, |link| {
            link.ask(create.clone(), |client| client.ensure_queue(queue.clone()))
        })?;
    }
    let batches = Batches::of(items, simple, limit, args.bulk.window(), NewMessage::size)?;
    push_all(tool, fleet, (batches, meter), (&args.bulk, known), &queue)
}

fn is_small(source: &Argument) -> bool {
    matches!(source, Argument::Literal(body) if body.len() <= USUAL_LIMIT)
}

fn push_all(
    tool: &mut Tool,
    mut fleet: Fleet<Link>,
    (batches, meter): (Batches<NewMessage>, Option<Meter>),
    (args, known): (&BulkArgs, Option<u64>),
    queue: &QueueName,
) -> Result<Exit, CliError> {
    let interrupts = tool.interrupts()?;
    let action = Action { past: "pushed", noun: "message", place: format!("to {queue}") };
    let mut bulk = tool.bulk(action, args, known)?;
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
    let pushed = batches.each(&mut bulk, &interrupts, |bulk, good| {
        let server = turns.next().flatten();
        let link = fleet.at(&mut tool.link, server.as_deref());
        push_batch(link, good, |label, queue, outcome| match outcome {
            Ok(id) => {
                bulk.success();
                let record = Record::new().of_server(server.as_deref()).with("messageid", id.get());
                list.push(record.with("queue", queue.as_str()))
            }
            Err(error) => fail(bulk, label, error),
        })?;
        list.flush()
    });
    let exit = bulk.after(pushed)?.finish_quietly()?;
    list.finish()?;
    Ok(if exit.is_done() { fleet.exit() } else { exit })
}

/// Without its queue, no message can be pushed, so there is no need to try the others.
fn fail(bulk: &mut Bulk, label: String, error: CliError) -> Result<(), CliError> {
    if error.code == crate::error::QUEUE_NOT_FOUND {
        return Err(error);
    }
    bulk.unsent(label, error);
    Ok(())
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
