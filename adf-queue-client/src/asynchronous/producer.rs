//! The async producer.

use std::{
    fmt,
    sync::{Arc, TryLockError},
    task::Poll,
};

use bytes::Bytes;
use queue_core::{
    Limit, Measures, Opening, lock, now,
    sync::{Mutex, MutexGuard},
};
use tokio::time::timeout_at;

use crate::{
    ConnectOptions, ConnectionState, Error, MessageId, ProducerOptions, ProducerReport, Push,
    QueueName, Result,
    asynchronous::link::ServerLink,
    protocol::{
        client::{Ask, AskAnswer},
        producer::{
            ProducerServers,
            attempts::{PushAttempts, PushStep},
        },
    },
    trace,
};

/// Pushes messages for any number of tasks, to one or more servers.
///
/// Clones are cheap and share everything: one WebSocket connection to each server, with any number of pushes in flight.
/// Each message goes to one server, selected by [`Selection`](crate::Selection).
///
/// | what happens to a push | what the producer does |
/// |---|---|
/// | its server cannot be reached, or is lost before the last byte was sent | the next server has it; without one it waits, within its [timeout](ProducerOptions::timeout) |
/// | its server is lost after that, before the answer | fails with [`Fate::Unknown`](crate::Fate::Unknown), or is sent again ([`at_least_once`](ProducerOptions::at_least_once)) |
/// | there is no such queue | fails with `Refused(QueueNotFound)`, or creates it ([`create_queues`](ProducerOptions::create_queues)) |
/// | its time expires | fails with `Timeout(Total)`, and says why no server took it |
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = fixtures::adf_queue::Server::start()?;
/// # let address = server.address();
/// use adf_queue_client::{Producer, ProducerOptions};
///
/// let options: ProducerOptions = address.parse()?; // or several: "one:6230,two:6230"
/// let producer = Producer::new(options.create_queues(true))?;
/// producer.rpush("/mail", "hello").await?;
/// assert_eq!(producer.report().to_string(), "1 message pushed, 1 queue created");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Producer {
    inner: Arc<ProducerInner>,
}

struct ProducerInner {
    options: ProducerOptions,
    servers: Vec<ProducerServer>,
    router: Mutex<ProducerServers>,
    report: Mutex<ProducerReport>,
}

struct ProducerServer {
    link: ServerLink,
    /// A ping for which nobody waits, while the server is doubtful.
    ping: Mutex<Option<u64>>,
}

