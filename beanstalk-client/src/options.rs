//! Connection, put and release options.

use std::time::Duration;

use queue_core::{RetryPolicy, ServerOptions};

use crate::{Address, Error, Priority, Seconds, address::Beanstalkd};

/// Connection settings and deadlines.
///
/// Created from an [`Address`] or its text; setters consume and return it:
///
/// ```
/// use std::time::Duration;
/// use beanstalk_client::ConnectOptions;
///
/// let options: ConnectOptions = "localhost:11300".parse()?;
/// let options = options.connect_timeout(Duration::from_secs(1)).reply_timeout(Duration::from_secs(2));
/// # Ok::<(), beanstalk_client::Error>(())
/// ```
///
/// Settings can be read back: `options.reply_timeout`, from [`ServerOptions`].
///
/// | deadline | default | covers |
/// |---|---|---|
/// | connect | 5 s | name resolution, TCP over all addresses, TLS handshake |
/// | write | 10 s | handing one command to the operating system; a long one has the time again for every 64 KiB of it |
/// | reply | 10 s | from the command written to its whole reply; a timed reserve adds its own timeout |
/// | total | none | the whole call, with reconnects and retries |
///
/// With the feature `serde` they are an address, or a map with the address and any settings, under the names of the
/// setters: `{"address": "localhost:11300", "reply_timeout": 2}`. Durations are seconds, or text such as `250ms`; a
/// total of `"never"` means none. Connectors are code and TLS options hold keys, so neither is serialized.
#[derive(Clone, Debug)]
pub struct ConnectOptions {
    pub(crate) server: ServerOptions<Beanstalkd>,
    pub(crate) max_body_size: usize,
}

impl ConnectOptions {
    /// Options for this server, everything else at its default.
    #[must_use]
    pub fn new(address: Address) -> Self {
        ConnectOptions { server: ServerOptions::new(address), max_body_size: 64 << 20 }
    }
}

queue_core::setters! {
    self: ConnectOptions;

    /// Time limit for name resolution, connecting and the TLS handshake together.
    connect_timeout(timeout: Duration) => self.server.connect_timeout = timeout;

    /// Time limit for handing one command to the operating system.
    write_timeout(timeout: Duration) => self.server.write_timeout = timeout;

    /// Time limit for a whole reply once its command is written. A timed reserve adds its own timeout, and a plain one
    /// has no limit.
    ///
    /// It must be longer than the slowest round trip: if it expires while a job is on its way, the connection is
    /// closed, which gives the job back.
    reply_timeout(timeout: Duration) => self.server.reply_timeout = timeout;

    /// Time limit for each call as a whole, including reconnects and retries. With `None`, only the other deadlines
    /// apply. For a pipeline it limits connecting only; each reply has the reply deadline.
    total_timeout(timeout: Option<Duration>) => self.server.total_timeout = timeout;

    /// Maximum size of a received body in bytes; 64 MiB unless set. A larger one is skipped and reported as
    /// [`BodyTooLarge`](crate::ErrorKind::BodyTooLarge). The limit also applies to statistics and lists, but never
    /// below 64 KiB.
    max_body_size(bytes: usize) => self.max_body_size = bytes;

    /// How often, and after what delays, a client reconnects and repeats a command that definitely did not reach the
    /// server.
    ///
    /// A producer uses these delays, and retries for as long as its puts may take. A worker uses them for as long as it
    /// runs, unless it has its own delays
    /// ([`WorkerOptions::reconnect_backoff`](crate::WorkerOptions::reconnect_backoff)).
    retry(policy: RetryPolicy) => self.server.retry = policy;
}

queue_core::connect_options!(Beanstalkd, "fixtures::beanstalkd", "`beanstalks://`");

/// How to put a job; unless set, with priority 1024, no delay and a time to run of 60 s.
///
/// ```
/// use std::time::Duration;
/// use beanstalk_client::PutOptions;
///
/// let urgent = PutOptions::default().priority(0).ttr(Duration::from_secs(300));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(default, deny_unknown_fields)
)]
pub struct PutOptions {
    priority: Priority,
    #[cfg_attr(feature = "serde", serde(with = "queue_core::seconds"))]
    delay: Duration,
    #[cfg_attr(feature = "serde", serde(with = "queue_core::seconds"))]
    ttr: Duration,
}

queue_core::setters! {
    self: PutOptions;

    /// How urgent the job is; 0 comes first.
    priority(priority: impl Into<Priority>) => self.priority = priority.into();

    /// How long the job stays delayed, in whole seconds (rounded up), at most `u32::MAX`.
    delay(delay: Duration) => self.delay = delay;

    /// How long a consumer may hold the job before others get it, in whole seconds (rounded up), at most `u32::MAX`.
    /// The server turns 0 into 1, and treats the last second as a safety margin.
    ttr(ttr: Duration) => self.ttr = ttr;
}

impl PutOptions {
    pub(crate) fn checked(self) -> Result<(Priority, Seconds, Seconds), Error> {
        let delay = Seconds::round_up("delay", self.delay, u32::MAX)?;
        let ttr = Seconds::round_up("ttr", self.ttr, u32::MAX)?;
        Ok((self.priority, delay, ttr))
    }
}

impl Default for PutOptions {
    fn default() -> Self {
        PutOptions {
            priority: Priority::default(),
            delay: Duration::ZERO,
            ttr: Duration::from_secs(60),
        }
    }
}

/// How to release a reserved job.
///
/// There is no default priority: `release` overwrites the job's priority, so the caller has to give one. `stats_job`
/// returns the current one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields)
)]
pub struct ReleaseOptions {
    priority: Priority,
    #[cfg_attr(feature = "serde", serde(default, with = "queue_core::seconds"))]
    delay: Duration,
}

impl ReleaseOptions {
    /// Ready at once, with this priority.
    #[must_use]
    pub fn new(priority: impl Into<Priority>) -> Self {
        ReleaseOptions { priority: priority.into(), delay: Duration::ZERO }
    }
}

queue_core::setters! {
    self: ReleaseOptions;

    /// How long the job stays delayed, in whole seconds (rounded up), at most `u32::MAX`.
    delay(delay: Duration) => self.delay = delay;
}

impl ReleaseOptions {
    pub(crate) fn checked(self) -> Result<(Priority, Seconds), Error> {
        Ok((self.priority, Seconds::round_up("delay", self.delay, u32::MAX)?))
    }
}

#[cfg(feature = "serde")]
queue_core::serde_connect_options! {
    ConnectOptions, Error, Address;
    max_body_size: usize;
}
