//! Shared by both faces of the producer: options, and outcomes of pushes.

pub(crate) mod events;
pub(crate) mod servers;

use std::{
    fmt,
    time::{Duration, Instant},
};

use queue_core::{Limit, Observer};

use crate::{Address, ConnectOptions, Error, ProducerEvent, Servers};
use crate::{
    Deadline, Fate, MessageId, ProducerEventKind, Result,
    protocol::producer::attempts::{PushCounts, PushTerms},
};

/// Settings of a producer. Created from [`Servers`] or anything that converts into them; setters consume and return it.
///
/// ```
/// use std::time::Duration;
/// use adf_queue_client::{ProducerOptions, Selection};
///
/// let options: ProducerOptions = "one:6230,two:6230".parse()?;
/// let options = options.selection(Selection::RoundRobin).create_queues(true).timeout(Duration::from_secs(5));
/// # Ok::<(), adf_queue_client::Error>(())
/// ```
///
/// With the feature `serde` they are the servers alone, or a map with the servers under `servers` and any settings
/// under the names of the setters. Durations are seconds, or text such as `250ms`.
#[derive(Clone, Debug)]
pub struct ProducerOptions {
    pub(crate) servers: Servers,
    pub(crate) at_least_once: bool,
    pub(crate) create_queues: bool,
    pub(crate) timeout: Duration,
    pub(crate) max_messages: usize,
    pub(crate) observer: Option<Observer<ProducerEvent>>,
}

impl From<Servers> for ProducerOptions {
    fn from(servers: Servers) -> Self {
        ProducerOptions {
            servers,
            at_least_once: false,
            create_queues: false,
            timeout: Duration::from_secs(30),
            max_messages: 1024,
            observer: None,
        }
    }
}

queue_core::setters! {
    self: ProducerOptions;

    /// How to select the server for a push.
    selection(selection: crate::Selection) => self.servers = self.servers.selection(selection);

    /// Whether to resend a push of unknown fate, because the connection was lost before its answer; off unless set.
    /// With it a message exists at least once; without it, such a push fails with
    /// [`Fate::Unknown`](crate::Fate::Unknown), and the message exists once or not at all.
    at_least_once(again: bool) => self.at_least_once = again;

    /// Whether the first push to a missing queue creates it on that server; off unless set.
    create_queues(create: bool) => self.create_queues = create;

    /// Time limit for each push as a whole: its wait for a server, and for its answer; 30 s unless set.
    ///
    /// A failed server is skipped for the delays of its [`RetryPolicy`](crate::RetryPolicy); only this time limits the
    /// number of attempts.
    timeout(timeout: Duration) => self.timeout = timeout;

    /// Maximum number of pushes without an answer above which `enqueue` waits; 1,024 unless set, at least 1.
    max_messages(messages: usize) => self.max_messages = messages.max(1);

    /// Calls `observer` for every event: servers that fail and answer again, pushes that are moved or resent, queues
    /// that are created. It is called by the pushing tasks or threads, outside of the producer's locks, and must not
    /// block. If it panics, the producer continues. Several observers are called in the order in which they were set.
    on_event(observer: impl Fn(&ProducerEvent) + Send + Sync + 'static) =>
        self.observer = Some(Observer::new(observer).after(self.observer));
}

impl ProducerOptions {
    /// The options, if they are valid.
    pub(crate) fn checked(mut self) -> Result<Self> {
        self.servers.options().iter().try_for_each(ConnectOptions::check_stream)?;
        // The producer itself decides what is retried, and when.
        self.servers = self.servers.each(|server| {
            let retry = server.retry.up_to(0);
            server.retry(retry).total_timeout(None)
        });
        Ok(self)
    }

    pub(crate) fn notify(&self, events: Vec<(usize, ProducerEventKind)>) {
        let Some(observer) = &self.observer else { return };
        for (server, what) in events {
            if let Some(server) = self.servers.options().get(server) {
                observer.notify(&ProducerEvent { server: server.address().clone(), what });
            }
        }
    }

    pub(crate) fn terms(&self, now: Instant) -> PushTerms {
        PushTerms {
            limit: Limit::after(Deadline::Total, Some(self.timeout), now),
            at_least_once: self.at_least_once,
            create_queues: self.create_queues,
        }
    }
}

queue_core::from_servers!(ProducerOptions, Error, "pushes": Servers, ConnectOptions, Address);

/// A producer's counters. A push whose call was dropped is not counted; one whose `Receipt` was dropped is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct ProducerReport {
    /// Pushes that a server has acknowledged.
    pub pushed: u64,
    /// Pushes permanently refused by a server.
    pub refused: u64,
    /// Pushes that definitely reached no server.
    pub not_sent: u64,
    /// Pushes that failed after a server may have accepted them.
    pub unknown: u64,
    /// How often pushes of unknown fate were resent.
    pub resent: u64,
    /// How often pushes were moved to another server after a failure.
    pub moved: u64,
    /// Queues that were created.
    pub created: u64,
}

impl ProducerReport {
    /// Whether every finished push has put its message into a queue.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.refused == 0 && self.not_sent == 0 && self.unknown == 0
    }

    pub(crate) fn count(&mut self, outcome: &Result<MessageId>, counts: PushCounts) {
        let count = match outcome.as_ref().map_err(Error::fate) {
            Ok(_) => &mut self.pushed,
            Err(Fate::Refused) => &mut self.refused,
            Err(Fate::NotSent) => &mut self.not_sent,
            Err(Fate::Unknown) => &mut self.unknown,
        };
        *count += 1;
        self.resent += counts.resent;
        self.moved += counts.moved;
        self.created += counts.created;
    }
}

impl fmt::Display for ProducerReport {
    /// Formats the counters on one line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} pushed", queue_core::counted(self.pushed, "message"))?;
        let others = [
            (self.refused, "refused"),
            (self.not_sent, "not sent"),
            (self.unknown, "of unknown fate"),
            (self.resent, "sent again"),
            (self.moved, "moved to another server"),
        ];
        for (count, what) in others.into_iter().filter(|(count, _)| *count > 0) {
            write!(f, ", {count} {what}")?;
        }
        if self.created > 0 {
            write!(f, ", {} created", queue_core::counted(self.created, "queue"))?;
        }
        Ok(())
    }
}

#[cfg(feature = "serde")]
queue_core::serde_options! {
    ProducerOptions, Error, servers: Servers = |o| o.servers.clone().selection(Default::default());
    selection: crate::Selection = |o| o.servers.selected(), |o, v| Ok(o.selection(v));
    at_least_once: bool;
    create_queues: bool;
    timeout: queue_core::InSeconds;
    max_messages: usize;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_mentions_failures_only() {
        let report = ProducerReport { pushed: 9, ..Default::default() };
        assert_eq!((report.is_complete(), report.to_string()), (true, "9 messages pushed".into()));
        let report = ProducerReport { unknown: 2, resent: 1, ..report };
        assert!(!report.is_complete());
        assert_eq!(report.to_string(), "9 messages pushed, 2 of unknown fate, 1 sent again");
    }
}
