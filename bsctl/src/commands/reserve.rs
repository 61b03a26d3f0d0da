//! `reserve`: take jobs, show them, and give them back or finish them.

use std::time::{Duration, Instant};

use beanstalk_client::{Epoch, Job, JobId, JobStats, TubeName, protocol::ReserveJob};
use clap::{Args, ValueEnum};
use ctl_core::error::{CliError, Exit};
use ctl_core::input::named::{self, Several};
use ctl_core::link::Link as _;
use ctl_core::output::{BodiesArgs, Handover};
use ctl_core::text::spelling::did_you_mean;
use ctl_core::text::units;

use crate::jobs::leaving::hand_over;
use crate::jobs::taker::{Taker, bury_all, stats_of, touch_all};
use crate::jobs::{self, BODIES, WENT_BACK, paused};
use crate::link::Link;
use crate::names::Tube;
use crate::tool::{Tool, tubes_or_watched};
use crate::tube_stats::{self, Answer};

/// The end of `reserve --help`.
pub const HELP: &str = "\
Protocol: watch TUBE, ignore default, reserve-with-timeout, then close, delete or bury.
A job stays reserved only while its connection is open, so a single command cannot keep it. --then release makes it
ready again, with its priority and its counters, except `reserves`, which grows by one.
Without --wait, only what is ready now is taken, and nothing ready is exit 1. If --wait expires, the exit code is 124.

Examples:
  bsctl reserve -t mail --wait 30s
  bsctl reserve -t mail -c 10 -o ndjson --then bury";

/// Arguments of `reserve`.
#[derive(Debug, Args)]
pub struct ReserveArgs {
    #[command(flatten)]
    take: TakeArgs,

    /// Reserve this job, whatever its tube (server 1.12 or later)
    #[arg(long, value_name = "ID", conflicts_with_all = [named::NAMES, "count", "wait"])]
    job: Option<u64>,

    /// What to do with the job afterwards
    #[arg(long, value_name = "WHAT", default_value = "release")]
    then: Then,
}

/// Arguments of `reserve` and `pop`.
#[derive(Debug, Args)]
#[command(mut_args(named::described("Tubes to watch [default: default]")))]
pub struct TakeArgs {
    #[command(flatten)]
    tubes: Several<Tube>,

    /// Wait this long for a job [default: 0]
    #[arg(long, value_name = "DUR", value_parser = units::duration)]
    pub wait: Option<Duration>,

    /// Take up to N jobs
    #[arg(short, long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u64).range(1..))]
    pub count: u64,

    #[command(flatten)]
    bodies: BodiesArgs,
}

impl TakeArgs {
    /// Sets up the watch list, which it returns, and the output.
    ///
    /// # Errors
    /// An illegal name; the failure of the connection.
    pub fn prepare(&self, tool: &mut Tool) -> Result<Vec<TubeName>, CliError> {
        self.bodies.prepare(&mut tool.out, &BODIES)?;
        let tubes = tubes_or_watched(tool, self.tubes.given()?)?;
        tool.link.side().watch_only(&tubes)?;
        Ok(tubes)
    }

    /// The error for getting no job from these tubes, of which some may be paused.
    pub fn nothing(&self, link: &mut Link, tubes: &[TubeName]) -> CliError {
        let names: Vec<&str> = tubes.iter().map(TubeName::as_str).collect();
        let place = format!("tube {}", names.join(", "));
        let error = match self.wait.filter(|wait| !wait.is_zero()).map(units::show_duration) {
            Some(wait) => CliError::timeout(format!("no job in {place} within {wait}")),
            None => {
                let why = format!("no job is ready in {place}");
                CliError::new(Exit::Negative, "NOTHING_RESERVED", why)
                    .hint("--wait 30s, to wait for one")
            }
        };
        // Whether one is paused, or does not exist, is no reason for another error.
        let answers = tube_stats::ask(link, tubes).unwrap_or_default();
        let error = paused::explain(error, &paused::of(&answers));
        // To reserve from a tube creates it.
        let is_new = |answer: &Answer| answer.stats().is_none_or(|stats| stats.total_jobs == 0);
        let mut unused = tubes.iter().zip(&answers).filter(|(_, answer)| is_new(answer));
        let meant = unused.find_map(|(tube, _)| Some((tube, jobs::near(link, tube)?)));
        let Some((tube, meant)) = meant else { return error };
        error.remark(format!("(no job was put into tube {tube})")).hint(did_you_mean(&meant))
    }
}

impl ReserveArgs {
    /// Whether the jobs go back to the server in the end.
    pub fn gives_back(&self) -> bool {
        matches!(self.then, Then::Release | Then::Hold)
    }
}

/// The value of `--then`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Then {
    /// Close the connection.
    Release,
    /// Delete it once its output is written.
    Delete,
    /// Bury it.
    Bury,
    /// Keep touching it until Ctrl-C.
    Hold,
}

