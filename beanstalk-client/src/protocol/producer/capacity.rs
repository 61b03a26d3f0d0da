//! The capacity of a producer's queue.

/// The limits of the queue, and what is in it.
#[derive(Debug)]
pub(super) struct Capacity {
    pub(super) jobs: usize,
    pub(super) bytes: usize,
    max_jobs: usize,
    max_bytes: usize,
}

impl Capacity {
    pub(super) fn new(max_jobs: usize, max_bytes: usize) -> Self {
        Capacity { jobs: 0, bytes: 0, max_jobs: max_jobs.max(1), max_bytes }
    }

    /// Whether another put of this size fits. A put larger than the limit is admitted alone.
    pub(super) fn fits(&self, bytes: usize) -> bool {
        let fits = self.bytes.checked_add(bytes).is_some_and(|sum| sum <= self.max_bytes);
        self.jobs < self.max_jobs && (fits || self.jobs == 0)
    }

    pub(super) fn enter(&mut self, bytes: usize) {
        self.jobs += 1;
        self.bytes = self.bytes.saturating_add(bytes);
    }

    pub(super) fn leave(&mut self, bytes: usize) {
        self.jobs = self.jobs.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes);
    }
}
