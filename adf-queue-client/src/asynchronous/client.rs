//! The async client.

mod requests;

use std::sync::Arc;

use bytes::Bytes;
use queue_core::{ConnectionState, Duplex, Epoch, Limit};

use crate::{
    Address, ConnectOptions, Deadline, Error, MessageId, Metrics, Push, QueueName, Result,
    asynchronous::{http::Http, link::Link},
    protocol::client::{Answer, Ask},
    trace,
};

/// A client of an Adf.QueueServer.
///
/// It is `Clone` and can be shared freely. Over WebSocket, all clones use one connection, driven by its own task, and
/// any number of calls can be in flight on it, including waiting pulls. The task ends when the last clone is dropped:
/// the server is notified, and takes back messages that were pulled and not settled. There is nothing to reset, and no
/// pool is needed: nothing else of one call is left for the next, and [`reconnect`](Self::reconnect) gives back what is
/// pulled now.
///
/// Over HTTP, each request has its own connection, which is kept for the next one for 5 seconds if the server allows; a
/// push ends it. [`max_connections`](ConnectOptions::max_connections) limits them. Pulled messages are bound to no
/// connection: they stay pulled until any client deletes them or puts them back, [by id](Self::delete_pulled) if
/// necessary, even after this client has gone. And the server cannot cancel a pull. So an abandoned pull stays in
/// flight, and its message goes to the next pull of its queue by this client or its clones. Beyond 16 of them, further
/// pulls are refused; those left when the client is dropped are reported to `tracing` with their ids, for
/// [`recover`](Self::recover). No proxy is used, and no redirect followed.
///
/// When the connection is lost, each call waiting on it fails and reports the fate of its request ([`Error::fate`]),
/// unless the request definitely did not reach the server: then it goes over a new connection, within the [retry
/// policy](crate::RetryPolicy). A [`count`](Self::count), and over WebSocket a [`pull`](Self::pull), is always sent
/// again. Messages pulled over a lost WebSocket return to the server ([`JobLost`](crate::ErrorKind::JobLost)).
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
    /// Connects to a server: `"127.0.0.1:6230"`, `"adf+json://queue:6230"`, an [`Address`] or [`ConnectOptions`]. There
    /// is one attempt: startup errors are reported immediately.
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
        stream: impl Duplex + 'static,
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
        self.run_about(ask, None, limit).await
    }

    /// The same for what acts on a message.
    async fn run_about(
        &self,
        ask: Ask,
        message: Option<MessageId>,
        limit: Limit,
    ) -> Result<Answer> {
        let options = &self.inner.options;
        let mut operation = trace::call(&options.measures, &options.address, &ask, message);
        let span = operation.span().clone();
        let outcome = span.follow(self.inner.way.run(ask, limit)).await;
        trace::answered(&mut operation, &outcome);
        outcome
    }

    async fn run_in_total(&self, ask: Ask) -> Result<Answer> {
        self.run(ask, self.inner.options.total_limit()).await
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

    pub(crate) fn options(&self) -> &ConnectOptions {
        &self.inner.options
    }

    /// Pushes a message, and waits.
    pub(crate) async fn push(&self, push: Push) -> Result<MessageId> {
        self.run_in_total(push.into_ask()).await?.pushed()
    }

    async fn page(&self, queue: Option<&QueueName>) -> Result<Bytes> {
        let limit = self.inner.options.total_limit();
        match &self.inner.way {
            Way::WebSocket(_) => Http::new(self.inner.options.clone()).page(queue, limit).await,
            Way::Http(http) => http.page(queue, limit).await,
        }
    }

    /// Reconnects now: the old connection is closed, and the server takes back the messages pulled over it.
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

    /// The state of the connection. The loss of the server is noticed at once.
    #[must_use]
    pub fn connection_state(&self) -> ConnectionState {
        match &self.inner.way {
            Way::WebSocket(link) => link.connection_state(),
            Way::Http(http) => http.connection_state(),
        }
    }

    /// Metrics of this client and its clones, over all their connections.
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
