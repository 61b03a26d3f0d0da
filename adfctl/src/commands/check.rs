//! `check`: a monitoring plugin and a gate for CI, with its own exit codes 0 to 3.

use adf_queue_client::QueueStats;
use clap::{Args, Subcommand};
use ctl_core::commands::check::{self, CheckFlags, Measured, Metric, Problem, Subject};
use ctl_core::error::{CliError, Exit};
use ctl_core::input::glob::Patterns;
use ctl_core::input::named::One;
use ctl_core::link::Link as _;
use ctl_core::output::messages::Messages;
use ctl_core::rules::metrics::{Group, Measurable};
use ctl_core::text::units::milliseconds;

use super::queues::list;
use super::roundtrip::roundtrip;
use crate::error::no_queue;
use crate::link::{Link, with_near_queue};
use crate::names::Queue;
use crate::tool::Tool;

/// The end of `check --help`.
pub const HELP: &str = "\
Protocol: the status page, over HTTP on the same port; ping; createqueue to deletequeue for roundtrip.
Thresholds alert where they hold, 'ready>100' or 'rtt>50ms', or outside a range, ready=100 (adfctl help comparisons).
Metrics:
  server:     queues connections rtt
  a queue:    ready pulled waiting rtt
  roundtrip:  rtt (milliseconds)
A queue with ready messages and no workers is CRITICAL, unless -c says what is normal (waiting=0: is always fine). The
server knows no workers, so this means no waiting pulls and no pulled messages. A queue that does not exist counts as
empty, unless --must-exist is given. roundtrip creates a temporary queue, pushes a message with every byte
value (in JSON: every ASCII character), pulls, gives back, pulls again and deletes it, and proves that the server stores
and returns messages; its rtt is that of all steps.
With several servers, each value is for one of them, and the verdict is the most severe one; a server that is down is
CRITICAL.
Exit codes: 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN (also for wrong arguments).
--timeout defaults to 2s.

Examples:
  adfctl check queue /mail -w ready=100 -c ready=1000 -c waiting=1:
  adfctl check queues '/mail*' '!/mail.test' -c ready=1000
  adfctl check roundtrip -c rtt=50";

/// The metrics that thresholds can name.
pub const METRICS: &[Measurable] = &[
    Measurable { what: "server", groups: &[("", &["queues", "connections"]), RTT] },
    Measurable { what: "queue", groups: &[QUEUE, RTT] },
    Measurable { what: "queues", groups: &[QUEUE] },
    Measurable { what: "roundtrip", groups: &[RTT] },
];

const QUEUE: Group = ("", &["ready", "pulled", "waiting"]);
const RTT: Group = ("ms", &["rtt"]);

/// Arguments of `check`.
#[derive(Debug, Args)]
pub struct CheckArgs {
    #[command(subcommand)]
    what: What,

    #[command(flatten)]
    flags: CheckFlags,
}

#[derive(Debug, Subcommand)]
enum What {
    /// The server as a whole
    Server,
    /// One queue
    Queue {
        #[command(flatten)]
        queue: One<Queue>,
    },
    /// Every queue matching a pattern
    Queues(Patterns),
    /// Push a message, pull it back, delete it
    Roundtrip,
}

/// Runs `check`. Failures become verdicts.
///
/// # Errors
/// Only write failures.
pub fn run(tool: &mut Tool, args: &CheckArgs) -> Result<Exit, CliError> {
    let messages = tool.messages.clone();
    let subject = match &args.what {
        What::Server => Subject::one("server", "server"),
        What::Queue { queue } => {
            Subject::one("queue", queue.text().unwrap_or_else(|| "queue".to_owned()))
        }
        What::Queues(_) => Subject { many: true, ..Subject::one("queue", "queues") },
        What::Roundtrip => Subject { changes: true, ..Subject::one("server", "roundtrip") },
    };
    check::run(tool, &args.flags, subject, Link::side, |link| {
        measure(link, &args.what, &messages).into()
    })
}

fn measure(link: &mut Link, what: &What, messages: &Messages) -> Result<Measured, CliError> {
    if matches!(what, What::Roundtrip) {
        return roundtrip(link, messages).map(Measured::from);
    }
    let rtt = rtt(link)?;
    match what {
        What::Queue { queue } => {
            let name = queue.name_or_usual(link.dialer.settings())?;
            let stats = link.queue_stats(&name)?;
            let mut metrics = figures(name.as_str(), stats.as_ref());
            metrics.push(rtt.of(name.as_str()));
            Ok(match stats {
                Some(_) => metrics.into(),
                None => Measured::absent(with_near_queue(link, no_queue(&name)).message, metrics),
            })
        }
        What::Queues(patterns) => {
            let listed = list(link, |queue| patterns.want(queue))?;
            if let Some(why) = listed.incomplete {
                messages.warn(why);
            }
            if listed.queues.is_empty() {
                let why = format!("no queue matches {patterns}");
                return Ok(Measured::nothing(why, figures("", None)));
            }
            let queues = listed.queues.iter();
            let metrics = queues.flat_map(|stats| figures(&stats.name, Some(stats)));
            Ok(metrics.collect::<Vec<_>>().into())
        }
        What::Server | What::Roundtrip => {
            let stats = link.stats()?;
            Ok(vec![
                Metric::new("queues", stats.queue_count as f64, "").usual(),
                Metric::new("connections", stats.connections as f64, "").usual(),
                rtt,
            ]
            .into())
        }
    }
}

/// A round trip to the server.
fn rtt(link: &mut Link) -> Result<Metric, CliError> {
    let pong = link.ping(1).map_err(|error| error.context("server ping"))?;
    Ok(Metric::new("rtt", milliseconds(pong.took), "ms").usual())
}

/// A queue that does not exist counts as empty.
fn figures(name: &str, stats: Option<&QueueStats>) -> Vec<Metric> {
    let (ready, pulled, waiting) =
        stats.map_or((0, 0, 0), |stats| (stats.ready, stats.pulled, stats.waiting));
    let unattended = (ready > 0 && waiting == 0 && pulled <= 0)
        .then_some(Problem::Unattended("ready messages but no workers"));
    let metric = |key, value| Metric::new(key, value, "").of(name).usual();
    vec![
        metric("ready", ready as f64),
        metric("pulled", pulled as f64),
        Metric { problem: unattended, ..metric("waiting", waiting as f64) },
    ]
}
