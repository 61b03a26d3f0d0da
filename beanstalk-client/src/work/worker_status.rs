//! State shared by all slots of a worker: stops and counters.

use std::{iter::repeat_n, sync::Arc};

use queue_core::{Deferrals, Haste, Observer, Outage, Stop, lock, sync::Mutex};

use crate::{
    Address, ErrorKind, JobId, Metrics, Outcome, SlotState, SlotStatus, TubeName, WorkerEvent,
    WorkerEventKind, WorkerOptions, WorkerReport, protocol::WorkerSlot,
};

/// A handle to stop and observe a worker from anywhere, even after it has ended. Cloning is cheap.
///
/// It keeps only the worker's counters alive.
#[derive(Clone)]
pub struct WorkerHandle {
    pub(crate) worker_status: Arc<WorkerStatus>,
}

impl WorkerHandle {
    /// Takes no further job. Running jobs may finish within the grace, and are given back after it.
    pub fn stop(&self) {
        self.worker_status.stop.ask(Haste::Gently);
    }

    /// Gives running jobs back at once. Handlers see their reservation end.
    pub fn stop_now(&self) {
        self.worker_status.stop.ask(Haste::AtOnce);
    }

    /// Whether the worker was told to stop.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.worker_status.stop.asked().is_some()
    }

    /// Outcomes of jobs so far.
    #[must_use]
    pub fn report(&self) -> WorkerReport {
        self.worker_status.report()
    }

    /// Traffic so far, over all connections, including heartbeats. `errors` counts lost connections and failed attempts
    /// to connect, by the kind of failure.
    #[must_use]
    pub fn metrics(&self) -> Metrics {
        let mut total = Metrics::default();
        self.worker_status.slots.iter().for_each(|slot| total.add(&lock(slot).metrics));
        total
    }

    /// The number of jobs that it holds.
    #[must_use]
    pub fn running(&self) -> usize {
        let held = |slot: &Mutex<SlotHistory>| match lock(slot).status.state {
            SlotState::Busy(held) => held,
            _ => 0,
        };
        self.worker_status.slots.iter().map(held).sum()
    }

    /// The state of every slot.
    #[must_use]
    pub fn slots(&self) -> Vec<SlotStatus> {
        self.worker_status.slots.iter().map(|slot| lock(slot).status.clone()).collect()
    }
}

impl std::fmt::Debug for WorkerHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WorkerHandle")
            .field("stopping", &self.is_stopping())
            .field("running", &self.running())
            .field("report", &self.report())
            .finish_non_exhaustive()
    }
}

/// Shared by the slots.
pub(crate) struct WorkerStatus {
    /// Wakes sleeping slots, and notifies handlers.
    pub(crate) stop: Stop,
    slots: Vec<Mutex<SlotHistory>>,
    /// The server id at each address, in the order of the options.
    servers: Mutex<Vec<Option<String>>>,
    /// The deferrals of each server's jobs.
    deferrals: Vec<Mutex<Deferrals<JobId>>>,
    observer: Option<Observer<WorkerEvent>>,
    logs_errors: bool,
}

/// A slot's state, over all its connections.
struct SlotHistory {
    status: SlotStatus,
    metrics: Metrics,
    report: WorkerReport,
    outage: Outage<ErrorKind>,
}

impl WorkerStatus {
    pub(crate) fn new(options: &WorkerOptions) -> Arc<Self> {
        let slots: Vec<Mutex<SlotHistory>> = options
            .lanes()
            .map(|lane| {
                let server = options.address(lane.server).clone();
                let status =
                    SlotStatus { server, state: SlotState::default(), never_connected: true };
                Mutex::new(SlotHistory {
                    status,
                    metrics: Metrics::default(),
                    report: WorkerReport::default(),
                    outage: Outage::default(),
                })
            })
            .collect();
        Arc::new(WorkerStatus {
            stop: Stop::new(slots.len()),
            slots,
            servers: Mutex::new(options.servers.options().iter().map(|_| None).collect()),
            deferrals: options.servers.options().iter().map(|_| Mutex::default()).collect(),
            observer: options.observer.clone(),
            logs_errors: options.logs_errors,
        })
    }

