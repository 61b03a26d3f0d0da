//! The pump that moves a role's bytes and time in the caller's thread.

use std::{
    fmt, io,
    time::{Duration, Instant},
};

use super::{
    TimedStream, connect,
    dialer::{DialThread, Dialer},
};
use crate::{
    Deadline, End, Error, Io, Limit, Pulse, Role, ServerOptions, System, earliest,
    exclusive::Exclusive, now, sync::thread,
};

/// A connection, with all bytes in transit. Calls and threads only borrow it.
pub struct Wire<F> {
    dialer: Exclusive<Dialer<F>>,
    stream: Option<Exclusive<TimedStream>>,
    io: Io<F>,
    is_aside: bool,
    /// Set when the peer has accepted nothing for a while: what it sends is read before the next attempt to write.
    is_stuck: bool,
    is_unflushed: bool,
    is_half_closed: bool,
}

/// The result of moving bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drive<T> {
    /// The awaited result.
    Done(T),
    /// Nothing to wait for at the socket: call it again at that moment, or when the role was changed.
    Rest(Option<Instant>),
    /// The time of this call expired first.
    Late,
    /// The role has ended.
    Over,
}

/// How long a write may be stuck before the peer is read from, since it may be stuck writing to us.
const STUCK: Duration = Duration::from_millis(10);
/// The shortest possible socket timeout.
const GLANCE: Duration = Duration::from_millis(1);

impl<F> Wire<F> {
    /// Makes connections with `dial`, which gets the index of a server and the deadline.
    pub fn new(
        dial: impl FnMut(usize, Option<Instant>) -> Result<TimedStream, F> + Send + 'static,
    ) -> Self {
        Self::dialing(Dialer::Here(Box::new(dial)))
    }

    /// As [`to`](Self::to), but an attempt that outlasts a [`drive`](Self::drive) or [`push`](Self::push) goes on in its
    /// own thread, and a later one uses its connection: for callers with other servers, and for a worker, whose
    /// stop must not wait for it.
    pub fn aside<S: System<Error = F>>(options: &ServerOptions<S>) -> Self
    where
        F: From<Error> + Send + 'static,
    {
        // The model has one thread for each connection.
        if cfg!(shuttle) {
            return Self::to(options);
        }
        let options = options.clone();
        let connect = move |by| connect(&options, Limit::until(Deadline::Connect, by));
        Self::dialing(Dialer::DialThread(DialThread::new(connect)))
    }

    fn dialing(dialer: Dialer<F>) -> Self {
        Wire {
            is_aside: !matches!(dialer, Dialer::Here(_)),
            dialer: Exclusive::new(dialer),
            stream: None,
            io: Io::default(),
            is_stuck: false,
            is_unflushed: false,
            is_half_closed: false,
        }
    }

    /// Makes connections to one server by its options, whatever the index.
    pub fn to<S: System<Error = F>>(options: &ServerOptions<S>) -> Self
    where
        F: From<Error> + 'static,
    {
        let options = options.clone();
        Wire::new(move |_, until| connect(&options, Limit::until(Deadline::Connect, until)))
    }

    /// Uses a connected stream until a role asks for another one.
    #[must_use]
    pub fn over(mut self, stream: TimedStream) -> Self {
        self.open(stream);
        self
    }

    /// The state of the connection.
    #[must_use]
    pub fn io(&self) -> &Io<F> {
        &self.io
    }

