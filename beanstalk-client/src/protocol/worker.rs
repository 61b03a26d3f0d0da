//! The worker's side of one connection, without its socket and its clock.

mod end;
mod held;
mod keep;
mod lease;
mod quota;
mod reclaim;
mod reconnect;
mod refusals;
mod replies;

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

pub use self::quota::Quota;
use self::{
    held::{Held, Jobs, Last, Phase, Verdict},
    reconnect::Reconnects,
    refusals::Refusals,
};
use crate::{
    Deadline, Error, ErrorKind, Fate, Heartbeat, Inspect, Job, JobFate, JobId, JobStats,
    LostReason, Poison, TubeName, WorkerOptions,
    protocol::{Command, Ignore, ReserveWithTimeout, Response, Session, Stats, Ticket, Watch},
};

/// What a worker does on one connection at a time: reserve, run, touch, finish, over and over.
///
/// ```text
///                          ┌───────── finish + reserve in one write ─────────┐
///                          ▼                                                 │
///  watch, ignore ──► reserve waits ──► RESERVED ──► stats-job ──► handler runs
///                          │              (touch first, if it           │ touch at a third
///                          │ stop          came late)                   │ of the time to run
///                          ▼                                            ▼
///                     half-close                              lost: the handler is told,
///                                                             and its outcome is not sent
/// ```
///
/// It is driven by [`poll`](Self::poll), which says what to do next, and told what happens by the other methods. Bytes go
/// through [`outgoing`](Self::outgoing), [`sent`](Self::sent), [`space`](Self::space) and [`received`](Self::received).
///
/// * A reserve waits in the server only while this connection holds no job: the server reads nothing behind a waiting
///   reserve, so touches and deletes would wait with it.
/// * What it holds is bounded, and so are the commands under way: a few for each job.
/// * A job whose reservation may be over is never acted on.
/// * What the server refuses makes it pause, for longer each time in a row.
///
/// When the connection was lost it can go on with the next: [`rest`](Self::rest) says when to make it, and
/// [`connected`](Self::connected) starts over on it.
#[derive(Debug)]
pub struct WorkerSession {
    session: Session,
    settings: Settings,
    quota: Quota,
    /// Commands that were not answered yet, in their order.
    expected: VecDeque<Expected>,
    /// When the last answer came: from then on the next one is waited for.
    answered: Instant,
    held: Jobs,
    keys: u64,
    /// Reserves that were not answered yet.
    reserves: usize,
    /// How many reserves may be under way: doubles while they bring jobs.
    window: usize,
    /// No job was ready when it was last looked.
    is_dry: bool,
    /// No reserve before: the server says that a job is about to be over.
    pause: Option<Instant>,
    /// When it said so, though not in a pause.
    soon: Option<Instant>,
    /// It said so again although a touch was confirmed in between: no touch ends the pause.
    is_stormy: bool,
    /// The earliest moment at which a job may need something.
    due: Option<Instant>,
    /// When to speak, so that the server looks at its clock.
    nudge: Option<Instant>,
    nudges: u8,
    actions: VecDeque<Action>,
    has_warned: bool,
    ending: Ending,
    refusals: Refusals,
    reconnects: Reconnects,
    /// The id of the server that was connected to last.
    server: String,
}

/// Names a job that this connection holds: an id can come twice, while a handler still runs the job that it lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct JobKey(u64);

/// A job for the handler.
#[derive(Debug)]
pub struct Taken {
    /// Its name in what follows.
    pub key: JobKey,
    /// The job.
    pub job: Job,
    /// Its counters, if they were read.
    pub stats: Option<Box<JobStats>>,
    /// When the reservation ends, if the time to run is known.
    pub end: Option<Instant>,
}

