//! The async client.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use queue_core::{ConnectionState, Epoch, Limit, Stream};

use crate::{
    Address, ConnectOptions, Deadline, Delivery, Error, ErrorKind, MessageId, Metrics, Push,
    QueueName, QueueStats, Refusal, RequestId, Result, Stats,
    http::Http,
    link::Link,
    protocol::{
        Action, Request, Success,
        client::{Answer, Ask},
    },
    trace,
};

/// A client of an Adf.QueueServer.
///
/// It is `Clone` and shared freely. Over WebSocket all clones use one connection, driven by a task of its own, and any number
/// of calls can be under way on it, pulls that wait included. The task ends when the last clone is dropped: the server is
/// told, and gives back what was pulled and not settled.
///
/// Over HTTP each request has a connection of its own, which is kept for the next one for 5 seconds where the server allows;
/// a push ends it. [`max_connections`](ConnectOptions::max_connections) bounds them. What was pulled is bound to no connection: it stays pulled until somebody deletes
/// it or puts it back, [by its id](Self::delete_pulled) if need be, also when this client has gone. And the server has no way to
/// take a pull back. So one that was given up stays under way, and its message goes to the next pull of its queue by this
/// client or its clones. Beyond 16 of them further pulls are refused; those that are left when the client is dropped are told to
/// `tracing` with their ids, for [`recover`](Self::recover). No proxy is used, and no redirect followed.
///
/// When the connection is lost, each call that waits on it fails and says what became of its request ([`Error::fate`]),
/// unless the request certainly did not reach the server: then it goes over a new connection, within the
/// [retry policy](crate::RetryPolicy). A [`count`](Self::count), and over WebSocket a [`pull`](Self::pull), is sent again
/// whatever became of the connection. What a lost WebSocket had pulled is the server's again ([`JobLost`](ErrorKind::JobLost)).
///
/// # Cancel safety
///
/// Every call may be dropped at any await point. One that was never polled has sent nothing, and what waits for a connection is
/// not sent any more. After that the request may or may not be carried out; the connection stays in step, because its driver
/// reads what still comes and passes over it. No message is lost by a dropped pull; see [`pull`](Self::pull).
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
}

struct Inner {
    options: ConnectOptions,
    way: Way,
}

/// How the server is spoken to.
enum Way {
    WebSocket(Box<Link>),
    Http(Box<Http>),
}

impl Client {
    /// Connects to a server: `"127.0.0.1:6230"`, `"adf+json://queue:6230"`, an [`Address`] or [`ConnectOptions`]. There is one
    /// attempt: what is wrong at the start is told at once.
    ///
    /// # Errors
    ///
    /// `Connect`, `Timeout(Connect)` or `Tls`; `Protocol` when something else answers there; `InvalidInput` for a wrong
    /// address, and outside of a tokio runtime.
    ///
    /// # Cancel safety
    ///
    /// Dropping closes the half-made connection.
    pub async fn connect<O>(options: O) -> Result<Self>
    where
        O: TryInto<ConnectOptions>,
        Error: From<O::Error>,
    {
        let client = Self::new(options)?;
        client.ready().await?;
        Ok(client)
    }

    /// A client that connects at its first call, which then has all attempts of the
    /// [retry policy](crate::RetryPolicy): for a service that may start before its server.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a wrong address.
    pub fn new<O>(options: O) -> Result<Self>
    where
        O: TryInto<ConnectOptions>,
        Error: From<O::Error>,
    {
        let options: ConnectOptions = options.try_into()?;
        options.check()?;
        let way = match options.address.transport().is_http() {
            true => Way::Http(Box::new(Http::new(options.clone()))),
            false => Way::WebSocket(Box::new(Link::new(options.clone()))),
        };
        Ok(Client { inner: Arc::new(Inner { options, way }) })
    }

    /// Uses a stream that the caller has connected, and upgrades it. Such a client cannot reconnect; of the address in
    /// `options` only the transport and the name of the host count. A TCP stream should have `TCP_NODELAY` set.
    ///
    /// # Errors
    ///
    /// Any failure of the upgrade; `Unsupported` for a transport over HTTP, which needs more than one connection.
    ///
    /// # Cancel safety
    ///
    /// Dropping closes the stream.
    pub async fn from_stream(
        stream: impl Stream + 'static,
        options: ConnectOptions,
    ) -> Result<Self> {
        options.check_stream()?;
        let link = Link::for_stream(options.clone(), Box::new(stream))?;
        let client =
            Client { inner: Arc::new(Inner { options, way: Way::WebSocket(Box::new(link)) }) };
        client.ready().await?;
        Ok(client)
    }