impl Producer {
    /// Creates a producer and connects it to the first reachable server; each is tried once. Otherwise as
    /// [`new`](Self::new).
    ///
    /// # Errors
    ///
    /// When no server can be reached, the error of the last: `Connect`, `Timeout(Connect)`, `Tls`, or `Protocol` when
    /// something else answers. Otherwise as [`new`](Self::new), and `InvalidInput` outside of a tokio runtime.
    ///
    /// # Cancel safety
    ///
    /// Dropping closes the half-made connection.
    pub async fn connect<O>(options: O) -> Result<Self>
    where
        O: TryInto<ProducerOptions>,
        Error: From<O::Error>,
    {
        let producer = Self::new(options)?;
        let mut last = Error::invalid("there is no server");
        let servers = producer.inner.options.servers.options();
        let mut opening = Opening::new(0..servers.len(), Limit::never());
        while let Some((server, limit)) = opening.next_server(now()) {
            let Some(options) = servers.get(server) else { continue };
            let limit = limit.sooner(options.connecting_limit());
            match producer.server(server)?.link.run(Ask::Ready, limit).await {
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
        let servers = options.servers.options().iter().cloned().map(ProducerServer::new).collect();
        let router = Mutex::new(ProducerServers::of(&options));
        let inner = ProducerInner { options, servers, router, report: Mutex::default() };
        Ok(Producer { inner: Arc::new(inner) })
    }

    /// Adds a message at the left end of a queue, where it is pulled next (`lpush`). Returns its number in the queue of
    /// the server that took it.
    ///
    /// # Errors
    ///
    /// See the table of the [producer](Self); `InvalidInput` for a message that cannot be sent, and outside of a tokio
    /// runtime.
    ///
    /// # Cancel safety
    ///
    /// A call that was never polled has sent nothing. Otherwise the message may be pushed, once, or not at all.
    pub async fn lpush<Q>(&self, queue: Q, body: impl Into<Bytes>) -> Result<MessageId>
    where
        Q: TryInto<QueueName>,
        Error: From<Q::Error>,
    {
        self.push(None, Push::left(queue.try_into()?, body)).await
    }

    /// Adds a message at the right end of a queue (`rpush`); see [`lpush`](Self::lpush).
    ///
    /// # Errors
    ///
    /// As [`lpush`](Self::lpush).
    ///
    /// # Cancel safety
    ///
    /// As [`lpush`](Self::lpush).
    pub async fn rpush<Q>(&self, queue: Q, body: impl Into<Bytes>) -> Result<MessageId>
    where
        Q: TryInto<QueueName>,
        Error: From<Q::Error>,
    {
        self.push(None, Push::right(queue.try_into()?, body)).await
    }

    /// As [`lpush`](Self::lpush), on the server selected by this key with
    /// [`Selection::ByKey`](crate::Selection::ByKey); other selections ignore it.
    ///
    /// # Errors
    ///
    /// As [`lpush`](Self::lpush).
    ///
    /// # Cancel safety
    ///
    /// As [`lpush`](Self::lpush).
    pub async fn lpush_by_key<Q>(
        &self,
        key: impl AsRef<[u8]>,
        queue: Q,
        body: impl Into<Bytes>,
    ) -> Result<MessageId>
    where
        Q: TryInto<QueueName>,
        Error: From<Q::Error>,
    {
        self.push(Some(key.as_ref()), Push::left(queue.try_into()?, body)).await
    }

    /// As [`rpush`](Self::rpush), with a key; see [`lpush_by_key`](Self::lpush_by_key).
    ///
    /// # Errors
    ///
    /// As [`lpush`](Self::lpush).
    ///
    /// # Cancel safety
    ///
    /// As [`lpush`](Self::lpush).
    pub async fn rpush_by_key<Q>(
        &self,
        key: impl AsRef<[u8]>,
        queue: Q,
        body: impl Into<Bytes>,
    ) -> Result<MessageId>
    where
        Q: TryInto<QueueName>,
        Error: From<Q::Error>,
    {
        self.push(Some(key.as_ref()), Push::right(queue.try_into()?, body)).await
    }

    async fn push(&self, key: Option<&[u8]>, push: Push) -> Result<MessageId> {
        let servers = self.inner.options.servers.options();
        let measures = servers.first().map_or(Measures::none(), |server| &server.measures);
        let only = match servers {
            [only] => Some(&only.address),
            _ => None,
        };
        let mut operation = trace::push(measures, only, &push);
        let span = operation.span().clone();
        let mut push = PushAttempts::new(push, key, self.inner.options.terms());
        let outcome = span.follow(self.take_steps(&mut push)).await;
        let took = push.server.and_then(|server| servers.get(server)).map(|one| &one.address);
        trace::pushed(&mut operation, took.filter(|_| only.is_none()), &outcome);
        outcome
    }

    /// Takes the steps of a push until its outcome is known.
    async fn take_steps(&self, push: &mut PushAttempts) -> Result<MessageId> {
        self.try_doubtful();
        let mut answer = None;
        loop {
            let last = answer.take();
            match self.step(|router| push.next(last, router, now())) {
                PushStep::Ask { server, connecting } => {
                    answer = Some(self.ask(push, server, connecting).await);
                }
                PushStep::Wait(at, back) => {
                    let _ = timeout_at(at.into(), back.wait()).await;
                }
                PushStep::Done(outcome) => {
                    self.counted().count(&outcome, push.counts);
                    return outcome;
                }
            }
        }
    }

    /// Pings servers that have failed, while another one has the pushes: a connection alone may be one that is silent.
    /// Later pushes see the outcome.
    fn try_doubtful(&self) {
        let doubtful = self.router().doubtful(now());
        for (index, may_try) in doubtful {
            let server = self.inner.servers.get(index);
            if let Some(outcome) = server.and_then(|server| server.try_aside(may_try)) {
                self.step(|router| router.tried(index, outcome, now()));
            }
        }
    }

    /// Makes the request of a push. Connecting first may have a limit of its own.
    async fn ask(
        &self,
        push: &PushAttempts,
        server: usize,
        connecting: Option<Limit>,
    ) -> Result<AskAnswer> {
        let ProducerServer { link, .. } = self.server(server)?;
        if let Some(limit) = connecting
            && link.connection_state() != ConnectionState::Ready
        {
            link.call(Ask::Ready, limit)?.await?;
        }
        link.call(push.request(), push.limit())?.await
    }

    fn server(&self, server: usize) -> Result<&ProducerServer> {
        self.inner.servers.get(server).ok_or_else(|| Error::invalid("there is no such server"))
    }

    /// Runs a step on the router, and reports the events of its servers.
    fn step<T>(&self, step: impl FnOnce(&mut ProducerServers) -> T) -> T {
        let mut router = self.router();
        let outcome = step(&mut router);
        let (events, mut later) = (router.take_events(), router.take_later());
        drop(router);
        later.run();
        self.inner.options.notify(events);
        outcome
    }

    fn router(&self) -> MutexGuard<'_, ProducerServers> {
        lock(&self.inner.router)
    }

    fn counted(&self) -> MutexGuard<'_, ProducerReport> {
        lock(&self.inner.report)
    }

