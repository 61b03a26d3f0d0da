//! The administration of one server: one command at a time, over one connection after another.

use std::{
    io::ErrorKind::UnexpectedEof,
    time::{Duration, Instant},
};

use bytes::{Bytes, BytesMut};
use queue_core::{End, Health, Io, Late, Limit, Pace, Pulse, Role, earliest};

use super::{AdminCommand, AdminReply, ReplyShape, TextDecoder};
use crate::{
    ConnectOptions, Deadline, Error, Fate, Result, error::lost, protocol::client::route::may_repeat,
};

/// A single caller with one command at a time.
///
/// The server sends nothing unasked. A connection that has received something unasked, or whose last caller left before
/// the reply arrived, is therefore out of step, and is replaced for the next command.
#[derive(Debug)]
pub(crate) struct AdminSession {
    options: ConnectOptions,
    decoder: TextDecoder,
    is_open: bool,
    is_out_of_step: bool,
    call: Option<Call>,
    outcome: Option<Result<AdminReply>>,
    health: Health,
    /// Whether a command was answered on this connection.
    has_served: bool,
    pace: Pace,
}

#[derive(Debug)]
struct Call {
    frame: Bytes,
    name: &'static str,
    shape: ReplyShape,
    /// Whether the server may end without a reply.
    is_last: bool,
    since: Instant,
    total: Limit,
    /// How often it may still be retried.
    attempts: u32,
    has_failed: bool,
    /// Its end offset on the connection, once queued.
    end: Option<u64>,
}

impl Call {
    /// Whether it was sent whole.
    fn is_sent(&self, io: &Io<Error>) -> bool {
        self.end.is_some_and(|end| end <= io.sent())
    }
}

/// For the caller.
impl AdminSession {
    pub(crate) fn new(options: ConnectOptions) -> Self {
        AdminSession {
            decoder: TextDecoder::new(options.max_packet_size),
            is_open: false,
            is_out_of_step: false,
            call: None,
            outcome: None,
            health: Health::new(options.retry, Some(options.connect_timeout)),
            has_served: false,
            pace: Pace::new(Some(options.reply_timeout), Some(options.write_timeout)),
            options,
        }
    }

    pub(crate) fn options(&self) -> &ConnectOptions {
        &self.options
    }

    pub(crate) fn set_total_timeout(&mut self, timeout: Option<Duration>) {
        self.options.server.total_timeout = timeout;
    }

    /// Starts the next command. The caller of the previous one may be gone.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a command that cannot be encoded, and for the handle of a job of another server.
    pub(crate) fn begin(&mut self, command: &AdminCommand, now: Instant) -> Result<()> {
        if let AdminCommand::CancelJob(handle) = command {
            let own = handle.position_in(std::iter::once(self.options.address()));
            own.map_err(|error| error.with_command(command.name()))?;
        }
        let mut frame = BytesMut::new();
        command.encode(&mut frame)?;
        let total = self.options.server.total_timeout;
        self.outcome = None;
        self.is_out_of_step |= self.call.take().is_some_and(|call| call.end.is_some());
        self.call = Some(Call {
            frame: frame.freeze(),
            name: command.name(),
            shape: command.shape(),
            is_last: matches!(command, AdminCommand::Shutdown { .. }),
            since: now,
            total: Limit::after(Deadline::Total, total, now),
            attempts: self.options.retry.attempts(),
            has_failed: false,
            end: None,
        });
        Ok(())
    }

    pub(crate) fn outcome(&mut self) -> Option<Result<AdminReply>> {
        self.outcome.take()
    }
}

impl Role for AdminSession {
    type Failure = Error;

    fn exchange(&mut self, io: &mut Io<Error>, now: Instant) -> Pulse {
        if self.health.is_new(io) {
            (self.is_open, self.is_out_of_step, self.has_served) = (true, false, false);
            self.decoder = TextDecoder::new(self.options.max_packet_size);
            self.pace.reset();
        }
        if self.is_open && !io.data().is_empty() {
            self.take(io);
        }
        match io.take_end() {
            Some(End::NotConnected(error)) => self.fail(error, now),
            Some(End::Lost(error)) if self.is_open => self.lose(error, io, now),
            _ => {}
        }
        if self.is_open && self.is_out_of_step {
            self.leave(now);
        }
        let Some(call) = &self.call else { return self.idle() };
        if call.total.has_passed(now) {
            let fate = if call.is_sent(io) { Fate::Unknown } else { Fate::NotSent };
            let late = Error::from(call.total.error()).with_fate(fate);
            self.is_open &= call.end.is_none();
            self.settle(Err(late));
            return self.idle();
        }
        if !self.is_open {
            return self.dial(now);
        }
        if call.end.is_none() && !io.has_looked_since(call.since) {
            return Pulse::Peek;
        }
        self.send(io);
        self.keep_pace(io, now)
    }
}

