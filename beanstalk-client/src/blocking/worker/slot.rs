//! One slot of a worker: a connection to one server.
//!
//! The thread that holds the slot drives it: its own, or the one that stands in while its own runs a handler.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use queue_core::{
    blocking::{Drive, Wire},
    now,
};

use super::{context::JobContext, handover::Handover};
use crate::{
    Address, Decision, Error, TubeName, WorkerEventKind, WorkerOptions,
    job_context::HandlerRequest,
    protocol::{Action, JobKey, WorkerSlot},
    work::{
        view::ReservationState,
        worker_status::{SlotServer, WorkerStatus},
    },
};

pub(super) struct Slot<'a> {
    lane: SlotServer,
    worker_status: &'a WorkerStatus,
    server: Arc<Address>,
    handover: Arc<Handover>,
    role: WorkerSlot,
    wire: Wire<Error>,
    /// Whether jobs go to the other thread through the handover.
    has_runner: bool,
    /// The next job for the slot's own thread.
    next: Option<JobContext>,
    is_over: bool,
}

/// Longest wait on the socket or the handover alone.
pub(super) const SLICE: Duration = Duration::from_millis(200);

/// The same while a handler runs and an answer is due.
const BUSY_SLICE: Duration = Duration::from_millis(20);

impl<'a> Slot<'a> {
    pub(super) fn new(
        (lane, tubes): (SlotServer, Vec<TubeName>),
        options: &WorkerOptions,
        worker_status: &'a WorkerStatus,
        handover: Arc<Handover>,
    ) -> Self {
        Slot {
            lane,
            worker_status,
            server: Arc::new(options.address(lane.server).clone()),
            handover,
            role: WorkerSlot::new(options, lane.server, lane.slot as u64, tubes),
            wire: Wire::aside(options.connect(lane.server)),
            has_runner: options.prefetch > 1,
            next: None,
            is_over: false,
        }
    }

    /// Drives the slot until there is a job for the calling thread; `None` when the worker is stopped or done.
    pub(super) fn advance(&mut self) -> Option<JobContext> {
        while self.next.is_none() && !self.is_over {
            self.step();
        }
        self.next.take()
    }

    /// Drives the slot while its own thread runs a handler, until the handler has ended.
    pub(super) fn stand_in(&mut self, job: JobKey) {
        while self.next.is_none() && self.handover.runs(job) && self.role.is_connected() {
            self.step();
        }
    }

    /// Serves the connection until something arrives, something is due, or a slice has passed.
    fn step(&mut self) {
        let now = now();
        self.role.stop_as_told(self.worker_status.stop.asked(), now);
        self.take_news(now);
        let was_connected = self.role.is_connected();
        let slice = if self.handover.is_idle() { SLICE } else { BUSY_SLICE };
        let driven = self.wire.drive(&mut self.role, now.checked_add(slice), |role| {
            (role.has_actions() || role.is_connected() != was_connected).then_some(())
        });
        self.act(now);
        self.worker_status.follow(self.lane.slot, &mut self.role);
        match driven {
            Drive::Rest(until) => {
                let left = until.map_or(SLICE, |until| until.saturating_duration_since(now));
                self.handover.wait(left.min(SLICE));
            }
            Drive::Over => self.is_over = true,
            Drive::Done(()) | Drive::Late => {}
        }
    }

    /// Takes outcomes and requests of handlers.
    fn take_news(&mut self, now: Instant) {
        let news = self.handover.take_news();
        for (job, ended) in news.ended {
            if let Some(error) = ended.reason.clone() {
                self.notify(WorkerEventKind::Failed { job: job.id, error });
            }
            let server = self.lane.server;
            let deferrals = self.worker_status.decided(server, job.id, &ended.outcome);
            let decision = Decision { outcome: ended.outcome, reason: ended.reason };
            ended.span.run(|| self.role.finish(job.key(), decision, deferrals, now));
        }
        for ask in news.asks {
            match ask {
                HandlerRequest::Touch(key) => self.role.touch(key, now),
                HandlerRequest::Look(key) => self.role.look(key, now),
            }
        }
    }

    fn notify(&self, what: WorkerEventKind) {
        self.worker_status.notify(&self.server, self.lane.slot, what);
    }

    fn act(&mut self, now: Instant) {
        while let Some(action) = self.role.next_action() {
            match action {
                Action::Run(taken) => {
                    let (server, handover) = (self.server.clone(), self.handover.clone());
                    let deferrals = self.worker_status.deferrals(self.lane.server, taken.job.id);
                    let job = JobContext::new(
                        taken,
                        deferrals,
                        server,
                        Some(handover),
                        self.worker_status.stop.signal().clone(),
                    );
                    if self.has_runner {
                        self.handover.put(job);
                    } else {
                        self.next = Some(job);
                    }
                }
                Action::Update(key, change) => self.update(key, |view| view.apply(change)),
                // A thread cannot be aborted from outside.
                Action::Abort(_) => {}
                Action::HandBack => {
                    for job in self.handover.take_waiting().into_iter().chain(self.next.take()) {
                        self.role.give_back(job.key(), now);
                    }
                }
                Action::Connected(id) => self.worker_status.connected(&self.server, self.lane, &id),
                Action::Tell(what) => self.notify(what),
            }
        }
    }

    fn update(&self, key: JobKey, change: impl FnOnce(&mut ReservationState)) {
        match &self.next {
            Some(next) if next.key() == key => next.update(change),
            _ => self.handover.update(key, change),
        }
    }
}
