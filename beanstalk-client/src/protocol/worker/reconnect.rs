//! From one connection to the next.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use super::{Ending, WorkerSession};
use crate::protocol::{Backoff, Session};

/// When the next connection is made.
#[derive(Debug)]
pub(super) struct Reconnects {
    delays: Backoff,
    /// When the present connection was made.
    since: Option<Instant>,
    /// The server has answered on it.
    is_welcome: bool,
    /// The server has done on it what a worker is there for.
    has_succeeded: bool,
}

/// A connection that has lasted so long was a good one, even if there was no job on it.
const GOOD: Duration = Duration::from_secs(1);

impl Reconnects {
    pub(super) fn new(delays: Backoff) -> Self {
        Reconnects { delays, since: None, is_welcome: false, has_succeeded: false }
    }

    pub(super) fn welcomed(&mut self) {
        self.is_welcome = true;
    }

    pub(super) fn succeeded(&mut self) {
        self.has_succeeded = true;
    }

    fn connected(&mut self, now: Instant) {
        self.since = Some(now);
        (self.is_welcome, self.has_succeeded) = (false, false);
    }

    /// The delay before the next attempt. It starts over after a good connection only: a server that accepts, answers
    /// and then closes must not be hammered.
    fn next_delay(&mut self, now: Instant) -> Duration {
        let has_lasted =
            self.since.take().is_some_and(|since| now.saturating_duration_since(since) >= GOOD);
        if self.is_welcome && (has_lasted || self.has_succeeded) {
            self.delays.reset();
        }
        (self.is_welcome, self.has_succeeded) = (false, false);
        self.delays.next_delay()
    }
}

impl WorkerSession {
    /// Starts over on a connection that was just made, in place of one that is closed.
    pub fn connected(&mut self, now: Instant) {
        self.session = Session::new(self.settings.max_body);
        self.expected = VecDeque::new();
        self.answered = now;
        self.window = 1;
        self.is_dry = false;
        self.pause = None;
        self.soon = None;
        self.is_stormy = false;
        self.nudge = None;
        self.nudges = 0;
        self.has_warned = false;
        self.ending = Ending::No;
        self.reconnects.connected(now);
        self.prepare(now);
    }

    /// How long to wait before the next connection, after one was lost or could not be made: for longer each time in a
    /// row, and at least for as long as a server that refuses is not to be asked.
    pub fn rest(&mut self, now: Instant) -> Duration {
        self.reconnects.next_delay(now).max(self.refusals.left(now))
    }
}
