//! `bench`: how fast a server answers.

use std::time::{Duration, Instant};
use std::{iter, slice, thread};

use beanstalk_client::protocol::{Delete, ListTubeUsed, Put};
use beanstalk_client::{PutOptions, TubeName};
use bytes::Bytes;
use clap::{Args, ValueEnum};
use ctl_core::bulk::{Action, Bulk, OnError};
use ctl_core::commands::bench::{self, Client, Done, Kind, Plan};
use ctl_core::error::{CliError, Exit};
use ctl_core::link::Link as _;
use ctl_core::output::messages::Messages;
use ctl_core::system::signals::Interrupts;

use crate::error::cli_error;
use crate::jobs::state::{FREE, count_all};
use crate::jobs::sweep::{Nowhere, sweep, targets};
use crate::jobs::taker::reserve_ready;
use crate::link::Link;
use crate::names;
use crate::producer::max_job_size;
use crate::tool::Tool;
use crate::tube_stats::{self, Answer};
use ctl_core::commands::roundtrip::scratch_name;

/// The end of `bench --help`.
pub const HELP: &str = "\
Protocol: put, reserve-with-timeout 0, delete, list-tube-used, in a temporary tube, which it leaves empty.
  put      put a job
  reserve  reserve and delete a job that was put beforehand
  cycle    put a job, reserve one, delete it
  latency  a round trip without side effects (list-tube-used)
A named tube must have no jobs and no watchers; everything in it is deleted at the end. `put --keep` puts test data into
any tube, and leaves it there.
Without --rate, each client sends its next operations once the previous ones are answered (a closed loop), so a slow
reply hides how long others would have waited. With --rate, operations are due by the clock, and their times count from
then.
Ctrl-C ends the run, prints the results so far and empties the tube. Failed operations give exit 3, a --fail-if that
holds exit 1. The last row is the total of all clients.

Examples:
  bsctl bench put -j 4 --duration 10s --size 1k..64k
  bsctl populate -t test --count 1000 --size 1k..4k
  bsctl bench cycle --rate 500 --duration 30s --warmup 5s --fail-if 'p99>50ms'";

/// Arguments of `bench`.
#[derive(Debug, Args)]
pub struct BenchArgs {
    /// What to measure: put, reserve, cycle, latency
    #[arg(value_name = "MODE", default_value = "cycle", hide_possible_values = true)]
    mode: Mode,

    /// Tube to use [default: one with a random name]
    #[arg(short, long, value_name = "TUBE")]
    tube: Option<String>,

    #[command(flatten)]
    bench: bench::LoadArgs,
}

/// The measured operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Mode {
    /// Put a job.
    Put,
    /// Reserve and delete a job.
    Reserve,
    /// Put a job, reserve one, delete it.
    Cycle,
    /// A round trip.
    Latency,
}

/// Runs `bench`.
///
/// # Errors
/// As documented in the table of exit codes.
pub fn run(tool: &mut Tool, args: BenchArgs) -> Result<Exit, CliError> {
    tool.refuse_dry_run("bench", "bsctl --embedded bench, to leave the server alone")?;
    tool.out.expect(&bench::ROWS)?;
    let interrupts = tool.interrupts()?;
    let tube = args.tube.unwrap_or_else(|| scratch_name("bsctl", "bench"));
    let tube = names::tube(&tube)?;
    let largest = max_job_size(&mut tool.link)?;
    let kind = match args.mode {
        Mode::Put => Kind::Leaving,
        Mode::Reserve => Kind::Taking,
        Mode::Cycle | Mode::Latency => Kind::Passing,
    };
    let plan = Plan::new(&args.bench, (args.mode, kind, true), Some(largest))?;
    // Jobs that stay may be those of others, too.
    if !(args.mode == Mode::Put && plan.keeps()) {
        check_unused(&mut tool.link, &tube)?;
    }
    let measured = measure(tool, &plan, args.mode, &tube, &interrupts);
    match (args.mode, plan.keeps()) {
        (Mode::Latency, _) => {}
        (_, true) => tool.messages.note(format!("its jobs stay in tube {tube}")),
        (_, false) => clean_up(&mut tool.link, &tube, &tool.messages),
    }
    measured?.report(tool, plan, &interrupts)
}

/// The benchmark must not take other clients' jobs, nor they its own.
fn check_unused(link: &mut Link, tube: &TubeName) -> Result<(), CliError> {
    let stats = match tube_stats::ask(link, slice::from_ref(tube))?.pop() {
        Some(Answer::Stats(stats)) => stats,
        Some(Answer::Unaskable(error)) => return Err(error),
        Some(Answer::Gone) | None => return Ok(()),
    };
    let why = match (count_all(&stats), stats.current_watching) {
        (0, 0) => return Ok(()),
        (0, _) => format!("tube {tube} is watched: another client would take the benchmark's jobs"),
        (jobs, _) => format!("tube {tube} has jobs ({jobs}), but a benchmark empties its tube"),
    };
    Err(CliError::usage(why).hint("without --tube, for a temporary tube"))
}

