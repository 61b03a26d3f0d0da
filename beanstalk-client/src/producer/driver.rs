//! The task that moves the bytes of one connection of an async producer.

use std::{
    future::{Future, poll_fn},
    io,
    pin::Pin,
    sync::{Arc, PoisonError},
    task::{Context, Poll, Waker, ready},
    time::Instant,
};

use bytes::{Buf, BytesMut};
use queue_core::{Stream, now, within};
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf},
    runtime::Handle as Runtime,
    time::{Sleep, sleep_until},
};

use super::Shared;
use crate::{
    ConnectOptions, Fate, Result,
    deadline::Limit,
    error::lost,
    protocol::{
        Command, Decoder, Epoch, Stats,
        producer::{Action, Io, Outbox, Pulse, max_job_size},
    },
    trace,
};

/// Starts the driver of a server.
pub(super) fn spawn(
    runtime: &Runtime,
    shared: &Arc<Shared>,
    server: usize,
    options: &ConnectOptions,
) {
    shared.with(|outbox| outbox.claim(server));
    runtime.spawn(Driver {
        shared: shared.clone(),
        server,
        options: options.clone(),
        stage: Stage::Resting,
        io: Io::default(),
        wakers: Vec::new(),
        alarm: None,
        has_ended: false,
    });
}

struct Driver {
    shared: Arc<Shared>,
    server: usize,
    options: ConnectOptions,
    stage: Stage,
    io: Io,
    /// Kept for its memory.
    wakers: Vec<Waker>,
    /// Goes off at the next deadline, or before.
    alarm: Option<Pin<Box<Sleep>>>,
    has_ended: bool,
}

enum Stage {
    Resting,
    Connecting(Pin<Box<dyn Future<Output = Result<Connection>> + Send>>),
    Open(Connection),
}

struct Connection {
    stream: Box<dyn Stream>,
    decoder: Decoder,
    unflushed: bool,
    max_job_size: Option<u64>,
}

/// How often the driver reads before it lets other tasks run.
const READS_IN_A_ROW: usize = 32;

enum Turn {
    /// There is more to do.
    Busy,
    /// Something will wake the driver.
    Asleep,
    Over,
}

impl Future for Driver {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let driver = &mut *self;
        for _ in 0..READS_IN_A_ROW {
            match driver.turn(cx) {
                Turn::Busy => {}
                Turn::Asleep => return Poll::Pending,
                Turn::Over => {
                    driver.has_ended = true;
                    return Poll::Ready(());
                }
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        if !self.has_ended {
            self.shared.with(|outbox| outbox.orphaned(self.server));
        }
    }
}

impl Driver {
    fn turn(&mut self, cx: &mut Context<'_>) -> Turn {
        if matches!(self.stage, Stage::Open(_)) { self.move_bytes(cx) } else { self.get_ready(cx) }
    }

    /// Rests until there is something to do, and connects.
    fn get_ready(&mut self, cx: &mut Context<'_>) -> Turn {
        let server = self.server;
        let action = self.locked(|outbox, _, now| {
            let action = outbox.next(server, now);
            outbox.sleep(server, cx.waker());
            action
        });
        let wake_at = match action {
            Action::Over => return Turn::Over,
            Action::Connect => {
                self.stage = Stage::Connecting(Box::pin(open(self.options.clone())));
                return Turn::Busy;
            }
            Action::Wait(at) => at,
        };
        let Stage::Connecting(attempt) = &mut self.stage else { return self.sleep(cx, wake_at) };
        let Poll::Ready(outcome) = attempt.as_mut().poll(cx) else {
            return self.sleep(cx, wake_at);
        };
        match outcome {
            Ok(connection) => {
                let limit = connection.max_job_size;
                self.io = Io::default();
                self.locked(|outbox, _, now| outbox.opened(server, limit, now));
                self.stage = Stage::Open(connection);
            }
            Err(error) => {
                self.locked(|outbox, _, now| outbox.failed(server, &error, now));
                self.stage = Stage::Resting;
            }
        }
        Turn::Busy
    }

