//! Finding the jobs of a server. The protocol has no command for it: the ids are asked one by one, pipelined.

use beanstalk_client::protocol::{
    AnyCommand, ListTubes, Peek, PeekBuried, PeekDelayed, PeekReady, Response, Stats, StatsJob,
    StatsTube, Use,
};
use beanstalk_client::{JobId, JobStats, TubeName};
use bytes::Bytes;
use clap::ValueEnum;
use ctl_core::bulk::Gate;
use ctl_core::error::CliError;
use ctl_core::progress::Progress;

use crate::error::BODY_DAMAGED;
use crate::link::Link;

/// A job's state, as `--state` names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum AnyState {
    /// Waiting to be reserved.
    Ready,
    /// Held by a connection.
    Reserved,
    /// Waiting for its delay to end.
    Delayed,
    /// Set aside.
    Buried,
}

impl AnyState {
    /// The server's word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Reserved => "reserved",
            Self::Delayed => "delayed",
            Self::Buried => "buried",
        }
    }
}

/// Which jobs are looked for.
#[derive(Debug, Default)]
pub struct Wanted {
    /// Of these tubes; all when empty.
    pub tubes: Vec<TubeName>,
    /// In these states; all when empty.
    pub states: Vec<AnyState>,
    /// From this id on.
    pub from: Option<u64>,
    /// Up to this id.
    pub to: Option<u64>,
    /// Only the newest so many.
    pub limit: Option<u64>,
}

impl Wanted {
    /// Whether a job is one of them.
    #[must_use]
    pub fn includes(&self, job: &JobStats) -> bool {
        let state = job.state.as_str();
        (self.tubes.is_empty() || self.tubes.contains(&job.tube))
            && (self.states.is_empty() || self.states.iter().any(|known| known.word() == state))
    }
}

/// What a scan found.
#[derive(Debug, Default)]
pub struct Found {
    /// The ids, ascending.
    pub ids: Vec<JobId>,
    /// How many jobs the server counts that were not found.
    pub missing: u64,
}

/// Ids asked in one pipeline.
const CHUNK: u64 = 1000;
/// Ids tried beyond the last one that is known.
const BEYOND: u64 = 100_000;

/// Looks for jobs: from the newest id down, until as many are found as the server counts. When the server was
/// restarted with its log, its count of puts says little, and the ids above are tried, too.
///
/// # Errors
/// The failure of the connection.
pub fn find(
    link: &mut Link,
    wanted: &Wanted,
    gate: &Gate,
    progress: &mut Progress,
) -> Result<Found, CliError> {
    let target = wanted.limit.unwrap_or(u64::MAX).min(expected(link, wanted)?);
    let stats = link.call(Stats)?;
    let lowest = wanted.from.unwrap_or(1).max(1);
    let newest = wanted.to.unwrap_or(stats.total_jobs);
    let mut scan = Scan { wanted, target, found: Vec::new(), gate, progress };
    let mut top = newest;
    while top >= lowest && scan.goes_on() {
        let bottom = top.saturating_sub(CHUNK - 1).max(lowest);
        scan.ask(link, (bottom..=top).rev())?;
        top = bottom - 1;
    }
    if wanted.to.is_none() && scan.goes_on() {
        let known = newest.max(highest_head(link)?);
        let mut bottom = newest.saturating_add(1).max(lowest);
        let end = known.saturating_add(BEYOND);
        while bottom <= end && scan.goes_on() {
            let top = bottom.saturating_add(CHUNK - 1).min(end);
            scan.ask(link, bottom..=top)?;
            bottom = top + 1;
        }
    }
    let mut found = scan.found;
    found.sort_unstable();
    // What came and went meanwhile is not missing.
    let ranged = wanted.from.is_some() || wanted.to.is_some();
    let missing = if ranged || !gate.is_open() {
        0
    } else {
        let now = wanted.limit.unwrap_or(u64::MAX).min(expected(link, wanted)?);
        now.saturating_sub(found.len() as u64)
    };
    Ok(Found { ids: found, missing })
}

struct Scan<'a> {
    wanted: &'a Wanted,
    target: u64,
    /// No id is asked twice, so none is here twice.
    found: Vec<JobId>,
    gate: &'a Gate,
    progress: &'a mut Progress,
}

