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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_free_and_then_one_each_second() {
        let start = Instant::now();
        let mut budget = Budget::new(start);
        for round in 0..2 {
            assert!((0..BURST).all(|_| budget.spend(start).is_ok()), "{round}");
            for early in [Duration::ZERO, PERIOD / 2] {
                assert_eq!(budget.spend(start + early), Err(start + PERIOD));
            }
            budget.refill(start);
        }
        assert!((0..BURST).all(|_| budget.spend(start).is_ok()));
        for second in 1..10 {
            let now = start + second * PERIOD;
            assert_eq!(budget.spend(now), Ok(()));
            assert_eq!(budget.spend(now), Err(now + PERIOD));
        }
        let rested = start + Duration::from_secs(3600);
        let free = (0..2 * BURST).filter(|_| budget.spend(rested).is_ok()).count();
        assert_eq!(free, BURST as usize, "time that is not used makes no larger burst");
    }
}
