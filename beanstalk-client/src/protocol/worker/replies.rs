//! Handling the server's answers for a worker.

use std::time::{Duration, Instant};

use queue_core::Io;

use super::{
    Action, Ending, Expected, ExpectedReply, HeldJob, HeldPhase, JobKey, JobVerdict,
    ReservationChange, WorkerSlot,
};
use super::{ask::SHARED, lease::time_to_run};
use crate::{
    Error, Job, JobFate, JobRef, JobState, JobStats, LostReason, Outcome, Poison, WorkerEventKind,
    protocol::{
        Bury, Command, Delete, Release, ReserveWithTimeout, Response, Stats, StatsJob, Touch,
    },
    trace,
};

/// At or below this time to run, a heartbeat has no second to spare.
const SHORT: Duration = Duration::from_secs(3);

impl WorkerSlot {
    pub(super) fn read_replies(&mut self, io: &mut Io<Error>, now: Instant) -> Result<(), Error> {
        self.session.follow(io);
        while self.life.is_open()
            && let Some(head) = self.expected.front()
        {
            let Some(response) = self.session.reply_in(head.ticket, io)? else { return Ok(()) };
            let Some(expected) = self.expected.pop_front() else { break };
            self.life.answered();
            self.answer(expected, response, now)?;
        }
        if self.life.is_open() && self.session.has_unsolicited_bytes_in(io) {
            return Err(Error::protocol("the server sent a reply that matches no command"));
        }
        Ok(())
    }

    fn answer(
        &mut self,
        expected: Expected,
        response: Response,
        now: Instant,
    ) -> Result<(), Error> {
        let Expected { what, sent, wait, observation, .. } = expected;
        match (what, response) {
            (ExpectedReply::Server, response) => {
                // A server without statistics can be worked for, too.
                let id = match response {
                    Response::Ok(_) => Stats.decode(response)?.id,
                    _ => String::new(),
                };
                self.connection.is_welcome = true;
                self.actions.push_back(Action::Connected(id));
            }
            (ExpectedReply::WatchList, Response::Watching(_)) | (ExpectedReply::Nudge, _) => {}
            (ExpectedReply::Reserve, response) => {
                if let Some(observation) = observation {
                    let observation = trace::reserved(*observation, &response);
                    self.later.notify(observation);
                }
                self.reserves -= 1;
                self.reserved(response, sent, wait, now)?;
            }
            (ExpectedReply::Touch(key), response) => self.touched(key, &response, now),
            (ExpectedReply::Look(key), response) => self.looked(key, response, now)?,
            (ExpectedReply::DeadLetterTube(key, priority), response) => {
                self.used((key, priority), &response, now);
            }
            (ExpectedReply::DeadLetter(key, priority), response) => {
                self.copied((key, priority), &response, now);
            }
            (ExpectedReply::Finish(key, fate), response) => {
                if let Some(observation) = observation {
                    let observation = trace::settled(*observation, &response);
                    self.later.notify(observation);
                }
                self.finished(key, fate, response, now)?;
            }
            (ExpectedReply::WatchList, other) => {
                return Err(Error::protocol(format!(
                    "the server replied {} while the watch list was set up",
                    other.word()
                )));
            }
        }
        Ok(())
    }

    fn reserved(
        &mut self,
        response: Response,
        sent: Instant,
        wait: Duration,
        now: Instant,
    ) -> Result<(), Error> {
        match response {
            Response::Reserved(job) => {
                let _ = self.claimed.take();
                self.window = (self.window * 2).min(self.settings.places);
                self.take(job, sent, now);
                Ok(())
            }
            Response::BodyTooLarge { job, size, .. } => {
                self.bury_poisoned(job, Poison::Size(size), sent, now)
            }
            Response::BodyDamaged { job, .. } => {
                self.bury_poisoned(job, Poison::Damaged, sent, now)
            }
            other => {
                if self.claimed.give_back() {
                    // The other slots have their turn.
                    self.shares = Some(queue_core::after(now, 2 * SHARED));
                }
                let waited = now.saturating_duration_since(sent);
                self.nothing_reserved(other, wait, waited, now)
            }
        }
    }

    fn bury_poisoned(
        &mut self,
        job: JobRef,
        why: Poison,
        sent: Instant,
        now: Instant,
    ) -> Result<(), Error> {
        let _ = self.claimed.take();
        let key = self.hold(job, None, sent, now);
        self.notify(WorkerEventKind::Poisoned { job: job.id(), why });
        self.conclude(key, JobVerdict::Outcome(Outcome::bury()), now)
    }

