//! When an idle session tries to restore a lost connection.

use std::time::{Duration, Instant};

const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Growing delays between attempts.
#[derive(Debug)]
pub struct Reconnector {
    at: Instant,
    pause: Duration,
}

impl Default for Reconnector {
    fn default() -> Self {
        Self { at: Instant::now(), pause: FIRST_PAUSE }
    }
}

impl Reconnector {
    /// A connection was lost: the first attempt to reconnect is immediate.
    pub fn lost(&mut self) {
        *self = Self::default();
    }

    /// Connects by `attempt`, if it is time and a person is using the session. Returns whether the connection is back.
    pub fn try_again(&mut self, now: Instant, attempt: impl FnOnce() -> bool) -> bool {
        if now < self.at {
            return false;
        }
        if attempt() {
            return true;
        }
        self.at = Instant::now() + self.pause;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_until_the_next_loss() {
        let mut again = Reconnector::default();
        let start = Instant::now();
        assert!(!again.try_again(start, || false));
        assert!(!again.try_again(start, || panic!("too soon")));
        assert!(!again.try_again(start + LONGEST_PAUSE, || false));
        assert_eq!(again.pause, FIRST_PAUSE * 4);
        again.lost();
        assert!(again.try_again(Instant::now(), || true));
    }
}
