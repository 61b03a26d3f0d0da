//! The async client.

use std::sync::Arc;

use bytes::Bytes;
use queue_core::{ConnectionState, Duplex, Epoch, Limit};

use crate::{
    Address, ConnectOptions, Deadline, Error, MessageId, Metrics, QueueName, Result,
    asynchronous::{http::Http, link::ServerLink},
    protocol::client::{Ask, AskAnswer},
    trace,
};

/// A client of an Adf.QueueServer.
///
/// It is `Clone` and can be shared freely. Over WebSocket, all clones use one connection, driven by its own task, and
/// any number of calls can be in flight on it, including waiting pulls. When the last clone is dropped, the task
/// notifies the server, which takes back messages that were pulled and not settled, and ends. A call leaves no other
/// state for the next, so no pool is needed; [`reconnect`](Self::reconnect) gives pulled messages back.
///
/// Over HTTP, each request has its own connection, which is kept for the next one for 5 seconds if the server allows; a
/// push ends it. [`max_connections`](ConnectOptions::max_connections) limits their number. Pulled messages are not
/// bound to a connection: they stay pulled until any client deletes or returns them, [by id](Self::delete_pulled) if
/// necessary, even after this client is gone. The server cannot cancel a pull, so an abandoned one stays in flight, and
/// its message goes to the next pull of its queue by this client or its clones. With 16 of them, further pulls are
/// refused; those left when the client is dropped are reported to `tracing` with their ids, for
/// [`recover`](Self::recover). The client uses no proxy and follows no redirects.
///
/// When the connection is lost, each call waiting on it fails and reports the fate of its request ([`Error::fate`]),
/// unless the request definitely did not reach the server: then it goes over a new connection, within the [retry
/// policy](crate::RetryPolicy). A [`count`](Self::count), and over WebSocket a [`pull`](Self::pull), is always resent.
/// Messages pulled over a lost WebSocket return to the server ([`JobLost`](crate::ErrorKind::JobLost)).
///
/// # Cancel safety
///
/// Every call may be dropped at any await point. A call that was never polled, or that still waits for a connection,
/// has sent nothing and never will. Otherwise the request may or may not be carried out; the connection stays in step,
/// because its driver reads and discards what still arrives. A dropped pull loses no message; see [`pull`](Self::pull).
#[derive(Clone)]
pub struct Client {
    inner: Arc<ClientInner>,
}

struct ClientInner {
    options: ConnectOptions,
    way: ClientTransport,
}

/// The transport.
enum ClientTransport {
    WebSocket(Box<ServerLink>),
    Http(Box<Http>),
}

crate::faces::client_methods!([] async await "\n# Cancel safety\n\n");

impl Client {
    /// Creates a client that connects at its first call, with all attempts of the [retry policy](crate::RetryPolicy):
    /// for a service that may start before its server.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for an invalid address.
    pub fn new<O>(options: O) -> Result<Self>
    where
        O: TryInto<ConnectOptions>,
        Error: From<O::Error>,
    {
        let options: ConnectOptions = options.try_into()?;
        options.check()?;
        let way = match options.address.transport().is_http() {
            true => ClientTransport::Http(Box::new(Http::new(options.clone()))),
            false => ClientTransport::WebSocket(Box::new(ServerLink::new(options.clone()))),
        };
        Ok(Client { inner: Arc::new(ClientInner { options, way }) })
    }

    /// Uses a connected stream, and upgrades it. Such a client cannot reconnect; of the address in `options`, only the
    /// transport and the host name are used. Set `TCP_NODELAY` on a TCP stream.
    ///
    /// # Errors
    ///
    /// Any failure of the upgrade; `Unsupported` for an HTTP transport, which needs more than one connection.
    ///
    /// # Cancel safety
    ///
    /// Dropping closes the stream.
    pub async fn from_stream(
        stream: impl Duplex + 'static,
        options: ConnectOptions,
    ) -> Result<Self> {
        options.check_stream()?;
        let link = ServerLink::for_stream(options.clone(), Box::new(stream))?;
        let way = ClientTransport::WebSocket(Box::new(link));
        let client = Client { inner: Arc::new(ClientInner { options, way }) };
        client.ready().await?;
        Ok(client)
    }

    pub(crate) async fn ready(&self) -> Result<()> {
        let limit = self.inner.options.total_limit().named(Deadline::Connect);
        self.inner.way.run(Ask::Ready, limit).await?.done()
    }

    /// As `run`, for a request about a message.
    pub(crate) async fn run_about(
        &self,
        ask: Ask,
        message: Option<MessageId>,
        limit: Limit,
    ) -> Result<AskAnswer> {
        let options = &self.inner.options;
        let mut operation = trace::call(&options.measures, &options.address, &ask, message);
        let span = operation.span().clone();
        let outcome = span.follow(self.inner.way.run(ask, limit)).await;
        trace::answered(&mut operation, &outcome);
        outcome
    }

    /// The connection shared by all calls; `None` over HTTP.
    pub(crate) fn link(&self) -> Option<&ServerLink> {
        match &self.inner.way {
            ClientTransport::WebSocket(link) => Some(link),
            ClientTransport::Http(_) => None,
        }
    }

    pub(crate) fn options(&self) -> &ConnectOptions {
        &self.inner.options
    }

    pub(crate) async fn page(&self, queue: Option<&QueueName>) -> Result<Bytes> {
        let limit = self.inner.options.total_limit();
        match &self.inner.way {
            ClientTransport::WebSocket(_) => {
                Http::new(self.inner.options.clone()).page(queue, limit).await
            }
            ClientTransport::Http(http) => http.page(queue, limit).await,
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
            ClientTransport::WebSocket(link) => link.disconnect(),
            ClientTransport::Http(http) => http.disconnect(),
        }
        self.ready().await
    }

    /// The server's address.
    #[must_use]
    pub fn address(&self) -> &Address {
        &self.inner.options.address
    }

    /// Whether the connection is good. A server that goes away is noticed at once.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.connection_state() == ConnectionState::Ready
    }

    /// The state of the connection. The loss of the server is noticed at once.
    #[must_use]
    pub fn connection_state(&self) -> ConnectionState {
        match &self.inner.way {
            ClientTransport::WebSocket(link) => link.connection_state(),
            ClientTransport::Http(http) => http.connection_state(),
        }
    }

    /// Metrics of this client and its clones, over all their connections.
    #[must_use]
    pub fn metrics(&self) -> Metrics {
        match &self.inner.way {
            ClientTransport::WebSocket(link) => link.metrics(),
            ClientTransport::Http(http) => http.metrics(),
        }
    }

    /// The number of the current or last connection; `None` before the first.
    #[must_use]
    pub fn epoch(&self) -> Option<Epoch> {
        self.link()?.epoch()
    }
}

impl ClientTransport {
    async fn run(&self, ask: Ask, limit: Limit) -> Result<AskAnswer> {
        match self {
            ClientTransport::WebSocket(link) => link.run(ask, limit).await,
            // Boxed because it is large, which no call over WebSocket should pay for.
            ClientTransport::Http(http) => Box::pin(http.run(ask, limit)).await,
        }
    }
}