/// What to do next.
#[derive(Debug)]
#[non_exhaustive]
pub enum Action {
    /// Give this job to the handler, behind those that it has.
    Run(Taken),
    /// The reservation was prolonged, until then if the time to run is known.
    Touched(JobKey, Option<Instant>),
    /// A touch was refused, though the job is still held. The next one is tried at the next third.
    TouchRefused(JobKey, ErrorKind),
    /// The counters of a job are known, and with them the reservation's end.
    Known(JobKey, Box<JobStats>, Option<Instant>),
    /// The reservation is over. The handler may go on, but its outcome will not be sent.
    Lost(JobKey, LostReason),
    /// The connection has its watch list; the server has this id.
    Connected(String),
    /// The connection that held the job was lost, and this one holds it again, until then.
    Reclaimed(JobKey, JobId, Option<Instant>),
    /// The server refused what a worker has to ask of it, and is not asked for another job before the pause has passed.
    Refused {
        /// The command.
        command: &'static str,
        /// The word of the reply.
        reply: &'static str,
        /// The pauses without a success between them, with this one.
        in_a_row: u32,
        /// How long it is.
        pause: Duration,
    },
    /// A job's time to run is so short that a heartbeat may not keep it.
    ShortTimeToRun(JobId, Duration),
    /// A job is buried without being run.
    Poisoned(JobId, Poison),
    /// A job has ended.
    Settled(JobId, JobFate),
    /// End the sending side of the connection.
    HalfClose,
    /// Close the connection: all is done, or it was lost. Nothing comes after this.
    Close(Result<(), Error>),
    /// Write what is outgoing, and come again when something was read, when a handler has ended, or at this moment.
    Wait(Option<Instant>),
}

#[derive(Debug)]
struct Settings {
    tubes: Vec<TubeName>,
    max_body: usize,
    places: usize,
    reclaim: bool,
    inspect: Inspect,
    heartbeat: Heartbeat,
    retries: crate::Retries,
    wait: Duration,
    until_empty: bool,
    reply_timeout: Duration,
}

#[derive(Debug)]
struct Expected {
    ticket: Ticket,
    what: What,
    sent: Instant,
    /// How long the server may hold the answer back.
    wait: Duration,
}

#[derive(Debug, Clone, Copy)]
enum What {
    WatchList,
    Server,
    Reserve,
    Look(JobKey),
    Touch(JobKey),
    Finish(JobKey, JobFate),
    /// See the module `reclaim`.
    Recall(JobKey),
    Retake(JobKey),
    Confirm(JobKey),
    /// Whatever the answer is.
    Nudge,
}

#[derive(Debug, PartialEq)]
enum Ending {
    /// Not yet.
    No,
    /// Takes no further job.
    Stopping,
    /// The sending side is closed, since then.
    HalfClosed(Instant),
    Closed,
}

/// How long an answer to a half-closed connection is waited for.
const GOODBYE: Duration = Duration::from_secs(2);

/// How long no reserve is sent after DEADLINE_SOON, unless a touch is confirmed before: the margin is a second. A time to
/// run of a second is within it all the time, touched or not.
const MARGIN: Duration = Duration::from_secs(1);

/// How often, and how long after the end of a reservation, the connection speaks so that the server notices that end:
/// some releases forget the timer of a quiet connection (beanstalkd/beanstalkd#262, #380).
const NUDGES: u8 = 3;
const NUDGE: Duration = Duration::from_secs(1);

/// At this time to run and below it a heartbeat has no second to spare.
const SHORT: Duration = Duration::from_secs(3);

impl WorkerSession {
    /// The state of a connection to the `server`-th server of these options that was just made: the watch list and the
    /// first reserve are ready to be written.
    #[must_use]
    pub fn new(options: &WorkerOptions, server: usize, quota: Quota, now: Instant) -> Self {
        let mut worker = WorkerSession::unconnected(options, server, 0, quota, now);
        worker.connected(now);
        worker
    }

    /// The state of the `slot`-th slot, which has no connection yet.
    pub(crate) fn unconnected(
        options: &WorkerOptions,
        server: usize,
        slot: u64,
        quota: Quota,
        now: Instant,
    ) -> Self {
        let connect = options.servers.get(server).or_else(|| options.servers.first());
        let (max_body, reply_timeout) = connect.map_or((0, Duration::from_secs(10)), |connect| {
            (connect.max_body_size, connect.reply_timeout)
        });
        let settings = Settings {
            tubes: options.tubes.clone(),
            max_body,
            places: options.prefetch.max(1),
            reclaim: options.reclaim,
            inspect: options.inspect,
            heartbeat: options.heartbeat,
            retries: options.retries,
            wait: if options.until_empty { Duration::ZERO } else { options.reserve_wait },
            until_empty: options.until_empty,
            reply_timeout,
        };
        WorkerSession {
            session: Session::new(max_body),
            settings,
            quota,
            expected: VecDeque::new(),
            answered: now,
            held: Jobs::default(),
            keys: 0,
            reserves: 0,
            window: 1,
            is_dry: false,
            pause: None,
            soon: None,
            is_stormy: false,
            due: None,
            nudge: None,
            nudges: 0,
            actions: VecDeque::new(),
            has_warned: false,
            ending: Ending::Closed,
            refusals: Refusals::new(options.delays(server, slot)),
            reconnects: Reconnects::new(options.delays(server, slot)),
            server: String::new(),
        }
    }

