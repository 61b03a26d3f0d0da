//! Reclaiming a job whose connection was lost while its handler runs.
//!
//! ```text
//!  connection lost ──► doubted ──► the same server? ──► stats-job: ready, and ──► reserve-job ──► stats-job: no other ──► held again
//!                                                       nobody had it since                      reservation but ours
//!                                     │ no                │ no   ▲ │ still ours, for the     │ no        │ no
//!                                     ▼                   ▼      └─┘ server noticed nothing  ▼           ▼
//!                                    lost                lost                               lost      given back as it was, lost
//! ```
//!
//! The server counts how often each job was reserved, released, buried, kicked and timed out. If these counters are
//! unchanged, and it is the same server, nobody else can have had the job. They are compared again once the job is
//! held, because another worker may have had it between the first check and `reserve-job`.

use std::time::{Duration, Instant};

use super::{
    Action, Change, Held, JobKey, Phase, WorkerSlot,
    held::{Doubt, Step},
    lease::Lease,
};
use crate::{
    Error, JobId, JobRef, JobState, JobStats, LostReason, ReleaseOptions, WorkerEventKind,
    protocol::{Bury, Command, Release, ReserveJob, Response, StatsJob, worker::What},
};

/// How often to ask a server that has not yet noticed that the connection is gone.
const AGAIN: Duration = Duration::from_millis(250);

impl WorkerSlot {
    /// Gives up the jobs that the next connection might have reclaimed: there will be none, or it is another server.
    pub(super) fn give_up_doubts(&mut self) {
        for key in self.doubted() {
            self.lose(key, LostReason::ConnectionLost);
        }
    }

    /// Whether a job can be recognized on the next connection.
    pub(super) fn may_reclaim(&self, held: &Held) -> bool {
        let is_untouched = match held.phase() {
            Phase::Running => true,
            Phase::Doubted(doubt) => doubt.step == Step::Looking,
            _ => false,
        };
        self.settings.reclaim
            && is_untouched
            && held.stats.is_some()
            && !self.connection.server.is_empty()
    }

    /// The new connection's server has this id.
    pub(super) fn met(&mut self, id: String, now: Instant) {
        if std::mem::replace(&mut self.connection.server, id.clone()) != id || id.is_empty() {
            self.give_up_doubts();
        }
        for key in self.doubted() {
            self.recall(key, now);
        }
        self.actions.push_back(Action::Connected(id));
    }

    /// The connection of a job is lost, and the next one may reclaim it.
    pub(super) fn doubt(&mut self, key: JobKey) {
        if let Some(held) = self.find_mut(key) {
            (held.recall, held.is_looking) = (None, false);
            let verdict = match held.phase() {
                Phase::Doubted(doubt) => doubt.verdict,
                _ => None,
            };
            self.held.set_phase(key, Phase::Doubted(Doubt { verdict, step: Step::Looking }));
            self.plan(key);
        }
    }

    fn doubted(&self) -> Vec<JobKey> {
        let is_doubted = |held: &&Held| matches!(held.phase(), Phase::Doubted(_));
        self.held.iter().filter(is_doubted).map(|held| held.key).collect()
    }

    /// Checks whether a job is unchanged.
    pub(super) fn recall(&mut self, key: JobKey, now: Instant) {
        let Some(held) = self.find_mut(key) else { return };
        held.recall = None;
        let id = held.job.id();
        self.send(&StatsJob(id), What::Recall(key), now);
    }

    pub(super) fn recalled(
        &mut self,
        key: JobKey,
        response: Response,
        now: Instant,
    ) -> Result<(), Error> {
        let Some((doubt, before)) = self.doubt_of(key) else { return Ok(()) };
        match counters(before.id, response)?
            .filter(|stats| is_same_run(&before, stats, 0))
            .map(|stats| stats.state)
        {
            Some(JobState::Ready) => {
                self.held.set_phase(key, Phase::Doubted(Doubt { step: Step::Taking, ..doubt }));
                let Some(id) = self.find(key).map(|held| held.job.id()) else { return Ok(()) };
                self.send(&ReserveJob(id), What::Retake(key), now);
                self.send(&StatsJob(id), What::Confirm(key), now);
            }
            Some(JobState::Reserved) => {
                if let Some(held) = self.find_mut(key) {
                    held.recall = now.checked_add(AGAIN);
                }
                self.plan(key);
            }
            _ => self.lose(key, LostReason::ConnectionLost),
        }
        Ok(())
    }

