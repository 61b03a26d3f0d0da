//! One queue of a lane: its pulls, and when to ask next.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use queue_core::{Backoff, RetryPolicy};

use crate::QueueName;

/// A queue that a worker serves.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) queue: QueueName,
    /// The tasks of its pulls, the oldest first, which is answered first. Beyond what there is room for there is one more
    /// while messages lie there that woke nobody.
    pub(super) pulls: VecDeque<u64>,
    /// A count that is under way.
    pub(super) look: Option<(u64, Look)>,
    /// When to count although a pull waits.
    pub(super) look_at: Option<Instant>,
    /// A message was put back while a pull waits.
    pub(super) has_returned: bool,
    /// Nothing is asked before that.
    rest_until: Option<Instant>,
    backoff: Backoff,
    /// How many messages in a row were not run, because they were delivered too often.
    poisoned: u32,
    /// How many looks in a row have found messages although a pull waits.
    pub(super) found: u32,
    /// How many of the messages that a look has found were not asked for yet.
    pub(super) known: u32,
    /// The last look found nothing, and nothing was held since.
    pub(super) is_dry: bool,
}

/// Why messages are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// A pull is sent only where it brings something.
    First,
    /// A message was put back, which wakes no pull that waits.
    Returned,
    /// It is time.
    Again,
    /// The worker is to end when nothing is left.
    Last,
}

impl Line {
    pub(super) fn new(queue: QueueName, retry: RetryPolicy) -> Self {
        Line {
            queue,
            pulls: VecDeque::new(),
            look: None,
            look_at: None,
            has_returned: false,
            rest_until: None,
            backoff: retry.delays(),
            poisoned: 0,
            found: 0,
            known: 0,
            is_dry: false,
        }
    }

    /// Until when nothing is asked.
    pub(super) fn resting(&self, now: Instant) -> Option<Instant> {
        self.rest_until.filter(|at| *at > now)
    }

    /// Nothing is asked for that long.
    pub(super) fn rest_for(&mut self, pause: Duration, now: Instant) {
        self.rest_until = now.checked_add(pause);
    }

    /// The queue gave nothing to do once more: a pause that grows. Gives its length.
    pub(super) fn back_off(&mut self, now: Instant) -> Duration {
        let pause = self.backoff.next_delay();
        self.rest_for(pause, now);
        pause
    }

    /// There may be messages where there were none.
    pub(super) fn wet(&mut self) {
        if std::mem::take(&mut self.is_dry) {
            self.rest_until = None;
        }
    }

    /// The queue gives something to do.
    pub(super) fn is_fruitful(&mut self) {
        self.backoff.reset();
        self.poisoned = 0;
    }

    /// A message was not run. One among others costs nothing; where there are only such, they are not asked for without
    /// pause.
    pub(super) fn is_poisoned(&mut self, now: Instant) {
        self.poisoned = self.poisoned.saturating_add(1);
        if self.poisoned > 1 {
            self.back_off(now);
        }
    }

    /// This worker has put a message back, which wakes no pull that waits.
    pub(super) fn was_returned(&mut self) {
        self.has_returned = !self.pulls.is_empty();
    }

    /// The next look.
    pub(super) fn look_in(&mut self, interval: Duration, now: Instant) {
        self.look_at = now.checked_add(interval);
    }

    /// The connection is gone, and with it what was known of it. Gives the task of a look that was under way.
    pub(super) fn forget(&mut self) -> Option<u64> {
        (self.look_at, self.found, self.has_returned) = (None, 0, false);
        (self.known, self.is_dry) = (0, false);
        self.look.take().map(|(task, _)| task)
    }
}
