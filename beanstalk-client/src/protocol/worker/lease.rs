//! The duration of a reservation, as far as this side can know it.

use std::time::{Duration, Instant};

use crate::JobStats;

/// The clock of one reservation.
///
/// The server's clock starts when it assigns the job, not when the job arrives here. So this side counts from the
/// moment that the reserve, or the last confirmed touch, was sent, and never expects a later end than the server.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lease {
    /// The earliest moment at which the server's clock can have started.
    from: Instant,
    /// The job's time to run, once `stats-job` has reported it.
    ttr: Option<Duration>,
    /// When the unanswered touch was sent.
    touched: Option<Instant>,
    /// When to touch again after a refusal.
    again: Option<Instant>,
    refused: u8,
}

/// How long a job is certainly held: the server turns a time to run of 0 into 1 s.
pub(super) const FRESH: Duration = Duration::from_millis(250);

/// This number of refused touches ends the reservation.
const MAX_REFUSED: u8 = 2;

/// The time to run; the server turns 0 into 1.
pub(super) fn time_to_run(stats: &JobStats) -> Duration {
    Duration::from_secs(u64::try_from(stats.ttr).unwrap_or(1).max(1))
}

impl Lease {
    pub(super) fn new(from: Instant) -> Self {
        Lease { from, ttr: None, touched: None, again: None, refused: 0 }
    }

    /// Whether the reservation is so young that no time to run can have expired.
    pub(super) fn is_fresh(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.from) < FRESH
    }

    /// When it is no longer fresh.
    pub(super) fn stale_at(&self) -> Option<Instant> {
        self.from.checked_add(FRESH)
    }

    pub(super) fn learn(&mut self, ttr: Duration) {
        self.ttr = Some(ttr);
    }

    pub(super) fn is_known(&self) -> bool {
        self.ttr.is_some()
    }

    /// When it ends; `None` while the time to run is unknown.
    pub(super) fn end(&self) -> Option<Instant> {
        self.ttr.and_then(|ttr| self.from.checked_add(ttr))
    }

    pub(super) fn is_over(&self, now: Instant) -> bool {
        self.end().is_some_and(|end| end <= now)
    }

    /// Whether a touch that is this late has used up half of the time that was left when it was due.
    pub(super) fn is_long(&self, late: Duration) -> bool {
        self.ttr.is_some_and(|ttr| late >= ttr / 3)
    }

    /// When the next touch is due: after a third of the time to run.
    pub(super) fn beat(&self) -> Option<Instant> {
        match (self.touched, self.again) {
            (Some(_), _) => None,
            (None, Some(again)) => Some(again),
            (None, None) => self.ttr.and_then(|ttr| self.from.checked_add(ttr / 3)),
        }
    }

    pub(super) fn touch_sent(&mut self, now: Instant) {
        self.touched = Some(now);
    }

    pub(super) fn is_touching(&self) -> bool {
        self.touched.is_some()
    }

    /// The touch was carried out. The clock restarted no earlier than when the touch was sent.
    pub(super) fn touch_done(&mut self) {
        if let Some(sent) = self.touched.take() {
            self.from = sent;
        }
        self.again = None;
        self.refused = 0;
    }

    /// The touch was refused although the job is not gone. Returns `false` at the last permitted refusal.
    pub(super) fn touch_refused(&mut self, now: Instant) -> bool {
        self.touched = None;
        self.refused += 1;
        self.again = now.checked_add(self.ttr.unwrap_or(FRESH) / 3);
        self.refused < MAX_REFUSED
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_lease_starts_when_its_request_was_sent() {
        let start = Instant::now();
        let mut lease = Lease::new(start);
        assert_eq!((lease.end(), lease.beat()), (None, None));
        assert!(lease.is_fresh(start + FRESH / 2) && !lease.is_fresh(start + FRESH));
        lease.learn(9 * SECOND);
        assert_eq!(
            (lease.end(), lease.beat()),
            (Some(start + 9 * SECOND), Some(start + 3 * SECOND))
        );
        lease.touch_sent(start + 3 * SECOND);
        assert_eq!(lease.beat(), None, "one touch at a time");
        assert!(!lease.is_over(start + 8 * SECOND) && lease.is_over(start + 9 * SECOND));
        lease.touch_done();
        assert_eq!(lease.end(), Some(start + 12 * SECOND), "from when the touch was sent");
    }

    #[test]
    fn a_successful_touch_clears_a_refused_one() {
        let start = Instant::now();
        let mut lease = Lease::new(start);
        lease.learn(9 * SECOND);
        lease.touch_sent(start + 3 * SECOND);
        assert!(lease.touch_refused(start + 3 * SECOND));
        lease.touch_sent(start + 6 * SECOND);
        lease.touch_done();
        assert_eq!(lease.beat(), Some(start + 9 * SECOND));
        lease.touch_sent(start + 9 * SECOND);
        assert!(lease.touch_refused(start + 9 * SECOND));
    }
}
