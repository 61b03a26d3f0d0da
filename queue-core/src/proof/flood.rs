//! A stream that never ends.
#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "it serves tests, which a failure here ends"
)]

use std::io::{self, Read, Write};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::blocking;

/// A stream on which a line can be read, and then the same byte forever: there is always something to read. Writes are
/// accepted, or stuck from the beginning.
#[derive(Debug)]
pub struct Flood {
    line: &'static [u8],
    is_stuck: bool,
    read: Arc<AtomicU64>,
    write_timeout: Option<Duration>,
}

impl Flood {
    /// A flood after this line.
    #[must_use]
    pub fn new(line: &'static [u8]) -> Self {
        Flood { line, is_stuck: false, read: Arc::default(), write_timeout: None }
    }

    /// The same, and nothing can be written.
    #[must_use]
    pub fn stuck(mut self) -> Self {
        self.is_stuck = true;
        self
    }

    /// Number of bytes read.
    #[must_use]
    pub fn counted_by(mut self, read: &Arc<AtomicU64>) -> Self {
        self.read = Arc::clone(read);
        self
    }

    fn fill(&mut self, space: &mut [u8]) -> usize {
        let n = if self.line.is_empty() { space.len() } else { self.line.len().min(space.len()) };
        space.fill(b'x');
        let line = &self.line[..n.min(self.line.len())];
        space[..line.len()].copy_from_slice(line);
        self.line = &self.line[line.len()..];
        self.read.fetch_add(n as u64, Ordering::Relaxed);
        n
    }
}

impl Read for Flood {
    fn read(&mut self, space: &mut [u8]) -> io::Result<usize> {
        Ok(self.fill(space))
    }
}

impl Write for Flood {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.is_stuck {
            std::thread::sleep(self.write_timeout.expect("a write that can never end"));
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl blocking::Duplex for Flood {
    fn set_read_timeout(&mut self, _: Option<Duration>) -> io::Result<()> {
        Ok(())
    }

    fn set_write_timeout(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        self.write_timeout = timeout;
        Ok(())
    }

    fn shutdown_write(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl AsyncRead for Flood {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let n = self.get_mut().fill(buffer.initialize_unfilled());
        buffer.advance(n);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Flood {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.is_stuck { Poll::Pending } else { Poll::Ready(Ok(bytes.len())) }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
