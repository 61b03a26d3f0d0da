//! The jobs that the connection holds.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use super::{JobKey, Settings, lease::Lease};
use crate::{Heartbeat, Job, JobFate, JobId, JobRef, JobStats, Outcome, ReleaseOptions};

/// All jobs, in order of arrival. The number in each phase is counted, since every step needs it.
#[derive(Debug, Default)]
pub(super) struct Jobs {
    all: VecDeque<HeldJob>,
    active: usize,
    lost: usize,
}

impl Jobs {
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Number of jobs that the server has reserved for us.
    pub(super) fn active(&self) -> usize {
        self.active
    }

    /// Number of lost jobs whose handlers have not ended.
    pub(super) fn lost(&self) -> usize {
        self.lost
    }

    /// Number of jobs that wait for the answer to their last command.
    pub(super) fn finishing(&self) -> usize {
        self.all.len() - self.active - self.lost
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &HeldJob> {
        self.all.iter()
    }

    /// A reservation of this job that may have expired by now.
    pub(super) fn stale_of(&self, id: JobId, now: Instant) -> Option<JobKey> {
        let is_it = |held: &&HeldJob| {
            held.job.id() == id && held.phase.is_active() && !held.lease.is_fresh(now)
        };
        self.all.iter().find(is_it).map(|held| held.key)
    }

    pub(super) fn keys(&self) -> Vec<JobKey> {
        self.all.iter().map(|held| held.key).collect()
    }

    /// Adds a job. Its key must be the greatest.
    pub(super) fn push(&mut self, held: HeldJob) {
        self.enter(held.phase);
        self.all.push_back(held);
    }

    pub(super) fn find(&self, key: JobKey) -> Option<&HeldJob> {
        self.place(key).and_then(|place| self.all.get(place))
    }

    pub(super) fn find_mut(&mut self, key: JobKey) -> Option<&mut HeldJob> {
        self.place(key).and_then(|place| self.all.get_mut(place))
    }

    /// Changes a job's phase; returns the previous one.
    pub(super) fn set_phase(&mut self, key: JobKey, phase: HeldPhase) -> Option<HeldPhase> {
        let before = std::mem::replace(&mut self.find_mut(key)?.phase, phase);
        self.leave(before);
        self.enter(phase);
        Some(before)
    }

    pub(super) fn remove(&mut self, key: JobKey) -> Option<HeldJob> {
        let held = self.place(key).and_then(|place| self.all.remove(place))?;
        self.leave(held.phase);
        Some(held)
    }

    pub(super) fn take(&mut self) -> VecDeque<HeldJob> {
        std::mem::take(self).all
    }

    /// Keys only grow, so a binary search finds them.
    fn place(&self, key: JobKey) -> Option<usize> {
        self.all.binary_search_by_key(&key.0, |held| held.key.0).ok()
    }

    fn enter(&mut self, phase: HeldPhase) {
        self.active += usize::from(phase.is_active());
        self.lost += usize::from(phase == HeldPhase::Lost);
    }

    fn leave(&mut self, phase: HeldPhase) {
        self.active -= usize::from(phase.is_active());
        self.lost -= usize::from(phase == HeldPhase::Lost);
    }
}

#[derive(Debug)]
pub(super) struct HeldJob {
    pub(super) key: JobKey,
    pub(super) job: JobRef,
    /// Until it is given to the handler, or for good if it may go to a dead-letter tube.
    pub(super) body: Option<Job>,
    /// How often the worker has deferred it.
    pub(super) deferrals: u64,
    /// The message of a failure, if it may go to a dead-letter tube.
    pub(super) reason: Option<String>,
    phase: HeldPhase,
    pub(super) lease: Lease,
    pub(super) stats: Option<Box<JobStats>>,
    /// Whether a `stats-job` is in flight.
    pub(super) is_looking: bool,
    /// When its handler started, if it has.
    pub(super) started: Option<Instant>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum HeldPhase {
    /// Not yet given to the handler: its reservation or its counters are being checked.
    Checking,
    /// With the handler.
    Running,
    /// The handler has ended, and the decision needs the job's counters.
    Deciding(JobVerdict),
    /// Its copy for the dead-letter tube is in flight.
    Copying,
    /// The last command is in flight.
    Finishing,
    /// Lost, but the handler does not know yet or has not ended.
    Lost,
}

/// The decision about a job.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum JobVerdict {
    Outcome(Outcome),
    /// Give it back as if it had not been taken.
    GiveBack,
}

impl HeldPhase {
    /// Whether the server has the job reserved for us.
    pub(super) fn is_active(self) -> bool {
        !matches!(self, HeldPhase::Finishing | HeldPhase::Lost)
    }
}

impl Settings {
    /// Whether a job whose handler was started at this moment is still kept alive.
    pub(super) fn beats(&self, started: Option<Instant>, now: Instant) -> bool {
        match (self.heartbeat, started) {
            (Heartbeat::Never, Some(_)) => false,
            (Heartbeat::AtMost(most), Some(started)) => {
                now.saturating_duration_since(started) < most
            }
            // A job that waits for its turn is always kept alive.
            _ => true,
        }
    }
}

/// The last command for a job.
pub(super) enum LastCommand {
    Delete,
    Release(ReleaseOptions, JobFate),
    Bury(crate::Priority),
}

impl HeldJob {
    /// A job from a reserve sent at that moment; `body` is `None` if it must not be run.
    pub(super) fn new(key: JobKey, job: JobRef, body: Option<Job>, sent: Instant) -> Self {
        HeldJob {
            key,
            job,
            body,
            deferrals: 0,
            reason: None,
            phase: HeldPhase::Checking,
            lease: Lease::new(sent),
            stats: None,
            is_looking: false,
            started: None,
        }
    }

