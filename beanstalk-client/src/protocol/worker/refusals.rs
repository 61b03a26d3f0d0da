//! Repeated refusals, and the pauses after them.

use std::time::{Duration, Instant};

use queue_core::Backoff;

/// Refusals that will probably be repeated. The cycle of a worker is short: without a pause it would spin thousands of
/// times a second.
#[derive(Debug)]
pub(super) struct Refusals {
    delays: Backoff,
    in_a_row: u32,
    until: Option<Instant>,
}

impl Refusals {
    pub(super) fn new(delays: Backoff) -> Self {
        Refusals { delays, in_a_row: 0, until: None }
    }

    /// Counts a refusal. Returns the number in a row and the length of the pause; `None` during a pause.
    pub(super) fn refused(&mut self, now: Instant) -> Option<(u32, Duration)> {
        if !self.left(now).is_zero() {
            return None;
        }
        let pause = self.delays.next_delay();
        self.in_a_row = self.in_a_row.saturating_add(1);
        self.until = Some(queue_core::after(now, pause));
        Some((self.in_a_row, pause))
    }

    /// Resets the count after a success.
    pub(super) fn succeeded(&mut self) {
        if self.in_a_row > 0 {
            self.in_a_row = 0;
            self.delays.reset();
        }
    }

    /// When the pause ends.
    pub(super) fn until(&self) -> Option<Instant> {
        self.until
    }

    /// Whether the pause is still on.
    pub(super) fn holds(&mut self, now: Instant) -> bool {
        self.until = self.until.filter(|until| *until > now);
        self.until.is_some()
    }

    /// The rest of the pause.
    pub(super) fn left(&self, now: Instant) -> Duration {
        self.until.map_or(Duration::ZERO, |until| until.saturating_duration_since(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_of_one_pause_are_one_step_and_a_success_starts_over() {
        let (base, cap) = (Duration::from_millis(100), Duration::from_secs(10));
        let mut refusals = Refusals::new(Backoff::new(base, cap, 7));
        let mut now = Instant::now();
        for step in 1..20 {
            let (in_a_row, pause) = refusals.refused(now).unwrap();
            assert!(in_a_row == step && pause <= cap);
            assert_eq!(refusals.refused(now), None, "the same step");
            assert!(refusals.holds(now));
            now += pause;
            assert!(!refusals.holds(now));
        }
        refusals.succeeded();
        assert!(matches!(refusals.refused(now), Some((1, pause)) if pause <= base));
    }
}
