//! `work`: a worker that runs a command for every job.

use std::sync::Arc;

use beanstalk_client::blocking::{JobContext, Worker};
use beanstalk_client::{
    ConnectOptions, Heartbeat, JobLimit, Retries, Servers, SlotState, TubeName, WorkerOptions,
    WorkerReport,
};
use clap::{Args, ValueEnum};
use ctl_core::commands::work::{self, Hands, Ledger, Recipe, WorkFlags};
use ctl_core::error::{CliError, Exit};
use ctl_core::input::named::{self, Several};
use ctl_core::link::Link as _;
use ctl_core::output::messages::Messages;
use ctl_core::output::{Record, Shape};

use crate::error::cli_error;
use crate::jobs::{self, paused, scan::no_jobs};
use crate::link::Link;
use crate::names::Tube;
use crate::tool::{Tool, usual_tube};
use crate::tube_stats;
use crate::work::fate::{Backoff, Fates};
use crate::work::{PLACES, Shift, label};

/// The end of `work --help`.
pub const HELP: &str = "\
Protocol: watch, reserve-with-timeout, stats-job, touch, delete, release, bury.
The command gets the body on stdin; its exit code decides about the job:
  0                 deleted
  75                released with a growing delay (--backoff)
  64, 65            buried (--bury-codes)
  other, a signal   released with a delay, or buried after --max-releases
  to be buried      goes to --dead-letter or --failed-to instead
  cannot be run     the job is released, and the worker exits (126, 127)
{id}, {tube} and {file} in arguments are replaced. The environment has BSCTL_JOB_ID, BSCTL_TUBE, BSCTL_PRI, BSCTL_TTR,
BSCTL_AGE, BSCTL_RESERVES, BSCTL_TIMEOUTS, BSCTL_RELEASES and BSCTL_KICKS.
With --bury-after-timeouts N, a job with 2N or more expirations runs for every second N of them, so that one kick always
lets it run again.
`bsctl help workers` says how commands run, where their output goes, and what signals do.

Examples:
  bsctl work -t mail -t sms -j 4 --exec ./handler {id}
  bsctl work -t thumbs --max-releases 0 -- convert - -resize 50% out/{id}.png
  bsctl work -t mail --max-idle 0 -o ndjson --shell 'jq .to | xargs notify'";

/// Arguments of `work`.
#[derive(Debug, Args)]
#[command(mut_args(named::described("Tubes to watch [default: default]")))]
pub struct WorkArgs {
    #[command(flatten)]
    tubes: Several<Tube>,

    #[command(flatten)]
    flags: WorkFlags,

    /// Exit codes that bury the job
    #[arg(long, value_name = "CODES", value_delimiter = ',', default_value = "64,65")]
    #[arg(hide_short_help = true, value_parser = clap::value_parser!(i32).range(1..=255))]
    bury_codes: Vec<i32>,

    /// Delays between releases: the first, the longest, and the growth factor
    #[arg(hide_short_help = true, long, value_name = "FROM..TO,xN", default_value = "1s..1h,x2")]
    backoff: Backoff,

    /// Bury a failed job that was already released N times, with 0 at once; each kick grants N more
    #[arg(hide_short_help = true, long, value_name = "N", default_value_t = 10)]
    max_releases: u64,

    /// Bury a job without running it if its time to run has expired N times; each kick grants N more
    #[arg(hide_short_help = true, long, value_name = "N")]
    bury_after_timeouts: Option<u64>,

    /// Whether to touch jobs while their command runs
    #[arg(hide_short_help = true, long, value_name = "WHEN", default_value = "auto")]
    touch: Touch,
}

/// The value of `--touch`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Touch {
    /// At every third of the time to run.
    Auto,
    /// Never: it is killed within the last second of that time, and its job fails.
    Never,
}

impl WorkArgs {
    /// Whether jobs are touched while their command runs.
    fn touches(&self) -> bool {
        self.touch == Touch::Auto
    }
}

