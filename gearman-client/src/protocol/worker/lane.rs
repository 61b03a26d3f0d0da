//! Decisions about a worker's connections to one server.

#[cfg(feature = "tokio")]
use std::task::Waker;
use std::{
    io,
    time::{Duration, Instant},
};

use bytes::BytesMut;
use queue_core::{
    ConnectionState, End, Health, Io, Late, Overdue, Pace, Pulse, RetryPolicy, Role, Wakers,
    earliest,
};

use super::{Assignment, WorkerSession};
use crate::{
    Deadline, Error, JobHandle, LostReason,
    error::lost,
    protocol::client::route::no_server,
    protocol::{Epoch, Magic, decoder::Framing},
};

/// The worker role for one server: when to connect, what to register, when to request jobs, when to give a connection
/// up, and how to end.
///
/// * The functions of the worker are the first requests of every connection.
/// * After a good connection the next one follows at once, and so does the first attempt; other attempts have growing
///   delays.
/// * Before an answer counts as overdue, the connection is read again, because nobody may have read while a handler
///   ran.
/// * A stopping worker requests no further job, waits for the running ones, confirms with an ECHO that its results were
///   accepted, and ends. Without that ECHO it closes its sending side after the last result.
#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) session: WorkerSession,
    framing: Framing,
    health: Health,
    pace: Pace,
    life: Life,
    /// Whether it no longer waits for its jobs and grabs.
    is_hurried: bool,
    with_barrier: bool,
    has_sent_barrier: bool,
    /// Set to read what has arrived since then.
    looking: Option<Instant>,
    /// Whether the session belongs to the current connection.
    is_open: bool,
    /// Whether the next connection may follow this one at once.
    may_return: bool,
    /// The server's progress in answering at the last check.
    steps: u64,
    overdue: Overdue,
    /// Number of unconfirmed results that the last barrier reported.
    told_unknown: u64,
    /// Number of bytes that the connection had not yet written.
    unwritten: usize,
    spare: BytesMut,
    /// What is being done about a missing connection.
    state: ConnectionState,
    failures: u64,
    last_error: Option<Error>,
    jobs: Vec<Assignment>,
    news: Vec<News>,
    traffic: Traffic,
    /// The bytes that the connection has read and written, as far as counted.
    counted: (u64, u64),
    connecting: Wakers,
    /// Tasks that wait for room.
    waiting: Wakers,
    barriers: Wakers,
    /// Tasks that wait for the loss of a job.
    losses: Wakers,
}

/// The lane's settings: how to connect, and how long to wait.
#[derive(Clone, Debug)]
pub(crate) struct Terms {
    pub(crate) retry: RetryPolicy,
    pub(crate) connect_timeout: Duration,
    pub(crate) reply_timeout: Duration,
    pub(crate) write_timeout: Duration,
    pub(crate) max_packet_size: usize,
    /// Whether an ECHO confirms the last results.
    pub(crate) with_barrier: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    Working,
    Stopping,
    /// Abandoned before its jobs had ended.
    #[cfg_attr(not(feature = "tokio"), allow(dead_code))]
    Cut,
    Over,
}

/// An event for the worker.
#[derive(Debug)]
pub(crate) enum News {
    Connected,
    /// It was lost, or could not be made; the next attempt is made after this time.
    Lost(Error, Duration),
}

/// Traffic since the last call.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Traffic {
    pub(crate) replies: u64,
    pub(crate) bytes_in: u64,
    pub(crate) bytes_out: u64,
}

/// An ECHO on a connection, whose answer shows that the server has read everything before it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Barrier {
    epoch: Epoch,
    /// `None` without a connection.
    number: Option<u64>,
}

/// No further report or result is accepted while this many bytes wait to be written.
const ENOUGH_OUTGOING: usize = 1 << 20;

impl Lane {
    pub(crate) fn new(session: WorkerSession, terms: &Terms) -> Self {
        Lane {
            session,
            framing: Framing::new(Magic::Response, terms.max_packet_size),
            health: Health::new(terms.retry, Some(terms.connect_timeout)),
            pace: Pace::new(Some(terms.reply_timeout), Some(terms.write_timeout)),
            life: Life::Working,
            is_hurried: false,
            with_barrier: terms.with_barrier,
            has_sent_barrier: false,
            looking: None,
            is_open: false,
            may_return: true,
            steps: 0,
            overdue: Overdue::default(),
            told_unknown: 0,
            unwritten: 0,
            spare: BytesMut::new(),
            state: ConnectionState::Idle,
            failures: 0,
            last_error: None,
            jobs: Vec::new(),
            news: Vec::new(),
            traffic: Traffic::default(),
            counted: (0, 0),
            connecting: Wakers::default(),
            waiting: Wakers::default(),
            barriers: Wakers::default(),
            losses: Wakers::default(),
        }
    }

