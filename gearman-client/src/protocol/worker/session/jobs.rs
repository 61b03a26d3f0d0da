//! A worker's jobs, from their assignment to their end.

use std::{
    collections::hash_map::Entry,
    time::{Duration, Instant},
};

use super::{
    super::{
        assignment::Assignment,
        confirm::Observed,
        intake::Oversize,
        work::{JobEnd, Report, Settled, job_lost},
    },
    AnsweredGrab, HeldJob, IdleState, LEAST_TIMEOUT, WorkerSession,
};
use crate::{
    Epoch, Error, JobHandle,
    names::short::ShortId,
    protocol::{Packet, PacketType},
    text::Decimal,
    trace,
};

impl WorkerSession {
    /// The job that a grab has brought, without `missing` bytes of its workload, and its announced timeout.
    pub(super) fn assigned(
        &mut self,
        packet: &Packet,
        missing: usize,
        now: Instant,
    ) -> Result<(Assignment, Option<Duration>, AnsweredGrab), Error> {
        let (answer, observation) = self.answered_grab(packet.packet_type, now)?;
        self.window = (self.window * 2).min(self.places);
        self.budget.refill(now);
        let mut timeout = None;
        let known = |name: &[u8]| {
            let (function, of_function) = self.functions.get_key_value(name)?;
            timeout = *of_function;
            Some(function.clone())
        };
        let job = Assignment::parse(packet, &self.origin, known);
        let job = match job {
            Ok(job) => job,
            Err(error) => {
                self.confirmations.abandoned(observation);
                return Err(error);
            }
        };
        self.confirmations.grabbed(observation, Some((&job, missing)));
        self.has_brought_job = true;
        Ok((job, timeout, answer))
    }

    /// Whether the limit allows a new job. Otherwise the job is left to the server.
    fn is_allowed(&mut self, answer: AnsweredGrab) -> bool {
        let is_allowed =
            self.limit.as_mut().is_none_or(|limit| limit.take(answer == AnsweredGrab::Expected));
        self.left += usize::from(!is_allowed);
        is_allowed
    }

    /// Takes a new job, unless it has to wait for another or may no longer run.
    pub(super) fn take(
        &mut self,
        job: Assignment,
        timeout: Option<Duration>,
        answer: AnsweredGrab,
        now: Instant,
    ) -> Option<Assignment> {
        if self.is_returning {
            // Its connection is about to be closed.
            self.give_back(usize::from(answer == AnsweredGrab::Expected));
            self.left += 1;
            return None;
        }
        if !self.is_allowed(answer) {
            return None;
        }
        let may_begin = self.may_begin(&job);
        let held = self.held_job(&job, timeout, now);
        match self.running.entry(job.handle.short()) {
            Entry::Occupied(_) => {
                self.again.push(job);
                return None;
            }
            Entry::Vacant(place) => place.insert(held),
        };
        if may_begin {
            return Some(job);
        }
        self.waiting.push(job);
        None
    }

    /// A new job, whose function has this announced timeout.
    fn held_job(&self, job: &Assignment, timeout: Option<Duration>, now: Instant) -> HeldJob {
        let timeout = timeout.filter(|timeout| !timeout.is_zero());
        let until = timeout.and_then(|timeout| now.checked_add(timeout.max(LEAST_TIMEOUT)));
        let (function, to_keep) = (job.function.clone(), self.to_keep(job));
        HeldJob { function, has_begun: false, until, to_keep }
    }

    /// Fails a job over the limit, of whose packet only the start is here: it is not run. Returns it, unless nobody may
    /// end it any more.
    pub(in crate::protocol::worker) fn refuse(
        &mut self,
        start: &Packet,
        Oversize { size, limit }: Oversize,
        now: Instant,
    ) -> Result<Option<Assignment>, Error> {
        let (job, _, answer) = self.assigned(start, size - start.body.len(), now)?;
        if !self.is_allowed(answer) {
            return Ok(None);
        }
        let why =
            format!("not run: its packet of {size} bytes is over the worker's limit of {limit}");
        self.end(&job.handle, JobEnd::Exception(why.as_bytes()), now);
        Ok(Some(job))
    }

    /// Whether there is a free slot for a job, and no earlier run of it is active.
    pub(super) fn may_begin(&self, job: &Assignment) -> bool {
        let handle = job.handle.short();
        self.running() < self.places && self.going_on.iter().all(|(_, going)| *going != handle)
    }

    /// A job that had to wait, and may start now.
    pub fn released(&mut self) -> Option<Assignment> {
        let at = self.waiting.iter().position(|job| self.may_begin(job))?;
        Some(self.waiting.remove(at))
    }

    /// Records that a handler has started with a job. The job keeps its slot until it is [finished](Self::finish), even
    /// if the connection is lost before that.
    pub fn begin(&mut self, job: &JobHandle) {
        if job.epoch() == Some(self.origin.epoch)
            && let Some(held) = self.running.get_mut(&job.short())
        {
            held.has_begun = true;
        }
    }

    /// Reports on a job: WORK_STATUS, WORK_DATA or WORK_WARNING.
    ///
    /// # Errors
    ///
    /// `JobLost` when this connection does not hold the job; `InvalidInput` for progress with a total of 0, which kills
    /// a waiting `gearman` program.
    pub fn report(&mut self, job: &JobHandle, report: Report<'_>) -> Result<(), Error> {
        let handle = self.held(job)?;
        match report {
            Report::Status(_, 0) => {
                let why = "a progress of 0 parts is not valid: it crashes some clients";
                return Err(Error::invalid(why).with_command(PacketType::WorkStatus.name()));
            }
            Report::Status(numerator, denominator) => {
                let (numerator, denominator) = (Decimal::new(numerator), Decimal::new(denominator));
                let arguments = [handle.as_bytes(), numerator.as_bytes()];
                self.put(PacketType::WorkStatus, &arguments, denominator.as_bytes());
                self.confirmations.result_or_report(PacketType::WorkStatus, None);
            }
            Report::Data(data) => self.put_work(PacketType::WorkData, handle, data, None),
            Report::Warning(data) => self.put_work(PacketType::WorkWarning, handle, data, None),
        }
        Ok(())
    }

