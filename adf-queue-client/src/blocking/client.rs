//! The blocking client.

use std::time::Duration;

use bytes::Bytes;
use queue_core::{ConnectionState, Epoch, Limit, blocking::Transport};

use super::{Stream, http::Http, link::Link};

use crate::{
    Address, ConnectOptions, Deadline, Delivery, Error, ErrorKind, MessageId, Metrics, Push,
    QueueName, QueueStats, Refusal, RequestId, Result, Stats,
    protocol::{
        Action, Request, Success,
        client::{Answer, Ask},
    },
    trace,
};

/// A client of an Adf.QueueServer.
///
/// Calls take `&mut self` and need no runtime and no thread. Over WebSocket there is one connection; dropping the client tells
/// the server, which gives back what was pulled and not settled.
///
/// The server gives nothing back while the client exists, also when nobody calls it: it asks for a sign of life only while a
/// call waits.
///
/// Over HTTP each request has a connection of its own, which is kept for the next one for 5 seconds where the server allows;
/// a push ends it. What was pulled is bound to no connection: it stays pulled until somebody deletes
/// it or puts it back, [by its id](Self::delete_pulled) if need be, also when this client has gone. And the server has no way to
/// take a pull back. So one that was given up stays under way, and its message goes to the next pull of its queue by this
/// client. Beyond 16 of them further pulls are refused; those that are left when the client is dropped are told to
/// `tracing` with their ids, for [`recover`](Self::recover). No proxy is used, and no redirect followed.
///
/// When the connection is lost, the call that notices fails and says what became of its request ([`Error::fate`]), unless
/// the request certainly did not reach the server: then it goes over a new connection, within the
/// [retry policy](crate::RetryPolicy). A [`count`](Self::count), and over WebSocket a [`pull`](Self::pull), is sent again
/// whatever became of the connection. What a lost WebSocket had pulled is the server's again ([`JobLost`](ErrorKind::JobLost)).
pub struct Client {
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
    /// address.
    pub fn connect<O>(options: O) -> Result<Self>
    where
        O: TryInto<ConnectOptions>,
        Error: From<O::Error>,
    {
        let mut client = Self::new(options)?;
        client.ready()?;
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
        Ok(Client { options, way })
    }

    /// Uses a stream that the caller has connected, and upgrades it. Such a client cannot reconnect; of the address in
    /// `options` only the transport and the name of the host count. A TCP stream should have `TCP_NODELAY` set.
    ///
    /// # Errors
    ///
    /// `Connect` when the stream takes no timeouts; any failure of the upgrade; `Unsupported` for a transport over HTTP, which needs more than one connection.
    pub fn from_stream(stream: impl Stream + 'static, options: ConnectOptions) -> Result<Self> {
        options.check_stream()?;
        let transport = Transport::new(Box::new(stream))
            .map_err(|error| queue_core::Error::cannot_connect(&options.address, error))?;
        let link = Link::over(transport, options.clone());
        let mut client = Client { options, way: Way::WebSocket(Box::new(link)) };
        client.ready()?;
        Ok(client)
    }

    fn ready(&mut self) -> Result<()> {
        let limit = self.options.total_limit().named(Deadline::Connect);
        self.way.run(Ask::Ready, limit)?.done()
    }

    fn run(&mut self, ask: Ask, limit: Limit) -> Result<Answer> {
        let span = trace::call(&self.options.address, &ask);
        span.run(|| self.way.run(ask, limit))
    }

    fn run_in_total(&mut self, ask: Ask) -> Result<Answer> {
        self.run(ask, self.options.total_limit())
    }

    fn plain<Q>(&mut self, action: Action, queue: Q, body: Bytes) -> Result<Answer>
    where
        Q: TryInto<QueueName>,
        Error: From<Q::Error>,
    {
        self.run_in_total(Ask::Plain(action, queue.try_into()?, body))
    }

    /// What a call that starts now has for it all.
    pub(super) fn total_limit(&self) -> Limit {
        self.options.total_limit()
    }

    /// The connection that calls share; none over HTTP.
    pub(super) fn link(&mut self) -> Option<&mut Link> {
        match &mut self.way {
            Way::WebSocket(link) => Some(link),
            Way::Http(_) => None,
        }
    }

    /// Pushes a message, and waits.
    pub(super) fn push(&mut self, push: Push) -> Result<MessageId> {
        self.run_in_total(push.into_ask())?.pushed()
    }

