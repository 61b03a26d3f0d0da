//! Worker options: where jobs come from, how many run at once, and what to do with them.

use std::{collections::BTreeMap, fmt, str::FromStr, time::Duration};

use queue_core::{DurationText, JobLimit, Observer, SpanHook, read_duration};

use crate::Job;
use crate::{Address, ConnectOptions, Error, Retries, RetryPolicy, Servers, TubeName, WorkerEvent};

/// Default time that one reserve waits on the server.
pub(crate) const RESERVE_WAIT: Duration = Duration::from_secs(15);

/// Settings of a worker. Created from the addresses of one or several servers; setters consume and return it.
///
/// ```
/// use std::time::Duration;
/// use beanstalk_client::{Retries, WorkerOptions};
///
/// let options = WorkerOptions::new("one:11300,two:11300")?
///     .slots(8)
///     .slots_for("reports", 2)?
///     .retries(Retries::default().releases(3))
///     .grace(Duration::from_secs(10));
/// # Ok::<(), beanstalk_client::Error>(())
/// ```
///
/// | setting | default | meaning |
/// |---|---|---|
/// | `slots` | 1 | connections to each server; each runs one job at a time |
/// | `slots_for` | all | how many of them take jobs of a tube |
/// | `prefetch` | 1 | maximum number of jobs a connection holds, for tiny jobs |
/// | `inspect` | suspects | whether to read a job's counters before running it |
/// | `heartbeat` | on | touches a job at a third of its time to run while its handler runs |
/// | `retries` | see [`Retries`] | what to do with a failed job |
/// | `dead_letter` | none | the tube for jobs that would be buried |
/// | `reserve_wait` | 15 s | how long one reserve waits in the server |
/// | `grace` | 25 s | time for running jobs to finish after a stop |
/// | `log_errors` | off | whether to log the messages of handler errors |
///
/// With the feature `serde` they are the servers alone, or a map with the servers under `servers` and any settings
/// under the names of the setters. Durations are seconds, or text such as `250ms`. Observers are code, and a
/// [limit](Self::limit) is a counter that workers of one process share, so neither is serialized.
#[derive(Clone)]
pub struct WorkerOptions {
    pub(crate) servers: Servers,
    pub(crate) slots: usize,
    slots_for: BTreeMap<TubeName, usize>,
    pub(crate) prefetch: usize,
    pub(crate) inspect: Inspect,
    pub(crate) heartbeat: Heartbeat,
    pub(crate) retries: Retries,
    pub(crate) dead_letter: Option<TubeName>,
    pub(crate) reserve_wait: Duration,
    pub(crate) grace: Duration,
    pub(crate) limit: Option<JobLimit>,
    pub(crate) until_empty: bool,
    pub(crate) backoff: Option<(Duration, Duration)>,
    pub(crate) seed: Option<u64>,
    pub(crate) observer: Option<Observer<WorkerEvent>>,
    pub(crate) logs_errors: bool,
    pub(crate) on_span: SpanHook<Job>,
}

/// When to read the counters of a job (`stats-job`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Inspect {
    /// Before the job is run, if it may have been handed out before: the first jobs of a connection, jobs that arrive
    /// out of order, and a random sample of the others. A job that kills the process that runs it is found, though
    /// perhaps after a few runs more than [`Retries::reserves`] allows, and buried without being run.
    ///
    /// Same as [`Before`](Self::Before) with a limit of fewer than 10 reserves, or with a limit of timeouts.
    #[default]
    Suspects,
    /// Before any job is run, so that the limits of [`Retries`] hold exactly. Costs a round trip for each job.
    Before,
    /// Only when they are needed: the job runs for a while or fails, or its handler asks. A job that kills its process
    /// at once goes unnoticed.
    OnDemand,
}

queue_core::words!(Inspect, Error, "way to inspect jobs":
    "suspects" = Suspects, "before" = Before, "on-demand" = OnDemand);

/// How long a worker extends a reservation by `touch` while the handler runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case")
)]
#[non_exhaustive]
pub enum Heartbeat {
    /// For as long as the handler runs.
    #[default]
    Always,
    /// For this long. After that the reservation expires, the job goes to other workers, and the handler is notified.
    /// Contains handlers that never return.
    AtMost(#[cfg_attr(feature = "serde", serde(with = "queue_core::seconds"))] Duration),
    /// Not at all: a handler has the job's time to run, unless it touches the job itself.
    Never,
}

impl fmt::Display for Heartbeat {
    /// Formats as `always`, `never`, or the longest time, such as `90s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Heartbeat::Always => f.pad("always"),
            Heartbeat::AtMost(time) => f.pad(&DurationText(*time).to_string()),
            Heartbeat::Never => f.pad("never"),
        }
    }
}

impl FromStr for Heartbeat {
    type Err = Error;

