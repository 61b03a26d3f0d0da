//! A limit for fruitless wake-ups.

use std::time::{Duration, Instant};

/// Budget for fruitless wake-ups: a burst, then one for each second.
#[derive(Debug)]
pub(super) struct Budget {
    left: u32,
    refilled: Instant,
}

/// The usual number of fruitless wake-ups: every job of a function wakes all its workers.
const BURST: u32 = 16;

/// The time after which one more is allowed.
const PERIOD: Duration = Duration::from_secs(1);

impl Budget {
    pub(super) fn new(now: Instant) -> Self {
        Budget { left: BURST, refilled: now }
    }

    /// Takes one; `Err` with the time at which the next one is available.
    pub(super) fn spend(&mut self, now: Instant) -> Result<(), Instant> {
        let periods = now.saturating_duration_since(self.refilled).as_secs() / PERIOD.as_secs();
        if periods > 0 {
            let periods = u32::try_from(periods).unwrap_or(u32::MAX);
            self.left = self.left.saturating_add(periods).min(BURST);
            self.refilled = now;
        }
        match self.left.checked_sub(1) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => Err(self.refilled.checked_add(PERIOD).unwrap_or(now)),
        }
    }

    /// A wake-up was worth it.
    pub(super) fn refill(&mut self, now: Instant) {
        *self = Self::new(now);
    }
}
