//! Decisions about a worker's connections to one server.

mod role;

use std::{
    task::Waker,
    time::{Duration, Instant},
};

use bytes::BytesMut;
use queue_core::{
    Backoff, ConnectionState, Deadlines, Haste, LateCheck, Life, Replace, RetryPolicy, Tickets,
    Wakers, after,
};

use super::{
    Assignment, WorkerSession,
    intake::{Intake, Oversize},
    session::Letter,
};
use crate::{
    Epoch, Error, FunctionName, JobHandle, LostReason, protocol::client::route::no_server,
};

/// The worker role for one server: when to connect, what to register, when to request jobs, when to give a connection
/// up, and how to end.
///
/// * The functions of the worker are the first requests of every connection.
/// * After a good connection the next one follows at once, and so does the first attempt; other attempts have growing
///   delays.
/// * Before an answer counts as overdue, the connection is read again, because nothing may have been read while a
///   handler ran.
/// * With `until_empty`, it stops when the server has no job while none is held, and ends when the server cannot be
///   reached.
/// * A job over the limit is read but not kept, and then fails.
/// * A connection that has given a job back ends with its other jobs, and the next one follows after a delay that grows
///   until a job ends: perhaps no other worker takes the job. With `until_empty` the lane ends after as many such
///   connections in a row as the server's retries.
/// * A stopping worker requests no further job, waits for the running ones, confirms with an ECHO that its results were
///   accepted, and ends. Without that ECHO it closes its sending side after the last result.
/// * When the grace of a stop has passed, unfinished jobs go back to the server. Only the results that were sent matter
///   then, a second longer.
#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) session: WorkerSession,
    intake: Intake,
    life: Life<Error>,
    /// Whether there is to be a connection: the worker has started, or a caller has asked for one.
    is_wanted: bool,
    stage: LaneStage,
    grace: Duration,
    with_barrier: bool,
    /// Whether to end when there is no job, and how long to try to reach the server before.
    until_empty: Option<RetryPolicy>,
    has_sent_barrier: bool,
    /// The delays after connections that have given a job back, and the end of the current one.
    pauses: Backoff,
    pause: Option<Instant>,
    /// Set to read what has arrived by now, as far as a server that keeps sending lets that end.
    looking: Option<LateCheck>,
    /// The server's progress in answering at the last check.
    steps: u64,
    /// Number of unconfirmed results that the last barrier reported.
    observed_unknown: u64,
    /// Number of bytes that the connection had not yet written.
    unwritten: usize,
    spare: BytesMut,
    /// Why the last connection has ended, or could not be made.
    last_error: Option<Error>,
    jobs: Vec<Assignment>,
    news: Vec<LaneEvent>,
    traffic: Traffic,
    /// The bytes that the connection has read and written, as far as counted.
    counted: (u64, u64),
    /// Tasks to wake when it is known whether there is a connection.
    pub(crate) connecting: Wakers,
    /// Tasks to wake when there may be room.
    pub(crate) waiting: Wakers,
    /// Tasks to wake when a barrier may be passed.
    pub(crate) barriers: Wakers,
    /// Tasks that wait for the loss of a job. A connection may outlive very many jobs.
    pub(crate) losses: Tickets,
}

