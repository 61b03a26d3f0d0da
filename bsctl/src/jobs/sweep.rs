//! Taking jobs out of tubes. beanstalkd has no command for it: ready jobs are reserved in batches, delayed and buried
//! ones are taken one by one from the head of their list, and those selected by filters by id.

mod heads;
mod ids;
mod plan;
mod way;

use beanstalk_client::TubeName;
use ctl_core::error::{CliError, Exit};
use ctl_core::text::units;

use crate::jobs::state::State;
use crate::link::Link;
use crate::tube_stats::{self, Answer};

pub use self::heads::sweep;
pub(crate) use self::ids::{delete, sweep_ids};
pub use self::plan::{Plan, SweepArgs, chosen};
pub use self::way::{Nowhere, Way};

/// What to remove.
#[derive(Debug)]
pub struct Target {
    /// Where.
    pub tube: TubeName,
    /// Which.
    pub state: State,
    /// Their number, as counted at the start.
    pub count: u64,
}

/// What a sweep should do, and what it cannot do.
#[derive(Debug, Default)]
pub struct Targets {
    /// What to remove.
    pub found: Vec<Target>,
    /// Number of jobs reserved by workers, which cannot be taken.
    pub reserved: u64,
    /// Tubes that do not exist.
    pub missing: Vec<TubeName>,
    /// Why tubes are left alone: the server cannot report on them.
    pub left: Vec<CliError>,
}

impl Targets {
    /// The final exit of a sweep that reached `exit`: 3 if tubes were left alone.
    pub fn exit(&self, exit: Exit) -> Exit {
        if exit.is_done() && !self.left.is_empty() { Exit::Partial } else { exit }
    }
}

/// Counts the jobs of each tube and state.
///
/// # Errors
/// The failure of the connection; the server can report on none of the tubes.
pub fn targets(link: &mut Link, tubes: &[TubeName], states: &[State]) -> Result<Targets, CliError> {
    let mut targets = Targets::default();
    for (tube, answer) in tubes.iter().zip(tube_stats::ask(link, tubes)?) {
        match answer {
            Answer::Stats(stats) => {
                targets.reserved += stats.current_jobs_reserved;
                let of = |&state: &State| Target {
                    tube: tube.clone(),
                    state,
                    count: state.count(&stats),
                };
                targets.found.extend(states.iter().map(of));
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
    for state in [State::Ready, State::Delayed, State::Buried] {
        let count: u64 =
            targets.iter().filter(|target| target.state == state).map(|target| target.count).sum();
        if count > 0 {
            parts.push(format!("{count} {}", state.word()));
        }
    }
    let mut tubes: Vec<&TubeName> = targets.iter().map(|target| &target.tube).collect();
    tubes.dedup();
    let place = units::which("tube", &tubes);
    let detail = if parts.is_empty() { String::new() } else { format!(" ({})", parts.join(", ")) };
    format!("{}{detail} from {place}", units::count(total, "job"))
}
