//! `tap`: a relay between applications and their server that shows what they send each other.
//!
//! The relay has its own thread and waits only for its sockets. What is shown goes through a bounded queue, and
//! what does not fit there is dropped and counted.

mod connection;
mod cutter;
mod decoder;
mod relay;
mod summary;

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use queue_core::lock;

use self::connection::{Choice, Item, Line, News};
pub use self::decoder::{Decoder, Look, Role, Said, Side};
use self::relay::Target;
use self::summary::Summary;
use crate::context::{Context, Tool};
use crate::envelope::Decode;
use crate::error::{CliError, Exit};
use crate::link::Link;
use crate::output::messages::Messages;
use crate::output::{Column, Format, List, Memory, Output, Shape, Style};
use crate::rules::filter::{self, Field, Fields, FilterArgs};
use crate::system::files::Notice;
use crate::system::signals::Interrupts;
use crate::system::socket::{Listener, Place, unix_path};
use crate::system::{listen, process};
use crate::text::{escape, units};

/// Its name.
pub(crate) const VERB: &str = "tap";

/// The fields that its filters can name.
pub const FIELDS: &[Field] = <Line as Fields>::FIELDS;

/// Arguments of `tap`.
#[derive(Debug, Args)]
pub struct TapArgs {
    /// Address that applications connect to; port 0 picks a free port, unix:PATH is a Unix socket
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0")]
    listen: String,

    /// Server to relay to [default: as for other commands]
    #[arg(long, value_name = "ADDR")]
    to: Option<String>,

    /// Allow addresses that other machines can reach
    #[arg(long)]
    allow_remote: bool,

    /// Write the address to this file once connections are accepted
    #[arg(long, value_name = "FILE")]
    ready_file: Option<PathBuf>,

    /// Show only lines that match, e.g. verb==put, size>1k or body~=REGEX (in its first 4 KiB); repeated filters must
    /// all match
    #[arg(long, value_name = filter::VALUE)]
    filter: Vec<String>,

    /// Show only replies that took at least this long
    #[arg(long, value_name = "DUR", value_parser = units::duration)]
    slow: Option<Duration>,

    /// Number of bytes to show of each body
    #[arg(long, value_name = "BYTES", default_value_t = 64, value_parser = clap::value_parser!(u16).range(..=4096))]
    body: u16,

    /// Print only the summary, on stdout
    #[arg(long, conflicts_with_all = ["filter", "slow"])]
    summary: bool,

    /// Sort the summary by this column
    #[arg(long, alias = "sort", value_name = "COLUMN", requires = "summary")]
    sort_by: Option<String>,
}

/// Maximum number of lines waiting to be shown.
const ROOM: usize = 8192;
/// How often signals are checked and output is flushed.
const TICK: Duration = Duration::from_millis(50);
/// How often dropped lines are reported.
const OFTEN: Duration = Duration::from_secs(1);
/// Default time limit for connecting to the server.
const PATIENCE: Duration = Duration::from_secs(5);

static LINES: Shape = Shape::rows(
    "verb",
    &[
        Column::new("ts", "TIME"),
        Column::new("connection", "CONN"),
        Column::new("from", "FROM"),
        Column::new("verb", "VERB"),
        Column::new("size", "SIZE"),
        Column::new("duration_ms", "MS"),
        Column::new("args", "ARGS"),
        Column::on_request("bytes", "BYTES"),
        Column::on_request("error", "ERROR"),
        Column::wide("to", "TO"),
        Column::new("body", "BODY"),
    ],
);

/// Runs `tap`; `decoder` makes one for each connection.
///
/// # Errors
/// Flags that are wrong (2), an address that cannot be bound (69), a ready file that cannot be written (74).
pub fn run<T: Tool, D: Decoder>(
    context: &mut Context<T>,
    args: &TapArgs,
    decoder: fn() -> D,
) -> Result<Exit, CliError> {
    let to = server(context, args.to.as_deref())?;
    context.refuse_dry_run("tap", "a tap changes nothing by itself")?;
    let choice = choice(context, args)?;
    let interrupts = context.interrupts()?;
    let runtime = listen::runtime()?;
    let bound = runtime.block_on(async { Listener::bind(&args.listen, args.allow_remote, "tap") });
    let (listener, address) = bound?;
    let messages = context.messages.stamped();
    let shown = escape::line(&address);
    messages.note(format!("tap listening on {shown}, relaying to {to}"));
    let ready = args.ready_file.as_deref().map(|path| Notice::write(path, &address)).transpose()?;
    let (lines, items) = sync_channel(ROOM);
    let news = Arc::new(News {
        lines,
        dropped: AtomicU64::new(0),
        connections: AtomicU64::new(0),
        summary: Mutex::new(Summary::default()),
        choice,
        is_down: AtomicBool::new(false),
    });
    let patience = context.link.dialer().plan().connect_timeout.unwrap_or(PATIENCE);
    let stop = AtomicBool::new(false);
    let exit = thread::scope(|scope| {
        let (target, news, stopping) = (Target { place: to, patience }, &news, &stop);
        let relay = move || relay::run(runtime, listener, &target, news, stopping, decoder);
        let relay = thread::Builder::new().name("relay".to_owned()).spawn_scoped(scope, relay);
        let relay = relay.map_err(|error| process::no_thread(&error))?;
        let is_over = || relay.is_finished();
        let shown = show(&mut context.out, &messages, &interrupts, &items, news, is_over);
        stop.store(true, Ordering::Relaxed);
        let failed = |_| CliError::internal("the relay has failed: a bug in the tool");
        relay.join().map_err(failed).and(shown)
    })?;
    drop(ready);
    sum_up(&mut context.out, &messages, args, &news)?;
    Ok(exit)
}

