//! `bury` and `release`: single jobs by id, and the ready jobs of tubes.

use std::time::Duration;

use beanstalk_client::protocol::{Bury, Release, ReserveJob, StatsJob};
use beanstalk_client::{JobId, JobRef, Priority, ReleaseOptions, Released};
use clap::Args;
use ctl_core::bulk::{Action, BulkArgs, ItemArgs};
use ctl_core::error::{CliError, Exit};
use ctl_core::input::named;
use ctl_core::text::units;

use super::bury_all;
use super::delete::{limited, would};
use crate::error::cli_error;
use crate::jobs::select::SelectArgs;
use crate::link::Link;
use crate::seen::Seen;
use crate::tool::{Tool, forget_held, held};
use crate::{jobs, names};

/// The end of `bury --help`.
pub const BURY_HELP: &str = "\
Protocol: stats-job ID, reserve-job ID and bury ID PRI on one connection (server 1.12 or later); with --all,
reserve-with-timeout 0, stats-job and bury, and with filters as for ids.
Only a reserved job can be buried, so each is reserved first: the counters `reserves` and `buries` grow by one. A job
keeps its priority unless -p is given. A job reserved by another connection cannot be buried.
--all buries as many jobs as were ready in the tubes at the start, and asks for confirmation. With several servers, each
is processed in turn and named in the output; the exit code is the most severe one.
Filters: see `bsctl help filters`.

Examples:
  bsctl bury 42
  bsctl bury --all -t mail --filter 'reserves>=3' --dry-run";

/// The end of `release --help`.
pub const RELEASE_HELP: &str = "\
Protocol: stats-job ID, reserve-job ID and release ID PRI DELAY on one connection (server 1.12 or later).
Makes a buried or delayed job ready, or delays a ready one (-d). The counters `reserves` and `releases` grow by one. The
job keeps its priority unless -p is given. A job reserved by another connection cannot be released.

Examples:
  bsctl release 42
  bsctl release 42 -d 10m -p 5";

/// Arguments of `bury`.
#[derive(Debug, Args)]
#[command(mut_arg("filters", |filters| filters.requires("all")))]
pub struct BuryArgs {
    /// Job ids, or - to read ids from stdin
    #[arg(value_name = "ID")]
    ids: Vec<String>,

    /// Bury the ready jobs of the tubes
    #[arg(long, requires = "tube", conflicts_with_all = ["ids", "pri"])]
    all: bool,

    /// A tube for --all; repeatable
    #[arg(short, long, value_name = "TUBE", requires = "all")]
    tube: Vec<String>,

    /// New priority [default: unchanged]
    #[arg(short, long, value_name = "N")]
    pri: Option<u32>,

    #[command(flatten)]
    select: SelectArgs,

    #[command(flatten)]
    bulk: BulkArgs,
}

/// Arguments of `release`.
#[derive(Debug, Args)]
pub struct ReleaseArgs {
    /// Job ids, or - to read ids from stdin
    #[arg(value_name = "ID", required = true)]
    ids: Vec<String>,

    /// New priority [default: unchanged]
    #[arg(short, long, value_name = "N")]
    pri: Option<u32>,

    /// Delay before the job becomes ready
    #[arg(short, long, value_name = "DUR", value_parser = units::duration, default_value = "0")]
    delay: Duration,

    #[command(flatten)]
    bulk: ItemArgs,
}

/// Runs `bury`.
///
/// # Errors
/// As documented in the table of exit codes.
pub fn bury(tool: &mut Tool, args: BuryArgs) -> Result<Exit, CliError> {
    if args.all {
        let tubes = named::once(args.tube.iter().map(|tube| names::tube(tube)))?;
        return bury_all::run(tool, &tubes, args.select, &args.bulk);
    }
    if args.ids.is_empty() {
        return Err(CliError::usage("no job is named")
            .hint("bsctl bury ID...")
            .hint("bsctl bury --all -t TUBE, for the ready jobs of a tube"));
    }
    let act = |link: &mut Link, job: JobRef, pri: Priority| link.call(Bury::new(job, pri));
    each(tool, "buried", "bury", &args.ids, args.pri, &args.bulk.items, act)
}

/// Runs `release`.
///
/// # Errors
/// As documented in the table of exit codes.
pub fn release(tool: &mut Tool, args: ReleaseArgs) -> Result<Exit, CliError> {
    let delay = args.delay;
    let act = |link: &mut Link, job: JobRef, pri: Priority| {
        let options = ReleaseOptions::new(pri).delay(delay);
        match link.call(Release::new(job, options).map_err(cli_error)?)? {
            Released::Queued => Ok(()),
            Released::Buried => Err(buried_instead(job.id())),
        }
    };
    each(tool, "released", "release", &args.ids, args.pri, &args.bulk, act)
}

/// The error for a released job that the server could only bury.
pub fn buried_instead(id: JobId) -> CliError {
    let why = format!("the server was out of memory and buried job {id} instead");
    CliError::new(Exit::TryAgain, "BURIED", why).hint("bsctl kick, to make it ready")
}

/// Reserves each job and acts on it, on one connection. A job that the session already holds is not reserved again.
fn each(
    tool: &mut Tool,
    past: &'static str,
    verb: &str,
    ids: &[String],
    pri: Option<u32>,
    args: &ItemArgs,
    act: impl Fn(&mut Link, JobRef, Priority) -> Result<(), CliError>,
) -> Result<Exit, CliError> {
    let ids = limited(names::job_ids(ids, (&mut tool.input, &tool.messages))?, args.count);
    if tool.globals.dry_run {
        return would(tool, verb, &ids);
    }
    let action = Action { past, noun: "job", place: String::new() };
    let mut bulk = tool.bulk(action, args, Some(ids.len() as u64))?;
    let gate = bulk.gate();
    let acted = ids.into_iter().take_while(|_| gate.turn(1)).try_for_each(|id| {
        let outcome = match held(tool, id).map(|held| held.job) {
            Some(job) => {
                own_priority(&mut tool.link, id, pri).and_then(|pri| act(&mut tool.link, job, pri))
            }
            None => take_and_act(tool.link.side(), id, pri, &act),
        };
        if outcome.is_ok() {
            forget_held(tool, id);
        }
        bulk.count(format!("job {id}"), outcome)
    });
    bulk.after(acted)?.finish(&mut tool.out)
}

fn take_and_act(
    link: &mut Link,
    id: JobId,
    pri: Option<u32>,
    act: &impl Fn(&mut Link, JobRef, Priority) -> Result<(), CliError>,
) -> Result<(), CliError> {
    let pri = own_priority(link, id, pri)?;
    match Seen::ask(link, &ReserveJob(id))? {
        Some(seen) => act(link, seen.job(), pri),
        None => Err(jobs::explain_not_found(link, id)),
    }
}

fn own_priority(link: &mut Link, id: JobId, pri: Option<u32>) -> Result<Priority, CliError> {
    match pri {
        Some(pri) => Ok(pri.into()),
        None => match link.call(StatsJob(id))? {
            Some(stats) => Ok(stats.pri),
            None => Err(jobs::explain_not_found(link, id)),
        },
    }
}
