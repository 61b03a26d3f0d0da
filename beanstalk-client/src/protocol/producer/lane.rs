//! One server of a producer: its queue, the state of its connection, and when to try it again.

use std::{
    task::Waker,
    time::{Duration, Instant},
};

use bytes::BytesMut;
use queue_core::{Deadlines, Health, Io, LateCheck, SLOW};

use super::{check::Outcomes, log::Log};
use crate::{
    ConnectOptions, Epoch, Error, ErrorKind,
    protocol::{Command, Stats, parser::Parser},
};

/// An idle connection that was unused for this long is checked before it is used again. What is written to a closed
/// connection has an unknown fate, and a check beforehand costs little. A caller that puts one job after another is
/// faster than this, and skips the check.
pub(super) const IDLE: Duration = Duration::from_micros(100);

/// For this long, such a check counts. On a busy machine, a caller may not run for a while between check and write.
pub(super) const CHECKED: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(super) struct Lane {
    pub(super) log: Log,
    pub(super) phase: LanePhase,
    pub(super) health: Health,
    pub(super) deadlines: Deadlines,
    pub(super) parser: Parser,
    max_body_size: usize,
    /// Until when a connection must be made and its server must have answered.
    pub(super) connect_by: Option<Instant>,
    /// Since when it has been making the connection.
    pub(super) connecting_since: Option<Instant>,
    /// Set when an answer is late. It may have arrived unread.
    pub(super) late_check: LateCheck,
    /// Length of the greeting on this connection: offsets of puts count from there.
    greeting: u64,
    /// How many bytes the connection had moved at the last check, and when they were moved.
    moved: u64,
    used_at: Option<Instant>,
    /// A connection was lost with commands in flight: the next one has to prove itself first.
    starts_slowly: bool,
    /// A serving connection was lost, which was not reported yet.
    pub(super) is_lost: bool,
    /// The server's limit, while connected.
    max_job_size: Option<u64>,
    pub(super) last_error: Option<Error>,
    /// The kind of failure reported last; each is reported once until a connection succeeds.
    pub(super) reported: Option<ErrorKind>,
    /// What became of it so far.
    pub(super) outcomes: Outcomes,
    /// Number of finished attempts to connect.
    pub(super) attempts: u64,
    /// Whether the server has ever accepted a job.
    has_served: bool,
    /// Connect even if there is nothing to send.
    pub(super) is_wanted: bool,
    /// Whether a driver moves the bytes of this lane.
    pub(super) is_driven: bool,
    /// Whether a caller was woken to drive it.
    pub(super) is_handed_on: bool,
    /// Wakes the sleeping driver.
    pub(super) driver: Option<Waker>,
    /// No put is due before this.
    pub(super) next_due: Option<Instant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LanePhase {
    /// Not connected, and nothing to send.
    Idle,
    Connecting,
    /// Connected, but the server has not answered yet.
    Greeting,
    Ready,
    /// Not connected until the delay has passed.
    Backoff,
    /// Closed for good.
    Closed,
}

impl Lane {
    pub(super) fn new(options: &ConnectOptions) -> Self {
        Lane {
            log: Log::default(),
            phase: LanePhase::Idle,
            health: Health::new(options.retry, Some(options.connecting_timeout())),
            deadlines: Deadlines::new(Some(options.reply_timeout), Some(options.write_timeout)),
            parser: Parser::new(Epoch::next(), options.max_body_size),
            max_body_size: options.max_body_size,
            connect_by: None,
            connecting_since: None,
            late_check: LateCheck::default(),
            greeting: 0,
            moved: 0,
            used_at: None,
            starts_slowly: false,
            is_lost: false,
            max_job_size: None,
            last_error: None,
            reported: None,
            outcomes: Outcomes::default(),
            attempts: 0,
            has_served: false,
            is_wanted: false,
            is_driven: false,
            is_handed_on: false,
            driver: None,
            next_due: None,
        }
    }

    /// Whether puts may go here. A failed server is tried again after its delay; with `probes`, by connecting to it in
    /// the background first.
    pub(super) fn is_usable(&self, now: Instant, probes: bool) -> bool {
        let has_not_failed = self.health.failures() == 0;
        match self.phase {
            LanePhase::Closed => false,
            LanePhase::Ready => self.health.quarantine(now).is_none() && !self.is_silent(now),
            _ if probes => has_not_failed && !self.is_slow(now),
            // Only one put at a time tries a failed server again.
            LanePhase::Connecting | LanePhase::Greeting => has_not_failed && !self.is_slow(now),
            LanePhase::Idle | LanePhase::Backoff => self.health.quarantine(now).is_none(),
        }
    }

    /// When a connection that is being made has taken so long that puts had better go to another server.
    pub(super) fn slow_at(&self) -> Option<Instant> {
        let is_on_its_way = matches!(self.phase, LanePhase::Connecting | LanePhase::Greeting);
        self.connecting_since.filter(|_| is_on_its_way)?.checked_add(SLOW)
    }

    /// Whether it takes that long, while a caller waits for it.
    pub(super) fn is_slow(&self, now: Instant) -> bool {
        self.is_driven && self.slow_at().is_some_and(|at| at <= now)
    }

    /// Whether its server is connected, and has not answered for a while: it may be frozen.
    fn is_silent(&self, now: Instant) -> bool {
        let since = self.deadlines.awaits_since();
        since.and_then(|since| since.checked_add(SLOW)).is_some_and(|at| at <= now)
    }

    /// The server has taken a job.
    pub(super) fn accepted(&mut self) {
        self.health.proven();
        self.starts_slowly = false;
        self.has_served = true;
    }

    /// Whether the server, which has served, has lost its connection and is to have another.
    pub(super) fn is_returning(&self) -> bool {
        self.has_served && !matches!(self.phase, LanePhase::Ready | LanePhase::Closed)
    }

    pub(super) fn is_connected(&self) -> bool {
        matches!(self.phase, LanePhase::Greeting | LanePhase::Ready)
    }

    pub(super) fn has_work(&self) -> bool {
        self.is_wanted || !self.log.is_empty()
    }

    /// Whether the answers to puts that are due may have arrived unread.
    pub(super) fn has_overdue_answers(&self, now: Instant) -> bool {
        self.next_due.is_some_and(|at| at <= now) && !self.log.is_quiet()
    }

    /// Whether puts wait to be written. Answers may be read later.
    pub(super) fn has_unwritten(&self) -> bool {
        self.phase != LanePhase::Closed && self.log.has_queued()
    }

    /// A caller drives it from now on.
    pub(super) fn drive(&mut self) {
        (self.is_driven, self.is_handed_on) = (true, false);
    }

    /// Whether it has something to do now, and no driver.
    pub(super) fn waits(&self, now: Instant) -> bool {
        !self.is_driven
            && self.has_work()
            && match self.phase {
                LanePhase::Closed => false,
                LanePhase::Backoff => self.health.quarantine(now).is_none(),
                _ => true,
            }
    }

    /// Starts on a new connection. Asks the server for its limit, which also shows that it answers.
    pub(super) fn greet(&mut self, io: &mut Io<Error>) {
        self.phase = LanePhase::Greeting;
        self.parser = Parser::new(Epoch::next(), self.max_body_size);
        (self.moved, self.used_at) = (0, None);
        self.deadlines.reset();
        let mut question = BytesMut::new();
        Stats.encode(&mut question);
        self.greeting = question.len() as u64;
        io.queue(&mut question);
    }

    /// The server has answered, so puts may go.
    pub(super) fn open(&mut self, max_job_size: Option<u64>) {
        self.phase = LanePhase::Ready;
        self.is_wanted = false;
        self.reported = None;
        self.attempts += 1;
        self.outcomes.answers += 1;
        self.max_job_size = max_job_size;
        self.log.connect(self.starts_slowly);
    }

    /// The connection was lost or could not be made. The log keeps its entries.
    pub(super) fn fail(&mut self, error: &Error, now: Instant) {
        match self.phase {
            LanePhase::Connecting | LanePhase::Greeting => self.attempts += 1,
            LanePhase::Ready => {
                // Until a server that broke with puts in flight has taken a job.
                self.starts_slowly |= !self.log.is_quiet();
                self.is_lost = true;
            }
            _ => {}
        }
        self.outcomes.failures += 1;
        self.health.failed(now);
        self.deadlines.reset();
        self.phase = LanePhase::Backoff;
        self.max_job_size = None;
        self.last_error = Some(error.share());
    }

    /// A put has arrived: a failed server is tried again soon.
    pub(super) fn ask(&mut self, now: Instant) {
        if self.phase == LanePhase::Backoff {
            self.health.hurry(now);
        }
    }

    /// The server's limit, if a body of this size exceeds it.
    pub(super) fn is_too_big(&self, body: usize) -> Option<u64> {
        self.max_job_size.filter(|max| body as u64 > *max)
    }

    /// Notes how much the connection has moved.
    pub(super) fn note_moved(&mut self, io: &Io<Error>, now: Instant) {
        if self.phase == LanePhase::Ready {
            self.log.note_written(io.sent().saturating_sub(self.greeting));
        }
        let moved = io.sent() + io.received();
        if self.moved != moved {
            (self.moved, self.used_at) = (moved, Some(now));
        }
    }

    /// Whether the connection was idle, and was not checked since.
    pub(super) fn is_unchecked(&self, io: &Io<Error>, now: Instant) -> bool {
        let is_older = |at: Instant, age| now.saturating_duration_since(at) > age;
        let Some(used_at) = self.used_at.filter(|used| is_older(*used, IDLE)) else { return false };
        let checked_at = io.looked_at().filter(|checked| *checked >= used_at);
        checked_at.is_none_or(|checked| is_older(checked, CHECKED))
    }

    /// Wakes the driver, if it waits: there is something to do.
    pub(super) fn wake_driver(&mut self, wakers: &mut Vec<Waker>) {
        wakers.extend(self.driver.take());
    }
}
