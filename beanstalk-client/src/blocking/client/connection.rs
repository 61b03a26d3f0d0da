//! The connection of a blocking client: made when it is needed, written to and read from.

use std::io;

use queue_core::{WRITE_STEP, blocking::Transport, now};

use super::{Client, GLANCE, IDLE, STUCK};
use crate::{
    Error, ErrorKind, Fate, Result,
    deadline::{Limit, patience},
    error::{closed, lost},
    protocol::{Response, ServerWait, Session, Ticket, Touch, is_gone},
    trace,
};

impl Client {
    /// Gives a reserve the job of an earlier one whose reply nobody waited for, if there is such a job.
    ///
    /// An earlier reserve that still waits on the server is waited for, but no longer than this one may wait: it then
    /// stays where it is, for the next reserve. However many reserves wait for it so, one after the other: when its reply
    /// is overdue, the connection is.
    pub(super) fn take_over(&mut self, wait: ServerWait, total: Limit) -> Result<Option<Response>> {
        if !self.is_connected() {
            return Ok(None);
        }
        while let Some((ticket, earlier)) = self.session.unanswered_reserve() {
            // Its caller may have gone before it was written.
            self.write_all(ticket, total).map_err(|error| self.session.fail(ticket, error))?;
            let patience = patience(wait, earlier);
            let limit = total.sooner(self.leftover_limit(ticket, earlier)?);
            match self.receive_unless(ticket, limit, patience)? {
                None => return Ok(Some(Response::TimedOut)),
                Some(Response::Reserved(job)) => self.session.keep_orphan(job),
                Some(
                    outcome @ (Response::DeadlineSoon
                    | Response::BodyTooLarge { .. }
                    | Response::BodyDamaged { .. }),
                ) => {
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

    /// When the reply to an earlier reserve is overdue: not before what has come was read.
    fn leftover_limit(&mut self, ticket: Ticket, wait: ServerWait) -> Result<Limit> {
        let since = self.leftover.since(self.session.epoch(), ticket);
        let limit = self.options.reply_limit_since(wait, since);
        if !limit.has_passed() {
            return Ok(limit);
        }
        let has_read = self.read_until(Limit::never().shorter(GLANCE));
        if has_read.map_err(|error| self.session.fail(ticket, error))? {
            self.leftover.is_coming();
            return Ok(self.options.reply_limit_since(ServerWait::None, now()));
        }
        Ok(limit)
    }

    /// Queues commands and writes them. `queue` gives the ticket whose fate is the whole's, and what to return.
    pub(super) fn submit<T>(
        &mut self,
        may_repeat: bool,
        total: Limit,
        queue: impl Fn(&mut Session) -> Result<(Ticket, T)>,
    ) -> Result<T> {
        let mut attempts = self.options.retry.attempts();
        loop {
            self.make_ready(total, &mut attempts)?;
            let ends_a_wait = self.session.abandoned_reserve().is_some();
            let (ticket, queued) = queue(&mut self.session)?;
            match self.write_all(ticket, total) {
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

    /// Makes sure that there is a connection that takes commands, with so many attempts to make one; those that were
    /// needed are taken off.
    pub(in crate::blocking) fn make_ready(
        &mut self,
        total: Limit,
        attempts: &mut u32,
    ) -> Result<()> {
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
        while *attempts > 0 {
            *attempts -= 1;
            self.wait_before_attempt(total);
            match self.connect_once(total) {
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
    fn wait_before_attempt(&mut self, total: Limit) {
        if self.unproven > 0 {
            let delay = self.backoff.next_delay();
            trace::backing_off(&self.options.address, delay);
            std::thread::sleep(total.remaining().map_or(delay, |left| left.min(delay)));
        }
    }

    pub(super) fn connect_once(&mut self, total: Limit) -> Result<()> {
        self.unproven = self.unproven.saturating_add(1);
        self.transport = Some(self.options.connect_blocking(self.options.connect_limit(total))?);
        self.is_stuck = false;
        self.session.reopen();
        self.session.metrics_mut().connected();
        self.used_at = now();
        Ok(())
    }

    /// Writes everything that is queued, up to the command of this ticket or the one behind it.
    fn write_all(&mut self, ticket: Ticket, total: Limit) -> Result<()> {
        while self.has_output() {
            let limit = self.options.write_limit(total);
            let goal = self.session.outgoing().len().saturating_sub(WRITE_STEP);
            while self.session.outgoing().len() > goal || (goal == 0 && self.has_output()) {
                self.write_some(limit)?;
                if self.session.has_ended() {
                    return Err(lost(io::ErrorKind::UnexpectedEof.into()));
                }
                // What nobody waits for any more needs no room.
                self.session.pass_over(ticket)?;
            }
        }
        Ok(())
    }

    /// Whether something is to be written, or was not handed on yet.
    pub(in crate::blocking) fn has_output(&self) -> bool {
        !self.session.outgoing().is_empty()
            || self.transport.as_ref().is_some_and(|stream| !stream.is_flushed())
    }

    /// Writes some of what is queued; or reads, while writing is stuck, because the server may be stuck writing to us.
    pub(in crate::blocking) fn write_some(&mut self, limit: Limit) -> Result<()> {
        loop {
            let reads = self.is_stuck && !self.session.is_full();
            if reads && self.read_until(Limit::never().shorter(GLANCE))? {
                return if limit.has_passed() { Err(limit.error()) } else { Ok(()) };
            }
            let Some(transport) = &mut self.transport else { return Err(lost(closed())) };
            let bytes = self.session.outgoing();
            let written = transport.write(bytes, limit.shorter(STUCK)).map_err(lost)?;
            self.is_stuck = written.is_none();
            if let Some(n) = written {
                self.session.sent(n);
                let is_late = self.has_output() && limit.has_passed();
                return if is_late { Err(limit.error()) } else { Ok(()) };
            }
            if limit.has_passed() {
                return Err(limit.error());
            }
        }
    }

    /// Waits for the reply to a command that was written.
    pub(super) fn receive(
        &mut self,
        ticket: Ticket,
        wait: ServerWait,
        total: Limit,
    ) -> Result<Response> {
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
    pub(in crate::blocking) fn mark_proven(&mut self) {
        if self.unproven > 0 {
            self.unproven = 0;
            self.backoff.reset();
        }
    }

    /// Reads once.
    pub(in crate::blocking) fn read_some(&mut self, limit: Limit) -> Result<()> {
        if self.read_until(limit)? { Ok(()) } else { Err(limit.error()) }
    }

    /// Reads once; `false` when nothing came until the limit.
    pub(super) fn read_until(&mut self, limit: Limit) -> Result<bool> {
        let Some(transport) = &mut self.transport else { return Err(lost(closed())) };
        match transport.read(self.session.space(), limit).map_err(lost)? {
            Some(0) => self.session.end_of_stream(),
            Some(n) => self.session.received(n),
            None => return Ok(false),
        }
        Ok(true)
    }
}
