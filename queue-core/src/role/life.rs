//! The state of a connection and its successors.

use std::{
    mem,
    time::{Duration, Instant},
};

use crate::{ConnectionState, Deadlines, Health, Io, LateCheck, Pulse, RetryPolicy};

/// When a lost connection may be replaced without a delay. A failed attempt always costs one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replace {
    /// If the lost connection was good.
    IfGood,
    /// The same, and also the first time that one is lost before it was good: a server that was just restarted may lose
    /// a single connection without being broken.
    UnlessTwice,
    /// Never, but after a good connection the delays begin with the shortest.
    Later,
}

/// The state of a connection and its successors: whether there is one, whether one is wanted, whether it was good, when
/// the server may be tried again, and what is late. A field of each role that implements [`Protocol`](crate::Protocol).
#[derive(Debug)]
pub struct Life<E> {
    pub(super) health: Health,
    pub(super) deadlines: Deadlines,
    /// `None` if the pump always reads, so that a late answer cannot have arrived unread.
    pub(super) late_check: Option<LateCheck>,
    replace: Replace,
    pub(super) is_open: bool,
    /// Whether there is to be a connection.
    pub(super) is_wanted: bool,
    /// Whether a pump moves the bytes.
    pub(super) is_moved: bool,
    /// Whether the next attempt has to wait.
    pub(super) is_pausing: bool,
    has_served: bool,
    /// Whether the last connection was lost before it was good.
    is_unproven: bool,
    /// Whether the server greets each connection.
    greets: bool,
    /// Whether it has greeted this one, if it greets.
    is_ready: bool,
    /// When it has to have greeted.
    pub(super) ready_by: Option<Instant>,
    /// Whether the next failure costs no delay.
    is_free: bool,
    /// Whether an answer has arrived since the deadlines were checked.
    pub(super) has_answers: bool,
    /// When the current caller came, if there is one at a time.
    asked_at: Option<Instant>,
    /// Why the connection has to end, although the stream is open.
    pub(super) closing: Option<E>,
    pub(super) ends: u64,
}

/// How a role describes its connections.
impl<E> Life<E> {
    /// No connection yet. Without `connect_timeout`, attempts have no time limit.
    #[must_use]
    pub fn new(
        retry: RetryPolicy,
        connect_timeout: Option<Duration>,
        deadlines: Deadlines,
        replace: Replace,
    ) -> Self {
        Life {
            health: Health::new(retry, connect_timeout),
            deadlines,
            late_check: None,
            replace,
            is_open: false,
            is_wanted: false,
            is_moved: false,
            is_pausing: false,
            has_served: false,
            is_unproven: false,
            greets: false,
            is_ready: false,
            ready_by: None,
            is_free: false,
            has_answers: false,
            asked_at: None,
            closing: None,
            ends: 0,
        }
    }

    /// For a connection with possibly unread data: a late answer is looked for before it counts as missing.
    #[must_use]
    pub fn left_unread(self) -> Self {
        Life { late_check: Some(LateCheck::default()), ..self }
    }

    /// For a server that greets: the greeting has to arrive within the time for connecting, and a connection without it
    /// counts as a failed attempt.
    #[must_use]
    pub fn greets(self) -> Self {
        Life { greets: true, ..self }
    }

    /// For a role whose first failure costs no delay.
    #[must_use]
    pub fn first_is_free(self) -> Self {
        Life { is_free: true, ..self }
    }

    /// For a role that gets its first connection from its pump, which has it already.
    #[must_use]
    pub fn given(self) -> Self {
        Life { is_wanted: true, is_moved: true, ..self }
    }

    /// Changes the time limits of answers and writes.
    pub fn set_deadlines(&mut self, deadlines: Deadlines) {
        self.deadlines = deadlines;
    }
}

/// What a role and its callers tell about the connection.
impl<E> Life<E> {
    /// The server has greeted.
    pub fn ready(&mut self) {
        (self.is_ready, self.ready_by) = (true, None);
    }

    /// An exchange has succeeded, so the connection is a good one.
    pub fn served(&mut self) {
        if !self.has_served {
            self.has_served = true;
            self.health.proven();
        }
    }

    /// An answer has arrived: the next request is the oldest now.
    pub fn answered(&mut self) {
        self.has_answers = true;
    }

    /// A caller has come, and the one before is gone: a failure of an attempt that began earlier is not the new one's.
    pub fn asked(&mut self, now: Instant) {
        self.asked_at = Some(now);
    }

    /// A request waits for the server, so the delay after its last failure is the shortest.
    pub fn hurry(&mut self, now: Instant) {
        self.health.hurry(now);
    }

    /// Ends the connection in the next exchange, or in this one, as lost for this reason. The only way to give up a
    /// connection that cannot be used any longer; nothing happens if there is none.
    pub fn close_with(&mut self, error: E) {
        if self.is_open {
            self.closing.get_or_insert(error);
        }
    }

