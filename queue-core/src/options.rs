//! Options for one server, independent of its protocol.

pub(crate) mod backoff;
mod common;
pub(crate) mod duration;
pub(crate) mod retry;
#[cfg(feature = "serde")]
pub(crate) mod serde_forms;
pub(crate) mod serde_options;
mod setters;

use std::time::Duration;

use crate::{Address, Deadline, Dial, Limit, Measures, RetryPolicy, System};

/// Options for one server: its address, deadlines, retries, and how connections are made. Each client's options contain
/// one of these and give read access to it. What the clients themselves need of it is not shown here.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ServerOptions<S: System> {
    /// The server's address.
    pub address: Address<S>,
    /// Time limit for name resolution, connecting, the TLS handshake and the protocol's own opening exchange; 5 seconds
    /// by default.
    pub connect_timeout: Duration,
    /// Time limit for handing a request to the operating system, restarted for every 64 KiB of it; 10 seconds by
    /// default.
    pub write_timeout: Duration,
    /// Time limit for a reply; 10 seconds by default.
    pub reply_timeout: Duration,
    /// Time limit for a call as a whole; `None` by default.
    pub total_timeout: Option<Duration>,
    /// How often, and after what delays, a client retries.
    pub retry: RetryPolicy,
    /// How connections are made.
    #[doc(hidden)]
    pub dial: Dial,
    /// The observer of durations and numbers of messages.
    #[doc(hidden)]
    pub measures: Measures,
}

impl<S: System> ServerOptions<S> {
    /// Options for this server, everything else at its default.
    #[doc(hidden)]
    #[must_use]
    pub fn new(address: Address<S>) -> Self {
        ServerOptions {
            address,
            connect_timeout: Duration::from_secs(5),
            write_timeout: Duration::from_secs(10),
            reply_timeout: Duration::from_secs(10),
            total_timeout: None,
            retry: RetryPolicy::default(),
            dial: Dial::default(),
            measures: Measures::default(),
        }
    }

    /// Time limit for an attempt to connect, whichever caller waits for it.
    #[doc(hidden)]
    #[must_use]
    pub fn connecting_timeout(&self) -> Duration {
        self.total_timeout.map_or(self.connect_timeout, |total| total.min(self.connect_timeout))
    }

    /// The error of a deadline of these options.
    #[doc(hidden)]
    #[must_use]
    pub fn timed_out(&self, which: Deadline) -> crate::Error {
        let time = match which {
            Deadline::Connect => Some(self.connecting_timeout()),
            Deadline::Write => Some(self.write_timeout),
            Deadline::Reply => Some(self.reply_timeout),
            Deadline::Total | Deadline::Job => self.total_timeout,
        };
        crate::Error::timed_out_after(which, time)
    }

    /// The limit of a whole call that starts now.
    #[doc(hidden)]
    #[must_use]
    pub fn total_limit(&self) -> Limit {
        Limit::of(Deadline::Total, self.total_timeout)
    }

    /// The limit of an attempt to connect that starts now.
    #[doc(hidden)]
    #[must_use]
    pub fn connecting_limit(&self) -> Limit {
        Limit::of(Deadline::Connect, Some(self.connecting_timeout()))
    }

    /// Rejects servers that may not be connected to.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for plain text to another machine if TLS is required, for Unix sockets on other systems, and for
    /// anything that the protocol forbids.
    pub fn check(&self) -> Result<(), S::Error> {
        S::check(&self.address)?;
        Ok(self.dial.check(&self.address)?)
    }
}