/// The lane's settings: how to connect, and how long to wait.
#[derive(Clone, Debug)]
pub(crate) struct LaneSettings {
    pub(crate) retry: RetryPolicy,
    pub(crate) connect_timeout: Duration,
    pub(crate) reply_timeout: Duration,
    pub(crate) write_timeout: Duration,
    /// How long running jobs may take after a stop.
    pub(crate) grace: Duration,
    pub(crate) max_packet_size: usize,
    /// Whether a job larger than that fails. Otherwise it ends its connection.
    pub(crate) fails_oversized: bool,
    /// Whether an ECHO confirms the last results.
    pub(crate) with_barrier: bool,
    /// Whether to end when the server has no job.
    pub(crate) until_empty: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LaneStage {
    Working,
    /// Running jobs may take until then, or as long as they need.
    Stopping(Option<Instant>),
    /// The grace has passed, and unfinished jobs went back to the server. Sent results may be confirmed until then.
    Confirming(Instant),
    /// Abandoned before its jobs had ended.
    Cut,
    Over,
}

/// An event for the worker.
#[derive(Debug)]
pub(crate) enum LaneEvent {
    Connected,
    /// It was lost, or could not be made; the next attempt is made after this time.
    Lost(Error, Duration),
    /// The server cannot be reached, and the lane ends.
    GivenUp,
    /// The server has taken a dead letter, or has refused it.
    Letter(Letter),
    /// A job is larger than the limit, and has failed.
    Oversized(JobHandle, FunctionName, Oversize),
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
pub(crate) struct EchoBarrier {
    epoch: Epoch,
    /// `None` without a connection.
    number: Option<u64>,
}

/// How long the server may take to confirm the last results after the grace of a stop.
pub(crate) const CONFIRMING: Duration = Duration::from_secs(1);

/// No further report or result is accepted while this many bytes wait to be written.
const ENOUGH_OUTGOING: usize = 1 << 20;

impl Lane {
    pub(crate) fn new(session: WorkerSession, terms: &LaneSettings) -> Self {
        let deadlines = Deadlines::new(Some(terms.reply_timeout), Some(terms.write_timeout));
        let connect = Some(terms.connect_timeout);
        let life = Life::new(terms.retry, connect, deadlines, Replace::IfGood);
        Lane {
            session,
            intake: Intake::new(terms.max_packet_size, terms.fails_oversized),
            life: life.left_unread().first_is_free(),
            is_wanted: false,
            stage: LaneStage::Working,
            grace: terms.grace,
            with_barrier: terms.with_barrier,
            until_empty: terms.until_empty.then_some(terms.retry),
            has_sent_barrier: false,
            pauses: terms.retry.delays(),
            pause: None,
            looking: None,
            steps: 0,
            observed_unknown: 0,
            unwritten: 0,
            spare: BytesMut::new(),
            last_error: None,
            jobs: Vec::new(),
            news: Vec::new(),
            traffic: Traffic::default(),
            counted: (0, 0),
            connecting: Wakers::default(),
            waiting: Wakers::default(),
            barriers: Wakers::default(),
            losses: Tickets::default(),
        }
    }

    /// Starts connecting, and requesting jobs.
    pub(crate) fn start(&mut self) {
        self.want();
        self.session.start();
    }

    /// Starts connecting.
    pub(crate) fn want(&mut self) {
        self.is_wanted = true;
    }

    /// Whether a connection was ever to be made.
    pub(crate) fn is_wanted(&self) -> bool {
        self.is_wanted
    }

    /// Requests no further job, and ends when the running ones have ended.
    pub(crate) fn wind_down(&mut self) {
        if self.stage == LaneStage::Working {
            self.stage = LaneStage::Stopping(None);
        }
        self.session.stop();
    }

    /// The same, or when the grace has passed, which begins with the first call; there is none for a stop at once.
    pub(crate) fn stop(&mut self, haste: Haste, now: Instant) {
        self.wind_down();
        if let LaneStage::Stopping(until) = &mut self.stage {
            match haste {
                Haste::Gently => *until = until.or_else(|| Some(after(now, self.grace))),
                Haste::AtOnce => *until = Some(now),
            }
        }
    }

    /// Has received data read without waiting.
    pub(crate) fn look(&mut self) {
        self.looking = self.is_open().then(LateCheck::default);
    }

    /// Whether that has yet to be done.
    pub(crate) fn is_looking(&self) -> bool {
        self.looking.is_some()
    }

    /// Ends at once; unfinished jobs go back to the server.
    pub(crate) fn cut(&mut self) {
        self.stage = LaneStage::Cut;
        self.life.close();
        self.session.close();
    }

    pub(crate) fn is_over(&self) -> bool {
        matches!(self.stage, LaneStage::Cut | LaneStage::Over)
    }