    /// The server's id, and the watch list: `default` is on it from the start.
    fn prepare(&mut self, now: Instant) {
        let default = TubeName::default();
        let tubes = self.settings.tubes.clone();
        let watches_default = tubes.contains(&default);
        self.send(&Stats, What::Server, now);
        for tube in tubes.into_iter().filter(|tube| *tube != default) {
            self.send(&Watch(tube), What::WatchList, now);
        }
        if !watches_default {
            self.send(&Ignore(default), What::WatchList, now);
        }
    }

    /// What to do next. To be called again until it says to wait.
    pub fn poll(&mut self, now: Instant) -> Action {
        if self.actions.is_empty()
            && let Err(error) = self.step(now)
        {
            self.fail_by(error, now);
        }
        self.actions.pop_front().unwrap_or_else(|| Action::Wait(self.wake()))
    }

    fn step(&mut self, now: Instant) -> Result<(), Error> {
        if self.ending != Ending::Closed {
            self.read_replies(now)?;
            self.check_deadline(now)?;
        }
        if self.due.is_some_and(|due| due <= now) {
            self.tend(now)?;
        }
        self.speak(now);
        match self.ending {
            Ending::No => self.ask(now),
            Ending::Stopping => self.wind_down(now),
            Ending::HalfClosed(since) if now.saturating_duration_since(since) >= GOODBYE => {
                self.close();
                Ok(())
            }
            Ending::HalfClosed(_) | Ending::Closed => Ok(()),
        }
    }

    /// The next moment at which something is to be done.
    fn wake(&self) -> Option<Instant> {
        if self.ending == Ending::Closed {
            return self.due;
        }
        let goodbye = match self.ending {
            Ending::HalfClosed(since) => since.checked_add(GOODBYE),
            _ => None,
        };
        let asks =
            [self.pause, self.refusals.until()].map(|at| at.filter(|_| self.ending == Ending::No));
        let times = [self.deadline(), self.due, self.nudge, goodbye];
        times.into_iter().chain(asks).flatten().min()
    }

    /// By when the oldest command has to be answered.
    fn deadline(&self) -> Option<Instant> {
        let head = self.expected.front()?;
        let patience = head.wait.saturating_add(self.settings.reply_timeout);
        head.sent.max(self.answered).checked_add(patience)
    }

    fn check_deadline(&self, now: Instant) -> Result<(), Error> {
        if self.deadline().is_none_or(|deadline| deadline > now) {
            return Ok(());
        }
        let kind = ErrorKind::Timeout(Deadline::Reply);
        Err(Error::new(kind, Fate::Unknown, "no reply within the reply timeout"))
    }

    /// Asks for jobs, as far as there is room for them.
    fn ask(&mut self, now: Instant) -> Result<(), Error> {
        self.pause = self.pause.filter(|until| *until > now);
        if self.refusals.holds(now) || self.held.doubted() > 0 {
            return Ok(());
        }
        // It is about jobs that this connection holds.
        let (active, ghosts) = (self.held.active(), self.held.lost());
        if active + ghosts > 0 && self.pause.is_some() {
            return Ok(());
        }
        self.pause = None;
        let mut free = self.settings.places.saturating_sub(active + ghosts + self.reserves);
        if active == 0 && self.reserves == 0 {
            if self.settings.until_empty && self.is_dry && ghosts > 0 {
                // Nothing was ready, and no reserve waits: it is asked once more when the lost jobs' handlers have ended.
                return Ok(());
            }
            self.is_dry = false;
            if free > 0 && !self.reserve(self.settings.wait, now)? && self.expected.is_empty() {
                // Other slots have the last jobs.
                self.ending = Ending::Stopping;
                return self.wind_down(now);
            }
            free = free.saturating_sub(1);
        }
        // Behind a reserve that waits these are answered at once, like those that are sent while jobs are held.
        while !self.is_dry && free > 0 && self.reserves < self.window {
            if !self.reserve(Duration::ZERO, now)? {
                break;
            }
            free -= 1;
        }
        Ok(())
    }

