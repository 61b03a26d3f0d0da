//! Worker options.

use std::{collections::BTreeMap, num::NonZeroU16, time::Duration};

use queue_core::{JobLimit, Observer, SpanHook};

use crate::Delivery;
use crate::{Address, ConnectOptions, Error, QueueName, Servers, WorkerEvent};

/// Settings of a worker: one message at a time from each server, unless set.
///
/// Created from [`Servers`] or the text of their addresses; setters consume and return it:
///
/// ```
/// use adf_queue_client::WorkerOptions;
///
/// let options: WorkerOptions = "one:6230,two:6230".parse()?;
/// let options = options.slots(8).dead_letter("/dead".parse()?);
/// # Ok::<(), adf_queue_client::Error>(())
/// ```
///
/// With the feature `serde` they are the servers alone, or a map with the servers under `servers` and any settings
/// under the names of the setters. Durations are seconds, or text such as `250ms`. Observers are code, and a
/// [limit](Self::limit) is a counter that workers of one process share, so neither is serialized.
#[derive(Clone, Debug)]
pub struct WorkerOptions {
    pub(crate) servers: Servers,
    pub(crate) slots: usize,
    pub(crate) slots_for: BTreeMap<QueueName, usize>,
    pub(crate) prefetch: usize,
    pub(crate) max_duplications: u16,
    pub(crate) dead_letter: Option<QueueName>,
    pub(crate) grace: Duration,
    pub(crate) recheck: Duration,
    pub(crate) limit: Option<JobLimit>,
    pub(crate) until_empty: bool,
    pub(crate) observer: Option<Observer<WorkerEvent>>,
    pub(crate) logs_errors: bool,
    pub(crate) on_span: SpanHook<Delivery>,
}

impl From<Servers> for WorkerOptions {
    fn from(servers: Servers) -> Self {
        WorkerOptions {
            servers,
            slots: 1,
            slots_for: BTreeMap::new(),
            prefetch: 0,
            max_duplications: 5,
            dead_letter: None,
            grace: Duration::from_secs(25),
            recheck: Duration::from_secs(10),
            limit: None,
            until_empty: false,
            observer: None,
            logs_errors: false,
            on_span: SpanHook::default(),
        }
    }
}