    /// Requests no further job, and ends when the running ones have ended.
    pub(crate) fn stop(&mut self) {
        if self.life == Life::Working {
            self.life = Life::Stopping;
        }
        self.session.stop();
    }

    /// Stops waiting for jobs and for the ends of held ones, which go back to the server: only sent data still matters.
    #[cfg(feature = "blocking")]
    pub(crate) fn hurry(&mut self) {
        self.stop();
        self.session.leave_all();
        self.is_hurried = true;
    }

    /// Leaves all held jobs to the server.
    #[cfg(feature = "blocking")]
    pub(crate) fn leave_held(&mut self) {
        self.session.leave_all();
    }

    /// Has received data read without waiting.
    #[cfg(feature = "blocking")]
    pub(crate) fn look(&mut self, since: Instant) {
        self.looking = Some(since).filter(|_| self.is_open);
    }

    /// Whether that has yet to be done.
    #[cfg(feature = "blocking")]
    pub(crate) fn is_looking(&self) -> bool {
        self.looking.is_some()
    }

    /// Ends at once; unfinished jobs go back to the server.
    #[cfg(feature = "tokio")]
    pub(crate) fn cut(&mut self) {
        self.life = Life::Cut;
        self.is_open = false;
        self.session.close();
    }

    pub(crate) fn is_over(&self) -> bool {
        matches!(self.life, Life::Cut | Life::Over)
    }

    pub(crate) fn is_open(&self) -> bool {
        self.is_open
    }

    /// Whether there is a connection; `None` while that is unknown.
    pub(crate) fn connection(&self) -> Option<Result<(), Error>> {
        match self.is_open {
            true => Some(Ok(())),
            false => (self.failures > 0 || self.is_over()).then(|| Err(self.why_lost())),
        }
    }

    /// Why there is no connection, or a different one.
    pub(crate) fn why_lost(&self) -> Error {
        self.last_error.as_ref().map_or_else(no_server, Error::share)
    }

    /// Whether this connection still holds a job.
    pub(crate) fn holds(&self, job: &JobHandle) -> bool {
        self.is_open && self.session.holds(job)
    }

    /// Why this connection has lost a job, or that the job's announced timeout has passed; `None` if it still holds the
    /// job.
    pub(crate) fn lost_reason(&self, job: &JobHandle, now: Instant) -> Option<LostReason> {
        if self.life == Life::Cut {
            return Some(LostReason::Stopped);
        }
        let is_here = self.is_open && job.epoch() == Some(self.session.origin().epoch);
        if !is_here {
            return Some(LostReason::ConnectionLost);
        }
        let until = self.session.held_until(job)?;
        (until <= now).then_some(LostReason::TimedOut)
    }

    /// Fails if results were lost with a connection and no barrier has reported that yet; they then count as reported.
    pub(crate) fn check_losses(&mut self) -> Result<(), Error> {
        let told = std::mem::replace(&mut self.told_unknown, self.session.unknown());
        if self.session.unknown() > told { Err(self.why_lost()) } else { Ok(()) }
    }

    /// Starts a barrier, which is passed when the server has read everything sent so far.
    pub(crate) fn barrier(&mut self, now: Instant) -> Barrier {
        let number = self.is_open.then(|| self.session.send_barrier(now));
        Barrier { epoch: self.session.origin().epoch, number }
    }

    /// Whether a barrier is passed; `None` while it is not.
    pub(crate) fn is_past(&mut self, barrier: Barrier) -> Option<Result<(), Error>> {
        match barrier.number {
            Some(number) if self.is_open && self.session.origin().epoch == barrier.epoch => {
                self.session.is_past(number).then_some(Ok(()))
            }
            _ => {
                self.told_unknown = self.session.unknown();
                Some(Err(self.why_lost()))
            }
        }
    }

