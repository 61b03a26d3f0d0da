//! The kind of grab that a server understands, as far as it has shown.
//!
//! gearmand knows all three. Other servers answer a newer one with an ERROR, ignore it, or close the connection.

use std::time::{Duration, Instant};

use super::Grab;

/// The facts about a server, over all connections of a lane.
#[derive(Debug)]
pub(super) struct Dialect {
    /// The kind that the worker prefers.
    preferred: Grab,
    /// The kind that it uses.
    grab: Grab,
    /// When the server first answered a grab of that kind.
    learnt: Option<Instant>,
    /// Number of consecutive connections that were closed after a grab of that kind, before any was answered.
    closes: u32,
}

/// How long an older kind is kept: the next connection after this time starts with the preferred kind again, since the
/// server may have been upgraded.
const KEEP: Duration = Duration::from_secs(3600);

/// A single connection can end for any reason.
const CLOSES: u32 = 2;

impl Dialect {
    pub(super) fn new(preferred: Grab) -> Self {
        Dialect { preferred, grab: preferred, learnt: None, closes: 0 }
    }

    pub(super) fn grab(&self) -> Grab {
        self.grab
    }

    /// Whether the server has refused everything but the oldest kind, as Perl's Gearman::Server does.
    pub(super) fn is_oldest(&self) -> bool {
        self.grab == Grab::Plain && self.preferred != Grab::Plain
    }

    /// Whether the server has answered a grab of this kind on any connection.
    pub(super) fn is_learnt(&self) -> bool {
        self.learnt.is_some()
    }

    /// Whether it is the kind that only gearmand knows.
    pub(super) fn is_newest(&self) -> bool {
        self.grab == Grab::All
    }

    /// Whether there is an older kind.
    pub(super) fn has_older(&self) -> bool {
        self.grab.fallback().is_some()
    }

    /// The server has answered a grab of this kind.
    pub(super) fn understood(&mut self, grab: Grab, now: Instant) {
        // The answer may belong to an older grab, sent before a newer one was answered after all.
        if self.learnt.is_none() || grab > self.grab {
            (self.grab, self.learnt) = (grab, Some(now));
        }
        self.closes = 0;
    }

    /// The server does not understand the current kind, so an older one is next. Returns `false` if there is none: then
    /// the kind was not the cause, and the preferred one is next.
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

    /// A connection was closed after its first grab.
    pub(super) fn closed(&mut self) {
        self.closes += 1;
        if self.closes >= CLOSES {
            self.step_down();
        }
    }

    pub(super) fn forget(&mut self) {
        *self = Dialect::new(self.preferred);
    }

    /// Starts on a new connection.
    pub(super) fn reconnected(&mut self, now: Instant) {
        if self.learnt.is_some_and(|at| now.saturating_duration_since(at) >= KEEP) {
            self.forget();
        }
    }
}
