//! The async client: one connection, one caller, no task spawned.

use std::{
    future::poll_fn,
    io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::{Duration, Instant},
};

use queue_core::{Stream, Timer, now, within};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};

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
        let stream = options.connect(options.connect_limit(options.total_limit())).await?;
        Ok(Self::over(stream, options, true))
    }

    /// Uses a stream that the caller has connected. Such a client cannot reconnect; the address in `options` is only
    /// shown. A TCP stream should have `TCP_NODELAY` set.
    pub fn from_stream(stream: impl Stream + 'static, options: ConnectOptions) -> Self {
        Self::over(Box::new(stream), options, false)
    }

    fn over(stream: Box<dyn Stream>, options: ConnectOptions, can_reconnect: bool) -> Self {
        Client {
            stream: Some(stream),
            session: Session::new(options.max_body_size),
            unflushed: false,
            timer: Timer::default(),
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
    ///
    /// # Cancel safety
    ///
    /// As for the [client](Self#cancel-safety) and, for commands that reserve, for [`reserve`](Self::reserve).
    pub async fn call<C: Command>(&mut self, command: &C) -> Result<C::Reply> {
        let total = self.options.total_limit();
        if command.effect() == Effect::Reserve
            && let Some(response) =
                self.take_over(command.server_wait(), total).await.map_err(named::<C>)?
        {
            return self.session.decode(command, response);
        }
        self.exchange(command, total).await
    }

    async fn exchange<C: Command>(&mut self, command: &C, total: Limit) -> Result<C::Reply> {
        let ticket = self
            .submit(command.job().is_none(), total, |session| {
                session.send(command).map(|ticket| (ticket, ticket))
            })
            .await
            .map_err(named::<C>)?;
        let wait = command.server_wait();
        let response = self.receive(ticket, wait, total).await.map_err(named::<C>)?;
        self.session.decode(command, response)
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
        let total = self.options.total_limit();
        let may_repeat = first.job().is_none() && second.job().is_none();
        let (one, two) = self
            .submit(may_repeat, total, |session| {
                session.refuse_lost_reservation(second.job())?;
                let pair = (session.send(first)?, session.send(second)?);
                Ok((pair.0, pair))
            })
            .await
            .map_err(named::<A>)?;
        let response = self.receive(one, first.server_wait(), total).await.map_err(named::<A>)?;
        let first_reply = self.session.decode(first, response);
        let second_reply = self
            .receive(two, second.server_wait(), total)
            .await
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

    /// The server's address.
    #[must_use]
    pub fn address(&self) -> &Address {
        &self.options.address
    }

    /// Changes the wait for replies from the next call on.
    pub fn set_reply_timeout(&mut self, timeout: Duration) {
        self.options.reply_timeout = timeout;
    }

    /// Gives a reserve the job of an earlier one whose caller went away, if there is such a job.
    ///
    /// An earlier reserve that still waits on the server is waited for, but no longer than this one may wait: it then
    /// stays where it is, for the next reserve.
    async fn take_over(&mut self, wait: ServerWait, total: Limit) -> Result<Option<Response>> {
        if !self.is_connected() {
            return Ok(None);
        }
        while let Some((ticket, earlier)) = self.session.unanswered_reserve() {
            // Its caller may have gone before it was written.
            self.write_all(total).await.map_err(|error| self.session.fail(ticket, error))?;
            let patience = patience(wait, earlier);
            let limit = self.options.reply_limit(total, earlier);
            let Ok(response) = within(patience, self.receive_within(ticket, limit)).await else {
                return Ok(Some(Response::TimedOut));
            };
            match response? {
                Response::Reserved(job) => self.session.keep_orphan(job),
                outcome @ (Response::DeadlineSoon | Response::BodyTooLarge { .. }) => {
                    return Ok(Some(outcome));
                }
                _ if patience.has_passed() => return Ok(Some(Response::TimedOut)),
                _ => {}
            }
        }
        while let Some(job) = self.session.orphan().cloned() {
            // Its time to run started when the server assigned it. A touch tells whether it is still ours; until it
            // has, the session keeps the job, so that dropping this call does not lose it.
            let touched = self.exchange(&Touch::new(&job), total).await;
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
    async fn submit<T>(
        &mut self,
        may_repeat: bool,
        total: Limit,
        queue: impl Fn(&mut Session) -> Result<(Ticket, T)>,
    ) -> Result<T> {
        let mut attempts = self.options.retry.attempts();
        loop {
            self.make_ready(total).await?;
            let ends_a_wait = self.session.abandoned_reserve().is_some();
            let (ticket, queued) = queue(&mut self.session)?;
            match self.write_all(total).await {
                Ok(()) if ends_a_wait => {
                    self.end_wait()
                        .await
                        .map_err(|error| self.session.fail(ticket, lost(error)))?;
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
    async fn end_wait(&mut self) -> io::Result<()> {
        self.session.close_after_replies();
        match &mut self.stream {
            Some(stream) => stream.shutdown().await,
            None => Ok(()),
        }
    }

    /// Makes sure that there is a connection that takes commands.
    pub(crate) async fn make_ready(&mut self, total: Limit) -> Result<()> {
        let idle_since = std::mem::replace(&mut self.used_at, now());
        let usable = if self.used_at.duration_since(idle_since) > IDLE {
            self.check_connection().await
        } else {
            self.is_connected() && !self.session.has_unsolicited_bytes()
        };
        if usable {
            return Ok(());
        }
        self.session.poison();
        self.refuse_without_address()?;
        self.stream = None;
        let mut last = Error::new(
            ErrorKind::ConnectionLost,
            Fate::NotSent,
            "the connection is closed, and the retry policy allows no other",
        );
        for _ in 0..self.options.retry.attempts() {
            self.wait_before_attempt(total).await;
            match self.connect_once(total).await {
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
    async fn wait_before_attempt(&mut self, total: Limit) {
        if self.unproven > 0 {
            let delay = self.backoff.next_delay();
            tokio::time::sleep(total.remaining().map_or(delay, |left| left.min(delay))).await;
        }
    }

    async fn connect_once(&mut self, total: Limit) -> Result<()> {
        self.unproven = self.unproven.saturating_add(1);
        self.stream = Some(self.options.connect(self.options.connect_limit(total)).await?);
        self.unflushed = false;
        self.timer = Timer::default();
        self.session.reopen();
        self.used_at = now();
        Ok(())
    }

    /// Writes everything that is queued.
    pub(crate) async fn write_all(&mut self, total: Limit) -> Result<()> {
        // Nearly always everything fits into the socket's buffer at once, and no clock has to be asked.
        if let Poll::Ready(outcome) = poll_fn(|cx| Poll::Ready(self.poll_write_all(cx))).await {
            return outcome;
        }
        let limit = self.options.write_limit(total);
        within(limit, poll_fn(|cx| self.poll_write_all(cx))).await?
    }

    /// Writes; while that is stuck, reads, because the server may be stuck writing to us.
    fn poll_write_all(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        while self.poll_write(cx)?.is_pending() {
            ready!(self.poll_read(cx))?;
            if self.session.has_ended() {
                return Poll::Ready(Err(lost(io::ErrorKind::UnexpectedEof.into())));
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Writes and flushes what is queued; ready when nothing is left.
    pub(crate) fn poll_write(&mut self, cx: &mut Context<'_>) -> Result<Poll<()>> {
        let Some(stream) = &mut self.stream else { return Err(lost(closed())) };
        while !self.session.outgoing().is_empty() {
            match Pin::new(&mut *stream).poll_write(cx, self.session.outgoing()) {
                Poll::Ready(Ok(0)) => return Err(lost(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(n)) => self.session.sent(n),
                Poll::Ready(Err(error)) => return Err(lost(error)),
                Poll::Pending => return Ok(Poll::Pending),
            }
            self.unflushed = true;
        }
        if self.unflushed {
            match Pin::new(stream).poll_flush(cx) {
                Poll::Ready(flushed) => flushed.map_err(lost)?,
                Poll::Pending => return Ok(Poll::Pending),
            }
            self.unflushed = false;
        }
        Ok(Poll::Ready(()))
    }

    /// Reads once, into the session.
    pub(crate) fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let Some(stream) = &mut self.stream else { return Poll::Ready(Err(lost(closed()))) };
        let mut space = ReadBuf::new(self.session.space());
        ready!(Pin::new(stream).poll_read(cx, &mut space)).map_err(lost)?;
        match space.filled().len() {
            0 => self.session.end_of_stream(),
            n => self.session.received(n),
        }
        Poll::Ready(Ok(()))
    }

    /// Waits for the reply to a command that was written.
    async fn receive(
        &mut self,
        ticket: Ticket,
        wait: ServerWait,
        total: Limit,
    ) -> Result<Response> {
        let limit = self.options.reply_limit(total, wait);
        self.receive_within(ticket, limit).await
    }

    async fn receive_within(&mut self, ticket: Ticket, limit: Limit) -> Result<Response> {
        self.timer.set(limit);
        let outcome = poll_fn(|cx| match self.poll_reply(cx, ticket) {
            Poll::Pending => self.timer.poll(cx, limit),
            ready => ready,
        });
        match outcome.await {
            Ok(response) => {
                self.mark_proven();
                Ok(response)
            }
            Err(error) => Err(self.session.fail(ticket, error)),
        }
    }

    fn poll_reply(&mut self, cx: &mut Context<'_>, ticket: Ticket) -> Poll<Result<Response>> {
        loop {
            if let Some(response) = self.session.reply(ticket)? {
                return Poll::Ready(Ok(response));
            }
            ready!(self.poll_read(cx))?;
        }
    }

    /// A complete exchange: the server is alive, so the next reconnect need not back off.
    pub(crate) fn mark_proven(&mut self) {
        if self.unproven > 0 {
            self.unproven = 0;
            self.backoff.reset();
        }
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
pub(crate) fn named<C: Command>(error: Error) -> Error {
    error.with_command(C::NAME)
}
