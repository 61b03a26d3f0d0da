//! The connection of a blocking producer to one server.

use std::{
    io,
    time::{Duration, Instant},
};

use bytes::{Buf, BytesMut};
use queue_core::{blocking::Transport, now};

use crate::{
    ConnectOptions, Deadline, Fate, Result,
    deadline::Limit,
    error::lost,
    protocol::{
        Command, Decoder, Epoch, Stats,
        producer::{Io, max_job_size},
    },
};

/// A connection, if there is one, and what is on its way.
pub(super) struct Wire {
    options: ConnectOptions,
    open: Option<Open>,
    pub(super) io: Io,
}

struct Open {
    transport: Transport,
    decoder: Decoder,
    /// Whether the last write made no progress, so that reading comes first.
    is_stuck: bool,
    used_at: Instant,
}

/// After so long without use, a connection on which nothing is under way is looked at before it is used again: what is
/// written to a server that has gone has an unknown fate, and nothing costs less than to notice before. A caller that
/// puts one job after the other is quicker, and does not pay for it.
const IDLE: Duration = Duration::from_micros(100);

/// How long a write may be stuck before replies are looked for: server and client must not both wait for the other to
/// read.
const STUCK: Duration = Duration::from_millis(10);

/// The shortest wait for a read that there is.
const GLANCE: Duration = Duration::from_millis(1);

impl Wire {
    pub(super) fn new(options: &ConnectOptions) -> Self {
        Wire { options: options.clone(), open: None, io: Io::default() }
    }

    pub(super) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    pub(super) fn hang_up(&mut self) {
        self.open = None;
        self.io = Io::default();
    }

    /// Makes a connection, and asks for the server's limit: that shows that the server answers, too.
    pub(super) fn connect(&mut self, until: Option<Instant>) -> Result<Option<u64>> {
        self.hang_up();
        let limit = self.options.connect_limit(total(until));
        let transport = self.options.connect_blocking(limit)?;
        let decoder = Decoder::new(Epoch::next(), self.options.max_body_size);
        let mut open = Open { transport, decoder, is_stuck: false, used_at: now() };
        let answer = open.greet(limit).map_err(|error| error.with_fate(Fate::NotSent))?;
        self.open = Some(open);
        Ok(answer)
    }

    /// Whether the connection was not used for a while. What was written since the outbox was last told is use: its
    /// answer may have come already, however short the time.
    pub(super) fn was_idle(&self) -> bool {
        let is_old = |open: &Open| now().saturating_duration_since(open.used_at) > IDLE;
        self.io.written == 0 && self.open.as_ref().is_some_and(is_old)
    }

    /// Looks, without waiting, whether the server has closed the connection while nobody used it.
    pub(super) fn look(&mut self) {
        let Some(open) = &mut self.open else { return };
        open.used_at = now();
        if open.transport.is_stale() {
            self.io.failure.get_or_insert(lost(io::ErrorKind::UnexpectedEof.into()));
        }
    }

    /// Writes some of what is to be written; or waits for what comes, until then at most.
    pub(super) fn move_bytes(&mut self, until: Option<Instant>) {
        let Some(open) = &mut self.open else { return };
        let limit = total(until);
        let outcome = if self.io.writing.is_empty() {
            open.read(&mut self.io, limit).map(drop)
        } else {
            open.write(&mut self.io, limit)
        };
        open.used_at = now();
        if let Err(error) = outcome {
            self.io.failure.get_or_insert(error);
        }
    }
}

impl Open {
    /// Writes once; or reads, while writing is stuck, because the server may be stuck writing to us.
    fn write(&mut self, io: &mut Io, limit: Limit) -> Result<()> {
        if self.is_stuck && self.read(io, Limit::never().shorter(GLANCE))? {
            return Ok(());
        }
        let written =
            self.transport.write(&io.writing, limit.sooner(Limit::never().shorter(STUCK)));
        let written = written.map_err(lost)?;
        self.is_stuck = written.is_none();
        if let Some(n) = written {
            io.writing.advance(n);
            io.written += n;
            if io.writing.is_empty() {
                self.transport.flush(limit).map_err(lost)?;
            }
        }
        Ok(())
    }

    /// Reads once; whether something came until the limit.
    fn read(&mut self, io: &mut Io, limit: Limit) -> Result<bool> {
        match self.transport.read(self.decoder.space(), limit).map_err(lost)? {
            None => return Ok(false),
            Some(0) => return Err(lost(io::ErrorKind::UnexpectedEof.into())),
            Some(n) => self.decoder.received(n),
        }
        while let Some(response) = self.decoder.next()? {
            io.arrived.push(response);
        }
        Ok(true)
    }

    fn greet(&mut self, limit: Limit) -> Result<Option<u64>> {
        let mut io = Io::default();
        let mut question = BytesMut::new();
        Stats.encode(&mut question);
        io.writing = question.freeze();
        loop {
            if !io.writing.is_empty() {
                self.write(&mut io, limit)?;
            } else if !self.read(&mut io, limit)? {
                return Err(limit.error());
            }
            if let Some(answer) = io.arrived.pop() {
                return max_job_size(answer);
            }
            if limit.has_passed() {
                return Err(limit.error());
            }
        }
    }
}

/// The limit of everything that is waited for.
fn total(until: Option<Instant>) -> Limit {
    let mut limit = Limit::never().named(Deadline::Total);
    limit.at = until;
    limit
}

impl std::fmt::Debug for Wire {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Wire").field("is_open", &self.is_open()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    /// A thread that has written may not run for a while, and then the answer lies there.
    #[test]
    fn what_was_just_written_is_no_idleness() {
        let server = fixtures::beanstalkd::Server::start().unwrap();
        let mut wire = Wire::new(&server.address().parse().unwrap());
        wire.connect(None).unwrap();
        wire.io.writing = Bytes::from_static(b"list-tube-used\r\n");
        wire.move_bytes(None);
        std::thread::sleep(2 * IDLE);
        assert!(wire.io.written > 0 && !wire.was_idle(), "an answer is on its way");
        // The outbox has been told.
        wire.io.written = 0;
        assert!(wire.was_idle());
    }
}
