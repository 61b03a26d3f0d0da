//! The blocking producer.

use std::{
    fmt,
    sync::mpsc::{self, TryRecvError},
};

use bytes::Bytes;
use queue_core::{
    Limit, Measures, Opening, lock, now,
    sync::{Mutex, MutexGuard, spawn},
};

use super::link::ServerLink;
use crate::{
    ConnectOptions, Error, MessageId, ProducerOptions, ProducerReport, Push, QueueName, Result,
    protocol::{
        client::{Ask, AskAnswer},
        producer::{
            ProducerServers,
            attempts::{PushAttempts, PushStep},
        },
    },
    trace,
};

/// Pushes messages for any number of threads, which share it by reference, to one or more servers. Each message goes to
/// one server, selected by [`Selection`](crate::Selection).
///
/// A push waits for its answer, and a connection has one push in flight at a time. Threads that push to a server at the
/// same time therefore have separate connections, which are kept for later pushes: the throughput of one thread is
/// limited by the round trip, and that of several grows with their number. For many concurrent pushes over one
/// connection, use the async [`Producer`](crate::Producer).
///
/// | what happens to a push | what the producer does |
/// |---|---|
/// | its server cannot be reached, or is lost before the last byte was sent | the next server has it; without one it waits, within its [timeout](ProducerOptions::timeout) |
/// | its server is lost after that, before the answer | fails with [`Fate::Unknown`](crate::Fate::Unknown), or is sent again ([`at_least_once`](ProducerOptions::at_least_once)) |
/// | there is no such queue | fails with `Refused(QueueNotFound)`, or creates it ([`create_queues`](ProducerOptions::create_queues)) |
/// | its time expires | fails with `Timeout(Total)`, and says why no server took it |
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = fixtures::adf_queue::Server::start()?;
/// # let address = server.address();
/// use adf_queue_client::{ProducerOptions, blocking::Producer};
///
/// let options: ProducerOptions = address.parse()?; // or several: "one:6230,two:6230"
/// let producer = Producer::new(options.create_queues(true))?;
/// producer.rpush("/mail", "hello")?;
/// assert_eq!(producer.report().to_string(), "1 message pushed, 1 queue created");
/// # Ok(())
/// # }
/// ```
pub struct Producer {
    options: ProducerOptions,
    pools: Vec<IdleConnections>,
    router: Mutex<ProducerServers>,
    report: Mutex<ProducerReport>,
}

/// The idle connections to one server. There are never more than the maximum number of concurrent pushes, and one.
struct IdleConnections {
    options: ConnectOptions,
    idle: Mutex<Vec<ServerLink>>,
    /// An attempt to connect, in a thread of its own.
    attempt: Mutex<Option<mpsc::Receiver<Result<ServerLink>>>>,
}

impl Producer {
    /// Creates a producer and connects it to the first reachable server; each is tried once. Otherwise as
    /// [`new`](Self::new).
    ///
    /// # Errors
    ///
    /// When no server can be reached, the error of the last: `Connect`, `Timeout(Connect)`, `Tls`, or `Protocol` when
    /// something else answers. Otherwise as [`new`](Self::new).
    pub fn connect<O>(options: O) -> Result<Self>
    where
        O: TryInto<ProducerOptions>,
        Error: From<O::Error>,
    {
        let producer = Self::new(options)?;
        let mut last = Error::invalid("there is no server");
        let servers = producer.options.servers.options();
        let mut opening = Opening::new(0..servers.len(), Limit::never());
        while let Some((server, limit)) = opening.next_server(now()) {
            let Some(options) = servers.get(server) else { continue };
            let limit = limit.sooner(options.connecting_limit());
            match producer.pool(server)?.ask(Ask::Ready, None, limit) {
                Ok(_) => return Ok(producer),
                Err(error) => last = error,
            }
            // The first push goes to another one.
            producer.step(|router| router.tried(server, Err(last.share()), now()));
        }
        Err(last)
    }

