//! One server of a producer: its queue, its connection's state, and when to try it again.

use std::{
    task::Waker,
    time::{Duration, Instant},
};

use super::{log::Log, sooner};
use crate::{ConnectOptions, Deadline, Error, protocol::Backoff};

#[derive(Debug)]
pub(super) struct Lane {
    pub(super) log: Log,
    pub(super) phase: Phase,
    backoff: Backoff,
    /// When the last attempt or connection failed.
    failed_at: Option<Instant>,
    /// A connection was lost with something under way: the next one has to show first that it lasts.
    starts_slowly: bool,
    /// The server failed, and is not to be chosen before this.
    avoided_until: Option<Instant>,
    /// The server's limit, while a connection to it is open.
    max_job_size: Option<u64>,
    pub(super) last_error: Option<Error>,
    /// How many attempts to connect have ended.
    pub(super) attempts: u64,
    /// A connection is to be made even if nothing is to be sent.
    pub(super) is_wanted: bool,
    /// Somebody moves the bytes of this lane.
    pub(super) is_driven: bool,
    /// Who that is, when he sleeps.
    pub(super) driver: Option<Waker>,
    /// No put is due before this.
    pub(super) next_due: Option<Instant>,
    /// Since when the oldest command that waits for its reply is the oldest.
    head_since: Option<Instant>,
    /// Since when the transport has taken no byte although there are some.
    stuck_since: Option<Instant>,
    write_timeout: Duration,
    reply_timeout: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// No connection, and none is needed.
    Idle,
    Connecting,
    Ready,
    /// No connection before this.
    Backoff(Instant),
    /// Never again.
    Closed,
}

impl Lane {
    pub(super) fn new(options: &ConnectOptions) -> Self {
        Lane {
            log: Log::default(),
            phase: Phase::Idle,
            backoff: options.retry.delays(),
            failed_at: None,
            starts_slowly: false,
            avoided_until: None,
            max_job_size: None,
            last_error: None,
            attempts: 0,
            is_wanted: false,
            is_driven: false,
            driver: None,
            next_due: None,
            head_since: None,
            stuck_since: None,
            write_timeout: options.write_timeout,
            reply_timeout: options.reply_timeout,
        }
    }

    /// Whether puts may go here. A server that failed is tried again when its time has come; with `probes` that is by
    /// connecting to it in the background first.
    pub(super) fn is_usable(&self, now: Instant, probes: bool) -> bool {
        match self.phase {
            Phase::Closed => false,
            Phase::Ready => self.avoided_until.is_none_or(|until| until <= now),
            _ if probes => self.avoided_until.is_none(),
            // Whoever tries it again does so alone.
            Phase::Connecting => self.avoided_until.is_none(),
            Phase::Idle | Phase::Backoff(_) => self.avoided_until.is_none_or(|until| until <= now),
        }
    }

    /// When a server that is avoided is tried again.
    pub(super) fn avoided_until(&self) -> Option<Instant> {
        self.avoided_until
    }

    /// A connection is open.
    pub(super) fn open(&mut self, max_job_size: Option<u64>) {
        self.phase = Phase::Ready;
        self.is_wanted = false;
        self.attempts += 1;
        self.max_job_size = max_job_size;
        self.avoided_until = None;
        self.head_since = None;
        self.stuck_since = None;
        self.log.connect(self.starts_slowly);
    }

    /// The connection was lost, or could not be made. The log is as it was.
    pub(super) fn fail(&mut self, error: &Error, now: Instant) {
        match self.phase {
            Phase::Connecting => self.attempts += 1,
            Phase::Ready => self.starts_slowly = !self.log.is_quiet(),
            _ => {}
        }
        self.failed_at = Some(now);
        let until = self.avoid(now);
        self.phase = Phase::Backoff(until);
        self.max_job_size = None;
        self.last_error = Some(error.share());
    }

    /// Passes the server over for a while.
    pub(super) fn avoid(&mut self, now: Instant) -> Instant {
        // An hour is longer than any delay.
        let until = now.checked_add(self.backoff.next_delay()).unwrap_or(now);
        self.avoided_until = Some(until);
        until
    }

    /// A put has come, and nothing is connected that could take it: the server is tried again as soon as the shortest
    /// delay has passed since it failed last, however long the present one is.
    pub(super) fn ask(&mut self, now: Instant) {
        let Phase::Backoff(until) = self.phase else { return };
        let soon = self.failed_at.and_then(|at| at.checked_add(self.backoff.base()));
        let until = until.min(soon.map_or(now, |soon| soon.max(now)));
        self.phase = Phase::Backoff(until);
        self.avoided_until = Some(until);
    }

    /// A complete exchange: the server is alive, so the next failure is a new one.
    pub(super) fn prove(&mut self) {
        self.backoff.reset();
        self.avoided_until = None;
    }

    /// The limit that a body of this size is over.
    pub(super) fn is_too_big(&self, body: usize) -> Option<u64> {
        self.max_job_size.filter(|max| body as u64 > *max)
    }

    /// Notes what an exchange brought on.
    pub(super) fn note_progress(&mut self, now: Instant, has_written: bool, has_answers: bool) {
        self.head_since = match self.head_since {
            _ if !self.log.awaits_reply() => None,
            Some(since) if !has_answers => Some(since),
            _ => Some(now),
        };
        self.stuck_since = match self.stuck_since {
            _ if !self.log.has_unwritten() => None,
            Some(since) if !has_written => Some(since),
            _ => Some(now),
        };
    }

    /// The deadline of the connection that has passed.
    pub(super) fn overdue(&self, now: Instant) -> Option<Deadline> {
        let is_past = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        if is_past(self.write_by()) {
            Some(Deadline::Write)
        } else if is_past(self.reply_by()) {
            Some(Deadline::Reply)
        } else {
            None
        }
    }

    /// When the next deadline passes: the connection's, or a put's.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        sooner(sooner(self.write_by(), self.reply_by()), self.next_due)
    }

    /// Until when the oldest unanswered command is waited for.
    pub(super) fn reply_by(&self) -> Option<Instant> {
        self.head_since?.checked_add(self.reply_timeout)
    }

    fn write_by(&self) -> Option<Instant> {
        self.stuck_since?.checked_add(self.write_timeout)
    }

    /// Wakes the driver, if it sleeps.
    pub(super) fn nudge(&mut self, wakers: &mut Vec<Waker>) {
        wakers.extend(self.driver.take());
    }
}
