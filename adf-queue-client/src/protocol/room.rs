//! Limit of ready messages in each queue of a server.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use queue_core::Level;

use crate::QueueName;

/// Fill levels of the queues of all servers.
#[derive(Debug)]
pub(crate) struct QueueLevels {
    limit: u64,
    interval: Duration,
    levels: BTreeMap<(usize, QueueName), Level>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// It may, and is counted.
    Free,
    /// The caller has to ask the server first.
    Ask,
    /// Somebody asks, or will at this time. Carries the last known number of ready messages.
    Full { until: Instant, ready: Option<u64> },
}

/// Above this number of queues, those not asked about within an interval are forgotten.
const MANY: usize = 1024;

/// How long to wait for a query whose caller may be gone.
const PATIENCE: Duration = Duration::from_secs(1);

impl QueueLevels {
    pub(crate) fn new(limit: u64, interval: Duration) -> Self {
        QueueLevels { limit, interval, levels: BTreeMap::new() }
    }

    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    pub(crate) fn room(&mut self, server: usize, queue: &QueueName, now: Instant) -> Admission {
        let interval = self.interval;
        if self.levels.len() >= MANY {
            self.levels.retain(|_, level| !level.may_ask(interval, now));
        }
        let level = self.levels.entry((server, queue.clone())).or_default();
        let lost = |since: Instant| now.saturating_duration_since(since) >= PATIENCE.max(interval);
        if level.asked_since().is_some_and(lost) {
            level.give_up();
        }
        if level.may_ask(interval, now) {
            level.ask(now);
            return Admission::Ask;
        }
        match level.estimate() {
            Some(ready) if ready < self.limit => {
                level.count(1);
                Admission::Free
            }
            ready => {
                let soon = level.ask_at(interval);
                let until = soon.or_else(|| now.checked_add(PATIENCE)).unwrap_or(now);
                Admission::Full { until, ready }
            }
        }
    }

    /// Handles the server's answer; `None` if there was none.
    pub(crate) fn answered(&mut self, server: usize, queue: &QueueName, ready: Option<u64>) {
        let Some(level) = self.levels.get_mut(&(server, queue.clone())) else { return };
        match ready {
            Some(ready) => level.answered(ready),
            None => level.give_up(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_millis(100);

    #[test]
    fn whoever_comes_first_asks_and_the_others_wait_for_the_answer() {
        let (mut rooms, now) = (QueueLevels::new(2, INTERVAL), Instant::now());
        let queue: QueueName = "/q".try_into().unwrap();
        assert_eq!(rooms.room(0, &queue, now), Admission::Ask);
        let waits = Admission::Full { until: now + PATIENCE, ready: None };
        assert_eq!(rooms.room(0, &queue, now), waits);
        assert_eq!(rooms.room(1, &queue, now), Admission::Ask, "each server has its own");
        rooms.answered(0, &queue, Some(1));
        assert_eq!(rooms.room(0, &queue, now), Admission::Free);
        let full = Admission::Full { until: now + INTERVAL, ready: Some(2) };
        assert_eq!(rooms.room(0, &queue, now), full);
        assert_eq!(rooms.room(0, &queue, now + INTERVAL), Admission::Ask);
        // It is never answered.
        rooms.answered(0, &queue, None);
        assert_eq!(rooms.room(0, &queue, now + 2 * INTERVAL), Admission::Ask);
        assert_eq!(rooms.room(0, &queue, now + 2 * INTERVAL + PATIENCE), Admission::Ask);
    }

    #[test]
    fn queues_that_are_not_used_any_more_are_forgotten() {
        let (mut rooms, now) = (QueueLevels::new(2, INTERVAL), Instant::now());
        for n in 0..3 * MANY {
            let queue: QueueName = format!("/q{n}").try_into().unwrap();
            rooms.room(0, &queue, now + INTERVAL * n as u32);
            rooms.answered(0, &queue, Some(0));
        }
        assert!(rooms.levels.len() <= MANY, "{}", rooms.levels.len());
    }
}
