//! `kick`: bring buried or delayed jobs back to ready.

use std::slice;

use beanstalk_client::protocol::{
    Command, Kick, KickJob, ListTubes, PeekBuried, PeekDelayed, StatsTube,
};
use beanstalk_client::{Job, JobState, TubeName, TubeStats};
use clap::{ArgGroup, Args};
use ctl_core::bulk::{Action, Bulk, BulkArgs};
use ctl_core::context::fleet::on_each;
use ctl_core::error::{CliError, Exit};
use ctl_core::input::named::{self, One};
use ctl_core::output::Record;
use ctl_core::rules::filter::Filters;
use ctl_core::text::units;

use super::delete::{each, limited, would};
use crate::error::NOT_FOUND;
use crate::jobs;
use crate::jobs::scan::{Found, Wanted};
use crate::jobs::select::SelectArgs;
use crate::jobs::state::{self, KICKED, one_of};
use crate::jobs::sweep::chosen;
use crate::link::Link;
use crate::names::{self, Tube};
use crate::tool::{Tool, tube_or_used};
use crate::tube_stats::{self, Answer};

/// The end of `kick --help`.
pub const HELP: &str = "\
Protocol: use TUBE and kick N; kick-job ID.
The server's kick takes buried jobs if there are any, and delayed jobs otherwise; without --state, this command does the
same. --state buried never kicks a delayed job, and --state delayed never a buried one: while the tube has jobs in the
other state, jobs are kicked one by one by id.
-c defaults to 1. --all asks for confirmation above 100 jobs (BSCTL_CONFIRM_ABOVE).
With --all-tubes, tubes that the server cannot report on (names over 195 bytes, before 1.11) are reported and skipped;
the exit code is then 3.
With filters, matching buried and delayed jobs (or those in --state) are kicked one by one by id.
Filters: see `bsctl help filters`.

Examples:
  bsctl kick -t mail -c 10
  bsctl kick -t mail --state buried --all
  bsctl kick -t mail --all --filter 'body~=timeout'
  bsctl kick --job 42 43
  bsctl -s one,two kick -t mail --all";

/// Arguments of `kick`.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("how-many"))]
#[command(mut_args(named::described("The tube [default: default]")))]
#[command(mut_arg("count", |count| count.help("Kick at most N jobs [default: 1, or all with --all or --job]")))]
pub struct KickArgs {
    #[command(flatten)]
    tube: One<Tube>,

    /// Kick all jobs
    #[arg(long, group = "how-many")]
    all: bool,

    /// Only jobs in this state
    #[arg(long, value_name = "STATE", conflicts_with = "job", value_parser = one_of(KICKED))]
    state: Option<JobState>,

    /// Kick these jobs, or - to read ids from stdin
    #[arg(long, value_name = "ID", num_args = 1.., group = "how-many",
          conflicts_with_all = [named::NAMES, "filters"])]
    job: Vec<String>,

    /// Kick in every tube
    #[arg(long, conflicts_with_all = [named::NAMES, "job"])]
    all_tubes: bool,

    #[command(flatten)]
    select: SelectArgs,

    #[command(flatten)]
    bulk: BulkArgs,
}

impl KickArgs {
    /// The maximum number of jobs to kick by tube, if there is one.
    fn most(&self) -> Option<u64> {
        self.bulk.items.count.or((!self.all).then_some(1))
    }
}

/// `--all` asks for confirmation above this number of jobs; `BSCTL_CONFIRM_ABOVE` overrides it.
const CONFIRM_ABOVE: u64 = 100;

/// Runs `kick`.
///
/// # Errors
/// As documented in the table of exit codes.
pub fn run(tool: &mut Tool, args: KickArgs) -> Result<Exit, CliError> {
    if !args.job.is_empty() {
        let ids = limited(
            names::job_ids(&args.job, (&mut tool.input, &tool.messages))?,
            args.bulk.items.count,
        );
        if tool.globals.dry_run {
            return would(tool, "kick", &ids);
        }
        let action = Action { past: "kicked", noun: "job", place: String::new() };
        let bulk = tool.bulk(action, &args.bulk.items, Some(ids.len() as u64))?;
        return each(tool, bulk, &args.bulk, &ids, KickJob::new);
    }
    if args.all_tubes {
        // The user confirms by typing the address of the one server.
        return kick_by_name(tool, &args);
    }
    on_each(tool, |tool| kick_by_name(tool, &args))
}

