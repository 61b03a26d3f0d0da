//! Taking jobs out of tubes. beanstalkd has no command for it: ready jobs are reserved in batches, delayed and buried
//! ones are taken one by one from the head of their list, and those selected by filters by id.

mod heads;
mod ids;
mod plan;
mod way;

use beanstalk_client::{JobState, TubeName};
use ctl_core::error::CliError;
use ctl_core::text::units;

use crate::jobs::state::{self, FREE};
use crate::link::Link;
use crate::tube_stats::{self, Answer};

pub use self::heads::sweep;
pub(crate) use self::ids::{delete, sweep_ids};
pub use self::plan::{Ask, Plan, SweepArgs, chosen};
pub use self::way::{Nowhere, Way};

/// The jobs to remove.
#[derive(Debug)]
pub struct Target {
    /// Where.
    pub tube: TubeName,
    /// Which.
    pub state: JobState,
    /// Their number, as counted at the start.
    pub count: u64,
}

/// What a sweep should do, and what it cannot do.
#[derive(Debug, Default)]
pub struct Targets {
    /// The jobs to remove.
    pub found: Vec<Target>,
    /// Number of jobs reserved by workers, which cannot be taken.
    pub reserved: u64,
    /// Tubes that do not exist.
    pub missing: Vec<TubeName>,
    /// Why tubes are left alone: the server cannot report on them.
    pub left: Vec<CliError>,
}

/// Counts the jobs of each tube and state.
///
/// # Errors
/// The failure of the connection; the server can report on none of the tubes.
pub fn targets(
    link: &mut Link,
    tubes: &[TubeName],
    states: &[JobState],
) -> Result<Targets, CliError> {
    let mut targets = Targets::default();
    for (tube, answer) in tubes.iter().zip(tube_stats::ask(link, tubes)?) {
        match answer {
            Answer::Stats(stats) => {
                targets.reserved += stats.current_jobs_reserved;
                targets.found.extend(states.iter().map(|state| Target {
                    tube: tube.clone(),
                    state: state.clone(),
                    count: state::count(state, &stats),
                }));
            }
            Answer::Gone => targets.missing.push(tube.clone()),
            Answer::Unaskable(error) => targets.left.push(error),
        }
    }
    if targets.left.len() == tubes.len()
        && let Some(error) = targets.left.pop()
    {
        return Err(error);
    }
    Ok(targets)
}

/// "12 jobs (10 ready, 2 buried) from tube mail", or "from 3 tubes".
pub fn describe(targets: &[Target]) -> String {
    let total: u64 = targets.iter().map(|target| target.count).sum();
    let mut parts = Vec::new();
    for state in FREE {
        let count: u64 =
            targets.iter().filter(|target| target.state == *state).map(|target| target.count).sum();
        if count > 0 {
            parts.push(format!("{count} {state}"));
        }
    }
    let mut tubes: Vec<&TubeName> = targets.iter().map(|target| &target.tube).collect();
    tubes.dedup();
    let place = units::which("tube", &tubes);
    let detail = if parts.is_empty() { String::new() } else { format!(" ({})", parts.join(", ")) };
    format!("{}{detail} from {place}", units::count(total, "job"))
}