    async fn ready(&self) -> Result<()> {
        let limit = self.inner.options.total_limit().named(Deadline::Connect);
        self.inner.way.run(Ask::Ready, limit).await?.done()
    }

    async fn run(&self, ask: Ask, limit: Limit) -> Result<Answer> {
        let span = trace::call(&self.inner.options.address, &ask);
        span.follow(self.inner.way.run(ask, limit)).await
    }

    async fn run_in_total(&self, ask: Ask) -> Result<Answer> {
        self.run(ask, self.inner.options.total_limit()).await
    }

    async fn plain<Q>(&self, action: Action, queue: Q, body: Bytes) -> Result<Answer>
    where
        Q: TryInto<QueueName>,
        Error: From<Q::Error>,
    {
        self.run_in_total(Ask::Plain(action, queue.try_into()?, body)).await
    }

    /// The connection that calls share; none over HTTP.
    pub(crate) fn link(&self) -> Option<&Link> {
        match &self.inner.way {
            Way::WebSocket(link) => Some(link),
            Way::Http(_) => None,
        }
    }

    /// Asks over it, and does not wait.
    pub(crate) fn begin(&self, link: &Link, ask: Ask) -> Result<u64> {
        link.begin(ask, self.inner.options.total_limit())
    }

    /// Pushes a message, and waits.
    pub(crate) async fn push(&self, push: Push) -> Result<MessageId> {
        self.run_in_total(push.into_ask()).await?.pushed()
    }

    /// Adds a message at the left end of a queue, where it is pulled next (`lpush`). Gives its number in the queue.
    ///
    /// # Errors
    ///
    /// `Refused(QueueNotFound)`: nothing but [`create_queue`](Self::create_queue) makes a queue. `InvalidInput` for a body that
    /// the transport cannot carry: over 65,535 bytes in binary frames, no UTF-8 in JSON. A failure of the connection, where
    /// [`fate`](Error::fate) tells whether the message may be there.
    ///
    /// # Cancel safety
    ///
    /// As for the [client](Self#cancel-safety).
    pub async fn lpush<Q>(&self, queue: Q, body: impl Into<Bytes>) -> Result<MessageId>
    where
        Q: TryInto<QueueName>,
        Error: From<Q::Error>,
    {
        self.plain(Action::Lpush, queue, body.into()).await?.pushed()
    }

    /// Adds a message at the right end of a queue (`rpush`); see [`lpush`](Self::lpush).
    ///
    /// # Errors
    ///
    /// As [`lpush`](Self::lpush).
    ///
    /// # Cancel safety
    ///
    /// As for the [client](Self#cancel-safety).
    pub async fn rpush<Q>(&self, queue: Q, body: impl Into<Bytes>) -> Result<MessageId>
    where
        Q: TryInto<QueueName>,
        Error: From<Q::Error>,
    {
        self.plain(Action::Rpush, queue, body.into()).await?.pushed()
    }

    /// Takes the leftmost message of a queue, and waits as long as it takes for one (`pull`). Whoever waits longest has the
    /// next message. A connection that is lost meanwhile is made again, within the retry policy.
    ///
    /// A queue that is deleted while a pull waits never answers it, not even when it is made again.
    ///
    /// # Errors
    ///
    /// `Refused(QueueNotFound)`, and a failure of the connection; over HTTP [`request_id`](Error::request_id) then has the id
    /// that the message is found by, should the server have sent one. `Unsupported` over HTTP when too many pulls were given up.
    ///
    /// # Cancel safety
    ///
    /// No message is lost. A pull cannot be taken back, so it stays under way, and its message goes to the next pull of this
    /// queue by this client or its clones. Over a thousand pulls that nobody waits for any more, the connection is closed to give
    /// their messages back; over HTTP there is no such way, and a pull that is still under way when the last clone is dropped
    /// takes a message that only [`recover`](Self::recover) brings back.
    pub async fn pull<Q>(&self, queue: Q) -> Result<Delivery>
    where
        Q: TryInto<QueueName>,
        Error: From<Q::Error>,
    {
        self.run(Ask::Pull(queue.try_into()?), Limit::never()).await?.message()
    }

