//! The blocking client: one connection, one caller, no thread.

use std::time::Duration;

use queue_core::blocking::{TimedStream, Wire};

use super::Duplex;
use crate::{
    Address, ConnectOptions, Epoch, Error, Metrics, PairReply, Result, TubeName,
    protocol::{AnyCommand, ClientSession, Command, Reset, Response},
    trace,
};

/// A connection to a beanstalkd server.
///
/// Calls take `&mut self`: a waiting reserve occupies the whole connection, so a service that puts while it waits uses
/// two clients. When the connection is lost, the call that notices fails and reports the fate of its command
/// ([`Error::fate`]); the next call reconnects and restores the used tube and the watch list. Jobs that the lost
/// connection held are ready again for other clients, and acting on them fails with
/// [`JobLost`](crate::ErrorKind::JobLost).
pub struct Client {
    pub(crate) role: ClientSession,
    wire: Wire<Error>,
}

impl Client {
    /// Connects to a server: `"127.0.0.1:11300"`, `"unix:/run/beanstalkd.sock"`, an [`Address`], or [`ConnectOptions`].
    ///
    /// Tries every address that the name resolves to once, within the connect timeout; name resolution has the
    /// operating system's own time limit.
    ///
    /// # Errors
    ///
    /// `Connect`, `Timeout(Connect)` or `Tls`; `InvalidInput` for an invalid address.
    pub fn connect<O>(options: O) -> Result<Self>
    where
        O: TryInto<ConnectOptions>,
        Error: From<O::Error>,
    {
        let mut client = Self::new(options)?;
        client.role.connect();
        client.ready()?;
        Ok(client)
    }

    /// Creates a client that connects at its first call, with all attempts of the [retry policy](crate::RetryPolicy):
    /// for a service that may start before its server.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for an invalid address, `Tls` for unusable TLS options.
    pub fn new<O>(options: O) -> Result<Self>
    where
        O: TryInto<ConnectOptions>,
        Error: From<O::Error>,
    {
        let options: ConnectOptions = options.try_into()?;
        options.check()?;
        let wire = Wire::to(&options);
        Ok(Client { role: ClientSession::new(options, true), wire })
    }

    /// Uses a connected stream in blocking mode. Such a client cannot reconnect; the address in `options` is only
    /// displayed. Set `TCP_NODELAY` on a TCP stream.
    ///
    /// # Errors
    ///
    /// `Connect` when the stream does not support timeouts.
    pub fn from_stream(stream: impl Duplex + 'static, options: ConnectOptions) -> Result<Self> {
        let transport = TimedStream::new(Box::new(stream))
            .map_err(|error| queue_core::Error::cannot_connect(&options.address, error))?;
        let wire = Wire::to(&options).over(transport);
        Ok(Client { role: ClientSession::new(options, false), wire })
    }

    /// Sends any command and waits for its reply.
    ///
    /// # Errors
    ///
    /// A refusal by the server, or any connection failure; see [`Error::fate`].
    pub fn call<C: Command>(&mut self, command: &C) -> Result<C::Reply> {
        self.carry_out(command, ClientSession::begin)
    }

    pub(crate) fn carry_out<C: Command>(
        &mut self,
        command: &C,
        begin: impl FnOnce(&mut ClientSession, &C),
    ) -> Result<C::Reply> {
        let mut operation = trace::command(&self.role, command);
        let span = operation.span().clone();
        span.run(|| {
            begin(&mut self.role, command);
            let outcome = self.reply();
            self.role.conclude(command, outcome, &mut operation)
        })
    }

    /// Sends two commands in one write and waits for both replies: for example, to finish a job and reserve the next.
    ///
    /// ```
    /// # let server = fixtures::beanstalkd::Server::start()?;
    /// use std::time::Duration;
    /// use beanstalk_client::{PutOptions, blocking::Client, protocol::{Delete, ReserveWithTimeout}};
    ///
    /// # let address = server.address();
    /// let mut client = Client::connect(address)?;
    /// let first = client.put("a", PutOptions::default())?.id();
    /// let _ = client.put("b", PutOptions::default())?;
    /// let next = ReserveWithTimeout::new(Duration::ZERO)?;
    /// let (deleted, reserved) = client.call_pair(&Delete::new(first), &next)?;
    /// deleted?;
    /// assert_eq!(reserved?.job().expect("there is a second job").body, "b");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// A connection failure before the first reply. After that, each command has its own result.
    pub fn call_pair<A: Command, B: Command>(
        &mut self,
        first: &A,
        second: &B,
    ) -> Result<PairReply<A, B>> {
        let mut one = trace::command(&self.role, first);
        let mut two = trace::command(&self.role, second);
        let (span, second_span) = (one.span().clone(), two.span().clone());
        let first_reply = span.run(|| {
            self.role.begin_pair(first, second);
            let outcome = self.reply();
            self.role.conclude_first(first, outcome, [&mut one, &mut two])
        })?;
        let second_reply = second_span.run(|| {
            self.role.begin_second();
            let outcome = self.reply();
            self.role.conclude(second, outcome, &mut two)
        });
        Ok((first_reply, second_reply))
    }

