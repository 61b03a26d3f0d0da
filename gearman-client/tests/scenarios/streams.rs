//! A stream for both faces that follows a script instead of a network.

use std::{
    collections::VecDeque,
    io::{self, Read, Write},
    pin::Pin,
    task::{Context, Poll, Waker},
    time::Duration,
};

use gearman_client::blocking;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The outcome of one attempt to read or write.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// These bytes can be read.
    Bytes(Vec<u8>),
    /// This number of bytes can be written.
    Accept(usize),
    /// A signal arrived first, or nothing has arrived yet; the next attempt gets the next step.
    Again(io::ErrorKind),
    /// The stream ends.
    End,
    /// The peer has reset the connection.
    Reset,
}

/// Nothing can be read before something was written. Once the script for reading is over, nothing more arrives; once
/// the one for writing is over, everything is accepted.
#[derive(Debug, Default)]
pub(crate) struct Scripted {
    reads: VecDeque<Step>,
    writes: VecDeque<Step>,
    has_written: bool,
    reader: Option<Waker>,
    read_timeout: Option<Duration>,
}

impl Scripted {
    pub(crate) fn reading(reads: impl IntoIterator<Item = Step>) -> Self {
        Scripted { reads: reads.into_iter().collect(), ..Self::default() }
    }

    pub(crate) fn writing(mut self, writes: impl IntoIterator<Item = Step>) -> Self {
        self.writes = writes.into_iter().collect();
        self
    }

    fn step_read(&mut self, space: &mut [u8]) -> Option<io::Result<usize>> {
        if !self.has_written {
            return None;
        }
        Some(match self.reads.pop_front()? {
            Step::Bytes(mut bytes) => {
                let n = bytes.len().min(space.len());
                space[..n].copy_from_slice(&bytes[..n]);
                if n < bytes.len() {
                    self.reads.push_front(Step::Bytes(bytes.split_off(n)));
                }
                Ok(n)
            }
            Step::Again(kind) => Err(kind.into()),
            Step::End => {
                self.reads.push_front(Step::End);
                Ok(0)
            }
            _ => Err(io::ErrorKind::ConnectionReset.into()),
        })
    }

    fn step_write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let accepted = match self.writes.pop_front() {
            None => bytes.len(),
            Some(Step::Accept(n)) => n.min(bytes.len()),
            Some(Step::Again(kind)) => return Err(kind.into()),
            Some(end) => {
                self.writes.push_front(end);
                return Err(io::ErrorKind::ConnectionReset.into());
            }
        };
        // The whole request has to be written before its answer can arrive.
        self.has_written = self.writes.is_empty();
        if self.has_written
            && let Some(reader) = self.reader.take()
        {
            reader.wake();
        }
        Ok(accepted)
    }
}

impl Read for Scripted {
    fn read(&mut self, space: &mut [u8]) -> io::Result<usize> {
        self.step_read(space).unwrap_or_else(|| {
            // Like a socket: waits for the timeout, then reports it.
            std::thread::sleep(self.read_timeout.expect("a read that can never end"));
            Err(io::ErrorKind::WouldBlock.into())
        })
    }
}

impl Write for Scripted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.step_write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl blocking::Duplex for Scripted {
    fn set_read_timeout(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        self.read_timeout = timeout;
        Ok(())
    }

    fn set_write_timeout(&mut self, _: Option<Duration>) -> io::Result<()> {
        Ok(())
    }
}

/// Where the blocking face retries, the async face is woken.
fn is_again(cx: &Context<'_>, error: &io::Error) -> bool {
    let again = matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock);
    if again {
        cx.waker().wake_by_ref();
    }
    again
}

impl AsyncRead for Scripted {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        match this.step_read(buffer.initialize_unfilled()) {
            None => {
                this.reader = Some(cx.waker().clone());
                Poll::Pending
            }
            Some(Ok(n)) => {
                buffer.advance(n);
                Poll::Ready(Ok(()))
            }
            Some(Err(error)) if is_again(cx, &error) => Poll::Pending,
            Some(Err(error)) => Poll::Ready(Err(error)),
        }
    }
}

impl AsyncWrite for Scripted {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut().step_write(bytes) {
            Err(error) if is_again(cx, &error) => Poll::Pending,
            outcome => Poll::Ready(outcome),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
