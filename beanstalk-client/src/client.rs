//! The methods of a client beside its commands, in one list for both clients.

use std::{fmt, time::Duration};

use crate::{
    Address, ConnectOptions, Epoch, Error, Metrics, PairReply, Result, TubeName,
    protocol::{AnyCommand, ClientSession, Command, Reset, Response},
    trace,
};

/// Runs code within a span; async code is in the span whenever it is polled.
macro_rules! in_span {
    (: $span:expr, { $($code:tt)+ }) => {
        $span.run(|| { $($code)+ })
    };
    ($await:ident: $span:expr, { $($code:tt)+ }) => {
        $span.follow(async { $($code)+ }).$await
    };
}

/// The methods of a client; those of the async one are `async`, and say what happens if their future is dropped. Those
/// of the blocking one say who limits the time to resolve a name.
macro_rules! client {
    ($client:ty, $wire:ty $(, $async:ident $await:ident $cancel:literal)? $(; $resolving:literal)?) => {
impl $client {
    /// Connects to a server: `"127.0.0.1:11300"`, `"unix:/run/beanstalkd.sock"`, an [`Address`], or [`ConnectOptions`].
    ///
    /// Tries every address that the name resolves to once, within the connect timeout.
    $(#[doc = $resolving])?
    ///
    /// # Errors
    ///
    /// `Connect`, `Timeout(Connect)` or `Tls`; `InvalidInput` for an invalid address.
    $(#[doc = concat!($cancel, "Dropping closes the half-made connection.")])?
    pub $($async)? fn connect<O>(options: O) -> Result<Self>
    where
        O: TryInto<ConnectOptions>,
        Error: From<O::Error>,
    {
        let mut client = Self::new(options)?;
        client.role.connect();
        client.ready()$(.$await)??;
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
        let wire = <$wire>::to(&options);
        Ok(Self { role: ClientSession::new(options, true), wire })
    }

    /// Sends any command and waits for its reply.
    ///
    /// # Errors
    ///
    /// A refusal by the server, or any connection failure; see [`Error::fate`].
    $(#[doc = concat!(
        $cancel,
        "As for the [client](Self#cancel-safety) and, for commands that reserve, for [`reserve`](Self::reserve)."
    )])?
    pub $($async)? fn call<C: Command>(&mut self, command: &C) -> Result<C::Reply> {
        self.carry_out(command, ClientSession::begin)$(.$await)?
    }

    pub(crate) $($async)? fn carry_out<C: Command>(
        &mut self,
        command: &C,
        begin: impl FnOnce(&mut ClientSession, &C),
    ) -> Result<C::Reply> {
        let mut operation = trace::command(&self.role, command);
        let span = operation.span().clone();
        in_span!($($await)?: span, {
            begin(&mut self.role, command);
            let outcome = self.reply()$(.$await)?;
            self.role.conclude(command, outcome, &mut operation)
        })
    }

    /// Sends two commands in one write and waits for both replies: for example, to finish a job and reserve the next.
    ///
    /// # Errors
    ///
    /// A connection failure before the first reply. After that, each command has its own result.
    $(#[doc = concat!($cancel, "As for [`call`](Self::call), for each of the two.")])?
    pub $($async)? fn call_pair<A: Command, B: Command>(
        &mut self,
        first: &A,
        second: &B,
    ) -> Result<PairReply<A, B>> {
        let mut one = trace::command(&self.role, first);
        let mut two = trace::command(&self.role, second);
        let (span, second_span) = (one.span().clone(), two.span().clone());
        let first_reply = in_span!($($await)?: span, {
            self.role.begin_pair(first, second);
            let outcome = self.reply()$(.$await)?;
            self.role.conclude_first(first, outcome, [&mut one, &mut two])
        })?;
        let second_reply = in_span!($($await)?: second_span, {
            self.role.begin_second();
            let outcome = self.reply()$(.$await)?;
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
    $(#[doc = concat!($cancel, "The old connection is closed; the next call connects again.")])?
    pub $($async)? fn reconnect(&mut self) -> Result<()> {
        self.role.connect();
        self.ready()$(.$await)?
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
    $(#[doc = concat!($cancel, "The reset may be incomplete; call it again to finish it.")])?
    pub $($async)? fn reset(&mut self) -> Result<()> {
        if let Reset::Send(commands) = self.role.session.to_reset() {
            let outcome = self.send_all(commands)$(.$await)?;
            if outcome.is_ok() {
                return Ok(());
            }
            self.role.forget();
            let _ = self.ready()$(.$await)?;
            return outcome;
        }
        self.role.forget();
        self.ready()$(.$await)?
    }

    /// Sends commands of a reset, none of which may be refused.
    $($async)? fn send_all(&mut self, commands: Vec<AnyCommand>) -> Result<()> {
        let count = commands.len();
        let mut replies = self.call_many(commands);
        for _ in 0..count {
            match replies.next()$(.$await)?.transpose()? {
                Some(Response::Using(_) | Response::Watching(_)) | None => {}
                Some(other) => return Err(other.refuse()),
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
    $(#[doc = concat!($cancel, "Nothing is lost: bytes already read are kept.")])?
    pub $($async)? fn check_connection(&mut self) -> bool {
        self.role.look();
        self.ready()$(.$await)?.is_ok() && self.is_connected()
    }

    /// Waits until the role has the connection that it asked for.
    pub(crate) $($async)? fn ready(&mut self) -> Result<()> {
        self.outcome(ClientSession::ready)$(.$await)?
    }

    /// Waits for the reply to the command that was begun.
    pub(crate) $($async)? fn reply(&mut self) -> Result<Response> {
        self.outcome(ClientSession::reply)$(.$await)?
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

impl fmt::Debug for $client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("address", &self.role.options.address)
            .field("connected", &self.is_connected())
            .field("used", self.used_tube())
            .field("watched", &self.watched_tubes())
            .finish_non_exhaustive()
    }
}
    };
}

#[cfg(feature = "tokio")]
client!(crate::Client, queue_core::Wire<Error>, async await "\n# Cancel safety\n\n");
#[cfg(feature = "blocking")]
client!(
    crate::blocking::Client, queue_core::blocking::Wire<Error>;
    " Name resolution has the operating system's own time limit."
);
