//! A stream that is deliberately slow.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A stream that moves at most `piece` bytes at a time, and is busy every second time it is polled.
#[derive(Debug)]
pub struct Choppy<S> {
    inner: S,
    piece: usize,
    busy_reading: bool,
    busy_writing: bool,
}

impl<S> Choppy<S> {
    /// Limits the pieces that move through `inner`.
    pub fn new(inner: S, piece: usize) -> Self {
        Choppy { inner, piece, busy_reading: false, busy_writing: false }
    }
}

/// True every second time, after waking the task.
fn is_busy(busy: &mut bool, cx: &mut Context<'_>) -> bool {
    *busy = !*busy;
    if *busy {
        cx.waker().wake_by_ref();
    }
    *busy
}

impl<S: AsyncRead + Unpin> AsyncRead for Choppy<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if is_busy(&mut self.busy_reading, cx) {
            return Poll::Pending;
        }
        let piece = self.piece.min(buffer.remaining());
        let mut part = ReadBuf::new(buffer.initialize_unfilled_to(piece));
        let outcome = Pin::new(&mut self.inner).poll_read(cx, &mut part);
        let filled = part.filled().len();
        buffer.advance(filled);
        outcome
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Choppy<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if is_busy(&mut self.busy_writing, cx) {
            return Poll::Pending;
        }
        let piece = self.piece.min(bytes.len());
        Pin::new(&mut self.inner).poll_write(cx, bytes.get(..piece).unwrap_or(bytes))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}
