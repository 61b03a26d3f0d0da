//! `wait`: until a condition is true.

use beanstalk_client::protocol::{ListTubeUsed, StatsJob};
use beanstalk_client::{JobId, JobState, TubeName, TubeStats};
use clap::Args;
use ctl_core::commands::wait::{self, Count, Look, WaitFlags};
use ctl_core::error::{CliError, Exit};
use ctl_core::input::named::{self, One};
use ctl_core::rules::filter::Filter;
use ctl_core::text::units;

use crate::attendance::Workers;
use crate::jobs;
use crate::jobs::scan::no_jobs;
use crate::jobs::state::{ALL, count_all};
use crate::names::Tube;
use crate::tool::{Tool, tube_or_used};

/// The end of `wait --help`.
pub const HELP: &str = "\
Protocol: stats-tube, stats-job or list-tube-used, polled.
Conditions:
  empty              the tube has no jobs in any state
  ready>=N           and likewise == != < <= > with ready, buried, delayed, reserved, urgent, waiting, workers
  tube-exists        a client uses or watches the tube, or it has jobs
  job-gone=ID        the job does not exist
  job-state=ID:STATE the job is ready, reserved, delayed or buried
  server             the server answers
Waits for things that do not exist yet; a missing tube counts as empty unless --must-exist is given.
--timeout limits the whole wait (default 60s); when it expires, the exit code is 124.

Examples:
  bsctl wait --for server --timeout 30s
  bsctl wait --for empty -t mail --stable 3
  bsctl wait --for 'workers>=4' -t mail";

/// Arguments of `wait`.
#[derive(Debug, Args)]
#[command(mut_args(named::described("The tube [default: default]")))]
pub struct WaitArgs {
    #[command(flatten)]
    tube: One<Tube>,

    #[command(flatten)]
    wait: WaitFlags,
}

/// The conditions that are not on counts.
const WORDS: &str = "empty, tube-exists, job-gone=ID, job-state=ID:STATE, server";

enum Goal {
    Empty,
    Counts(Filter),
    TubeExists,
    JobGone(JobId),
    JobState(JobId, JobState),
    Server,
}

/// Runs `wait`.
///
/// # Errors
/// As documented in the table of exit codes.
pub fn run(tool: &mut Tool, args: WaitArgs) -> Result<Exit, CliError> {
    let goal = Goal::parse(&args.wait.condition)?;
    let given = args.tube.given()?;
    let tube = match goal {
        Goal::Server | Goal::JobGone(_) | Goal::JobState(..) => None,
        Goal::Empty | Goal::Counts(_) | Goal::TubeExists => Some(tube_or_used(tool, given)?),
    };
    let must_exist = args.wait.must_exist;
    let subject = ("tube", tube.as_ref().map(TubeName::to_string));
    let mut is_told = false;
    wait::until(tool, &args.wait, subject, |tool| match &tube {
        Some(tube) => {
            let (look, is_absent) = look_at(tool, &goal, tube, must_exist)?;
            if is_absent && !std::mem::replace(&mut is_told, true) {
                let meant = jobs::near(&mut tool.link, tube);
                tool.messages.note(no_jobs(tube, meant.as_deref()));
            }
            Ok(look)
        }
        None => look(tool, &goal),
    })
}

impl Goal {
    fn parse(text: &str) -> Result<Self, CliError> {
        let id = |text: &str| {
            text.parse::<JobId>().map_err(|_| CliError::usage(format!("`{text}` is not a job id")))
        };
        match text {
            text if wait::EMPTY.contains(&text) => return Ok(Self::Empty),
            "tube-exists" => return Ok(Self::TubeExists),
            "server" => return Ok(Self::Server),
            _ => {}
        }
        if let Some(job) = text.strip_prefix("job-gone=") {
            return Ok(Self::JobGone(id(job)?));
        }
        if let Some(rest) = text.strip_prefix("job-state=") {
            return match rest.split_once(':') {
                Some((job, state)) if ALL.contains(&state.into()) => {
                    Ok(Self::JobState(id(job)?, state.into()))
                }
                _ => Err(CliError::usage(format!("`{text}` is not a condition"))
                    .hint("job-state=ID:STATE with ready, reserved, delayed or buried")),
            };
        }
        wait::on_counts(text, ("tube", WORDS), &counts(None, 0)).map(Self::Counts)
    }
}

/// Polls the server or a job once; returns whether the condition holds, and what was seen.
fn look(tool: &mut Tool, goal: &Goal) -> Result<Look, CliError> {
    let (Goal::JobGone(id) | Goal::JobState(id, _)) = goal else {
        return wait::answers(tool.link.call(ListTubeUsed));
    };
    let stats = tool.link.call(StatsJob(*id))?;
    let seen = stats.as_ref().map_or("no such job", |stats| stats.state.as_str());
    let holds = match goal {
        Goal::JobState(_, wanted) => seen == wanted.as_str(),
        _ => stats.is_none(),
    };
    Ok((holds, seen.to_owned()))
}

/// Polls a tube once. Also returns whether it does not exist, but counts as empty.
fn look_at(
    tool: &mut Tool,
    goal: &Goal,
    tube: &TubeName,
    must_exist: bool,
) -> Result<(Look, bool), CliError> {
    let known = Workers::ask(&mut tool.link, tube)?;
    if known.is_none() && must_exist {
        return Err(jobs::no_tube(tube));
    }
    if matches!(goal, Goal::TubeExists) {
        let seen = if known.is_some() { "the tube" } else { "no such tube" };
        return Ok(((known.is_some(), seen.to_owned()), false));
    }
    let is_absent = known.is_none();
    let (stats, workers) = known.unzip();
    let workers = workers.unwrap_or_default();
    let counts = |workers| counts(stats.as_ref(), workers);
    if let Goal::Counts(condition) = goal {
        let (holds, mut seen) = wait::seen(condition, &counts(workers.least));
        let (at_most, _) = wait::seen(condition, &counts(workers.most));
        if holds != at_most {
            seen.push_str(&format!(" to {}: the server does not tell more", workers.most));
        }
        return Ok(((holds && at_most, seen), is_absent));
    }
    let left = stats.as_ref().map_or(0, count_all);
    Ok(((left == 0, units::count(left, "job")), is_absent))
}

/// The values that conditions can name; all 0 for a tube that does not exist.
fn counts(stats: Option<&TubeStats>, workers: u64) -> [Count; 7] {
    let of = |count: fn(&TubeStats) -> u64| stats.map_or(0, count);
    [
        ("ready", of(|stats| stats.current_jobs_ready)),
        ("urgent", of(|stats| stats.current_jobs_urgent)),
        ("reserved", of(|stats| stats.current_jobs_reserved)),
        ("delayed", of(|stats| stats.current_jobs_delayed)),
        ("buried", of(|stats| stats.current_jobs_buried)),
        ("waiting", of(|stats| stats.current_waiting)),
        ("workers", workers),
    ]
}
