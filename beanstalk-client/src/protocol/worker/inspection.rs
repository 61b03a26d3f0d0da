//! Which jobs are inspected before they are run.

use queue_core::Random;

use crate::{Inspect, JobId, Retries, WorkerOptions};

/// Decides whether to read a job's counters (`stats-job`) before it is run.
///
/// They matter for a job that was handed out before: one that kills the process of every worker returns with one more
/// reserve each time. beanstalkd hands out jobs of equal priority by id, and a returning job keeps its id. So
///
/// * the first jobs of a connection are inspected: a job that killed a process is the first one for its successor;
/// * a job that is no newer than the newest one of this connection is inspected: it was handed out before, was delayed,
///   or was overtaken by jobs of another priority;
/// * any other job is inspected at random, whatever its id, so that no order of jobs hides one forever.
#[derive(Debug)]
pub(super) struct PoisonInspection {
    inspect: Inspect,
    seen: u32,
    newest: Option<JobId>,
    random: Random,
}

/// Number of jobs of a connection that are always inspected.
const FIRST: u32 = 16;

/// One in this many of the unsuspicious jobs is inspected.
const ODDS: usize = 32;

/// Limits below this are kept exactly. Above it, a few uncounted reserves make no difference.
const EXACT: u64 = 10;

impl PoisonInspection {
    pub(super) fn new(options: &WorkerOptions, random: Random) -> Self {
        let inspect = match options.inspect {
            Inspect::Suspects if is_exact(&options.retries) => Inspect::Before,
            other => other,
        };
        PoisonInspection { inspect, seen: 0, newest: None, random }
    }

    /// A new connection, perhaps to another server, and perhaps because something went wrong.
    pub(super) fn opened(&mut self) {
        (self.seen, self.newest) = (0, None);
    }

    /// Whether to inspect a job that has just arrived.
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

    fn suspicion(retries: Retries) -> PoisonInspection {
        let options = WorkerOptions::new("127.0.0.1:1").unwrap().retries(retries);
        PoisonInspection::new(&options, Random::new(7))
    }

    /// The number of these jobs that are inspected.
    fn looks(suspicion: &mut PoisonInspection, jobs: impl IntoIterator<Item = u64>) -> usize {
        jobs.into_iter().filter(|job| suspicion.looks(JobId::from(*job))).count()
    }

    #[test]
    fn inspects_the_first_jobs_of_every_connection() {
        let mut suspicion = suspicion(Retries::default());
        looks(&mut suspicion, 1..=100);
        suspicion.opened();
        assert_eq!(looks(&mut suspicion, 101..=116), 16);
        let next = (0..100).filter(|_| {
            suspicion.opened();
            looks(&mut suspicion, 1..=16);
            suspicion.looks(JobId::from(17))
        });
        assert!(next.count() < 20, "the next one seldom");
        suspicion.opened();
        looks(&mut suspicion, (1..=16).chain([9_999]));
        assert_eq!(looks(&mut suspicion, [5, 9_998, 9_997]), 3, "they come again");
        assert!(looks(&mut self::suspicion(Retries::default().reserves(10)), 1..=1_000) < 1_000);
    }

    #[test]
    fn limits_that_leave_no_slack_are_kept_exactly() {
        let retries = Retries::default();
        for exact in [retries.reserves(9), retries.timeouts(100)] {
            assert_eq!(looks(&mut suspicion(exact), 1..=1_000), 1_000);
        }
    }
}
