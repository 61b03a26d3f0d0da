//! `bench`: how fast a server answers.

use std::time::Duration;

use adf_queue_client::{Push, QueueName};
use bytes::Bytes;
use clap::{Args, ValueEnum};
use ctl_core::commands::bench::{self, Client, Done, Kind, Plan};
use ctl_core::error::{CliError, Exit};
use ctl_core::link::Link as _;
use ctl_core::system::signals::Interrupts;

use crate::error::{QUEUE_EXISTS, cli_error};
use crate::link::Link;
use crate::tool::Tool;
use crate::{names, scratch};

/// The end of `bench --help`.
pub const HELP: &str = "\
Protocol: createqueue, rpush, pull, delete, count, deletequeue, in a temporary queue.
  push     push a message
  pull     pull and delete a message that was pushed beforehand
  cycle    push a message, pull one, delete it
  latency  a round trip without side effects
A named queue must not exist: it is created at the start and deleted at the end, with everything in it.
Without --rate, each client sends its next operations once the previous ones are answered (a closed loop), so a slow
reply hides how long others would have waited. With --rate, operations are due by the clock, and their times count from
then.
Ctrl-C ends the run, prints the results so far and deletes the queue. Failed operations give exit 3, a --fail-if that
holds exit 1. The last row is the total of all clients.

Examples:
  adfctl bench push -j 4 --batch 100 --duration 10s --size 1k..16k
  adfctl bench cycle --rate 500 --duration 30s --fail-if 'p99>50ms'";

/// Arguments of `bench`.
#[derive(Debug, Args)]
pub struct BenchArgs {
    /// What to measure: push, pull, cycle, latency
    #[arg(value_name = "MODE", default_value = "cycle", hide_possible_values = true)]
    mode: Mode,

    /// Queue to use [default: one with a random name]
    #[arg(short = 'Q', long, value_name = "QUEUE")]
    queue: Option<String>,

    #[command(flatten)]
    bench: bench::LoadArgs,
}

/// The measured operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Mode {
    /// Push a message.
    Push,
    /// Pull and delete a message.
    Pull,
    /// Push a message, pull one, delete it.
    Cycle,
    /// A round trip.
    Latency,
}

/// Runs `bench`.
///
/// # Errors
/// As documented in the table of exit codes.
pub fn run(tool: &mut Tool, args: BenchArgs) -> Result<Exit, CliError> {
    tool.refuse_dry_run("bench", "adfctl --embedded bench, to leave the server alone")?;
    tool.out.expect(&bench::ROWS)?;
    let interrupts = tool.interrupts()?;
    let queue = match &args.queue {
        Some(name) => names::queue(name)?,
        None => scratch::queue("bench")?,
    };
    let largest = tool.link.max_body()?;
    let (kind, pipelines) = match args.mode {
        Mode::Push => (Kind::Leaving, true),
        Mode::Pull => (Kind::Taking, false),
        Mode::Cycle | Mode::Latency => (Kind::Passing, false),
    };
    let plan = Plan::new(&args.bench, (args.mode, kind, pipelines), Some(largest))?;
    if args.mode != Mode::Latency {
        let create = format!("createqueue {queue}");
        tool.link.ask(create, |client| client.create_queue(queue.clone())).map_err(|error| {
            if error.code != QUEUE_EXISTS {
                return error;
            }
            let why = format!("queue {queue} exists, but a benchmark deletes its queue");
            CliError::usage(why).hint("leave out --queue to use a temporary one")
        })?;
    }
    let measured = measure(tool, &plan, args.mode, &queue, &interrupts);
    match (args.mode, plan.keeps()) {
        (Mode::Latency, _) => {}
        (_, true) => tool.messages.note(format!("its messages stay in queue {queue}")),
        (_, false) => {
            if let Err(error) = scratch::remove(&mut tool.link, &queue) {
                tool.messages.warn(error.message);
            }
        }
    }
    measured?.report(tool, plan, &interrupts)
}

fn measure(
    tool: &mut Tool,
    plan: &Plan,
    mode: Mode,
    queue: &QueueName,
    interrupts: &Interrupts,
) -> Result<bench::Measured, CliError> {
    // An in-memory server is started here, once, before its address is shared.
    tool.link.dialer.address()?;
    let clients = (0..plan.clients()).map(|_| {
        let mut link = tool.link.sibling();
        link.client()?;
        Ok(BenchClient { link, mode, queue: queue.clone() })
    });
    let mut clients = clients.collect::<Result<Vec<_>, CliError>>()?;
    if let (Mode::Pull, Some(first)) = (mode, clients.first_mut()) {
        plan.fill(interrupts, |bodies, done| first.push(bodies, done))?;
    }
    bench::measure(plan, clients, &tool.messages, interrupts)
}

struct BenchClient {
    link: Link,
    mode: Mode,
    queue: QueueName,
}

/// How long a pull waits for a message.
const PATIENCE: Duration = Duration::from_secs(1);
/// The number of pulls in vain after which a message that must be there does not come.
const PULLS: usize = 60;

impl BenchClient {
    fn push(&mut self, bodies: &[Bytes], done: &mut Done<'_>) -> Result<(), CliError> {
        let pushes = bodies.iter().map(|body| Push::right(self.queue.clone(), body));
        let outcomes = self.link.client()?.push_many(pushes.collect::<Vec<_>>());
        outcomes.for_each(|outcome| done(outcome.map(drop).map_err(cli_error)));
        Ok(())
    }

    /// Returns false if there is none. An unanswered pull may only be late. The server then counts its message no
    /// longer and the next pull gets it: a client that has just pushed does not trust a count of zero.
    fn take(&mut self, has_pushed: bool, done: &mut Done<'_>) -> Result<bool, CliError> {
        let client = self.link.client()?;
        for _ in 0..PULLS {
            let taken = client.pull_within(self.queue.clone(), PATIENCE).map_err(cli_error)?;
            if let Some(message) = taken {
                done(client.delete(&message).map_err(cli_error));
                return Ok(true);
            }
            let is_empty = client.count(self.queue.clone()).map_err(cli_error)? == 0;
            if is_empty && !has_pushed {
                break;
            }
        }
        Ok(false)
    }
}

impl Client for BenchClient {
    fn perform(&mut self, bodies: &[Bytes], done: &mut Done<'_>) -> Result<(), CliError> {
        match self.mode {
            Mode::Push => return self.push(bodies, done),
            Mode::Latency => {
                let asked = self.link.client()?;
                bodies.iter().for_each(|_| done(asked.ping().map_err(cli_error)));
            }
            Mode::Pull => {
                for _ in bodies {
                    if !self.take(false, done)? {
                        break;
                    }
                }
            }
            Mode::Cycle => {
                for body in bodies {
                    let client = self.link.client()?;
                    if let Err(error) = client.rpush(self.queue.clone(), body) {
                        done(Err(cli_error(error)));
                    } else if !self.take(true, done)? {
                        let why = "a message of the benchmark did not arrive";
                        done(Err(CliError::not_found(why)));
                    }
                }
            }
        }
        Ok(())
    }
}
