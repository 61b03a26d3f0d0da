//! Finding the jobs of a server. The protocol has no command for it: the ids are asked one by one, pipelined.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use beanstalk_client::protocol::{
    AnyCommand, ListTubes, Peek, PeekBuried, PeekDelayed, PeekReady, Response, Stats, StatsJob,
    StatsTube, Use,
};
use beanstalk_client::{JobId, JobStats, TubeName};
use bytes::Bytes;
use clap::ValueEnum;
use ctl_core::bulk::Gate;
use ctl_core::error::CliError;
use ctl_core::output::progress::Progress;
use ctl_core::rules::filter::Filters;
use ctl_core::text::spelling::did_you_mean;
use ctl_core::text::units;

use crate::error::BODY_DAMAGED;
use crate::jobs;
use crate::jobs::select::Candidate;
use crate::jobs::state::AnyState;
use crate::link::Link;
use crate::tool::Tool;
use crate::tube_stats::{self, Answer};

/// The jobs to find.
#[derive(Debug, Default)]
pub struct Wanted {
    /// In these tubes; all if empty.
    pub tubes: Vec<TubeName>,
    /// In these states; all if empty.
    pub states: Vec<AnyState>,
    /// Only this number of the newest.
    pub limit: Option<u64>,
    /// Matching all of these.
    pub filters: Filters,
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
    /// Number of jobs that the server counts but that were not found.
    pub missing: u64,
    /// How long the search took.
    pub took: Duration,
}

/// Number of ids queried in one pipeline.
const CHUNK: u64 = 1000;
/// Number of jobs read in one pipeline, for filters.
const BATCH: usize = 100;
/// How far around a known id to search for others, nearest first.
const REACHES: [u64; 2] = [1000, 100_000];
/// Maximum number of ids tried above the count of puts, which takes several seconds.
const MOST_BEYOND: u64 = 1_000_000;
/// Querying more ids than this takes long enough to be announced.
const MANY: u64 = 1_000_000;
/// With more jobs than this, the heads of tubes are not searched.
const MOST_HEADS: u64 = 1000;
/// Number of ids after which the server's count of jobs is queried again.
const RECOUNT: u64 = 100_000;

/// Finds jobs, regardless of the filters: from the newest id down, until as many are found as the server counts. If the
/// server was restarted with its log, its count of puts says little; then the ids around the first jobs of all tubes
/// are tried, around those that are found, and above.
///
/// # Errors
/// The failure of the connection.
pub fn find(
    link: &mut Link,
    wanted: &Wanted,
    gate: &Gate,
    progress: &mut Progress,
) -> Result<Found, CliError> {
    let target = target(link, wanted)?;
    let stats = link.call(Stats)?;
    let (from, to) = wanted.filters.bounds("id");
    // Jobs below a lower bound are not found, so that as many are searched for above all others, unless there is an
    // upper bound. With fewer ids than that search has, finding all is cheaper.
    let from = from.filter(|_| to.is_some() || stats.total_jobs > MOST_BEYOND);
    let lowest = from.unwrap_or(1).max(1);
    let newest = match (from, to) {
        (Some(_), Some(to)) => to,
        // Ids above the count of puts are searched for with a limit.
        (_, to) => to.map_or(stats.total_jobs, |to| to.min(stats.total_jobs)),
    };
    let range = newest.saturating_add(1).saturating_sub(lowest);
    let mut scan = Scan { wanted, target, found: Vec::new(), gate, progress };
    if (wanted.limit.is_none() || !wanted.filters.is_empty())
        && range > CHUNK
        && scan.is_of_heads(link, (lowest, newest))?
    {
        let mut ids = scan.found;
        ids.sort_unstable();
        return Ok(Found { ids, ..Found::default() });
    }
    if range >= MANY && scan.goes_on() {
        let ids = units::count(range, "id");
        let text = "limit it with --filter 'id>=N', or stop it with Ctrl-C";
        link.dialer.messages().note(format!("querying up to {ids}: {text}"));
    }
    scan.progress.expect(Some(range));
    let mut top = newest;
    while top >= lowest && scan.goes_on() {
        let bottom = top.saturating_sub(CHUNK - 1).max(lowest);
        scan.ask(link, (bottom..=top).rev())?;
        top = bottom - 1;
    }
    let highest = to.unwrap_or(u64::MAX);
    if highest > newest && scan.goes_on() {
        scan.progress.expect(None);
        Beyond::new((newest.saturating_add(1).max(lowest), highest)).search(link, &mut scan)?;
    }
    let mut found = scan.found;
    found.sort_unstable();
    if !gate.is_open() {
        let (asked, count) = (units::count(progress.done(), "id"), found.len() as u64);
        let count = units::count(count, "job");
        link.dialer.messages().warn(format!("interrupted after querying {asked}: {count} found"));
    }
    let ranged = from.is_some() || to.is_some();
    let missing = if ranged || !gate.is_open() {
        0
    } else {
        let put = link.call(Stats)?.total_jobs.saturating_sub(stats.total_jobs);
        let left = self::target(link, wanted)?;
        // Jobs that came, left or changed their state in the meantime are not missing.
        let is_settled = wanted.states.is_empty() || (put == 0 && left == target);
        let stayed = if is_settled { left.saturating_sub(put).min(target) } else { 0 };
        stayed.saturating_sub(found.len() as u64)
    };
    Ok(Found { ids: found, missing, ..Found::default() })
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
#[must_use]
pub fn no_jobs(tube: &TubeName, meant: Option<&str>) -> String {
    let meant = meant.map(|meant| format!(": {}", did_you_mean(meant))).unwrap_or_default();
    format!("tube {tube} does not exist, so it has no jobs{meant}")
}

/// Reports that there may be more jobs.
pub fn tell_missing(tool: &Tool, missing: u64) {
    if missing > 0 {
        let more = units::count(missing, "job");
        tool.messages.warn(format!("the server counts {more} more that were not found"));
    }
}

struct Scan<'a> {
    wanted: &'a Wanted,
    target: u64,
    /// No id is queried twice, so none is here twice.
    found: Vec<JobId>,
    gate: &'a Gate,
    progress: &'a mut Progress,
}

