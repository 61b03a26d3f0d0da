//! One server of a blocking worker: its role and its wire, and the threads of its handlers.

use std::{
    mem,
    sync::Arc,
    time::{Duration, Instant},
};

use queue_core::{
    Io, Pulse, Registered, Role, Span,
    blocking::{Drive, JobQueue, Slices, Wire},
    lock, now,
    sync::{
        Condvar, Mutex, MutexGuard,
        thread::{self, Scope},
    },
};

use super::{Handler, Handlers};
use crate::{
    Address, ConnectOptions, Error, JobContext, Outcome, WorkerEventKind, WorkerOptions,
    protocol::worker::{self, HeldKey},
    work::{WorkerStatus, panicked},
};

/// Shared by the thread of the lane and those of its handlers.
struct LaneShared<'a> {
    index: usize,
    slots: usize,
    server: Arc<Address>,
    worker_status: &'a WorkerStatus,
    handlers: &'a Handlers,
    job_queue: JobQueue<(HeldKey, JobContext)>,
    mail: DecisionBox,
}

/// Runs until the worker is stopping and running handlers have ended.
pub(super) fn serve(
    index: usize,
    server: &ConnectOptions,
    options: &WorkerOptions,
    worker_status: &WorkerStatus,
    handlers: &Handlers,
) {
    let lane_shared = LaneShared {
        index,
        slots: options.slots,
        server: Arc::new(server.address.clone()),
        worker_status,
        handlers,
        job_queue: JobQueue::default(),
        mail: DecisionBox::default(),
    };
    let (mut role, mut wire) = (options.lane(server, handlers.keys()), Wire::aside(server));
    thread::scope(|scope| {
        let _closing = lane_shared.job_queue.closing();
        lane_shared.listen(scope, &mut role, &mut wire);
        worker_status.close(index);
    });
}

impl LaneShared<'_> {
    fn listen<'scope, 'env>(
        &'env self,
        scope: &'scope Scope<'scope, 'env>,
        role: &mut worker::Lane,
        wire: &mut Wire<Error>,
    ) {
        let mut slices = Slices::default();
        while !role.is_over() {
            self.step(role, wire, &mut slices);
            self.worker_status.follow(self.index, role, now());
            let mut have_come = false;
            while let Some((jobs, news)) = role.take() {
                have_come |= !jobs.is_empty();
                let jobs: Vec<_> = jobs.into_iter().map(|job| self.begin(job)).collect();
                self.worker_status.notify_all_events(self.index, news);
                jobs.into_iter().for_each(|(key, job)| self.run(scope, role, key, job));
            }
            slices.listened(&self.job_queue, have_come);
        }
    }

    /// Serves the connection until something arrives, or for a slice.
    fn step(&self, role: &mut worker::Lane, wire: &mut Wire<Error>, slices: &mut Slices) {
        let was_connected = role.is_connected();
        let mut station = LaneService { role, lane_shared: self };
        let time = slices.next(&self.job_queue, self.slots, || {
            wire.push(&mut station);
            !station.role.has_news()
        });
        let driven = wire.drive(&mut station, now().checked_add(time), |station| {
            let is_connected = station.role.is_connected();
            (station.role.has_news() || is_connected != was_connected).then_some(())
        });
        if let Drive::Rest(until) = driven {
            let left = until.map_or(time, |at| at.saturating_duration_since(now()));
            self.mail.wait(left.min(time));
        }
    }

    fn begin(&self, job: worker::HandlerMessage) -> (HeldKey, JobContext) {
        let worker::HandlerMessage { key, delivery, attempts } = job;
        let loss = self.worker_status.begin(self.index, key);
        let stopping = self.worker_status.stop.signal().clone();
        (key, JobContext::new(delivery, attempts, self.server.clone(), loss, stopping))
    }

    /// Runs the handler of a message, in a separate thread unless it has proved quick.
    fn run<'scope, 'env>(
        &'env self,
        scope: &'scope Scope<'scope, 'env>,
        role: &mut worker::Lane,
        key: HeldKey,
        job: JobContext,
    ) {
        let Some(registered) = self.handlers.get(job.queue()) else { return };
        if registered.is_quick() {
            let Decided { decided, span } = self.handle(registered, key, &job);
            return span.run(|| self.worker_status.finish(role, key, decided, now()));
        }
        let run = |(key, job): (_, _)| self.run_aside(key, &job);
        if let Some((key, job)) = self.job_queue.start(scope, (key, job), self.slots, run) {
            self.run_aside(key, &job);
        }
    }

    fn run_aside(&self, key: HeldKey, job: &JobContext) {
        if let Some(registered) = self.handlers.get(job.queue()) {
            let decided = self.handle(registered, key, job);
            self.mail.put(key, decided);
        }
    }

    /// A panic is a failure of its message only.
    fn handle(&self, registered: &Registered<Handler>, key: HeldKey, job: &JobContext) -> Decided {
        let (queue, message) = (job.queue().clone(), job.message_id());
        self.worker_status.notify(self.index, WorkerEventKind::Started { queue, message });
        let mut process = self.worker_status.process(self.index, job);
        let span = process.span().clone();
        let decided = span.run(|| {
            let made = registered.run_here(|handler| handler(job));
            let ended = made.unwrap_or_else(|panic| panicked(&*panic));
            self.worker_status.handled(self.index, key, job, &mut process, &ended);
            (ended.outcome, ended.error)
        });
        Decided { decided, span }
    }
}

/// The decision of a handler with its reason, and the span of its message, within which the message is settled.
struct Decided {
    decided: (Outcome, Option<String>),
    span: Span,
}

/// The role as seen by the wire: decisions of handlers come first.
struct LaneService<'a> {
    role: &'a mut worker::Lane,
    lane_shared: &'a LaneShared<'a>,
}

impl Role for LaneService<'_> {
    type Failure = Error;

    fn exchange(&mut self, io: &mut Io<Error>, now: Instant) -> Pulse {
        let LaneShared { worker_status, mail, .. } = self.lane_shared;
        worker_status.heed_stop(self.role, now);
        for (key, Decided { decided, span }) in mail.take() {
            span.run(|| worker_status.finish(self.role, key, decided, now));
        }
        self.role.exchange(io, now)
    }
}

/// The decisions of handlers.
#[derive(Default)]
struct DecisionBox {
    decisions: Mutex<Vec<(HeldKey, Decided)>>,
    came: Condvar,
}

impl DecisionBox {
    fn lock(&self) -> MutexGuard<'_, Vec<(HeldKey, Decided)>> {
        lock(&self.decisions)
    }

    fn put(&self, key: HeldKey, decided: Decided) {
        self.lock().push((key, decided));
        self.came.notify_one();
    }

    fn take(&self) -> Vec<(HeldKey, Decided)> {
        mem::take(&mut *self.lock())
    }

    /// Waits at most this long for a decision.
    fn wait(&self, timeout: Duration) {
        let waited = self.came.wait_timeout_while(self.lock(), timeout, |mail| mail.is_empty());
        drop(waited);
    }
}
