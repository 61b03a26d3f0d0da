//! The blocking client: one connection, one caller, no thread.

mod connection;

use std::time::{Duration, Instant};

use queue_core::{blocking::Transport, now};

use super::Stream;
use crate::{
    Address, ConnectOptions, Error, Fate, Metrics, PairReply, Result, TubeName,
    deadline::{Leftover, Limit, left_over},
    protocol::{Backoff, Command, Effect, Epoch, ReserveWithTimeout, Response, Session},
    trace,
};

/// A connection to a beanstalkd server.
///
/// Calls take `&mut self`: a waiting reserve occupies the whole connection, so a service that puts while it waits uses
/// two clients. When the connection is lost, the call that notices fails and says what became of its command
/// ([`Error::fate`]); the next call connects again, with the used tube and the watch list restored. Jobs that the lost
/// connection held are ready again for others, and acting on them fails with
/// [`ReservationLost`](crate::ErrorKind::ReservationLost).
pub struct Client {
    pub(super) transport: Option<Transport>,
    pub(super) session: Session,
    pub(super) options: ConnectOptions,
    /// Whether the last write made no progress, so that reading comes first.
    is_stuck: bool,
    can_reconnect: bool,
    backoff: Backoff,
    /// Connections made or tried since the last healthy exchange.
    unproven: u32,
    used_at: Instant,
    leftover: Leftover,
}

/// After so long without a command, the connection is looked at before it is used again.
const IDLE: Duration = Duration::from_secs(1);

/// How long a write may be stuck before replies are looked for: server and client must not both wait for the other to
/// read.
const STUCK: Duration = Duration::from_millis(10);

/// The shortest wait for a read that there is.
const GLANCE: Duration = Duration::from_millis(1);

/// How often a look at the connection reads at most, whatever the server sends.
const MAX_READS: usize = 256;

impl Client {
    /// Connects to a server: `"127.0.0.1:11300"`, `"unix:/run/beanstalkd.sock"`, an [`Address`], or [`ConnectOptions`].
    ///
    /// One attempt over every address that the name stands for, within the connect timeout; name resolution keeps the
    /// operating system's own time.
    ///
    /// # Errors
    ///
    /// `Connect`, `Timeout(Connect)` or `Tls`; `InvalidInput` for a wrong address.
    pub fn connect<O>(options: O) -> Result<Self>
    where
        O: TryInto<ConnectOptions>,
        Error: From<O::Error>,
    {
        let options = options.try_into()?;
        let transport = options.connect_blocking(options.connecting_limit())?;
        Ok(Self::over(Some(transport), options, true))
    }

    /// Uses a stream that the caller has connected, in blocking mode. Such a client cannot reconnect; the address in
    /// `options` is only shown. A TCP stream should have `TCP_NODELAY` set.
    ///
    /// # Errors
    ///
    /// `Connect` when the stream takes no timeouts.
    pub fn from_stream(stream: impl Stream + 'static, options: ConnectOptions) -> Result<Self> {
        let transport = Transport::new(Box::new(stream)).map_err(|error| {
            Error::of(queue_core::Error::cannot_connect(&options.address, error))
        })?;
        Ok(Self::over(Some(transport), options, false))
    }

    fn over(transport: Option<Transport>, options: ConnectOptions, can_reconnect: bool) -> Self {
        let mut session = Session::new(options.max_body_size);
        session.metrics_mut().connected();
        Client {
            transport,
            session,
            is_stuck: false,
            can_reconnect,
            backoff: options.retry.delays(),
            unproven: 1,
            used_at: now(),
            leftover: Leftover::default(),
            options,
        }
    }

    /// Sends any command and waits for its reply.
    ///
    /// # Errors
    ///
    /// What the server refused, and any failure of the connection; see [`Error::fate`].
    pub fn call<C: Command>(&mut self, command: &C) -> Result<C::Reply> {
        trace::command(&self.options.address, &self.session, command).run(|| {
            let outcome = self.answer(command);
            self.count::<C, _>(&outcome);
            outcome
        })
    }

    fn answer<C: Command>(&mut self, command: &C) -> Result<C::Reply> {
        let total = self.options.total_limit();
        if command.effect() != Effect::Reserve {
            return self.exchange(command, total);
        }
        let (wait, began) = (command.server_wait(), now());
        let taken_over = self.take_over(wait, total).map_err(named(command))?;
        let response = match (taken_over, left_over(wait, now().saturating_duration_since(began))) {
            (Some(response), _) => response,
            (None, None) => return self.exchange(command, total),
            (None, Some(left)) => {
                self.respond(&ReserveWithTimeout::new(left)?, total).map_err(named(command))?
            }
        };
        self.session.decode(command, response)
    }

    fn exchange<C: Command>(&mut self, command: &C, total: Limit) -> Result<C::Reply> {
        let response = self.respond(command, total).map_err(named(command))?;
        self.session.decode(command, response)
    }

    /// Sends a command and waits for the response to it.
    fn respond<C: Command>(&mut self, command: &C, total: Limit) -> Result<Response> {
        let ticket = self.submit(command.job().is_none(), total, |session| {
            session.send(command).map(|ticket| (ticket, ticket))
        })?;
        let response = self.receive(ticket, command.server_wait(), total)?;
        trace::reply(&response);
        Ok(response)
    }

