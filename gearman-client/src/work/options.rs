//! The settings of a worker.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use queue_core::{Observer, SpanHook};

use crate::protocol::{
    Assignment, WorkerSession,
    worker::lane::{Lane, LaneSettings},
};
use crate::{
    Address, ClientId, ConnectOptions, Error, FunctionName, JobLimit, Servers, WorkerEvent,
    protocol::Grab,
};

/// Settings of a worker: one job at a time over one connection to each server, unless set.
///
/// Created from [`Servers`] or the text of their addresses; setters consume and return it:
///
/// ```
/// use gearman_client::{ClientId, WorkerOptions};
///
/// let options: WorkerOptions = "one:4730,two:4730".parse()?;
/// let options = options.slots(8).client_id(ClientId::try_from("resizer-1")?);
/// # Ok::<(), gearman_client::Error>(())
/// ```
///
/// With the feature `serde` they are the servers alone, or a map with the servers under `servers` and any settings
/// under the names of the setters. Durations are seconds, or text such as `250ms`. An observer is code, a
/// [limit](Self::limit) is a counter that workers of one process share, and a ledger is opened by the program, so none
/// of them is serialized.
#[derive(Clone, Debug)]
pub struct WorkerOptions {
    pub(crate) servers: Servers,
    pub(crate) client_id: Option<ClientId>,
    pub(crate) slots: usize,
    pub(crate) slots_for: Arc<BTreeMap<FunctionName, usize>>,
    pub(crate) connections: usize,
    pub(crate) grab: Grab,
    pub(crate) regrab: Duration,
    pub(crate) grace: Duration,
    pub(crate) barrier: bool,
    pub(crate) batch_results: bool,
    pub(crate) limit: Option<JobLimit>,
    pub(crate) until_empty: bool,
    pub(crate) dead_letter: Option<FunctionName>,
    pub(crate) ledger: Option<crate::CrashLedger>,
    pub(crate) observer: Option<Observer<WorkerEvent>>,
    pub(crate) logs_errors: bool,
    pub(crate) fails_oversized: bool,
    pub(crate) on_span: SpanHook<Assignment>,
}

impl From<Servers> for WorkerOptions {
    fn from(servers: Servers) -> Self {
        WorkerOptions {
            servers,
            client_id: None,
            slots: 1,
            slots_for: Arc::default(),
            connections: 1,
            grab: Grab::default(),
            regrab: Duration::from_secs(10),
            grace: Duration::from_secs(25),
            barrier: true,
            batch_results: false,
            limit: None,
            until_empty: false,
            dead_letter: None,
            ledger: None,
            observer: None,
            logs_errors: false,
            fails_oversized: true,
            on_span: SpanHook::default(),
        }
    }
}