    /// Sends a reserve, if there may be one more job.
    fn reserve(&mut self, wait: Duration, now: Instant) -> Result<bool, Error> {
        if !self.quota.take() {
            return Ok(false);
        }
        let command = ReserveWithTimeout::new(wait)?;
        self.send(&command, What::Reserve, now);
        self.reserves += 1;
        Ok(true)
    }

    /// Ends what can be ended, once no further job is wanted.
    fn wind_down(&mut self, now: Instant) -> Result<(), Error> {
        let unstarted: Vec<JobKey> = self
            .held
            .iter()
            .filter(|held| held.phase() == Phase::Checking)
            .map(|held| held.key)
            .collect();
        for key in unstarted {
            self.conclude(key, Verdict::GiveBack, now)?;
        }
        if self.held.active() + self.held.finishing() + self.held.doubted() > 0 {
            return Ok(());
        }
        if self.expected.is_empty() {
            self.close();
        } else {
            // A reserve that waits is answered now, and a job that was faster goes back with the connection.
            self.ending = Ending::HalfClosed(now);
            self.actions.push_back(Action::HalfClose);
        }
        Ok(())
    }

    /// Takes no further job. Running ones may end; a reserve that waits is ended.
    pub fn stop(&mut self) {
        if self.ending == Ending::No {
            self.ending = Ending::Stopping;
        }
    }

    /// Notes that the server refused what it will be asked again; told once for each pause.
    fn refuse(&mut self, command: &'static str, reply: &Response, now: Instant) {
        if let Some((in_a_row, pause)) = self.refusals.refused(now) {
            let reply = reply.word();
            self.actions.push_back(Action::Refused { command, reply, in_a_row, pause });
        }
    }

    /// Notes that the server carried out what a worker is there for.
    fn succeed(&mut self) {
        self.refusals.succeeded();
        self.reconnects.succeeded();
    }

    /// Queues a command. It only fails when the connection is to be closed, and then nothing is sent.
    fn send<C: Command>(&mut self, command: &C, what: What, now: Instant) {
        let wait = match command.server_wait() {
            crate::protocol::ServerWait::AtMost(wait) => wait,
            _ => Duration::ZERO,
        };
        match self.session.send(command) {
            Ok(ticket) => self.expected.push_back(Expected { ticket, what, sent: now, wait }),
            Err(error) => self.fail(error),
        }
    }

    fn find(&self, key: JobKey) -> Option<&Held> {
        self.held.find(key)
    }

    fn find_mut(&mut self, key: JobKey) -> Option<&mut Held> {
        self.held.find_mut(key)
    }

    /// The bytes to write next.
    #[must_use]
    pub fn outgoing(&self) -> &[u8] {
        self.session.outgoing()
    }

    /// Notes that the transport took the first `n` outgoing bytes.
    pub fn sent(&mut self, n: usize) {
        self.session.sent(n);
    }

    /// Room for the next read.
    pub fn space(&mut self) -> &mut [u8] {
        self.session.space()
    }

    /// Notes that the first `n` bytes of [`space`](Self::space) were read.
    pub fn received(&mut self, n: usize) {
        self.session.received(n);
    }

    /// Notes that the server closed its side.
    pub fn end_of_stream(&mut self) {
        self.session.end_of_stream();
    }

    /// What was sent and received since this was last asked.
    #[cfg(any(feature = "tokio", feature = "blocking"))]
    pub(crate) fn take_metrics(&mut self) -> crate::Metrics {
        std::mem::take(self.session.metrics_mut())
    }

    /// How many jobs this connection holds.
    #[must_use]
    pub fn held(&self) -> usize {
        self.held.len()
    }

    /// Whether answers are to come.
    #[must_use]
    pub fn awaits_replies(&self) -> bool {
        !self.expected.is_empty()
    }
}
