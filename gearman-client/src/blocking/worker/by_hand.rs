//! Jobs that are taken and ended manually.

use std::time::{Duration, Instant};

use queue_core::{after, lock, now, sync::thread};

use super::Worker;
use crate::{
    LostReason, Result,
    blocking::{held::GrabbedJob, lane::LanePump},
    protocol::{
        Assignment, JobEnd, Report,
        worker::{lane::Lane as Role, work::job_lost},
    },
};

/// Longest pause between two rounds over several servers.
const PAUSE: Duration = Duration::from_millis(20);

/// How long to listen to each of several servers.
const GLANCE: Duration = Duration::from_millis(1);

impl Worker {
    /// The next job of a function announced with [`can_do`](Self::can_do); `None` if none arrived within `timeout`, or
    /// immediately if none can arrive any more: the worker was told to [stop](crate::WorkerHandle::stop), its
    /// [limit](crate::WorkerOptions::limit) is reached, or there are no jobs
    /// ([`until_empty`](crate::WorkerOptions::until_empty)). In this last case all
    /// [connections](crate::WorkerHandle::connection_states) are closed.
    ///
    /// Up to [`slots`](crate::WorkerOptions::slots) jobs of each connection can be held at once. End each with
    /// [`complete`](Self::complete), [`fail`](Self::fail) or [`exception`](Self::exception).
    ///
    /// # Errors
    ///
    /// If no server can be reached at the end of the timeout, and an attempt to has failed.
    pub fn next_job(&mut self, timeout: Duration) -> Result<Option<GrabbedJob>> {
        let next = self.next_assignment(timeout)?;
        if let Some((lane, assignment)) = &next
            && let Some(lane) = self.lanes.get(*lane)
        {
            lane.shared_lane.reporter.consumed(assignment);
        }
        Ok(next.map(|(lane, assignment)| GrabbedJob {
            assignment,
            lane,
            dropped: Some(self.dropped.clone()),
        }))
    }

    /// Ends a job with its result (`WORK_COMPLETE`), and requests the next one in the same write, unless no more are
    /// wanted.
    ///
    /// The server does not acknowledge results: `Ok` means that the result was written.
    ///
    /// # Errors
    ///
    /// `JobLost` when the connection that held the job is gone; a connection failure.
    pub fn complete(&mut self, job: GrabbedJob, result: impl AsRef<[u8]>) -> Result<()> {
        self.end(job, JobEnd::Complete(result.as_ref()))
    }

    /// Ends a job as failed (`WORK_FAIL`).
    ///
    /// # Errors
    ///
    /// As [`complete`](Self::complete).
    pub fn fail(&mut self, job: GrabbedJob) -> Result<()> {
        self.end(job, JobEnd::Fail)
    }

    /// Ends a job as failed, with a description of the error (`WORK_EXCEPTION`).
    ///
    /// # Errors
    ///
    /// As [`complete`](Self::complete).
    pub fn exception(&mut self, job: GrabbedJob, what: impl AsRef<[u8]>) -> Result<()> {
        self.end(job, JobEnd::Exception(what.as_ref()))
    }

    /// Gives a job back to the server, which runs it again, here or elsewhere, once its connection has closed: see
    /// [`Failure::give_back`](crate::Failure::give_back).
    ///
    /// # Errors
    ///
    /// `JobLost` when the connection that held the job is gone: the server has it already.
    pub fn give_back(&mut self, mut job: GrabbedJob) -> Result<()> {
        job.dropped = None;
        let lane = self.lanes.get_mut(job.lane).ok_or_else(|| job_lost(&job.handle))?;
        lane.finish(&job.handle, JobEnd::GiveBack)?;
        // It ends the connection.
        let _ = lane.flush();
        Ok(())
    }

    fn end(&mut self, mut job: GrabbedJob, end: JobEnd<'_>) -> Result<()> {
        job.dropped = None;
        self.heed_stop();
        let lane = self.lanes.get_mut(job.lane).ok_or_else(|| job_lost(&job.handle))?;
        let handle = job.handle.clone();
        // As for handlers: the memory of a large workload may serve the result.
        drop(job);
        lane.finish(&handle, end)?;
        lane.flush()
    }

    /// Reports a job's progress to its submitters (`WORK_STATUS`).
    ///
    /// # Errors
    ///
    /// `JobLost`; `InvalidInput` when `denominator` is 0; a connection failure.
    pub fn status(&mut self, job: &GrabbedJob, numerator: u64, denominator: u64) -> Result<()> {
        self.report(job, Report::Status(numerator, denominator))
    }