    /// The same for at most this time; `None` when no message came.
    ///
    /// Over HTTP the queue is counted, at growing intervals of up to a second, and pulled from once there is a message. Should
    /// another client be quicker, this may take up to the reply timeout longer.
    ///
    /// # Errors
    ///
    /// As [`pull`](Self::pull).
    ///
    /// # Cancel safety
    ///
    /// As [`pull`](Self::pull): what comes too late goes to the next pull of the queue.
    pub async fn pull_within<Q>(&self, queue: Q, time: Duration) -> Result<Option<Delivery>>
    where
        Q: TryInto<QueueName>,
        Error: From<Q::Error>,
    {
        let limit = Limit::of(Deadline::Total, Some(time));
        self.run(Ask::Pull(queue.try_into()?), limit).await?.delivery()
    }

    /// Takes the leftmost message of a queue if there is one: `count`, and then a pull for at most the reply timeout, because
    /// others may be quicker.
    ///
    /// # Errors
    ///
    /// As [`pull`](Self::pull).
    ///
    /// # Cancel safety
    ///
    /// As [`pull`](Self::pull).
    pub async fn try_pull<Q>(&self, queue: Q) -> Result<Option<Delivery>>
    where
        Q: TryInto<QueueName>,
        Error: From<Q::Error>,
    {
        self.run_in_total(Ask::TryPull(queue.try_into()?)).await?.delivery()
    }

    async fn settle(&self, action: Action, delivery: &Delivery) -> Result<()> {
        let (queue, id) = (delivery.queue().clone(), *delivery.request_id());
        self.run_in_total(Ask::Settle(action, queue, id, delivery.epoch())).await?.done()
    }

    /// Removes a message that was pulled (`delete`).
    ///
    /// # Errors
    ///
    /// `JobLost` when the connection that pulled it is gone. `Refused(NotPulled)` when it is settled already.
    ///
    /// # Cancel safety
    ///
    /// As for the [client](Self#cancel-safety).
    pub async fn delete(&self, delivery: &Delivery) -> Result<()> {
        self.settle(Action::Delete, delivery).await
    }

    /// Puts a message that was pulled back at the left end of its queue (`lcancel`).
    ///
    /// The server wakes no pull that waits: the message lies there until the next pull or push.
    ///
    /// # Errors
    ///
    /// As [`delete`](Self::delete).
    ///
    /// # Cancel safety
    ///
    /// As for the [client](Self#cancel-safety).
    pub async fn lcancel(&self, delivery: &Delivery) -> Result<()> {
        self.settle(Action::Lcancel, delivery).await
    }

    /// Puts a message that was pulled back at the right end of its queue (`rcancel`); see [`lcancel`](Self::lcancel).
    ///
    /// # Errors
    ///
    /// As [`delete`](Self::delete).
    ///
    /// # Cancel safety
    ///
    /// As for the [client](Self#cancel-safety).
    pub async fn rcancel(&self, delivery: &Delivery) -> Result<()> {
        self.settle(Action::Rcancel, delivery).await
    }

    /// How many messages are ready (`count`). Pulled ones are not counted, and no pulls that wait.
    ///
    /// # Errors
    ///
    /// `Refused(QueueNotFound)`, and a failure of the connection.
    ///
    /// # Cancel safety
    ///
    /// As for the [client](Self#cancel-safety).
    pub async fn count<Q>(&self, queue: Q) -> Result<u32>
    where
        Q: TryInto<QueueName>,
        Error: From<Q::Error>,
    {
        self.plain(Action::Count, queue, Bytes::new()).await?.counted()
    }

    /// Removes all messages that are ready, and says how many (`clear`). Pulled ones stay with whoever pulled them.
    ///
    /// # Errors
    ///
    /// As [`count`](Self::count).
    ///
    /// # Cancel safety
    ///
    /// As for the [client](Self#cancel-safety).
    pub async fn clear<Q>(&self, queue: Q) -> Result<u32>
    where
        Q: TryInto<QueueName>,
        Error: From<Q::Error>,
    {
        self.plain(Action::Clear, queue, Bytes::new()).await?.counted()
    }

    /// Creates a queue (`createqueue`).
    ///
    /// # Errors
    ///
    /// `Refused(QueueExists)`; see [`ensure_queue`](Self::ensure_queue).
    ///
    /// # Cancel safety
    ///
    /// As for the [client](Self#cancel-safety).
    pub async fn create_queue<Q>(&self, queue: Q) -> Result<()>
    where
        Q: TryInto<QueueName>,
        Error: From<Q::Error>,
    {
        self.plain(Action::CreateQueue, queue, Bytes::new()).await?.done()
    }

