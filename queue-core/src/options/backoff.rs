//! Reconnect delays: exponential with full jitter, seeded and free of side effects.

use std::time::Duration;

use crate::Random;

/// The delays between attempts to reconnect.
///
/// The n-th delay is a random share of `base × 2ⁿ`, capped, so that the clients of a restarted server do not all come
/// back at once ("full jitter"). The same seed gives the same delays. The clients of every SDK reconnect by it, and others
/// wait by it for a server or a thread.
#[derive(Clone, Debug)]
pub struct Backoff {
    base: Duration,
    cap: Duration,
    attempt: u32,
    random: Random,
}

impl Backoff {
    /// Delays from `base`, doubling up to `cap`.
    #[must_use]
    pub fn new(base: Duration, cap: Duration, seed: u64) -> Self {
        Backoff { base, cap, attempt: 0, random: Random::new(seed) }
    }

    /// The delay before the next attempt.
    pub fn next_delay(&mut self) -> Duration {
        let ceiling = self.base.saturating_mul(1 << self.attempt.min(20)).min(self.cap);
        self.attempt = self.attempt.saturating_add(1);
        ceiling.mul_f64(self.random.share())
    }

    /// The longest possible first delay.
    #[must_use]
    pub fn base(&self) -> Duration {
        self.base.min(self.cap)
    }

    /// Starts over. Call it only after a complete, successful exchange: a server that accepts and then closes must not
    /// be hammered.
    pub fn reset(&mut self) {
        self.attempt = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_grow_within_the_cap_and_start_over() {
        let (base, cap) = (Duration::from_millis(100), Duration::from_secs(10));
        for seed in 0..100 {
            let mut backoff = Backoff::new(base, cap, seed);
            for attempt in 0..40 {
                let ceiling = base.saturating_mul(1 << attempt.min(20)).min(cap);
                assert!(backoff.next_delay() <= ceiling, "seed {seed}, attempt {attempt}");
            }
            backoff.reset();
            assert!(backoff.next_delay() <= base);
        }
    }

    #[test]
    fn reconnects_are_spread_out() {
        let delays: std::collections::HashSet<_> = (0..100)
            .map(|seed| {
                Backoff::new(Duration::from_secs(1), Duration::from_secs(1), seed).next_delay()
            })
            .collect();
        assert!(delays.len() > 90);
        let mut total = Duration::ZERO;
        for delay in &delays {
            total += *delay;
        }
        let mean = total / u32::try_from(delays.len()).unwrap();
        assert!((Duration::from_millis(350)..Duration::from_millis(650)).contains(&mean));
    }
}
