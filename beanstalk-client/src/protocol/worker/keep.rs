//! Keeping reservations alive, and noticing when they end.

use std::time::Instant;

use super::{Action, Ending, ExpectedReply, HeldJob, JobKey, WorkerSlot};
use crate::{
    Heartbeat, LostReason, WorkerEventKind,
    protocol::{ListTubeUsed, StatsJob, Touch},
};

impl WorkerSlot {
    /// Sends a keepalive after the end of a reservation whose handler still runs.
    pub(super) fn speak(&mut self, now: Instant) {
        if !self.keepalive.is_due(now) {
            return;
        }
        if self.held.lost() > 0 && matches!(self.ending, Ending::No | Ending::Stopping) {
            self.queue(&ListTubeUsed, ExpectedReply::Nudge, now);
        } else {
            self.keepalive.end();
        }
    }

    /// The face no longer has this job: the handler of the next one starts.
    pub(super) fn returned(&mut self, key: JobKey, now: Instant) {
        match self.given.front() {
            Some(first) if *first == key => drop(self.given.pop_front()),
            _ => self.given.retain(|given| *given != key),
        }
        self.starts(now);
    }

    /// Notes that the handler of the first job that the face has is running.
    pub(super) fn starts(&mut self, now: Instant) {
        let Some(first) = self.given.front().copied() else { return };
        if let Some(held) = self.find_mut(first)
            && held.started.is_none()
        {
            held.started = Some(now);
            self.plan(first);
        }
    }

    /// Aborts a handler that may never return together with its reservation, if it is contained that way.
    pub(super) fn contain(&mut self, key: JobKey, reason: LostReason) {
        if reason == LostReason::TimeToRun
            && matches!(self.settings.heartbeat, Heartbeat::AtMost(_))
        {
            self.actions.push_back(Action::Abort(key));
        }
    }

    /// Touches the jobs that need it, reads the counters of those that have run for a while, and gives up expired ones.
    pub(super) fn tend(&mut self, now: Instant) {
        for key in self.held.keys() {
            self.tend_one(key, now);
        }
        self.due = self.held.iter().filter_map(|held| self.due_at(held)).min();
    }

    fn tend_one(&mut self, key: JobKey, now: Instant) {
        if self.find(key).is_none_or(|held| !held.phase().is_active()) {
            return;
        }
        let is_due = self.is_touch_due(key, now);
        let Some(held) = self.find(key) else { return };
        if held.lease.is_over(now) {
            self.lose(key, LostReason::TimeToRun);
            self.keepalive.begin(now);
        } else if !held.lease.is_known() {
            if !held.lease.is_fresh(now) {
                self.look(key, now);
            }
        } else if is_due {
            self.touch(key, now);
        }
    }

    /// Whether a touch is due. One that is far too late is an event: something has delayed the driver.
    pub(super) fn is_touch_due(&mut self, key: JobKey, now: Instant) -> bool {
        let Some(held) = self.find(key) else { return false };
        // Compares with the moment that it was due at, as `due_at` does. Otherwise that could ask forever for
        // something that is never done.
        let due = held.lease.beat().filter(|beat| *beat <= now);
        let Some(beat) = due.filter(|beat| self.settings.beats(held.started, *beat)) else {
            return false;
        };
        let (job, late) = (held.job.id(), now.saturating_duration_since(beat));
        if held.lease.is_long(late) {
            self.notify(WorkerEventKind::LateHeartbeat { job, late });
        }
        true
    }

    /// When a job next needs attention.
    fn due_at(&self, held: &HeldJob) -> Option<Instant> {
        if !held.phase().is_active() {
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

    pub(super) fn plan(&mut self, key: JobKey) {
        let needs = self.find(key).and_then(|held| self.due_at(held));
        self.due = match (self.due, needs) {
            (Some(due), Some(needs)) => Some(due.min(needs)),
            (due, needs) => due.or(needs),
        };
    }

    /// Extends a reservation (`touch`) for the handler. An action reports the outcome.
    pub fn touch(&mut self, key: JobKey, now: Instant) {
        let Some(held) = self.find_mut(key) else { return };
        if held.phase().is_active() && !held.lease.is_touching() {
            held.lease.touch_sent(now);
            let job = held.job;
            self.queue(&Touch::new(job), ExpectedReply::Touch(key), now);
            self.plan(key);
        }
    }

    /// Reads a job's counters (`stats-job`) for the handler. An action reports them.
    pub fn look(&mut self, key: JobKey, now: Instant) {
        let Some(held) = self.find_mut(key) else { return };
        if held.phase().is_active() && !held.is_looking {
            held.is_looking = true;
            let id = held.job.id();
            self.queue(&StatsJob(id), ExpectedReply::Look(key), now);
        }
    }
}
