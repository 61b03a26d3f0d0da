//! Which kind of grab a server understands, as far as it has shown.
//!
//! gearmand knows all three. Other servers answer a newer one with an ERROR, drop it without a word, or close the
//! connection.

use std::time::{Duration, Instant};

use super::Grab;

/// What is known of a server, over all connections of a lane.
#[derive(Debug)]
pub(super) struct Dialect {
    /// What the worker would like to ask with.
    preferred: Grab,
    /// What it asks with.
    grab: Grab,
    /// When the server first answered a grab of that kind.
    learnt: Option<Instant>,
    /// Connections in a row that were closed upon a grab of that kind, before any was answered.
    closes: u32,
}

/// A server that was upgraded is not asked in the old way for ever: the next connection after this time begins with the
/// preferred kind again.
const KEEP: Duration = Duration::from_secs(3600);

/// One connection can end for any reason.
const CLOSES: u32 = 2;

impl Dialect {
    pub(super) fn new(preferred: Grab) -> Self {
        Dialect { preferred, grab: preferred, learnt: None, closes: 0 }
    }

    /// What to ask with.
    pub(super) fn grab(&self) -> Grab {
        self.grab
    }

    /// Whether the server has refused everything but the oldest kind: it is Perl's Gearman::Server, or as old.
    pub(super) fn is_oldest(&self) -> bool {
        self.grab == Grab::Plain && self.preferred != Grab::Plain
    }

    /// Whether the server has answered a grab of this kind, on whatever connection.
    pub(super) fn is_learnt(&self) -> bool {
        self.learnt.is_some()
    }

    /// Whether there is an older kind to ask with.
    pub(super) fn has_older(&self) -> bool {
        self.grab.fallback().is_some()
    }

    /// The server has answered a grab of this kind.
    pub(super) fn understood(&mut self, grab: Grab, now: Instant) {
        // An older grab may have been under way before a newer one was answered after all.
        if self.learnt.is_none() || grab > self.grab {
            (self.grab, self.learnt) = (grab, Some(now));
        }
        self.closes = 0;
    }

    /// The server does not understand what it was asked with: an older kind is next. `false` if there is none; then it
    /// was not for the kind, and the preferred one is next.
    pub(super) fn step_down(&mut self) -> bool {
        match self.grab.fallback() {
            Some(older) => {
                *self = Dialect { grab: older, ..Dialect::new(self.preferred) };
                true
            }
            None => {
                self.forget();
                false
            }
        }
    }

    /// A connection was closed upon its first grab.
    pub(super) fn closed(&mut self) {
        self.closes += 1;
        if self.closes >= CLOSES {
            self.step_down();
        }
    }

    /// Nothing is known any more.
    pub(super) fn forget(&mut self) {
        *self = Dialect::new(self.preferred);
    }

    /// There is a new connection.
    pub(super) fn reconnected(&mut self, now: Instant) {
        if self.learnt.is_some_and(|at| now.saturating_duration_since(at) >= KEEP) {
            self.forget();
        }
    }
}
