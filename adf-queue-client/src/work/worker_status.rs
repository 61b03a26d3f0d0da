//! State shared by all lanes of a worker: stops and counters.

use std::{collections::HashMap, fmt, sync::Arc, time::Instant};

use foldhash::fast::FixedState;
use queue_core::{
    Haste, JobLimit, Measures, Observer, Operation, Outage, SpanHook, Stop, lock,
    sync::{Mutex, MutexGuard},
};

use crate::{
    Address, ConnectOptions, ConnectionState, Delivery, JobContext, LostReason, Metrics, Outcome,
    WorkerEvent, WorkerEventKind, WorkerOptions, WorkerReport,
    protocol::worker::{HeldKey, Lane, LaneEvent},
    trace,
    work::{Ended, MessageLoss},
};

/// A handle to stop and observe a worker from anywhere, even after it has ended. Cloning is cheap.
///
/// It keeps only the worker's counters alive.
#[derive(Clone)]
pub struct WorkerHandle {
    pub(crate) worker_status: Arc<WorkerStatus>,
}

/// A server of a worker, and its state.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct ServerStatus {
    /// Its address.
    pub server: Address,
    /// The state of the connection.
    pub state: ConnectionState,
    /// Number of held messages: those with handlers, those waiting for one, and those being settled.
    pub held: usize,
    /// Whether no connection was ever made.
    pub never_connected: bool,
}

impl WorkerHandle {
    /// Pulls nothing more; running handlers may finish within the grace. All other messages go back to the servers.
    pub fn stop(&self) {
        self.worker_status.stop.ask(Haste::Gently);
    }

    /// Gives the messages of running handlers back at once; `lost` notifies them.
    pub fn stop_now(&self) {
        self.worker_status.stop.ask(Haste::AtOnce);
    }

    /// Whether the worker was told to stop.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.worker_status.stop.asked().is_some()
    }

    /// Outcomes of messages so far.
    #[must_use]
    pub fn report(&self) -> WorkerReport {
        self.worker_status.report()
    }

    /// Traffic so far, over all connections. `errors` counts failures on them and failed attempts to connect, by the
    /// kind of failure.
    #[must_use]
    pub fn metrics(&self) -> Metrics {
        let mut total = Metrics::default();
        self.worker_status.lanes.iter().for_each(|lane| total.add(&lane.lock().metrics));
        total
    }

    /// The number of messages that it holds.
    #[must_use]
    pub fn held(&self) -> usize {
        self.worker_status.lanes.iter().map(|lane| lane.lock().held).sum()
    }

    /// The state of each server, in order.
    #[must_use]
    pub fn servers(&self) -> Vec<ServerStatus> {
        self.worker_status.lanes.iter().map(QueueSide::status).collect()
    }
}

impl fmt::Debug for WorkerHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkerHandle")
            .field("stopping", &self.is_stopping())
            .field("servers", &self.servers())
            .field("report", &self.report())
            .finish_non_exhaustive()
    }
}

/// Shared by the lanes.
pub(crate) struct WorkerStatus {
    /// Wakes sleeping lanes, and notifies handlers.
    pub(crate) stop: Stop,
    lanes: Vec<QueueSide>,
    limit: Option<JobLimit>,
    observer: Option<Observer<WorkerEvent>>,
    logs_errors: bool,
    on_span: SpanHook<Delivery>,
}

struct QueueSide {
    server: Address,
    measures: Measures,
    seen: Mutex<LaneStatus>,
}

/// A lane's state, over all its connections.
#[derive(Default)]
struct LaneStatus {
    state: ConnectionState,
    held: usize,
    has_connected: bool,
    /// Whether the lane has ended.
    is_closed: bool,
    metrics: Metrics,
    report: WorkerReport,
    outage: Outage<&'static str>,
    /// The handlers to notify when their message is lost.
    running: HashMap<HeldKey, Arc<MessageLoss>, FixedState>,
}

impl QueueSide {
    fn lock(&self) -> MutexGuard<'_, LaneStatus> {
        lock(&self.seen)
    }

    fn status(&self) -> ServerStatus {
        let LaneStatus { state, held, has_connected, .. } = *self.lock();
        ServerStatus { server: self.server.clone(), state, held, never_connected: !has_connected }
    }
}

impl WorkerStatus {
    pub(crate) fn new(options: &WorkerOptions) -> Arc<Self> {
        let side = |server: &ConnectOptions| QueueSide {
            server: server.address.clone(),
            measures: server.measures.clone(),
            seen: Mutex::default(),
        };
        let lanes = options.servers.options().iter().map(side);
        Arc::new(WorkerStatus {
            stop: Stop::new(lanes.len()),
            lanes: lanes.collect(),
            limit: options.limit.clone(),
            observer: options.observer.clone(),
            logs_errors: options.logs_errors,
            on_span: options.on_span.clone(),
        })
    }

    /// Makes a stop wake the task of this lane; call it before [`heed_stop`](Self::heed_stop).
    pub(crate) fn wake_on_stop(&self, lane: usize, waker: &std::task::Waker) {
        self.stop.wake(lane, waker);
    }

