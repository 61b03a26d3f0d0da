//! When to query servers again: periodically, at once when the user asks for it, and never while paused.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use queue_core::lock;

/// The pace, shared by all pollers.
pub(super) struct Pace {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    every: Duration,
    paused: bool,
    over: bool,
    /// Number of manual refreshes.
    asked: u64,
}

/// The state of one poller.
pub(super) struct Seen {
    at: Instant,
    asked: u64,
}

/// Ends all polling when it is dropped.
pub(super) struct Ends(Arc<Pace>);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.lock().over = true;
        self.0.changed.notify_all();
    }
}

impl Pace {
    pub(super) fn new(every: Duration) -> Self {
        let state = State { every, paused: false, over: false, asked: 0 };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    pub(super) fn ends(self: &Arc<Self>) -> Ends {
        Ends(Arc::clone(self))
    }

    /// Changes the pace, and polls now unless paused.
    pub(super) fn set(&self, every: Duration, paused: bool) {
        let mut state = self.lock();
        (state.every, state.paused) = (every, paused);
        state.asked += u64::from(!paused);
        self.changed.notify_all();
    }

    /// A poll was just made.
    pub(super) fn begin(&self) -> Seen {
        Seen { at: Instant::now(), asked: self.lock().asked }
    }

    /// Waits for the next poll; false when there is none.
    pub(super) fn wait(&self, seen: &mut Seen) -> bool {
        let mut state = self.lock();
        loop {
            if state.over {
                return false;
            }
            let rest = state.every.saturating_sub(seen.at.elapsed());
            if state.asked != seen.asked || rest.is_zero() && !state.paused {
                *seen = Seen { at: Instant::now(), asked: state.asked };
                return true;
            }
            // A paused poller is woken.
            let rest = if state.paused { Duration::from_secs(3600) } else { rest };
            let waited = self.changed.wait_timeout(state, rest);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn polls_at_the_interval_or_on_request_until_the_end() {
        let pace = Arc::new(Pace::new(Duration::ZERO));
        let mut seen = pace.begin();
        assert!(pace.wait(&mut seen), "the time has come");
        let hour = Duration::from_secs(3600);
        pace.set(hour, false);
        assert!(pace.wait(&mut seen), "it was asked for");
        pace.set(Duration::ZERO, true);
        let asked = seen.asked;
        drop(pace.ends());
        assert!(!pace.wait(&mut seen) && seen.asked == asked, "paused, and then over");
    }
}
