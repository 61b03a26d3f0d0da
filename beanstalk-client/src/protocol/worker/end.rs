//! How jobs end, and how the connection does.

use std::time::Instant;

use super::{
    ExpectedReply, HeldPhase, JobKey, JobVerdict, LastCommand, ReservationChange, WorkerSlot,
};
use crate::{
    Error, JobFate, JobId, JobRef, LostReason, Outcome, WorkerEventKind,
    protocol::{Bury, Command, Delete, Release},
};

impl WorkerSlot {
    /// Reports that the handler has ended.
    pub fn finish(&mut self, key: JobKey, outcome: Outcome, now: Instant) {
        self.returned(key, now);
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
            HeldPhase::Finishing => return Ok(()),
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
            Some(last) if is_certain => {
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

    pub(super) fn send_last(
        &mut self,
        key: JobKey,
        job: JobRef,
        last: LastCommand,
        now: Instant,
    ) -> Result<(), Error> {
        match last {
            LastCommand::Delete => self.send_finish(&Delete::new(job), key, JobFate::Deleted, now),
            LastCommand::Bury(priority) => {
                self.send_finish(&Bury::new(job, priority), key, JobFate::Buried, now);
            }
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
                HeldPhase::Checking | HeldPhase::Deciding(_) => {
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
            HeldPhase::Deciding(_) => {
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