    /// Ends a job and requests the next one; both go out in one write.
    ///
    /// # Errors
    ///
    /// `JobLost` when this connection does not hold the job.
    pub fn finish(&mut self, job: &JobHandle, end: JobEnd<'_>, now: Instant) -> Result<(), Error> {
        if self.becomes_letter(job, end, now) {
            return Ok(());
        }
        let held = self.let_go(job, now)?;
        if matches!(end, JobEnd::GiveBack) {
            self.set_back.push(held.function);
        }
        self.end(job, end, now);
        Ok(())
    }

    /// Queues the end of a job, and the request for the next one.
    fn end(&mut self, job: &JobHandle, end: JobEnd<'_>, now: Instant) {
        let Some(packet_type) = end.packet_type() else { return self.return_job() };
        self.fruitless = 0;
        let handle = job.short();
        let (measures, function) = (&self.measures, self.only_function());
        let observation =
            trace::ends(measures, packet_type.name(), job, function, &self.origin.server);
        match end {
            JobEnd::Complete(data) => self.put_work(packet_type, handle, data, observation),
            JobEnd::Exception(data) => {
                self.put_work(packet_type, handle, data, observation);
                if self.dialect.is_oldest() {
                    // This server forwards the exception without ending the job.
                    self.put(PacketType::WorkFail, &[], handle.as_bytes());
                    self.confirmations.repeated(PacketType::WorkFail);
                }
            }
            JobEnd::Fail | JobEnd::Panic(_) => {
                self.put(packet_type, &[], handle.as_bytes());
                self.confirmations.result_or_report(packet_type, observation);
            }
            JobEnd::GiveBack => {}
        }
        if let IdleState::Asleep(_) = self.rest {
            self.rest = IdleState::Awake;
        }
        self.poll(now);
    }

    /// A job is given back, and with it those that were not started.
    fn return_job(&mut self) {
        self.confirmations.settle(Settled::GivenBack);
        if !std::mem::replace(&mut self.is_returning, true) {
            self.fruitless = self.fruitless.saturating_add(1);
        }
        self.leave_waiting();
    }

    /// Leaves the jobs that had to wait to the server.
    pub(super) fn leave_waiting(&mut self) {
        // The first run's result ends it: the server counts the job as this connection's again.
        self.again.clear();
        for job in std::mem::take(&mut self.waiting) {
            self.leave(&job.handle);
        }
    }

    /// Records that this job will not be ended. It goes back to the server when the connection closes, which need not
    /// wait for it.
    pub fn leave(&mut self, job: &JobHandle) {
        if job.epoch() == Some(self.origin.epoch) && self.running.remove(&job.short()).is_some() {
            self.left += 1;
        } else {
            self.end_elsewhere(job);
        }
    }

    /// Leaves all held jobs to the server, and no longer waits for the handlers of lost ones.
    pub(crate) fn leave_all(&mut self) {
        self.left += self.running.len();
        self.running.clear();
        self.going_on.clear();
        self.waiting.clear();
    }

    /// Whether this connection still holds the job.
    #[must_use]
    pub fn holds(&self, job: &JobHandle) -> bool {
        self.held(job).is_ok()
    }

    /// When the job's announced timeout passes, if it has one. The server then silently gives it to another worker; the
    /// answer to the result shows whether it has.
    #[must_use]
    pub fn held_until(&self, job: &JobHandle) -> Option<Instant> {
        let is_here = job.epoch() == Some(self.origin.epoch);
        self.running.get(&job.short()).filter(|_| is_here).and_then(|held| held.until)
    }

    /// Removes a job from the connection, to end it.
    fn let_go(&mut self, job: &JobHandle, now: Instant) -> Result<HeldJob, Error> {
        let handle = job.short();
        if job.epoch() == Some(self.origin.epoch)
            && let Some(held) = self.running.remove(&handle)
        {
            let Some(at) = self.again.iter().position(|again| again.handle.short() == handle)
            else {
                return Ok(held);
            };
            // The server would take this result for that of the second run, which can start now.
            let again = self.again.remove(at);
            let timeout = self.functions.get(&again.function).copied().flatten();
            let held = self.held_job(&again, timeout, now);
            self.running.insert(handle, held);
            self.waiting.push(again);
            self.confirmations.settle(Settled::Rejected);
        } else {
            self.end_elsewhere(job);
        }
        Err(job_lost(job))
    }

    /// A handler of an earlier connection has ended, which frees its slot.
    pub(super) fn end_elsewhere(&mut self, job: &JobHandle) {
        let handle = job.short();
        let is_it = |going: &(Epoch, ShortId)| job.epoch() == Some(going.0) && going.1 == handle;
        if let Some(at) = self.going_on.iter().position(is_it) {
            self.going_on.swap_remove(at);
        }
    }

    pub(super) fn held(&self, job: &JobHandle) -> Result<ShortId, Error> {
        let handle = job.short();
        if job.epoch() == Some(self.origin.epoch) && self.running.contains_key(&handle) {
            return Ok(handle);
        }
        Err(job_lost(job))
    }

    pub(super) fn put_work(
        &mut self,
        packet_type: PacketType,
        handle: ShortId,
        data: &[u8],
        observation: Observed,
    ) {
        self.put(packet_type, &[handle.as_bytes()], data);
        self.confirmations.result_or_report(packet_type, observation);
    }
}
