//! `wait`: until a condition is true.

use adf_queue_client::{QueueName, QueueStats};
use clap::Args;
use ctl_core::commands::wait::{self, Count, Look, WaitFlags};
use ctl_core::error::{CliError, Exit};
use ctl_core::input::named::One;
use ctl_core::link::Link as _;
use ctl_core::rules::filter::Filter;
use ctl_core::text::units;

use crate::error::{NO_QUEUE, no_queue};
use crate::link::or_near;
use crate::names::Queue;
use crate::tool::Tool;

/// The end of `wait --help`.
pub const HELP: &str = "\
Protocol: the status page, over HTTP on the same port; ping.
Conditions:
  empty              the queue has no ready and no pulled messages
  ready>=N           and likewise == != < <= > with ready, pulled, waiting
  queue-exists       a queue of this name exists
  server             the server answers
Waits for things that do not exist yet; a missing queue counts as empty unless --must-exist is given.
--timeout limits the whole wait (default 60s); when it expires, the exit code is 124.

Examples:
  adfctl wait --for server --timeout 30s
  adfctl wait --for empty /mail --stable 3
  adfctl wait --for 'waiting>=4' -Q /mail";

/// Arguments of `wait`.
#[derive(Debug, Args)]
pub struct WaitArgs {
    #[command(flatten)]
    queue: One<Queue>,

    #[command(flatten)]
    wait: WaitFlags,
}

/// The conditions that are not on counts.
const WORDS: &str = "empty, queue-exists, server";

enum Goal {
    Empty,
    Counts(Filter),
    QueueExists,
    Server,
}

/// Runs `wait`.
///
/// # Errors
/// As documented in the table of exit codes.
pub fn run(tool: &mut Tool, args: &WaitArgs) -> Result<Exit, CliError> {
    let goal = Goal::parse(&args.wait.condition)?;
    let has_queue = !matches!(goal, Goal::Server);
    let queue = has_queue.then(|| args.queue.name_or_usual(tool.settings())).transpose()?;
    let (must_exist, mut is_told) = (args.wait.must_exist, false);
    let subject = ("queue", queue.as_ref().map(QueueName::to_string));
    wait::until(tool, &args.wait, subject, |tool| match &queue {
        Some(queue) => {
            let stats = tool.link.queue_stats(queue)?;
            if stats.is_none() && !std::mem::replace(&mut is_told, true) {
                let meant = or_near(&mut tool.link, queue.as_str());
                if !meant.is_empty() {
                    tool.messages.note(format!("{NO_QUEUE}{queue}{meant}"));
                }
            }
            look(&goal, queue, stats, must_exist)
        }
        None => wait::answers(tool.link.ping(1)),
    })
}

impl Goal {
    fn parse(text: &str) -> Result<Self, CliError> {
        match text {
            text if wait::EMPTY.contains(&text) => Ok(Self::Empty),
            "queue-exists" => Ok(Self::QueueExists),
            "server" => Ok(Self::Server),
            text => wait::on_counts(text, ("queue", WORDS), &counts(None)).map(Self::Counts),
        }
    }
}

/// Whether the condition holds, and what was seen.
fn look(
    goal: &Goal,
    queue: &QueueName,
    stats: Option<QueueStats>,
    must_exist: bool,
) -> Result<Look, CliError> {
    if stats.is_none() && must_exist {
        return Err(no_queue(queue));
    }
    match goal {
        Goal::QueueExists => {
            let seen = if stats.is_some() { "the queue" } else { "no such queue" };
            Ok((stats.is_some(), seen.to_owned()))
        }
        Goal::Counts(condition) => Ok(wait::seen(condition, &counts(stats.as_ref()))),
        Goal::Empty | Goal::Server => {
            let [(_, ready), (_, pulled), _] = counts(stats.as_ref());
            let left = ready.saturating_add(pulled);
            Ok((left == 0, units::count(left, "message")))
        }
    }
}

/// The values that conditions can name; all 0 for a queue that does not exist.
fn counts(stats: Option<&QueueStats>) -> [Count; 3] {
    let of = |count: fn(&QueueStats) -> u64| stats.map_or(0, count);
    [
        ("ready", of(|stats| stats.ready)),
        ("pulled", of(|stats| u64::try_from(stats.pulled).unwrap_or(0))),
        ("waiting", of(|stats| stats.waiting)),
    ]
}