impl Scan<'_> {
    /// Whether the first jobs of all tubes are all jobs, which makes them quick to find; otherwise this has no effect.
    fn is_of_heads(
        &mut self,
        link: &mut Link,
        (lowest, newest): (u64, u64),
    ) -> Result<bool, CliError> {
        if self.target > MOST_HEADS {
            return Ok(false);
        }
        let heads: BTreeSet<u64> = heads(link)?.into_iter().collect();
        self.ask(link, heads.range(lowest..=newest.max(lowest)).copied())?;
        let is_all = self.found.len() as u64 >= self.target;
        if !is_all {
            self.found.clear();
        }
        Ok(is_all)
    }

    fn goes_on(&self) -> bool {
        (self.found.len() as u64) < self.target && self.gate.is_open()
    }

    /// Queries these ids, and returns those of existing jobs, wanted or not.
    fn ask(
        &mut self,
        link: &mut Link,
        ids: impl Iterator<Item = u64>,
    ) -> Result<Vec<u64>, CliError> {
        let mut there = Vec::new();
        for reply in link.pipeline(ids.map(|id| StatsJob(id.into())))? {
            self.progress.advance();
            let Some(job) = reply? else { continue };
            there.push(job.id.get());
            if self.wanted.includes(&job) && (self.found.len() as u64) < self.target {
                self.found.push(job.id);
            }
        }
        Ok(there)
    }

    /// What was deleted in the meantime is no longer searched for.
    fn recount(&mut self, link: &mut Link) -> Result<(), CliError> {
        self.target = self.target.min(target(link, self.wanted)?);
        Ok(())
    }
}

/// The search among ids above the server's count of puts.
struct Beyond {
    lowest: u64,
    highest: u64,
    /// Ids of jobs that are known to exist, or to have existed.
    anchors: BTreeSet<u64>,
    /// Those of them around which nothing has been searched yet.
    fresh: BTreeSet<u64>,
    /// The queried ids: first and last id of each range, no two of which touch.
    asked: BTreeMap<u64, u64>,
    left: u64,
    until_recount: u64,
}

impl Beyond {
    fn new((lowest, highest): (u64, u64)) -> Self {
        let anchors = BTreeSet::from([lowest]);
        Self {
            lowest,
            highest,
            anchors,
            fresh: BTreeSet::new(),
            asked: BTreeMap::new(),
            left: MOST_BEYOND,
            until_recount: RECOUNT,
        }
    }

