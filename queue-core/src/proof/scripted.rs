//! A stream for both faces that follows a script instead of a network.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "it serves tests, which a failure here ends"
)]

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::blocking;

/// The outcome of one attempt to read or write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// These bytes can be read.
    Bytes(Vec<u8>),
    /// Nothing can be read before more was written, and the script for writing is over: the following answers it, and
    /// would be noise if it arrived early.
    Asked,
    /// This number of bytes can be written.
    Accept(usize),
    /// A signal arrived first. The async face is asked to try again.
    Interrupted,
    /// Nothing now. The async face is asked to try again.
    WouldBlock,
    /// The end of the stream.
    End,
    /// The peer has reset the connection.
    Reset,
}

/// A stream that follows a script. Once the script for reading is over, nothing more arrives; once the one for writing
/// is over, everything is accepted.
#[derive(Debug, Default)]
pub struct Scripted {
    reads: VecDeque<Step>,
    writes: VecDeque<Step>,
    written: Arc<Mutex<Vec<u8>>>,
    /// How much had been written when the last answer began.
    answered: usize,
    reader: Option<Waker>,
    read_timeout: Option<Duration>,
}

impl Scripted {
    /// A stream on which these steps can be read.
    #[must_use]
    pub fn reading(reads: impl IntoIterator<Item = Step>) -> Self {
        Scripted { reads: reads.into_iter().collect(), ..Self::default() }
    }

    /// A stream on which these steps can be read once a request was written.
    #[must_use]
    pub fn answering(reads: impl IntoIterator<Item = Step>) -> Self {
        Self::reading(std::iter::once(Step::Asked).chain(reads))
    }

    /// The same, writing by these steps.
    #[must_use]
    pub fn writing(mut self, writes: impl IntoIterator<Item = Step>) -> Self {
        self.writes = writes.into_iter().collect();
        self
    }

    /// What was written, even after the stream is gone.
    #[must_use]
    pub fn written(&self) -> Arc<Mutex<Vec<u8>>> {
        Arc::clone(&self.written)
    }

    fn step_read(&mut self, space: &mut [u8]) -> Option<io::Result<usize>> {
        while self.reads.front() == Some(&Step::Asked) {
            let written = self.written.lock().unwrap().len();
            if written == self.answered || !self.writes.is_empty() {
                return None;
            }
            self.answered = written;
            self.reads.pop_front();
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
            Step::End => {
                self.reads.push_front(Step::End);
                Ok(0)
            }
            other => Err(Self::error(other)),
        })
    }

    fn step_write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let accepted = match self.writes.pop_front() {
            None => bytes.len(),
            Some(Step::Accept(n)) => n.min(bytes.len()),
            Some(Step::Reset) => {
                self.writes.push_front(Step::Reset);
                return Err(io::ErrorKind::ConnectionReset.into());
            }
            Some(other) => return Err(Self::error(other)),
        };
        self.written.lock().unwrap().extend_from_slice(&bytes[..accepted]);
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
        Ok(accepted)
    }

    fn error(step: Step) -> io::Error {
        match step {
            Step::Interrupted => io::ErrorKind::Interrupted.into(),
            Step::WouldBlock => io::ErrorKind::WouldBlock.into(),
            _ => io::ErrorKind::ConnectionReset.into(),
        }
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

    fn shutdown_write(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Where the blocking face retries, the async face is woken.
fn again(cx: &mut Context<'_>, error: &io::Error) -> bool {
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
        let scripted = self.get_mut();
        match scripted.step_read(buffer.initialize_unfilled()) {
            None => {
                scripted.reader = Some(cx.waker().clone());
                Poll::Pending
            }
            Some(Ok(n)) => {
                buffer.advance(n);
                Poll::Ready(Ok(()))
            }
            Some(Err(error)) if again(cx, &error) => Poll::Pending,
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
            Err(error) if again(cx, &error) => Poll::Pending,
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