    pub(super) fn retaken(&mut self, key: JobKey, response: &Response, sent: Instant) {
        let job = match response {
            Response::Reserved(job) => JobRef::from(job),
            Response::BodyTooLarge { job, .. } | Response::BodyDamaged { job, .. } => *job,
            // An old server does not know the command.
            _ => return self.lose(key, LostReason::ConnectionLost),
        };
        if let Some(held) = self.find_mut(key) {
            held.job = job;
            held.lease = Lease::new(sent);
        }
    }

    pub(super) fn confirmed(
        &mut self,
        key: JobKey,
        response: Response,
        now: Instant,
    ) -> Result<(), Error> {
        let Some((doubt, before)) = self.doubt_of(key) else { return Ok(()) };
        let stats = counters(before.id, response)?;
        let Some(stats) = stats.filter(|stats| stats.state == JobState::Reserved) else {
            self.lose(key, LostReason::ConnectionLost);
            return Ok(());
        };
        if !is_same_run(&before, &stats, 1) {
            return self.put_back(key, &before, &stats, now);
        }
        let Some(held) = self.find_mut(key) else { return Ok(()) };
        held.lease.learn(time_to_run(&stats));
        held.stats = Some(Box::new(stats));
        let (id, end) = (held.job.id(), held.lease.end());
        self.held.set_phase(key, Phase::Running);
        self.update(key, Change::Touched(end));
        self.tell(WorkerEventKind::Reclaimed(id));
        self.plan(key);
        match doubt.verdict {
            Some(verdict) => self.conclude(key, verdict, now),
            None => Ok(()),
        }
    }

    /// Another worker had the job between the check and the reservation: it goes back to the state in which that worker
    /// left it.
    fn put_back(
        &mut self,
        key: JobKey,
        before: &JobStats,
        stats: &JobStats,
        now: Instant,
    ) -> Result<(), Error> {
        let Some(job) = self.find(key).map(|held| held.job) else { return Ok(()) };
        if stats.buries > before.buries {
            self.send(&Bury::new(job, stats.pri), What::Nudge, now);
        } else {
            let was_released = stats.releases > before.releases;
            let delay = if was_released { u64::try_from(stats.delay).unwrap_or(0) } else { 0 };
            let options = ReleaseOptions::new(stats.pri).delay(Duration::from_secs(delay));
            self.send(&Release::new(job, options)?, What::Nudge, now);
        }
        self.lose(key, LostReason::ConnectionLost);
        Ok(())
    }

    fn doubt_of(&self, key: JobKey) -> Option<(Doubt, Box<JobStats>)> {
        let held = self.find(key)?;
        match held.phase() {
            Phase::Doubted(doubt) => Some((doubt, held.stats.clone()?)),
            _ => None,
        }
    }
}

/// The counters in the answer to `stats-job`; `None` for a refusal.
fn counters(job: JobId, response: Response) -> Result<Option<JobStats>, Error> {
    match response {
        Response::Ok(_) => StatsJob(job).decode(response),
        _ => Ok(None),
    }
}

/// Whether nobody else has had the job since, apart from this number of our own reservations.
fn is_same_run(before: &JobStats, now: &JobStats, ours: u64) -> bool {
    now.reserves == before.reserves.saturating_add(ours)
        && (now.timeouts, now.releases, now.buries, now.kicks)
            == (before.timeouts, before.releases, before.buries, before.kicks)
        && (&now.tube, now.pri, now.ttr) == (&before.tube, before.pri, before.ttr)
        && now.age >= before.age
}

/// The time to run; the server turns 0 into 1.
pub(super) fn time_to_run(stats: &JobStats) -> Duration {
    Duration::from_secs(u64::try_from(stats.ttr).unwrap_or(1).max(1))
}