/// The server to relay to.
fn server<T: Tool>(context: &mut Context<T>, to: Option<&str>) -> Result<Place, CliError> {
    let text = match to {
        Some(to) => to.to_owned(),
        None => context.link.dialer_mut().address()?,
    };
    let addresses = T::Link::parse(&text)?;
    let [address] = addresses.as_slice() else {
        return Err(CliError::usage(format!(
            "a tap needs exactly one server, but {text} names several"
        ))
        .hint("--to with one of them"));
    };
    let shown = address.to_string();
    if T::Link::is_tls(address) {
        return Err(CliError::usage(format!("a tap cannot read TLS, which {shown} uses"))
            .hint("the address of the same server without TLS"));
    }
    if let Some(path) = unix_path(&shown) {
        return Ok(Place::Unix(path.into()));
    }
    let place = shown.split_once("://").map_or(&*shown, |(_, place)| place);
    let place = place.split('/').next().unwrap_or(place);
    Ok(Place::Tcp(place.to_owned()))
}

fn choice<T: Tool>(context: &Context<T>, args: &TapArgs) -> Result<Choice, CliError> {
    if context.out.style.format == Format::Raw {
        return Err(CliError::usage("a tap truncates bodies").hint("--body 4096 -o ndjson"));
    }
    let filters = FilterArgs { filters: args.filter.clone() }.read::<Line>()?;
    let decodes = *context.out.style.decoding() != Decode::None;
    let body = args.body.into();
    Ok(Choice { is_silent: args.summary, filters, slow: args.slow, body, decodes })
}

/// Shows lines until a signal arrives. A reader that goes away ends the lines, but not the relay.
fn show(
    out: &mut Output,
    messages: &Messages,
    interrupts: &Interrupts,
    items: &Receiver<Item>,
    news: &News,
    is_over: impl Fn() -> bool,
) -> Result<Exit, CliError> {
    let is_short = out.style.format.is_for_people();
    let push = |list: Option<&mut List<'_>>, line: &Line| {
        list.map_or(Ok(()), |list| list.push(line.record(is_short, news.choice.body)))
    };
    let mut list =
        if news.choice.is_silent { None } else { Some(out.list(&LINES)?.live().eager()) };
    let mut told = (0, Instant::now());
    let exit = loop {
        if let Some(exit) = interrupts.requested() {
            break exit;
        }
        if is_over() {
            break Exit::Internal;
        }
        let done = match items.recv_timeout(TICK) {
            Ok(Item::Line(line)) => push(list.as_mut(), &line),
            Ok(Item::Warning(text)) => {
                messages.warn(text);
                Ok(())
            }
            Err(RecvTimeoutError::Timeout) => list.as_mut().map_or(Ok(()), List::flush),
            Err(RecvTimeoutError::Disconnected) => break Exit::Internal,
        };
        let dropped = news.dropped.load(Ordering::Relaxed);
        if dropped > told.0 && told.1.elapsed() >= OFTEN {
            let more = units::count(dropped - told.0, "more line");
            messages.warn(format!("{more} dropped: the reader is too slow"));
            told = (dropped, Instant::now());
        }
        match done {
            Ok(()) => {}
            Err(error) if error.is_broken_pipe() => {
                messages.warn("the reader of the lines is gone: relaying continues without them");
                list = None;
            }
            Err(error) => return Err(error),
        }
    };
    let is_deserted = list.is_none() && !news.choice.is_silent;
    for item in items.try_iter() {
        if let Item::Line(line) = item {
            push(list.as_mut(), &line)?;
        }
    }
    list.map_or(Ok(()), List::finish)?;
    if is_deserted {
        *out = Output::to(Box::new(io::sink()), out.style.clone());
    }
    Ok(exit)
}

/// Summarises the traffic.
fn sum_up(
    out: &mut Output,
    messages: &Messages,
    args: &TapArgs,
    news: &News,
) -> Result<(), CliError> {
    let dropped = news.dropped.load(Ordering::Relaxed);
    let connections = news.connections.load(Ordering::Relaxed);
    let records = lock(&news.summary).records();
    let connections = units::count(connections, "connection");
    messages.note(format!("{connections}, {} dropped", units::count(dropped, "line")));
    if args.summary {
        out.style.sort_by.clone_from(&args.sort_by);
        out.list(&summary::SHAPE)?.all(records)?;
    } else if !records.is_empty() {
        let text = Memory::default();
        let style = Style { format: Format::Table, ..Style::default() };
        let mut table = Output::to(Box::new(text.clone()), style);
        table.list(&summary::SHAPE)?.all(records)?;
        text.text().lines().for_each(|line| messages.note(line));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