/// Runs `work`.
///
/// # Errors
/// As documented in the table of exit codes.
pub fn run(tool: &mut Tool, args: WorkArgs) -> Result<Exit, CliError> {
    tool.refuse_dry_run("work", "bsctl jobs -t TUBE is read-only")?;
    let tubes = match args.tubes.given()? {
        none if none.is_empty() => vec![usual_tube(tool)?],
        given => given,
    };
    let recipe = Recipe::new(&args.flags, PLACES, "bsctl work -t mail", tool)?;
    let interrupts = tool.gentle_interrupts()?;
    let servers = tool.link.dialer.options()?.len();
    let empties = args.flags.until_empty();
    let shift = work::Shift::new(tool.messages.stamped()).of(&args.flags, servers)?;
    let connected = shift.wait_out(&interrupts, || work::connect(tool))?;
    if !empties && servers == 1 {
        say_why_idle(shift.messages(), None, &mut tool.link, &tubes)?;
    }
    tool.link.close();
    let options = options(connected, &args)?;
    let (ledger, finished) = Ledger::new(shift.messages(), label);
    let (fates, kills_at_ttr) = (fates(&args), !args.touches());
    let shift = Arc::new(Shift { shift, recipe, ledger, fates, kills_at_ttr });
    let observer = shift.clone();
    let mut worker =
        Worker::new(options.on_event(move |event| observer.observe(event))).map_err(cli_error)?;
    let handle = worker.handle();
    let is_busy = || handle.slots().iter().any(|slot| matches!(slot.state, SlotState::Busy(_)));
    let hands = Hands { stop: &|| handle.stop(), is_busy: &is_busy };
    for tube in &tubes {
        let (shift, handle) = (shift.clone(), worker.handle());
        let handler = move |job: &JobContext| shift.handle(job, &handle);
        worker.register(tube, handler).map_err(cli_error)?;
    }
    let run = || worker.run();
    let shift = &shift.shift;
    shift.say_taking("jobs", &tubes, &tool.link.dialer.address()?, &args.flags);
    let watched = shift.supervise((hands, run), (&args.flags, &interrupts), &finished, |done| {
        static JOB: Shape = Shape::rows("id", &[]);
        let tube = done.more.as_ref().map(TubeName::as_str);
        let (server, id) = &done.job;
        let record = Record::new().with("id", id.get()).with("tube", tube);
        let record = record.of_server(server.as_deref());
        shift.log(&mut tool.out, &JOB, record, &done.end, done.fate)
    });
    let (signal, report) = watched?;
    let WorkerReport {
        finished, released, buried, dead_lettered, abandoned, lost, unknown, ..
    } = report;
    let ways = [
        ("deleted", finished, "deleted"),
        ("released", released, "released"),
        ("buried", buried, "buried"),
        ("dead_lettered", dead_lettered, "to the dead-letter queue"),
        ("abandoned", abandoned, "given back"),
        ("lost", lost, "lost"),
        ("unknown", unknown, "unknown"),
    ];
    if empties && signal.is_none() {
        for (server, mut link) in tool.link.each()? {
            // One that is down was reported.
            let server = (servers > 1).then_some(&*server);
            let _ = say_why_idle(shift.messages(), server, &mut link, &tubes);
        }
    }
    shift.end(&mut tool.out, "job", &ways, signal)
}

/// A worker finds no job in a paused tube, nor in one whose name is mistyped.
fn say_why_idle(
    messages: &Messages,
    server: Option<&str>,
    link: &mut Link,
    tubes: &[TubeName],
) -> Result<(), CliError> {
    let answers = tube_stats::ask(link, tubes)?;
    let paused: Vec<_> = paused::of(&answers).into_iter().map(|one| one.at(server)).collect();
    if let Some(told) = paused::told(&paused) {
        messages.note(told);
    }
    for (tube, _) in tubes.iter().zip(&answers).filter(|(_, answer)| answer.stats().is_none()) {
        // A worker may be there before the first job.
        if let Some(meant) = jobs::near(link, tube) {
            messages.note(no_jobs(tube, Some(&meant)));
        }
    }
    Ok(())
}

fn retries(args: &WorkArgs) -> Retries {
    let Backoff { base, cap, factor } = args.backoff;
    // Only the flags decide what is buried, because reserves grow with every restart, too.
    let retries = Retries::default()
        .backoff(base, factor, cap)
        .releases(args.max_releases)
        .reserves(u64::MAX);
    args.bury_after_timeouts.map_or(retries, |timeouts| retries.timeouts(timeouts))
}

fn fates(args: &WorkArgs) -> Fates {
    Fates {
        bury_codes: args.bury_codes.clone(),
        retries: retries(args),
        most_timeouts: args.bury_after_timeouts.unwrap_or(u64::MAX),
    }
}

fn options(servers: Vec<ConnectOptions>, args: &WorkArgs) -> Result<WorkerOptions, CliError> {
    let servers = Servers::new(servers).map_err(cli_error)?;
    let mut options = WorkerOptions::from(servers)
        .slots(usize::from(args.flags.jobs))
        .heartbeat(if args.touches() { Heartbeat::Always } else { Heartbeat::Never })
        .retries(retries(args))
        .grace(args.flags.last_grace());
    if let Some(jobs) = args.flags.count {
        options = options.limit(JobLimit::new(jobs));
    }
    if let Some(tube) = &args.flags.dead_letter {
        options = options.dead_letter(crate::names::tube(tube)?);
    }
    if args.flags.until_empty() {
        options = options.until_empty();
    }
    Ok(options)
}

#[cfg(test)]
mod tests {
    use clap::FromArgMatches as _;

    use super::*;

    #[test]
    fn retries_failed_jobs_like_the_client_by_default() {
        let command = WorkArgs::augment_args(clap::Command::new("work"));
        let matches = command.get_matches_from(["work", "-t", "mail", "--exec", "true"]);
        let args = WorkArgs::from_arg_matches(&matches).unwrap();
        assert_eq!(retries(&args), Retries::default().reserves(u64::MAX));
    }
}
