//! A stream whose timeouts follow limits.

use std::{io, time::Duration};

use super::Duplex;
use crate::{Until, dial::socket::portion, now};

/// A stream and its current timeouts, which are only set when they have to change.
pub struct TimedStream {
    stream: Box<dyn Duplex>,
    read_timeout: Option<Duration>,
    write_timeout: Option<Duration>,
    /// Whether the stream has accepted bytes since it was last flushed.
    unflushed: bool,
}

/// Tolerance for a timeout that is already set, and therefore for the moment at which a limit passes.
const SLACK: Duration = Duration::from_millis(20);

impl TimedStream {
    /// Wraps a stream and clears its timeouts.
    ///
    /// # Errors
    ///
    /// Any error of the operating system.
    pub fn new(mut stream: Box<dyn Duplex>) -> io::Result<Self> {
        stream.set_read_timeout(None)?;
        stream.set_write_timeout(None)?;
        Ok(TimedStream { stream, read_timeout: None, write_timeout: None, unflushed: false })
    }

    /// Reads available bytes, at least one; 0 at the end of the stream, `None` if the limit passed.
    ///
    /// # Errors
    ///
    /// Any error of the operating system, except for interruptions.
    pub fn read(&mut self, space: &mut [u8], limit: impl Until) -> io::Result<Option<usize>> {
        loop {
            if let Some(timeout) = change(self.read_timeout, limit) {
                self.stream.set_read_timeout(timeout)?;
                self.read_timeout = timeout;
            }
            match settle(self.stream.read(space), limit) {
                Some(outcome) => return outcome,
                None => continue,
            }
        }
    }

    /// Writes some of `bytes`, at least one and never very many; if empty, flushes what the stream has accepted but not
    /// yet sent. `None` if the limit passed.
    ///
    /// # Errors
    ///
    /// Any error of the operating system, except for interruptions; accepting nothing is an error.
    pub fn write(&mut self, bytes: &[u8], limit: impl Until) -> io::Result<Option<usize>> {
        if bytes.is_empty() {
            return Ok(self.flush(limit)?.then_some(0));
        }
        self.unflushed = true;
        let bytes = portion(bytes, || self.stream.write_size());
        loop {
            if let Some(timeout) = change(self.write_timeout, limit) {
                self.stream.set_write_timeout(timeout)?;
                self.write_timeout = timeout;
            }
            match settle(self.stream.write(bytes), limit) {
                Some(Ok(Some(0))) => return Err(io::ErrorKind::WriteZero.into()),
                Some(outcome) => return outcome,
                None => continue,
            }
        }
    }

    /// Flushes what the stream has accepted but not yet sent; `false` if the limit passed.
    ///
    /// # Errors
    ///
    /// Any error of the operating system.
    pub fn flush(&mut self, limit: impl Until) -> io::Result<bool> {
        loop {
            match settle(self.stream.flush().map(|()| 0), limit) {
                Some(outcome) => {
                    let is_done = outcome?.is_some();
                    self.unflushed &= !is_done;
                    return Ok(is_done);
                }
                None => continue,
            }
        }
    }

    /// Whether the stream has sent all bytes that it has accepted; if not, [`write`](Self::write) nothing to flush it.
    #[must_use]
    pub fn is_flushed(&self) -> bool {
        !self.unflushed
    }

    /// Closes the sending side.
    ///
    /// # Errors
    ///
    /// Any error of the stream; see [`Duplex::shutdown_write`].
    pub fn shutdown_write(&mut self) -> io::Result<()> {
        self.stream.shutdown_write()
    }

    /// Whether a read would not block; `None` if the stream cannot tell.
    pub fn has_input(&mut self) -> Option<bool> {
        self.stream.has_input()
    }
}

impl std::fmt::Debug for TimedStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TimedStream").finish_non_exhaustive()
    }
}

/// The timeout to set now, or `None` if the current one is good enough.
fn change(present: Option<Duration>, limit: impl Until) -> Option<Option<Duration>> {
    let Some(left) = limit.remaining(now()) else {
        return present.is_some().then_some(None);
    };
    let left = left.max(Duration::from_millis(1));
    let serves = present.is_some_and(|set| left <= set + SLACK && set <= left + SLACK);
    (!serves).then_some(Some(left))
}

/// The outcome of one system call, or `None` to retry it.
fn settle(outcome: io::Result<usize>, limit: impl Until) -> Option<io::Result<Option<usize>>> {
    match outcome {
        Ok(n) => Some(Ok(Some(n))),
        Err(error) => match error.kind() {
            io::ErrorKind::Interrupted => None,
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => match limit.remaining(now()) {
                Some(left) => (left <= SLACK).then_some(Ok(None)),
                // Without a timeout of ours, the operating system gave up because the peer is gone.
                None if error.kind() == io::ErrorKind::TimedOut => Some(Err(error)),
                None => None,
            },
            _ => Some(Err(error)),
        },
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read, Write},
        sync::{Arc, Mutex},
    };

    use super::*;
    use crate::{Limit, dial::socket::WRITE_SIZE};

    /// Accepts everything it is offered, and records the sizes.
    struct Greedy {
        writes: Arc<Mutex<Vec<usize>>>,
        write_size: Option<usize>,
    }

    impl Read for Greedy {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Ok(0)
        }
    }

    impl Write for Greedy {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.writes.lock().unwrap().push(bytes.len());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Duplex for Greedy {
        fn set_read_timeout(&mut self, _: Option<Duration>) -> io::Result<()> {
            Ok(())
        }

        fn set_write_timeout(&mut self, _: Option<Duration>) -> io::Result<()> {
            Ok(())
        }

        fn write_size(&mut self) -> usize {
            self.write_size.unwrap_or(WRITE_SIZE)
        }
    }

    #[test]
    fn writes_large_data_in_pieces() {
        for (write_size, expected) in
            [(None, WRITE_SIZE), (Some(100_000), 100_000), (Some(usize::MAX), 1_000_000)]
        {
            let writes = Arc::new(Mutex::new(Vec::new()));
            let greedy = Greedy { writes: Arc::clone(&writes), write_size };
            let mut transport = TimedStream::new(Box::new(greedy)).unwrap();
            let limit = Limit::never();
            assert_eq!(transport.write(&[7; 1_000_000], limit).unwrap(), Some(expected));
            assert_eq!(transport.write(&[7; 10], limit).unwrap(), Some(10));
            assert_eq!(*writes.lock().unwrap(), [expected, 10]);
        }
    }
}
