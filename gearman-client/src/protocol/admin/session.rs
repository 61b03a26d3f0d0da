//! The administration of one server: one command at a time, over one connection after another.

use std::{
    io::{self, ErrorKind::UnexpectedEof},
    time::{Duration, Instant},
};

use bytes::{Bytes, BytesMut};
use queue_core::{
    Awaits, ConnectionError, Deadlines, Io, Life, Limit, Loss, Need, OneCall, Protocol, Pulse,
    Replace, Request,
};

use super::{AdminCommand, AdminReply, ReplyShape, TextDecoder};
use crate::{ConnectOptions, Deadline, Error, Fate, Result, protocol::client::route::may_repeat};

/// A single caller with one command at a time.
///
/// The server sends nothing unasked. A connection that has received something unasked, or whose last caller left before
/// the reply arrived, is therefore out of step, and is replaced for the next command.
#[derive(Debug)]
pub(crate) struct AdminSession {
    pub(crate) options: ConnectOptions,
    life: Life<Error>,
    one: OneCall<PendingCommand, AdminReply, Error>,
    decoder: TextDecoder,
    is_out_of_step: bool,
}

#[derive(Debug)]
struct PendingCommand {
    frame: Bytes,
    name: &'static str,
    shape: ReplyShape,
    /// Whether the server may end without a reply.
    is_last: bool,
}

impl Request<Error> for PendingCommand {
    fn name(&self, error: Error) -> Error {
        error.with_command(self.name)
    }
}

/// For the caller.
impl AdminSession {
    pub(crate) fn new(options: ConnectOptions) -> Self {
        let deadlines = Deadlines::new(Some(options.reply_timeout), Some(options.write_timeout));
        let connect = Some(options.connect_timeout);
        AdminSession {
            life: Life::new(options.retry, connect, deadlines, Replace::IfGood),
            one: OneCall::default(),
            decoder: TextDecoder::new(options.max_packet_size),
            is_out_of_step: false,
            options,
        }
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
        let request = PendingCommand {
            frame: frame.freeze(),
            name: command.name(),
            shape: command.shape(),
            is_last: matches!(command, AdminCommand::Shutdown { .. }),
        };
        let total = Limit::after(Deadline::Total, self.options.server.total_timeout, now);
        self.life.asked(now);
        self.is_out_of_step |= self.one.begin(request, total, self.options.retry.attempts(), now);
        Ok(())
    }

    pub(crate) fn outcome(&mut self) -> Option<Result<AdminReply>> {
        let outcome = self.one.outcome()?;
        Some(outcome.map_err(|error| error.with_server(&self.options.address)))
    }

    fn answered(&mut self, reply: Result<AdminReply>) {
        self.life.served();
        self.is_out_of_step = !self.decoder.is_at_boundary();
        self.one.settle(reply);
    }
}

queue_core::role!(AdminSession, Error);

impl Protocol for AdminSession {
    fn life(&mut self) -> &mut Life<Error> {
        &mut self.life
    }

    fn connected(&mut self, _: &mut Io<Error>, _: Instant) {
        self.is_out_of_step = false;
        self.decoder = TextDecoder::new(self.options.max_packet_size);
    }

    /// Takes the reply; anything else was not asked for.
    fn receive(&mut self, io: &mut Io<Error>, _: Instant) -> Result<()> {
        if io.data().is_empty() {
            return Ok(());
        }
        let bytes = io.take(usize::MAX);
        let Some(call) = self.one.queued() else {
            self.is_out_of_step = true;
            return Ok(());
        };
        self.decoder.push(&bytes);
        match self.decoder.reply(call.request.shape) {
            Ok(None) => {}
            Ok(Some(reply)) => self.answered(Ok(reply)),
            Err(error) if error.fate() == Fate::Refused => self.answered(Err(error)),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn ended(&mut self, why: io::Error, io: &mut Io<Error>, _: Instant) -> Result<()> {
        let is_reply = why.kind() == UnexpectedEof
            && self.one.queued().is_some_and(|call| call.request.is_last && call.is_sent(io));
        if !is_reply {
            return Err(Error::lost(why));
        }
        self.one.settle(Ok(AdminReply::Line("OK".into())));
        Ok(())
    }

    /// Repeats a command that was not sent whole, on the next connection.
    fn lost(&mut self, loss: Loss<Error>, io: &mut Io<Error>, now: Instant) {
        let Some(error) = self.one.failure(loss, io) else { return };
        let is_harmless = may_repeat(&error, false);
        self.one.repeat(error, is_harmless, &self.life, now);
    }

    fn needs(&mut self, io: &mut Io<Error>, now: Instant) -> Need {
        if self.is_out_of_step {
            self.life.close_with(Error::protocol("the connection is out of step"));
        }
        if let Some(late) = self.one.late(io, now) {
            let is_queued = self.one.queued().is_some();
            self.one.settle(Err(late));
            if is_queued {
                return Need::Close(None);
            }
        }
        match self.one.call() {
            None => Need::Keep(None),
            Some(call) if self.life.is_open() && call.is_unchecked(io) => Need::Peek,
            Some(call) => Need::Use(call.total.at),
        }
    }

    fn dial(&mut self, now: Instant) -> Pulse {
        match self.one.call() {
            Some(call) => call.dial(&mut self.life, now),
            None => Pulse::Close(None),
        }
    }

    fn send(&mut self, io: &mut Io<Error>, _: Instant) -> Awaits {
        let Some(call) = self.one.call_mut() else { return Awaits::default() };
        if !call.is_queued() {
            call.queue(call.request.frame.len(), io);
            io.queue(&mut BytesMut::from(&call.request.frame[..]));
        }
        Awaits { answer: call.awaits(io), ..Awaits::default() }
    }
}
