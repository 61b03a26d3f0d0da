//! The worker's side of one connection, without its socket and its clock.

mod lease;
mod quota;
mod replies;

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use self::lease::Lease;
pub use self::quota::Quota;
use crate::{
    Deadline, Error, ErrorKind, Fate, Heartbeat, Inspect, Job, JobFate, JobId, JobRef, JobStats,
    LostReason, Outcome, Poison, ReleaseOptions, TubeName, WorkerOptions,
    protocol::{
        Bury, Command, Delete, Ignore, ListTubeUsed, Release, ReserveWithTimeout, Session, Stats,
        StatsJob, Ticket, Touch, Watch,
    },
};

/// What a worker does on one connection: reserve, run, touch, finish, over and over.
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
#[derive(Debug)]
pub struct WorkerSession {
    session: Session,
    settings: Settings,
    quota: Quota,
    /// Commands that were not answered yet, in their order.
    expected: VecDeque<Expected>,
    /// When the last answer came: from then on the next one is waited for.
    answered: Instant,
    held: VecDeque<Held>,
    keys: u64,
    /// Reserves that were not answered yet.
    reserves: usize,
    /// How many reserves may be under way: doubles while they bring jobs.
    window: usize,
    /// No job was ready when it was last looked.
    is_dry: bool,
    /// No reserve before: the server says that a job is about to be over.
    pause: Option<Instant>,
    /// The earliest moment at which a job may need something.
    due: Option<Instant>,
    /// When to speak, so that the server looks at its clock.
    nudge: Option<Instant>,
    nudges: u8,
    actions: VecDeque<Action>,
    has_warned: bool,
    ending: Ending,
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
    places: usize,
    inspect: Inspect,
    heartbeat: Heartbeat,
    retries: crate::Retries,
    wait: Duration,
    until_empty: bool,
    reply_timeout: Duration,
    reserve_grace: Duration,
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
    Nudge,
}

