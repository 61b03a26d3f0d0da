//! Delays after refusals.

use std::time::Duration;

/// Consecutive refusals: each doubles the delay before the next request.
#[derive(Debug, Default)]
pub(super) struct Refusals(u32);

/// Delay after the first refusal.
const FIRST: Duration = Duration::from_millis(100);

/// Longest delay after a refusal.
const LONGEST: Duration = Duration::from_secs(10);

impl Refusals {
    /// Counts a refusal; returns the delay.
    pub(super) fn next_delay(&mut self) -> Duration {
        let delay = FIRST.saturating_mul(1 << self.0.min(16)).min(LONGEST);
        self.0 = self.0.saturating_add(1);
        delay
    }

    pub(super) fn reset(&mut self) {
        self.0 = 0;
    }
}
