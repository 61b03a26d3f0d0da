//! Ending blocking calls from another thread.

use std::{
    io::{self, Read, Write},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::RecvTimeoutError,
    },
    time::Duration,
};

use super::{Duplex, dialer::aside, duplex::is_timeout};
use crate::{Error, now};

/// Ends blocking calls from another thread, such as one that handles Ctrl-C. Clones act together.
///
/// A call that waits for its server fails within a tenth of a second, as if the connection had been lost: its error
/// says whether the server may have acted, and the connection is closed. A call that connects fails at once.
#[derive(Clone, Debug, Default)]
pub struct Canceller {
    is_cancelled: Arc<AtomicBool>,
    parent: Option<Arc<Self>>,
}

/// How often to check.
const SLICE: Duration = Duration::from_millis(100);

impl Canceller {
    /// A canceller that has cancelled nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A canceller for some of the calls of this one: it ends them alone, and this one ends them, too.
    #[must_use]
    pub fn child(&self) -> Self {
        Self { is_cancelled: Arc::default(), parent: Some(Arc::new(self.clone())) }
    }

    /// Ends all pending calls, and all later ones until [`reset`](Self::reset).
    pub fn cancel(&self) {
        self.is_cancelled.store(true, Ordering::SeqCst);
    }

    /// Allows calls again, unless the parent ends them.
    pub fn reset(&self) {
        self.is_cancelled.store(false, Ordering::SeqCst);
    }

    /// Whether calls end now.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        let mut all = std::iter::successors(Some(self), |canceller| canceller.parent.as_deref());
        all.any(|canceller| canceller.is_cancelled.load(Ordering::SeqCst))
    }

    fn check(&self) -> io::Result<()> {
        match self.is_cancelled() {
            // An interruption would be retried.
            true => Err(io::Error::new(io::ErrorKind::ConnectionAborted, "cancelled")),
            false => Ok(()),
        }
    }

    /// Connects [aside], since nothing else can end an attempt. The stream is watched from then on.
    pub(super) fn connect(
        &self,
        attempt: impl Fn() -> Result<Box<dyn Duplex>, Error> + Send + Sync + 'static,
        failure: impl Fn(io::Error) -> Error,
    ) -> Result<Box<dyn Duplex>, Error> {
        self.check().map_err(&failure)?;
        let ended = aside(attempt);
        let stream = loop {
            match ended.recv_timeout(SLICE) {
                Ok(outcome) => break outcome?,
                Err(RecvTimeoutError::Timeout) => self.check().map_err(&failure)?,
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(failure(io::ErrorKind::BrokenPipe.into()));
                }
            }
        };
        let (reads, writes) = Default::default();
        Ok(Box::new(Watched { stream, canceller: self.clone(), reads, writes }))
    }
}

/// A stream whose waits are cut into slices.
struct Watched {
    stream: Box<dyn Duplex>,
    canceller: Canceller,
    reads: CancelLimit,
    writes: CancelLimit,
}

/// A time limit of the client, and the one of the stream below.
#[derive(Clone, Copy, Default)]
struct CancelLimit {
    wanted: Option<Duration>,
    set: Option<Duration>,
}

impl Watched {
    /// Repeats an operation of the stream, each time for a slice of the limit.
    fn wait_out<T>(
        &mut self,
        of: fn(&mut Self) -> &mut CancelLimit,
        set: fn(&mut dyn Duplex, Option<Duration>) -> io::Result<()>,
        mut operation: impl FnMut(&mut dyn Duplex) -> io::Result<T>,
    ) -> io::Result<T> {
        let start = now();
        loop {
            self.canceller.check()?;
            let limit = *of(self);
            let left = limit.wanted.map(|most| most.saturating_sub(start.elapsed()));
            let slice = left.map_or(SLICE, |left| left.clamp(Duration::from_millis(1), SLICE));
            if limit.set != Some(slice) {
                set(&mut *self.stream, Some(slice))?;
                of(self).set = Some(slice);
            }
            match operation(&mut *self.stream) {
                Err(error) if is_timeout(&error) && left.is_none_or(|left| left > slice) => {}
                outcome => return outcome,
            }
        }
    }
}

