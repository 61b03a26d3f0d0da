//! The blocking client.

use std::time::Duration;

use bytes::Bytes;
use queue_core::{ConnectionState, Epoch, Limit, blocking::TimedStream};

use super::{Duplex, http::Http, link::ServerLink};

use crate::{
    Address, ConnectOptions, Deadline, Error, MessageId, Metrics, QueueName, Result,
    protocol::client::{Ask, AskAnswer},
    trace,
};

/// A client of an Adf.QueueServer.
///
/// Calls take `&mut self` and need no runtime and no thread. Over WebSocket, there is one connection; dropping the
/// client notifies the server, which takes back messages that were pulled and not settled.
///
/// The server takes nothing back while the client exists, even if it is idle: it pings only while a call waits.
/// [`reconnect`](Self::reconnect) gives pulled messages back. A call leaves no other state for the next.
///
/// Over HTTP, each request has its own connection, which is kept for the next one for 5 seconds if the server allows; a
/// push ends it. Pulled messages are not bound to a connection: they stay pulled until any client deletes or returns
/// them, [by id](Self::delete_pulled) if necessary, even after this client is gone. The server cannot cancel a pull, so
/// an abandoned one stays in flight, and its message goes to the next pull of its queue by this client. With 16 of
/// them, further pulls are refused; those left when the client is dropped are reported to `tracing` with their ids, for
/// [`recover`](Self::recover). The client uses no proxy and follows no redirects.
///
/// When the connection is lost, the call that notices fails and reports the fate of its request ([`Error::fate`]),
/// unless the request definitely did not reach the server: then it goes over a new connection, within the [retry
/// policy](crate::RetryPolicy). A [`count`](Self::count), and over WebSocket a [`pull`](Self::pull), is always resent.
/// Messages pulled over a lost WebSocket return to the server ([`JobLost`](crate::ErrorKind::JobLost)).
pub struct Client {
    options: ConnectOptions,
    way: ClientTransport,
}

/// The transport.
enum ClientTransport {
    WebSocket(Box<ServerLink>),
    Http(Box<Http>),
}

crate::faces::client_methods!([mut]);

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
        Ok(Client { options, way })
    }

    /// Uses a connected stream, and upgrades it. Such a client cannot reconnect; of the address in `options`, only the
    /// transport and the host name are used. Set `TCP_NODELAY` on a TCP stream.
    ///
    /// # Errors
    ///
    /// `Connect` when the stream does not support timeouts; any failure of the upgrade; `Unsupported` for an HTTP
    /// transport, which needs more than one connection.
    pub fn from_stream(stream: impl Duplex + 'static, options: ConnectOptions) -> Result<Self> {
        options.check_stream()?;
        let transport = TimedStream::new(Box::new(stream))
            .map_err(|error| queue_core::Error::cannot_connect(&options.address, error))?;
        let link = ServerLink::over(transport, options.clone());
        let mut client = Client { options, way: ClientTransport::WebSocket(Box::new(link)) };
        client.ready()?;
        Ok(client)
    }

    pub(crate) fn ready(&mut self) -> Result<()> {
        let limit = self.options.total_limit().named(Deadline::Connect);
        self.way.run(Ask::Ready, limit)?.done()
    }

    /// As `run`, for a request about a message.
    pub(crate) fn run_about(
        &mut self,
        ask: Ask,
        message: Option<MessageId>,
        limit: Limit,
    ) -> Result<AskAnswer> {
        let options = &self.options;
        let mut operation = trace::call(&options.measures, &options.address, &ask, message);
        let outcome = operation.run(|| self.way.run(ask, limit));
        trace::answered(&mut operation, &outcome);
        outcome
    }

    pub(crate) fn options(&self) -> &ConnectOptions {
        &self.options
    }

    /// The connection shared by all calls, with the options; `None` over HTTP.
    pub(super) fn link(&mut self) -> Option<(&mut ServerLink, &ConnectOptions)> {
        match &mut self.way {
            ClientTransport::WebSocket(link) => Some((link, &self.options)),
            ClientTransport::Http(_) => None,
        }
    }

    pub(crate) fn page(&mut self, queue: Option<&QueueName>) -> Result<Bytes> {
        let limit = self.options.total_limit();
        match &mut self.way {
            ClientTransport::WebSocket(_) => Http::new(self.options.clone()).page(queue, limit),
            ClientTransport::Http(http) => http.page(queue, limit),
        }
    }

    /// Reconnects now: the old connection is closed, and the server takes back the messages pulled over it.
    ///
    /// # Errors
    ///
    /// As [`connect`](Self::connect).
    pub fn reconnect(&mut self) -> Result<()> {
        match &mut self.way {
            ClientTransport::WebSocket(link) => link.disconnect(),
            ClientTransport::Http(http) => http.disconnect(),
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
            ClientTransport::WebSocket(link) => link.is_connected(),
            ClientTransport::Http(http) => http.connection_state() == ConnectionState::Ready,
        }
    }

    /// Checks, without waiting, whether the server has closed the idle connection. Data that has arrived is read and
    /// kept for later calls.
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
            ClientTransport::WebSocket(link) => link.look(),
            // A lost HTTP connection loses no message, and any may end at any time.
            ClientTransport::Http(_) => {}
        }
        self.is_connected()
    }

    /// Sets the time limit of all later calls, as [`ConnectOptions::total_timeout`] does.
    pub fn set_total_timeout(&mut self, timeout: Option<Duration>) {
        self.options.server.total_timeout = timeout;
    }

    /// The state of the connection when it was last used. If the server has closed it since, only the next call
    /// notices.
    #[must_use]
    pub fn connection_state(&self) -> ConnectionState {
        match &self.way {
            ClientTransport::WebSocket(link) => link.connection_state(),
            ClientTransport::Http(http) => http.connection_state(),
        }
    }

    /// Metrics of this client, over all its connections.
    #[must_use]
    pub fn metrics(&self) -> &Metrics {
        match &self.way {
            ClientTransport::WebSocket(link) => link.metrics(),
            ClientTransport::Http(http) => http.metrics(),
        }
    }

    /// The number of the current or last connection; `None` before the first.
    #[must_use]
    pub fn epoch(&self) -> Option<Epoch> {
        match &self.way {
            ClientTransport::WebSocket(link) => link.epoch(),
            ClientTransport::Http(_) => None,
        }
    }
}

impl ClientTransport {
    fn run(&mut self, ask: Ask, limit: Limit) -> Result<AskAnswer> {
        match self {
            ClientTransport::WebSocket(link) => link.run(ask, limit),
            ClientTransport::Http(http) => http.run(ask, limit),
        }
    }
}
