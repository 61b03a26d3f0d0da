//! How many jobs all slots of a worker may still take.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

/// A number of jobs, shared by the slots of a worker. A reserve takes one, and gives it back if it brings no job.
#[derive(Clone, Debug)]
pub struct Quota(Option<Arc<AtomicU64>>);

impl Quota {
    /// So many jobs; `None` for any number.
    #[must_use]
    pub fn new(jobs: Option<u64>) -> Self {
        Quota(jobs.map(|jobs| Arc::new(AtomicU64::new(jobs))))
    }

    /// Takes one, if there is one left.
    pub(super) fn take(&self) -> bool {
        self.0.as_ref().is_none_or(|left| {
            let less = |left: u64| left.checked_sub(1);
            left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less).is_ok()
        })
    }

    /// Gives one back.
    pub(super) fn give_back(&self) {
        if let Some(left) = &self.0 {
            left.fetch_add(1, Ordering::SeqCst);
        }
    }
}