    /// Parses `always`, `never`, or a time such as `90s` or `5m`.
    fn from_str(text: &str) -> Result<Self, Error> {
        match text {
            "always" => Ok(Heartbeat::Always),
            "never" => Ok(Heartbeat::Never),
            time => read_duration("heartbeat", time)
                .map(Heartbeat::AtMost)
                .map_err(|error| Error::from(error).with_detail("or always or never")),
        }
    }
}

queue_core::setters! {
    self: WorkerOptions;

    /// Number of connections to each server, at least one; each runs one job at a time. Every server has its own, so
    /// one that is slow or down does not hold up the others.
    slots(slots: usize) => self.slots = slots.max(1);
}

impl WorkerOptions {
    /// Lets only this number of the [slots](Self::slots) of each server, at least one, take jobs of a tube, so that no
    /// more of its jobs run at once. The other slots have other tubes to themselves; one that is left without a tube
    /// makes no connection.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for an invalid name.
    pub fn slots_for<T>(mut self, tube: T, slots: usize) -> Result<Self, Error>
    where
        T: TryInto<TubeName>,
        Error: From<T::Error>,
    {
        self.slots_for.insert(tube.try_into()?, slots.max(1));
        Ok(self)
    }
}

queue_core::setters! {
    self: WorkerOptions;

    /// Maximum number of jobs a connection holds, 1 to 500; they run one after another.
    ///
    /// For tiny jobs, each of which would otherwise wait for a round trip. The cost: jobs wait behind a slow one
    /// although another worker could run them, and a lost connection gives all of them back. Waiting jobs are kept
    /// alive like running ones, and one whose reservation has expired is not run. While a connection holds jobs it
    /// never waits in a reserve, so that the server reads touches and deletes at once.
    prefetch(jobs: usize) => self.prefetch = jobs.clamp(1, MAX_PREFETCH);

    /// When to read the counters of a job.
    inspect(inspect: Inspect) => self.inspect = inspect;

    /// How long to keep reservations alive.
    heartbeat(heartbeat: Heartbeat) => self.heartbeat = heartbeat;

    /// What to do with a failed job.
    retries(retries: Retries) => self.retries = retries;

    /// The tube for jobs that would be buried because they failed too often, would not be run any more, or because their
    /// handler decided so. Such a job is put there with the same body, priority and time to run, and deleted once the
    /// server has acknowledged the put; the event [`DeadLettered`](crate::WorkerEventKind::DeadLettered) says why and
    /// after how many attempts. The worker must not serve this tube. If the connection is lost between the two commands,
    /// the job is in both tubes.
    ///
    /// If the tube or the put is refused, the job is buried. So is a job whose body was not read, because it is too large
    /// or damaged.
    dead_letter(tube: TubeName) => self.dead_letter = Some(tube);

    /// How long one reserve waits in the server, in whole seconds (rounded up), from 1 s to an hour. A server that
    /// vanishes silently is noticed after this time plus the reply timeout.
    reserve_wait(wait: Duration) =>
        self.reserve_wait = wait.clamp(Duration::from_secs(1), Duration::from_secs(3600));

    /// Time for running jobs to finish after a stop.
    grace(grace: Duration) => self.grace = grace;

    /// Takes at most the number of jobs that this limit allows, shared by all workers that have a clone of it;
    /// unlimited unless set. The run ends with the last of these jobs, which have all the time that they need; also if a
    /// server cannot be reached.
    ///
    /// A slot that waits for a job claims one from the limit. If it gets none within
    /// [`reserve_wait`](Self::reserve_wait), another slot, perhaps of another server, takes the claim over. With several
    /// servers a slot looks first, and then waits for a second at a time, so that an idle server does not hold up the
    /// last jobs of the others. Slots [for a tube](Self::slots_for) do the same.
    limit(limit: JobLimit) => self.limit = Some(limit);

    /// Ends the run when no registered tube has a ready job; separately for each slot. A server that cannot be
    /// reached, once the retries of its [`ConnectOptions::retry`] have failed in a row, is
    /// [given up](crate::WorkerEventKind::GivenUp) and counted in the [report](crate::WorkerReport::given_up).
    until_empty() => self.until_empty = true;

    /// The delays before a lost server is tried again, and before a refused request is repeated: from `base`, doubling
    /// up to `cap`, each randomly shortened. Unless set, those of the server's [`ConnectOptions::retry`], 100 ms and 10
    /// s by default.
    reconnect_backoff(base: Duration, cap: Duration) => self.backoff = Some((base, cap));

    /// Makes the jitter of these delays repeatable. Takes precedence over the seed of [`ConnectOptions::retry`].
    seed(seed: u64) => self.seed = Some(seed);

    /// Calls `observer` for every event: connections, failures, the outcome of each job. It is called by the slots and
    /// must not block. If it panics, the worker continues. Several observers are called in the order in which they
    /// were set.
    on_event(observer: impl Fn(&WorkerEvent) + Send + Sync + 'static) =>
        self.observer = Some(Observer::new(observer).after(self.observer));
}

/// More jobs on one connection cost the server more than they gain.
const MAX_PREFETCH: usize = 500;

impl From<Servers> for WorkerOptions {
    fn from(servers: Servers) -> Self {
        WorkerOptions {
            servers,
            slots: 1,
            slots_for: BTreeMap::new(),
            prefetch: 1,
            inspect: Inspect::default(),
            heartbeat: Heartbeat::default(),
            retries: Retries::default(),
            dead_letter: None,
            reserve_wait: RESERVE_WAIT,
            grace: Duration::from_secs(25),
            limit: None,
            until_empty: false,
            backoff: None,
            seed: None,
            observer: None,
            logs_errors: false,
            on_span: SpanHook::default(),
        }
    }
}

queue_core::worker_options!(Job, "job", "&job.body");
queue_core::from_servers!(WorkerOptions, Error, "handlers": Servers, ConnectOptions, Address);

impl WorkerOptions {
    /// Rejects servers that may not be connected to.
    pub(crate) fn check(&self) -> Result<(), Error> {
        self.servers.check()
    }

    /// Rejects the dead-letter tube.
    pub(crate) fn check_served(&self, tube: &TubeName) -> Result<(), Error> {
        if self.dead_letter.as_ref() == Some(tube) {
            return Err(Error::invalid(format!(
                "tube {tube} is the dead-letter tube: serve it with a separate worker"
            )));
        }
        Ok(())
    }

    /// The delays of the `slot`-th slot of this server.
    pub(crate) fn retry(&self, server: usize, slot: u64) -> RetryPolicy {
        let mut policy =
            self.servers.options().get(server).map(|server| server.retry).unwrap_or_default();
        if let Some((base, cap)) = self.backoff {
            policy = policy.backoff(base, cap);
        }
        if let Some(seed) = self.seed {
            policy = policy.seed(seed);
        }
        policy.of_connection(slot)
    }

    /// The options of a server, by its index.
    #[allow(clippy::indexing_slicing)]
    pub(crate) fn connect(&self, server: usize) -> &ConnectOptions {
        // Indexes come from the list itself.
        &self.servers.options()[server]
    }

    /// The slots of these tubes, each with its watch list. Limited tubes are spread over them.
    pub(crate) fn watch_lists<'a>(
        &self,
        tubes: impl Iterator<Item = &'a TubeName>,
    ) -> Vec<Vec<TubeName>> {
        let mut lists = vec![Vec::new(); self.slots];
        let mut first = 0;
        for tube in tubes {
            let most = self.slots_for.get(tube).copied().unwrap_or(self.slots).min(self.slots);
            for slot in first..first + most {
                if let Some(list) = lists.get_mut(slot % self.slots) {
                    list.push(tube.clone());
                }
            }
            first += most;
        }
        lists
    }

    /// Whether some slots do not take what others do, so that each must leave the others their share of a limit.
    pub(crate) fn has_unequal_slots(&self) -> bool {
        self.servers.options().len() > 1 || !self.slots_for.is_empty()
    }

    /// Each server, to be asked once.
    pub(crate) fn asked_once(&self) -> impl Iterator<Item = ConnectOptions> {
        self.servers.options().iter().map(ConnectOptions::asked_once)
    }

    pub(crate) fn address(&self, server: usize) -> &crate::Address {
        &self.connect(server).address
    }
}

