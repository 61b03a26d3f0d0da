//! Removing the jobs of one tube and state. beanstalkd has no command for it: ready jobs are reserved and
//! deleted in batches, delayed and buried ones are deleted one by one from the head of their list.

use beanstalk_client::protocol::{AnyCommand, Command, Delete, PeekBuried, PeekDelayed, PeekReady};
use beanstalk_client::{Job, JobRef, TubeName, TubeStats};
use clap::ValueEnum;
use ctl_core::bulk::Bulk;
use ctl_core::error::{CliError, Exit};
use ctl_core::output::Handover;
use ctl_core::units;

use crate::error::NOT_FOUND;
use crate::leaving::{hand_over, show};
use crate::link::Link;
use crate::seen::{Seen, damaged};
use crate::taker::{bury_damaged, delete_all, reserve_ready};
use crate::tube_stats::{self, Answer};

/// A state that jobs can be removed in. Reserved jobs belong to their connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum State {
    /// Waiting to be reserved.
    Ready,
    /// Waiting for their delay to end.
    Delayed,
    /// Set aside.
    Buried,
}

impl State {
    /// How many jobs a tube has in this state.
    #[must_use]
    pub fn count(self, stats: &TubeStats) -> u64 {
        match self {
            Self::Ready => stats.current_jobs_ready,
            Self::Delayed => stats.current_jobs_delayed,
            Self::Buried => stats.current_jobs_buried,
        }
    }

    /// The server's word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Delayed => "delayed",
            Self::Buried => "buried",
        }
    }
}

/// What is to be removed.
#[derive(Debug)]
pub struct Target {
    /// Where.
    pub tube: TubeName,
    /// Which.
    pub state: State,
    /// How many, as counted at the start.
    pub count: u64,
}

/// What a sweep is to do, and what it cannot.
#[derive(Debug, Default)]
pub struct Targets {
    /// What is to be removed.
    pub found: Vec<Target>,
    /// Tubes that do not exist.
    pub missing: Vec<TubeName>,
    /// Why tubes are left as they are: the server cannot be asked about them.
    pub left: Vec<CliError>,
}

impl Targets {
    /// How a sweep ends that came to `exit`: with 3 when tubes were left as they are.
    #[must_use]
    pub fn exit(&self, exit: Exit) -> Exit {
        if exit.is_done() && !self.left.is_empty() { Exit::Partial } else { exit }
    }
}

/// Counts the jobs of each tube and state.
///
/// # Errors
/// The failure of the connection; the server can be asked about none of the tubes.
pub fn targets(link: &mut Link, tubes: &[TubeName], states: &[State]) -> Result<Targets, CliError> {
    let mut targets = Targets::default();
    for (tube, answer) in tubes.iter().zip(tube_stats::ask(link, tubes)?) {
        match answer {
            Answer::Stats(stats) => {
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
#[must_use]
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

/// Removes the jobs of one target, at most `most`. With `leaving` they are deleted when they have
/// arrived where they go to. A job whose body
/// the server lost in a crash cannot be kept: it is a failure, and stays, buried. With nothing to keep it is deleted
/// like the others.
///
/// # Errors
/// The failure of the connection, or of writing.
pub fn sweep(
    link: &mut Link,
    target: &Target,
    most: u64,
    window: usize,
    bulk: &mut Bulk,
    mut leaving: Option<&mut Handover<'_, JobRef>>,
) -> Result<(), CliError> {
    let mut left = most;
    if target.state == State::Ready {
        link.watch_only(std::slice::from_ref(&target.tube))?;
        while left > 0 && bulk.gate().is_open() {
            let most = usize::try_from(left).unwrap_or(window).min(window);
            let batch = leaving.as_mut().map_or(most, |leaving| leaving.window(most));
            let taken = reserve_ready(link, batch, &[])?;
            let count = taken.jobs.len() + taken.damaged.len();
            if count == 0 {
                break;
            }
            if let Some(leaving) = &mut leaving {
                hand_over(link, leaving, &taken.jobs, false, bulk)?;
                bury_damaged(link, &taken.damaged, bulk)?;
            } else {
                delete_all(link, taken.damaged, bulk)?;
                delete_all(link, &taken.jobs, bulk)?;
            }
            left = left.saturating_sub(count as u64);
        }
    }
    // What a pause keeps from being reserved is reached at the head, too.
    link.use_tube(&target.tube)?;
    match target.state {
        State::Ready => heads(link, &PeekReady, left, bulk, leaving),
        State::Delayed => heads(link, &PeekDelayed, left, bulk, leaving),
        State::Buried => heads(link, &PeekBuried, left, bulk, leaving),
    }
}

/// Deletes from the head of a list; each delete goes out together with the next look.
fn heads<P: Command<Reply = Option<Job>>>(
    link: &mut Link,
    peek: &P,
    mut left: u64,
    bulk: &mut Bulk,
    mut leaving: Option<&mut Handover<'_, JobRef>>,
) -> Result<(), CliError> {
    let gate = bulk.gate();
    if left == 0 || !gate.is_open() {
        return Ok(());
    }
    let mut head = Seen::ask(link, peek)?;
    while let Some(seen) = head {
        if left == 0 || !gate.is_open() {
            break;
        }
        left -= 1;
        let id = seen.job().id();
        if let Some(leaving) = &mut leaving {
            match &seen {
                Seen::Whole(job) => show(link, leaving, job)?,
                // It stays, in the way of the jobs behind it.
                Seen::Damaged(job, _) => {
                    return bulk.failure(format!("job {id}"), damaged(*job));
                }
            }
        }
        let (deleted, next) = link.pair(Delete::new(id), AnyCommand::new(peek))?;
        let gone = match deleted {
            Ok(()) => {
                bulk.success();
                true
            }
            // Somebody else took it in between.
            Err(error) if error.code == NOT_FOUND => {
                bulk.skip();
                false
            }
            Err(error) => {
                bulk.failure(format!("job {id}"), error)?;
                false
            }
        };
        head = Seen::of(peek, next?)?;
        let stuck = !gone && head.as_ref().is_some_and(|next| next.job().id() == id);
        if stuck {
            break;
        }
    }
    Ok(())
}
