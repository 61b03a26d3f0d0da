//! A stream whose timeouts follow limits.

use std::{
    io,
    time::{Duration, Instant},
};

use super::{Duplex, duplex::is_timeout};
use crate::{dial::socket::portion, now};

/// A stream and its current timeouts, which are only set when they have to change.
pub struct TimedStream {
    stream: Box<dyn Duplex>,
    read_timeout: Option<Duration>,
    write_timeout: Option<Duration>,
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
        Ok(TimedStream { stream, read_timeout: None, write_timeout: None })
    }

    /// Reads available bytes, at least one; 0 at the end of the stream, `None` if the limit passed.
    ///
    /// # Errors
    ///
    /// Any error of the operating system, except for interruptions.
    pub fn read(&mut self, space: &mut [u8], limit: Option<Instant>) -> io::Result<Option<usize>> {
        loop {
            if let Some(timeout) = change(self.read_timeout, limit) {
                self.stream.set_read_timeout(timeout)?;
                self.read_timeout = timeout;
            }
            if let Some(outcome) = settle(self.stream.read(space), limit) {
                return outcome;
            }
        }
    }

    /// Writes some of `bytes`, at least one and never very many. `None` if the limit passed.
    ///
    /// # Errors
    ///
    /// Any error of the operating system, except for interruptions; accepting nothing is an error.
    pub fn write(&mut self, bytes: &[u8], limit: Option<Instant>) -> io::Result<Option<usize>> {
        let bytes = portion(bytes, || self.stream.write_size());
        loop {
            if let Some(timeout) = change(self.write_timeout, limit) {
                self.stream.set_write_timeout(timeout)?;
                self.write_timeout = timeout;
            }
            match settle(self.stream.write(bytes), limit) {
                Some(Ok(Some(0))) => return Err(io::ErrorKind::WriteZero.into()),
                Some(outcome) => return outcome,
                None => {}
            }
        }
    }

    /// Flushes what the stream has accepted but not yet sent; `false` if the limit passed.
    ///
    /// # Errors
    ///
    /// Any error of the operating system.
    pub fn flush(&mut self, limit: Option<Instant>) -> io::Result<bool> {
        loop {
            if let Some(outcome) = settle(self.stream.flush().map(|()| 0), limit) {
                return Ok(outcome?.is_some());
            }
        }
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
fn change(present: Option<Duration>, limit: Option<Instant>) -> Option<Option<Duration>> {
    let Some(at) = limit else { return present.is_some().then_some(None) };
    let left = at.saturating_duration_since(now()).max(Duration::from_millis(1));
    let serves = present.is_some_and(|set| left <= set + SLACK && set <= left + SLACK);
    (!serves).then_some(Some(left))
}

/// The outcome of one system call, or `None` to retry it.
fn settle(outcome: io::Result<usize>, limit: Option<Instant>) -> Option<io::Result<Option<usize>>> {
    match (outcome, limit) {
        (Ok(n), _) => Some(Ok(Some(n))),
        (Err(error), Some(at)) if is_timeout(&error) => {
            (at.saturating_duration_since(now()) <= SLACK).then_some(Ok(None))
        }
        // `TimedOut` without a timeout of ours: the operating system gave up because the peer is gone.
        (Err(error), _) => match error.kind() {
            io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock => None,
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
    use crate::dial::socket::WRITE_SIZE;

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
            assert_eq!(transport.write(&[7; 1_000_000], None).unwrap(), Some(expected));
            assert_eq!(transport.write(&[7; 10], None).unwrap(), Some(10));
            assert_eq!(*writes.lock().unwrap(), [expected, 10]);
        }
    }
}
