//! One queue of a lane: its pulls, and when to ask next.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use queue_core::{Backoff, RetryPolicy, after};

use crate::QueueName;

/// A queue that a worker serves.
#[derive(Debug)]
pub(super) struct ServedQueue {
    pub(super) queue: QueueName,
    /// The tasks of its pulls, oldest first, which is also answered first. There is one more than there is room for
    /// while messages are ready that woke no pull.
    pub(super) pulls: VecDeque<u64>,
    /// A count in flight.
    pub(super) look: Option<(u64, CountReason, LastCount)>,
    /// When to count although a pull waits.
    pub(super) look_at: Option<Instant>,
    /// A message was returned while a pull waits.
    pub(super) has_returned: bool,
    /// Nothing is requested before this.
    rest_until: Option<Instant>,
    /// It rests because there was nothing, and for no other reason.
    rests_dry: bool,
    backoff: Backoff,
    /// Number of consecutive messages not run because they were delivered too often.
    poisoned: u32,
    /// Number of messages found by a count and not requested yet.
    pub(super) known: u32,
    /// Whether the last count found nothing, and nothing was held since.
    pub(super) is_dry: bool,
    /// Whether the server has answered a request that followed the last pull, and so has delivered what was ready.
    pub(super) is_settled: bool,
    /// A count found messages, some of which the last pull may have taken since: count again.
    pub(super) doubt: Option<CountReason>,
}

/// Why messages are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CountReason {
    /// To pull only if there is something.
    First,
    /// A message was returned, which wakes no waiting pull.
    Returned,
    /// Periodically.
    Again,
    /// The worker ends when nothing is left.
    Last,
}

/// The reason for a count.
#[derive(Clone, Copy, Debug)]
pub(super) struct LastCount {
    pub(super) last_pull: Option<u64>,
    pub(super) is_settled: bool,
}

impl ServedQueue {
    pub(super) fn new(queue: QueueName, retry: RetryPolicy) -> Self {
        ServedQueue {
            queue,
            pulls: VecDeque::new(),
            look: None,
            look_at: None,
            has_returned: false,
            rest_until: None,
            rests_dry: false,
            backoff: retry.delays(),
            poisoned: 0,
            known: 0,
            is_dry: false,
            is_settled: false,
            doubt: None,
        }
    }

    /// Until when nothing is requested.
    pub(super) fn resting(&self, now: Instant) -> Option<Instant> {
        self.rest_until.filter(|at| *at > now)
    }

    /// Requests nothing for this long.
    pub(super) fn rest_for(&mut self, pause: Duration, now: Instant) {
        self.rest_until = Some(after(now, pause));
        self.rests_dry = false;
    }

    /// The queue was empty: starts a pause that grows up to `most`.
    pub(super) fn rest_dry(&mut self, most: Duration, now: Instant) {
        let pause = self.backoff.next_delay().min(most);
        self.rest_for(pause, now);
        self.rests_dry = true;
    }

    /// The queue was fruitless again: starts a growing pause, and returns its length.
    pub(super) fn back_off(&mut self, now: Instant) -> Duration {
        let pause = self.backoff.next_delay();
        self.rest_for(pause, now);
        pause
    }

    /// The queue may have messages again.
    pub(super) fn wet(&mut self) {
        let was_dry = std::mem::take(&mut self.is_dry);
        if was_dry && self.rests_dry {
            self.rest_until = None;
        }
    }

    /// The queue had a message to run.
    pub(super) fn note_work(&mut self) {
        self.backoff.reset();
        self.poisoned = 0;
    }

    /// A message was not run. A single one costs nothing; if there are only such messages, requests pause.
    pub(super) fn note_poison(&mut self, now: Instant) {
        self.poisoned = self.poisoned.saturating_add(1);
        if self.poisoned > 1 {
            self.back_off(now);
        }
    }

    /// This worker has returned a message, which wakes no waiting pull.
    pub(super) fn was_returned(&mut self) {
        self.has_returned = !self.pulls.is_empty();
    }

    /// Schedules the next periodic count.
    pub(super) fn look_in(&mut self, interval: Duration, now: Instant) {
        self.look_at = now.checked_add(interval);
    }

    /// The connection is gone, and what was known with it. Returns the task of a count in flight.
    pub(super) fn forget(&mut self) -> Option<u64> {
        (self.look_at, self.has_returned) = (None, false);
        (self.known, self.is_dry) = (0, false);
        (self.is_settled, self.doubt) = (false, None);
        self.look.take().map(|(task, ..)| task)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_beyond_the_clock_is_a_pause() {
        let (retry, now) =
            (RetryPolicy::default().backoff(Duration::MAX, Duration::MAX), queue_core::now());
        for seed in 0..100 {
            let mut line = ServedQueue::new("/q".parse().unwrap(), retry.seed(seed));
            line.back_off(now);
            assert!(line.resting(now).is_some(), "seed {seed}");
        }
    }
}
