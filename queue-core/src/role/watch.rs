//! Reading without a waiting caller.

use std::time::{Duration, Instant};

use crate::{Io, Pulse};

/// Detects the end of an idle connection, and answers that arrived while nothing was being read.
#[derive(Clone, Debug, Default)]
pub struct Watch {
    /// When bytes went either way.
    used_at: Option<Instant>,
    /// How many had gone by then.
    moved: u64,
    /// What is here already is to be read, as of then.
    look_since: Option<(Instant, Pulse)>,
}

/// After so long without use, the connection is looked at before it is used again.
const IDLE: Duration = Duration::from_secs(1);

impl Watch {
    /// A connection that was just made.
    #[must_use]
    pub fn new(now: Instant) -> Self {
        Watch { used_at: Some(now), ..Watch::default() }
    }

    /// Requests a read of what has already arrived.
    pub fn look(&mut self, now: Instant) {
        self.look_since = Some((now, Pulse::Look));
    }

    /// Whether that is still to be done.
    #[must_use]
    pub fn is_looking(&self) -> bool {
        self.look_since.is_some()
    }

    /// How to check whether the server has closed the connection, before something that `is_queued` is sent on it.
    pub fn look_first<F>(&mut self, is_queued: bool, io: &Io<F>, now: Instant) -> Option<Pulse> {
        let moved = io.sent() + io.received();
        if moved != self.moved
            || self.look_since.is_some_and(|(since, _)| io.has_looked_since(since))
        {
            (self.moved, self.used_at, self.look_since) = (moved, Some(now), None);
        }
        let is_idle = || self.used_at.is_some_and(|at| now.saturating_duration_since(at) > IDLE);
        if is_queued && self.look_since.is_none() && is_idle() {
            self.look_since = Some((now, Pulse::Peek));
        }
        self.look_since.map(|(_, how)| how)
    }
}
