//! The pause after `DEADLINE_SOON`.

use std::time::{Duration, Instant};

/// A pause in reserving, while the server would answer every reserve with `DEADLINE_SOON`, thousands of times a second.
#[derive(Debug, Default)]
pub(super) struct DeadlineSoonPause {
    until: Option<Instant>,
    last: Option<Instant>,
    /// The answer was repeated although a touch was confirmed in between: no touch ends the pause.
    goes_on: bool,
}

/// How long no reserve is sent after `DEADLINE_SOON`, unless a touch is confirmed earlier: the server's margin is a
/// second. A time to run of one second is always within it, touched or not.
const MARGIN: Duration = Duration::from_secs(1);

impl DeadlineSoonPause {
    /// Starts the pause. Returns `false` if it is already on.
    pub(super) fn began(&mut self, now: Instant) -> bool {
        if self.until.is_some_and(|until| until > now) {
            return false;
        }
        let since_last = self.last.map(|last| now.saturating_duration_since(last));
        self.goes_on = since_last.is_some_and(|time| time < 2 * MARGIN);
        (self.until, self.last) = (now.checked_add(MARGIN), Some(now));
        true
    }

    /// A touch was confirmed.
    pub(super) fn touched(&mut self) {
        if !self.goes_on {
            self.until = None;
        }
    }

    /// The jobs concerned are no longer held.
    pub(super) fn ended(&mut self) {
        self.until = None;
    }

    /// Whether the pause is still on.
    pub(super) fn holds(&mut self, now: Instant) -> bool {
        self.until = self.until.filter(|until| *until > now);
        self.until.is_some()
    }

    /// When the pause ends.
    pub(super) fn until(&self) -> Option<Instant> {
        self.until
    }
}