    /// Sends partial data to the submitters (`WORK_DATA`).
    ///
    /// # Errors
    ///
    /// `JobLost`; a connection failure.
    pub fn data(&mut self, job: &GrabbedJob, data: impl AsRef<[u8]>) -> Result<()> {
        self.report(job, Report::Data(data.as_ref()))
    }

    /// Sends the submitters a warning (`WORK_WARNING`).
    ///
    /// # Errors
    ///
    /// `JobLost`; a connection failure.
    pub fn warning(&mut self, job: &GrabbedJob, data: impl AsRef<[u8]>) -> Result<()> {
        self.report(job, Report::Warning(data.as_ref()))
    }

    fn report(&mut self, job: &GrabbedJob, report: Report<'_>) -> Result<()> {
        let lane = self.lanes.get_mut(job.lane).ok_or_else(|| job_lost(&job.handle))?;
        lane.report(&job.handle, report)
    }

    /// Whether the connection that delivered a job is gone, as far as can be seen without waiting. Its end will not be
    /// sent then, because other workers run it.
    #[must_use]
    pub fn is_lost(&mut self, job: &GrabbedJob) -> bool {
        self.lanes.get_mut(job.lane).is_none_or(|lane| lane.is_lost(&job.handle))
    }

    /// Waits until the connection that delivered a job is gone, at most for `timeout`, and returns the reason; `None`
    /// if it is not gone.
    #[must_use]
    pub fn wait_lost(&mut self, job: &GrabbedJob, timeout: Duration) -> Option<LostReason> {
        self.lanes.get_mut(job.lane)?.wait_lost(&job.handle, timeout)
    }

    fn next_assignment(&mut self, timeout: Duration) -> Result<Option<(usize, Assignment)>> {
        let until = after(now(), timeout);
        self.lanes.iter().for_each(|lane| lane.with(Role::start));
        let mut pause = GLANCE;
        loop {
            self.fail_dropped();
            if let Some(next) = self.take_arrived() {
                return Ok(Some(next));
            }
            self.heed_stop();
            if self.is_ending() && !self.lanes.iter().any(LanePump::is_asking) {
                return Ok(None);
            }
            if self.have_ended() {
                return Ok(None);
            }
            if self.sweep(until) {
                pause = GLANCE;
                continue;
            }
            let left = until.saturating_duration_since(now());
            if left.is_zero() {
                // A lane that has ended has no connection either.
                if self.connected() == 0 && !self.is_ending() && !self.have_ended() {
                    // Without a failure, the first attempt to connect goes on.
                    return self.lanes.iter().find_map(LanePump::failure).map_or(Ok(None), Err);
                }
                return Ok(None);
            }
            if self.lanes.len() > 1 || self.connected() == 0 {
                thread::sleep(left.min(pause));
                pause = (pause * 2).min(PAUSE);
            }
        }
    }

    fn have_ended(&self) -> bool {
        self.lanes.iter().all(|lane| lane.with(|role| role.is_over()))
    }

    /// Checks every server once, starting with another one each time; returns whether a job arrived. A single server is
    /// waited for.
    fn sweep(&mut self, until: Instant) -> bool {
        let count = self.lanes.len();
        self.turn = self.turn.wrapping_add(1);
        for offset in 0..count {
            let index = self.turn.wrapping_add(offset) % count;
            let Some(lane) = self.lanes.get_mut(index) else { continue };
            lane.look_for_jobs(if count > 1 { until.min(now() + GLANCE) } else { until });
            if lane.has_jobs() {
                // Requests more while this one is worked on. The next sweep starts with the next server.
                let _ = lane.flush();
                return true;
            }
        }
        false
    }

    /// A job that has arrived and is still held. While it waited here, the server may have given it to another worker.
    /// If a limit has counted it, it is handed over even so, and its end fails with `JobLost`.
    fn take_arrived(&mut self) -> Option<(usize, Assignment)> {
        let is_counted = self.options.limit.is_some();
        self.lanes.iter_mut().enumerate().find_map(|(index, lane)| {
            std::iter::from_fn(|| {
                lane.next()
                    .map(|job| (is_counted || lane.with(|role| role.holds(&job.handle)), job))
            })
            .find_map(|(is_given, job)| is_given.then_some((index, job)))
        })
    }

    /// Fails the jobs that were dropped without an end.
    pub(super) fn fail_dropped(&mut self) {
        let dropped = std::mem::take(&mut *lock(&self.dropped));
        for (index, handle) in dropped {
            if let Some(lane) = self.lanes.get_mut(index) {
                let _ = lane.finish(&handle, JobEnd::Fail).and_then(|()| lane.flush());
            }
        }
    }
}