impl fmt::Debug for WorkerOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let servers: Vec<_> = self.servers.addresses().map(ToString::to_string).collect();
        f.debug_struct("WorkerOptions")
            .field("servers", &servers)
            .field("slots", &self.slots)
            .field("slots_for", &self.slots_for)
            .field("prefetch", &self.prefetch)
            .finish_non_exhaustive()
    }
}

#[cfg(feature = "serde")]
queue_core::serde_options! {
    WorkerOptions, Error, servers: Servers = |o| o.servers.clone().selection(Default::default());
    slots: usize;
    slots_for: BTreeMap<TubeName, usize> = |o| o.slots_for.clone(), |o, v| {
        v.into_iter().try_fold(o, |o, (tube, slots)| o.slots_for(tube, slots))
    };
    prefetch: usize;
    inspect: Inspect;
    heartbeat: Heartbeat;
    retries: Retries;
    dead_letter: Option<TubeName> => dead_letter;
    reserve_wait: queue_core::InSeconds;
    grace: queue_core::InSeconds;
    until_empty: bool => until_empty;
    reconnect_backoff: Option<queue_core::Delays> = |o| o.backoff.map(Into::into), |mut o, v| {
        o.backoff = v.map(|delays| (delays.base, delays.cap));
        Ok(o)
    };
    seed: Option<u64> => seed;
    log_errors: bool => logs_errors;
}