/// For the pump.
impl AdminSession {
    fn idle(&self) -> Pulse {
        if self.is_open { Pulse::Rest(None) } else { Pulse::Close(None) }
    }

    /// Takes the reply; anything else was not asked for.
    fn take(&mut self, io: &mut Io<Error>) {
        let bytes = io.take(usize::MAX);
        let Some(call) = self.call.as_ref().filter(|call| call.end.is_some()) else {
            self.is_out_of_step = true;
            return;
        };
        self.decoder.push(&bytes);
        match self.decoder.reply(call.shape) {
            Ok(None) => {}
            Ok(Some(reply)) => self.answered(Ok(reply)),
            Err(error) if error.fate() == Fate::Refused => self.answered(Err(error)),
            Err(error) => {
                self.is_open = false;
                self.settle(Err(error));
            }
        }
    }

    fn answered(&mut self, reply: Result<AdminReply>) {
        self.has_served = true;
        self.health.proven();
        self.is_out_of_step = !self.decoder.is_at_boundary();
        self.settle(reply);
    }

    fn settle(&mut self, outcome: Result<AdminReply>) {
        if let Some(call) = self.call.take() {
            self.outcome =
                Some(outcome.map_err(|error| {
                    error.with_command(call.name).with_server(&self.options.address)
                }));
        }
    }

    /// Abandons the connection, which is nobody's failure.
    fn leave(&mut self, now: Instant) {
        self.is_open = false;
        match self.has_served {
            true => self.health.lost(),
            false => self.health.failed(now),
        }
    }

    /// Handles the loss of the connection.
    fn lose(&mut self, why: std::io::Error, io: &Io<Error>, now: Instant) {
        self.leave(now);
        let Some(call) = self.call.as_ref().filter(|call| call.end.is_some()) else { return };
        if call.is_last && why.kind() == UnexpectedEof && call.is_sent(io) {
            return self.settle(Ok(AdminReply::Line("OK".into())));
        }
        let fate = if call.is_sent(io) { Fate::Unknown } else { Fate::NotSent };
        self.repeat(lost(why).with_fate(fate), now);
    }

    /// Handles a failed attempt to connect.
    fn fail(&mut self, error: Error, now: Instant) {
        if self.call.as_ref().is_some_and(|call| self.health.is_dialing_since_before(call.since)) {
            // It was started for a call whose caller is gone, and may have ended long ago.
            return self.health.lost();
        }
        self.health.failed(now);
        self.repeat(error, now);
    }

    /// Retries what was not sent on another connection, while retries are allowed.
    fn repeat(&mut self, error: Error, now: Instant) {
        let Some(call) = &mut self.call else { return };
        if call.total.has_passed(now) {
            let late = Error::from(call.total.error()).with_fate(error.fate());
            return self.settle(Err(late));
        }
        if !may_repeat(&error, false) || call.attempts == 0 {
            return self.settle(Err(error));
        }
        (call.attempts, call.end, call.has_failed) = (call.attempts - 1, None, true);
    }

    fn dial(&mut self, now: Instant) -> Pulse {
        if self.health.is_overdue(now) {
            self.fail(self.options.timed_out(Deadline::Connect).into(), now);
        }
        match &self.call {
            Some(call) => self.health.dial_for_call(!call.has_failed, call.total.at, now),
            None => Pulse::Close(None),
        }
    }

    fn send(&mut self, io: &mut Io<Error>) {
        if let Some(call) = self.call.as_mut().filter(|call| call.end.is_none()) {
            call.end = Some(io.sent() + io.unwritten() as u64 + call.frame.len() as u64);
            io.queue(&mut BytesMut::from(&call.frame[..]));
        }
    }

    fn keep_pace(&mut self, io: &Io<Error>, now: Instant) -> Pulse {
        let Some(call) = &self.call else { return self.idle() };
        let holds = call.is_sent(io).then_some(Duration::ZERO);
        let late: Error = match self.pace.check(io, holds, false, now) {
            Ok(until) => return Pulse::Go(earliest([until, call.total.at])),
            Err(late @ Late::Reply) => self.pace.error(late).with_fate(Fate::Unknown).into(),
            Err(late @ Late::Write) => self.pace.error(late).into(),
        };
        self.leave(now);
        self.repeat(late, now);
        match self.call {
            Some(_) => self.dial(now),
            None => self.idle(),
        }
    }
}