    fn nothing_reserved(
        &mut self,
        response: Response,
        wait: Duration,
        waited: Duration,
        now: Instant,
    ) -> Result<(), Error> {
        match response {
            Response::TimedOut => {
                if waited < wait / 2 && self.ending == Ending::No {
                    // It would repeat this forever, thousands of times a second.
                    self.refuse(ReserveWithTimeout::NAME, &response, now);
                } else if !wait.is_zero() {
                    self.succeed();
                }
                self.window = 1;
                self.is_dry = true;
                if self.settings.until_empty.is_some() && self.reserves == 0 && self.held.is_empty()
                {
                    self.cease();
                }
                Ok(())
            }
            Response::DeadlineSoon => {
                self.window = 1;
                if self.held.active() + self.held.lost() == 0 {
                    // These are about jobs that this side does not know.
                    self.refuse(ReserveWithTimeout::NAME, &response, now);
                }
                if !self.deadline_soon.began(now) {
                    // Several reserves were in flight.
                    return Ok(());
                }
                for key in self.held.keys() {
                    if self.find(key).is_some_and(|held| self.settings.beats(held.started, now)) {
                        self.touch(key, now);
                    }
                }
                Ok(())
            }
            other => Err(other.refuse().with_command(ReserveWithTimeout::NAME)),
        }
    }

    /// Holds a job from now on. If it is held already, its time to run expired before the server reserved it again: a
    /// handler that still runs for that reservation would act on this one. Replies that are so late are followed by a
    /// pause, and a server that gives one job out forever by longer and longer ones. No time to run expires while the
    /// reservation is fresh: what such a server says is for the checks of the job to find out.
    fn hold(&mut self, job: JobRef, body: Option<Job>, sent: Instant, now: Instant) -> JobKey {
        if let Some(key) = self.held.stale_of(job.id(), now) {
            self.lose(key, LostReason::TimeToRun);
            self.refuse_for(ReserveWithTimeout::NAME, "RESERVED", now);
        }
        self.keys += 1;
        let key = JobKey(self.keys);
        self.held.push(HeldJob::new(key, job, body, sent));
        key
    }

    /// Takes a new job. The server may have assigned it long ago: then a touch shows whether it is still held.
    fn take(&mut self, job: Job, sent: Instant, now: Instant) {
        if let Ending::HalfClosed(_) = self.ending {
            // Closing the connection gives it back unchanged.
            self.settle(job.id, JobFate::Abandoned);
            return;
        }
        let id = job.id;
        let key = self.hold(JobRef::from(&job), Some(job), sent, now);
        if self.ending == Ending::Stopping {
            return;
        }
        let is_fresh = self.find(key).is_some_and(|held| held.lease.is_fresh(now));
        if !is_fresh {
            self.touch(key, now);
        }
        // The reply to a reserve does not name the job's tube.
        if self.suspicion.looks(id) || !is_fresh || self.only_tube().is_none() {
            self.look(key, now);
        } else {
            self.run(key, now);
        }
        self.plan(key);
    }

    /// Gives a job to the handler.
    fn run(&mut self, key: JobKey, now: Instant) {
        let (only, keeps) = (self.only_tube().cloned(), self.settings.dead_letter.is_some());
        let Some(held) = self.find_mut(key) else { return };
        let Some(tube) = only.or_else(|| held.stats.as_ref().map(|stats| stats.tube.clone()))
        else {
            return;
        };
        let Some(job) = (if keeps { held.body.clone() } else { held.body.take() }) else { return };
        let (stats, end) = (held.stats.clone(), held.lease.end());
        let taken = super::HandlerJob { key, job, tube, stats, end };
        self.held.set_phase(key, HeldPhase::Running);
        self.actions.push_back(Action::Run(taken));
        self.given.push_back(key);
        self.starts(now);
        self.plan(key);
    }

    fn touched(&mut self, key: JobKey, response: &Response, now: Instant) {
        let Some(held) = self.find_mut(key) else { return };
        match response {
            Response::Touched => {
                held.lease.touch_done();
                let (end, is_running) = (held.lease.end(), held.phase() == HeldPhase::Running);
                self.deadline_soon.touched();
                if is_running {
                    self.update(key, ReservationChange::Touched(end));
                }
                self.start_if_ready(key, now);
            }
            Response::NotFound => {
                self.lose(key, LostReason::NotFound);
                self.refuse(Touch::NAME, response, now);
            }
            other => {
                let kind = other.clone().refuse().kind();
                if held.lease.touch_refused(now) {
                    self.update(key, ReservationChange::TouchRefused(kind));
                } else {
                    self.lose(key, LostReason::Refused);
                    self.refuse(Touch::NAME, response, now);
                }
            }
        }
        self.plan(key);
    }

