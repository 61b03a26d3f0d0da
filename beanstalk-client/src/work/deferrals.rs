//! How often a worker has deferred its jobs: the server counts a deferral like any other release.

use std::collections::BTreeMap;

use crate::JobId;

/// The deferrals of one server's jobs.
#[derive(Debug, Default)]
pub(crate) struct Deferrals(BTreeMap<JobId, u64>);

/// Maximum number of jobs. The oldest are forgotten: those with the lowest ids.
const MOST: usize = 10_000;

impl Deferrals {
    /// How often this job was deferred, as far as known.
    pub(crate) fn of(&self, job: JobId) -> u64 {
        self.0.get(&job).copied().unwrap_or(0)
    }

    pub(crate) fn add(&mut self, job: JobId) {
        *self.0.entry(job).or_default() += 1;
        if self.0.len() > MOST {
            self.0.pop_first();
        }
    }

    /// Another server has its own ids.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_job_is_forgotten_first() {
        let mut deferrals = Deferrals::default();
        let most = MOST as u64;
        for job in (1..=most + 1).rev().chain([7]) {
            deferrals.add(job.into());
        }
        let of = |job: u64| deferrals.of(job.into());
        assert_eq!((of(1), of(2), of(7), of(most + 1)), (0, 1, 2, 1));
    }
}