fn kick_by_name(tool: &mut Tool, args: &KickArgs) -> Result<Exit, CliError> {
    let tubes = if args.all_tubes {
        tool.link.call(ListTubes)?
    } else {
        let given = args.tube.given()?;
        vec![tube_or_used(tool, given)?]
    };
    let filters = args.select.read()?;
    if !filters.is_empty() {
        return kick_fitting(tool, tubes, filters, args);
    }
    kick_tubes(tool, &tubes, args)
}

/// A tube that does not exist; whose name is a number may be meant as a job.
fn no_tube(link: &mut Link, tube: &TubeName) -> CliError {
    let error = jobs::no_tube_at(link, tube);
    let is_number = tube.as_str().bytes().all(|byte| byte.is_ascii_digit());
    if is_number { error.hint(format!("bsctl kick --job {tube}, for the job")) } else { error }
}

fn kick_tubes(tool: &mut Tool, tubes: &[TubeName], args: &KickArgs) -> Result<Exit, CliError> {
    let mut plans = Vec::new();
    let mut end = Exit::Done;
    for (tube, answer) in tubes.iter().zip(tube_stats::ask(&mut tool.link, tubes)?) {
        match answer {
            Answer::Stats(stats) => {
                plans.push((tube.clone(), kickable(&stats, args.state.as_ref())));
            }
            Answer::Gone if args.all_tubes => {}
            Answer::Gone => return Err(no_tube(&mut tool.link, tube)),
            Answer::Unaskable(error) if args.all_tubes => {
                tool.messages.warn(&error.message);
                end = Exit::Partial;
            }
            Answer::Unaskable(error) => return Err(error),
        }
    }
    let there: u64 = plans.iter().map(|(_, count)| count).sum();
    let most = args.most().unwrap_or(there);
    let place = match tubes {
        [tube] => format!("in tube {tube}"),
        _ => "in all tubes".to_owned(),
    };
    if tool.globals.dry_run {
        let kicked = most.min(there);
        let record = Record::new().with("dry_run", true).with("jobs", kicked);
        let sentence = format!("would kick {} {place}", units::count(kicked, "job"));
        tool.out.done_with(&record, &["jobs"], &sentence)?;
        return Ok(end);
    }
    confirm(tool, args, most.min(there), &place)?;
    if there == 0 {
        let what = match &args.state {
            Some(state) => format!("no {state} jobs"),
            None => "neither buried nor delayed jobs".to_owned(),
        };
        tool.messages.note(format!("nothing to kick: there are {what} {place}"));
    }
    let action = Action { past: "kicked", noun: "job", place };
    let mut bulk = tool.bulk(action, &args.bulk.items, Some(most.min(there)))?;
    let mut left = most;
    for (tube, _) in &plans {
        let done = bulk.succeeded();
        let way = (args.state.as_ref(), step(&args.bulk));
        let kicked = kick_tube(&mut tool.link, tube, way, left, &mut bulk);
        bulk = bulk.after(kicked.map_err(|error| error.about("TUBE", tube)))?;
        left = left.saturating_sub(bulk.succeeded() - done);
    }
    let exit = bulk.finish(&mut tool.out)?;
    Ok(if exit.is_done() { end } else { exit })
}

/// Kicks matching jobs, one by one by id.
fn kick_fitting(
    tool: &mut Tool,
    tubes: Vec<TubeName>,
    filters: Filters,
    args: &KickArgs,
) -> Result<Exit, CliError> {
    let states = args.state.as_ref().map_or(KICKED, slice::from_ref);
    let place = match &*tubes {
        [tube] if !args.all_tubes => {
            if tool.link.call(StatsTube(tube.clone()))?.is_none() {
                return Err(no_tube(&mut tool.link, tube));
            }
            format!("in tube {tube} matching {filters}")
        }
        _ => format!("in all tubes matching {filters}"),
    };
    let tubes = if args.all_tubes { Vec::new() } else { tubes };
    let wanted = Wanted::of(tubes, states.iter().cloned(), filters);
    let Found { ids, took, .. } = chosen(tool, &wanted)?;
    let ids = limited(ids, args.most());
    if tool.globals.dry_run {
        return would(tool, "kick", &ids);
    }
    confirm(tool, args, ids.len() as u64, &place)?;
    let action = Action { past: "kicked", noun: "job", place };
    let mut bulk = tool.bulk(action, &args.bulk.items, Some(ids.len() as u64))?.including(took);
    let gate = bulk.gate();
    let kicked = ids
        .chunks(args.bulk.window())
        .take_while(|chunk| gate.turn(chunk.len()))
        .try_for_each(|chunk| {
            let replies = tool.link.pipeline(chunk.iter().copied().map(KickJob::new))?;
            chunk.iter().zip(replies).try_for_each(|(id, reply)| match reply {
                // It is neither buried nor delayed any more.
                Err(error) if error.code == NOT_FOUND => {
                    bulk.skip();
                    Ok(())
                }
                Err(error) => bulk.failure(format!("job {id}"), error.about("ID", id)),
                Ok(_) => bulk.count(format!("job {id}"), Ok(())),
            })
        });
    bulk.after(kicked)?.finish(&mut tool.out)
}

