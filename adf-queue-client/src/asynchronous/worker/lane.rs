//! One server of an async worker: its role, the task that moves its bytes, and the tasks of its handlers.

use std::{sync::Arc, task::Waker, time::Instant};

use queue_core::{
    Driver, HandlerTasks, Io, Operation, Pulse, Registered, Serve, Shared, Wire, now,
};

use super::Handlers;
use crate::{
    Address, ConnectOptions, Error, JobContext, Outcome, WorkerEventKind,
    protocol::worker::{self, HandlerMessage},
    work::{Ended, MessageLoss, WorkerStatus, panicked},
};

pub(super) struct LaneDriver {
    index: usize,
    server: Arc<Address>,
    role: Arc<Shared<worker::Lane>>,
    worker_status: Arc<WorkerStatus>,
    handlers: Arc<Handlers>,
    /// They hold the lane, so they have to be closed.
    tasks: HandlerTasks,
}

impl LaneDriver {
    pub(super) fn new(
        index: usize,
        options: &ConnectOptions,
        role: worker::Lane,
        worker_status: Arc<WorkerStatus>,
        handlers: Arc<Handlers>,
    ) -> Arc<Self> {
        Arc::new(LaneDriver {
            index,
            server: Arc::new(options.address.clone()),
            role: Shared::new(role),
            worker_status,
            handlers,
            tasks: HandlerTasks::default(),
        })
    }

    /// The task that maintains its connections.
    pub(super) fn driver(self: &Arc<Self>, options: ConnectOptions) -> Driver<LaneService> {
        Driver::new(LaneService(self.clone()), Wire::to(&options))
    }

    /// Ends running handlers, at their next await.
    pub(super) fn close(&self) {
        self.tasks.close();
        self.worker_status.close(self.index);
    }

    /// Runs the handler of a message, in its own task unless it has proved quick.
    fn run(self: &Arc<Self>, job: HandlerMessage, loss: Arc<MessageLoss>) {
        let HandlerMessage { key, delivery, attempts } = job;
        let (queue, message) = (delivery.queue().clone(), delivery.message_id());
        self.worker_status.notify(self.index, WorkerEventKind::Started { queue, message });
        let is_quick = self.handlers.get(delivery.queue()).is_some_and(Registered::is_quick);
        let mut process = self.worker_status.process(self.index, &delivery);
        let span = process.span().clone();
        let stopping = self.worker_status.stop.signal().clone();
        let context = JobContext::new(delivery, attempts, self.server.clone(), loss, stopping);
        let lane = self.clone();
        let running = span.follow(async move {
            let ended = lane.handle(context.clone()).await;
            lane.ended(key, &context, &mut process, ended);
        });
        self.tasks.start(is_quick, running);
    }

    async fn handle(&self, context: JobContext) -> Ended {
        // Only queues with a handler are pulled from.
        let Some(registered) = self.handlers.get(context.queue()) else {
            return (Outcome::Retry, Some("the queue has no handler".to_owned())).into();
        };
        let made = registered.run(|handler| handler(context)).await;
        made.unwrap_or_else(|panic| panicked(&*panic))
    }

    fn ended(
        &self,
        key: worker::HeldKey,
        context: &JobContext,
        process: &mut Operation,
        ended: Ended,
    ) {
        self.worker_status.handled(self.index, key, context, process, &ended);
        let decided = (ended.outcome, ended.error);
        let finish = |role: &mut worker::Lane| self.worker_status.finish(role, key, decided, now());
        self.role.with(|role| (finish(role), true));
    }
}

/// The work of a lane's task: passes messages to their handlers, and news to those concerned.
pub(super) struct LaneService(Arc<LaneDriver>);

impl Serve for LaneService {
    type Failure = Error;

    fn exchange(&self, task: &Waker, io: &mut Io<Error>, now: Instant) -> Pulse {
        let LaneService(lane) = self;
        let worker_status = &lane.worker_status;
        worker_status.wake_on_stop(lane.index, task);
        if worker_status.is_limited() {
            lane.role.with(|role| (role.wake_when_enough(task), false));
        }
        if worker_status.is_ending() {
            lane.role.with(|role| (worker_status.heed_stop(role, now), false));
        }
        let collect = |role: &mut worker::Lane| {
            worker_status.follow(lane.index, role, now);
            role.take()
        };
        lane.role.serve(task, io, now, collect, |(jobs, news)| {
            let begin = |job: HandlerMessage| (worker_status.begin(lane.index, job.key), job);
            let jobs: Vec<_> = jobs.into_iter().map(begin).collect();
            worker_status.notify_all_events(lane.index, news);
            jobs.into_iter().for_each(|(loss, job)| lane.run(job, loss));
        })
    }

    fn has_several(&self) -> bool {
        self.0.role.with(|role| (role.running() > 1, false))
    }
}

#[cfg(test)]
mod tests {
    use queue_core::proof::Idle;

    use super::*;
    use crate::{JobLimit, WorkerOptions};

    /// A limit may outlive any number of workers.
    #[test]
    fn a_limit_keeps_nothing_of_lanes_that_have_ended() {
        let (limit, task) = (JobLimit::new(1), Arc::new(Idle));
        let server: ConnectOptions = "one".parse().unwrap();
        let options = WorkerOptions::from(server.clone()).limit(limit.clone());
        let role = options.lane(&server, std::iter::empty());
        let station = LaneService(LaneDriver::new(
            0,
            &server,
            role,
            WorkerStatus::new(&options),
            Arc::default(),
        ));
        let waker = Waker::from(task.clone());
        station.exchange(&waker, &mut Io::default(), now());
        drop((station, waker));
        assert_eq!((Arc::strong_count(&task), limit.left()), (1, 1));
    }
}