    /// Creates a queue unless it exists. Whether it was created.
    ///
    /// # Errors
    ///
    /// A failure of the connection.
    ///
    /// # Cancel safety
    ///
    /// As for the [client](Self#cancel-safety).
    pub async fn ensure_queue<Q>(&self, queue: Q) -> Result<bool>
    where
        Q: TryInto<QueueName>,
        Error: From<Q::Error>,
    {
        match self.create_queue(queue).await {
            Err(error) if *error.kind() == ErrorKind::Refused(Refusal::QueueExists) => Ok(false),
            outcome => outcome.map(|()| true),
        }
    }

    /// Removes a queue and its ready messages (`deletequeue`). Pulls that wait for it are never answered.
    ///
    /// # Errors
    ///
    /// As [`count`](Self::count).
    ///
    /// # Cancel safety
    ///
    /// As for the [client](Self#cancel-safety).
    pub async fn delete_queue<Q>(&self, queue: Q) -> Result<()>
    where
        Q: TryInto<QueueName>,
        Error: From<Q::Error>,
    {
        self.plain(Action::DeleteQueue, queue, Bytes::new()).await?.done()
    }

    /// Asks for a sign of life: the server is alive, and speaks the protocol.
    ///
    /// # Errors
    ///
    /// A failure of the connection.
    ///
    /// # Cancel safety
    ///
    /// As for the [client](Self#cancel-safety).
    pub async fn ping(&self) -> Result<()> {
        self.run_in_total(Ask::Ping).await?.done()
    }

    /// Sends any request as it is, and waits for its answer: a pull as long as it takes.
    ///
    /// # Errors
    ///
    /// What the server refused, and any failure of the connection. `InvalidInput` for an id that is under way, or a pull by a
    /// number that this client has used.
    ///
    /// # Cancel safety
    ///
    /// As for the [client](Self#cancel-safety), and for [`pull`](Self::pull).
    pub async fn call(&self, request: Request) -> Result<Success> {
        let limit = match request.action() {
            Action::Pull => Limit::never(),
            _ => self.inner.options.total_limit(),
        };
        self.run(Ask::Raw(request), limit).await?.success()
    }

    /// Takes the leftmost message by a pull of this id, over HTTP: the message can be found by it whatever becomes of the call.
    ///
    /// # Errors
    ///
    /// As [`pull`](Self::pull). `Unsupported` over WebSocket, where a message goes back when the connection ends.
    ///
    /// # Cancel safety
    ///
    /// The server goes on waiting. What it sends goes to the next [`pull`](Self::pull) of this queue by this client or its clones;
    /// without one, [`recover`](Self::recover) puts it back.
    pub async fn pull_with_id<Q>(&self, queue: Q, id: RequestId) -> Result<Delivery>
    where
        Q: TryInto<QueueName>,
        Error: From<Q::Error>,
    {
        self.by_id(Action::Pull, queue.try_into()?, &id).await?.message()
    }

    /// Removes the message that the pull of this id brought, over HTTP.
    ///
    /// # Errors
    ///
    /// `Refused(NotPulled)`. `Unsupported` over WebSocket, where only the connection that pulled a message can act on it.
    ///
    /// # Cancel safety
    ///
    /// As for the [client](Self#cancel-safety).
    pub async fn delete_pulled<Q>(&self, queue: Q, id: &RequestId) -> Result<()>
    where
        Q: TryInto<QueueName>,
        Error: From<Q::Error>,
    {
        self.by_id(Action::Delete, queue.try_into()?, id).await?.done()
    }

    /// Puts the message that the pull of this id brought back at the left end, over HTTP. The queue has to be the one that it
    /// was pulled from: the server moves it to another, and loses it when there is none.
    ///
    /// # Errors
    ///
    /// As [`delete_pulled`](Self::delete_pulled).
    ///
    /// # Cancel safety
    ///
    /// As for the [client](Self#cancel-safety).
    pub async fn lcancel_pulled<Q>(&self, queue: Q, id: &RequestId) -> Result<()>
    where
        Q: TryInto<QueueName>,
        Error: From<Q::Error>,
    {
        self.by_id(Action::Lcancel, queue.try_into()?, id).await?.done()
    }

    /// The same at the right end; see [`lcancel_pulled`](Self::lcancel_pulled).
    ///
    /// # Errors
    ///
    /// As [`delete_pulled`](Self::delete_pulled).
    ///
    /// # Cancel safety
    ///
    /// As for the [client](Self#cancel-safety).
    pub async fn rcancel_pulled<Q>(&self, queue: Q, id: &RequestId) -> Result<()>
    where
        Q: TryInto<QueueName>,
        Error: From<Q::Error>,
    {
        self.by_id(Action::Rcancel, queue.try_into()?, id).await?.done()
    }