    /// Closes a connection that is not needed any longer. That is no failure and no event.
    pub fn close(&mut self) {
        (self.is_open, self.closing) = (false, None);
    }

    /// A caller wants a connection. The wish ends with the attempt to make one.
    pub fn want(&mut self) {
        self.is_wanted = true;
    }

    /// Withdraws the wish for a connection.
    pub fn unwant(&mut self) {
        if mem::take(&mut self.is_wanted) {
            self.health.lost();
        }
    }

    /// Whether a connection is wanted and not being made. A caller that gets `true` has to make it.
    pub fn claim(&mut self) -> bool {
        let is_lacking = self.is_wanted && !self.is_moved;
        self.is_moved |= is_lacking;
        is_lacking
    }
}

/// How a role makes a connection: for [`Protocol::dial`](crate::Protocol::dial).
impl<E> Life<E> {
    /// Makes a connection to the server with this index, or waits until that is allowed.
    pub fn dial(&mut self, server: usize, now: Instant) -> Pulse {
        self.health.dial(server, now)
    }

    /// Makes a connection even if that should wait.
    pub fn attempt(&mut self, server: usize, now: Instant) -> Pulse {
        self.health.attempt(server, now)
    }
}

/// How things stand.
impl<E> Life<E> {
    /// Whether there is a connection that may be used.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.is_open && self.closing.is_none()
    }

    /// Whether there is a connection, even one that is about to be closed.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.is_open
    }

    /// Whether there is no connection, and there is to be one.
    #[must_use]
    pub fn is_wanted(&self) -> bool {
        self.is_wanted
    }

    /// Whether an exchange has succeeded on this connection, or on the last one.
    #[must_use]
    pub fn has_served(&self) -> bool {
        self.has_served
    }

    /// Number of lost connections and failed attempts, with one that is about to be closed.
    #[must_use]
    pub fn ends(&self) -> u64 {
        self.ends + u64::from(self.closing.is_some())
    }

    /// Whether a call with this policy would have failed by now: it has used up its retries without reaching the
    /// server.
    #[must_use]
    pub fn has_failed_for(&self, retry: &RetryPolicy) -> bool {
        self.health.has_failed_for(retry)
    }

    /// Whether there is no connection, and the last attempt to make one has failed.
    #[must_use]
    pub fn is_away(&self) -> bool {
        !self.is_open && self.health.failures() > 0
    }

    /// How long the server must not be tried yet.
    #[must_use]
    pub fn quarantine(&self, now: Instant) -> Option<Duration> {
        let until = self.health.quarantine(now).filter(|_| !self.is_open)?;
        Some(until.saturating_duration_since(now))
    }

    /// The state, for users.
    #[must_use]
    pub fn state(&self) -> ConnectionState {
        match (self.is_open, self.is_wanted) {
            (true, _) => ConnectionState::Ready,
            (false, true) if self.is_pausing => ConnectionState::Backoff,
            (false, true) => ConnectionState::Connecting,
            (false, false) => ConnectionState::Idle,
        }
    }
}

/// For the exchange.
impl<E> Life<E> {
    /// Whether there is a new connection; starts on it.
    pub(super) fn is_new(&mut self, io: &Io<E>, now: Instant) -> bool {
        let began = self.health.dialing.unwrap_or(now);
        if !self.health.is_new(io) {
            return false;
        }
        self.is_ready = !self.greets;
        self.ready_by = self.health.give_up_after(began).filter(|_| self.greets);
        (self.is_open, self.has_served, self.has_answers) = (true, false, false);
        (self.is_wanted, self.is_moved, self.closing) = (false, true, None);
        self.deadlines.reset();
        true
    }

    /// Counts the end of the connection, if there is one.
    pub(super) fn end(&mut self, is_good: bool, now: Instant) -> bool {
        self.closing = None;
        if !mem::take(&mut self.is_open) {
            return false;
        }
        if is_good {
            self.is_free = false;
            self.health.proven();
        }
        let was_unproven = mem::replace(&mut self.is_unproven, !is_good);
        match self.replace {
            _ if !self.is_ready => self.failed(now),
            Replace::IfGood if is_good => self.health.lost(),
            Replace::UnlessTwice if is_good || !was_unproven => self.health.lost(),
            Replace::IfGood | Replace::UnlessTwice | Replace::Later => self.failed(now),
        }
        true
    }

    /// Counts a failure.
    pub(super) fn failed(&mut self, now: Instant) {
        match mem::take(&mut self.is_free) {
            true => self.health.lost(),
            false => self.health.failed(now),
        }
    }

    /// Forgets a failed attempt that began for an earlier caller, and may have ended long ago.
    pub(super) fn disregards_attempt(&mut self) -> bool {
        let is_earlier = self.asked_at.is_some_and(|at| self.health.is_dialing_since_before(at));
        if is_earlier {
            self.health.lost();
        }
        is_earlier
    }
}
