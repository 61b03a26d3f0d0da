//! `peek`: shows jobs without changing them.

use beanstalk_client::protocol::{Peek, PeekBuried, PeekDelayed, PeekReady, StatsJob};
use beanstalk_client::{JobId, JobState};
use clap::Args;
use ctl_core::bulk::{Action, OnError};
use ctl_core::context::fleet::on_each;
use ctl_core::error::{CliError, Exit};
use ctl_core::output::BodiesArgs;

use crate::jobs::state::{FREE, one_of};
use crate::jobs::{self, BODIES, no_job};
use crate::names;
use crate::tool::{Tool, tube_or_used};
use crate::tube_stats::{self, Answer};

/// The end of `peek --help`.
pub const HELP: &str = "\
Protocol: peek ID; or use TUBE and peek-ready, peek-delayed, peek-buried; then stats-job ID.
Read-only: counters and reservations stay as they are. The server shows only the first job of each list.
With several servers, each shows its own first job, and SERVER names it; an id belongs to a single server.

Examples:
  bsctl peek 42 43
  bsctl peek --state buried -t mail -o raw";

/// Arguments of `peek`.
#[derive(Debug, Args)]
pub struct PeekArgs {
    /// Job ids, or - to read ids from stdin
    #[arg(value_name = "ID")]
    ids: Vec<String>,

    /// Without ids: the first job of the tube in this state, the next to be reserved, become ready or be kicked
    #[arg(long, value_name = "STATE", default_value = "ready", conflicts_with = "ids")]
    #[arg(value_parser = one_of(FREE))]
    state: JobState,

    /// The tube [default: default]
    #[arg(short, long, value_name = "TUBE", conflicts_with = "ids")]
    tube: Option<String>,

    #[command(flatten)]
    bodies: BodiesArgs,
}

/// Runs `peek`.
///
/// # Errors
/// As documented in the table of exit codes.
pub fn run(tool: &mut Tool, args: PeekArgs) -> Result<Exit, CliError> {
    args.bodies.prepare(&mut tool.out, &BODIES)?;
    if args.ids.is_empty() {
        on_each(tool, |tool| head(tool, &args))
    } else {
        by_id(tool, &args.ids)
    }
}

fn head(tool: &mut Tool, args: &PeekArgs) -> Result<Exit, CliError> {
    let given = args.tube.as_deref().map(names::tube).transpose()?;
    let tube = tube_or_used(tool, given)?;
    // To use it would create it.
    if let [Answer::Gone] = *tube_stats::ask(&mut tool.link, std::slice::from_ref(&tube))? {
        return Err(jobs::no_tube_at(&mut tool.link, &tube));
    }
    tool.link.use_tube(&tube)?;
    let found = match args.state {
        JobState::Ready => tool.link.call(PeekReady)?,
        JobState::Delayed => tool.link.call(PeekDelayed)?,
        _ => tool.link.call(PeekBuried)?,
    };
    let Some(job) = found else {
        return Err(CliError::not_found(format!("tube {tube} has no {} job", args.state))
            .hint("bsctl tubes, to see where jobs are"));
    };
    let stats = tool.link.call(StatsJob(job.id))?;
    let record = jobs::record_with_body(job.id, stats.as_ref(), &job.body);
    tool.out.list(&BODIES)?.all([record])?;
    Ok(Exit::Done)
}

fn by_id(tool: &mut Tool, texts: &[String]) -> Result<Exit, CliError> {
    let ids: Vec<JobId> =
        names::job_ids(texts, (&mut tool.input, &tool.messages)).map_err(|error| {
            let tube = texts.iter().find(|text| text.parse::<JobId>().is_err() && *text != "-");
            match tube.filter(|tube| error.exit == Exit::Usage && names::tube(tube).is_ok()) {
                Some(tube) => {
                    error.hint(format!("bsctl peek -t {tube}, for the first job of a tube"))
                }
                None => error,
            }
        })?;
    let action = Action { past: "found", noun: "job", place: String::new() };
    let known = Some(ids.len() as u64);
    let mut bulk = tool.bulk(action, OnError::Continue, known)?;
    let mut list = tool.out.list(&BODIES)?;
    bulk.beside(&list);
    for chunk in ids.chunks(100) {
        let stats = tool.link.pipeline(chunk.iter().copied().map(StatsJob))?;
        let stats = stats.collect::<Result<Vec<_>, _>>()?;
        let found = tool.link.pipeline(chunk.iter().copied().map(Peek))?;
        for ((id, stats), found) in chunk.iter().zip(stats).zip(found) {
            match found {
                Ok(Some(job)) => {
                    bulk.success();
                    list.push(jobs::record_with_body(job.id, stats.as_ref(), &job.body))?;
                }
                Ok(None) => bulk.failure(format!("job {id}"), no_job(*id))?,
                Err(error) => bulk.failure(format!("job {id}"), error)?,
            }
        }
    }
    let exit = bulk.finish_silently()?;
    list.finish()?;
    Ok(exit)
}
