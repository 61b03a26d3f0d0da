//! The task that owns one connection of an async client: writes what callers have queued, and reads what comes.

use std::{
    future::poll_fn,
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use bytes::{Buf, BytesMut};
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf},
    runtime::Handle,
    time::{Sleep, sleep_until},
};

use crate::{
    Deadline, Error, ErrorKind, Fate, Result,
    deadline::{Limit, timed_out},
    link::{Link, State, Ticket},
    net::{Stream, connect, within},
    protocol::{
        Decoder, Delivery, Epoch, Magic, Packet, PacketType, Request, Session, SetExceptions,
    },
    socket::lost,
};

/// Starts the driver of a link: over a stream that is connected, or over one that it connects.
///
/// # Errors
///
/// When there is no runtime to run it.
pub(crate) fn spawn(link: Arc<Link>, stream: Option<Box<dyn Stream>>) -> Result<()> {
    let guard = Guard { link, epoch: None, is_done: false };
    let runtime = Handle::try_current().map_err(|error| {
        Error::new(ErrorKind::InvalidInput, Fate::NotSent, "the async client needs tokio's runtime")
            .with_source(error)
    })?;
    runtime.spawn(run(guard, stream));
    Ok(())
}

/// Tells the callers when the driver is dropped before its end: its runtime is shut down.
struct Guard {
    link: Arc<Link>,
    epoch: Option<Epoch>,
    is_done: bool,
}

impl Drop for Guard {
    fn drop(&mut self) {
        if !self.is_done {
            self.link.abandoned(self.epoch);
        }
    }
}

async fn run(mut guard: Guard, stream: Option<Box<dyn Stream>>) {
    let link = guard.link.clone();
    link.connecting();
    let opened = open(&link, stream).await;
    guard.epoch = opened.as_ref().ok().map(|driver| driver.epoch);
    let end = match opened {
        Ok(mut driver) => poll_fn(|cx| driver.poll(cx)).await,
        Err(error) => Some(error),
    };
    guard.is_done = true;
    // Without an error the link was told already, or nobody is left.
    if let Some(error) = end {
        link.closed(guard.epoch, &error);
    }
}

/// Connects, and asks for exceptions: that shows that this is a Gearman server, too.
async fn open(link: &Arc<Link>, stream: Option<Box<dyn Stream>>) -> Result<Driver> {
    let options = &link.options;
    let limit = Limit::total(options).connect(options);
    let mut stream = match stream {
        Some(stream) => stream,
        None => connect(options, limit).await?,
    };
    let mut session = Session::new(link.address.clone());
    let mut decoder = Decoder::new(Magic::Response, options.max_packet_size);
    if options.exceptions {
        let greeting = greet(&mut stream, &mut session, &mut decoder);
        let outcome = within(limit, greeting).await.unwrap_or_else(Err);
        outcome.map_err(|error| error.with_fate(Fate::NotSent))?;
    }
    let epoch = session.origin().epoch;
    link.opened(session);
    Ok(Driver {
        link: link.clone(),
        epoch,
        stream,
        decoder,
        writing: BytesMut::new(),
        written: 0,
        unflushed: false,
        arrived: Vec::new(),
        failure: None,
        wakers: Vec::new(),
        head_since: None,
        write_since: None,
        alarm: Box::pin(sleep_until(Instant::now().into())),
    })
}

