//! The pump that moves a role's bytes and time on tokio.

#[cfg(feature = "tokio")]
pub(crate) mod attentive;
#[cfg(feature = "tokio")]
pub(crate) mod shared;
#[cfg(feature = "tokio")]
pub(crate) mod tasks;

use std::{
    fmt, io,
    pin::{Pin, pin},
    task::{Context, Poll, ready},
    time::Instant,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    task::yield_now,
    time::{Sleep, sleep_until},
};

use crate::{
    Deadline, Duplex, End, Error, Io, Limit, Pulse, Role, ServerOptions, System, connect,
    dial::socket::reading, error::limit::WRITE_STEP, exclusive::Exclusive, now,
};

/// An attempt to connect, with its own time limit.
pub(crate) type Dialing<F> = Pin<Box<dyn Future<Output = Result<Box<dyn Duplex>, F>> + Send>>;

type Dialer<F> = Box<dyn FnMut(usize, Option<Instant>) -> Dialing<F> + Send>;

/// A connection, or the attempt to make one, with all bytes in transit.
///
/// Futures and tasks only borrow it, so dropping one of them loses no byte and no attempt.
pub struct Wire<F> {
    dialer: Exclusive<Dialer<F>>,
    stage: ConnectStage<F>,
    io: Io<F>,
    alarm: Option<Pin<Box<Sleep>>>,
    /// The pulse at which the task went to sleep.
    slept: Option<Pulse>,
    is_unflushed: bool,
    is_half_closed: bool,
}

enum ConnectStage<F> {
    Closed,
    Dialing(usize, Exclusive<Dialing<F>>),
    Open(Exclusive<Box<dyn Duplex>>),
}

/// How often a role is asked before other tasks get their turn.
const TURNS_IN_A_ROW: usize = 32;
/// Number of bytes before other tasks get their turn; they may be thousands of small messages.
const BYTES_IN_A_ROW: u64 = 64 << 10;

impl<F> Wire<F> {
    /// Makes connections with `dial`, which gets the index of a server and the deadline.
    pub fn new(dial: impl FnMut(usize, Option<Instant>) -> Dialing<F> + Send + 'static) -> Self {
        Wire {
            dialer: Exclusive::new(Box::new(dial)),
            stage: ConnectStage::Closed,
            io: Io::default(),
            alarm: None,
            slept: None,
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
        Wire::new(move |_, until| {
            let options = options.clone();
            let limit = Limit::until(Deadline::Connect, until);
            Box::pin(async move { connect(&options, limit).await })
        })
    }

    /// Uses a connected stream until a role asks for another one.
    #[must_use]
    pub fn over(mut self, stream: Box<dyn Duplex>) -> Self {
        self.open(stream);
        self
    }

    /// The state of the connection.
    #[must_use]
    pub fn io(&self) -> &Io<F> {
        &self.io
    }

    /// Moves bytes until `done` returns something; `None` if the role has ended.
    ///
    /// # Cancel safety
    ///
    /// A future that polls this may be dropped at any time: the next one continues where it stopped.
    pub fn poll<R, T>(
        &mut self,
        cx: &mut Context<'_>,
        role: &mut R,
        mut done: impl FnMut(&mut R) -> Option<T>,
    ) -> Poll<Option<T>>
    where
        R: Role<Failure = F> + ?Sized,
    {
        if let Some(pulse) = self.slept.take() {
            // The peer has most likely woken the task, so read before asking the role.
            self.obey(cx, pulse);
        }
        let mut pulse = Pulse::Over;
        let enough = self.io.received() + BYTES_IN_A_ROW;
        for _ in 0..TURNS_IN_A_ROW {
            if self.io.received() >= enough {
                break;
            }
            pulse = self.ask(role);
            let outcome = done(role);
            if outcome.is_some() || pulse == Pulse::Over {
                // The caller may not come back, so close the connection before it gets its outcome.
                if pulse.ends() {
                    self.close();
                }
                return Poll::Ready(outcome);
            }
            if matches!(pulse, Pulse::Look | Pulse::Peek) {
                // A runtime that has done nothing since only now learns what has arrived.
                break;
            }
            if !self.obey(cx, pulse) && self.sleep(cx, pulse.until()).is_pending() {
                self.slept = Some(pulse);
                return Poll::Pending;
            }
        }
        // Goes behind timers and other connections too, which waking alone does not achieve.
        self.slept = Some(pulse);
        pin!(yield_now()).poll(cx).map(|()| None)
    }

    fn ask<R: Role<Failure = F> + ?Sized>(&mut self, role: &mut R) -> Pulse {
        let pulse = role.exchange(&mut self.io, now());
        self.io.release();
        pulse
    }

    /// Does what the role asks for as far as possible without waiting; returns whether to ask it again at once.
    fn obey(&mut self, cx: &mut Context<'_>, pulse: Pulse) -> bool {
        match pulse {
            Pulse::Dial { server, by, .. } => self.dial(cx, server, by),
            Pulse::Go(_) => self.move_bytes(cx, true, false),
            Pulse::Rest(_) => self.move_bytes(cx, false, false),
            Pulse::HalfClose(_) => self.move_bytes(cx, true, true),
            Pulse::Look | Pulse::Peek => {
                if !self.read(cx, false) {
                    self.io.looked(now());
                }
                true
            }
            Pulse::Close(_) | Pulse::Over => self.close(),
        }
    }

    fn dial(&mut self, cx: &mut Context<'_>, server: usize, by: Option<Instant>) -> bool {
        if !matches!(&self.stage, ConnectStage::Dialing(of, _) if *of == server) {
            self.close();
            let attempt = self.dialer.get()(server, by);
            self.stage = ConnectStage::Dialing(server, Exclusive::new(attempt));
        }
        let ConnectStage::Dialing(_, attempt) = &mut self.stage else { return false };
        let Poll::Ready(outcome) = attempt.get().as_mut().poll(cx) else { return false };
        match outcome {
            Ok(stream) => self.open(stream),
            Err(failure) => {
                self.stage = ConnectStage::Closed;
                self.io.ended(End::NotConnected(failure));
            }
        }
        true
    }

    fn open(&mut self, stream: Box<dyn Duplex>) {
        self.stage = ConnectStage::Open(Exclusive::new(stream));
        (self.is_unflushed, self.is_half_closed) = (false, false);
        self.io.opened();
    }

    /// Returns whether there was something to close.
    fn close(&mut self) -> bool {
        self.io.closed();
        !matches!(std::mem::replace(&mut self.stage, ConnectStage::Closed), ConnectStage::Closed)
    }

    /// Writes what the stream accepts, and reads once; returns whether anything happened. Once everything is written,
    /// the role may be able to use data that it left.
    fn move_bytes(&mut self, cx: &mut Context<'_>, expects: bool, half_close: bool) -> bool {
        let (waits, sent) = (!self.io.is_drained() && !self.io.data().is_empty(), self.io.sent());
        let was_half_closed = self.is_half_closed;
        let written = self.write(cx, half_close);
        // A caller may be waiting for the room that is free now.
        let made_room = self.io.is_drained() && self.io.sent() - sent >= WRITE_STEP as u64;
        // The role gets what arrived before a write failed, and then the failure.
        let has_read = self.read(cx, expects);
        if let Poll::Ready(Err(error)) = written
            && !has_read
        {
            self.io.ended(End::Lost(error));
            return true;
        }
        let has_half_closed = self.is_half_closed && !was_half_closed;
        has_read || made_room || has_half_closed || (waits && self.io.is_drained())
    }

    fn write(&mut self, cx: &mut Context<'_>, half_close: bool) -> Poll<io::Result<()>> {
        let (ConnectStage::Open(stream), true) = (&mut self.stage, self.io.is_open()) else {
            return Poll::Pending;
        };
        let stream = stream.get();
        while !self.io.is_drained() {
            match ready!(Pin::new(&mut *stream).poll_write(cx, self.io.unsent()))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                n => self.io.took(n, now()),
            }
            self.is_unflushed = true;
        }
        if self.is_unflushed {
            ready!(Pin::new(&mut *stream).poll_flush(cx))?;
            self.is_unflushed = false;
        }
        if half_close && !self.is_half_closed {
            ready!(Pin::new(stream).poll_shutdown(cx))?;
            self.is_half_closed = true;
        }
        Poll::Ready(Ok(()))
    }

