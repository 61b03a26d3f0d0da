//! A bounded rate.

use std::time::{Duration, Instant};

/// When the next job is due. Lost time is not made up for.
pub struct Pace {
    interval: Duration,
    next: Instant,
}

impl Pace {
    /// Number of jobs per second, shared by this number of callers.
    pub fn new(rate: f64, callers: u32) -> Self {
        let interval = Duration::from_secs_f64(f64::from(callers) / rate.max(0.01));
        Pace { interval, next: Instant::now() }
    }

    /// How long to wait for the next turn.
    pub fn turn(&mut self) -> Duration {
        let now = Instant::now();
        self.next = (self.next + self.interval).max(now);
        self.next - now
    }
}