queue_core::setters! {
    self: WorkerOptions;

    /// The worker's name in the `workers` listing.
    client_id(id: ClientId) => self.client_id = Some(id);

    /// Maximum number of jobs that each connection holds and runs at once; at least 1. A blocking worker has this many
    /// threads for handlers that have not proved quick.
    slots(jobs: usize) => self.slots = jobs.max(1);

    /// Number of connections to each server; at least 1.
    connections(connections: usize) => self.connections = connections.max(1);

    /// The kind of grab to request jobs with first. If a server answers it with an ERROR, by closing the connection
    /// twice, or not at all, an older kind is used: [`Grab::All`] has a second for its first answer, the others the
    /// reply timeout. The kind that worked is used first on later connections, for an hour.
    ///
    /// A server that refuses all but [`Grab::Plain`] is treated as Perl's Gearman::Server, for which an exception does
    /// not end a job: there it is followed by a WORK_FAIL. With `Grab::Plain` set here, such a server is not detected,
    /// and a handler's exception leaves its job running on it. Do not set it for such a server.
    grab(grab: Grab) => self.grab = grab;

    /// How often a sleeping worker polls for jobs even if nothing wakes it; 10 s by default. Servers up to 1.1 do not
    /// wake workers when a delayed job becomes due.
    regrab(interval: Duration) => self.regrab = interval.max(Duration::from_millis(100));

    /// Time for running jobs to finish after a stop; 25 s unless set. Unfinished jobs then go back to the server, and the
    /// server has a second more to confirm the last results.
    grace(grace: Duration) => self.grace = grace;

    /// Whether to confirm at the end, with an ECHO_REQ, that the server has accepted the last results; on unless set.
    barrier(barrier: bool) => self.barrier = barrier;

    /// Whether a blocking worker writes the results of jobs that arrived together in one write, for handlers that take
    /// microseconds; off unless set. It matters with [`slots`](Self::slots) above 1: handlers then run one after
    /// another in the thread of their connection, and a result may wait until the handlers of the other jobs have run.
    ///
    /// An async worker ignores this, since it need not wait for its handlers.
    batch_results(batch: bool) => self.batch_results = batch;

    /// Takes at most the number of jobs that this limit allows, shared by all workers that have a clone of it;
    /// unlimited unless set. A run ends with the last of these jobs, which have all the time that they need.
    ///
    /// A request for a job keeps its share of the limit until its server answers, or the connection is lost: so while a
    /// server is silent, the last jobs may wait for its [`reply_timeout`](ConnectOptions::reply_timeout) although another
    /// server has some. Its share does not go to another server earlier, because a job that came after all could only be
    /// given back by closing the connection. A server that limits the attempts of a job (`--job-retries`) counts that as
    /// one, and may fail the job.
    ///
    /// ```
    /// use gearman_client::{JobLimit, WorkerOptions};
    ///
    /// let limit = JobLimit::new(100);
    /// let options: WorkerOptions = "one:4730,two:4730".parse()?;
    /// let each_of_four_threads = options.limit(limit.clone());
    /// # Ok::<(), gearman_client::Error>(())
    /// ```
    limit(limit: JobLimit) => self.limit = Some(limit);

    /// Ends the run when no server has a job for the worker; separately for each connection, once its server has said so
    /// while the connection holds no job. A server that cannot be reached, once the retries of its
    /// [`ConnectOptions::retry`] have failed in a row, is [given up](crate::WorkerEventKind::GivenUp) and counted in the
    /// [report](crate::WorkerReport::given_up).
    until_empty() => self.until_empty = true;

    /// Keeps jobs that fail: each is submitted to its server as a background job of this function, with its workload
    /// untouched, and ends as failed once the server has confirmed that. The reason and the number of runs are beside it,
    /// in [`WorkerEventKind::DeadLettered`](crate::WorkerEventKind::DeadLettered); the
    /// [report](crate::WorkerReport::dead_lettered) counts it.
    ///
    /// If the server refuses it, the job is given back as by [`Failure::give_back`](crate::Failure::give_back). If the
    /// connection is lost before the confirmation, the server runs the job again, and its letter may be there twice. A
    /// dead letter that this worker serves and that fails itself is not kept, nor is a job that is
    /// [too large](Self::fail_oversized) to be run.
    dead_letter(function: FunctionName) => self.dead_letter = Some(function);

    /// Fails jobs that have killed the processes of their workers, according to this ledger. Applies to jobs with a
    /// handler.
    crash_ledger(ledger: crate::CrashLedger) => self.ledger = Some(ledger);

    /// Calls `observer` for every event: connections, and handlers that failed, with their error messages. It is called
    /// where that happens, and must not block. If it panics, the worker continues. Several observers are called in
    /// the order in which they were set.
    on_event(observer: impl Fn(&WorkerEvent) + Send + Sync + 'static) =>
        self.observer = Some(Observer::new(observer).after(self.observer));

    /// Whether a job that is larger than its server's [`max_packet_size`](ConnectOptions::max_packet_size) fails without
    /// being run; on unless set. It is read in little memory, its submitters get an exception with its size and the
    /// limit, [`WorkerEventKind::Oversized`](crate::WorkerEventKind::Oversized) reports it, and it counts as failed.
    ///
    /// The protocol has no other way to get rid of one job: a server takes it back only when the connection ends, gives
    /// all other jobs of the connection to other workers, too, and gives this one to the next worker, which is often the
    /// same. So give all workers of a function a limit that its jobs keep. If some have a larger limit, or if no job may
    /// fail because it is large, turn this off: such a job then ends its connection with
    /// [`PacketTooLarge`](crate::ErrorKind::PacketTooLarge), until a worker with a larger limit gets it.
    fail_oversized(fail: bool) => self.fails_oversized = fail;
}

impl WorkerOptions {
    /// Maximum number of jobs of this function that the worker runs at once, on each server, of all its
    /// [`slots`](Self::slots); at least 1. Other functions have the slots that it leaves.
    ///
    /// The protocol limits a function only by the connections that announce it. So the largest such limit takes as many
    /// connections to each server with a slot each, and the others announce no function that has a limit; all of them
    /// together keep to the slots in total.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for an invalid name.
    pub fn slots_for<F>(mut self, function: F, jobs: usize) -> Result<Self, Error>
    where
        F: TryInto<FunctionName>,
        Error: From<F::Error>,
    {
        Arc::make_mut(&mut self.slots_for).insert(function.try_into()?, jobs.max(1));
        Ok(self)
    }

    /// The worker role for one server.
    pub(crate) fn lane(
        &self,
        server: &Arc<Address>,
        options: &ConnectOptions,
        slots: usize,
    ) -> Lane {
        let now = queue_core::now();
        let mut session = WorkerSession::new(server.clone(), slots, self.grab, self.regrab, now);
        session.set_reply_timeout(options.reply_timeout);
        session.measures = options.measures.clone();
        if let Some(limit) = &self.limit {
            session.set_limit(limit.clone());
        }
        if let Some(function) = &self.dead_letter {
            session.set_dead_letter(function.clone());
        }
        if let Some(id) = &self.client_id {
            session.set_client_id(id);
        }
        let terms = LaneSettings {
            retry: options.retry,
            connect_timeout: options.connect_timeout,
            reply_timeout: options.reply_timeout,
            write_timeout: options.write_timeout,
            grace: self.grace,
            max_packet_size: options.max_packet_size,
            fails_oversized: self.fails_oversized,
            with_barrier: self.barrier,
            until_empty: self.until_empty,
        };
        Lane::new(session, &terms)
    }

    /// The options and the share of each connection: one to each server in order, repeated.
    pub(crate) fn lanes(&self) -> impl Iterator<Item = (ConnectOptions, LaneShare)> {
        let total = self.slots.saturating_mul(self.connections);
        let limited = self.slots_for.values().copied().max().unwrap_or(0).min(total);
        let rest = total - limited;
        let others = self.connections.min(rest);
        let of_limited = (0..limited).map(|_| 1);
        let of_others = (0..others).map(move |n| rest / others + usize::from(n < rest % others));
        of_limited.chain(of_others).enumerate().flat_map(|(rank, slots)| {
            let share = LaneShare { slots, rank, slots_for: self.slots_for.clone() };
            self.servers.options().iter().map(move |server| (server.clone(), share.clone()))
        })
    }
}

/// The functions that one of a worker's connections to a server serves.
#[derive(Clone, Debug)]
pub(crate) struct LaneShare {
    pub(crate) slots: usize,
    /// Its number among the connections to its server. Those for functions with limits come first.
    rank: usize,
    slots_for: Arc<BTreeMap<FunctionName, usize>>,
}

impl LaneShare {
    /// Whether it announces this function.
    pub(crate) fn serves(&self, function: &FunctionName) -> bool {
        self.slots_for.get(function).is_none_or(|slots| self.rank < *slots)
    }
}

queue_core::worker_options!(Assignment, "job", "&job.workload");
queue_core::from_servers!(WorkerOptions, Error, "handlers": Servers, ConnectOptions, Address);

#[cfg(feature = "serde")]
queue_core::serde_options! {
    WorkerOptions, Error, servers: Servers = |o| o.servers.clone().selection(Default::default());
    client_id: Option<ClientId> => client_id;
    slots: usize;
    slots_for: BTreeMap<FunctionName, usize> = |o| (*o.slots_for).clone(), |o, v| {
        v.into_iter().try_fold(o, |o, (function, slots)| o.slots_for(function, slots))
    };
    connections: usize;
    grab: Grab;
    regrab: queue_core::InSeconds;
    grace: queue_core::InSeconds;
    barrier: bool;
    batch_results: bool;
    until_empty: bool => until_empty;
    dead_letter: Option<FunctionName> => dead_letter;
    log_errors: bool => logs_errors;
    fail_oversized: bool => fails_oversized;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_of_functions_divide_the_slots_and_leave_their_sum() {
        for (slots, connections, limits, shares) in [
            (3, 2, &[][..], &[(3, ""), (3, "")][..]),
            (4, 1, &[("a", 1)], &[(1, "a"), (3, "")]),
            (4, 1, &[("a", 1), ("b", 2)], &[(1, "ab"), (1, "b"), (2, "")]),
            (2, 2, &[("a", 1)], &[(1, "a"), (2, ""), (1, "")]),
            (1, 3, &[("b", 2)], &[(1, "b"), (1, "b"), (1, "")]),
            (2, 1, &[("a", 9)], &[(1, "a"), (1, "a")]),
        ] {
            let options: WorkerOptions = "one:1,two:1".parse().unwrap();
            let options = options.slots(slots).connections(connections);
            let add = |options: WorkerOptions, limit: &(&str, usize)| {
                options.slots_for(limit.0, limit.1).unwrap()
            };
            let options = limits.iter().fold(options, add);
            let lanes: Vec<_> = options.lanes().collect();
            let limited = |share: &LaneShare| -> String {
                let serves = |name: &&(&str, usize)| share.serves(&name.0.parse().unwrap());
                limits.iter().filter(serves).map(|limit| limit.0).collect()
            };
            let seen: Vec<_> = lanes.iter().map(|(_, it)| (it.slots, limited(it))).collect();
            let both = shares.iter().flat_map(|(slots, of)| vec![(*slots, (*of).to_owned()); 2]);
            assert_eq!(seen, both.collect::<Vec<_>>(), "{slots} x {connections}, {limits:?}");
            assert!(lanes.iter().all(|(_, share)| share.serves(&"z".parse().unwrap())));
        }
    }
}
