//! Random numbers from a seed, the same on every machine.

use std::time::Duration;

use queue_core::Random;

#[derive(Clone, Debug)]
pub struct Rng(Random);

impl Rng {
    pub fn new(seed: u64) -> Self {
        Rng(Random::new(seed))
    }

    pub fn next(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// An independent generator.
    pub fn fork(&mut self) -> Self {
        Rng::new(self.next())
    }

    /// A number below `bound`, which is not 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// True with a probability of one in `n`.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// A duration below `milliseconds`.
    pub fn millis(&mut self, milliseconds: u64) -> Duration {
        Duration::from_micros(self.below(milliseconds * 1000))
    }
}