fn measure(
    tool: &mut Tool,
    plan: &Plan,
    mode: Mode,
    tube: &TubeName,
    interrupts: &Interrupts,
) -> Result<bench::Measured, CliError> {
    // An in-memory server is started here, once, before its address is shared.
    tool.link.dialer.address()?;
    let clients = (0..plan.clients()).map(|_| BenchClient::new(tool.link.sibling(), mode, tube));
    let mut clients = clients.collect::<Result<Vec<_>, _>>()?;
    if let (Mode::Reserve, Some(first)) = (mode, clients.first_mut()) {
        plan.fill(interrupts, |bodies, done| first.put(bodies, done))?;
    }
    bench::measure(plan, clients, &tool.messages, interrupts)
}

struct BenchClient {
    link: Link,
    mode: Mode,
}

impl BenchClient {
    fn new(mut link: Link, mode: Mode, tube: &TubeName) -> Result<Self, CliError> {
        link.use_tube(tube)?;
        if matches!(mode, Mode::Reserve | Mode::Cycle) {
            link.watch_only(slice::from_ref(tube))?;
        }
        Ok(Self { link, mode })
    }

    fn put(&mut self, bodies: &[Bytes], done: &mut Done<'_>) -> Result<(), CliError> {
        let put = |body| Put::new(body, PutOptions::default()).map_err(cli_error);
        let puts = bodies.iter().map(put).collect::<Result<Vec<_>, _>>()?;
        self.link.pipeline(puts)?.for_each(|outcome| {
            done(match outcome {
                Ok(inserted) if inserted.is_buried() => {
                    let why = "the server is out of memory: it buried the job";
                    Err(CliError::new(Exit::TryAgain, "BURIED", why))
                }
                outcome => outcome.map(drop),
            });
        });
        Ok(())
    }

    /// Takes up to `most` jobs.
    fn take(&mut self, most: usize, done: &mut Done<'_>) -> Result<(), CliError> {
        let taken = reserve_ready(&mut self.link, most, &[])?;
        let deletes: Vec<Delete> = taken.jobs.iter().map(Delete::new).collect();
        self.link.pipeline(deletes)?.for_each(done);
        Ok(())
    }

    fn cycle(&mut self, bodies: &[Bytes], done: &mut Done<'_>) -> Result<(), CliError> {
        let mut put = 0;
        self.put(bodies, &mut |outcome| match outcome {
            Ok(()) => put += 1,
            Err(error) => done(Err(error)),
        })?;
        let mut taken = 0;
        self.take(put, &mut |outcome| {
            taken += 1;
            done(outcome);
        })?;
        // No client takes more jobs than it has put, so there was a job for each take.
        for _ in taken..put {
            done(Err(CliError::not_found("another client took a job of the benchmark")));
        }
        Ok(())
    }
}

impl Client for BenchClient {
    fn perform(&mut self, bodies: &[Bytes], done: &mut Done<'_>) -> Result<(), CliError> {
        match self.mode {
            Mode::Put => self.put(bodies, done),
            Mode::Reserve => self.take(bodies.len(), done),
            Mode::Cycle => self.cycle(bodies, done),
            Mode::Latency => {
                let asked = iter::repeat_n(ListTubeUsed, bodies.len());
                self.link.pipeline(asked)?.for_each(|outcome| done(outcome.map(drop)));
                Ok(())
            }
        }
    }
}

/// How long to wait for the jobs of connections that have just been closed.
const PATIENCE: Duration = Duration::from_secs(5);

/// Jobs deleted at once after the benchmark.
const BATCH: usize = 500;

/// Deletes what is left, also after Ctrl-C.
fn clean_up(link: &mut Link, tube: &TubeName, messages: &Messages) {
    let start = Instant::now();
    let emptied = loop {
        match empty(link, tube, messages) {
            Ok(true) => break Ok(()),
            Ok(false) if start.elapsed() < PATIENCE => thread::sleep(Duration::from_millis(20)),
            Ok(false) => break Err(CliError::unavailable("jobs are still reserved")),
            Err(error) => break Err(error),
        }
    };
    link.close();
    if let Err(error) = emptied {
        let why = error.message;
        messages.warn(format!("tube {tube} could not be emptied: {why}; bsctl clear {tube}"));
    }
}

/// Returns false if some of its jobs are still reserved.
fn empty(link: &mut Link, tube: &TubeName, messages: &Messages) -> Result<bool, CliError> {
    let found = targets(link, slice::from_ref(tube), FREE)?;
    let action = Action { past: "deleted", noun: "job", place: String::new() };
    let (none, messages) = (Interrupts::none(), messages.without_progress());
    let mut bulk = Bulk::start(action, OnError::Continue, None, none, &messages);
    for target in found.found.iter().filter(|target| target.count > 0) {
        sweep(link, target, target.count, BATCH, &mut bulk, &mut Nowhere)?;
    }
    bulk.finish_silently()?;
    link.watch_only(&[TubeName::default()])?;
    let left = tube_stats::ask(link, slice::from_ref(tube))?.pop();
    Ok(match left {
        Some(Answer::Stats(stats)) => stats.current_jobs_ready + stats.current_jobs_reserved == 0,
        _ => true,
    })
}