    /// Whether there is room for another report or result.
    pub(crate) fn has_room(&self) -> bool {
        !self.is_open || self.backlog() < ENOUGH_OUTGOING
    }

    /// Number of bytes waiting to be written, as far as known.
    pub(crate) fn backlog(&self) -> usize {
        self.session.outgoing().len() + self.unwritten
    }

    /// Wakes a task when it is known whether there is a connection.
    #[cfg(feature = "tokio")]
    pub(crate) fn wake_connected(&mut self, waker: &Waker) {
        self.connecting.add(waker);
    }

    /// Wakes a task when there may be room.
    #[cfg(feature = "tokio")]
    pub(crate) fn wake_with_room(&mut self, waker: &Waker) {
        self.waiting.add(waker);
    }

    /// Wakes a task when a barrier may be passed.
    #[cfg(feature = "tokio")]
    pub(crate) fn wake_behind_barrier(&mut self, waker: &Waker) {
        self.barriers.add(waker);
    }

    /// Wakes a task when a job may be lost.
    #[cfg(feature = "tokio")]
    pub(crate) fn wake_on_loss(&mut self, waker: &Waker) {
        self.losses.add(waker);
    }

    /// Takes the jobs that have arrived, and the events for the worker.
    pub(crate) fn take(&mut self) -> (Vec<Assignment>, Vec<News>) {
        // The next ones are most likely as many.
        let room = Vec::with_capacity(self.jobs.len());
        (std::mem::replace(&mut self.jobs, room), std::mem::take(&mut self.news))
    }

    pub(crate) fn take_traffic(&mut self) -> Traffic {
        std::mem::take(&mut self.traffic)
    }

    pub(crate) fn state(&self) -> ConnectionState {
        match self.life {
            Life::Cut | Life::Over => ConnectionState::Closed,
            _ if self.is_open => ConnectionState::Ready,
            _ => self.state,
        }
    }

    fn open(&mut self, io: &mut Io<Error>, now: Instant) {
        self.session.reopen(now);
        self.pace.reset();
        self.is_open = true;
        (self.counted, self.has_sent_barrier) = ((0, 0), false);
        self.overdue.clear();
        self.news.push(News::Connected);
        self.connecting.append_to(&mut io.wake);
    }

    fn count(&mut self, io: &Io<Error>) {
        let (came, went) = std::mem::replace(&mut self.counted, (io.received(), io.sent()));
        self.traffic.bytes_in += io.received().saturating_sub(came);
        self.traffic.bytes_out += io.sent().saturating_sub(went);
    }

    fn take_packets(&mut self, io: &mut Io<Error>, now: Instant) -> Result<(), Error> {
        while self.is_open
            && let Some(packet) = self.framing.take(io)?
        {
            self.traffic.replies += 1;
            self.jobs.extend(self.session.accept(&packet, now)?);
        }
        Ok(())
    }

    /// Handles a connection that is gone or unusable, or could not be made.
    fn lose(&mut self, error: Error, io: &mut Io<Error>, now: Instant) {
        if std::mem::replace(&mut self.is_open, false) && self.session.is_proven(now) {
            self.may_return = true;
            self.health.proven();
        }
        if std::mem::replace(&mut self.may_return, false) {
            self.health.lost();
        } else {
            self.health.failed(now);
        }
        self.failures += 1;
        if self.session.has_limit() {
            // The limit has counted these jobs, so they are handed over.
            self.jobs.iter().for_each(|job| self.session.begin(&job.handle));
        } else {
            self.jobs.clear();
        }
        self.close(io);
        if self.life == Life::Working {
            let wait = self.health.quarantine(now).unwrap_or(now).saturating_duration_since(now);
            self.news.push(News::Lost(error.share(), wait));
        }
        self.last_error = Some(error);
    }

    fn close(&mut self, io: &mut Io<Error>) {
        self.session.close();
        self.pace.reset();
        (self.unwritten, self.looking) = (0, None);
        self.overdue.clear();
        for tasks in [&mut self.connecting, &mut self.waiting, &mut self.barriers, &mut self.losses]
        {
            tasks.append_to(&mut io.wake);
        }
    }

    fn end(&mut self, io: &mut Io<Error>) -> Pulse {
        if self.life != Life::Cut {
            self.life = Life::Over;
        }
        self.is_open = false;
        self.close(io);
        Pulse::Over
    }

