//! Commands that make the server check its clock.

use std::time::{Duration, Instant};

/// When to send a keepalive after the end of a reservation whose handler still runs: some releases forget the timer of a
/// quiet connection (beanstalkd/beanstalkd#262, #380).
#[derive(Debug, Default)]
pub(super) struct Keepalive {
    next: Option<Instant>,
    left: u8,
}

/// Number of keepalives, and the interval between the end of the reservation and each of them.
const TIMES: u8 = 3;
const AFTER: Duration = Duration::from_secs(1);

impl Keepalive {
    /// A reservation has expired.
    pub(super) fn begin(&mut self, now: Instant) {
        (self.next, self.left) = (now.checked_add(AFTER), TIMES);
    }

    /// Whether a keepalive is due; if so, it counts as sent.
    pub(super) fn is_due(&mut self, now: Instant) -> bool {
        let is_due = self.next.is_some_and(|next| next <= now);
        if is_due {
            self.left = self.left.saturating_sub(1);
            self.next = if self.left > 0 { now.checked_add(AFTER) } else { None };
        }
        is_due
    }

    /// No more keepalives are needed.
    pub(super) fn end(&mut self) {
        *self = Keepalive::default();
    }

    /// When the next keepalive is due.
    pub(super) fn next(&self) -> Option<Instant> {
        self.next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_due_three_times_one_second_apart_unless_ended() {
        let (mut keepalive, mut now) = (Keepalive::default(), Instant::now());
        assert!(!keepalive.is_due(now));
        keepalive.begin(now);
        for _ in 0..TIMES {
            assert!(!keepalive.is_due(now));
            now += AFTER;
            assert!(keepalive.is_due(now));
        }
        assert_eq!(keepalive.next(), None);
        keepalive.begin(now);
        keepalive.end();
        assert!(!keepalive.is_due(now + AFTER));
    }
}