    /// Moves bytes until `done` returns something, but not beyond `at_most`: then another thread may use the wire.
    pub fn drive<R, T>(
        &mut self,
        role: &mut R,
        at_most: Option<Instant>,
        mut done: impl FnMut(&mut R) -> Option<T>,
    ) -> Drive<T>
    where
        R: Role<Failure = F> + ?Sized,
    {
        loop {
            let now = now();
            self.collect();
            let pulse = role.exchange(&mut self.io, now);
            self.io.release();
            let outcome = done(role);
            // The caller may not come back, so close the connection before it gets its outcome.
            let was_open = pulse.ends() && self.close();
            if let Some(outcome) = outcome {
                return Drive::Done(outcome);
            }
            let until = earliest([pulse.until(), at_most]);
            let moved = match pulse {
                Pulse::Over => return Drive::Over,
                // It waits for nothing, and the role may not give up before.
                Pulse::Look => self.look(now, true),
                _ if at_most.is_some_and(|at| at <= now) => return Drive::Late,
                Pulse::Close(_) if was_open => Ok(()),
                Pulse::Close(until) => return Drive::Rest(until),
                Pulse::Rest(until) if self.is_written() => return Drive::Rest(until),
                Pulse::Go(until) | Pulse::HalfClose(until) if !self.io.is_open() => {
                    return Drive::Rest(until);
                }
                Pulse::Dial { server, by, .. } => {
                    self.dial(server, by, at_most);
                    Ok(())
                }
                Pulse::Peek => self.look(now, false),
                Pulse::Go(_) | Pulse::Rest(_) => self.move_bytes(false, until),
                Pulse::HalfClose(_) => self.move_bytes(true, until),
            };
            if let Err(error) = moved {
                self.io.ended(End::Lost(error));
            }
        }
    }

    /// Writes what the role has queued without waiting for an answer, for callers with something else to do first. A
    /// wire that connects [aside](Self::aside) also starts to.
    pub fn push<R: Role<Failure = F> + ?Sized>(&mut self, role: &mut R) {
        self.push_until(role, |_| false);
    }

    /// As [`push`](Self::push), but leaves the rest to a later call if the peer accepts no more for now.
    pub fn try_push<R: Role<Failure = F> + ?Sized>(&mut self, role: &mut R) {
        self.push_until(role, |wire| wire.is_stuck);
    }

    fn push_until<R>(&mut self, role: &mut R, is_enough: impl Fn(&Self) -> bool)
    where
        R: Role<Failure = F> + ?Sized,
    {
        loop {
            let now = now();
            self.collect();
            let pulse = role.exchange(&mut self.io, now);
            self.io.release();
            let is_unwritten = self.io.is_open() && !self.is_written();
            let moved = match pulse {
                Pulse::Look => self.look(now, true),
                Pulse::Peek => self.look(now, false),
                Pulse::Go(until) | Pulse::Rest(until) if is_unwritten => {
                    self.write_on(false, until).map(drop)
                }
                Pulse::HalfClose(until) if is_unwritten => self.write_on(true, until).map(drop),
                Pulse::Close(_) | Pulse::Over => {
                    self.close();
                    return;
                }
                Pulse::Dial { server, by, .. } if self.is_aside => {
                    if !self.dial(server, by, Some(now)) {
                        return;
                    }
                    Ok(())
                }
                _ => return,
            };
            match moved {
                Err(error) => self.io.ended(End::Lost(error)),
                Ok(()) if is_enough(self) => return,
                Ok(()) => {}
            }
        }
    }

    /// Moves bytes until `done` returns something, for a role with no other users: sleeps while there is nothing to do.
    /// `None` if the role has ended, or waits for nothing.
    pub fn call<R, T>(
        &mut self,
        role: &mut R,
        mut done: impl FnMut(&mut R) -> Option<T>,
    ) -> Option<T>
    where
        R: Role<Failure = F> + ?Sized,
    {
        loop {
            match self.drive(role, None, &mut done) {
                Drive::Done(outcome) => return Some(outcome),
                Drive::Rest(Some(at)) => thread::sleep(at.saturating_duration_since(now())),
                Drive::Rest(None) | Drive::Late | Drive::Over => return None,
            }
        }
    }

    /// Whether the attempt has ended.
    fn dial(&mut self, server: usize, by: Option<Instant>, at_most: Option<Instant>) -> bool {
        self.close();
        let outcome = self.dialer.get().dial(server, by, at_most);
        outcome.map(|outcome| self.dialed(outcome)).is_some()
    }

    fn dialed(&mut self, outcome: Result<TimedStream, F>) {
        match outcome {
            Ok(stream) => self.open(stream),
            Err(failure) => self.io.ended(End::NotConnected(failure)),
        }
    }

    /// Whether connections are made in their own threads.
    #[must_use]
    pub fn connects_aside(&self) -> bool {
        self.is_aside
    }