    /// Writes, reads, and exchanges the outcome with the outbox.
    fn move_bytes(&mut self, cx: &mut Context<'_>) -> Turn {
        let Stage::Open(connection) = &mut self.stage else { return Turn::Busy };
        if let Err(error) = connection.write(cx, &mut self.io) {
            self.io.failure = Some(error);
        }
        let was_stuck = !self.io.writing.is_empty();
        let has_read = connection.read(cx, &mut self.io);
        let server = self.server;
        let (pulse, is_busy) = self.locked(|outbox, io, now| {
            let pulse = outbox.exchange(server, io, now);
            let is_busy = has_read || (!was_stuck && !io.writing.is_empty());
            if !is_busy {
                outbox.sleep(server, cx.waker());
            }
            (pulse, is_busy)
        });
        match pulse {
            Pulse::Over => Turn::Over,
            Pulse::Lost => {
                trace::lost(&self.options.address, None);
                self.stage = Stage::Resting;
                Turn::Busy
            }
            Pulse::Beats(_) if is_busy => Turn::Busy,
            Pulse::Beats(wake_at) => self.sleep(cx, wake_at),
        }
    }

    fn sleep(&mut self, cx: &mut Context<'_>, wake_at: Option<Instant>) -> Turn {
        let Some(at) = wake_at else { return Turn::Asleep };
        let alarm = self.alarm.get_or_insert_with(|| Box::pin(sleep_until(at.into())));
        // The alarm is moved only when it would go off too late: most of the time deadlines only move on.
        if alarm.is_elapsed() || alarm.deadline().into_std() > at {
            alarm.as_mut().reset(at.into());
        }
        match alarm.as_mut().poll(cx) {
            Poll::Ready(()) => Turn::Busy,
            Poll::Pending => Turn::Asleep,
        }
    }

    /// Does something under the lock, and wakes whom it concerns outside of it.
    fn locked<T>(&mut self, step: impl FnOnce(&mut Outbox, &mut Io, Instant) -> T) -> T {
        let now = now();
        let mut outbox = self.shared.outbox.lock().unwrap_or_else(PoisonError::into_inner);
        let outcome = step(&mut outbox, &mut self.io, now);
        outbox.take_wakers(&mut self.wakers);
        drop(outbox);
        self.wakers.drain(..).for_each(Waker::wake);
        outcome
    }
}

impl Connection {
    /// Writes what the stream takes.
    fn write(&mut self, cx: &mut Context<'_>, io: &mut Io) -> Result<()> {
        while !io.writing.is_empty() {
            match Pin::new(&mut self.stream).poll_write(cx, &io.writing) {
                Poll::Ready(Ok(0)) => return Err(lost(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(n)) => {
                    io.writing.advance(n);
                    io.written += n;
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
    fn read(&mut self, cx: &mut Context<'_>, io: &mut Io) -> bool {
        match self.poll_read(cx) {
            Poll::Ready(Ok(())) => {}
            Poll::Ready(Err(error)) => {
                io.failure.get_or_insert(error);
                return false;
            }
            Poll::Pending => return false,
        }
        loop {
            match self.decoder.next() {
                Ok(Some(response)) => io.arrived.push(response),
                Ok(None) => return true,
                Err(error) => {
                    io.failure.get_or_insert(error);
                    return true;
                }
            }
        }
    }

    /// Reads once; the end of the stream is an error.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let mut space = ReadBuf::new(self.decoder.space());
        ready!(Pin::new(&mut self.stream).poll_read(cx, &mut space)).map_err(lost)?;
        match space.filled().len() {
            0 => return Poll::Ready(Err(lost(io::ErrorKind::UnexpectedEof.into()))),
            n => self.decoder.received(n),
        }
        Poll::Ready(Ok(()))
    }
}

/// Connects, and asks for the server's limit: that shows that the server answers, too.
async fn open(options: ConnectOptions) -> Result<Connection> {
    let limit = options.connect_limit(Limit::never());
    let stream = options.connect(limit).await?;
    let decoder = Decoder::new(Epoch::next(), options.max_body_size);
    let mut connection = Connection { stream, decoder, unflushed: false, max_job_size: None };
    let greeting = within(limit, greet(&mut connection)).await.unwrap_or_else(Err);
    connection.max_job_size = greeting.map_err(|error| error.with_fate(Fate::NotSent))?;
    Ok(connection)
}

async fn greet(connection: &mut Connection) -> Result<Option<u64>> {
    let mut question = BytesMut::new();
    Stats.encode(&mut question);
    connection.stream.write_all(&question).await.map_err(lost)?;
    connection.stream.flush().await.map_err(lost)?;
    loop {
        for _ in 0..READS_IN_A_ROW {
            if let Some(response) = connection.decoder.next()? {
                return max_job_size(response);
            }
            poll_fn(|cx| connection.poll_read(cx)).await?;
        }
        // Others have their turn, and the deadline is looked at, however much comes.
        tokio::task::yield_now().await;
    }
}
