//! The handle to observe and stop a worker.

use std::{fmt, sync::Arc};

use queue_core::{Haste, Stop, lock, sync::Mutex};

use crate::{
    Address, ConnectionState, Metrics, Servers, WorkerReport,
    protocol::worker::lane::{Lane, LaneEvent},
};

/// A handle to stop and observe a worker from anywhere, even after it has ended. Cloning is cheap.
///
/// It keeps only the worker's counters alive.
#[derive(Clone)]
pub struct WorkerHandle {
    lanes: Arc<[Gauge]>,
    servers: Arc<[Address]>,
    stop: Arc<Stop>,
}

impl WorkerHandle {
    /// The connections are one to each server in order, repeated.
    pub(crate) fn new<'a>(
        lanes: impl Iterator<Item = &'a Gauge>,
        servers: &Servers,
        stop: &Arc<Stop>,
    ) -> Self {
        let servers = servers.addresses().cloned().collect();
        WorkerHandle { lanes: lanes.cloned().collect(), servers, stop: stop.clone() }
    }

    /// Ends the worker's `run`: it requests no further jobs, and running ones have its
    /// [grace](crate::WorkerOptions::grace) to finish. An idle blocking worker notices within a fifth of a second, and
    /// its `next_job` returns no further jobs; the async `next_job` is unaffected.
    pub fn stop(&self) {
        self.stop.ask(Haste::Gently);
    }

    /// The same without a grace: running jobs go back to their servers at once, which hand them out again. Handlers
    /// learn that their job is lost; those of a blocking worker still run to their end, which its `run` waits for.
    pub fn stop_now(&self) {
        self.stop.ask(Haste::AtOnce);
    }

    /// Whether the worker was told to stop.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.stop.asked().is_some()
    }

    /// Outcomes of jobs so far. A result is counted once the server's next answer has shown whether it was accepted.
    #[must_use]
    pub fn report(&self) -> WorkerReport {
        let mut total = WorkerReport::default();
        self.lanes.iter().for_each(|lane| lane.update(|seen| total.add(seen.report)));
        let has_ended = |server: &ServerStatus| {
            server.connections.iter().all(|state| *state == ConnectionState::Closed)
        };
        let never = self.servers().into_iter().filter(|server| server.never_connected);
        total.never_connected = never.filter(has_ended).count() as u64;
        total
    }

    /// The state of each server.
    #[must_use]
    pub fn servers(&self) -> Vec<ServerStatus> {
        let of = |(number, server): (usize, &Address)| {
            let lanes = || self.lanes.iter().skip(number).step_by(self.servers.len());
            let is_missing = |lane: &Gauge| lane.update(|seen| seen.is_missing);
            ServerStatus {
                server: server.clone(),
                connections: lanes().map(|lane| lane.update(|seen| seen.state)).collect(),
                never_connected: lanes().all(is_missing),
            }
        };
        self.servers.iter().enumerate().map(of).collect()
    }

    /// Traffic so far, over all connections. `commands` and `replies` count packets. `errors` counts lost connections
    /// and failed attempts to connect, by the kind of failure.
    #[must_use]
    pub fn metrics(&self) -> Metrics {
        let mut total = Metrics::default();
        self.lanes.iter().for_each(|lane| lane.update(|seen| total.add(&seen.metrics)));
        total
    }

    /// The number of jobs that it holds.
    #[must_use]
    pub fn running(&self) -> usize {
        self.lanes.iter().map(|lane| lane.update(|seen| seen.running)).sum()
    }

    /// Whether no job is left for the worker: every server that can be reached has answered its last request with
    /// `NO_JOB`, and will wake it for the next one (`PRE_SLEEP`, `NOOP`). At least one server can be reached.
    ///
    /// A worker that takes jobs until there are none asks this when
    /// [`next_job`](crate::blocking::Worker::next_job) has brought none for a while; that alone may also mean that a
    /// server is slow. Jobs that the worker already [holds](Self::running) do not matter.
    #[must_use]
    pub fn is_asleep(&self) -> bool {
        let of = |lane: &Gauge| lane.update(|seen| (seen.state, seen.is_asleep));
        let mut reached = self.lanes.iter().map(of).filter(|(state, _)| {
            !matches!(state, ConnectionState::Backoff | ConnectionState::Closed)
        });
        reached.next().is_some_and(|(_, first)| first && reached.all(|(_, is_asleep)| is_asleep))
    }

    /// The state of each connection: one for each server, in order, repeated for each of the worker's
    /// [connections](crate::WorkerOptions::connections) to it.
    #[must_use]
    pub fn connection_states(&self) -> Vec<ConnectionState> {
        self.lanes.iter().map(|lane| lane.update(|seen| seen.state)).collect()
    }
}

/// The state of one of a worker's servers.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct ServerStatus {
    /// The server.
    pub server: Address,
    /// The worker's [connections](crate::WorkerOptions::connections) to it.
    pub connections: Vec<ConnectionState>,
    /// Whether the worker has tried to connect, and no connection was ever made.
    pub never_connected: bool,
}

impl fmt::Debug for WorkerHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkerHandle")
            .field("connections", &self.connection_states())
            .field("running", &self.running())
            .field("report", &self.report())
            .finish()
    }
}

/// Receives the state of one of a worker's connections.
#[derive(Clone, Default)]
pub(crate) struct Gauge(Arc<Mutex<ConnectionStatus>>);

/// The state of one of a worker's connections and its predecessors.
pub(crate) struct ConnectionStatus {
    pub(crate) metrics: Metrics,
    pub(crate) report: WorkerReport,
    pub(crate) running: usize,
    pub(crate) is_asleep: bool,
    /// Whether a connection is wanted, and none was ever made.
    is_missing: bool,
    pub(crate) state: ConnectionState,
}

impl Default for ConnectionStatus {
    fn default() -> Self {
        ConnectionStatus {
            metrics: Metrics::default(),
            report: WorkerReport::default(),
            running: 0,
            is_asleep: false,
            is_missing: false,
            state: ConnectionState::Idle,
        }
    }
}

impl Gauge {
    pub(crate) fn update<T>(&self, step: impl FnOnce(&mut ConnectionStatus) -> T) -> T {
        step(&mut lock(&self.0))
    }
}

impl ConnectionStatus {
    /// Adds what has happened on the connections since the last call.
    pub(crate) fn follow(&mut self, lane: &mut Lane, news: &[LaneEvent]) {
        for settled in lane.session.settled() {
            self.report.count(settled);
        }
        let traffic = lane.take_traffic();
        self.metrics.commands += lane.session.take_commands();
        self.metrics.replies += traffic.replies;
        self.metrics.bytes_in += traffic.bytes_in;
        self.metrics.bytes_out += traffic.bytes_out;
        for what in news {
            match what {
                LaneEvent::Connected => self.metrics.connected(),
                LaneEvent::Lost(error, _) => self.metrics.failed(error.kind()),
                LaneEvent::GivenUp => self.report.given_up += 1,
                LaneEvent::Letter(letter) => {
                    self.report.dead_lettered += u64::from(letter.refusal.is_none());
                }
                LaneEvent::Oversized(..) => {}
            }
        }
        self.running = lane.session.running();
        self.is_missing = lane.is_wanted() && self.metrics.connections == 0;
        self.state = lane.state();
        self.is_asleep = self.state == ConnectionState::Ready && lane.session.is_asleep();
    }
}
