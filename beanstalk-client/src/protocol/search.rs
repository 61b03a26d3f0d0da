//! The search for jobs, without input or output. The protocol has no command that lists them: ids are asked for one by
//! one, pipelined.

mod beyond;
mod query;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, VecDeque};

pub use self::query::{JobAnswer, JobQuery};
use self::{beyond::Beyond, query::Answer};
use crate::{JobFilter, JobStats, TubeName};

/// Number of ids asked for together.
const CHUNK: u64 = 1000;

/// Number of tubes whose first jobs are asked for together. A pipeline queues the commands for them, four for each and one
/// to restore the used tube, all at once: it is restored even if the search is given up in between.
const TUBES: usize = 50;

/// With more jobs than this, the first ones of tubes are not tried on their own.
const MOST_FIRSTS: u64 = 1000;

/// Maximum number of ids tried above the server's count of puts, which takes seconds.
const MOST_BEYOND: u64 = 1_000_000;

/// Finds the jobs of a server: asks [`queries`](Self::queries), takes each [`answer`](Self::answer), and has the next
/// [`job`](Self::job) when there is one.
///
/// If the first jobs of all tubes are all jobs, those are quick to find. Otherwise it goes from the newest id down,
/// until as many jobs are found as the server counts. If the server was restarted with its log, its count of puts says
/// little; then the ids around the first jobs of all tubes are tried, around those that are found, and above.
///
/// It asks for at most as many ids as the server has counted puts, and a million more; with both ends of a range,
/// for the ids in it.
#[derive(Debug, Default)]
pub struct JobSearch {
    filter: JobFilter,
    stage: Stage,
    jobs: VecDeque<JobStats>,
    /// The jobs that the server counts, as far as it has answered, and its count of puts.
    counted: u64,
    puts: u64,
    /// The same at the start.
    at_first: (u64, u64),
    /// How many jobs there are to find, and how many were found. What was deleted in the meantime is no longer searched.
    expected: u64,
    found: u64,
    /// How many jobs may be shown.
    left: u64,
    is_ranged: bool,
    lowest: u64,
    newest: u64,
    highest: u64,
    range: Option<u64>,
    tubes: Vec<TubeName>,
    firsts: BTreeSet<u64>,
    beyond: Option<Beyond>,
    asked: u64,
    missing: u64,
}

/// The purpose of the last queries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    New,
    Counted,
    /// To ask for the first jobs of all tubes.
    Tubes(Goal),
    Firsts(Goal),
    /// Whether the first jobs are all: until then none is shown.
    All,
    /// Down to the lowest id from this one.
    Down(u64),
    Recounted,
    Beyond,
    Last,
    Over,
}

/// The purpose of the first jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Goal {
    /// Perhaps they are all.
    All,
    /// Ids around them are tried.
    Beyond,
    /// Only they are asked for.
    Known,
}

impl JobSearch {
    /// Searches for these jobs.
    #[must_use]
    pub fn new(filter: JobFilter) -> Self {
        JobSearch { filter, ..JobSearch::default() }
    }

    /// Asks only for the [`firsts`](Self::firsts).
    #[must_use]
    pub fn of_firsts() -> Self {
        JobSearch { stage: Stage::Tubes(Goal::Known), ..JobSearch::default() }
    }

    /// The next commands, once all answers to the earlier ones were taken; none when the search is over. They have to be
    /// queued together, on a connection that uses this tube.
    pub fn queries(&mut self, used: &TubeName) -> Vec<JobQuery> {
        while self.stage != Stage::Over {
            let queries = match self.stage {
                Stage::New => self.count(Stage::Counted),
                Stage::Counted => self.begin(),
                Stage::Tubes(goal) => {
                    self.stage = Stage::Firsts(goal);
                    JobQuery::tubes()
                }
                Stage::Firsts(goal) => self.ask_firsts(goal, used),
                Stage::All => self.ask_if_all(),
                Stage::Down(top) => self.go_down(top),
                Stage::Recounted => self.recounted(),
                Stage::Beyond => self.go_beyond(),
                Stage::Last => self.account(),
                Stage::Over => Vec::new(),
            };
            if !queries.is_empty() {
                return queries;
            }
        }
        Vec::new()
    }

