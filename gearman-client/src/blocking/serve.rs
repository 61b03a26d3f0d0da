//! Running the handlers of a blocking worker.

use std::collections::HashMap;

use bytes::Bytes;
use queue_core::{
    Registered, Span, Stop,
    blocking::{JobQueue, Slices},
    now,
    sync::thread::{self, Scope},
};

use super::{
    held::{HandlerPlace, JobContext},
    lane::{LanePump, SharedLane},
};
use crate::{
    Failure, FunctionName, JobLimit, WorkerOptions,
    names::keys::Keys,
    protocol::{Assignment, JobEnd, worker::lane::Lane as Role},
    work::{events::EventReporter, failure::Failed},
};

type Handler = Box<dyn Fn(&mut JobContext<'_>) -> Result<Bytes, Failure> + Send + Sync>;

pub(super) type Handlers = HashMap<FunctionName, Registered<Handler>, Keys>;

/// Shared by all servers of a worker.
#[derive(Clone, Copy)]
pub(super) struct WorkerPool<'a> {
    pub(super) handlers: &'a Handlers,
    pub(super) options: &'a WorkerOptions,
    pub(super) stop: &'a Stop,
}

/// Maximum number of bytes to queue before results are written.
const ENOUGH_OUTGOING: usize = 64 * 1024;

impl WorkerPool<'_> {
    /// Runs the jobs of one server until no more may be taken and running ones have ended, or the grace of a stop has passed.
    pub(super) fn serve(&self, lane: &mut LanePump) {
        let job_queue = JobQueue::default();
        if self.stop.asked().is_none() {
            lane.with(Role::start);
        }
        thread::scope(|scope| {
            let _closing = job_queue.closing();
            self.listen(scope, &job_queue, lane);
        });
        lane.end();
    }

    fn listen<'scope, 'env>(
        &'env self,
        scope: &'scope Scope<'scope, 'env>,
        job_queue: &'env JobQueue<Assignment>,
        lane: &mut LanePump,
    ) {
        let shared_lane = lane.shared_lane.clone();
        let (mut slices, slots) = (Slices::default(), lane.share.slots);
        while !lane.with(|role| role.is_over()) {
            if let Some(haste) = self.stop.asked() {
                lane.with(|role| role.stop(haste, now()));
            } else if self.is_ending() {
                lane.with(Role::wind_down);
            }
            let time = slices.next(job_queue, slots, || {
                // The steps below notice a lost connection.
                let _ = lane.flush();
                true
            });
            lane.receive(now() + time);
            slices.listened(job_queue, lane.has_jobs());
            while let Some(job) = lane.next() {
                let Some(registered) = self.registered(lane, &job) else { continue };
                // One at a time, or the caller has declared them quick.
                if slots == 1 || self.options.batch_results || registered.is_quick() {
                    self.run_here(lane, &shared_lane, registered, job);
                    continue;
                }
                let aside = shared_lane.clone();
                let run = move |job| self.run_aside(&aside, job);
                if let Some(job) = job_queue.start(scope, job, slots, run)
                    && let Some(registered) = self.registered(lane, &job)
                {
                    self.run_here(lane, &shared_lane, registered, job);
                }
            }
        }
    }

    /// The handler of a job that may be run.
    fn registered(&self, lane: &mut LanePump, job: &Assignment) -> Option<&Registered<Handler>> {
        // While it waited here, the server may have given it to another worker. If a limit has counted it, it is handed
        // over even so, and its end fails with `JobLost`.
        if self.options.limit.is_none() && !lane.with(|role| role.holds(&job.handle)) {
            return None;
        }
        let registered = self.handlers.get(&job.function);
        if registered.is_none() {
            if self.is_ending() {
                lane.with(|role| role.session.leave(&job.handle));
            } else {
                let _ = lane.finish(&job.handle, JobEnd::Fail);
            }
        }
        registered
    }

    pub(super) fn is_ending(&self) -> bool {
        self.stop.asked().is_some() || self.options.limit.as_ref().is_some_and(JobLimit::is_reached)
    }

    /// Runs a job in the thread that moves the bytes. Its result goes out at once, or together with those of other
    /// jobs.
    fn run_here(
        &self,
        lane: &mut LanePump,
        shared_lane: &SharedLane,
        registered: &Registered<Handler>,
        job: Assignment,
    ) {
        shared_lane.with(|role| role.session.begin(&job.handle));
        let (outcome, span) = self.run(registered, shared_lane, &job, HandlerPlace::Here(lane));
        if let Some(haste) = self.stop.asked() {
            lane.with(|role| role.stop(haste, now()));
        }
        let job = job.into_handle();
        // A lost job was counted, and the server has given it to another worker.
        let _ = span.run(|| lane.finish(&job, Failed::end_of(&outcome)));
        let may_wait =
            self.options.batch_results && lane.with(|role| role.backlog()) < ENOUGH_OUTGOING;
        if lane.has_jobs() && !may_wait {
            // A failure closes the connection, and its jobs are lost.
            let _ = lane.flush();
        }
    }

    /// Runs a job in a separate thread.
    fn run_aside(&self, shared_lane: &SharedLane, job: Assignment) {
        let Some(registered) = self.handlers.get(&job.function) else { return };
        shared_lane.with(|role| role.session.begin(&job.handle));
        let (outcome, span) =
            self.run(registered, shared_lane, &job, HandlerPlace::Aside(shared_lane));
        let job = job.into_handle();
        // A lost job was counted, and the server has given it to another worker.
        let _ = span.run(|| shared_lane.finish(&job, Failed::end_of(&outcome)));
    }

    /// The outcome of a handler, and the span of its job, within which the outcome is sent. A panic is a failure of its
    /// job only.
    fn run(
        &self,
        registered: &Registered<Handler>,
        shared_lane: &SharedLane,
        job: &Assignment,
        place: HandlerPlace<'_>,
    ) -> (Result<Bytes, Failed>, Span) {
        let ledger = self.options.ledger.as_ref();
        let mut process = shared_lane.reporter.begins(job);
        let span = process.span().clone();
        let outcome = span.run(|| {
            let outcome = ledger
                .map_or(Ok(None), |ledger| ledger.admit(job))
                .map_err(Failed::Handler)
                .and_then(|running| {
                    EventReporter::admitted(&process, running.as_ref());
                    running.iter().for_each(|running| {
                        let times = running.attempt();
                        shared_lane.with(|role| role.session.attempted(&job.handle, times));
                    });
                    let stopping = self.stop.signal();
                    let mut context = JobContext { assignment: job, place, stopping };
                    let ended = registered.run_here(|handler| handler(&mut context));
                    ended.map_err(|panic| Failed::panic(&*panic))?.map_err(Failed::Handler)
                });
            shared_lane.reporter.ended(&mut process, job, &outcome);
            outcome
        });
        (outcome, span)
    }
}
