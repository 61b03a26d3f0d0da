//! `pull`: takes messages, shows them or passes them to a command, and gives them back or finishes them.

mod exec;

use std::ffi::OsString;
use std::time::Duration;

use adf_queue_client::Delivery;
use clap::{Args, ValueEnum};
use ctl_core::bulk::{Action, OnError};
use ctl_core::error::{CliError, Exit};
use ctl_core::input::named::One;
use ctl_core::output::{BodiesArgs, Handover};
use ctl_core::text::units;

use crate::leaving::hand_over;
use crate::link::Link;
use crate::messages::{BODIES, label, record, record_with_request};
use crate::names::Queue;
use crate::taker::Taker;
use crate::tool::Tool;

/// The end of `pull --help`.
pub const HELP: &str = "\
Protocol: count, pull, then delete, lcancel, rcancel or close.
Over WebSocket, a message stays pulled only while its connection is open, so a single command cannot keep it. Without
--then, the connection is closed: the message is back in place, and a waiting client gets it. With --then lcancel or
rcancel, waiting clients are not woken. With --exec, the command gets the body on stdin; exit 0 deletes the message, and
anything else puts it back.
Over HTTP (-s http://...), a message stays pulled until any client settles it by the request id of its pull: without
--then it stays pulled, and the request id is printed, for adfctl settle.
Without --wait, only what is ready now is taken, and nothing ready is exit 1. If --wait expires, the exit code is 124.

Examples:
  adfctl pull /mail --wait 30s
  adfctl pull /mail -c 10 -o ndjson --then rcancel
  adfctl pull /mail --exec ./send
  adfctl -s http://127.0.0.1 pull /mail -o json";

/// Arguments of `pull`.
#[derive(Debug, Args)]
pub struct PullArgs {
    #[command(flatten)]
    take: TakeArgs,

    /// What to do with the message afterwards [default: give it back; over HTTP, leave it pulled]
    #[arg(long, value_name = "WHAT", conflicts_with = "exec")]
    then: Option<Then>,

    /// Command to run for each message, with its arguments; takes the rest of the line, so put other flags
    /// before it
    #[arg(long, value_name = "CMD", num_args = 1.., allow_hyphen_values = true)]
    exec: Vec<OsString>,
}

/// Arguments of `pull` and `pop`.
#[derive(Debug, Args)]
pub struct TakeArgs {
    #[command(flatten)]
    queue: One<Queue>,

    /// Wait this long for a message [default: 0]
    #[arg(long, value_name = "DUR", value_parser = units::duration)]
    wait: Option<Duration>,

    /// Take up to N messages
    #[arg(short, long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u64).range(1..))]
    pub count: u64,

    #[command(flatten)]
    bodies: BodiesArgs,
}

impl TakeArgs {
    /// Sets up the output, and returns the taker of messages.
    ///
    /// # Errors
    /// No queue is named, or its name is illegal.
    pub fn prepare(&self, tool: &mut Tool) -> Result<Taker, CliError> {
        self.bodies.prepare(&mut tool.out, &BODIES)?;
        let queue = self.queue.name_or_usual(tool.settings())?;
        let taker = Taker::new(queue, self.wait, tool.interrupts()?, &tool.messages);
        Ok(taker.showing(&tool.messages))
    }
}

impl PullArgs {
    /// Whether the messages go back to the server in the end.
    pub fn gives_back(&self) -> bool {
        self.then != Some(Then::Delete) && self.exec.is_empty()
    }
}

/// The value of `--then`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Then {
    /// Put it back at the left end.
    Lcancel,
    /// Put it back at the right end.
    Rcancel,
    /// Delete it once its output is written.
    Delete,
    /// Keep it until Ctrl-C.
    Hold,
}

/// Runs `pull`.
///
/// # Errors
/// As documented in the table of exit codes.
pub fn run(tool: &mut Tool, args: PullArgs) -> Result<Exit, CliError> {
    tool.refuse_dry_run("pull", "adfctl queues is read-only")?;
    let is_http = tool.link.side().is_http()?;
    if is_http && args.then == Some(Then::Hold) {
        let why = "over HTTP, a message stays pulled anyway, so there is nothing to hold";
        return Err(CliError::usage(why).hint("pull without --then"));
    }
    let interrupts = tool.interrupts()?;
    let taker = args.take.prepare(tool)?;
    if !args.exec.is_empty() {
        return exec::run(tool, &taker, &args.exec, args.take.count);
    }
    let held = take_many(tool, &taker, args.take.count)?;
    if held.is_empty() {
        interrupts.check()?;
        return Err(taker.nothing());
    }
    if args.then == Some(Then::Delete) {
        return delete(tool, held);
    }
    show(tool, &held, is_http).or_else(|error| {
        tool.link.side().give_back(&held)?;
        Err(error)
    })?;
    match args.then {
        Some(Then::Hold) => hold(tool, &held),
        Some(Then::Rcancel) => cancel(tool, &held, "right"),
        Some(_) => cancel(tool, &held, "left"),
        None if is_http => stays(tool, &held),
        None => give_back(tool, &held).map(|()| Exit::Done),
    }
}