impl Scan<'_> {
    fn goes_on(&self) -> bool {
        (self.found.len() as u64) < self.target && self.gate.is_open()
    }

    fn ask(&mut self, link: &mut Link, ids: impl Iterator<Item = u64>) -> Result<(), CliError> {
        for reply in link.pipeline(ids.map(|id| StatsJob(id.into())))? {
            self.progress.advance();
            if let Some(job) = reply?
                && self.wanted.includes(&job)
                && (self.found.len() as u64) < self.target
            {
                self.found.push(job.id);
            }
        }
        Ok(())
    }
}

/// How many such jobs the server counts now.
fn expected(link: &mut Link, wanted: &Wanted) -> Result<u64, CliError> {
    let of = |ready: u64, reserved: u64, delayed: u64, buried: u64| {
        let count = |state: &AnyState| match state {
            AnyState::Ready => ready,
            AnyState::Reserved => reserved,
            AnyState::Delayed => delayed,
            AnyState::Buried => buried,
        };
        let all = AnyState::value_variants();
        if wanted.states.is_empty() { all } else { &wanted.states }.iter().map(count).sum::<u64>()
    };
    if wanted.tubes.is_empty() {
        let s = link.call(Stats)?;
        let (ready, reserved) = (s.current_jobs_ready, s.current_jobs_reserved);
        return Ok(of(ready, reserved, s.current_jobs_delayed, s.current_jobs_buried));
    }
    let mut sum = 0;
    for stats in link.pipeline(wanted.tubes.iter().cloned().map(StatsTube))? {
        if let Some(s) = stats? {
            let (ready, reserved) = (s.current_jobs_ready, s.current_jobs_reserved);
            sum += of(ready, reserved, s.current_jobs_delayed, s.current_jobs_buried);
        }
    }
    Ok(sum)
}

/// The highest id among the first jobs of every list of every tube.
fn highest_head(link: &mut Link) -> Result<u64, CliError> {
    let used = link.client()?.used_tube().clone();
    let mut commands = Vec::new();
    for tube in link.call(ListTubes)? {
        commands.push(AnyCommand::new(&Use(tube)));
        commands.push(AnyCommand::new(&PeekReady));
        commands.push(AnyCommand::new(&PeekDelayed));
        commands.push(AnyCommand::new(&PeekBuried));
    }
    let mut highest = 0;
    for reply in link.pipeline(commands)? {
        match reply? {
            Response::Found(job) => highest = highest.max(job.id.get()),
            Response::BodyDamaged { job, .. } => highest = highest.max(job.id().get()),
            _ => {}
        }
    }
    link.use_tube(&used)?;
    Ok(highest)
}

/// A job's body, if it was asked for; an error when the server lost it in a crash.
pub type Body = Option<Result<Bytes, CliError>>;

/// The statistics and, if asked for, the bodies of jobs; jobs that are gone or changed are left out.
///
/// # Errors
/// The failure of the connection.
pub fn fetch(
    link: &mut Link,
    ids: &[JobId],
    wanted: &Wanted,
    with_body: bool,
) -> Result<Vec<(JobStats, Body)>, CliError> {
    let stats = link.pipeline(ids.iter().copied().map(StatsJob))?;
    let mut jobs: Vec<(JobStats, Body)> = Vec::with_capacity(ids.len());
    for stats in stats {
        if let Some(job) = stats?.filter(|job| wanted.includes(job)) {
            jobs.push((job, None));
        }
    }
    if !with_body {
        return Ok(jobs);
    }
    let ids: Vec<JobId> = jobs.iter().map(|(stats, _)| stats.id).collect();
    let found = link.pipeline(ids.into_iter().map(Peek))?;
    for ((_, body), found) in jobs.iter_mut().zip(found) {
        *body = match found {
            Ok(job) => job.map(|job| Ok(job.body)),
            Err(error) if error.code == BODY_DAMAGED => Some(Err(error)),
            Err(error) => return Err(error),
        };
    }
    jobs.retain(|(_, body)| body.is_some());
    Ok(jobs)
}