    pub(super) fn phase(&self) -> HeldPhase {
        self.phase
    }

    /// The command for a verdict; `None` while it still needs the job's counters. The releases by which the job was
    /// deferred are no failures.
    pub(super) fn command(
        &self,
        verdict: JobVerdict,
        retries: &crate::Retries,
    ) -> Option<LastCommand> {
        let known = self.stats.as_ref().map(|stats| stats.pri);
        let release = |priority, delay, fate| {
            LastCommand::Release(ReleaseOptions::new(priority).delay(delay), fate)
        };
        Some(match verdict {
            JobVerdict::GiveBack => release(known?, Duration::ZERO, JobFate::Abandoned),
            JobVerdict::Outcome(Outcome::Delete) => LastCommand::Delete,
            JobVerdict::Outcome(Outcome::Release { delay, priority }) => {
                release(priority.or(known)?, delay, JobFate::Released(delay))
            }
            JobVerdict::Outcome(Outcome::Bury { priority }) => {
                LastCommand::Bury(priority.or(known)?)
            }
            JobVerdict::Outcome(failed @ (Outcome::Retry | Outcome::RetryAfter(_))) => {
                let stats = self.stats.as_ref()?;
                let failures = stats.releases.saturating_sub(self.deferrals);
                let outcome = match (failed, retries.failed_after(failures, stats)) {
                    (Outcome::RetryAfter(delay), Outcome::Release { priority, .. }) => {
                        Outcome::Release { delay, priority }
                    }
                    (_, outcome) => outcome,
                };
                return self.command(JobVerdict::Outcome(outcome), retries);
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_those_of_the_phases() {
        let (mut jobs, now) = (Jobs::default(), Instant::now());
        let counts = |jobs: &Jobs| (jobs.active(), jobs.lost(), jobs.finishing(), jobs.len());
        for key in 1..=5 {
            let job = JobRef::from(JobId::from(7));
            jobs.push(HeldJob::new(JobKey(key), job, None, now));
        }
        assert_eq!(counts(&jobs), (5, 0, 0, 5));
        assert_eq!(jobs.set_phase(JobKey(1), HeldPhase::Running), Some(HeldPhase::Checking));
        assert_eq!(jobs.set_phase(JobKey(2), HeldPhase::Finishing), Some(HeldPhase::Checking));
        assert_eq!(jobs.set_phase(JobKey(4), HeldPhase::Lost), Some(HeldPhase::Checking));
        assert_eq!(jobs.set_phase(JobKey(6), HeldPhase::Lost), None);
        assert_eq!(counts(&jobs), (3, 1, 1, 5));
        assert_eq!(jobs.remove(JobKey(2)).map(|held| held.phase()), Some(HeldPhase::Finishing));
        assert!(jobs.remove(JobKey(2)).is_none() && jobs.find(JobKey(2)).is_none());
        assert_eq!(jobs.remove(JobKey(4)).map(|held| held.phase()), Some(HeldPhase::Lost));
        assert_eq!(counts(&jobs), (3, 0, 0, 3));
        assert_eq!(jobs.keys(), [1, 3, 5].map(JobKey));
        assert_eq!(jobs.find(JobKey(1)).map(HeldJob::phase), Some(HeldPhase::Running));
        assert_eq!((jobs.take().len(), counts(&jobs)), (3, (0, 0, 0, 0)));
    }
}