    /// Takes the outcome of an attempt that has outlasted an earlier call, before the role takes it for overdue.
    fn collect(&mut self) {
        if self.stream.is_none()
            && let Some(outcome) = self.dialer.get().ended()
        {
            self.dialed(outcome);
        }
    }

    fn open(&mut self, stream: TimedStream) {
        self.stream = Some(Exclusive::new(stream));
        (self.is_stuck, self.is_unflushed, self.is_half_closed) = (false, false, false);
        self.io.opened();
    }

    /// Returns whether there was something to close.
    fn close(&mut self) -> bool {
        self.io.closed();
        self.stream.take().is_some()
    }

    /// Whether the stream has passed on everything queued.
    fn is_written(&self) -> bool {
        self.io.is_drained() && !self.is_unflushed
    }

    /// Reads what has arrived without waiting; with `in_doubt`, also from a stream that cannot tell whether anything
    /// has.
    fn look(&mut self, now: Instant, in_doubt: bool) -> io::Result<()> {
        let stream = self.stream.as_mut().map(Exclusive::get);
        let reads = stream.is_some_and(|stream| stream.has_input().unwrap_or(in_doubt));
        if !(reads && self.read(Some(now + GLANCE))?) {
            self.io.looked(now);
        }
        Ok(())
    }

    /// Returns when something has arrived, when the time has expired, or when a write makes no progress. Once
    /// everything is written, the role may be able to use data that it left.
    fn move_bytes(&mut self, half_close: bool, until: Option<Instant>) -> io::Result<()> {
        let waits = !self.io.is_drained() && !self.io.data().is_empty();
        let was_half_closed = self.is_half_closed;
        let is_written = self.write_on(half_close, until)?;
        let has_half_closed = self.is_half_closed && !was_half_closed;
        if is_written && !waits && !has_half_closed {
            self.read(until)?;
        }
        Ok(())
    }

    /// Whether everything is written. Also returns when something has arrived, or when a write makes no progress.
    fn write_on(&mut self, half_close: bool, until: Option<Instant>) -> io::Result<bool> {
        if self.is_stuck {
            // The peer may be stuck writing to us, so read all of that before the next attempt.
            if self.read(Some(now() + GLANCE))? {
                return Ok(false);
            }
            self.is_stuck = false;
        }
        let written = self.write(half_close, until);
        self.is_stuck = matches!(written, Ok(false));
        // The role gets what arrived before a write failed, and then the failure.
        if written.is_err() && matches!(self.read(Some(now() + GLANCE)), Ok(true)) {
            return Ok(false);
        }
        written
    }

    /// Whether everything is written. A peer that keeps accepting a little does not extend the time.
    fn write(&mut self, half_close: bool, until: Option<Instant>) -> io::Result<bool> {
        let Some(stream) = self.stream.as_mut().map(Exclusive::get) else { return Ok(true) };
        if self.is_unflushed || !self.io.is_drained() {
            let stuck = || Some(now() + STUCK);
            while !self.io.is_drained() {
                match stream.write(self.io.unsent(), stuck())? {
                    Some(n) => self.io.took(n, now()),
                    None => return Ok(false),
                }
                self.is_unflushed = true;
                if !self.io.is_drained() && until.is_some_and(|at| at <= now()) {
                    return Ok(false);
                }
            }
            if !stream.flush(stuck())? {
                return Ok(false);
            }
            self.is_unflushed = false;
        }
        if half_close && !self.is_half_closed {
            stream.shutdown_write()?;
            self.is_half_closed = true;
        }
        Ok(true)
    }

    /// Whether something arrived.
    fn read(&mut self, until: Option<Instant>) -> io::Result<bool> {
        let may_read = self.io.is_open() && !self.io.is_full();
        let Some(stream) = self.stream.as_mut().filter(|_| may_read).map(Exclusive::get) else {
            return Ok(false);
        };
        match stream.read(self.io.space(), until)? {
            Some(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Some(n) => {
                self.io.came(n);
                Ok(true)
            }
            None => Ok(false),
        }
    }
}

impl<F> fmt::Debug for Wire<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wire")
            .field("is_open", &self.io.is_open())
            .field("epoch", &self.io.epoch())
            .field("is_stuck", &self.is_stuck)
            .finish_non_exhaustive()
    }
}
