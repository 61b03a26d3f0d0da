//! The loop over one connection of the async face: writes what others have queued, and reads what comes.

use std::{
    io,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use bytes::{Buf, BytesMut};
use queue_core::{Stream, WRITE_STEP, now};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    task::yield_now,
    time::{Sleep, sleep_until},
};

use crate::{
    ConnectOptions, Deadline, Error, Result,
    deadline::timed_out,
    error::lost,
    protocol::{Decoder, Epoch, Packet},
};

/// What a driver serves: a role on a connection that others share.
pub(crate) trait Served: Send + Sync {
    /// Under its lock, takes what came and gives what is to be written; without it, wakes whom that concerns.
    ///
    /// # Errors
    ///
    /// When the connection cannot be used any further.
    fn exchange(
        self: &Arc<Self>,
        epoch: Epoch,
        io: &mut Io,
        now: Instant,
        cx: &Context<'_>,
    ) -> Result<Pulse>;

    /// An answer is overdue. Whether the connection can go on even so.
    fn can_go_on_without_answer(&self) -> bool {
        false
    }
}

/// What a driver and the role that it serves hand each other.
pub(crate) struct Io {
    /// What is being written. An empty one is exchanged for what was queued.
    pub(crate) writing: BytesMut,
    /// How much the stream has taken since the last exchange.
    pub(crate) written: usize,
    /// How much came since the last exchange.
    pub(crate) read: usize,
    /// What came since the last exchange.
    pub(crate) arrived: Vec<Packet>,
    /// Whom to wake, outside of locks. Kept for its memory.
    pub(crate) wakers: Vec<Waker>,
    /// More may have come already.
    pub(crate) has_read: bool,
    /// Why the connection ends, once what arrived before has been taken.
    pub(crate) failure: Option<Error>,
}

impl Io {
    /// Whether the driver has something to do at once, so that it need not be woken.
    pub(crate) fn is_busy(&self, was_stuck: bool) -> bool {
        self.has_read || (!was_stuck && !self.writing.is_empty())
    }
}

/// What the role says after an exchange.
pub(crate) enum Pulse {
    /// The connection is not needed any more.
    Over,
    /// It goes on.
    Beats {
        /// Answers are waited for.
        is_waiting: bool,
        /// Some came.
        has_answers: bool,
        /// The role is to be asked again then.
        wake_at: Option<Instant>,
    },
}

/// Owns a stream, and moves bytes for the role that it serves.
pub(crate) struct Driver<S> {
    served: Arc<S>,
    epoch: Epoch,
    stream: Box<dyn Stream>,
    decoder: Decoder,
    io: Io,
    unflushed: bool,
    write_timeout: Duration,
    reply_timeout: Duration,
    /// Since when the oldest request in flight is the oldest.
    head_since: Option<Instant>,
    /// Since when the present step of a write goes on, and how many bytes of it were taken.
    write_since: Option<Instant>,
    write_taken: usize,
    /// Goes off at the next deadline, or before.
    alarm: Pin<Box<Sleep>>,
}

/// How often the driver reads before it lets other tasks run.
const READS_IN_A_ROW: usize = 32;

/// How many packets it takes before that.
const PACKETS_IN_A_ROW: usize = 1024;

enum Turn {
    /// There is more to do.
    Busy,
    /// Something will wake the driver.
    Asleep,
    /// The driver is needed no more.
    Over,
}

impl<S: Served> Driver<S> {
    pub(crate) fn new(
        served: Arc<S>,
        epoch: Epoch,
        stream: Box<dyn Stream>,
        decoder: Decoder,
        options: &ConnectOptions,
    ) -> Self {
        Driver {
            served,
            epoch,
            stream,
            decoder,
            io: Io {
                writing: BytesMut::new(),
                written: 0,
                read: 0,
                arrived: Vec::new(),
                wakers: Vec::new(),
                has_read: false,
                failure: None,
            },
            unflushed: false,
            write_timeout: options.write_timeout,
            reply_timeout: options.reply_timeout,
            head_since: None,
            write_since: None,
            write_taken: 0,
            alarm: Box::pin(sleep_until(now().into())),
        }
    }

