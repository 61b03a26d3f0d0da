//! `queues`: the queues of the server with their counts.

use std::cmp::Reverse;

use clap::Args;
use ctl_core::context::fleet::{Answered, Fleet};
use ctl_core::error::{CliError, Exit};
use ctl_core::input::glob::{is_wanted, tell_unmatched};
use ctl_core::input::named::{self, Several};
use ctl_core::link::diagnosis::Diagnosis;
use ctl_core::output::messages::Messages;
use ctl_core::output::{Column, Record, Shape};
use ctl_core::text::units;

use adf_queue_client::QueueStats;

use crate::link::Link;
use crate::names::Queue;
use crate::tool::Tool;

/// The end of `queues --help`.
pub const HELP: &str = "\
Protocol: the status page, over HTTP on the same port.
The protocol itself cannot list queues, and the status page is made for people. It lists at most 100 queues, in no
particular order; a warning says if there are more (exit 3). Queues that are named without * and ? are found anyway.
WAITING counts waiting pulls, including those whose client has gone; PULLED counts messages not settled yet.

Examples:
  adfctl queues
  adfctl queues --interval 10s
  adfctl queues '/mail*' -o json
  test $(adfctl queues /mail --columns ready -o plain) -lt 1000";

/// Arguments of `queues`.
#[derive(Debug, Args)]
#[command(mut_args(|arg| named::pattern(arg, "Only queues matching one of these patterns (* and ?)")))]
pub struct QueuesArgs {
    #[command(flatten)]
    patterns: Several<Queue>,
}

/// Queues with their counts.
static QUEUES: Shape = Shape::rows(
    "queue",
    &[
        Column::new("queue", "QUEUE"),
        Column::new("waiting", "WAITING"),
        Column::new("pulled", "PULLED"),
        Column::new("ready", "READY"),
    ],
);

/// The queues of a server, as far as it lists them.
pub struct Listed {
    /// The matching ones, by name.
    pub queues: Vec<QueueStats>,
    /// The reason why there may be more.
    pub incomplete: Option<String>,
}

/// The requested queues that a server has, and the names of those that it is known to have.
type Asked = (Listed, Vec<String>);

/// Runs `queues`.
///
/// # Errors
/// As documented in the table of exit codes.
pub fn run(tool: &mut Tool, args: &QueuesArgs) -> Result<Exit, CliError> {
    let patterns = args.patterns.texts();
    let mut fleet = Fleet::of(tool)?;
    fleet.expect(&mut tool.out, &QUEUES)?;
    let all = fleet.ask(&mut tool.link, |link| asked(link, &patterns))?;
    let mut list = fleet.list(&mut tool.out, &QUEUES)?;
    for (server, (listed, _)) in &all {
        for queue in &listed.queues {
            let record =
                Record::new().of_server(server.as_deref()).with("queue", queue.name.as_str());
            list.push(figures(record, queue))?;
        }
    }
    list.finish()?;
    let names = all.iter().flat_map(|(_, (_, names))| names.iter().map(String::as_str));
    tell_unmatched(&tool.messages, "queues", &patterns, names);
    Ok(tell_incomplete(&tool.messages, all, fleet.exit()))
}

/// Reports which servers may have more, and returns the exit for that.
fn tell_incomplete(messages: &Messages, all: Vec<Answered<Asked>>, exit: Exit) -> Exit {
    let mut is_complete = true;
    for (server, (listed, _)) in all {
        let Some(why) = listed.incomplete else { continue };
        messages.warn(server.map_or(why.clone(), |server| format!("{server}: {why}")));
        is_complete = false;
    }
    if exit.is_done() && !is_complete { Exit::Partial } else { exit }
}

/// Queues that match, and those that are named, even if the page does not list them.
fn asked(link: &mut Link, patterns: &[String]) -> Result<Asked, CliError> {
    let mut listed = list(link, |_| true)?;
    let mut names: Vec<String> = listed.queues.iter().map(|queue| queue.name.clone()).collect();
    listed.queues.retain(|queue| is_wanted(&queue.name, patterns));
    let including = patterns.iter().filter(|pattern| !pattern.starts_with('!'));
    let (named, matched): (Vec<&String>, Vec<_>) =
        including.partition(|pattern| !pattern.contains(['*', '?']));
    if listed.incomplete.is_some() {
        for &name in &named {
            if !names.contains(name)
                && is_wanted(name, patterns)
                && let Some(found) = link.queue_stats(&crate::names::queue(name)?)?
            {
                names.push(found.name.clone());
                listed.queues.push(found);
            }
        }
        listed.queues.sort_by(|a, b| a.name.cmp(&b.name));
    }
    let are_all_named = matched.is_empty() && !named.is_empty();
    listed.incomplete = listed.incomplete.filter(|_| !are_all_named);
    Ok((listed, names))
}

fn figures(record: Record, queue: &QueueStats) -> Record {
    record.with("waiting", queue.waiting).with("pulled", queue.pulled).with("ready", queue.ready)
}

/// The requested queues.
///
/// # Errors
/// The failure of the connection, or a page that is not a status page.
pub fn list(link: &mut Link, wants: impl Fn(&str) -> bool) -> Result<Listed, CliError> {
    let stats = link.stats()?;
    let incomplete = (!stats.is_complete()).then(|| {
        let (shown, all) = (stats.queues.len(), stats.queue_count);
        format!("the server lists only {shown} of its {all} queues")
    });
    let mut queues = stats.queues;
    queues.retain(|queue| wants(&queue.name));
    queues.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(Listed { queues, incomplete })
}

/// The server's state, for `doctor`.
///
/// # Errors
/// The failure of the connection, or a page that is not a status page.
pub fn diagnose(link: &mut Link) -> Result<Diagnosis, CliError> {
    let transport = link.transport()?.to_string();
    let stats = link.stats()?;
    let is_unattended =
        |queue: &&QueueStats| queue.ready > 0 && queue.waiting == 0 && queue.pulled <= 0;
    let mut unattended: Vec<_> = stats.queues.iter().filter(is_unattended).collect();
    unattended.sort_by_key(|queue| (Reverse(queue.ready), queue.name.as_str()));
    let unattended: Vec<_> = unattended.into_iter().map(|queue| queue.name.as_str()).collect();
    let told = format!("it lists only {} of its {} queues", stats.queues.len(), stats.queue_count);
    Ok(Diagnosis::default()
        .fact("version", stats.version.as_str())
        .fact("host", stats.host.as_str())
        .fact("transport", transport)
        .fact("queues", stats.queue_count)
        .fact("connections", stats.connections)
        .warn_if(!stats.is_complete(), told, "adfctl queues QUEUE, for the missing ones")
        .warn_if(
            !unattended.is_empty(),
            format!(
                "messages are ready, but no worker serves {}",
                units::first_of(&unattended, SHOWN)
            ),
            "adfctl queues, to see how many; adfctl work, to process them",
        ))
}

/// Number of queues that a warning names.
const SHOWN: usize = 5;