    /// Whether there is a limit, whose last message ends the lanes, too.
    pub(crate) fn is_limited(&self) -> bool {
        self.limit.is_some()
    }

    /// Whether a lane has to act on a stop.
    pub(crate) fn is_ending(&self) -> bool {
        self.stop.asked().is_some() || self.limit.as_ref().is_some_and(JobLimit::is_reached)
    }

    /// Ends a lane if the worker is stopping, or has had its last message.
    pub(crate) fn heed_stop(&self, lane: &mut Lane, now: Instant) {
        match self.stop.asked() {
            Some(Haste::AtOnce) => lane.stop_now(now),
            Some(Haste::Gently) => lane.stop(now),
            None if self.is_ending() => lane.wind_down(),
            None => {}
        }
    }

    /// Passes a handler's outcome to its lane, which starts no further handler if it is stopping.
    pub(crate) fn finish(
        &self,
        lane: &mut Lane,
        key: HeldKey,
        (outcome, reason): (Outcome, Option<String>),
        now: Instant,
    ) {
        self.heed_stop(lane, now);
        if let Some(reason) = reason {
            lane.note_reason(key, reason);
        }
        lane.finish(key, outcome, now);
    }

    /// A handler starts with a message; it is notified when that is lost.
    pub(crate) fn begin(&self, lane: usize, key: HeldKey) -> Arc<MessageLoss> {
        let loss = Arc::<MessageLoss>::default();
        self.update(lane, |seen| seen.running.insert(key, loss.clone()));
        loss
    }

    /// The operation to record for a handler that starts with a message.
    pub(crate) fn process(&self, lane: usize, delivery: &Delivery) -> Operation {
        let Some(QueueSide { server, measures, .. }) = self.lanes.get(lane) else {
            return Operation::none();
        };
        let process = trace::job(measures, server, delivery);
        self.on_span.show(process.span(), delivery);
        process
    }

    /// Records the end of a handler, within the span of its message.
    pub(crate) fn handled(
        &self,
        lane: usize,
        key: HeldKey,
        context: &JobContext,
        process: &mut Operation,
        ended: &Ended,
    ) {
        self.update(lane, |seen| seen.running.remove(&key));
        trace::handled(process, context, ended, self.logs_errors);
        if let Some(error) = &ended.error {
            let (queue, message) = (context.queue().clone(), context.message_id());
            self.notify(lane, WorkerEventKind::Failed { queue, message, error: error.clone() });
        }
    }

    /// The lane has ended: notifies handlers that are still running.
    pub(crate) fn close(&self, lane: usize) {
        let running = self.update(lane, |seen| {
            (seen.state, seen.held, seen.is_closed) = (ConnectionState::Closed, 0, true);
            std::mem::take(&mut seen.running)
        });
        running.into_iter().flatten().for_each(|(_, loss)| loss.set(LostReason::Stopped));
    }

    /// Shows what a lane is doing.
    pub(crate) fn follow(&self, index: usize, lane: &Lane, now: Instant) {
        self.update(index, |seen| {
            // Its task may outlive it for a moment.
            if !seen.is_closed {
                (seen.state, seen.held) = (lane.connection_state(now), lane.held());
            }
            seen.metrics.clone_from(lane.metrics());
        });
    }

    /// Reports events to the handlers and the observer.
    pub(crate) fn notify_all_events(&self, lane: usize, news: Vec<LaneEvent>) {
        for news in news {
            match news {
                LaneEvent::Tell(what) => self.notify(lane, what),
                LaneEvent::Lost(key, reason) => {
                    let loss = self.update(lane, |seen| seen.running.get(&key).cloned());
                    if let Some(loss) = loss.flatten() {
                        loss.set(reason);
                    }
                }
            }
        }
    }

    pub(crate) fn notify(&self, lane: usize, what: WorkerEventKind) {
        let Some(side) = self.lanes.get(lane).filter(|side| side.lock().is_observed(&what)) else {
            return;
        };
        trace::worker(&side.server, &what, self.logs_errors);
        if let Some(observer) = &self.observer {
            observer.notify(&WorkerEvent { server: side.server.clone(), what });
        }
    }

    fn update<T>(&self, lane: usize, step: impl FnOnce(&mut LaneStatus) -> T) -> Option<T> {
        self.lanes.get(lane).map(|side| step(&mut side.lock()))
    }

    pub(crate) fn report(&self) -> WorkerReport {
        let mut total = WorkerReport::default();
        for lane in &self.lanes {
            let seen = lane.lock();
            total.add(seen.report);
            total.never_connected += u64::from(seen.is_closed && !seen.has_connected);
        }
        total
    }
}

impl LaneStatus {
    /// Counts an event; returns whether to report it.
    fn is_observed(&mut self, what: &WorkerEventKind) -> bool {
        match what {
            WorkerEventKind::Settled { fate, .. } => self.report.count(*fate),
            WorkerEventKind::GivenUp => self.report.given_up += 1,
            WorkerEventKind::Connected => {
                self.has_connected = true;
                self.outage.ends();
            }
            WorkerEventKind::Disconnected(error) => return self.outage.is_new(error.kind().name()),
            _ => {}
        }
        true
    }
}
