//! The fill level of a server's queue.

use std::time::{Duration, Instant};

/// Number of messages waiting in a server's queue: the last number reported by the server, plus those put there since
/// that query. What consumers take and others put becomes visible with the next answer.
#[derive(Clone, Debug, Default)]
pub struct Level {
    said: Option<u64>,
    since: u64,
    /// Number of those that were put before the current query.
    asked: Option<u64>,
    asked_at: Option<Instant>,
}

impl Level {
    /// The number of waiting messages; `None` before the first answer.
    #[must_use]
    pub fn estimate(&self) -> Option<u64> {
        Some(self.said?.saturating_add(self.since))
    }

    /// Whether the server may be queried: no query is in flight, and the last one was sent at least an interval ago.
    #[must_use]
    pub fn may_ask(&self, interval: Duration, now: Instant) -> bool {
        let is_early = |at: Instant| now.saturating_duration_since(at) < interval;
        self.asked.is_none() && !self.asked_at.is_some_and(is_early)
    }

    /// When it may be queried again; `None` if it may be now, or while a query is in flight.
    #[must_use]
    pub fn ask_at(&self, interval: Duration) -> Option<Instant> {
        self.asked_at.filter(|_| self.asked.is_none())?.checked_add(interval)
    }

    /// Records a query sent now, after everything counted so far.
    pub fn ask(&mut self, now: Instant) {
        self.asked = Some(self.since);
        self.asked_at = Some(now);
    }

    /// Since when a query is in flight.
    #[must_use]
    pub fn asked_since(&self) -> Option<Instant> {
        self.asked.and(self.asked_at)
    }

    /// The current query gets no answer.
    pub fn give_up(&mut self) {
        self.asked = None;
    }

    /// The answer to the query.
    pub fn answered(&mut self, waiting: u64) {
        self.since = self.since.saturating_sub(self.asked.take().unwrap_or_default());
        self.said = Some(waiting);
    }

    /// Counts messages that are put.
    pub fn count(&mut self, messages: u64) {
        self.since = self.since.saturating_add(messages);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_secs(1);

    #[test]
    fn what_is_put_behind_a_question_is_counted_on_top_of_its_answer() {
        let (mut level, now) = (Level::default(), Instant::now());
        assert_eq!(level.estimate(), None);
        level.ask(now);
        level.count(2);
        level.answered(5);
        assert_eq!(level.estimate(), Some(7));
        level.ask(now);
        level.count(1);
        level.answered(6);
        assert_eq!(level.estimate(), Some(7), "the two were among the six");
    }

    #[test]
    fn one_question_is_under_way_and_the_next_keeps_its_distance() {
        let (mut level, now) = (Level::default(), Instant::now());
        assert!(level.may_ask(INTERVAL, now));
        level.ask(now);
        assert!(!level.may_ask(INTERVAL, now + 2 * INTERVAL) && level.ask_at(INTERVAL).is_none());
        assert_eq!(level.asked_since(), Some(now));
        level.answered(0);
        assert_eq!(level.ask_at(INTERVAL), Some(now + INTERVAL));
        assert!(!level.may_ask(INTERVAL, now) && level.may_ask(INTERVAL, now + INTERVAL));
        level.ask(now + INTERVAL);
        level.give_up();
        assert!(level.may_ask(INTERVAL, now + 2 * INTERVAL));
    }
}