fn take_many(tool: &mut Tool, taker: &Taker, count: u64) -> Result<Vec<Delivery>, CliError> {
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    let link = tool.link.side();
    let mut held: Vec<Delivery> = Vec::new();
    while held.len() < count {
        match taker.next(link, (count - held.len()).min(100)) {
            Ok(messages) if messages.is_empty() => break,
            Ok(messages) => held.extend(messages),
            Err(error) => {
                link.give_back(&held)?;
                return Err(error);
            }
        }
    }
    Ok(held)
}

fn show(tool: &mut Tool, held: &[Delivery], with_request: bool) -> Result<(), CliError> {
    let record = if with_request { record_with_request } else { record };
    tool.out.list(&BODIES)?.all(held.iter().map(record))
}

fn delete(tool: &mut Tool, held: Vec<Delivery>) -> Result<Exit, CliError> {
    let mut bulk = tool.bulk_of("deleted", "message", held.len() as u64)?;
    let interrupts = tool.interrupts()?;
    let mut out = Handover::new(tool.out.list(&BODIES)?, interrupts, &tool.messages)?;
    let deleted = hand_over(tool.link.side(), &mut out, held, true, &mut bulk);
    bulk.after(deleted)?.finish_quietly()
}

/// Puts messages back at one end. At the left end, the last one goes first, so that their order is kept.
fn cancel(tool: &mut Tool, held: &[Delivery], end: &str) -> Result<Exit, CliError> {
    let left = end == "left";
    let place = format!("at the {end} end");
    let action = Action { past: "put back", noun: "message", place };
    let mut bulk = tool.bulk(action, OnError::Continue, Some(held.len() as u64))?;
    let link = tool.link.side();
    let mut in_order: Vec<&Delivery> = held.iter().collect();
    if left {
        in_order.reverse();
    }
    let returned = in_order.into_iter().try_for_each(|message| {
        let outcome = put_back(link, message, left);
        bulk.count(label(message), outcome)
    });
    bulk.after(returned)?.finish_quietly()
}

/// Puts a message back at one end of its queue.
///
/// # Errors
/// The server's refusal, or the failure of the connection.
pub fn put_back(link: &mut Link, message: &Delivery, left: bool) -> Result<(), CliError> {
    let action = if left { "lcancel" } else { "rcancel" };
    let what = format!("{action} {} (pull {})", message.queue(), message.request_id());
    link.ask(what, |client| match left {
        true => client.lcancel(message),
        false => client.rcancel(message),
    })
}

/// Over HTTP, only their request ids give access to them again.
fn stays(tool: &mut Tool, held: &[Delivery]) -> Result<Exit, CliError> {
    let program = match tool.session {
        Some(_) => String::new(),
        None => format!("adfctl -s {} ", tool.link.over_http()?.dialer.address()?),
    };
    for message in held {
        let (queue, id) = (message.queue(), message.request_id());
        tool.messages.note(format!(
            "{} stays pulled as {id}: {program}settle delete {queue} {id} deletes it, and left or right puts it back",
            label(message)
        ));
    }
    Ok(Exit::Done)
}

/// Closes the connection, which gives the messages back.
fn give_back(tool: &mut Tool, held: &[Delivery]) -> Result<(), CliError> {
    let link = tool.link.side();
    if link.has_lost() {
        return Err(lost(held));
    }
    link.give_back(held)?;
    tool.messages.note(format!("{} back in place: the connection was closed", those(held)));
    Ok(())
}

/// The server has closed the connection itself, or is gone.
fn lost(held: &[Delivery]) -> CliError {
    let those = those(held);
    CliError::unavailable(format!(
        "the connection was lost; unless the server stopped, {those} back in place"
    ))
}

/// "message 7 of /q is", or "3 messages are".
fn those(held: &[Delivery]) -> String {
    match held {
        [message] => format!("{} is", label(message)),
        all => format!("{} messages are", all.len()),
    }
}

/// Keeps the connection until a signal arrives, then closes it, which gives the messages back.
fn hold(tool: &mut Tool, held: &[Delivery]) -> Result<Exit, CliError> {
    let interrupts = tool.interrupts()?;
    tool.messages.note("holding until Ctrl-C, which gives messages back");
    loop {
        if interrupts.sleep(Duration::from_secs(1)).is_err() {
            give_back(tool, held)?;
            return Ok(interrupts.requested().unwrap_or(Exit::Interrupted));
        }
        if tool.link.side().has_lost() {
            return Err(lost(held));
        }
    }
}