queue_core::setters! {
    self: WorkerOptions;

    /// Maximum number of concurrent handlers for each server; at least 1.
    slots(slots: usize) => self.slots = slots.max(1);

    /// Maximum number of messages that each server's connection holds waiting for a handler; 0 unless set. With
    /// prefetch, a free handler need not wait for a round trip.
    ///
    /// For each free handler and each free prefetch place, up to 256, a pull waits on the server, which serves the
    /// oldest pull first. A worker with many places may therefore get messages although a handler of another worker is
    /// free.
    ///
    /// A pull cannot be cancelled, and it is unknown which queue gets the next message. So a worker of several queues
    /// may hold one more message for each queue after the first, and briefly one more from a queue with messages that
    /// were put back.
    prefetch(messages: usize) => self.prefetch = messages;

    /// Maximum number of deliveries of a message, to any client, before a failure is final; 5 unless set. A message
    /// whose handler fails at that delivery goes to the [dead-letter queue](Self::dead_letter). So does a message with
    /// more deliveries, without being run: it kills its process, or hangs.
    ///
    /// A delivery after which the handler [deferred](crate::Outcome::Defer) the message does not count.
    ///
    /// Set it somewhat higher than the number of failures that you allow: stopping a worker and a lost connection also
    /// give messages back. The server counts modulo 65,536.
    max_duplications(times: NonZeroU16) => self.max_duplications = times.get();

    /// The queue for messages that failed too often: they are pushed to its right end, and deleted once the server has
    /// acknowledged the push. It must exist on each server, and the worker must not serve it. If the connection is lost
    /// between the two requests, the message is in both queues.
    ///
    /// Without one, such a message is returned to the right end without being run
    /// ([`Poisoned`](crate::WorkerEventKind::Poisoned)), and a queue with nothing else is polled at growing intervals.
    /// The same happens to a message that the dead-letter queue rejects.
    dead_letter(queue: QueueName) => self.dead_letter = Some(queue);

    /// Time for running handlers to finish after a stop; 25 s unless set. Unfinished messages then go back to the
    /// server. What the server has not answered a second later has the fate [`Unknown`](crate::JobFate::Unknown).
    grace(grace: Duration) => self.grace = grace;

    /// Polling interval for a queue with a waiting pull; 10 s by default, at least 100 ms. The server does not wake
    /// pulls for returned messages, and never answers a pull on a queue that was deleted and created again.
    recheck(interval: Duration) => self.recheck = interval.max(Duration::from_millis(100));

    /// Takes at most the number of messages that this limit allows, shared by all workers that have a clone of it;
    /// unlimited unless set. A run ends with the last of these messages, whose handlers have all the time that they need.
    ///
    /// With several queues or servers, each queue is counted before a message is pulled, so that a pull waiting on an
    /// empty queue does not use up the limit. If another client is faster, it does. An empty queue is counted at least
    /// every second.
    limit(limit: JobLimit) => self.limit = Some(limit);

    /// Ends the run when no queue has a ready message, and the worker holds no message that could still be returned;
    /// separately for each server. A missing queue counts as empty. Messages held by other clients, which they may
    /// return later, are not awaited. A server that cannot be reached, once the retries of its
    /// [`ConnectOptions::retry`] have failed in a row, is [given up](crate::WorkerEventKind::GivenUp) and counted in the
    /// [report](crate::WorkerReport::given_up).
    until_empty() => self.until_empty = true;

    /// Calls `observer` for every event. It is called where the event happens, and must not block. If it panics, the
    /// worker continues. Several observers are called in the order in which they were set.
    on_event(observer: impl Fn(&WorkerEvent) + Send + Sync + 'static) =>
        self.observer = Some(Observer::new(observer).after(self.observer));
}

impl WorkerOptions {
    /// Maximum number of concurrent handlers for this queue on each server, of the [`slots`](Self::slots) in total; at
    /// least 1. Other queues use the slots that it leaves.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for an invalid name.
    pub fn slots_for<Q>(mut self, queue: Q, slots: usize) -> Result<Self, Error>
    where
        Q: TryInto<QueueName>,
        Error: From<Q::Error>,
    {
        self.slots_for.insert(queue.try_into()?, slots.max(1));
        Ok(self)
    }
}

mod lanes {
    use bytes::BytesMut;

    use super::WorkerOptions;
    use crate::{
        ConnectOptions, Error, QueueName, RequestId, Result,
        protocol::{
            Request,
            worker::{Lane, LaneSettings},
        },
    };

    impl WorkerOptions {
        /// Rejects invalid options.
        pub(crate) fn check(&self) -> Result<()> {
            for server in self.servers.options() {
                if server.address.transport().is_http() {
                    return Err(Error::unsupported(
                        "a worker needs WebSocket: over HTTP an abandoned pull still takes a message, which is never returned (use an address with adf:// or adf+json://)",
                    ));
                }
                server.check()?;
            }
            self.dead_letter.iter().try_for_each(|queue| self.check_queue(queue))
        }

        /// Rejects a queue whose name the transport cannot carry.
        pub(crate) fn check_queue(&self, queue: &QueueName) -> Result<()> {
            let request = Request::pull(RequestId::of(0), queue.clone());
            for server in self.servers.options() {
                let encoding = server.address.transport().encoding();
                encoding.encode(&request, &mut BytesMut::new())?;
            }
            Ok(())
        }

        /// Rejects serving the dead-letter queue.
        pub(crate) fn check_served(&self, queue: &QueueName) -> Result<()> {
            if self.dead_letter.as_ref() == Some(queue) {
                return Err(Error::invalid(format!(
                    "queue {queue} is the dead-letter queue: serve it with a separate worker"
                )));
            }
            self.check_queue(queue)
        }

        /// The worker role for one server.
        pub(crate) fn lane<'a>(
            &self,
            server: &ConnectOptions,
            queues: impl Iterator<Item = &'a QueueName>,
        ) -> Lane {
            let terms = LaneSettings {
                slots: self.slots,
                slots_for: self.slots_for.clone(),
                prefetch: self.prefetch,
                max_duplications: self.max_duplications,
                dead_letter: self.dead_letter.clone(),
                grace: self.grace,
                recheck: self.recheck,
                limit: self.limit.clone(),
                until_empty: self.until_empty,
                is_one_of_many: self.servers.options().len() > 1,
            };
            Lane::new(server.clone(), terms, queues.cloned())
        }
    }
}

queue_core::worker_options!(Delivery, "message", "message.body()");
queue_core::from_servers!(WorkerOptions, Error, "handlers": Servers, ConnectOptions, Address);

#[cfg(feature = "serde")]
queue_core::serde_options! {
    WorkerOptions, Error, servers: Servers = |o| o.servers.clone().selection(Default::default());
    slots: usize;
    slots_for: BTreeMap<QueueName, usize> = |o| o.slots_for.clone(), |o, v| {
        v.into_iter().try_fold(o, |o, (queue, slots)| o.slots_for(queue, slots))
    };
    prefetch: usize;
    max_duplications: u16 = |o| o.max_duplications, |o, v| {
        let times = NonZeroU16::new(v)
            .ok_or_else(|| Error::invalid("max_duplications 0 is not valid: it must be 1 or more"))?;
        Ok(o.max_duplications(times))
    };
    dead_letter: Option<QueueName> => dead_letter;
    grace: queue_core::InSeconds;
    recheck: queue_core::InSeconds;
    until_empty: bool => until_empty;
    log_errors: bool => logs_errors;
}