    /// The producer's counters so far.
    #[must_use]
    pub fn report(&self) -> ProducerReport {
        *self.counted()
    }
}

impl ProducerServer {
    fn new(options: ConnectOptions) -> Self {
        ProducerServer { link: ServerLink::new(options), ping: Mutex::default() }
    }

    /// The outcome of the ping, once it has ended. If there is none and `may_try` is set, one is sent.
    fn try_aside(&self, may_try: bool) -> Option<Result<()>> {
        // Nobody waits for this lock: observers of the link may push, too.
        let mut ping = match self.ping.try_lock() {
            Ok(ping) => ping,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        match *ping {
            Some(number) => {
                let Poll::Ready(outcome) = self.link.try_outcome(number) else { return None };
                *ping = None;
                Some(outcome.map(drop))
            }
            None if may_try => {
                let begun = self.link.begin(Ask::Ping, self.link.options().connecting_limit());
                begun.map(|number| *ping = Some(number)).err().map(Err)
            }
            None => None,
        }
    }
}

impl fmt::Debug for Producer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Producer")
            .field("options", &self.inner.options)
            .field("report", &self.report())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each push holds its future, and thousands may be in flight.
    #[test]
    fn the_future_of_a_push_is_small() {
        let producer = Producer::new("one,two".parse::<ProducerOptions>().unwrap()).unwrap();
        let size = size_of_val(&producer.rpush("/q", "hello"));
        assert!(size <= 1100, "{size} bytes");
    }

    /// A panic of an observer poisons the lock.
    #[tokio::test]
    async fn a_server_is_tried_again_although_a_try_has_panicked() {
        let server = ProducerServer::new("localhost:1".parse().unwrap());
        let panicked = std::thread::scope(|scope| {
            let observer = scope.spawn(|| {
                let _ping = lock(&server.ping);
                panic!("on purpose");
            });
            observer.join().is_err()
        });
        assert!(panicked);
        assert!(server.try_aside(true).is_none());
        assert!(lock(&server.ping).is_some(), "a ping is under way");
    }
}