    /// Takes the answer to the next query.
    pub fn answer(&mut self, answer: JobAnswer) {
        match answer.0 {
            Answer::Server(counts, puts) => {
                self.puts = puts;
                if self.filter.tubes().is_empty() {
                    self.counted = counts.of(&self.filter);
                }
            }
            Answer::Tube(counts) => {
                self.counted = self.counted.saturating_add(counts.of(&self.filter));
            }
            Answer::Tubes(mut tubes) => {
                // Otherwise ids are searched around the first jobs of any tube.
                if self.stage == Stage::Firsts(Goal::All) {
                    tubes.retain(|tube| self.filter.has_tube(tube));
                }
                self.tubes = tubes;
            }
            Answer::First(id) => self.firsts.extend(id),
            Answer::Job(job) => {
                self.asked += 1;
                if let Some(job) = job {
                    self.saw(*job);
                }
            }
        }
    }

    /// The next job that was found.
    pub fn job(&mut self) -> Option<JobStats> {
        if self.stage == Stage::All { None } else { self.jobs.pop_front() }
    }

    /// Ends the search.
    pub fn stop(&mut self) {
        self.stage = Stage::Over;
        self.jobs.clear();
    }

    /// Whether there is nothing more to ask for.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.stage == Stage::Over
    }

    /// The ids of the first jobs of every list of every tube.
    pub fn firsts(&self) -> impl Iterator<Item = u64> {
        self.firsts.iter().copied()
    }

    /// The number of ids asked for.
    #[must_use]
    pub fn asked(&self) -> u64 {
        self.asked
    }

    /// While ids up to the count of puts are asked for, their number.
    #[must_use]
    pub fn range(&self) -> Option<u64> {
        self.range
    }

    /// The number of jobs that the server counts but that were not found, once the search is over. Unknown, and 0, if
    /// only some ids were searched.
    #[must_use]
    pub fn missing(&self) -> u64 {
        self.missing
    }

    fn saw(&mut self, job: JobStats) {
        let id = job.id.get();
        if let Some(beyond) = &mut self.beyond {
            beyond.saw(id);
        }
        if self.filter.counts(&job) && self.goes_on() {
            self.found += 1;
            if self.filter.has_id(id) {
                self.left -= 1;
                self.jobs.push_back(job);
            }
        }
    }

    fn goes_on(&self) -> bool {
        self.found < self.expected && self.left > 0
    }

    fn count(&mut self, then: Stage) -> Vec<JobQuery> {
        (self.stage, self.counted) = (then, 0);
        JobQuery::counts(self.filter.tubes())
    }

    fn ids(ids: impl Iterator<Item = u64>) -> Vec<JobQuery> {
        ids.map(JobQuery::job).collect()
    }

    fn begin(&mut self) -> Vec<JobQuery> {
        self.left = self.filter.limit().unwrap_or(u64::MAX);
        // Jobs in a state that the server does not count are searched for to the end.
        self.expected = if self.filter.is_countable() { self.counted } else { u64::MAX };
        self.at_first = (self.most(), self.puts);
        if !self.goes_on() {
            return self.finish();
        }
        let (from, to) = self.filter.bounds();
        // Jobs below a lower bound are not found, so that as many are searched for above all others, unless there is an
        // upper bound. With fewer ids than that search has, finding all is cheaper.
        let from = from.filter(|_| to.is_some() || self.puts > MOST_BEYOND);
        self.is_ranged = from.is_some() || to.is_some();
        self.lowest = from.unwrap_or(1).max(1);
        self.newest = match (from, to) {
            (Some(_), Some(to)) => to,
            // Ids above the count of puts are searched for with a limit.
            (_, to) => to.map_or(self.puts, |to| to.min(self.puts)),
        };
        self.highest = to.unwrap_or(u64::MAX);
        let has_few = self.expected <= MOST_FIRSTS && self.filter.limit().is_none();
        if has_few && self.ids_to_newest() > CHUNK {
            self.stage = Stage::Tubes(Goal::All);
            return Vec::new();
        }
        self.descend()
    }

    /// As many jobs as are to be shown at most.
    fn most(&self) -> u64 {
        self.expected.min(self.filter.limit().unwrap_or(u64::MAX))
    }

    fn ids_to_newest(&self) -> u64 {
        self.newest.saturating_add(1).saturating_sub(self.lowest)
    }

    fn ask_firsts(&mut self, goal: Goal, used: &TubeName) -> Vec<JobQuery> {
        if !self.tubes.is_empty() {
            let rest = self.tubes.len().saturating_sub(TUBES);
            return JobQuery::firsts(self.tubes.drain(rest..), used);
        }
        match goal {
            Goal::All => {
                self.firsts.retain(|id| (self.lowest..=self.newest).contains(id));
                self.stage = Stage::All;
            }
            Goal::Beyond => {
                let lowest = self.newest.saturating_add(1).max(self.lowest);
                self.beyond = Some(Beyond::new((lowest, self.highest), &self.firsts));
                self.stage = Stage::Beyond;
            }
            Goal::Known => self.stage = Stage::Over,
        }
        Vec::new()
    }

    fn ask_if_all(&mut self) -> Vec<JobQuery> {
        let firsts = std::iter::from_fn(|| self.firsts.pop_first());
        let queries = Self::ids(firsts.take(CHUNK as usize));
        if !queries.is_empty() {
            return queries;
        }
        if self.found >= self.expected {
            self.stage = Stage::Over;
            return queries;
        }
        self.jobs.clear();
        (self.found, self.left) = (0, u64::MAX);
        self.descend()
    }

    fn descend(&mut self) -> Vec<JobQuery> {
        self.range = Some(self.ids_to_newest());
        self.go_down(self.newest)
    }

    fn go_down(&mut self, top: u64) -> Vec<JobQuery> {
        if top >= self.lowest && self.goes_on() {
            let bottom = top.saturating_sub(CHUNK - 1).max(self.lowest);
            self.stage = Stage::Down(bottom - 1);
            return Self::ids((bottom..=top).rev());
        }
        if self.highest > self.newest && self.goes_on() {
            self.range = None;
            return self.count(Stage::Recounted);
        }
        self.finish()
    }

    fn recounted(&mut self) -> Vec<JobQuery> {
        if self.filter.is_countable() {
            self.expected = self.expected.min(self.counted);
        }
        self.stage = match self.beyond {
            Some(_) => Stage::Beyond,
            None => Stage::Tubes(Goal::Beyond),
        };
        Vec::new()
    }

    fn go_beyond(&mut self) -> Vec<JobQuery> {
        if self.goes_on()
            && let Some(beyond) = &mut self.beyond
        {
            if beyond.takes_recount() {
                return self.count(Stage::Recounted);
            }
            if let Some((first, last)) = beyond.next() {
                return Self::ids(first..=last);
            }
        }
        self.finish()
    }

    fn finish(&mut self) -> Vec<JobQuery> {
        if self.is_ranged || !self.goes_on() || !self.filter.is_countable() {
            self.stage = Stage::Over;
            return Vec::new();
        }
        self.count(Stage::Last)
    }

    /// Compares what was found with what the server counts in the end.
    fn account(&mut self) -> Vec<JobQuery> {
        let (target, puts) = self.at_first;
        self.expected = self.counted;
        let (left, put) = (self.most(), self.puts.saturating_sub(puts));
        // Jobs that came, left or changed their state in the meantime are not missing.
        let is_settled = !self.filter.has_states() || (put == 0 && left == target);
        let stayed = if is_settled { left.saturating_sub(put).min(target) } else { 0 };
        self.missing = stayed.saturating_sub(self.found);
        self.stage = Stage::Over;
        Vec::new()
    }
}