    pub(crate) fn is_open(&self) -> bool {
        self.life.is_connected()
    }

    /// Whether there is a connection; `None` while that is unknown.
    pub(crate) fn connection(&self) -> Option<Result<(), Error>> {
        match self.is_open() {
            true => Some(Ok(())),
            false => (self.life.ends() > 0 || self.is_over()).then(|| Err(self.why_lost())),
        }
    }

    /// Why there is no connection, or a different one.
    pub(crate) fn why_lost(&self) -> Error {
        self.last_error.as_ref().map_or_else(no_server, Error::share)
    }

    /// Whether this connection still holds a job.
    pub(crate) fn holds(&self, job: &JobHandle) -> bool {
        self.is_open() && self.session.holds(job)
    }

    /// Why this connection has lost a job, or that the job's announced timeout has passed; `None` if it still holds the
    /// job.
    pub(crate) fn lost_reason(&self, job: &JobHandle, now: Instant) -> Option<LostReason> {
        if matches!(self.stage, LaneStage::Confirming(_) | LaneStage::Cut) {
            return Some(LostReason::Stopped);
        }
        let is_here = self.is_open() && job.epoch() == Some(self.session.origin().epoch);
        if !is_here {
            return Some(LostReason::ConnectionLost);
        }
        let until = self.session.held_until(job)?;
        (until <= now).then_some(LostReason::TimedOut)
    }

    /// Fails if results were lost with a connection and no barrier has reported that yet; they then count as reported.
    pub(crate) fn check_losses(&mut self) -> Result<(), Error> {
        let known =
            std::mem::replace(&mut self.observed_unknown, self.session.confirmations.unknown);
        if self.session.confirmations.unknown > known { Err(self.why_lost()) } else { Ok(()) }
    }

    /// Starts a barrier, which is passed when the server has read everything sent so far.
    pub(crate) fn barrier(&mut self, now: Instant) -> EchoBarrier {
        let number = self.is_open().then(|| self.session.send_barrier(now));
        EchoBarrier { epoch: self.session.origin().epoch, number }
    }

    /// Whether a barrier is passed; `None` while it is not.
    pub(crate) fn is_past(&mut self, barrier: EchoBarrier) -> Option<Result<(), Error>> {
        match barrier.number {
            Some(number) if self.is_open() && self.session.origin().epoch == barrier.epoch => {
                self.session.is_past(number).then_some(Ok(()))
            }
            _ => {
                self.observed_unknown = self.session.confirmations.unknown;
                Some(Err(self.why_lost()))
            }
        }
    }

    /// Whether there is room for another report or result.
    pub(crate) fn has_room(&self) -> bool {
        !self.is_open() || self.backlog() < ENOUGH_OUTGOING
    }

    /// Number of bytes waiting to be written, as far as known.
    pub(crate) fn backlog(&self) -> usize {
        self.session.outgoing().len() + self.unwritten
    }

    /// Wakes a task when a job may be lost, unless its ticket [leaves](Tickets::leave) before. Returns the waker known
    /// before, to be dropped outside of any lock.
    pub(crate) fn wake_on_loss(&mut self, ticket: &mut Option<u64>, waker: Waker) -> Option<Waker> {
        let ticket = *ticket.get_or_insert_with(|| self.losses.issue());
        self.losses.wait(ticket, waker)
    }

    /// Takes the jobs that have arrived, and the events for the worker.
    pub(crate) fn take(&mut self) -> (Vec<Assignment>, Vec<LaneEvent>) {
        // The next ones are most likely as many.
        let room = Vec::with_capacity(self.jobs.len());
        (std::mem::replace(&mut self.jobs, room), std::mem::take(&mut self.news))
    }

    pub(crate) fn take_traffic(&mut self) -> Traffic {
        std::mem::take(&mut self.traffic)
    }

    pub(crate) fn state(&self) -> ConnectionState {
        match self.pause {
            _ if self.is_over() => ConnectionState::Closed,
            Some(_) => ConnectionState::Backoff,
            None => self.life.state(),
        }
    }
}