#[derive(Debug)]
struct Held {
    key: JobKey,
    job: JobRef,
    /// Until it is given to the handler.
    body: Option<Job>,
    phase: Phase,
    lease: Lease,
    stats: Option<Box<JobStats>>,
    /// A `stats-job` is under way.
    is_looking: bool,
    started: Option<Instant>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Phase {
    /// Not yet given to the handler: its reservation or its counters are being looked at.
    Checking,
    /// With the handler.
    Running,
    /// The handler has ended, and what is to be done needs the job's counters.
    Deciding(Verdict),
    /// The last command is on its way.
    Finishing,
    /// The handler does not know yet, or has not ended.
    Lost,
}

/// What is to become of a job.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Verdict {
    Outcome(Outcome),
    /// Back to the server as if it had not been taken.
    GiveBack,
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

/// How long no reserve is sent after DEADLINE_SOON, unless a touch is confirmed before: the margin is a second.
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
        let connect = options.servers.get(server).or_else(|| options.servers.first());
        let (max_body, reply_timeout, reserve_grace) = connect
            .map_or((0, Duration::from_secs(10), Duration::from_secs(5)), |connect| {
                (connect.max_body_size, connect.reply_timeout, connect.reserve_grace)
            });
        let settings = Settings {
            places: options.prefetch.max(1),
            inspect: options.inspect,
            heartbeat: options.heartbeat,
            retries: options.retries,
            wait: if options.until_empty { Duration::ZERO } else { options.reserve_wait },
            until_empty: options.until_empty,
            reply_timeout,
            reserve_grace,
        };
        let mut worker = WorkerSession {
            session: Session::new(max_body),
            settings,
            quota,
            expected: VecDeque::new(),
            answered: now,
            held: VecDeque::new(),
            keys: 0,
            reserves: 0,
            window: 1,
            is_dry: false,
            pause: None,
            due: None,
            nudge: None,
            nudges: 0,
            actions: VecDeque::new(),
            has_warned: false,
            ending: Ending::No,
        };
        worker.prepare(&options.tubes, now);
        worker
    }

    /// The server's id, and the watch list: `default` is on it from the start.
    fn prepare(&mut self, tubes: &[TubeName], now: Instant) {
        let default = TubeName::default();
        self.send(&Stats, What::Server, now);
        for tube in tubes.iter().filter(|tube| **tube != default) {
            self.send(&Watch(tube.clone()), What::WatchList, now);
        }
        if !tubes.contains(&default) {
            self.send(&Ignore(default), What::WatchList, now);
        }
    }

    /// What to do next. To be called again until it says to wait.
    pub fn poll(&mut self, now: Instant) -> Action {
        if self.actions.is_empty()
            && self.ending != Ending::Closed
            && let Err(error) = self.step(now)
        {
            self.fail(error);
        }
        match self.actions.pop_front() {
            Some(action) => action,
            None if self.ending == Ending::Closed => Action::Wait(None),
            None => Action::Wait(self.wake()),
        }
    }

    fn step(&mut self, now: Instant) -> Result<(), Error> {
        self.read_replies(now)?;
        self.check_deadline(now)?;
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
        let goodbye = match self.ending {
            Ending::HalfClosed(since) => since.checked_add(GOODBYE),
            _ => None,
        };
        [self.deadline(), self.due, self.pause, self.nudge, goodbye].into_iter().flatten().min()
    }

    /// By when the oldest command has to be answered.
    fn deadline(&self) -> Option<Instant> {
        let head = self.expected.front()?;
        let patience = match head.what {
            What::Reserve => self.settings.reserve_grace.max(self.settings.reply_timeout),
            _ => self.settings.reply_timeout,
        };
        head.sent.max(self.answered).checked_add(head.wait.saturating_add(patience))
    }

    fn check_deadline(&self, now: Instant) -> Result<(), Error> {
        if self.deadline().is_none_or(|deadline| deadline > now) {
            return Ok(());
        }
        let kind = ErrorKind::Timeout(Deadline::Reply);
        Err(Error::new(kind, Fate::Unknown, "no reply within the reply timeout"))
    }

    /// Speaks after the end of a reservation whose handler still runs.
    fn speak(&mut self, now: Instant) {
        if self.nudge.is_none_or(|nudge| nudge > now) {
            return;
        }
        let is_waited_for = self.held.iter().any(|held| held.phase == Phase::Lost);
        self.nudges = self.nudges.saturating_sub(1);
        self.nudge = None;
        if is_waited_for && matches!(self.ending, Ending::No | Ending::Stopping) {
            self.send(&ListTubeUsed, What::Nudge, now);
            if self.nudges > 0 {
                self.nudge = now.checked_add(NUDGE);
            }
        }
    }

    /// Asks for jobs, as far as there is room for them.
    fn ask(&mut self, now: Instant) -> Result<(), Error> {
        if self.pause.is_some_and(|until| until > now) {
            return Ok(());
        }
        self.pause = None;
        let active = self.held.iter().filter(|held| held.phase.is_active()).count();
        let ghosts = self.held.iter().filter(|held| held.phase == Phase::Lost).count();
        let mut free = self.settings.places.saturating_sub(active + ghosts + self.reserves);
        if active == 0 && self.reserves == 0 {
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
            .filter(|held| held.phase == Phase::Checking)
            .map(|held| held.key)
            .collect();
        for key in unstarted {
            self.conclude(key, Verdict::GiveBack, now)?;
        }
        let is_busy =
            self.held.iter().any(|held| held.phase.is_active() || held.phase == Phase::Finishing);
        if is_busy {
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

    /// Touches the jobs that need it, looks at those that run longer than a moment, and gives up those whose time is
    /// over.
    fn tend(&mut self, now: Instant) -> Result<(), Error> {
        let keys: Vec<JobKey> = self.held.iter().map(|held| held.key).collect();
        for key in keys {
            self.tend_one(key, now)?;
        }
        self.due = self.held.iter().filter_map(|held| self.needs(held)).min();
        Ok(())
    }

    fn tend_one(&mut self, key: JobKey, now: Instant) -> Result<(), Error> {
        let Some(held) = self.find(key) else { return Ok(()) };
        if !held.phase.is_active() {
            return Ok(());
        }
        if held.lease.is_over(now) {
            self.lose(key, LostReason::TimeToRun);
            self.nudges = NUDGES;
            self.nudge = now.checked_add(NUDGE);
            return Ok(());
        }
        if !held.lease.is_known() {
            if !held.lease.is_fresh(now) {
                self.look(key, now);
            }
            return Ok(());
        }
        let is_due = held.lease.beat().is_some_and(|beat| beat <= now);
        if is_due && self.settings.beats(held.started, now) {
            self.touch(key, now);
        }
        Ok(())
    }

    /// When a job needs something next.
    fn needs(&self, held: &Held) -> Option<Instant> {
        if !held.phase.is_active() {
            return None;
        }
        let Some(end) = held.lease.end() else {
            return if held.is_looking { None } else { held.lease.stale_at() };
        };
        match held.lease.beat() {
            Some(beat) if self.settings.beats(held.started, beat) => Some(beat.min(end)),
            _ => Some(end),
        }
    }

    fn plan(&mut self, key: JobKey) {
        let needs = self.find(key).and_then(|held| self.needs(held));
        self.due = match (self.due, needs) {
            (Some(due), Some(needs)) => Some(due.min(needs)),
            (due, needs) => due.or(needs),
        };
    }

    /// Prolongs a reservation (`touch`), for the handler. Its end is told by an action.
    pub fn touch(&mut self, key: JobKey, now: Instant) {
        let Some(held) = self.find_mut(key) else { return };
        if held.phase.is_active() && !held.lease.is_touching() {
            held.lease.touch_sent(now);
            let job = held.job;
            self.send(&Touch::new(job), What::Touch(key), now);
            self.plan(key);
        }
    }

    /// Reads a job's counters (`stats-job`), for the handler. They are told by an action.
    pub fn look(&mut self, key: JobKey, now: Instant) {
        let Some(held) = self.find_mut(key) else { return };
        if held.phase.is_active() && !held.is_looking {
            held.is_looking = true;
            let id = held.job.id();
            self.send(&StatsJob(id), What::Look(key), now);
        }
    }

    /// The handler has ended.
    pub fn finish(&mut self, key: JobKey, outcome: Outcome, now: Instant) {
        if let Err(error) = self.conclude(key, Verdict::Outcome(outcome), now) {
            self.fail(error);
        }
    }

    /// The handler will not run this job, for it is to stop.
    pub fn give_back(&mut self, key: JobKey, now: Instant) {
        if let Err(error) = self.conclude(key, Verdict::GiveBack, now) {
            self.fail(error);
        }
    }

    fn conclude(&mut self, key: JobKey, verdict: Verdict, now: Instant) -> Result<(), Error> {
        let retries = self.settings.retries;
        let Some(held) = self.find_mut(key) else { return Ok(()) };
        match held.phase {
            Phase::Lost => {
                self.held.retain(|held| held.key != key);
                return Ok(());
            }
            Phase::Finishing => return Ok(()),
            Phase::Checking | Phase::Running | Phase::Deciding(_) => {}
        }
        if held.lease.is_over(now) {
            self.lose(key, LostReason::TimeToRun);
            self.held.retain(|held| held.key != key);
            return Ok(());
        }
        // While the time to run is not known, the reservation may be over without anybody having noticed.
        let is_certain = held.lease.is_known() || held.lease.is_fresh(now);
        match held.command(verdict, &retries) {
            Some(last) if is_certain => {
                held.phase = Phase::Finishing;
                let job = held.job;
                self.send_last(key, job, last, now)
            }
            _ => {
                held.phase = Phase::Deciding(verdict);
                self.look(key, now);
                self.plan(key);
                Ok(())
            }
        }
    }

    fn send_last(
        &mut self,
        key: JobKey,
        job: JobRef,
        last: Last,
        now: Instant,
    ) -> Result<(), Error> {
        match last {
            Last::Delete => self.send(&Delete::new(job), What::Finish(key, JobFate::Deleted), now),
            Last::Bury(priority) => {
                self.send(&Bury::new(job, priority), What::Finish(key, JobFate::Buried), now);
            }
            Last::Release(options, fate) => {
                self.send(&Release::new(job, options)?, What::Finish(key, fate), now);
            }
        }
        Ok(())
    }

    /// Takes no further job. Running ones may end; a reserve that waits is ended.
    pub fn stop(&mut self) {
        if self.ending == Ending::No {
            self.ending = Ending::Stopping;
        }
    }

    /// Gives up everything that is held: it goes back when the connection is closed, with its priority unchanged.
    pub fn abandon(&mut self) {
        if self.ending == Ending::Closed {
            return;
        }
        for held in std::mem::take(&mut self.held) {
            match held.phase {
                Phase::Running => {
                    self.actions.push_back(Action::Lost(held.key, LostReason::Stopped));
                    self.settle(held.job.id(), JobFate::Abandoned);
                }
                Phase::Checking | Phase::Deciding(_) => {
                    self.settle(held.job.id(), JobFate::Abandoned);
                }
                Phase::Finishing => self.settle(held.job.id(), JobFate::Unknown),
                Phase::Lost => {}
            }
        }
        self.close();
    }

    /// The connection broke, or its bytes make no sense.
    pub fn fail(&mut self, error: Error) {
        if self.ending == Ending::Closed {
            return;
        }
        self.session.poison();
        for held in std::mem::take(&mut self.held) {
            match held.phase {
                Phase::Running | Phase::Deciding(_) => {
                    self.actions.push_back(Action::Lost(held.key, LostReason::ConnectionLost));
                    self.settle(held.job.id(), JobFate::Lost(LostReason::ConnectionLost));
                }
                // Nobody has begun with it: the server gives it to others.
                Phase::Checking | Phase::Lost => {}
                Phase::Finishing => self.settle(held.job.id(), JobFate::Unknown),
            }
        }
        // After a half-close the server ends the connection in its own way.
        let orderly = matches!(self.ending, Ending::HalfClosed(_));
        self.end(if orderly { Ok(()) } else { Err(error) });
    }

    fn close(&mut self) {
        self.end(Ok(()));
    }

    fn end(&mut self, outcome: Result<(), Error>) {
        for _ in 0..std::mem::take(&mut self.reserves) {
            self.quota.give_back();
        }
        self.expected.clear();
        self.ending = Ending::Closed;
        self.actions.push_back(Action::Close(outcome));
    }

    fn lose(&mut self, key: JobKey, reason: LostReason) {
        let Some(held) = self.find_mut(key) else { return };
        let phase = std::mem::replace(&mut held.phase, Phase::Lost);
        let id = held.job.id();
        match phase {
            Phase::Running => {
                self.actions.push_back(Action::Lost(key, reason));
                self.settle(id, JobFate::Lost(reason));
            }
            Phase::Deciding(_) | Phase::Finishing => {
                self.settle(id, JobFate::Lost(reason));
                self.held.retain(|held| held.key != key);
            }
            // Nobody has begun with it.
            Phase::Checking => self.held.retain(|held| held.key != key),
            Phase::Lost => {}
        }
    }

    fn settle(&mut self, job: JobId, fate: JobFate) {
        self.actions.push_back(Action::Settled(job, fate));
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
        self.held.iter().find(|held| held.key == key)
    }

    fn find_mut(&mut self, key: JobKey) -> Option<&mut Held> {
        self.held.iter_mut().find(|held| held.key == key)
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

impl Phase {
    /// Whether the server has the job down as ours.
    fn is_active(self) -> bool {
        matches!(self, Phase::Checking | Phase::Running | Phase::Deciding(_))
    }
}

impl Settings {
    /// Whether a job that was given to the handler then is still kept alive.
    fn beats(&self, started: Option<Instant>, now: Instant) -> bool {
        match (self.heartbeat, started) {
            (Heartbeat::Never, Some(_)) => false,
            (Heartbeat::AtMost(most), Some(started)) => {
                now.saturating_duration_since(started) < most
            }
            // One that waits for its turn is kept alive in any case.
            _ => true,
        }
    }
}

/// The last command for a job.
enum Last {
    Delete,
    Release(ReleaseOptions, JobFate),
    Bury(crate::Priority),
}

impl Held {
    /// The command for a verdict; `None` while the job's counters are needed for it.
    fn command(&self, verdict: Verdict, retries: &crate::Retries) -> Option<Last> {
        let known = self.stats.as_ref().map(|stats| stats.pri);
        let release =
            |priority, delay, fate| Last::Release(ReleaseOptions::new(priority).delay(delay), fate);
        Some(match verdict {
            Verdict::GiveBack => release(known?, Duration::ZERO, JobFate::Abandoned),
            Verdict::Outcome(Outcome::Delete) => Last::Delete,
            Verdict::Outcome(Outcome::Release { delay, priority }) => {
                release(priority.or(known)?, delay, JobFate::Released(delay))
            }
            Verdict::Outcome(Outcome::Bury { priority }) => Last::Bury(priority.or(known)?),
            Verdict::Outcome(Outcome::Retry) => {
                let stats = self.stats.as_ref()?;
                return self.command(Verdict::Outcome(retries.failed(stats)), retries);
            }
        })
    }
}