fn confirm(tool: &mut Tool, args: &KickArgs, count: u64, place: &str) -> Result<(), CliError> {
    let read = |text: &str| text.parse().map_err(|_| format!("`{text}` is not a number"));
    let above = tool.settings().environment.read("BSCTL_CONFIRM_ABOVE", read)?;
    let above = above.unwrap_or(CONFIRM_ABOVE);
    let address = tool.link.dialer.address()?;
    let action = format!("kick {} {place} on {address}", units::count(count, "job"));
    if args.all_tubes {
        return tool.confirm().everything(&action, &address, &tool.messages);
    }
    if args.all && count > above {
        return tool.confirm().many(&action, &tool.messages);
    }
    Ok(())
}

/// Number of jobs that a kick of this kind would reach now.
fn kickable(stats: &TubeStats, state: Option<&JobState>) -> u64 {
    let states = state.map_or(KICKED, slice::from_ref);
    states.iter().map(|state| state::count(state, stats)).find(|count| *count > 0).unwrap_or(0)
}

/// Kicks up to `most` jobs of one tube. The counts are read again before each step, since others work here, too.
fn kick_tube(
    link: &mut Link,
    tube: &TubeName,
    (state, step): (Option<&JobState>, u64),
    most: u64,
    bulk: &mut Bulk,
) -> Result<(), CliError> {
    link.use_tube(tube)?;
    let mut left = most;
    let gate = bulk.gate();
    let state = match (state, step) {
        (Some(state), _) => state,
        // The server itself takes buried jobs or, if there are none, delayed ones.
        (None, STEP) => {
            let kicked = if most == 0 { 0 } else { link.call(Kick(most))? };
            bulk.successes(kicked);
            return Ok(());
        }
        (None, _) => match link.call(StatsTube(tube.clone()))? {
            Some(stats) if stats.current_jobs_buried == 0 => &JobState::Delayed,
            _ => &JobState::Buried,
        },
    };
    while left > 0 && gate.is_open() {
        let Some(stats) = link.call(StatsTube(tube.clone()))? else { return Ok(()) };
        let there = state::count(state, &stats);
        let all: u64 = KICKED.iter().map(|state| state::count(state, &stats)).sum();
        let kicked = if there == 0 {
            0
        } else if all == there {
            // There is nothing else that the server could kick instead.
            let step = left.min(there).min(step);
            if !gate.turn(usize::try_from(step).unwrap_or(usize::MAX)) {
                return Ok(());
            }
            let kicked = link.call(Kick(step))?;
            bulk.successes(kicked);
            kicked
        } else {
            match state {
                JobState::Delayed => one_by_one(link, PeekDelayed, left.min(there), bulk)?,
                _ => one_by_one(link, PeekBuried, left.min(there), bulk)?,
            }
        };
        if kicked == 0 {
            return Ok(());
        }
        left = left.saturating_sub(kicked);
    }
    Ok(())
}

/// Number of jobs kicked between two queries of the counts.
const STEP: u64 = 1000;

/// Number of jobs kicked at once: fewer if a rate must be kept.
fn step(args: &BulkArgs) -> u64 {
    if args.items.rate.is_some() { args.window() as u64 } else { STEP }
}

/// Kicks the head of a list by id, repeatedly; each kick is sent together with the next peek.
fn one_by_one<P: Command<Reply = Option<Job>> + Clone>(
    link: &mut Link,
    peek: P,
    most: u64,
    bulk: &mut Bulk,
) -> Result<u64, CliError> {
    let gate = bulk.gate();
    let mut kicked = 0;
    let mut head = link.call(peek.clone())?;
    while let Some(job) = head.take() {
        if kicked == most || !gate.turn(1) {
            break;
        }
        let (reply, next) = link.pair(KickJob::new(job.id), peek.clone())?;
        match reply {
            Ok(()) => {
                bulk.success();
                kicked += 1;
            }
            // Another client took it in the meantime.
            Err(error) if error.code == NOT_FOUND => bulk.skip(),
            Err(error) => bulk.failure(format!("job {}", job.id), error)?,
        }
        head = next?.filter(|next| next.id != job.id);
    }
    Ok(kicked)
}