async fn greet(
    stream: &mut Box<dyn Stream>,
    session: &mut Session<Ticket>,
    decoder: &mut Decoder,
) -> Result<()> {
    session.send(&SetExceptions, Ticket::HELLO);
    stream.write_all(session.outgoing()).await.map_err(lost)?;
    stream.flush().await.map_err(lost)?;
    session.sent(session.outgoing().len());
    loop {
        while let Some(packet) = decoder.next()? {
            if let Delivery::Answer(_, answer) = session.accept(packet)? {
                // A server without the option still serves jobs.
                if answer.packet_type == PacketType::Error {
                    return Ok(());
                }
                return SetExceptions.decode(answer, session.origin());
            }
        }
        let n = poll_fn(|cx| poll_read(stream, decoder, cx)).await.map_err(lost)?;
        decoder.received(n);
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

struct Driver {
    link: Arc<Link>,
    epoch: Epoch,
    stream: Box<dyn Stream>,
    decoder: Decoder,
    /// What is being written.
    writing: BytesMut,
    /// How much of it the stream has taken, since the link was last told.
    written: usize,
    unflushed: bool,
    arrived: Vec<Packet>,
    /// Why the connection ends, once what arrived before has been told.
    failure: Option<Error>,
    wakers: Vec<Waker>,
    /// Since when the oldest request in flight is the oldest.
    head_since: Option<Instant>,
    /// Since when the stream takes no byte.
    write_since: Option<Instant>,
    /// Goes off at the next deadline, or before.
    alarm: Pin<Box<Sleep>>,
}

/// How often the driver reads before it lets other tasks run.
const READS_IN_A_ROW: usize = 32;

impl Driver {
    /// Runs until the connection ends: `Some` with the reason, or `None` when the link has ended it.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Error>> {
        for _ in 0..READS_IN_A_ROW {
            match self.turn(cx) {
                Ok(Turn::Busy) => {}
                Ok(Turn::Asleep) => return Poll::Pending,
                Ok(Turn::Over) => return Poll::Ready(None),
                Err(error) => return Poll::Ready(Some(error)),
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Writes, reads, and tells the callers.
    fn turn(&mut self, cx: &mut Context<'_>) -> Result<Turn> {
        if let Err(error) = self.write(cx) {
            self.failure = Some(error);
        }
        let has_read = self.read(cx);
        let link = self.link.clone();
        let mut state = link.lock();
        if state.is_closing() || !state.is_served_by(self.epoch) {
            return Ok(Turn::Over);
        }
        let has_answers = self.tell(&mut state);
        if let Some(error) = self.failure.take() {
            return Err(error);
        }
        let is_stuck = !self.writing.is_empty();
        if !is_stuck {
            state.session.swap_outgoing(&mut self.writing);
            self.wakers.extend(state.take_waiting());
        }
        let is_waiting = state.session.pending() > 0;
        let has_more = has_read || (!is_stuck && !self.writing.is_empty());
        if !has_more {
            state.sleep(cx);
        }
        drop(state);
        self.wakers.drain(..).for_each(Waker::wake);
        let now = Instant::now();
        self.head_since = match self.head_since {
            Some(since) if is_waiting && !has_answers => Some(since),
            _ => is_waiting.then_some(now),
        };
        self.write_since = match self.write_since {
            Some(since) if is_stuck && self.written == 0 => Some(since),
            _ => (!self.writing.is_empty()).then_some(now),
        };
        if has_more { Ok(Turn::Busy) } else { self.watch_deadlines(cx, now) }
    }

    /// Writes what the stream takes.
    fn write(&mut self, cx: &mut Context<'_>) -> Result<()> {
        while !self.writing.is_empty() {
            match Pin::new(&mut self.stream).poll_write(cx, &self.writing) {
                Poll::Ready(Ok(0)) => return Err(lost(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(n)) => {
                    self.writing.advance(n);
                    self.written += n;
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
            Poll::Ready(Ok(n)) => self.decoder.received(n),
            Poll::Ready(Err(error)) => {
                self.failure.get_or_insert(lost(error));
                return false;
            }
            Poll::Pending => return false,
        }
        loop {
            match self.decoder.next() {
                Ok(Some(packet)) => self.arrived.push(packet),
                Ok(None) => return true,
                Err(error) => {
                    self.failure.get_or_insert(error);
                    return true;
                }
            }
        }
    }

    /// Tells the link what was written and what came; whether requests were answered.
    fn tell(&mut self, state: &mut State) -> bool {
        state.session.note_written(std::mem::take(&mut self.written));
        let before = state.session.pending();
        for packet in self.arrived.drain(..) {
            if let Err(error) = state.deliver(packet, &mut self.wakers) {
                self.failure.get_or_insert(error);
                break;
            }
        }
        state.session.pending() < before
    }

    /// Ends the connection when the oldest request gets no answer, or the stream takes nothing.
    fn watch_deadlines(&mut self, cx: &mut Context<'_>, now: Instant) -> Result<Turn> {
        let after = |since: Option<Instant>, wait: Duration| since?.checked_add(wait);
        let options = &self.link.options;
        let write = after(self.write_since, options.write_timeout).map(|at| (at, Deadline::Write));
        let reply = after(self.head_since, options.reply_timeout).map(|at| (at, Deadline::Reply));
        let Some((at, which)) = write.into_iter().chain(reply).min_by_key(|(at, _)| *at) else {
            return Ok(Turn::Asleep);
        };
        if at <= now {
            return Err(timed_out(which));
        }
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

enum Turn {
    /// There is more to do.
    Busy,
    /// Something will wake the driver.
    Asleep,
    /// The link needs the driver no more.
    Over,
}