    /// Reconnects now, and restores the used tube and the watch list. Jobs that the old connection held become ready
    /// again.
    ///
    /// # Errors
    ///
    /// As [`connect`](Self::connect); the old connection is closed in any case.
    pub fn reconnect(&mut self) -> Result<()> {
        self.role.connect();
        self.ready()
    }

    /// Resets the client to the state of a new one: it uses and watches only the tube `default`, and holds no job.
    /// Pools call this before they hand the client to the next user.
    ///
    /// If the connection may hold a job, or a dropped call left a command or reply in flight, it is closed: its jobs
    /// become ready with their priorities unchanged, and the next call connects. Otherwise the connection stays open,
    /// and one round trip restores the defaults; none is needed if nothing has changed.
    ///
    /// # Errors
    ///
    /// A connection failure. The client is reset even then, and the next call connects.
    pub fn reset(&mut self) -> Result<()> {
        if let Reset::Send(commands) = self.role.session.to_reset() {
            let outcome = self.send_all(commands);
            if outcome.is_ok() {
                return Ok(());
            }
            self.role.forget();
            let _ = self.ready();
            return outcome;
        }
        self.role.forget();
        self.ready()
    }

    fn send_all(&mut self, commands: Vec<AnyCommand>) -> Result<()> {
        if commands.is_empty() {
            return Ok(());
        }
        for reply in self.call_many(commands) {
            match reply? {
                Response::Using(_) | Response::Watching(_) => {}
                other => return Err(other.refuse()),
            }
        }
        Ok(())
    }

    /// Whether the connection was good when it was last used. If the peer has closed it since, only the next call
    /// notices.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.wire.io().is_open() && self.role.session.is_open()
    }

    /// Checks, without waiting, whether the server has closed the idle connection.
    pub fn check_connection(&mut self) -> bool {
        self.role.look();
        self.ready().is_ok() && self.is_connected()
    }

    /// Waits until the role has the connection that it asked for.
    pub(super) fn ready(&mut self) -> Result<()> {
        self.outcome(ClientSession::ready)
    }

    /// Waits for the reply to the command that was begun.
    pub(super) fn reply(&mut self) -> Result<Response> {
        self.outcome(ClientSession::reply)
    }

    fn outcome<T>(&mut self, of: impl Fn(&mut ClientSession) -> Option<Result<T>>) -> Result<T> {
        let Client { role, wire } = self;
        wire.call(role, of).unwrap_or_else(|| Err(ClientSession::over()))
    }

    /// The tube that puts go to.
    #[must_use]
    pub fn used_tube(&self) -> &TubeName {
        self.role.session.used_tube()
    }

    /// The tubes that reserves take from.
    #[must_use]
    pub fn watched_tubes(&self) -> &[TubeName] {
        self.role.session.watched_tubes()
    }

    /// The number of the current connection. It changes with every reconnect.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.role.session.epoch()
    }

    /// Metrics of this client, over all its connections.
    #[must_use]
    pub fn metrics(&self) -> &Metrics {
        self.role.session.metrics()
    }

    /// The server's address.
    #[must_use]
    pub fn address(&self) -> &Address {
        &self.role.options.address
    }

    /// Sets the reply timeout for all later calls.
    pub fn set_reply_timeout(&mut self, timeout: Duration) {
        self.role.set_reply_timeout(timeout);
    }

    /// Sets the total timeout of all later calls; see [`ConnectOptions::total_timeout`].
    pub fn set_total_timeout(&mut self, timeout: Option<Duration>) {
        self.role.options.server.total_timeout = timeout;
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client")
            .field("address", &self.role.options.address)
            .field("connected", &self.is_connected())
            .field("used", self.used_tube())
            .field("watched", &self.watched_tubes())
            .finish_non_exhaustive()
    }
}
