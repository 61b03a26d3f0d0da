//! Options of a producer.

use std::time::Duration;

use queue_core::Observer;

use crate::{Address, ConnectOptions, Error, ProducerEvent, Servers};

/// What to do with a put whose fate is unknown because the connection was lost between the put and its reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Delivery {
    /// It fails with [`Fate::Unknown`](crate::Fate::Unknown); the job exists once or not at all.
    #[default]
    AtMostOnce,
    /// It is resent; the job exists at least once, and more often if the server had accepted an earlier copy.
    AtLeastOnce,
}

queue_core::words!(Delivery, Error, "delivery":
    "at-most-once" = AtMostOnce, "at-least-once" = AtLeastOnce);

/// Settings of a producer. Created from [`Servers`] or anything that converts into them; setters consume and return it.
///
/// ```
/// use std::time::Duration;
/// use beanstalk_client::{Delivery, ProducerOptions};
///
/// let options: ProducerOptions = "one:11300,two:11300".parse()?;
/// let options = options.delivery(Delivery::AtLeastOnce).timeout(Duration::from_secs(5));
/// # Ok::<(), beanstalk_client::Error>(())
/// ```
///
/// | setting | default | meaning |
/// |---|---|---|
/// | `delivery` | at most once | what to do with puts whose fate is unknown |
/// | `retries` | on | whether to resend puts that definitely did not reach the server |
/// | `timeout` | 30 s | time limit for each put as a whole, including waiting for room, reconnects and retries |
/// | `max_jobs` | 10,000 | maximum number of unanswered puts, sent or not |
/// | `max_bytes` | 16 MiB | maximum size of these puts in total |
/// | `reconnect_backoff` | 100 ms to 10 s | the delays between attempts to connect |
///
/// The options of each server give its other deadlines, and the reconnect delays unless set here
/// ([`RetryPolicy::backoff`](crate::RetryPolicy::backoff)); only `timeout` limits the number of attempts. A put that
/// finds no connection does not wait for a long delay to end: its server is tried again early, at most once in the
/// shortest delay.
///
/// With the feature `serde` they are the servers alone, or a map with the servers under `servers` and any settings
/// under the names of the setters. Durations are seconds, or text such as `250ms`.
#[derive(Clone, Debug)]
pub struct ProducerOptions {
    pub(crate) servers: Servers,
    pub(crate) delivery: Delivery,
    pub(crate) retries: bool,
    pub(crate) timeout: Duration,
    pub(crate) max_jobs: usize,
    pub(crate) max_bytes: usize,
    pub(crate) backoff: Option<(Duration, Duration)>,
    pub(crate) seed: Option<u64>,
    pub(crate) observer: Option<Observer<ProducerEvent>>,
}

impl From<Servers> for ProducerOptions {
    fn from(servers: Servers) -> Self {
        ProducerOptions {
            servers,
            delivery: Delivery::default(),
            retries: true,
            timeout: Duration::from_secs(30),
            max_jobs: 10_000,
            max_bytes: 16 << 20,
            backoff: None,
            seed: None,
            observer: None,
        }
    }
}

queue_core::setters! {
    self: ProducerOptions;

    /// What to do with puts whose fate is unknown.
    delivery(delivery: Delivery) => self.delivery = delivery;

    /// Whether to resend puts that definitely did not reach the server. Otherwise they fail with the first connection
    /// failure.
    retries(retries: bool) => self.retries = retries;

    /// Time limit for each put as a whole: its wait for room in the queue, for a connection, and for its answer.
    timeout(timeout: Duration) => self.timeout = timeout;

    /// Maximum number of unanswered puts in the queue, sent or not; at least one.
    max_jobs(jobs: usize) => self.max_jobs = jobs.max(1);

    /// Maximum size of all puts in the queue together, in bytes. A larger put is accepted if the queue is empty.
    max_bytes(bytes: usize) => self.max_bytes = bytes;

    /// Calls `observer` for every event: connections, servers that refuse jobs, puts that are moved or resent. It is
    /// called by whichever task or thread moves the producer's bytes, outside of its locks, and must not block. If it
    /// panics, the producer continues. Several observers are called in the order in which they were set.
    on_event(observer: impl Fn(&ProducerEvent) + Send + Sync + 'static) =>
        self.observer = Some(Observer::new(observer).after(self.observer));

    /// The delays before a lost server is tried again: from `base`, doubling up to `cap`, each randomly shortened.
    /// Unless set, those of each server's [`RetryPolicy`](crate::RetryPolicy): 100 ms and 10 s.
    reconnect_backoff(base: Duration, cap: Duration) => self.backoff = Some((base, cap));

    /// Makes reconnect jitter and random selection repeatable. For tests.
    seed(seed: u64) => self.seed = Some(seed);
}

impl ProducerOptions {
    /// Rejects servers that may not be connected to, and gives each server its share of the seed.
    pub(crate) fn checked(mut self) -> Result<Self, Error> {
        for server in self.servers.options() {
            server.check()?;
        }
        if let Some((base, cap)) = self.backoff {
            self.servers = self.servers.each(|server| {
                let retry = server.retry.backoff(base, cap);
                server.retry(retry)
            });
        }
        if let Some(seed) = self.seed {
            let mut next = seed;
            self.servers = self.servers.each(|server| {
                next = next.wrapping_add(1);
                let retry = server.retry.seed(next);
                server.retry(retry)
            });
        }
        Ok(self)
    }
}

queue_core::from_servers!(ProducerOptions, Error, "puts": Servers, ConnectOptions, Address);

#[cfg(feature = "serde")]
queue_core::serde_options! {
    ProducerOptions, Error, servers: Servers = |o| o.servers.clone().selection(Default::default());
    selection: crate::Selection = |o| o.servers.selected(), |mut o, v| {
        o.servers = o.servers.selection(v);
        Ok(o)
    };
    delivery: Delivery;
    retries: bool;
    timeout: queue_core::InSeconds;
    max_jobs: usize;
    max_bytes: usize;
    reconnect_backoff: Option<queue_core::Delays> = |o| o.backoff.map(Into::into), |mut o, v| {
        o.backoff = v.map(|delays| (delays.base, delays.cap));
        Ok(o)
    };
    seed: Option<u64> => seed;
}
