//! Reading without a waiting caller.

use std::time::{Duration, Instant};

use crate::{Io, Need};

/// Detects the end of an idle connection, and answers that arrived while nothing was being read.
#[derive(Clone, Debug, Default)]
pub struct IdleCheck {
    /// When bytes last moved in either direction.
    used_at: Option<Instant>,
    /// Number of bytes moved by then.
    moved: u64,
    /// Set to read what has arrived since then.
    look_since: Option<(Instant, Need)>,
}

/// After this time without use, the connection is checked before it is used again.
const IDLE: Duration = Duration::from_secs(1);

impl IdleCheck {
    /// For a new connection.
    #[must_use]
    pub fn new(now: Instant) -> Self {
        IdleCheck { used_at: Some(now), ..IdleCheck::default() }
    }

    /// Requests a read of what has already arrived.
    pub fn look(&mut self, now: Instant) {
        self.look_since = Some((now, Need::Look));
    }

    /// Whether that is still to be done.
    #[must_use]
    pub fn is_looking(&self) -> bool {
        self.look_since.is_some()
    }

    /// How to check whether the server has closed the connection, before queued data is sent on it.
    pub fn look_first<F>(&mut self, is_queued: bool, io: &Io<F>, now: Instant) -> Option<Need> {
        let moved = io.sent() + io.received();
        if moved != self.moved
            || self.look_since.is_some_and(|(since, _)| io.has_looked_since(since))
        {
            (self.moved, self.used_at, self.look_since) = (moved, Some(now), None);
        }
        let is_idle = || self.used_at.is_some_and(|at| now.saturating_duration_since(at) > IDLE);
        if is_queued && self.look_since.is_none() && is_idle() {
            self.look_since = Some((now, Need::Peek));
        }
        self.look_since.map(|(_, how)| how)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_connection_is_checked_before_use_and_read_on_request() {
        let (mut io, start) = (Io::<()>::default(), crate::now());
        let mut check = IdleCheck::new(start);
        assert_eq!(check.look_first(true, &io, start + IDLE), None, "it was just used");
        let now = start + 2 * IDLE;
        assert_eq!(check.look_first(false, &io, now), None, "nothing is to be sent");
        assert_eq!(check.look_first(true, &io, now), Some(Need::Peek));
        io.looked(now);
        assert_eq!(check.look_first(true, &io, now), None);
        assert!(!check.is_looking());
        check.look(now + IDLE);
        assert_eq!(check.look_first(false, &io, now + IDLE), Some(Need::Look));
        assert!(check.is_looking());
        io.looked(now + IDLE);
        assert_eq!(check.look_first(false, &io, now + IDLE), None);
        assert!(!check.is_looking());
    }
}
