//! The async client: one connection, one caller, no task spawned.

pub(crate) mod connection;

use std::{
    future::poll_fn,
    task::Poll,
    time::{Duration, Instant},
};

use queue_core::{Stream, Timer, now};

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
///
/// # Cancel safety
///
/// Every call may be dropped at any await point, by `select!` or a timeout. A call that was never polled has sent
/// nothing. After that the command may or may not be carried out; the connection stays in step: the next call finishes
/// a half-written command and passes over the reply that nobody waits for. No job is lost by a dropped reserve; see
/// [`reserve`](Self::reserve).
pub struct Client {
    pub(crate) stream: Option<Box<dyn Stream>>,
    pub(crate) session: Session,
    pub(crate) options: ConnectOptions,
    /// Whether the stream may still hold bytes that it took.
    unflushed: bool,
    /// Belongs to the runtime of the connection, like the stream.
    timer: Timer,
    can_reconnect: bool,
    backoff: Backoff,
    /// Connections made or tried since the last healthy exchange.
    unproven: u32,
    used_at: Instant,
    leftover: Leftover,
}

/// After so long without a command, the connection is looked at before it is used again.
const IDLE: Duration = Duration::from_secs(1);

/// How often a look at the connection reads at most, whatever the server sends.
const MAX_READS: usize = 256;

impl Client {
    /// Connects to a server: `"127.0.0.1:11300"`, `"unix:/run/beanstalkd.sock"`, an [`Address`], or [`ConnectOptions`].
    ///
    /// One attempt over every address that the name stands for, within the connect timeout.
    ///
    /// # Errors
    ///
    /// `Connect`, `Timeout(Connect)` or `Tls`; `InvalidInput` for a wrong address.
    ///
    /// # Cancel safety
    ///
    /// Dropping closes the half-made connection.
    pub async fn connect<O>(options: O) -> Result<Self>
    where
        O: TryInto<ConnectOptions>,
        Error: From<O::Error>,
    {
        let options = options.try_into()?;
        let stream = options.connect(options.connecting_limit()).await?;
        Ok(Self::over(stream, options, true))
    }

    /// Uses a stream that the caller has connected. Such a client cannot reconnect; the address in `options` is only
    /// shown. A TCP stream should have `TCP_NODELAY` set.
    pub fn from_stream(stream: impl Stream + 'static, options: ConnectOptions) -> Self {
        Self::over(Box::new(stream), options, false)
    }

    fn over(stream: Box<dyn Stream>, options: ConnectOptions, can_reconnect: bool) -> Self {
        let mut session = Session::new(options.max_body_size);
        session.metrics_mut().connected();
        Client {
            stream: Some(stream),
            session,
            unflushed: false,
            timer: Timer::default(),
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
    ///
    /// # Cancel safety
    ///
    /// As for the [client](Self#cancel-safety) and, for commands that reserve, for [`reserve`](Self::reserve).
    pub async fn call<C: Command>(&mut self, command: &C) -> Result<C::Reply> {
        let span = trace::command(&self.options.address, &self.session, command);
        span.follow(async {
            let outcome = self.answer(command).await;
            self.count::<C, _>(&outcome);
            outcome
        })
        .await
    }

    async fn answer<C: Command>(&mut self, command: &C) -> Result<C::Reply> {
        let total = self.options.total_limit();
        if command.effect() != Effect::Reserve {
            return self.exchange(command, total).await;
        }
        let (wait, began) = (command.server_wait(), now());
        let taken_over = self.take_over(wait, total).await.map_err(named(command))?;
        let response = match (taken_over, left_over(wait, now().saturating_duration_since(began))) {
            (Some(response), _) => response,
            (None, None) => return self.exchange(command, total).await,
            (None, Some(left)) => self
                .respond(&ReserveWithTimeout::new(left)?, total)
                .await
                .map_err(named(command))?,
        };
        self.session.decode(command, response)
    }

    async fn exchange<C: Command>(&mut self, command: &C, total: Limit) -> Result<C::Reply> {
        let response = self.respond(command, total).await.map_err(named(command))?;
        self.session.decode(command, response)
    }

    /// Sends a command and waits for the response to it.
    async fn respond<C: Command>(&mut self, command: &C, total: Limit) -> Result<Response> {
        let ticket = self
            .submit(command.job().is_none(), total, |session| {
                session.send(command).map(|ticket| (ticket, ticket))
            })
            .await?;
        let response = self.receive(ticket, command.server_wait(), total).await?;
        trace::reply(&response);
        Ok(response)
    }

    /// Sends two commands in one write and waits for both replies: to finish a job and ask for the next one.
    ///
    /// # Errors
    ///
    /// A failure of the connection before the first reply; what happened to each command after that is in its own
    /// result.
    ///
    /// # Cancel safety
    ///
    /// As for [`call`](Self::call), for each of the two.
    pub async fn call_pair<A: Command, B: Command>(
        &mut self,
        first: &A,
        second: &B,
    ) -> Result<PairReply<A, B>> {
        if second.effect() == Effect::Reserve && self.session.has_leftover_reserve() {
            // Rare: the second is to take over an earlier reserve, and only `call` does that.
            let first_reply = match self.call(first).await {
                Err(error) if error.fate() != Fate::Refused => return Err(error),
                reply => reply,
            };
            return Ok((first_reply, self.call(second).await));
        }
        let span = trace::command(&self.options.address, &self.session, first);
        span.follow(async {
            let outcome = self.answer_pair(first, second).await;
            self.count_pair::<A, B>(&outcome);
            outcome
        })
        .await
    }

    async fn answer_pair<A: Command, B: Command>(
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
            .await
            .map_err(named(first))?;
        let response = self.receive(one, first.server_wait(), total).await.map_err(named(first))?;
        let first_reply = self.session.decode(first, response);
        let second_reply = self
            .receive(two, second.server_wait(), total)
            .await
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
    ///
    /// # Cancel safety
    ///
    /// The old connection is closed; the next call connects again.
    pub async fn reconnect(&mut self) -> Result<()> {
        self.refuse_without_address()?;
        self.stream = None;
        self.session.poison();
        self.connect_once(self.options.total_limit()).await
    }

    /// Whether the connection was good when it was last used. A peer that has gone since is noticed by the next call.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.stream.is_some() && self.session.is_open()
    }

    /// Looks, without waiting, whether the server has closed the connection while nobody used it.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost: what was read is kept.
    pub async fn check_connection(&mut self) -> bool {
        // A runtime that did nothing since learns only now what came.
        yield_once().await;
        // Replies that nobody waits for any more stand in front of the end of the stream.
        for _ in 0..MAX_READS {
            if !self.is_connected() {
                break;
            }
            let outcome = poll_fn(|cx| Poll::Ready(self.poll_read(cx))).await;
            if matches!(outcome, Poll::Ready(Err(_))) || self.session.has_unsolicited_bytes() {
                self.session.poison();
            }
            if outcome.is_pending() {
                break;
            }
        }
        self.is_connected()
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
    pub(crate) fn count<C: Command, T>(&mut self, outcome: &Result<T>) {
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

/// Gives the runtime a turn.
async fn yield_once() {
    let mut has_yielded = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut has_yielded, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Names the command in an error that has no command yet.
pub(crate) fn named<C: Command>(command: &C) -> impl FnOnce(Error) -> Error + use<C> {
    let name = command.name();
    move |error| error.with_command(name)
}
