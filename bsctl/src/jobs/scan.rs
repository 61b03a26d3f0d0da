//! Finding the jobs of a server, and reading those that are found.

use std::iter;
use std::ops::Bound;
use std::time::{Duration, Instant};

use beanstalk_client::protocol::{JobSearch, Peek, StatsJob};
use beanstalk_client::{JobFilter, JobId, JobState, JobStats, TubeName};
use bytes::Bytes;
use ctl_core::bulk::Gate;
use ctl_core::error::CliError;
use ctl_core::output::messages::Messages;
use ctl_core::output::progress::Progress;
use ctl_core::rules::filter::Filters;
use ctl_core::text::spelling::did_you_mean;
use ctl_core::text::units;

use crate::error::BODY_DAMAGED;
use crate::jobs;
use crate::jobs::select::Candidate;
use crate::link::Link;
use crate::tool::Tool;
use crate::tube_stats::{self, Answer};

/// The jobs to find.
#[derive(Debug, Default)]
pub struct Wanted {
    /// In these tubes and states.
    pub jobs: JobFilter,
    /// Only this number of the newest.
    pub limit: Option<u64>,
    /// Matching all of these.
    pub filters: Filters,
}

impl Wanted {
    /// Those of these tubes and in these states; without any, of all tubes or in all states.
    pub fn of(
        tubes: Vec<TubeName>,
        states: impl IntoIterator<Item = JobState>,
        filters: Filters,
    ) -> Self {
        let jobs = states.into_iter().fold(JobFilter::from(tubes), JobFilter::state);
        Self { jobs, limit: None, filters }
    }

    /// A search that need not look at every job.
    fn search(&self) -> JobSearch {
        let (from, to) = self.filters.bounds("id");
        let bound = |id: Option<u64>| id.map_or(Bound::Unbounded, Bound::Included);
        let jobs = self.jobs.clone().ids((bound(from), bound(to)));
        JobSearch::new(match self.limit {
            Some(limit) if self.filters.is_empty() => jobs.newest(limit),
            // It is unknown how many have to be examined.
            _ => jobs,
        })
    }
}

/// The result of a scan.
#[derive(Debug, Default)]
pub struct Found {
    /// The ids, ascending.
    pub ids: Vec<JobId>,
    /// Number of jobs that the server counts but that were not found.
    pub missing: u64,
    /// How long the search took.
    pub took: Duration,
}

/// Number of jobs read in one pipeline, for filters.
const BATCH: usize = 100;
/// Querying more ids than this takes long enough to be announced.
const MANY: u64 = 1_000_000;

/// Finds jobs, regardless of the filters, except by id.
///
/// # Errors
/// The failure of the connection.
pub fn find(
    link: &mut Link,
    wanted: &Wanted,
    gate: &Gate,
    progress: &mut Progress,
) -> Result<Found, CliError> {
    let mut search = wanted.search();
    let (mut ids, mut range) = (Vec::new(), None);
    loop {
        let used = link.client()?.used_tube().clone();
        let queries = if gate.is_open() { search.queries(&used) } else { Vec::new() };
        ids.extend(iter::from_fn(|| search.job()).map(|job| job.id));
        if search.range() != range {
            range = search.range();
            if let Some(range) = range.filter(|range| *range >= MANY && !queries.is_empty()) {
                let ids = units::count(range, "id");
                let text = "limit it with --filter 'id>=N', or stop it with Ctrl-C";
                link.dialer.messages().note(format!("querying up to {ids}: {text}"));
            }
            progress.expect(range);
        }
        if queries.is_empty() {
            break;
        }
        for answer in link.pipeline(queries)? {
            search.answer(answer?);
            progress.advance_by(search.asked() - progress.done());
        }
    }
    ids.sort_unstable();
    if !gate.is_open() {
        let (asked, count) = (units::count(search.asked(), "id"), ids.len() as u64);
        let count = units::count(count, "job");
        link.dialer.messages().warn(format!("interrupted after querying {asked}: {count} found"));
    }
    Ok(Found { ids, missing: search.missing(), ..Found::default() })
}

/// The matching jobs, by ascending id.
///
/// # Errors
/// The failure of the connection.
pub fn select(tool: &mut Tool, wanted: &Wanted, gate: &Gate) -> Result<Found, CliError> {
    let start = Instant::now();
    let mut progress = Progress::start(&tool.messages, "querying ids", None);
    let found = find(&mut tool.link, wanted, gate, &mut progress)?;
    progress.finish();
    if wanted.filters.is_empty() {
        return Ok(Found { took: start.elapsed(), ..found });
    }
    let all = Some(found.ids.len() as u64);
    let mut progress = Progress::start(&tool.messages, "reading jobs", all);
    let most =
        wanted.limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
    let mut ids: Vec<JobId> = Vec::new();
    // Newest first, because a limit keeps the newest.
    for chunk in found.ids.rchunks(BATCH) {
        if ids.len() >= most || !gate.is_open() {
            break;
        }
        let fitting = fetch(&mut tool.link, chunk, wanted, false)?;
        ids.extend(fitting.iter().rev().map(|(stats, _)| stats.id));
        progress.advance_by(chunk.len() as u64);
    }
    ids.truncate(most);
    ids.reverse();
    Ok(Found { ids, missing: found.missing, took: start.elapsed() })
}