    /// Runs until the connection ends: `Some` with the reason, or `None` when it is not needed any more.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Error>> {
        let mut packets = 0;
        for _ in 0..READS_IN_A_ROW {
            match self.turn(cx, &mut packets) {
                Ok(Turn::Busy) if packets >= PACKETS_IN_A_ROW => break,
                Ok(Turn::Busy) => {}
                Ok(Turn::Asleep) => return Poll::Pending,
                Ok(Turn::Over) => return Poll::Ready(None),
                Err(error) => return Poll::Ready(Some(error)),
            }
        }
        // To the end of the line, behind timers and other connections too, which waking alone does not do.
        pin!(yield_now()).poll(cx).map(|()| None)
    }

    /// Writes, reads, and exchanges the outcome with the role.
    fn turn(&mut self, cx: &mut Context<'_>, packets: &mut usize) -> Result<Turn> {
        if let Err(error) = self.write(cx) {
            self.io.failure = Some(error);
        }
        let written = self.io.written;
        let was_stuck = !self.io.writing.is_empty();
        self.io.has_read = self.read(cx);
        *packets += self.io.arrived.len();
        let now = now();
        let pulse = self.served.exchange(self.epoch, &mut self.io, now, cx)?;
        if let Some(error) = self.io.failure.take() {
            return Err(error);
        }
        let Pulse::Beats { is_waiting, has_answers, wake_at } = pulse else {
            return Ok(Turn::Over);
        };
        self.head_since = match self.head_since {
            Some(since) if is_waiting && !has_answers => Some(since),
            _ => is_waiting.then_some(now),
        };
        self.time_write(written, was_stuck, now);
        // Whatever else arrives.
        if self.write_by().is_some_and(|at| at <= now) {
            return Err(timed_out(Deadline::Write));
        }
        if self.reply_by().is_some_and(|at| at <= now) {
            if !self.served.can_go_on_without_answer() {
                return Err(timed_out(Deadline::Reply));
            }
            self.head_since = None;
            return Ok(Turn::Busy);
        }
        if self.io.is_busy(was_stuck) {
            return Ok(Turn::Busy);
        }
        self.sleep(cx, wake_at)
    }

    /// Each step of a write has the write timeout anew.
    fn time_write(&mut self, written: usize, was_stuck: bool, now: Instant) {
        self.write_taken += written;
        let is_new = !was_stuck || self.write_taken >= WRITE_STEP;
        if is_new || self.write_since.is_none() {
            self.write_since = (!self.io.writing.is_empty()).then_some(now);
            self.write_taken = 0;
        }
    }

    fn write_by(&self) -> Option<Instant> {
        self.write_since?.checked_add(self.write_timeout)
    }

    fn reply_by(&self) -> Option<Instant> {
        self.head_since?.checked_add(self.reply_timeout)
    }

    /// Writes what the stream takes.
    fn write(&mut self, cx: &mut Context<'_>) -> Result<()> {
        while !self.io.writing.is_empty() {
            match Pin::new(&mut self.stream).poll_write(cx, &self.io.writing) {
                Poll::Ready(Ok(0)) => return Err(lost(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(n)) => {
                    self.io.writing.advance(n);
                    self.io.written += n;
                    self.unflushed = true;
                }
                Poll::Ready(Err(error)) => return Err(lost(error)),
                Poll::Pending => return Ok(()),
            }
        }
        if self.unflushed {
            match Pin::new(&mut self.stream).poll_flush(cx) {
                Poll::Ready(flushed) => flushed.map_err(lost)?,
                Poll::Pending => return Ok(()),
            }
            self.unflushed = false;
        }
        Ok(())
    }

    /// Reads once; whether something came.
    fn read(&mut self, cx: &mut Context<'_>) -> bool {
        match poll_read(&mut self.stream, &mut self.decoder, cx) {
            Poll::Ready(Ok(n)) => {
                self.decoder.received(n);
                self.io.read += n;
            }
            Poll::Ready(Err(error)) => {
                self.io.failure.get_or_insert(lost(error));
                return false;
            }
            Poll::Pending => return false,
        }
        loop {
            match self.decoder.next() {
                Ok(Some(packet)) => self.io.arrived.push(packet),
                Ok(None) => return true,
                Err(error) => {
                    self.io.failure.get_or_insert(error);
                    return true;
                }
            }
        }
    }

    /// Sleeps until something happens, or the next deadline passes.
    fn sleep(&mut self, cx: &mut Context<'_>, wake_at: Option<Instant>) -> Result<Turn> {
        let Some(at) = self.write_by().into_iter().chain(self.reply_by()).chain(wake_at).min()
        else {
            return Ok(Turn::Asleep);
        };
        // The alarm is moved only when it would go off too late: most of the time deadlines only move on.
        if self.alarm.is_elapsed() || self.alarm.deadline().into_std() > at {
            self.alarm.as_mut().reset(at.into());
        }
        match self.alarm.as_mut().poll(cx) {
            Poll::Ready(()) => Ok(Turn::Busy),
            Poll::Pending => Ok(Turn::Asleep),
        }
    }
}

/// Reads once; the end of the stream is an error.
fn poll_read(
    stream: &mut Box<dyn Stream>,
    decoder: &mut Decoder,
    cx: &mut Context<'_>,
) -> Poll<io::Result<usize>> {
    let mut space = ReadBuf::new(decoder.space());
    Pin::new(stream).poll_read(cx, &mut space).map(|outcome| {
        outcome?;
        match space.filled().len() {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            n => Ok(n),
        }
    })
}