impl Read for Watched {
    fn read(&mut self, space: &mut [u8]) -> io::Result<usize> {
        let set = |stream: &mut dyn Duplex, limit| stream.set_read_timeout(limit);
        self.wait_out(|watched| &mut watched.reads, set, |stream| stream.read(space))
    }
}

impl Write for Watched {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let set = |stream: &mut dyn Duplex, limit| stream.set_write_timeout(limit);
        self.wait_out(|watched| &mut watched.writes, set, |stream| stream.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

impl Duplex for Watched {
    fn set_read_timeout(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        self.reads.wanted = timeout;
        Ok(())
    }

    fn set_write_timeout(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        self.writes.wanted = timeout;
        Ok(())
    }

    fn shutdown_write(&mut self) -> io::Result<()> {
        self.stream.shutdown_write()
    }

    fn has_input(&mut self) -> Option<bool> {
        self.stream.has_input()
    }

    fn write_size(&mut self) -> usize {
        self.stream.write_size()
    }
}

#[cfg(test)]
mod tests {
    use std::{
        net::{TcpListener, TcpStream},
        sync::mpsc,
        thread,
    };

    use super::*;

    fn failure(error: io::Error) -> Error {
        Error::cannot_connect("server", error)
    }

    /// A stream to a server that never answers, and the canceller of its calls.
    fn silent() -> (TcpListener, Box<dyn Duplex>, Canceller) {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, canceller) = (server.local_addr().unwrap(), Canceller::new());
        let attempt = move || Ok(Box::new(TcpStream::connect(address).unwrap()) as Box<dyn Duplex>);
        let stream = canceller.connect(attempt, failure).unwrap();
        (server, stream, canceller)
    }

    #[test]
    fn a_read_without_limit_is_cancelled_and_one_with_a_limit_keeps_it() {
        let (_server, mut stream, canceller) = silent();
        stream.set_read_timeout(Some(3 * SLICE / 2)).unwrap();
        let start = now();
        assert!(is_timeout(&stream.read(&mut [0]).unwrap_err()));
        assert!(start.elapsed() >= 3 * SLICE / 2);
        stream.set_read_timeout(None).unwrap();
        let canceller = thread::spawn(move || {
            thread::sleep(SLICE);
            canceller.cancel();
            canceller
        });
        let error = stream.read(&mut [0]).unwrap_err();
        assert_eq!(
            (error.kind(), error.to_string()),
            (io::ErrorKind::ConnectionAborted, "cancelled".into())
        );
        canceller.join().unwrap().reset();
        stream.set_read_timeout(Some(SLICE)).unwrap();
        assert!(is_timeout(&stream.read(&mut [0]).unwrap_err()));
    }

    #[test]
    fn a_child_is_cancelled_alone_or_with_its_parent() {
        let parent = Canceller::new();
        let (child, sibling) = (parent.child(), parent.child());
        child.cancel();
        let all = || [&parent, &child, &sibling].map(Canceller::is_cancelled);
        assert_eq!(all(), [false, true, false]);
        child.reset();
        parent.cancel();
        assert_eq!(all(), [true; 3]);
        child.reset();
        assert!(child.is_cancelled());
    }

    #[test]
    fn an_attempt_to_connect_is_cancelled() {
        let canceller = Canceller::new();
        let (other, (begun, begins)) = (canceller.clone(), mpsc::channel());
        let (_never, ends) = mpsc::channel::<()>();
        let ends = std::sync::Mutex::new(ends);
        let cancels = thread::spawn(move || {
            begins.recv().unwrap();
            other.cancel();
        });
        let attempt = move || {
            begun.send(()).unwrap();
            let _ = ends.lock().unwrap().recv();
            Err(failure(io::ErrorKind::TimedOut.into()))
        };
        let error = canceller.connect(attempt, failure).err().unwrap();
        assert!(error.to_string().ends_with("cancelled"), "{error}");
        cancels.join().unwrap();
    }
}