    /// Sends two commands in one write and waits for both replies: to finish a job and ask for the next one.
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
    /// A failure of the connection before the first reply; what happened to each command after that is in its own
    /// result.
    pub fn call_pair<A: Command, B: Command>(
        &mut self,
        first: &A,
        second: &B,
    ) -> Result<PairReply<A, B>> {
        if second.effect() == Effect::Reserve && self.session.has_leftover_reserve() {
            // Rare: the second is to take over an earlier reserve, and only `call` does that.
            let first_reply = match self.call(first) {
                Err(error) if error.fate() != Fate::Refused => return Err(error),
                reply => reply,
            };
            return Ok((first_reply, self.call(second)));
        }
        trace::command(&self.options.address, &self.session, first).run(|| {
            let outcome = self.answer_pair(first, second);
            self.count_pair::<A, B>(&outcome);
            outcome
        })
    }

    fn answer_pair<A: Command, B: Command>(
        &mut self,
        first: &A,
        second: &B,
    ) -> Result<PairReply<A, B>> {
        let total = self.options.total_limit();
        let may_repeat = first.job().is_none() && second.job().is_none();
        let (one, two) = self
            .submit(may_repeat, total, |session| {
                session.refuse_lost_reservation(second.job())?;
                let pair = (session.send(first)?, session.send(second)?);
                Ok((pair.0, pair))
            })
            .map_err(named(first))?;
        let response = self.receive(one, first.server_wait(), total).map_err(named(first))?;
        let first_reply = self.session.decode(first, response);
        let second_reply = self
            .receive(two, second.server_wait(), total)
            .map_err(named(second))
            .and_then(|response| self.session.decode(second, response));
        Ok((first_reply, second_reply))
    }

    /// Connects again now, and restores the used tube and the watch list. Jobs that the old connection held go back to
    /// ready.
    ///
    /// # Errors
    ///
    /// As [`connect`](Self::connect); the old connection is closed in any case.
    pub fn reconnect(&mut self) -> Result<()> {
        self.refuse_without_address()?;
        self.transport = None;
        self.session.poison();
        self.connect_once(self.options.total_limit())
    }

    /// Whether the connection was good when it was last used. A peer that has gone since is noticed by the next call.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.transport.is_some() && self.session.is_open()
    }

    /// Looks, without waiting, whether the server has closed the connection while nobody used it.
    pub fn check_connection(&mut self) -> bool {
        if !self.is_connected() {
            return false;
        }
        let stale = if self.session.awaits_replies() {
            self.read_what_came().is_err()
        } else {
            self.session.has_unsolicited_bytes()
                || self.transport.as_mut().is_none_or(Transport::is_stale)
        };
        if stale {
            self.session.poison();
        }
        self.is_connected()
    }

    /// Reads replies that nobody waits for any more, so that the end of the stream shows behind them.
    fn read_what_came(&mut self) -> Result<()> {
        for _ in 0..MAX_READS {
            if self.session.has_ended() || !self.read_until(Limit::never().shorter(GLANCE))? {
                break;
            }
        }
        Ok(())
    }

    /// The tube that puts go to.
    #[must_use]
    pub fn used_tube(&self) -> &TubeName {
        self.session.used_tube()
    }

    /// The tubes that reserves take from.
    #[must_use]
    pub fn watched_tubes(&self) -> &[TubeName] {
        self.session.watched_tubes()
    }

    /// The number of the present connection. It changes with every reconnect.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.session.epoch()
    }

    /// What this client has done so far, over all its connections.
    #[must_use]
    pub fn metrics(&self) -> &Metrics {
        self.session.metrics()
    }

    /// The server's address.
    #[must_use]
    pub fn address(&self) -> &Address {
        &self.options.address
    }

    /// Counts a call that failed.
    pub(super) fn count<C: Command, T>(&mut self, outcome: &Result<T>) {
        if let Err(error) = outcome {
            self.session.metrics_mut().failed(error.kind());
            trace::failed(&self.options.address, C::NAME, error);
        }
    }

    fn count_pair<A: Command, B: Command>(&mut self, outcome: &Result<PairReply<A, B>>) {
        match outcome {
            Ok((first, second)) => {
                self.count::<A, _>(first);
                self.count::<B, _>(second);
            }
            Err(_) => self.count::<A, _>(outcome),
        }
    }

    /// Changes the wait for replies from the next call on.
    pub fn set_reply_timeout(&mut self, timeout: Duration) {
        self.options.reply_timeout = timeout;
    }

    /// Changes the bound for whole calls from the next one on; see [`ConnectOptions::total_timeout`].
    pub fn set_total_timeout(&mut self, timeout: Option<Duration>) {
        self.options.total_timeout = timeout;
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client")
            .field("address", &self.options.address)
            .field("connected", &self.is_connected())
            .field("used", self.used_tube())
            .field("watched", &self.watched_tubes())
            .finish_non_exhaustive()
    }
}

/// Names the command in an error that has no command yet.
pub(super) fn named<C: Command>(command: &C) -> impl FnOnce(Error) -> Error + use<C> {
    let name = command.name();
    move |error| error.with_command(name)
}
