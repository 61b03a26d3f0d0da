//! The rate of the last few seconds, so that neither an initial burst nor the distant past distorts it.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Older marks are ignored.
const WINDOW: Duration = Duration::from_secs(5);
/// Marks closer together than this are merged.
const STEP: Duration = Duration::from_millis(100);
/// Minimum time for a rate.
const SHORTEST: Duration = Duration::from_millis(200);

/// How much was done at which times.
#[derive(Debug)]
pub(super) struct Rate {
    /// Oldest first; never empty.
    marks: VecDeque<(Instant, u64)>,
}

impl Rate {
    pub(super) fn new(start: Instant) -> Self {
        Self { marks: VecDeque::from([(start, 0)]) }
    }

    /// Records the amount done at `now`.
    pub(super) fn mark(&mut self, now: Instant, done: u64) {
        if self.marks.back().is_some_and(|(last, _)| now.duration_since(*last) < STEP) {
            return;
        }
        self.marks.push_back((now, done));
        // One mark outside the window stays as the start of the rate.
        let is_old = |mark: Option<&(Instant, u64)>| {
            mark.is_some_and(|(when, _)| now.duration_since(*when) >= WINDOW)
        };
        while is_old(self.marks.get(1)) {
            self.marks.pop_front();
        }
    }

    /// The amount per second, if known yet.
    pub(super) fn per_second(&self, now: Instant, done: u64) -> Option<f64> {
        let (since, before) = *self.marks.front()?;
        let time = now.duration_since(since);
        (time >= SHORTEST).then(|| done.saturating_sub(before) as f64 / time.as_secs_f64())
    }

    /// The remaining time at this rate.
    pub(super) fn left(&self, now: Instant, done: u64, total: u64) -> Option<Duration> {
        let rate = self.per_second(now, done).filter(|rate| *rate > 0.0)?;
        Duration::try_from_secs_f64(total.saturating_sub(done) as f64 / rate).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(start: Instant, milliseconds: u64) -> Instant {
        start + Duration::from_millis(milliseconds)
    }

    #[test]
    fn a_steady_rate_is_exact_from_the_start() {
        let start = Instant::now();
        let mut rate = Rate::new(start);
        assert_eq!(rate.per_second(after(start, 10), 1_350), None);
        for moment in (0..20_000).step_by(10) {
            let (now, done) = (after(start, moment), moment * 135);
            rate.mark(now, done);
            if let Some(told) = rate.per_second(now, done) {
                assert!((told - 135_000.0).abs() < 1.0, "{told} after {moment} ms");
            }
        }
        let left = rate.left(after(start, 20_000), 2_700_000, 4_050_000).unwrap();
        assert_eq!(left.as_secs_f64().round(), 10.0);
    }

    #[test]
    fn the_last_seconds_count() {
        let start = Instant::now();
        let mut rate = Rate::new(start);
        // A burst, then a standstill.
        rate.mark(after(start, 1_000), 1_000_000);
        for second in 2..20 {
            rate.mark(after(start, second * 1_000), 1_000_000);
        }
        assert_eq!(rate.per_second(after(start, 20_000), 1_000_000), Some(0.0));
        assert_eq!(rate.left(after(start, 20_000), 1_000_000, 2_000_000), None);
        assert!(rate.marks.len() < 10);
    }
}
