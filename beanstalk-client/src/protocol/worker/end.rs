//! How jobs end. `lose_jobs` in `connection.rs` decides about those of a lost connection.

use std::time::Instant;

use bytes::Bytes;
use queue_core::shorten;

use super::{
    ExpectedReply, HeldJob, HeldPhase, JobKey, JobVerdict, LastCommand, ReservationChange,
    WorkerSlot, lease::time_to_run,
};
use crate::{
    Decision, Error, JobFate, JobId, JobRef, LostReason, Priority, PutOptions, TubeName,
    WorkerEventKind,
    protocol::{Bury, Command, Delete, Put, Release, Response, Use},
};

impl WorkerSlot {
    /// Reports that the handler has ended, and how often the worker has deferred this job before.
    pub fn finish(
        &mut self,
        key: JobKey,
        decision: impl Into<Decision>,
        deferrals: u64,
        now: Instant,
    ) {
        let Decision { outcome, reason } = decision.into();
        self.returned(key, now);
        if let Some(held) = self.find_mut(key) {
            held.deferrals = deferrals;
        }
        self.keep_reason(key, reason);
        if let Err(error) = self.conclude(key, JobVerdict::Outcome(outcome), now) {
            self.life.close_with(error);
        }
    }

    /// Gives back a job whose handler has not started and will not.
    pub fn give_back(&mut self, key: JobKey, now: Instant) {
        self.returned(key, now);
        if let Err(error) = self.conclude(key, JobVerdict::GiveBack, now) {
            self.life.close_with(error);
        }
    }

    /// Keeps why a job failed, for a dead-letter tube.
    pub(super) fn keep_reason(&mut self, key: JobKey, reason: Option<String>) {
        if self.settings.dead_letter.is_some()
            && let Some(held) = self.find_mut(key)
        {
            held.reason = reason.map(|reason| shorten(reason.into()).into_owned());
        }
    }

    pub(super) fn conclude(
        &mut self,
        key: JobKey,
        verdict: JobVerdict,
        now: Instant,
    ) -> Result<(), Error> {
        let retries = self.settings.retries;
        let Some(held) = self.find(key) else { return Ok(()) };
        match held.phase() {
            HeldPhase::Lost => {
                self.held.remove(key);
                return Ok(());
            }
            HeldPhase::Copying | HeldPhase::Finishing => return Ok(()),
            HeldPhase::Checking | HeldPhase::Running | HeldPhase::Deciding(_) => {}
        }
        self.is_touch_due(key, now);
        let Some(held) = self.find(key) else { return Ok(()) };
        if held.lease.is_over(now) {
            self.lose(key, LostReason::TimeToRun);
            self.held.remove(key);
            return Ok(());
        }
        // While the time to run is unknown, the reservation may have expired unnoticed.
        let is_certain = held.lease.is_known() || held.lease.is_fresh(now);
        match held.command(verdict, &retries) {
            Some(last) if is_certain && !self.needs_counters(held, &last) => {
                let job = held.job;
                self.held.set_phase(key, HeldPhase::Finishing);
                self.send_last(key, job, last, now)
            }
            _ => {
                self.held.set_phase(key, HeldPhase::Deciding(verdict));
                self.look(key, now);
                self.plan(key);
                Ok(())
            }
        }
    }

    /// Whether a job goes to the dead-letter tube, and its counters are unknown.
    fn needs_counters(&self, held: &HeldJob, last: &LastCommand) -> bool {
        let is_dead = self.settings.dead_letter.is_some() && held.body.is_some();
        is_dead && held.stats.is_none() && matches!(last, LastCommand::Bury(_))
    }

    /// The copy of a job for the dead-letter tube, if it goes there.
    fn dead_letter(&self, key: JobKey, priority: Priority) -> Option<(TubeName, Put<Bytes>)> {
        let (tube, held) = (self.settings.dead_letter.clone()?, self.find(key)?);
        let (job, stats) = (held.body.as_ref()?, held.stats.as_ref()?);
        let options = PutOptions::default().priority(priority).ttr(time_to_run(stats));
        Some((tube, Put::new(job.body.clone(), options).ok()?))
    }

    /// The answer to the use of the dead-letter tube. A put that does not wait for it would reach another tube if the
    /// server refuses.
    pub(super) fn used(
        &mut self,
        (key, priority): (JobKey, Priority),
        response: &Response,
        now: Instant,
    ) {
        match self.dead_letter(key, priority) {
            Some((_, put)) if matches!(response, Response::Using(_)) => {
                self.queue(&put, ExpectedReply::DeadLetter(key, priority), now);
            }
            _ => self.not_copied((key, priority), (Use::NAME, response), now),
        }
    }

    /// The answer to the put into the dead-letter tube. A copy that the server has buried is there, too.
    pub(super) fn copied(
        &mut self,
        (key, priority): (JobKey, Priority),
        response: &Response,
        now: Instant,
    ) {
        let (Response::Inserted(_) | Response::Buried(Some(_))) = response else {
            return self.not_copied((key, priority), (Put::<Bytes>::NAME, response), now);
        };
        let Some(job) = self.find(key).map(|held| held.job) else { return };
        self.held.set_phase(key, HeldPhase::Finishing);
        self.send_finish(&Delete::new(job), key, JobFate::DeadLettered, now);
    }