    /// Creates a producer that connects when the first message is pushed, from [`ProducerOptions`],
    /// [`ConnectOptions`](crate::ConnectOptions), or comma-separated addresses.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for an invalid address; `Unsupported` for an HTTP transport.
    pub fn new<O>(options: O) -> Result<Self>
    where
        O: TryInto<ProducerOptions>,
        Error: From<O::Error>,
    {
        let options = options.try_into()?.checked()?;
        let pools = options.servers.options().iter().cloned().map(IdleConnections::new).collect();
        let router = Mutex::new(ProducerServers::of(&options));
        Ok(Producer { options, pools, router, report: Mutex::default() })
    }

    /// Adds a message at the left end of a queue, where it is pulled next (`lpush`). Returns its number in the queue of
    /// the server that took it.
    ///
    /// # Errors
    ///
    /// See the table of the [producer](Self); `InvalidInput` for a message that cannot be sent.
    pub fn lpush<Q>(&self, queue: Q, body: impl Into<Bytes>) -> Result<MessageId>
    where
        Q: TryInto<QueueName>,
        Error: From<Q::Error>,
    {
        self.push(None, Push::left(queue.try_into()?, body))
    }

    /// Adds a message at the right end of a queue (`rpush`); see [`lpush`](Self::lpush).
    ///
    /// # Errors
    ///
    /// As [`lpush`](Self::lpush).
    pub fn rpush<Q>(&self, queue: Q, body: impl Into<Bytes>) -> Result<MessageId>
    where
        Q: TryInto<QueueName>,
        Error: From<Q::Error>,
    {
        self.push(None, Push::right(queue.try_into()?, body))
    }

    /// As [`lpush`](Self::lpush), on the server selected by this key with
    /// [`Selection::ByKey`](crate::Selection::ByKey); other selections ignore it.
    ///
    /// # Errors
    ///
    /// As [`lpush`](Self::lpush).
    pub fn lpush_by_key<Q>(
        &self,
        key: impl AsRef<[u8]>,
        queue: Q,
        body: impl Into<Bytes>,
    ) -> Result<MessageId>
    where
        Q: TryInto<QueueName>,
        Error: From<Q::Error>,
    {
        self.push(Some(key.as_ref()), Push::left(queue.try_into()?, body))
    }

    /// As [`rpush`](Self::rpush), with a key; see [`lpush_by_key`](Self::lpush_by_key).
    ///
    /// # Errors
    ///
    /// As [`lpush`](Self::lpush).
    pub fn rpush_by_key<Q>(
        &self,
        key: impl AsRef<[u8]>,
        queue: Q,
        body: impl Into<Bytes>,
    ) -> Result<MessageId>
    where
        Q: TryInto<QueueName>,
        Error: From<Q::Error>,
    {
        self.push(Some(key.as_ref()), Push::right(queue.try_into()?, body))
    }

    fn push(&self, key: Option<&[u8]>, push: Push) -> Result<MessageId> {
        let servers = self.options.servers.options();
        let measures = servers.first().map_or(Measures::none(), |server| &server.measures);
        let only = match servers {
            [only] => Some(&only.address),
            _ => None,
        };
        let mut operation = trace::push(measures, only, &push);
        let span = operation.span().clone();
        let mut push = PushAttempts::new(push, key, self.options.terms());
        let outcome = span.run(|| self.take_steps(&mut push));
        let took = push.server.and_then(|server| servers.get(server)).map(|one| &one.address);
        trace::pushed(&mut operation, took.filter(|_| only.is_none()), &outcome);
        outcome
    }

