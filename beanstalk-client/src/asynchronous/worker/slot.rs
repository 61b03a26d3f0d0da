//! One slot of a worker: a connection to one server, and the handlers of its jobs.

use std::{
    future::poll_fn,
    sync::Arc,
    task::{Context, Poll},
    time::Instant,
};

use queue_core::{Wire, now};

use super::{
    context::{HandlerRequests, JobContext},
    handlers::{Handlers, SlotHandlers},
};
use crate::{
    Address, Decision, Error, TubeName, WorkerEventKind, WorkerOptions,
    job_context::HandlerRequest,
    protocol::{Action, WorkerSlot},
    trace::JobReporter,
    work::worker_status::{SlotServer, WorkerStatus},
};

pub(super) struct Slot {
    lane: SlotServer,
    worker_status: Arc<WorkerStatus>,
    server: Arc<Address>,
    mail: Arc<HandlerRequests>,
    handlers: SlotHandlers,
    role: WorkerSlot,
    wire: Wire<Error>,
}

/// Maximum number of rounds in one poll, so that other tasks of the runtime get their turn.
const MAX_ROUNDS: usize = 64;

impl Slot {
    pub(super) fn new(
        (lane, tubes): (SlotServer, Vec<TubeName>),
        options: &WorkerOptions,
        worker_status: Arc<WorkerStatus>,
        handlers: Arc<Handlers>,
    ) -> Self {
        Slot {
            lane,
            worker_status,
            server: Arc::new(options.address(lane.server).clone()),
            mail: Arc::new(HandlerRequests::default()),
            handlers: SlotHandlers::new(
                handlers,
                JobReporter::new(options, lane.server),
                options.prefetch > 1,
            ),
            role: WorkerSlot::new(options, lane.server, lane.slot as u64, tubes),
            wire: Wire::to(options.connect(lane.server)),
        }
    }

    /// Runs until the worker is stopped or has nothing left to do. If it is dropped earlier, the server gets the jobs
    /// back.
    pub(super) async fn run(mut self) {
        poll_fn(|cx| {
            let polled = self.poll(cx);
            self.worker_status.follow(self.lane.slot, &mut self.role);
            polled
        })
        .await;
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.worker_status.stop.wake(self.lane.slot, cx.waker());
        self.role.wake_when_enough(cx.waker());
        for _ in 0..MAX_ROUNDS {
            let now = now();
            self.role.stop_as_told(self.worker_status.stop.asked(), now);
            self.answer_mail(cx, now);
            self.poll_handlers(cx, now);
            let has_actions = |role: &mut WorkerSlot| role.has_actions().then_some(());
            match self.wire.poll(cx, &mut self.role, has_actions) {
                Poll::Ready(Some(())) => self.act(now),
                Poll::Ready(None) => {
                    self.handlers.clear();
                    return Poll::Ready(());
                }
                Poll::Pending => return Poll::Pending,
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn answer_mail(&mut self, cx: &Context<'_>, now: Instant) {
        for ask in self.mail.take(cx.waker()) {
            match ask {
                HandlerRequest::Touch(key) => self.role.touch(key, now),
                HandlerRequest::Look(key) => self.role.look(key, now),
            }
        }
    }

    /// Starts handlers, and reports those that have ended.
    fn poll_handlers(&mut self, cx: &mut Context<'_>, now: Instant) {
        loop {
            let (worker_status, server, slot) = (&self.worker_status, &self.server, self.lane.slot);
            let began = |job: &JobContext| {
                worker_status.notify(server, slot, WorkerEventKind::Started(job.id));
            };
            let Poll::Ready((job, ended)) = self.handlers.poll(cx, began) else { return };
            if let Some(error) = ended.reason.clone() {
                self.notify(WorkerEventKind::Failed { job: job.id, error });
            }
            let server = self.lane.server;
            let deferrals = self.worker_status.decided(server, job.id, &ended.outcome);
            let decision = Decision { outcome: ended.outcome, reason: ended.reason };
            ended.span.run(|| self.role.finish(job.key(), decision, deferrals, now));
        }
    }

    fn notify(&self, what: WorkerEventKind) {
        self.worker_status.notify(&self.server, self.lane.slot, what);
    }

    fn act(&mut self, now: Instant) {
        while let Some(action) = self.role.next_action() {
            match action {
                Action::Run(taken) => {
                    let (server, mail) = (self.server.clone(), self.mail.clone());
                    let deferrals = self.worker_status.deferrals(self.lane.server, taken.job.id);
                    let job = JobContext::new(
                        taken,
                        deferrals,
                        server,
                        Some(mail),
                        self.worker_status.stop.signal().clone(),
                    );
                    self.handlers.push(job);
                }
                Action::Update(key, change) => {
                    self.handlers.update(key, |view| view.apply(change));
                }
                Action::Abort(key) => self.handlers.abort(key),
                Action::HandBack => {
                    for job in self.handlers.take_waiting() {
                        self.role.give_back(job.key(), now);
                    }
                }
                Action::Connected(id) => self.worker_status.connected(&self.server, self.lane, &id),
                Action::Tell(what) => self.notify(what),
            }
        }
    }
}

impl Drop for Slot {
    /// The run may have been dropped, or its runtime: the worker's status then shows that it holds nothing.
    fn drop(&mut self) {
        self.role.cut();
        self.act(now());
        self.worker_status.follow(self.lane.slot, &mut self.role);
    }
}
