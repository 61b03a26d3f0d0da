//! How often, and after what delays, a client retries.

use std::{collections::hash_map::RandomState, hash::BuildHasher, time::Duration};

use crate::{Backoff, Random};

/// How often, and after what delays, a client reconnects and repeats what was not sent.
///
/// Only what definitely did not reach a server is repeated, unless the caller has declared that it may run twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(default, deny_unknown_fields)
)]
pub struct RetryPolicy {
    attempts: u32,
    #[cfg_attr(feature = "serde", serde(with = "crate::seconds"))]
    base: Duration,
    #[cfg_attr(feature = "serde", serde(with = "crate::seconds"))]
    cap: Duration,
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    seed: Option<u64>,
}

impl RetryPolicy {
    /// Up to `attempts` retries (with several servers: rounds over them) for one call; 0 never retries.
    #[must_use]
    pub const fn new(attempts: u32) -> Self {
        let (base, cap) = (Duration::from_millis(100), Duration::from_secs(10));
        RetryPolicy { attempts, base, cap, seed: None }
    }

    /// Never reconnects and never repeats.
    #[must_use]
    pub const fn never() -> Self {
        Self::new(0)
    }

    /// Delays before the second and later attempts of a call: a random share of `base`, doubled each time up to `cap`.
    #[must_use]
    pub const fn backoff(mut self, base: Duration, cap: Duration) -> Self {
        self.base = base;
        self.cap = cap;
        self
    }

    /// Derives the jitter, and what else a client decides at random, from this seed, so that a simulation or a test is
    /// repeatable. Without a seed, as is right for a service, each client draws its own.
    #[must_use]
    pub const fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Maximum number of retries of a call.
    #[must_use]
    pub const fn attempts(&self) -> u32 {
        self.attempts
    }

    /// The same delays with this number of retries; `u32::MAX` retries until it succeeds.
    #[must_use]
    pub const fn up_to(mut self, attempts: u32) -> Self {
        self.attempts = attempts;
        self
    }

    /// The policy of the n-th of several connections to one server: a seed gives each of them its own delays.
    #[doc(hidden)]
    #[must_use]
    pub fn of_connection(&self, n: u64) -> RetryPolicy {
        RetryPolicy { seed: self.seed.map(|seed| seed.wrapping_add(n)), ..*self }
    }

    /// The delays of one client.
    #[doc(hidden)]
    #[must_use]
    pub fn delays(&self) -> Backoff {
        Backoff::new(self.base, self.cap, self.seed_or_any())
    }

    /// A generator for other random decisions of a client, from the same seed.
    #[doc(hidden)]
    #[must_use]
    pub fn random(&self) -> Random {
        Random::new(self.seed_or_any())
    }

    fn seed_or_any(&self) -> u64 {
        self.seed.unwrap_or_else(|| RandomState::new().hash_one(0))
    }
}

impl Default for RetryPolicy {
    /// Three retries, 100 ms doubling up to 10 s.
    fn default() -> Self {
        Self::new(3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_reproduces_the_delays() {
        let delays = |policy: RetryPolicy| {
            let mut delays = policy.delays();
            (0..8).map(|_| delays.next_delay()).collect::<Vec<_>>()
        };
        let seeded = RetryPolicy::default().seed(7);
        assert_eq!(delays(seeded), delays(seeded));
        assert_ne!(delays(seeded), delays(RetryPolicy::default().seed(8)));
        assert_ne!(delays(RetryPolicy::default()), delays(RetryPolicy::default()));
        // Each connection has its own, which are the same again, too.
        assert_eq!(delays(seeded.of_connection(3)), delays(seeded.of_connection(3)));
        assert_ne!(delays(seeded.of_connection(3)), delays(seeded.of_connection(4)));
        let other = seeded.up_to(9).of_connection(3);
        assert_eq!(other.attempts(), 9);
    }
}