    /// Adds a message at the left end of a queue, where it is pulled next (`lpush`). Gives its number in the queue.
    ///
    /// # Errors
    ///
    /// `Refused(QueueNotFound)`: nothing but [`create_queue`](Self::create_queue) makes a queue. `InvalidInput` for a body that
    /// the transport cannot carry: over 65,535 bytes in binary frames, no UTF-8 in JSON. A failure of the connection, where
    /// [`fate`](Error::fate) tells whether the message may be there.
    pub fn lpush<Q>(&mut self, queue: Q, body: impl Into<Bytes>) -> Result<MessageId>
    where
        Q: TryInto<QueueName>,
        Error: From<Q::Error>,
    {
        self.plain(Action::Lpush, queue, body.into())?.pushed()
    }

    /// Adds a message at the right end of a queue (`rpush`); see [`lpush`](Self::lpush).
    ///
    /// # Errors
    ///
    /// As [`lpush`](Self::lpush).
    pub fn rpush<Q>(&mut self, queue: Q, body: impl Into<Bytes>) -> Result<MessageId>
    where
        Q: TryInto<QueueName>,
        Error: From<Q::Error>,
    {
        self.plain(Action::Rpush, queue, body.into())?.pushed()
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
    pub fn pull<Q>(&mut self, queue: Q) -> Result<Delivery>
    where
        Q: TryInto<QueueName>,
        Error: From<Q::Error>,
    {
        self.run(Ask::Pull(queue.try_into()?), Limit::never())?.message()
    }

    /// The same for at most this time; `None` when no message came. What comes too late goes to the next pull of the queue by
    /// this client: a pull cannot be taken back. Over a thousand pulls that nobody waits for any more, a WebSocket is closed to
    /// give their messages back.
    ///
    /// Over HTTP the queue is counted, at growing intervals of up to a second, and pulled from once there is a message. Should
    /// another client be quicker, this may take up to the reply timeout longer.
    ///
    /// # Errors
    ///
    /// As [`pull`](Self::pull).
    pub fn pull_within<Q>(&mut self, queue: Q, time: Duration) -> Result<Option<Delivery>>
    where
        Q: TryInto<QueueName>,
        Error: From<Q::Error>,
    {
        let limit = Limit::of(Deadline::Total, Some(time));
        self.run(Ask::Pull(queue.try_into()?), limit)?.delivery()
    }

    /// Takes the leftmost message of a queue if there is one: `count`, and then a pull for at most the reply timeout, because
    /// others may be quicker.
    ///
    /// # Errors
    ///
    /// As [`pull`](Self::pull).
    pub fn try_pull<Q>(&mut self, queue: Q) -> Result<Option<Delivery>>
    where
        Q: TryInto<QueueName>,
        Error: From<Q::Error>,
    {
        self.run_in_total(Ask::TryPull(queue.try_into()?))?.delivery()
    }

    fn settle(&mut self, action: Action, delivery: &Delivery) -> Result<()> {
        let (queue, id) = (delivery.queue().clone(), *delivery.request_id());
        self.run_in_total(Ask::Settle(action, queue, id, delivery.epoch()))?.done()
    }

    /// Removes a message that was pulled (`delete`).
    ///
    /// # Errors
    ///
    /// `JobLost` when the connection that pulled it is gone. `Refused(NotPulled)` when it is settled already.
    pub fn delete(&mut self, delivery: &Delivery) -> Result<()> {
        self.settle(Action::Delete, delivery)
    }

    /// Puts a message that was pulled back at the left end of its queue (`lcancel`).
    ///
    /// The server wakes no pull that waits: the message lies there until the next pull or push.
    ///
    /// # Errors
    ///
    /// As [`delete`](Self::delete).
    pub fn lcancel(&mut self, delivery: &Delivery) -> Result<()> {
        self.settle(Action::Lcancel, delivery)
    }

    /// Puts a message that was pulled back at the right end of its queue (`rcancel`); see [`lcancel`](Self::lcancel).
    ///
    /// # Errors
    ///
    /// As [`delete`](Self::delete).
    pub fn rcancel(&mut self, delivery: &Delivery) -> Result<()> {
        self.settle(Action::Rcancel, delivery)
    }

    /// How many messages are ready (`count`). Pulled ones are not counted, and no pulls that wait.
    ///
    /// # Errors
    ///
    /// `Refused(QueueNotFound)`, and a failure of the connection.
    pub fn count<Q>(&mut self, queue: Q) -> Result<u32>
    where
        Q: TryInto<QueueName>,
        Error: From<Q::Error>,
    {
        self.plain(Action::Count, queue, Bytes::new())?.counted()
    }

    /// Removes all messages that are ready, and says how many (`clear`). Pulled ones stay with whoever pulled them.
    ///
    /// # Errors
    ///
    /// As [`count`](Self::count).
    pub fn clear<Q>(&mut self, queue: Q) -> Result<u32>
    where
        Q: TryInto<QueueName>,
        Error: From<Q::Error>,
    {
        self.plain(Action::Clear, queue, Bytes::new())?.counted()
    }

    /// Creates a queue (`createqueue`).
    ///
    /// # Errors
    ///
    /// `Refused(QueueExists)`; see [`ensure_queue`](Self::ensure_queue).
    pub fn create_queue<Q>(&mut self, queue: Q) -> Result<()>
    where
        Q: TryInto<QueueName>,
        Error: From<Q::Error>,
    {
        self.plain(Action::CreateQueue, queue, Bytes::new())?.done()
    }

    /// Creates a queue unless it exists. Whether it was created.
    ///
    /// # Errors
    ///
    /// A failure of the connection.
    pub fn ensure_queue<Q>(&mut self, queue: Q) -> Result<bool>
    where
        Q: TryInto<QueueName>,
        Error: From<Q::Error>,
    {
        match self.create_queue(queue) {
            Err(error) if *error.kind() == ErrorKind::Refused(Refusal::QueueExists) => Ok(false),
            outcome => outcome.map(|()| true),
        }
    }

    /// Removes a queue and its ready messages (`deletequeue`). Pulls that wait for it are never answered.
    ///
    /// # Errors
    ///
    /// As [`count`](Self::count).
    pub fn delete_queue<Q>(&mut self, queue: Q) -> Result<()>
    where
        Q: TryInto<QueueName>,
        Error: From<Q::Error>,
    {
        self.plain(Action::DeleteQueue, queue, Bytes::new())?.done()
    }

    /// Asks for a sign of life: the server is alive, and speaks the protocol.
    ///
    /// # Errors
    ///
    /// A failure of the connection.
    pub fn ping(&mut self) -> Result<()> {
        self.run_in_total(Ask::Ping)?.done()
    }

    /// Sends any request as it is, and waits for its answer: a pull as long as it takes.
    ///
    /// # Errors
    ///
    /// What the server refused, and any failure of the connection. `InvalidInput` for an id that is under way, or a pull by a
    /// number that this client has used.
    pub fn call(&mut self, request: Request) -> Result<Success> {
        let limit = match request.action() {
            Action::Pull => Limit::never(),
            _ => self.options.total_limit(),
        };
        self.run(Ask::Raw(request), limit)?.success()
    }

    /// Takes the leftmost message by a pull of this id, over HTTP: the message can be found by it whatever becomes of the call.
    ///
    /// # Errors
    ///
    /// As [`pull`](Self::pull). `Unsupported` over WebSocket, where a message goes back when the connection ends.
    pub fn pull_with_id<Q>(&mut self, queue: Q, id: RequestId) -> Result<Delivery>
    where
        Q: TryInto<QueueName>,
        Error: From<Q::Error>,
    {
        self.by_id(Action::Pull, queue.try_into()?, &id)?.message()
    }

    /// Removes the message that the pull of this id brought, over HTTP.
    ///
    /// # Errors
    ///
    /// `Refused(NotPulled)`. `Unsupported` over WebSocket, where only the connection that pulled a message can act on it.
    pub fn delete_pulled<Q>(&mut self, queue: Q, id: &RequestId) -> Result<()>
    where
        Q: TryInto<QueueName>,
        Error: From<Q::Error>,
    {
        self.by_id(Action::Delete, queue.try_into()?, id)?.done()
    }

    /// Puts the message that the pull of this id brought back at the left end, over HTTP. The queue has to be the one that it
    /// was pulled from: the server moves it to another, and loses it when there is none.
    ///
    /// # Errors
    ///
    /// As [`delete_pulled`](Self::delete_pulled).
    pub fn lcancel_pulled<Q>(&mut self, queue: Q, id: &RequestId) -> Result<()>
    where
        Q: TryInto<QueueName>,
        Error: From<Q::Error>,
    {
        self.by_id(Action::Lcancel, queue.try_into()?, id)?.done()
    }

    /// The same at the right end; see [`lcancel_pulled`](Self::lcancel_pulled).
    ///
    /// # Errors
    ///
    /// As [`delete_pulled`](Self::delete_pulled).
    pub fn rcancel_pulled<Q>(&mut self, queue: Q, id: &RequestId) -> Result<()>
    where
        Q: TryInto<QueueName>,
        Error: From<Q::Error>,
    {
        self.by_id(Action::Rcancel, queue.try_into()?, id)?.done()
    }

    /// Puts a message back that a pull over HTTP brought to nobody: [`lcancel_pulled`](Self::lcancel_pulled).
    ///
    /// # Errors
    ///
    /// As [`delete_pulled`](Self::delete_pulled).
    pub fn recover<Q>(&mut self, queue: Q, id: &RequestId) -> Result<()>
    where
        Q: TryInto<QueueName>,
        Error: From<Q::Error>,
    {
        self.lcancel_pulled(queue, id)
    }

    fn by_id(&mut self, action: Action, queue: QueueName, id: &RequestId) -> Result<Answer> {
        self.options.check_by_id(action)?;
        self.run_in_total(Ask::Settle(action, queue, *id, None))
    }

    /// What the server tells of itself and of up to 100 queues, from its status page: the only place that tells of pulls that
    /// wait, of pulled messages, and which queues there are. It is asked over HTTP, whatever the transport, at the same address.
    ///
    /// It is made for people: a queue whose name holds the text of a whole row of the page may pass for another.
    ///
    /// # Errors
    ///
    /// `Protocol` for another page, or when the server did not get to its queues. A failure of the connection.
    pub fn stats(&mut self) -> Result<Stats> {
        Stats::parse(&self.page(None)?)
    }

    /// The same for one queue; `None` when there is no such queue.
    ///
    /// # Errors
    ///
    /// As [`stats`](Self::stats), and `InvalidInput` for a name that makes a request of over 512 bytes in its line.
    pub fn queue_stats<Q>(&mut self, queue: Q) -> Result<Option<QueueStats>>
    where
        Q: TryInto<QueueName>,
        Error: From<Q::Error>,
    {
        let queue = queue.try_into()?;
        QueueStats::parse(&self.page(Some(&queue))?, &queue)
    }

    fn page(&mut self, queue: Option<&QueueName>) -> Result<Bytes> {
        let limit = self.options.total_limit();
        match &mut self.way {
            Way::WebSocket(_) => Http::new(self.options.clone()).page(queue, limit),
            Way::Http(http) => http.page(queue, limit),
        }
    }

    /// Connects again now: the old connection is closed, and the server gives back what it had pulled.
    ///
    /// # Errors
    ///
    /// As [`connect`](Self::connect).
    pub fn reconnect(&mut self) -> Result<()> {
        match &mut self.way {
            Way::WebSocket(link) => link.disconnect(),
            Way::Http(http) => http.disconnect(),
        }
        self.ready()
    }

    /// The server's address.
    #[must_use]
    pub fn address(&self) -> &Address {
        &self.options.address
    }

    /// Whether the connection was good when it was last used; over HTTP, whether the server answered then.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        match &self.way {
            Way::WebSocket(link) => link.is_connected(),
            Way::Http(http) => http.connection_state() == ConnectionState::Ready,
        }
    }

    /// Looks, without waiting, whether the server has closed the connection while nobody used it. What has come
    /// meanwhile is read, and kept for whoever asks for it.
    ///
    /// ```
    /// let server = fixtures::adf_queue::Server::start()?;
    /// let mut client = adf_queue_client::blocking::Client::connect(server.address())?;
    /// assert!(client.check_connection());
    /// server.stop();
    /// while client.check_connection() {} // the end of the connection may be on its way
    /// assert!(!client.is_connected());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn check_connection(&mut self) -> bool {
        match &mut self.way {
            Way::WebSocket(link) => link.look(),
            // No message is lost with a connection over HTTP, and each may end at any time.
            Way::Http(_) => {}
        }
        self.is_connected()
    }

    /// Bounds each call from now on, as [`ConnectOptions::total_timeout`] does.
    pub fn set_total_timeout(&mut self, timeout: Option<Duration>) {
        self.options.server.total_timeout = timeout;
    }

    /// What the connection was doing when it was last used. A server that has gone since is noticed by the next call.
    #[must_use]
    pub fn connection_state(&self) -> ConnectionState {
        match &self.way {
            Way::WebSocket(link) => link.connection_state(),
            Way::Http(http) => http.connection_state(),
        }
    }

    /// What this client has done so far, over all its connections.
    #[must_use]
    pub fn metrics(&self) -> &Metrics {
        match &self.way {
            Way::WebSocket(link) => link.metrics(),
            Way::Http(http) => http.metrics(),
        }
    }

    /// The number of the present connection, or of the last one; `None` before the first.
    #[must_use]
    pub fn epoch(&self) -> Option<Epoch> {
        match &self.way {
            Way::WebSocket(link) => link.epoch(),
            Way::Http(_) => None,
        }
    }
}

impl Way {
    fn run(&mut self, ask: Ask, limit: Limit) -> Result<Answer> {
        match self {
            Way::WebSocket(link) => link.run(ask, limit),
            Way::Http(http) => http.run(ask, limit),
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
