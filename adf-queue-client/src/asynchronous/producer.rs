//! The async producer.

use std::{fmt, sync::Arc, task::Poll};

use bytes::Bytes;
use queue_core::{
    Limit, Measures, Opening, lock, now,
    sync::{Mutex, MutexGuard},
};
use tokio::time::timeout_at;

use crate::{
    ConnectionState, Deadline, Error, MessageId, ProducerEventKind, ProducerOptions,
    ProducerReport, QueueName, Result,
    asynchronous::link::Link,
    protocol::{
        Action,
        client::{Answer, Ask},
        producer::{Course, Router, Step},
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
    inner: Arc<Inner>,
}

struct Inner {
    options: ProducerOptions,
    links: Vec<Link>,
    router: Mutex<Router>,
    /// Attempts to connect to doubtful servers, for which nobody waits.
    attempts: Mutex<Vec<Option<u64>>>,
    report: Mutex<ProducerReport>,
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
            match producer.ask(server, Ask::Ready, limit).await {
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
        let links: Vec<_> = options.servers.options().iter().cloned().map(Link::new).collect();
        let router = Mutex::new(Router::of(&options));
        let attempts = Mutex::new(vec![None; links.len()]);
        let inner = Inner { options, links, router, attempts, report: Mutex::default() };
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
        self.push(Action::Lpush, None, queue.try_into()?, body.into()).await
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
        self.push(Action::Rpush, None, queue.try_into()?, body.into()).await
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
        self.push(Action::Lpush, Some(key.as_ref()), queue.try_into()?, body.into()).await
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
        self.push(Action::Rpush, Some(key.as_ref()), queue.try_into()?, body.into()).await
    }

    async fn push(
        &self,
        action: Action,
        key: Option<&[u8]>,
        queue: QueueName,
        body: Bytes,
    ) -> Result<MessageId> {
        let servers = self.inner.options.servers.options();
        let measures = servers.first().map_or(Measures::none(), |server| &server.measures);
        let only = match servers {
            [only] => Some(&only.address),
            _ => None,
        };
        let mut operation = trace::push(measures, only, action, &queue, body.len());
        let span = operation.span().clone();
        let pushing = self.push_to_some(action, key, queue, body);
        let (outcome, server) = span.follow(pushing).await;
        let took = server.and_then(|server| servers.get(server)).map(|server| &server.address);
        trace::pushed(&mut operation, took.filter(|_| only.is_none()), &outcome);
        outcome
    }

    /// Pushes a message; returns the outcome and the last server that it went to.
    async fn push_to_some(
        &self,
        action: Action,
        key: Option<&[u8]>,
        queue: QueueName,
        body: Bytes,
    ) -> (Result<MessageId>, Option<usize>) {
        let mut last = None;
        let limit = Limit::of(Deadline::Total, Some(self.inner.options.timeout));
        let course = Course::new(key, limit, self.inner.options.terms());
        let mut course = course.to(&queue, &self.router());
        self.try_doubtful();
        let outcome = loop {
            let step = self.step(|router| course.next(router, now()));
            let over = match step {
                Err(error) => Some(Err(error)),
                Ok(Step::Wait(at, back)) => {
                    let _ = timeout_at(at.into(), back.wait()).await;
                    None
                }
                Ok(Step::Create(server)) => {
                    let ask = Ask::Plain(Action::CreateQueue, queue.clone(), Bytes::new());
                    let outcome = self.ask_in_time(&course, server, ask, limit).await;
                    let outcome = outcome.and_then(Answer::done);
                    let before = course.counts.created;
                    let over = self.step(|router| course.created(router, server, outcome, now()));
                    if course.counts.created > before {
                        self.inner
                            .options
                            .tell(vec![(server, ProducerEventKind::Created(queue.clone()))]);
                    }
                    over
                }
                Ok(Step::Count(server)) => {
                    let ask = Ask::Plain(Action::Count, queue.clone(), Bytes::new());
                    let outcome = self.ask_in_time(&course, server, ask, limit).await;
                    let outcome = outcome.and_then(Answer::counted);
                    self.step(|router| course.counted(router, server, outcome, now()))
                }
                Ok(Step::Push(server)) => {
                    last = Some(server);
                    let ask = Ask::Plain(action, queue.clone(), body.clone());
                    let outcome = self.ask_in_time(&course, server, ask, limit).await;
                    let outcome = outcome.and_then(Answer::pushed);
                    self.step(|router| course.pushed(router, server, outcome, now()))
                }
            };
            if let Some(outcome) = over {
                break outcome;
            }
        };
        self.counted().count(&outcome, course.counts);
        (outcome, last)
    }

    /// Pings servers that have failed, while another one has the pushes: a connection alone may be one that is silent.
    /// Later pushes see the outcome.
    fn try_doubtful(&self) {
        let doubtful = self.router().doubtful(now());
        for (server, may_try) in doubtful {
            let Some(link) = self.inner.links.get(server) else { continue };
            let outcome = {
                let mut attempts = lock(&self.inner.attempts);
                let Some(attempt) = attempts.get_mut(server) else { continue };
                match *attempt {
                    Some(number) => match link.try_outcome(number) {
                        Poll::Ready(outcome) => {
                            *attempt = None;
                            Some(outcome.map(drop))
                        }
                        Poll::Pending => None,
                    },
                    None if may_try => {
                        let limit = link.options().connecting_limit();
                        let begun = link.begin(Ask::Ping, limit);
                        begun.map(|number| *attempt = Some(number)).err().map(Err)
                    }
                    None => None,
                }
            };
            if let Some(outcome) = outcome {
                self.step(|router| router.tried(server, outcome, now()));
            }
        }
    }

    /// Asks a server, which may take its share of the time to connect.
    async fn ask_in_time(
        &self,
        course: &Course,
        server: usize,
        ask: Ask,
        limit: Limit,
    ) -> Result<Answer> {
        let link = self.inner.links.get(server);
        let is_ready = link.is_some_and(|link| link.connection_state() == ConnectionState::Ready);
        if !is_ready {
            let connecting = course.connecting(&self.router(), server, limit, now());
            if let Some(connecting) = connecting {
                self.ask(server, Ask::Ready, connecting).await?;
            }
        }
        self.ask(server, ask, limit).await
    }

    async fn ask(&self, server: usize, ask: Ask, limit: Limit) -> Result<Answer> {
        match self.inner.links.get(server) {
            Some(link) => link.run(ask, limit).await,
            None => Err(Error::invalid("there is no such server")),
        }
    }

    /// Runs a step on the router, and reports the events of its servers.
    fn step<T>(&self, step: impl FnOnce(&mut Router) -> T) -> T {
        let mut router = self.router();
        let outcome = step(&mut router);
        let (events, mut later) = (router.take_events(), router.take_later());
        drop(router);
        later.run();
        self.inner.options.tell(events);
        outcome
    }

    fn router(&self) -> MutexGuard<'_, Router> {
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

impl fmt::Debug for Producer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Producer")
            .field("options", &self.inner.options)
            .field("report", &self.report())
            .finish_non_exhaustive()
    }
}
