//! Detects handlers that are so fast that they are best run where their jobs arrive.

use std::{
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

/// Number of consecutive jobs of one handler that took negligible time, up to the required number.
#[derive(Debug, Default)]
pub struct Quick(AtomicU32);

/// A handler that takes longer gets its own task or thread, because it blocks everything else on the connection.
const QUICK: Duration = Duration::from_micros(50);

/// Number of quick jobs in a row that prove a handler quick.
const PROOF: u32 = 64;

impl Quick {
    /// Whether the handler has proved quick, so that a task or another thread would cost more.
    #[must_use]
    pub fn is_proven(&self) -> bool {
        self.0.load(Ordering::Relaxed) >= PROOF
    }

    /// Records the duration of a job.
    pub fn note(&self, time: Duration) {
        if time > QUICK {
            self.0.store(0, Ordering::Relaxed);
        } else if !self.is_proven() {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handler_is_proven_by_quick_jobs_in_a_row() {
        let quick = Quick::default();
        let note = |count: u32, time| (0..count).for_each(|_| quick.note(time));
        note(PROOF - 1, QUICK);
        assert!(!quick.is_proven());
        quick.note(QUICK);
        assert!(quick.is_proven());
        note(10, Duration::ZERO);
        assert!(quick.is_proven());
        quick.note(QUICK + Duration::from_nanos(1));
        note(PROOF - 1, QUICK);
        assert!(!quick.is_proven(), "it starts over");
    }
}
