//! Which jobs are looked at before they are run.

use queue_core::Random;

use crate::{Inspect, JobId, Retries, WorkerOptions};

/// Whether a job's counters (`stats-job`) can matter before it is run.
///
/// They matter for a job that was given out before: one that ends the process of every worker comes back with one more
/// reserve each time. beanstalkd gives out jobs of one urgency by their ids, and a job that comes back keeps its id. So
///
/// * the first jobs of a connection are looked at: what ended a process is the first in line for the next one;
/// * a job that is no newer than the newest one of this connection is looked at: it had its turn before, or was delayed, or
///   less urgent ones overtook it;
/// * any other is looked at now and then, whatever the ids say, so that no order of jobs hides one for ever.
#[derive(Debug)]
pub(super) struct Suspicion {
    inspect: Inspect,
    seen: u32,
    newest: Option<JobId>,
    random: Random,
}

/// How many jobs of a connection are looked at in any case.
const FIRST: u32 = 16;

/// One in so many of those that nothing is held against.
const ODDS: usize = 32;

/// Limits below it are kept exactly. Above it a few reserves more, which no look has counted, make no difference.
const EXACT: u64 = 10;

impl Suspicion {
    pub(super) fn new(options: &WorkerOptions, random: Random) -> Self {
        let inspect = match options.inspect {
            // Another connection recognizes a job by its counters.
            Inspect::Suspects if options.reclaim || is_exact(&options.retries) => Inspect::Before,
            other => other,
        };
        Suspicion { inspect, seen: 0, newest: None, random }
    }

    /// A connection was made, perhaps to another server, and perhaps because something went wrong.
    pub(super) fn opened(&mut self) {
        (self.seen, self.newest) = (0, None);
    }

    /// Whether to look at a job that has just come.
    pub(super) fn looks(&mut self, job: JobId) -> bool {
        let is_early = self.seen < FIRST;
        self.seen = self.seen.saturating_add(1);
        let is_new = self.newest.is_none_or(|newest| job > newest);
        if is_new {
            self.newest = Some(job);
        }
        match self.inspect {
            Inspect::Before => true,
            Inspect::Suspects => is_early || !is_new || self.random.one_in(ODDS),
            Inspect::OnDemand => false,
        }
    }
}

fn is_exact(retries: &Retries) -> bool {
    retries.reserves < EXACT || retries.timeouts.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn suspicion(retries: Retries) -> Suspicion {
        let options = WorkerOptions::new("127.0.0.1:1").unwrap().retries(retries);
        Suspicion::new(&options, Random::new(7))
    }

    /// How many of these are looked at.
    fn looks(suspicion: &mut Suspicion, jobs: impl IntoIterator<Item = u64>) -> usize {
        jobs.into_iter().filter(|job| suspicion.looks(JobId::from(*job))).count()
    }

    #[test]
    fn new_jobs_are_looked_at_first_and_then_seldom() {
        let mut suspicion = suspicion(Retries::default());
        assert_eq!(looks(&mut suspicion, 1..=16), 16);
        let seldom = looks(&mut suspicion, 17..10_000);
        assert!((100..1_000).contains(&seldom), "{seldom}");
        assert_eq!(looks(&mut suspicion, [9_999, 5, 9_998]), 3, "they come again");
        suspicion.opened();
        assert_eq!(looks(&mut suspicion, 1..=16), 16);
    }

    #[test]
    fn limits_that_leave_no_slack_are_kept_exactly() {
        let retries = Retries::default();
        for exact in [retries.reserves(9), retries.timeouts(100)] {
            assert_eq!(looks(&mut suspicion(exact), 1..=1_000), 1_000);
        }
    }
}