    /// The error for a late answer or write, unless the connection continues.
    fn late(&mut self, late: Late, io: &mut Io<Error>, now: Instant) -> Option<Pulse> {
        let which = match late {
            Late::Write => Deadline::Write,
            Late::Reply if self.overdue.may_be_here(io, now) => return Some(Pulse::Look),
            Late::Reply if self.session.give_up_waiting(now) => {
                self.overdue.clear();
                let answered = self.has_stepped(io);
                return self.check(io, answered, now).err().map(|_| Pulse::Look);
            }
            Late::Reply => Deadline::Reply,
        };
        self.lose(Error::timed_out(which), io, now);
        Some(self.without_connection(io, now))
    }

    fn check(
        &mut self,
        io: &Io<Error>,
        answered: bool,
        now: Instant,
    ) -> Result<Option<Instant>, Late> {
        let is_waiting = self.session.is_waiting(io.sent()) || self.is_leaving();
        self.pace.check(io, is_waiting.then_some(Duration::ZERO), answered, now)
    }

    /// Whether the server has made progress in answering.
    fn has_stepped(&mut self, io: &mut Io<Error>) -> bool {
        let steps = self.session.steps();
        let has_stepped = std::mem::replace(&mut self.steps, steps) != steps;
        if has_stepped {
            self.barriers.append_to(&mut io.wake);
        }
        has_stepped
    }

    /// Whether a stopping worker has nothing left to request or do.
    fn is_drained(&self) -> bool {
        self.life == Life::Stopping && (self.is_hurried || self.session.is_drained())
    }

    /// Whether it only waits for the connection to end, after the server has read everything.
    fn is_leaving(&self) -> bool {
        !self.with_barrier && self.is_drained() && self.session.has_unconfirmed()
    }

    /// Whether a stopping worker is done; first confirms that its results were accepted.
    fn wind_up(&mut self, now: Instant) -> bool {
        if !self.is_drained() || !self.session.has_unconfirmed() {
            return self.is_drained();
        }
        if self.with_barrier && !self.has_sent_barrier {
            self.has_sent_barrier = true;
            self.session.send_barrier(now);
        }
        false
    }

    fn without_connection(&mut self, io: &mut Io<Error>, now: Instant) -> Pulse {
        if self.life != Life::Working {
            return self.end(io);
        }
        let pulse = self.health.dial(0, now);
        self.state = match pulse {
            Pulse::Dial { .. } => ConnectionState::Connecting,
            _ => ConnectionState::Backoff,
        };
        pulse
    }
}

impl Role for Lane {
    type Failure = Error;

    fn exchange(&mut self, io: &mut Io<Error>, now: Instant) -> Pulse {
        if self.is_over() {
            return self.end(io);
        }
        if self.health.is_new(io) {
            self.open(io, now);
        }
        self.count(io);
        let taken = self.take_packets(io, now);
        let end = match (taken, io.take_end()) {
            (Err(error), _) | (_, Some(End::NotConnected(error))) => Some(error),
            (_, Some(End::Lost(error))) => Some(lost(error)).filter(|_| self.is_open),
            (_, Some(End::Abandoned)) => {
                self.health.abandoned();
                Some(lost(io::ErrorKind::BrokenPipe.into()))
            }
            (Ok(()), None) => None,
        };
        if let Some(error) = end {
            self.lose(error, io, now);
        }
        if !self.is_open {
            return self.without_connection(io, now);
        }
        let mut due = self.session.poll(now);
        let answered = self.has_stepped(io);
        match self.check(io, answered, now) {
            Ok(_) => self.overdue.clear(),
            Err(late) => match self.late(late, io, now) {
                Some(pulse) => return pulse,
                None => due = self.session.poll(now),
            },
        }
        self.jobs.extend(std::iter::from_fn(|| self.session.released()));
        if self.wind_up(now) {
            return self.end(io);
        }
        self.session.swap_outgoing(&mut self.spare);
        io.queue(&mut self.spare);
        self.unwritten = io.unwritten();
        if self.has_room() {
            self.waiting.append_to(&mut io.wake);
        }
        let until = earliest([due, self.check(io, false, now).unwrap_or(Some(now))]);
        match self.looking {
            Some(since) if !io.has_looked_since(since) => return Pulse::Look,
            _ => self.looking = None,
        }
        if self.is_leaving() { Pulse::HalfClose(until) } else { Pulse::Go(until) }
    }
}