    /// The slots that serve these tubes, each with its watch list. The others have ended.
    pub(crate) fn watching<'a>(
        &self,
        options: &WorkerOptions,
        tubes: impl Iterator<Item = &'a TubeName>,
    ) -> Vec<(SlotServer, Vec<TubeName>)> {
        let lists = options.watch_lists(tubes);
        let servers = options.servers.options().len();
        let all = options.lanes().zip(lists.iter().flat_map(|list| repeat_n(list, servers)));
        let (idle, watching): (Vec<_>, Vec<_>) = all.partition(|(_, tubes)| tubes.is_empty());
        idle.iter().for_each(|(lane, _)| self.set_state(lane.slot, SlotState::Ended));
        watching.into_iter().map(|(lane, tubes)| (lane, tubes.clone())).collect()
    }

    /// Shows a state that the slot's role does not know.
    pub(crate) fn set_state(&self, slot: usize, state: SlotState) {
        self.update(slot, |seen| seen.status.state = state);
    }

    /// Shows what a slot is doing, and adds what happened on its connections since the last call.
    pub(crate) fn follow(&self, slot: usize, role: &mut WorkerSlot) {
        let (state, news) = (role.state(), role.take_metrics());
        self.update(slot, |seen| {
            seen.status.state = state;
            seen.metrics.add(&news);
        });
    }

    fn update(&self, slot: usize, step: impl FnOnce(&mut SlotHistory)) {
        if let Some(seen) = self.slots.get(slot) {
            step(&mut lock(seen));
        }
    }

    /// A slot is connected to a server with this id.
    pub(crate) fn connected(&self, address: &Address, lane: SlotServer, id: &str) {
        self.notify(address, lane.slot, WorkerEventKind::Connected);
        if self.is_replaced(lane.server, id) {
            // It has ids of its own.
            self.with_deferrals(lane.server, |deferrals| *deferrals = Deferrals::default());
            self.notify(address, lane.slot, WorkerEventKind::ServerReplaced);
        }
    }

    /// A handler has decided so about a job; returns how often it was deferred before.
    pub(crate) fn decided(&self, server: usize, job: JobId, outcome: &Outcome) -> u64 {
        if *outcome == Outcome::Delete {
            // Its counters do not matter.
            return 0;
        }
        self.with_deferrals(server, |deferrals| {
            let before = deferrals.of(&job);
            if let Outcome::Release { .. } = outcome {
                deferrals.add(&job);
            }
            before
        })
    }

    /// How often a job was deferred.
    pub(crate) fn deferrals(&self, server: usize, job: JobId) -> u64 {
        self.with_deferrals(server, |deferrals| deferrals.of(&job))
    }

    fn with_deferrals<T: Default>(
        &self,
        server: usize,
        step: impl FnOnce(&mut Deferrals<JobId>) -> T,
    ) -> T {
        self.deferrals.get(server).map(|jobs| step(&mut lock(jobs))).unwrap_or_default()
    }

    /// Stores the server's id, if it is known; `true` if it replaces another.
    fn is_replaced(&self, server: usize, id: &str) -> bool {
        if id.is_empty() {
            return false;
        }
        match lock(&self.servers).get_mut(server) {
            Some(known) if known.as_deref() != Some(id) => known.replace(id.to_owned()).is_some(),
            _ => false,
        }
    }

    pub(crate) fn notify(&self, server: &Address, slot: usize, mut what: WorkerEventKind) {
        if let WorkerEventKind::DeadLettered { job, attempts, .. } = &mut what {
            let deferred = self.deferrals(slot % self.deferrals.len(), *job);
            *attempts = attempts.saturating_sub(deferred);
        }
        crate::trace::worker(server, slot, &what, self.logs_errors);
        let is_news = self.slots.get(slot).is_some_and(|seen| lock(seen).is_observed(&what));
        if !is_news {
            return;
        }
        if let Some(observer) = &self.observer {
            observer.notify(&WorkerEvent { server: server.clone(), slot, what });
        }
    }

    pub(crate) fn report(&self) -> WorkerReport {
        let mut total = WorkerReport::default();
        self.slots.iter().for_each(|slot| total.add(lock(slot).report));
        let is_in_vain = |slot: &Mutex<SlotHistory>| {
            let SlotStatus { state, never_connected, .. } = lock(slot).status;
            never_connected && state == SlotState::Ended
        };
        // The slots of a server are as far apart as there are servers.
        let servers = lock(&self.servers).len();
        let of = |server| self.slots.iter().skip(server).step_by(servers);
        let in_vain = (0..servers).filter(|server| of(*server).all(is_in_vain));
        total.never_connected = in_vain.count() as u64;
        total
    }
}

impl SlotHistory {
    /// Counts an event; returns whether to report it.
    fn is_observed(&mut self, what: &WorkerEventKind) -> bool {
        match what {
            WorkerEventKind::Settled { fate, .. } => self.report.count(*fate),
            WorkerEventKind::GivenUp => self.report.given_up += 1,
            WorkerEventKind::Connected => {
                self.status.never_connected = false;
                self.outage.ends();
            }
            WorkerEventKind::Disconnected(error) => {
                self.metrics.failed(error.kind());
                return self.outage.is_new(error.kind());
            }
            _ => {}
        }
        true
    }
}

/// A slot's place among the servers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SlotServer {
    /// Its number, from 0.
    pub(crate) slot: usize,
    /// The index of its server.
    pub(crate) server: usize,
}

impl WorkerOptions {
    /// All slots, in equal numbers for each server.
    pub(crate) fn lanes(&self) -> impl Iterator<Item = SlotServer> + use<> {
        let servers = self.servers.options().len();
        (0..self.slots * servers).map(move |slot| SlotServer { slot, server: slot % servers })
    }
}