    /// Puts a message back that a pull over HTTP brought to nobody: [`lcancel_pulled`](Self::lcancel_pulled).
    ///
    /// # Errors
    ///
    /// As [`delete_pulled`](Self::delete_pulled).
    ///
    /// # Cancel safety
    ///
    /// As for the [client](Self#cancel-safety).
    pub async fn recover<Q>(&self, queue: Q, id: &RequestId) -> Result<()>
    where
        Q: TryInto<QueueName>,
        Error: From<Q::Error>,
    {
        self.lcancel_pulled(queue, id).await
    }

    async fn by_id(&self, action: Action, queue: QueueName, id: &RequestId) -> Result<Answer> {
        self.inner.options.check_by_id(action)?;
        self.run_in_total(Ask::Settle(action, queue, *id, None)).await
    }

    /// What the server tells of itself and of up to 100 queues, from its status page: the only place that tells of pulls that
    /// wait, of pulled messages, and which queues there are. It is asked over HTTP, whatever the transport, at the same address.
    ///
    /// It is made for people: a queue whose name holds the text of a whole row of the page may pass for another.
    ///
    /// # Errors
    ///
    /// `Protocol` for another page, or when the server did not get to its queues. A failure of the connection.
    ///
    /// # Cancel safety
    ///
    /// It only asks.
    pub async fn stats(&self) -> Result<Stats> {
        Stats::parse(&self.page(None).await?)
    }

    /// The same for one queue; `None` when there is no such queue.
    ///
    /// # Errors
    ///
    /// As [`stats`](Self::stats), and `InvalidInput` for a name that makes a request of over 512 bytes in its line.
    ///
    /// # Cancel safety
    ///
    /// It only asks.
    pub async fn queue_stats<Q>(&self, queue: Q) -> Result<Option<QueueStats>>
    where
        Q: TryInto<QueueName>,
        Error: From<Q::Error>,
    {
        let queue = queue.try_into()?;
        QueueStats::parse(&self.page(Some(&queue)).await?, &queue)
    }

    async fn page(&self, queue: Option<&QueueName>) -> Result<Bytes> {
        let limit = self.inner.options.total_limit();
        match &self.inner.way {
            Way::WebSocket(_) => Http::new(self.inner.options.clone()).page(queue, limit).await,
            Way::Http(http) => http.page(queue, limit).await,
        }
    }

    /// Connects again now: the old connection is closed, and the server gives back what it had pulled.
    ///
    /// # Errors
    ///
    /// As [`connect`](Self::connect).
    ///
    /// # Cancel safety
    ///
    /// The old connection is closed; the next call connects again.
    pub async fn reconnect(&self) -> Result<()> {
        match &self.inner.way {
            Way::WebSocket(link) => link.disconnect(),
            Way::Http(http) => http.disconnect(),
        }
        self.ready().await
    }

    /// The server's address.
    #[must_use]
    pub fn address(&self) -> &Address {
        &self.inner.options.address
    }

    /// Whether the connection is good. A server that has gone is noticed at once.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.connection_state() == ConnectionState::Ready
    }

    /// What the connection is doing. A server that has gone is noticed at once.
    #[must_use]
    pub fn connection_state(&self) -> ConnectionState {
        match &self.inner.way {
            Way::WebSocket(link) => link.connection_state(),
            Way::Http(http) => http.connection_state(),
        }
    }

    /// What this client and its clones have done so far, over all their connections.
    #[must_use]
    pub fn metrics(&self) -> Metrics {
        match &self.inner.way {
            Way::WebSocket(link) => link.metrics(),
            Way::Http(http) => http.metrics(),
        }
    }

    /// The number of the present connection, or of the last one; `None` before the first.
    #[must_use]
    pub fn epoch(&self) -> Option<Epoch> {
        match &self.inner.way {
            Way::WebSocket(link) => link.epoch(),
            Way::Http(_) => None,
        }
    }
}

impl Way {
    async fn run(&self, ask: Ask, limit: Limit) -> Result<Answer> {
        match self {
            Way::WebSocket(link) => link.run(ask, limit).await,
            // It is large, and no call over WebSocket is to pay for it.
            Way::Http(http) => Box::pin(http.run(ask, limit)).await,
        }
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client")
            .field("address", &self.address().to_string())
            .field("state", &self.connection_state())
            .finish_non_exhaustive()
    }
}