    fn looked(&mut self, key: JobKey, response: Response, now: Instant) -> Result<(), Error> {
        let Some(held) = self.find_mut(key) else { return Ok(()) };
        let stats = StatsJob(held.job.id()).decode(response.clone())?;
        held.is_looking = false;
        let Some(stats) = stats.filter(|stats| stats.state == JobState::Reserved) else {
            self.lose(key, LostReason::NotFound);
            self.refuse(StatsJob::NAME, &response, now);
            return Ok(());
        };
        if !self.settings.tubes.contains(&stats.tube) {
            let (id, tube) = (stats.id, &stats.tube);
            let why =
                format!("the server handed out job {id} of tube {tube}, which is not watched");
            return Err(Error::protocol(why));
        }
        let Some(held) = self.find_mut(key) else { return Ok(()) };
        let ttr = time_to_run(&stats);
        held.lease.learn(ttr);
        let stats = Box::new(stats);
        held.stats = Some(stats.clone());
        let (phase, end, id) = (held.phase(), held.lease.end(), held.job.id());
        if phase == HeldPhase::Running {
            self.update(key, ReservationChange::Known(stats, end));
        }
        if ttr <= SHORT && !std::mem::replace(&mut self.has_warned, true) {
            self.notify(WorkerEventKind::ShortTimeToRun { job: id, ttr });
        }
        match phase {
            HeldPhase::Deciding(verdict) => self.conclude(key, verdict, now)?,
            _ => self.start_if_ready(key, now),
        }
        self.plan(key);
        Ok(())
    }

    /// Gives a checked job to the handler, once all answers about it are in.
    fn start_if_ready(&mut self, key: JobKey, now: Instant) {
        let Some(held) = self.find(key) else { return };
        if held.phase() != HeldPhase::Checking || held.is_looking || held.lease.is_touching() {
            return;
        }
        let poison =
            held.stats.as_deref().and_then(|stats: &JobStats| self.settings.retries.poison(stats));
        let id = held.job.id();
        match poison {
            _ if held.lease.is_over(now) => self.lose(key, LostReason::TimeToRun),
            // It goes back.
            None if self.ending != Ending::No => {}
            None => self.run(key, now),
            Some(why) => {
                self.notify(WorkerEventKind::Poisoned { job: id, why });
                self.keep_reason(key, Some(why.to_string()));
                self.finish_poisoned(key, now);
            }
        }
    }

    fn finish_poisoned(&mut self, key: JobKey, now: Instant) {
        if let Err(error) = self.conclude(key, JobVerdict::Outcome(Outcome::bury()), now) {
            self.life.close_with(error);
        }
    }

    fn finished(
        &mut self,
        key: JobKey,
        fate: JobFate,
        response: Response,
        now: Instant,
    ) -> Result<(), Error> {
        let Some(held) = self.held.remove(key) else { return Ok(()) };
        let (command, fate) = match (fate, &response) {
            (JobFate::Deleted | JobFate::DeadLettered, Response::Deleted)
            | (JobFate::Released(_) | JobFate::Abandoned, Response::Released)
            | (JobFate::Buried, Response::Buried(_)) => (None, fate),
            // The server had no memory to queue it.
            (JobFate::Released(_) | JobFate::Abandoned, Response::Buried(_)) => {
                (None, JobFate::Buried)
            }
            (_, Response::NotFound) => (Some(verb(fate)), JobFate::Lost(LostReason::NotFound)),
            _ => {
                // The job is still held. Closing the connection gives it back.
                self.settle(held.job.id(), JobFate::Abandoned);
                return Err(response.refuse().with_command(verb(fate)));
            }
        };
        match command {
            Some(command) => self.refuse(command, &response, now),
            None => self.succeed(),
        }
        let id = held.job.id();
        if fate == JobFate::DeadLettered {
            self.report_dead(held);
        }
        self.settle(id, fate);
        Ok(())
    }
}

/// The verb of the command that settled a job.
fn verb(fate: JobFate) -> &'static str {
    match fate {
        JobFate::Deleted | JobFate::DeadLettered => Delete::NAME,
        JobFate::Buried => Bury::NAME,
        _ => Release::NAME,
    }
}
