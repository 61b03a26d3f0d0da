//! One server of an async worker: state shared by its task and the holders of its jobs.

use std::{
    future::poll_fn,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use tokio::time::timeout_at;

use queue_core::{Driver, Io, Pulse, Serve, Shared, Wakers, Wire, now};

use crate::{
    Address, ConnectOptions, Error, FunctionName, GrabbedJob, JobHandle, LostReason, Result,
    WorkerOptions,
    asynchronous::dispatch::Dispatch,
    protocol::{JobEnd, PacketType, WorkerSession, worker::lane::Lane as Role},
    work::{events::EventReporter, handle::Gauge, options::LaneShare},
};

/// The worker role for one server.
pub(crate) struct LaneDriver {
    pub(crate) address: Arc<Address>,
    share: LaneShare,
    role: Arc<Shared<Role>>,
    pub(crate) dispatch: Arc<Dispatch>,
    pub(crate) gauge: Gauge,
    pub(crate) reporter: EventReporter,
}

impl LaneDriver {
    pub(crate) fn new(
        options: &ConnectOptions,
        share: LaneShare,
        worker: &WorkerOptions,
        dispatch: Arc<Dispatch>,
    ) -> Arc<Self> {
        let address = Arc::new(options.address.clone());
        Arc::new(LaneDriver {
            role: Shared::new(worker.lane(&address, options, share.slots)),
            reporter: EventReporter::new(address.clone(), options, worker),
            address,
            share,
            dispatch,
            gauge: Gauge::default(),
        })
    }

    /// The task that maintains its connections.
    pub(crate) fn driver(self: &Arc<Self>, options: &ConnectOptions) -> Driver<LaneService> {
        Driver::new(LaneService(self.clone()), Wire::to(options))
    }

    /// Changes the role, and has its task follow up.
    pub(crate) fn change<T>(&self, step: impl FnOnce(&mut Role) -> T) -> T {
        self.role.with(|role| (step(role), true))
    }

    /// Reads the role.
    pub(crate) fn look<T>(&self, step: impl FnOnce(&mut Role) -> T) -> T {
        self.role.with(|role| (step(role), false))
    }

    /// Waits until it is known whether there is a connection.
    pub(crate) async fn connect(&self) -> Result<()> {
        self.change(Role::want);
        self.known(|role| role.connection(), |role| &mut role.connecting).await
    }

    /// Waits among these tasks until the role knows something.
    async fn known<T>(
        &self,
        find: impl Fn(&mut Role) -> Option<T>,
        tasks: fn(&mut Role) -> &mut Wakers,
    ) -> T {
        let poll = |role: &mut Role, waker: &Waker| match find(role) {
            Some(known) => Poll::Ready(known),
            None => {
                tasks(role).add(waker);
                Poll::Pending
            }
        };
        poll_fn(|cx| self.look(|role| poll(role, cx.waker()))).await
    }

    /// Whether it has ended; otherwise registers to be woken when it has.
    pub(crate) fn is_over(&self, cx: &Context<'_>) -> bool {
        self.look(|role| {
            role.connecting.add(cx.waker());
            role.is_over()
        })
    }

    /// Fails if results were lost with a connection and no barrier has reported that yet; they then count as reported.
    pub(crate) fn check_losses(&self) -> Result<()> {
        self.look(Role::check_losses)
    }

    /// Waits for the answer to an echo, which shows that the server has read everything before it.
    pub(crate) async fn barrier(&self) -> Result<()> {
        let barrier = self.change(|role| role.barrier(now()));
        self.known(|role| role.is_past(barrier), |role| &mut role.barriers).await
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.look(|role| role.is_open())
    }

    pub(crate) fn can_do(&self, function: &FunctionName, timeout: Option<Duration>) {
        if self.share.serves(function) {
            self.change(|role| role.session.can_do(function, timeout));
        }
    }

    pub(crate) fn refuse_while_running(&self, command: PacketType) -> Result<()> {
        self.look(|role| role.session.refuse_while_running(command))
    }

    pub(crate) fn cant_do(&self, function: &FunctionName) -> Result<()> {
        self.change(|role| role.session.cant_do(function))
    }

    pub(crate) fn reset_abilities(&self) -> Result<()> {
        self.change(|role| role.session.reset_abilities())
    }

    pub(crate) fn cut(&self) {
        self.change(|role| {
            role.cut();
            self.gauge.update(|seen| seen.follow(role, &[]));
        });
    }

    /// Takes a step once there is room for a report or a result.
    pub(crate) fn poll_with_room(
        &self,
        cx: &Context<'_>,
        step: impl FnOnce(&mut WorkerSession) -> Result<()>,
    ) -> Poll<Result<()>> {
        self.change(|role| {
            if role.has_room() {
                return Poll::Ready(step(&mut role.session));
            }
            role.waiting.add(cx.waker());
            Poll::Pending
        })
    }

    /// Why this connection has lost a job, if it has.
    pub(crate) fn why_lost(&self, job: &JobHandle) -> Option<LostReason> {
        self.look(|role| role.lost_reason(job, now()))
    }

    /// Waits until this connection has lost a job.
    pub(crate) async fn lost(&self, job: &JobHandle) -> LostReason {
        let mut watch = LossWatch { lane: self, ticket: None };
        loop {
            let lost = poll_fn(|cx| watch.poll_lost(job, cx.waker()));
            let Some(until) = self.look(|role| role.session.held_until(job)) else {
                return lost.await;
            };
            // At that time the job's timeout has passed, which is checked again.
            if let Ok(reason) = timeout_at(until.into(), lost).await {
                return reason;
            }
        }
    }

    /// Ends a job, even if there is no room.
    pub(crate) fn end_job(&self, job: &JobHandle, end: JobEnd<'_>) {
        // A lost job already belongs to another worker.
        let _ = self.change(|role| role.session.finish(job, end, now()));
    }
}

/// A task that waits for the loss of a job.
struct LossWatch<'a> {
    lane: &'a LaneDriver,
    ticket: Option<u64>,
}

impl LossWatch<'_> {
    fn poll_lost(&mut self, job: &JobHandle, waker: &Waker) -> Poll<LostReason> {
        let waker = waker.clone();
        let known = self.lane.look(|role| match role.lost_reason(job, now()) {
            Some(reason) => Err(reason),
            None => Ok(role.wake_on_loss(&mut self.ticket, waker)),
        });
        known.map_or_else(Poll::Ready, |_| Poll::Pending)
    }
}

impl Drop for LossWatch<'_> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            drop(self.lane.look(|role| role.losses.leave(ticket)));
        }
    }
}

/// The work of a lane's task: passes jobs to their handlers, and news to those concerned.
pub(crate) struct LaneService(Arc<LaneDriver>);

impl Serve for LaneService {
    type Failure = Error;

    fn exchange(&self, task: &Waker, io: &mut Io<Error>, now: Instant) -> Pulse {
        let LaneService(lane) = self;
        let collect = |role: &mut Role| {
            let (jobs, news) = role.take();
            lane.gauge.update(|seen| seen.follow(role, &news));
            (!(jobs.is_empty() && news.is_empty())).then_some((jobs, news))
        };
        lane.role.serve(task, io, now, collect, |(jobs, news)| {
            news.iter().for_each(|news| lane.reporter.notify_of(news));
            for job in jobs {
                lane.dispatch.job(GrabbedJob::new(job, lane.clone()));
            }
        })
    }

    fn has_several(&self) -> bool {
        self.0.look(|role| role.session.running() > 1)
    }
}
