//! Whether a handler is so quick that it is best run where its jobs come from.

use std::{
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

/// How many jobs in a row of one handler took no time to speak of, as far as that matters.
#[derive(Debug, Default)]
pub struct Quick(AtomicU32);

/// What takes longer gets a task or a thread of its own: nothing else happens on the connection meanwhile.
const QUICK: Duration = Duration::from_micros(50);

/// So many quick jobs in a row prove a handler.
const PROOF: u32 = 64;

impl Quick {
    /// Whether the handler only computes a little: a task or another thread would cost more.
    #[must_use]
    pub fn is_proven(&self) -> bool {
        self.0.load(Ordering::Relaxed) >= PROOF
    }

    /// A job took this long.
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