/// Reports which of these tubes do not exist: a mistyped name would look like an empty tube.
///
/// # Errors
/// The failure of the connection.
pub fn tell_absent(tool: &mut Tool, tubes: &[TubeName]) -> Result<(), CliError> {
    for (tube, answer) in tubes.iter().zip(tube_stats::ask(&mut tool.link, tubes)?) {
        if matches!(answer, Answer::Gone) {
            let meant = jobs::near(&mut tool.link, tube);
            tool.messages.note(no_jobs(tube, meant.as_deref()));
        }
    }
    Ok(())
}

/// That a tube does not exist, where that is no failure; and the one that is probably meant.
pub fn no_jobs(tube: &TubeName, meant: Option<&str>) -> String {
    let meant = meant.map(|meant| format!(": {}", did_you_mean(meant))).unwrap_or_default();
    format!("tube {tube} does not exist, so it has no jobs{meant}")
}

/// Reports that there may be more jobs.
pub fn tell_missing(messages: &Messages, missing: u64) {
    if missing > 0 {
        let more = units::count(missing, "job");
        messages.warn(format!("the server counts {more} more that were not found"));
    }
}

/// The ids of the first jobs of every list of every tube.
///
/// # Errors
/// The failure of the connection.
pub fn heads(link: &mut Link) -> Result<Vec<u64>, CliError> {
    let mut search = JobSearch::of_firsts();
    loop {
        let used = link.client()?.used_tube().clone();
        let queries = search.queries(&used);
        if queries.is_empty() {
            return Ok(search.firsts().collect());
        }
        for answer in link.pipeline(queries)? {
            search.answer(answer?);
        }
    }
}

/// A job's body, if requested; an error if the server lost it in a crash.
pub type Body = Option<Result<Bytes, CliError>>;

/// The statistics of the jobs that exist.
///
/// # Errors
/// The failure of the connection.
pub fn existing(
    link: &mut Link,
    ids: impl Iterator<Item = JobId>,
) -> Result<Vec<JobStats>, CliError> {
    link.pipeline(ids.map(StatsJob))?.filter_map(Result::transpose).collect()
}

/// The statistics and, if requested, the bodies of jobs; jobs that have disappeared or changed, or that do not match,
/// are left out.
///
/// # Errors
/// The failure of the connection.
pub fn fetch(
    link: &mut Link,
    ids: &[JobId],
    wanted: &Wanted,
    with_body: bool,
) -> Result<Vec<(JobStats, Body)>, CliError> {
    let jobs = existing(link, ids.iter().copied())?;
    fitting(link, jobs, wanted, with_body)
}

/// Those of these jobs that fit, with their bodies if asked for; without those that are gone by then.
///
/// # Errors
/// The failure of the connection.
pub fn fitting(
    link: &mut Link,
    mut jobs: Vec<JobStats>,
    wanted: &Wanted,
    with_body: bool,
) -> Result<Vec<(JobStats, Body)>, CliError> {
    let formats = &link.dialer.settings().config().envelopes.clone();
    jobs.retain(|stats| {
        let candidate = Candidate { stats, body: None, formats };
        wanted.jobs.includes(stats) && wanted.filters.may_fit(&candidate)
    });
    let has_to_look = wanted.filters.need_body();
    if !with_body && !has_to_look {
        return Ok(jobs.into_iter().map(|stats| (stats, None)).collect());
    }
    let ids: Vec<JobId> = jobs.iter().map(|stats| stats.id).collect();
    let found = link.pipeline(ids.into_iter().map(Peek))?;
    let mut fitting: Vec<(JobStats, Body)> = Vec::with_capacity(jobs.len());
    for (stats, found) in jobs.into_iter().zip(found) {
        let body = match found {
            Ok(Some(job)) => Ok(job.body),
            Ok(None) => continue,
            Err(error) if error.code == BODY_DAMAGED => Err(error),
            Err(error) => return Err(error),
        };
        let whole = body.as_ref().ok().map(Bytes::as_ref);
        if wanted.filters.fit(&Candidate { stats: &stats, body: whole, formats }) {
            fitting.push((stats, Some(body)));
        }
    }
    Ok(fitting)
}
