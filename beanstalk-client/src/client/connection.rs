//! The connection of an async client: made when it is needed, written to and read from.

use std::{
    future::poll_fn,
    io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use queue_core::{Timer, WRITE_STEP, now, within};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};

use super::{Client, IDLE, named};
use crate::{
    Error, ErrorKind, Fate, Job, Result,
    deadline::{Limit, patience},
    error::{closed, lost},
    protocol::{Response, ServerWait, Session, Ticket, Touch, is_gone},
    trace,
};

/// How long a job is held for certain once a touch was sent that the server has carried out: no time to run is shorter
/// than a second.
const HELD: Duration = Duration::from_millis(250);

/// How often a call reads before others have their turn, and its deadline is looked at, however much comes.
pub(crate) const READS_IN_A_ROW: usize = 32;

/// There is more to do, after others have had their turn.
pub(crate) fn again_later<T>(cx: &Context<'_>) -> Poll<T> {
    cx.waker().wake_by_ref();
    Poll::Pending
}

impl Client {
    /// Gives a reserve the job of an earlier one whose caller went away, if there is such a job.
    ///
    /// An earlier reserve that still waits on the server is waited for, but no longer than this one may wait: it then
    /// stays where it is, for the next reserve. However many reserves wait for it so, one after the other: when its reply
    /// is overdue, the connection is.
    pub(super) async fn take_over(
        &mut self,
        wait: ServerWait,
        total: Limit,
    ) -> Result<Option<Response>> {
        if !self.is_connected() {
            return Ok(None);
        }
        while let Some((ticket, earlier)) = self.session.unanswered_reserve() {
            // Its caller may have gone before it was written.
            self.write_all(ticket, total)
                .await
                .map_err(|error| self.session.fail(ticket, error))?;
            let patience = patience(wait, earlier);
            let limit = total.sooner(self.leftover_limit(ticket, earlier).await?);
            let Ok(response) = within(patience, self.receive_within(ticket, limit)).await else {
                return Ok(Some(Response::TimedOut));
            };
            match response? {
                Response::Reserved(job) => self.session.keep_orphan(job),
                outcome @ (Response::DeadlineSoon
                | Response::BodyTooLarge { .. }
                | Response::BodyDamaged { .. }) => {
                    return Ok(Some(outcome));
                }
                _ if patience.has_passed() => return Ok(Some(Response::TimedOut)),
                _ => {}
            }
        }
        while let Some(job) = self.session.orphan().cloned() {
            // Its time to run started when the server assigned it. A touch tells whether it is still ours; until it
            // has, the session keeps the job, so that dropping this call does not lose it.
            let touched = self.confirm(&job, total).await;
            self.session.take_orphan();
            match touched {
                Ok(()) => return Ok(Some(Response::Reserved(job))),
                Err(error) if is_gone(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// When the reply to an earlier reserve is overdue: not before what has come was read.
    async fn leftover_limit(&mut self, ticket: Ticket, wait: ServerWait) -> Result<Limit> {
        let since = self.leftover.since(self.session.epoch(), ticket);
        let limit = self.options.reply_limit_since(wait, since);
        if !limit.has_passed() {
            return Ok(limit);
        }
        let read = poll_fn(|cx| match self.poll_read(cx) {
            Poll::Ready(read) => Poll::Ready(read.map(|()| true)),
            Poll::Pending => Poll::Ready(Ok(false)),
        });
        if read.await.map_err(|error| self.session.fail(ticket, error))? {
            self.leftover.is_coming();
            return Ok(self.options.reply_limit_since(ServerWait::None, now()));
        }
        Ok(limit)
    }

    /// Has the server confirm that the oldest orphan is still ours. One touch is under way at a time, however many calls are
    /// dropped while they wait for it.
    async fn confirm(&mut self, job: &Job, total: Limit) -> Result<()> {
        let touch = Touch::new(job);
        loop {
            let began = now();
            let (ticket, sent) = self
                .submit(false, total, |session| {
                    session.touch_orphan(began).map(|asked| (asked.0, asked))
                })
                .await
                .map_err(named(&touch))?;
            let response =
                self.receive(ticket, ServerWait::None, total).await.map_err(named(&touch))?;
            self.session.decode(&touch, response)?;
            // The answer to one that was left behind may be as old as that.
            if sent == began || now().saturating_duration_since(sent) < HELD {
                return Ok(());
            }
        }
    }

    /// Queues commands and writes them. `queue` gives the ticket whose fate is the whole's, and what to return.
    pub(super) async fn submit<T>(
        &mut self,
        may_repeat: bool,
        total: Limit,
        queue: impl Fn(&mut Session) -> Result<(Ticket, T)>,
    ) -> Result<T> {
        let mut attempts = self.options.retry.attempts();
        loop {
            self.make_ready(total, &mut attempts).await?;
            let ends_a_wait = self.session.abandoned_reserve().is_some();
            let (ticket, queued) = queue(&mut self.session)?;
            match self.write_all(ticket, total).await {
                Ok(()) if ends_a_wait => {
                    let limit = self.options.write_limit(total);
                    let ended = within(limit, self.end_wait()).await;
                    ended
                        .and_then(|ended| ended.map_err(lost))
                        .map_err(|error| self.session.fail(ticket, error))?;
                    return Ok(queued);
                }
                Ok(()) => return Ok(queued),
                Err(error) => {
                    let error = self.session.fail(ticket, error);
                    let repeats = may_repeat && self.can_reconnect && attempts > 0;
                    if !(repeats && error.fate() == Fate::NotSent && !total.has_passed()) {
                        return Err(error);
                    }
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

    /// Makes sure that there is a connection that takes commands, with so many attempts to make one; those that were
    /// needed are taken off.
    pub(crate) async fn make_ready(&mut self, total: Limit, attempts: &mut u32) -> Result<()> {
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
        while *attempts > 0 {
            *attempts -= 1;
            self.wait_before_attempt(total).await;
            match self.connect_once(total).await {
                Ok(()) => return Ok(()),
                Err(error) if total.has_passed() => return Err(error),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    pub(super) fn refuse_without_address(&self) -> Result<()> {
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
            trace::backing_off(&self.options.address, delay);
            tokio::time::sleep(total.remaining().map_or(delay, |left| left.min(delay))).await;
        }
    }

    pub(super) async fn connect_once(&mut self, total: Limit) -> Result<()> {
        self.unproven = self.unproven.saturating_add(1);
        self.stream = Some(self.options.connect(self.options.connect_limit(total)).await?);
        self.unflushed = false;
        self.timer = Timer::default();
        self.session.reopen();
        self.session.metrics_mut().connected();
        self.used_at = now();
        Ok(())
    }

    /// Writes everything that is queued, up to the command of this ticket or the one behind it.
    async fn write_all(&mut self, ticket: Ticket, total: Limit) -> Result<()> {
        // Nearly always everything fits into the socket's buffer at once, and no clock has to be asked.
        let first = poll_fn(|cx| Poll::Ready(self.poll_write_to(cx, 0, ticket)));
        if let Poll::Ready(outcome) = first.await {
            return outcome;
        }
        loop {
            let limit = self.options.write_limit(total);
            let goal = self.session.outgoing().len().saturating_sub(WRITE_STEP);
            within(limit, poll_fn(|cx| self.poll_write_to(cx, goal, ticket))).await??;
            if goal == 0 {
                return Ok(());
            }
        }
    }

    /// Writes until no more than `goal` bytes are left; while that is stuck, reads, because the server may be stuck writing
    /// to us what nobody waits for any more.
    fn poll_write_to(
        &mut self,
        cx: &mut Context<'_>,
        goal: usize,
        ticket: Ticket,
    ) -> Poll<Result<()>> {
        for _ in 0..READS_IN_A_ROW {
            let is_done = self.poll_write(cx)?.is_ready();
            if is_done || (goal > 0 && self.session.outgoing().len() <= goal) {
                return Poll::Ready(Ok(()));
            }
            if self.session.is_full() {
                return Poll::Pending;
            }
            ready!(self.poll_read(cx))?;
            if self.session.has_ended() {
                return Poll::Ready(Err(lost(io::ErrorKind::UnexpectedEof.into())));
            }
            self.session.pass_over(ticket)?;
        }
        again_later(cx)
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
    pub(super) async fn receive(
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
        for _ in 0..READS_IN_A_ROW {
            if let Some(response) = self.session.reply(ticket)? {
                return Poll::Ready(Ok(response));
            }
            ready!(self.poll_read(cx))?;
        }
        again_later(cx)
    }

    /// A complete exchange: the server is alive, so the next reconnect need not back off.
    pub(crate) fn mark_proven(&mut self) {
        if self.unproven > 0 {
            self.unproven = 0;
            self.backoff.reset();
        }
    }
}
