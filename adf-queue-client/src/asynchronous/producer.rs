//! The async producer.

mod in_flight;
mod receipt;

use std::{
    fmt,
    sync::{Arc, TryLockError},
    task::Poll,
    time::Instant,
};

use queue_core::{Limit, lock, now, sync::Mutex};
use tokio::time::timeout_at;

use self::in_flight::InFlight;
pub use self::receipt::Receipt;
use crate::{
    ConnectOptions, ConnectionState, Error, MessageId, ProducerOptions, ProducerReport, Push,
    QueueName, Result,
    asynchronous::link::ServerLink,
    produce::servers::{Awaits, PushServer, PushServers},
    protocol::{
        client::{Ask, AskAnswer},
        producer::attempts::PushAttempts,
    },
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
/// assert_eq!(producer.close().await.to_string(), "1 message pushed, 1 queue created");
/// # Ok(())
/// # }
/// ```
///
/// # The end
///
/// [`close`](Self::close) waits for the answers to all accepted pushes. If the last clone is dropped instead, pushes of
/// [`enqueue`](Self::enqueue) are still carried out in the background, for as long as the runtime runs.
#[derive(Clone)]
pub struct Producer {
    inner: Arc<ProducerInner>,
}

struct ProducerInner {
    servers: PushServers<ProducerServer>,
    in_flight: Arc<InFlight>,
    report: Mutex<ProducerReport>,
}

struct ProducerServer {
    link: ServerLink,
    /// A background ping, while the server is doubtful.
    ping: Mutex<Option<u64>>,
}

crate::faces::producer_methods!(async await "\n# Cancel safety\n\n");

impl Producer {
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
        let in_flight = InFlight::new(options.max_messages);
        let servers = PushServers::new(options);
        let inner = ProducerInner { servers, in_flight, report: Mutex::default() };
        Ok(Producer { inner: Arc::new(inner) })
    }

    async fn push(&self, key: Option<&[u8]>, push: Push) -> Result<MessageId> {
        let _entered = self.inner.in_flight.enter()?;
        let mut operation = self.inner.servers.operation(&push);
        let span = operation.span().clone();
        let (mut push, awaits) = span.run(|| self.inner.servers.start(push, key));
        let outcome = span.follow(self.inner.complete(&mut push, awaits)).await;
        self.inner.servers.pushed(&mut operation, push.server, &outcome);
        outcome
    }

    /// Pushes a message to the right end of a queue without waiting for the server's answer. The [`Receipt`] returns
    /// the answer. This way, one task can have many pushes in flight. Waits for room while
    /// [`max_messages`](ProducerOptions::max_messages) are in flight.
    ///
    /// The push is carried out whether or not anybody waits. Over a connection that is there, pushes go out in the
    /// order in which they were enqueued.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for an invalid name, and outside of a tokio runtime; `Closed` after [`close`](Self::close).
    /// Anything else is the answer.
    ///
    /// # Cancel safety
    ///
    /// A dropped call has queued nothing.
    pub async fn enqueue<Q>(&self, queue: Q, body: impl AsRef<[u8]>) -> Result<Receipt>
    where
        Q: TryInto<QueueName>,
        Error: From<Q::Error>,
    {
        let push = Push::right(queue.try_into()?, body);
        let runtime = queue_core::runtime("producer")?;
        let inner = self.inner.clone();
        let entered = inner.in_flight.enter_if_room().await?;
        let mut operation = inner.servers.operation(&push);
        let span = operation.span().clone();
        let (mut push, awaits) = span.run(|| inner.servers.start(push, None));
        let task = runtime.spawn(async move {
            let outcome = span.follow(inner.complete(&mut push, awaits)).await;
            inner.servers.pushed(&mut operation, push.server, &outcome);
            drop(entered);
            outcome
        });
        Ok(Receipt::new(task))
    }

    /// The servers, unless the producer is closed.
    fn open_servers(&self) -> Result<&PushServers<ProducerServer>> {
        self.inner.in_flight.check_open()?;
        Ok(&self.inner.servers)
    }

    /// Waits until every push accepted so far is answered or has timed out.
    ///
    /// # Cancel safety
    ///
    /// Dropping it only ends the wait.
    pub async fn flush(&self) {
        self.inner.in_flight.passed().await;
    }

    /// Accepts no further push from any clone, waits until every accepted one is answered or has timed out, closes the
    /// connections, and returns a report.
    ///
    /// # Cancel safety
    ///
    /// The producer is closed in any case; calling it again continues to wait.
    pub async fn close(&self) -> ProducerReport {
        self.inner.in_flight.close();
        self.flush().await;
        self.inner.servers.servers.iter().for_each(|server| server.link.close());
        self.report()
    }

    /// The producer's counters so far.
    #[must_use]
    pub fn report(&self) -> ProducerReport {
        *lock(&self.inner.report)
    }

    /// The state of its connection; the best one if it has several. `Idle` means that there is nothing to send, not
    /// that the server is there: see [`check`](Self::check).
    #[must_use]
    pub fn state(&self) -> ConnectionState {
        self.inner.servers.state(self.inner.in_flight.is_over())
    }
}

impl ProducerInner {
    /// Waits for the outcome of a push.
    async fn complete(&self, push: &mut PushAttempts, mut awaits: Awaits) -> Result<MessageId> {
        loop {
            let answer = match awaits {
                Awaits::Answer { server, number, connects } => {
                    Some(self.answer(push, server, number, connects).await)
                }
                Awaits::Server(at, back) => {
                    let _ = timeout_at(at.into(), back.wait()).await;
                    None
                }
                Awaits::Nothing(outcome) => {
                    lock(&self.report).count(&outcome, push.counts);
                    return outcome;
                }
            };
            awaits = self.servers.advance(push, answer, now());
        }
    }

    async fn answer(
        &self,
        push: &PushAttempts,
        server: usize,
        number: u64,
        connects: bool,
    ) -> Result<AskAnswer> {
        let ProducerServer { link, .. } = self.servers.server(server)?;
        let answer = link.wait(number).await?;
        if connects {
            link.wait(link.begin(push.request(), push.limit(), now())?).await
        } else {
            Ok(answer)
        }
    }
}

impl PushServer for ProducerServer {
    fn new(options: ConnectOptions) -> Self {
        ProducerServer { link: ServerLink::new(options), ping: Mutex::default() }
    }

    fn begin(&self, ask: Ask, limit: Limit, now: Instant) -> Result<u64> {
        self.link.begin(ask, limit, now)
    }

    fn state(&self) -> ConnectionState {
        self.link.connection_state()
    }

    fn try_aside(&self, may_try: bool) -> Option<Result<()>> {
        // No caller waits for this lock: observers of the link may push, too.
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
                let begun = self.link.begin(Ask::Ping, self.link.options.connecting_limit(), now());
                begun.map(|number| *ping = Some(number)).err().map(Err)
            }
            None => None,
        }
    }
}

impl fmt::Debug for Producer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Producer")
            .field("options", &self.inner.servers.options)
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