/// Runs `reserve`.
///
/// # Errors
/// As documented in the table of exit codes.
pub fn run(tool: &mut Tool, args: ReserveArgs) -> Result<Exit, CliError> {
    tool.refuse_dry_run("reserve", "bsctl peek is read-only")?;
    let interrupts = tool.interrupts()?;
    let tubes = args.take.prepare(tool)?;
    let held = match args.job {
        Some(id) => vec![take_one(tool, id.into())?],
        None => take_many(tool, &args.take, &tubes)?,
    };
    if held.is_empty() {
        interrupts.check()?;
        return Err(args.take.nothing(tool.link.side(), &tubes));
    }
    if args.then == Then::Delete {
        return delete(tool, &held);
    }
    let epoch = tool.link.side().client()?.epoch();
    let stats = stats_of(tool.link.side(), &held)?;
    let records = held.iter().zip(&stats);
    let records =
        records.map(|(job, stats)| jobs::record_with_body(job.id, stats.as_ref(), &job.body));
    tool.out.list(&BODIES)?.all(records)?;
    match args.then {
        Then::Hold => hold(tool, &held, &stats, epoch),
        Then::Bury => bury(tool, &held, &stats),
        _ => give_back(tool, &held, epoch).map(|()| Exit::Done),
    }
}

fn bury(tool: &mut Tool, held: &[Job], stats: &[Option<JobStats>]) -> Result<Exit, CliError> {
    let mut bulk = tool.bulk_of("buried", "job", held.len() as u64)?;
    let buried = bury_all(tool.link.side(), held, stats, &mut bulk);
    bulk.after(buried)?.finish_quietly()
}

fn delete(tool: &mut Tool, held: &[Job]) -> Result<Exit, CliError> {
    let mut bulk = tool.bulk_of("deleted", "job", held.len() as u64)?;
    let interrupts = tool.interrupts()?;
    let mut out = Handover::new(tool.out.list(&BODIES)?, interrupts, &tool.messages)?;
    let deleted = hand_over(tool.link.side(), &mut out, held, true, &mut bulk);
    bulk.after(deleted)?.finish_quietly()
}

fn take_one(tool: &mut Tool, id: JobId) -> Result<Job, CliError> {
    let link = tool.link.side();
    match link.call(ReserveJob(id))? {
        Some(job) => Ok(job),
        None => Err(jobs::explain_not_found(link, id)),
    }
}

fn take_many(tool: &mut Tool, args: &TakeArgs, tubes: &[TubeName]) -> Result<Vec<Job>, CliError> {
    let taker = Taker::new(args.wait, tool.interrupts()?, &tool.messages).showing(tubes);
    let link = tool.link.side();
    let mut held: Vec<Job> = Vec::new();
    while (held.len() as u64) < args.count {
        let left = usize::try_from(args.count).unwrap_or(usize::MAX) - held.len();
        let jobs = taker.next(link, left.min(100), &held)?;
        if jobs.is_empty() {
            break;
        }
        held.extend(jobs);
    }
    Ok(held)
}

/// Closes the connection, which gives the jobs back.
fn give_back(tool: &mut Tool, held: &[Job], epoch: Epoch) -> Result<(), CliError> {
    let link = tool.link.side();
    let is_lost = link.has_lost(epoch);
    link.close();
    if is_lost {
        return Err(lost(held));
    }
    let those = match held {
        [job] => format!("job {} is", job.id),
        jobs => format!("{} jobs are", jobs.len()),
    };
    tool.messages.note(format!(
        "{those} ready again: the connection was closed; priority and counters are unchanged, except reserves"
    ));
    Ok(())
}

/// The server has closed the connection itself, or is gone.
fn lost(held: &[Job]) -> CliError {
    let those = match held {
        [job] => format!("job {}", job.id),
        jobs => format!("{} jobs", jobs.len()),
    };
    CliError::unavailable(format!("the connection was lost; {those} {WENT_BACK}"))
}

/// How often to check whether the connection still holds the jobs.
const LOOK: Duration = Duration::from_secs(1);

/// Touches the jobs until a signal arrives, then gives them back.
fn hold(
    tool: &mut Tool,
    held: &[Job],
    stats: &[Option<JobStats>],
    epoch: Epoch,
) -> Result<Exit, CliError> {
    let shortest = stats.iter().flatten().map(|stats| stats.ttr).min().unwrap_or(1);
    let third = Duration::from_secs(u64::try_from(shortest).unwrap_or(1).max(1)) / 3;
    let interrupts = tool.interrupts()?;
    tool.messages.note("holding until Ctrl-C, which gives jobs back");
    let mut touched = Instant::now();
    loop {
        if interrupts.sleep(third.min(LOOK)).is_err() {
            give_back(tool, held, epoch)?;
            return Ok(interrupts.requested().unwrap_or(Exit::Interrupted));
        }
        let link = tool.link.side();
        if link.has_lost(epoch) {
            return Err(lost(held));
        }
        if touched.elapsed() >= third {
            touched = Instant::now();
            touch_all(link, held)?;
        }
    }
}