    /// Takes the steps of a push until its outcome is known.
    fn take_steps(&self, push: &mut PushAttempts) -> Result<MessageId> {
        self.try_doubtful();
        let mut answer = None;
        loop {
            let last = answer.take();
            match self.step(|router| push.next(last, router, now())) {
                PushStep::Ask { server, connecting } => {
                    let ask =
                        |pool: &IdleConnections| pool.ask(push.request(), connecting, push.limit());
                    answer = Some(self.pool(server).and_then(ask));
                }
                PushStep::Wait(at, back) => {
                    let _ = back.wait_timeout(at.saturating_duration_since(now()));
                }
                PushStep::Done(outcome) => {
                    self.counted().count(&outcome, push.counts);
                    return outcome;
                }
            }
        }
    }

    /// Connects to servers that have failed, while another one has the pushes. Later pushes see the outcome.
    fn try_doubtful(&self) {
        let doubtful = self.router().doubtful(now());
        for (server, may_try) in doubtful {
            if let Some(outcome) = self.pools.get(server).and_then(|pool| pool.try_aside(may_try)) {
                self.step(|router| router.tried(server, outcome, now()));
            }
        }
    }

    fn pool(&self, server: usize) -> Result<&IdleConnections> {
        self.pools.get(server).ok_or_else(|| Error::invalid("there is no such server"))
    }

    /// Runs a step on the router, and reports the events of its servers.
    fn step<T>(&self, step: impl FnOnce(&mut ProducerServers) -> T) -> T {
        let mut router = self.router();
        let outcome = step(&mut router);
        let (events, mut later) = (router.take_events(), router.take_later());
        drop(router);
        later.run();
        self.options.notify(events);
        outcome
    }

    fn router(&self) -> MutexGuard<'_, ProducerServers> {
        lock(&self.router)
    }

    fn counted(&self) -> MutexGuard<'_, ProducerReport> {
        lock(&self.report)
    }

    /// The producer's counters so far.
    #[must_use]
    pub fn report(&self) -> ProducerReport {
        *self.counted()
    }
}

impl IdleConnections {
    fn new(options: ConnectOptions) -> Self {
        IdleConnections { options, idle: Mutex::default(), attempt: Mutex::default() }
    }

    /// The outcome of the attempt to connect, once it has ended. If there is none and `may_try` is set, one is started.
    fn try_aside(&self, may_try: bool) -> Option<Result<()>> {
        let mut attempt = lock(&self.attempt);
        if let Some(started) = &*attempt {
            let outcome = started.try_recv();
            if !matches!(outcome, Err(TryRecvError::Empty)) {
                *attempt = None;
            }
            return Some(outcome.ok()?.map(|link| self.idle().push(link)));
        }
        if may_try {
            let options = self.options.clone();
            let (outcome, started) = mpsc::sync_channel(1);
            let connects = move || {
                let limit = options.connecting_limit();
                let mut link = ServerLink::new(options);
                let ready = link.run(Ask::Ready, limit);
                // The producer may be gone.
                let _ = outcome.send(ready.map(|_| link));
            };
            // Without room for a thread, a later push starts it.
            *attempt = spawn("connecting", connects).is_ok().then_some(started);
        }
        None
    }

    /// Makes a request. Connecting first may have a limit of its own.
    fn ask(&self, ask: Ask, connecting: Option<Limit>, limit: Limit) -> Result<AskAnswer> {
        // The most recently used one is the least likely to be stale.
        let idle = self.idle().pop();
        let mut link = idle.unwrap_or_else(|| ServerLink::new(self.options.clone()));
        let connecting = connecting.filter(|_| !link.is_connected());
        let ready = connecting.map_or(Ok(()), |limit| link.run(Ask::Ready, limit).map(drop));
        let outcome = ready.and_then(|()| link.run(ask, limit));
        self.idle().push(link);
        outcome
    }

    fn idle(&self) -> MutexGuard<'_, Vec<ServerLink>> {
        lock(&self.idle)
    }
}

impl fmt::Debug for Producer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Producer")
            .field("options", &self.options)
            .field("report", &self.report())
            .finish_non_exhaustive()
    }
}