    fn search(mut self, link: &mut Link, scan: &mut Scan<'_>) -> Result<(), CliError> {
        scan.recount(link)?;
        let range = self.lowest..=self.highest;
        self.anchors.extend(heads(link)?.into_iter().filter(|id| range.contains(id)));
        for reach in REACHES {
            self.fresh = self.anchors.clone();
            // Searches around found ids, too.
            while !self.fresh.is_empty() {
                for (from, to) in spans(&std::mem::take(&mut self.fresh), reach) {
                    self.ask(link, scan, from, to)?;
                }
            }
        }
        let top = self.anchors.last().copied().unwrap_or(self.lowest);
        self.ask(link, scan, top, self.highest)
    }

    /// Queries the part of a range that has not been queried yet, while there is something to find.
    fn ask(
        &mut self,
        link: &mut Link,
        scan: &mut Scan<'_>,
        from: u64,
        to: u64,
    ) -> Result<(), CliError> {
        let mut next = from.max(self.lowest);
        let to = to.min(self.highest);
        while next <= to && self.left > 0 && scan.goes_on() {
            if let Some(end) = self.range_with(next) {
                let Some(behind) = end.checked_add(1) else { break };
                next = behind;
                continue;
            }
            let free = self.asked.range(next..).next().map_or(u64::MAX, |(start, _)| start - 1);
            let last = to.min(free).min(next.saturating_add(CHUNK.min(self.left) - 1));
            let there = scan.ask(link, next..=last)?;
            self.fresh.extend(there.into_iter().filter(|id| self.anchors.insert(*id)));
            self.note(next, last);
            let count = last - next + 1;
            self.left = self.left.saturating_sub(count);
            self.until_recount = self.until_recount.saturating_sub(count);
            if self.until_recount == 0 {
                self.until_recount = RECOUNT;
                scan.recount(link)?;
            }
            let Some(behind) = last.checked_add(1) else { break };
            next = behind;
        }
        Ok(())
    }

    /// The end of the queried range with this id.
    fn range_with(&self, id: u64) -> Option<u64> {
        self.asked.range(..=id).next_back().map(|(_, end)| *end).filter(|end| *end >= id)
    }

    fn note(&mut self, first: u64, last: u64) {
        let mut range = (first, last);
        if let Some((&start, &end)) = self.asked.range(..first).next_back()
            && end + 1 == first
        {
            range.0 = start;
        }
        if let Some(end) = last.checked_add(1).and_then(|next| self.asked.remove(&next)) {
            range.1 = end;
        }
        self.asked.insert(range.0, range.1);
    }
}

/// The ids within reach of any of the anchors, as ranges that do not touch: jobs often follow each other.
fn spans(anchors: &BTreeSet<u64>, reach: u64) -> Vec<(u64, u64)> {
    let mut spans: Vec<(u64, u64)> = Vec::new();
    for anchor in anchors {
        let (from, to) = (anchor.saturating_sub(reach), anchor.saturating_add(reach));
        match spans.last_mut() {
            Some((_, end)) if from <= end.saturating_add(1) => *end = to,
            _ => spans.push((from, to)),
        }
    }
    spans
}

/// Number of such jobs to find.
fn target(link: &mut Link, wanted: &Wanted) -> Result<u64, CliError> {
    // With filters, it is unknown how many have to be examined.
    let limit = wanted.limit.filter(|_| wanted.filters.is_empty());
    Ok(limit.unwrap_or(u64::MAX).min(expected(link, wanted)?))
}

/// Number of such jobs that the server counts now.
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

/// The ids of the first jobs of every list of every tube.
///
/// # Errors
/// The failure of the connection.
pub fn heads(link: &mut Link) -> Result<Vec<u64>, CliError> {
    let used = link.client()?.used_tube().clone();
    let mut commands = Vec::new();
    for tube in link.call(ListTubes)? {
        commands.push(AnyCommand::new(&Use(tube)));
        commands.push(AnyCommand::new(&PeekReady));
        commands.push(AnyCommand::new(&PeekDelayed));
        commands.push(AnyCommand::new(&PeekBuried));
    }
    let mut heads = Vec::new();
    for reply in link.pipeline(commands)? {
        match reply? {
            Response::Found(job) => heads.push(job.id.get()),
            Response::BodyDamaged { job, .. } => heads.push(job.id().get()),
            // Also for a name that the server does not accept: then the heads of another tube are seen twice.
            _ => {}
        }
    }
    link.use_tube(&used)?;
    Ok(heads)
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
        wanted.includes(stats) && wanted.filters.may_fit(&candidate)
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
