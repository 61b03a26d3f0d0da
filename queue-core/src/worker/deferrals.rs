//! Deliveries that do not count as attempts.

use std::collections::BTreeMap;

/// Maximum number of jobs.
const MOST: usize = 10_000;

/// How often a worker has deferred the jobs of a server, which counts a deferral like any other delivery. Beyond 10,000
/// jobs, the one whose first deferral is the longest ago is forgotten.
#[derive(Debug)]
pub struct Deferrals<K> {
    /// Their number, and the number of the first one.
    counts: BTreeMap<K, (u64, u64)>,
    order: BTreeMap<u64, K>,
    last: u64,
}

impl<K> Default for Deferrals<K> {
    fn default() -> Self {
        Deferrals { counts: BTreeMap::new(), order: BTreeMap::new(), last: 0 }
    }
}

impl<K: Ord + Clone> Deferrals<K> {
    /// How often this job was deferred, as far as known.
    pub fn of(&self, job: &K) -> u64 {
        self.counts.get(job).map_or(0, |(count, _)| *count)
    }

    /// Counts one more.
    pub fn add(&mut self, job: &K) {
        if let Some((count, _)) = self.counts.get_mut(job) {
            *count += 1;
            return;
        }
        if self.counts.len() >= MOST
            && let Some((_, oldest)) = self.order.pop_first()
        {
            self.counts.remove(&oldest);
        }
        self.last += 1;
        self.order.insert(self.last, job.clone());
        self.counts.insert(job.clone(), (1, self.last));
    }

    /// The job is gone.
    pub fn forget(&mut self, job: &K) {
        if let Some((_, first)) = self.counts.remove(job) {
            self.order.remove(&first);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_job_whose_first_deferral_is_the_oldest_is_forgotten_first() {
        let (mut deferrals, most) = (Deferrals::default(), MOST as u64);
        for job in (1..=most).rev().chain([most, 7]) {
            deferrals.add(&job);
        }
        let counts = |deferrals: &Deferrals<u64>| [1, 7, most].map(|job| deferrals.of(&job));
        assert_eq!((counts(&deferrals), deferrals.of(&0)), ([1, 2, 2], 0));
        deferrals.add(&0);
        assert_eq!((counts(&deferrals), deferrals.of(&0)), ([1, 2, 0], 1));
        deferrals.forget(&7);
        assert_eq!(
            (deferrals.of(&7), deferrals.counts.len(), deferrals.order.len()),
            (0, MOST - 1, MOST - 1)
        );
    }
}
