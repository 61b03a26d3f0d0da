//! The blocking client: one connection, one caller, no thread.

use std::{
    io,
    time::{Duration, Instant},
};

use queue_core::{blocking::Transport, now};

use super::Stream;
use crate::{
    Address, ConnectOptions, Error, ErrorKind, Fate, PairReply, Result, TubeName,
    deadline::{Limit, patience},
    error::{closed, lost},
    protocol::{
        Backoff, Command, Effect, Epoch, Response, ServerWait, Session, Ticket, Touch, is_gone,
    },
};

/// A connection to a beanstalkd server.
///
/// Calls take `&mut self`: a waiting reserve occupies the whole connection, so a service that puts while it waits uses
/// two clients. When the connection is lost, the call that notices fails and says what became of its command
/// ([`Error::fate`]); the next call connects again, with the used tube and the watch list restored. Jobs that the lost
/// connection held are ready again for others, and acting on them fails with
/// [`ReservationLost`](ErrorKind::ReservationLost).
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
        let transport = options.connect_blocking(options.connect_limit(options.total_limit()))?;
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
        Client {
            transport,
            session: Session::new(options.max_body_size),
            is_stuck: false,
            can_reconnect,
            backoff: options.retry.delays(),
            unproven: 1,
            used_at: now(),
            options,
        }
    }

    /// Sends any command and waits for its reply.
    ///
    /// # Errors
    ///
    /// What the server refused, and any failure of the connection; see [`Error::fate`].
    pub fn call<C: Command>(&mut self, command: &C) -> Result<C::Reply> {
        let total = self.options.total_limit();
        if command.effect() == Effect::Reserve
            && let Some(response) =
                self.take_over(command.server_wait(), total).map_err(named::<C>)?
        {
            return self.session.decode(command, response);
        }
        self.exchange(command, total)
    }

    fn exchange<C: Command>(&mut self, command: &C, total: Limit) -> Result<C::Reply> {
        let ticket = self
            .submit(command.job().is_none(), total, |session| {
                session.send(command).map(|ticket| (ticket, ticket))
            })
            .map_err(named::<C>)?;
        let wait = command.server_wait();
        let response = self.receive(ticket, wait, total).map_err(named::<C>)?;
        self.session.decode(command, response)
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
        let total = self.options.total_limit();
        let may_repeat = first.job().is_none() && second.job().is_none();
        let (one, two) = self
            .submit(may_repeat, total, |session| {
                session.refuse_lost_reservation(second.job())?;
                let pair = (session.send(first)?, session.send(second)?);
                Ok((pair.0, pair))
            })
            .map_err(named::<A>)?;
        let response = self.receive(one, first.server_wait(), total).map_err(named::<A>)?;
        let first_reply = self.session.decode(first, response);
        let second_reply = self
            .receive(two, second.server_wait(), total)
            .map_err(named::<B>)
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

    /// The server's address.
    #[must_use]
    pub fn address(&self) -> &Address {
        &self.options.address
    }

    /// Changes the wait for replies from the next call on.
    pub fn set_reply_timeout(&mut self, timeout: Duration) {
        self.options.reply_timeout = timeout;
    }

    /// Gives a reserve the job of an earlier one whose reply nobody waited for, if there is such a job.
    ///
    /// An earlier reserve that still waits on the server is waited for, but no longer than this one may wait: it then
    /// stays where it is, for the next reserve.
    fn take_over(&mut self, wait: ServerWait, total: Limit) -> Result<Option<Response>> {
        if !self.is_connected() {
            return Ok(None);
        }
        while let Some((ticket, earlier)) = self.session.unanswered_reserve() {
            // Its caller may have gone before it was written.
            self.write_all(total).map_err(|error| self.session.fail(ticket, error))?;
            let patience = patience(wait, earlier);
            let limit = self.options.reply_limit(total, earlier);
            match self.receive_unless(ticket, limit, patience)? {
                None => return Ok(Some(Response::TimedOut)),
                Some(Response::Reserved(job)) => self.session.keep_orphan(job),
                Some(outcome @ (Response::DeadlineSoon | Response::BodyTooLarge { .. })) => {
                    return Ok(Some(outcome));
                }
                Some(_) if patience.has_passed() => return Ok(Some(Response::TimedOut)),
                Some(_) => {}
            }
        }
        while let Some(job) = self.session.orphan().cloned() {
            // Its time to run started when the server assigned it. A touch tells whether it is still ours.
            let touched = self.exchange(&Touch::new(&job), total);
            self.session.take_orphan();
            match touched {
                Ok(()) => return Ok(Some(Response::Reserved(job))),
                Err(error) if is_gone(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// Queues commands and writes them. `queue` gives the ticket whose fate is the whole's, and what to return.
    fn submit<T>(
        &mut self,
        may_repeat: bool,
        total: Limit,
        queue: impl Fn(&mut Session) -> Result<(Ticket, T)>,
    ) -> Result<T> {
        let mut attempts = self.options.retry.attempts();
        loop {
            self.make_ready(total)?;
            let ends_a_wait = self.session.abandoned_reserve().is_some();
            let (ticket, queued) = queue(&mut self.session)?;
            match self.write_all(total) {
                Ok(()) if ends_a_wait => {
                    self.end_wait().map_err(|error| self.session.fail(ticket, lost(error)))?;
                    return Ok(queued);
                }
                Ok(()) => return Ok(queued),
                Err(error) => {
                    let error = self.session.fail(ticket, error);
                    let repeats = may_repeat && self.can_reconnect && attempts > 0;
                    if !(repeats && error.fate() == Fate::NotSent && !total.has_passed()) {
                        return Err(error);
                    }
                    attempts -= 1;
                }
            }
        }
    }

    /// Ends the wait of an abandoned reserve in front of the command just written: on a half-closed connection the
    /// server gives up waiting, runs what it has read, and closes.
    fn end_wait(&mut self) -> io::Result<()> {
        self.session.close_after_replies();
        self.transport.as_mut().map_or(Ok(()), Transport::shutdown_write)
    }

    /// Makes sure that there is a connection that takes commands.
    pub(super) fn make_ready(&mut self, total: Limit) -> Result<()> {
        let idle_since = std::mem::replace(&mut self.used_at, now());
        let usable = if self.used_at.duration_since(idle_since) > IDLE {
            self.check_connection()
        } else {
            self.is_connected() && !self.session.has_unsolicited_bytes()
        };
        if usable {
            return Ok(());
        }
        self.session.poison();
        self.refuse_without_address()?;
        self.transport = None;
        let mut last = Error::new(
            ErrorKind::ConnectionLost,
            Fate::NotSent,
            "the connection is closed, and the retry policy allows no other",
        );
        for _ in 0..self.options.retry.attempts() {
            self.wait_before_attempt(total);
            match self.connect_once(total) {
                Ok(()) => return Ok(()),
                Err(error) if total.has_passed() => return Err(error),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn refuse_without_address(&self) -> Result<()> {
        if self.can_reconnect {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::ConnectionLost,
            Fate::NotSent,
            "the connection is closed, and this client has only the stream it was given",
        ))
    }

    /// Backs off unless the last connection proved to be good.
    fn wait_before_attempt(&mut self, total: Limit) {
        if self.unproven > 0 {
            let delay = self.backoff.next_delay();
            std::thread::sleep(total.remaining().map_or(delay, |left| left.min(delay)));
        }
    }

    fn connect_once(&mut self, total: Limit) -> Result<()> {
        self.unproven = self.unproven.saturating_add(1);
        self.transport = Some(self.options.connect_blocking(self.options.connect_limit(total))?);
        self.is_stuck = false;
        self.session.reopen();
        self.used_at = now();
        Ok(())
    }

    /// Writes everything that is queued.
    pub(super) fn write_all(&mut self, total: Limit) -> Result<()> {
        let limit = self.options.write_limit(total);
        while !self.session.outgoing().is_empty() {
            self.write_some(limit)?;
            if self.session.has_ended() {
                return Err(lost(io::ErrorKind::UnexpectedEof.into()));
            }
        }
        Ok(())
    }

    /// Writes some of what is queued; or reads, while writing is stuck, because the server may be stuck writing to us.
    pub(super) fn write_some(&mut self, limit: Limit) -> Result<()> {
        loop {
            if self.is_stuck && self.read_until(Limit::never().shorter(GLANCE))? {
                return if limit.has_passed() { Err(limit.error()) } else { Ok(()) };
            }
            let Some(transport) = &mut self.transport else { return Err(lost(closed())) };
            let bytes = self.session.outgoing();
            let written = transport.write(bytes, limit.shorter(STUCK)).map_err(lost)?;
            self.is_stuck = written.is_none();
            if let Some(n) = written {
                self.session.sent(n);
                let in_time = if self.session.outgoing().is_empty() {
                    transport.flush(limit).map_err(lost)?
                } else {
                    !limit.has_passed()
                };
                return if in_time { Ok(()) } else { Err(limit.error()) };
            }
            if limit.has_passed() {
                return Err(limit.error());
            }
        }
    }

    /// Waits for the reply to a command that was written.
    fn receive(&mut self, ticket: Ticket, wait: ServerWait, total: Limit) -> Result<Response> {
        let limit = self.options.reply_limit(total, wait);
        self.receive_within(ticket, limit)
    }

    fn receive_within(&mut self, ticket: Ticket, limit: Limit) -> Result<Response> {
        let mut has_read = false;
        loop {
            if let Some(response) = self.session.reply(ticket)? {
                self.mark_proven();
                return Ok(response);
            }
            // A read that gets something in time says nothing about the whole reply, which may come drop by drop.
            let late = std::mem::replace(&mut has_read, true) && limit.has_passed();
            let outcome = if late { Err(limit.error()) } else { self.read_some(limit) };
            outcome.map_err(|error| self.session.fail(ticket, error))?;
        }
    }

    /// The same; `None` when nothing came until `patience` ran out first.
    fn receive_unless(
        &mut self,
        ticket: Ticket,
        limit: Limit,
        patience: Limit,
    ) -> Result<Option<Response>> {
        let mut has_read = false;
        let first = limit.sooner(patience);
        loop {
            if let Some(response) = self.session.reply(ticket)? {
                self.mark_proven();
                return Ok(Some(response));
            }
            let late = std::mem::replace(&mut has_read, true) && first.has_passed();
            let came = if late { Ok(false) } else { self.read_until(first) };
            if !came.map_err(|error| self.session.fail(ticket, error))? {
                // A read may end a little before its limit, so the clock does not tell which of the two it was.
                return if first.at == patience.at {
                    Ok(None)
                } else {
                    Err(self.session.fail(ticket, limit.error()))
                };
            }
        }
    }

    /// A complete exchange: the server is alive, so the next reconnect need not back off.
    pub(super) fn mark_proven(&mut self) {
        if self.unproven > 0 {
            self.unproven = 0;
            self.backoff.reset();
        }
    }

    /// Reads once.
    pub(super) fn read_some(&mut self, limit: Limit) -> Result<()> {
        if self.read_until(limit)? { Ok(()) } else { Err(limit.error()) }
    }

    /// Reads once; `false` when nothing came until the limit.
    fn read_until(&mut self, limit: Limit) -> Result<bool> {
        let Some(transport) = &mut self.transport else { return Err(lost(closed())) };
        match transport.read(self.session.space(), limit).map_err(lost)? {
            Some(0) => self.session.end_of_stream(),
            Some(n) => self.session.received(n),
            None => return Ok(false),
        }
        Ok(true)
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
pub(super) fn named<C: Command>(error: Error) -> Error {
    error.with_command(C::NAME)
}
