//! How often a worker lets itself be woken for nothing, and how long it waits when it is refused.

use std::time::{Duration, Instant};

/// Wake-ups that may bring nothing: some at once, then one for each second.
#[derive(Debug)]
pub(super) struct Budget {
    left: u32,
    refilled: Instant,
}

/// Wake-ups for nothing that are usual: every worker of a function is woken for each of its jobs.
const BURST: u32 = 16;

/// In how much time one more is allowed.
const PERIOD: Duration = Duration::from_secs(1);

impl Budget {
    pub(super) fn new(now: Instant) -> Self {
        Budget { left: BURST, refilled: now }
    }

    /// Takes one; `Err` with the time when there is one again.
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

/// Refusals in a row: each lets the next question wait twice as long.
#[derive(Debug, Default)]
pub(super) struct Refusals(u32);

/// What the first refusal costs.
const FIRST: Duration = Duration::from_millis(100);

/// What every further one costs at most.
const LONGEST: Duration = Duration::from_secs(10);

impl Refusals {
    /// It was refused once more; how long to wait.
    pub(super) fn next_delay(&mut self) -> Duration {
        let delay = FIRST.saturating_mul(1 << self.0.min(16)).min(LONGEST);
        self.0 = self.0.saturating_add(1);
        delay
    }

    /// It was not refused.
    pub(super) fn reset(&mut self) {
        self.0 = 0;
    }
}