    /// The server has refused the dead-letter tube or the copy, so the job is buried.
    fn not_copied(
        &mut self,
        (key, priority): (JobKey, Priority),
        (command, response): (&'static str, &Response),
        now: Instant,
    ) {
        let Some(job) = self.find(key).map(|held| held.job) else { return };
        self.held.set_phase(key, HeldPhase::Finishing);
        self.refuse(command, response, now);
        self.send_finish(&Bury::new(job, priority), key, JobFate::Buried, now);
    }

    /// Reports a job that is in the dead-letter tube now.
    pub(super) fn report_dead(&mut self, held: HeldJob) {
        let (job, attempts) = (held.job.id(), held.stats.map_or(0, |stats| stats.reserves));
        let reason = held.reason.unwrap_or_else(|| "its handler decided so".to_owned());
        self.notify(WorkerEventKind::DeadLettered { job, reason, attempts });
    }

    pub(super) fn send_last(
        &mut self,
        key: JobKey,
        job: JobRef,
        last: LastCommand,
        now: Instant,
    ) -> Result<(), Error> {
        match last {
            LastCommand::Delete => self.send_finish(&Delete::new(job), key, JobFate::Deleted, now),
            LastCommand::Bury(priority) => match self.dead_letter(key, priority) {
                Some((tube, put)) => {
                    // No reserve may wait before the answer, or the server would not read what follows it.
                    self.held.set_phase(key, HeldPhase::Copying);
                    self.plan(key);
                    if *self.session.used_tube() == tube {
                        self.queue(&put, ExpectedReply::DeadLetter(key, priority), now);
                    } else {
                        self.queue(&Use(tube), ExpectedReply::DeadLetterTube(key, priority), now);
                    }
                }
                None => self.send_finish(&Bury::new(job, priority), key, JobFate::Buried, now),
            },
            LastCommand::Release(options, fate) => {
                self.send_finish(&Release::new(job, options)?, key, fate, now);
            }
        }
        Ok(())
    }

    fn send_finish<C: Command>(&mut self, command: &C, key: JobKey, fate: JobFate, now: Instant) {
        let counters = || self.find(key)?.stats.as_deref().map(|stats| &stats.tube);
        let observation = self.asking.settles(command, self.only_tube().or_else(counters));
        self.queue_observed(command, ExpectedReply::Finish(key, fate), observation, now);
    }

    /// The task that drove it is gone, and with it the connection.
    pub(crate) fn cut(&mut self) {
        self.abandon();
        self.state = crate::SlotState::Ended;
    }

    /// Abandons everything that is held: closing the connection gives it back with its priority unchanged.
    pub(super) fn abandon(&mut self) {
        for held in self.held.take() {
            match held.phase() {
                HeldPhase::Running => {
                    self.update(held.key, ReservationChange::Lost(LostReason::Stopped));
                    self.settle(held.job.id(), JobFate::Abandoned);
                }
                HeldPhase::Checking | HeldPhase::Deciding(_) | HeldPhase::Copying => {
                    self.settle(held.job.id(), JobFate::Abandoned);
                }
                HeldPhase::Finishing => self.settle(held.job.id(), JobFate::Unknown),
                HeldPhase::Lost => {}
            }
        }
        self.close();
    }

    /// The jobs whose last command may have reached the server. The others go back with the connection.
    pub(super) fn sent_lasts(&self) -> Vec<JobKey> {
        let lasts = self.expected.iter().filter(|expected| self.session.is_sent(expected.ticket));
        lasts
            .filter_map(|expected| match expected.what {
                ExpectedReply::Finish(key, _) => Some(key),
                _ => None,
            })
            .collect()
    }

    pub(super) fn lose(&mut self, key: JobKey, reason: LostReason) {
        let Some(held) = self.find(key) else { return };
        if held.phase() == HeldPhase::Finishing {
            // The answer to its last command decides: a delete also removes a job that is ready again.
            return;
        }
        let id = held.job.id();
        let Some(phase) = self.held.set_phase(key, HeldPhase::Lost) else { return };
        match phase {
            HeldPhase::Running => {
                self.update(key, ReservationChange::Lost(reason));
                self.settle(id, JobFate::Lost(reason));
                self.contain(key, reason);
            }
            HeldPhase::Deciding(_) | HeldPhase::Copying => {
                self.settle(id, JobFate::Lost(reason));
                self.held.remove(key);
            }
            // Its handler has not started.
            HeldPhase::Checking => {
                self.held.remove(key);
            }
            HeldPhase::Finishing | HeldPhase::Lost => {}
        }
    }

    pub(super) fn settle(&mut self, job: JobId, fate: JobFate) {
        self.notify(WorkerEventKind::Settled { job, fate });
    }
}