    /// Reads once; returns whether something arrived, including the end.
    fn read(&mut self, cx: &mut Context<'_>, expects: bool) -> bool {
        let may_read = self.io.is_open() && !self.io.is_full();
        let (ConnectStage::Open(stream), true) = (&mut self.stage, may_read) else {
            return false;
        };
        let mut space = ReadBuf::new(self.io.space());
        let read = reading(expects, || Pin::new(stream.get()).poll_read(cx, &mut space));
        let read = read.map_ok(|()| space.filled().len());
        match read {
            Poll::Ready(Ok(0)) => self.io.ended(End::Lost(io::ErrorKind::UnexpectedEof.into())),
            Poll::Ready(Ok(n)) => self.io.came(n),
            Poll::Ready(Err(error)) => self.io.ended(End::Lost(error)),
            Poll::Pending => return false,
        }
        true
    }

    /// Moves the alarm only if it would go off too late, since most deadlines move to later times.
    fn sleep(&mut self, cx: &mut Context<'_>, until: Option<Instant>) -> Poll<()> {
        let Some(at) = until else { return Poll::Pending };
        let alarm = self.alarm.get_or_insert_with(|| Box::pin(sleep_until(at.into())));
        if alarm.is_elapsed() || alarm.deadline().into_std() > at {
            alarm.as_mut().reset(at.into());
        }
        alarm.as_mut().poll(cx)
    }

    /// The task that moved the bytes is gone: informs the role, and wakes its callers.
    pub(crate) fn abandon<R: Role<Failure = F> + ?Sized>(&mut self, role: &mut R) {
        self.io.abandoned();
        self.ask(role);
        self.close();
    }
}

impl<F> fmt::Debug for Wire<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wire")
            .field("is_open", &self.io.is_open())
            .field("epoch", &self.io.epoch())
            .field("slept", &self.slept)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::{
        future::{pending, poll_fn},
        time::Duration,
    };

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_alarm_follows_an_earlier_deadline() {
        let mut wire = Wire::<()>::new(|_, _| Box::pin(pending()));
        let start = now();
        let at = |seconds| Some(start + Duration::from_secs(seconds));
        for until in [at(3600), at(2), at(1), None] {
            let polled = poll_fn(|cx| Poll::Ready(wire.sleep(cx, until))).await;
            assert_eq!(polled, Poll::Pending);
        }
        poll_fn(|cx| wire.sleep(cx, at(1))).await;
        assert_eq!(now().duration_since(start).as_secs(), 1);
        // And again after it has gone off.
        poll_fn(|cx| wire.sleep(cx, at(5))).await;
        assert_eq!(now().duration_since(start).as_secs(), 5);
    }
}
