//! What a blocking client needs of a stream.

#[cfg(unix)]
use std::os::unix::net::UnixStream;
use std::{
    io::{self, Read, Write},
    net::TcpStream,
    time::Duration,
};

use socket2::SockRef;

/// A connected stream that a blocking client can use.
///
/// It is implemented for `TcpStream` and, on Unix, `UnixStream`. A stream of another kind keeps the client's deadlines
/// only as far as it implements the timeouts.
pub trait Duplex: Read + Write + Send {
    /// After this time without a byte, `read` fails with `WouldBlock` or `TimedOut`. `None` waits for ever.
    ///
    /// # Errors
    ///
    /// As the operating system says.
    fn set_read_timeout(&mut self, timeout: Option<Duration>) -> io::Result<()>;

    /// After this time without progress, `write` fails with `WouldBlock` or `TimedOut`. `None` waits for ever.
    ///
    /// # Errors
    ///
    /// As the operating system says.
    fn set_write_timeout(&mut self, timeout: Option<Duration>) -> io::Result<()>;

    /// Ends the sending side and leaves the receiving side open. Without it, a client that needs it closes the
    /// connection instead.
    ///
    /// # Errors
    ///
    /// As the operating system says; `Unsupported` for a stream that has no such thing.
    fn shutdown_write(&mut self) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Whether a read would not wait, because the peer has sent something or closed. Must not wait itself; `None` when the
    /// stream cannot tell.
    ///
    /// Of a stream that can, a connection that the peer has closed is noticed before something is written to it. One that
    /// cannot is read for a millisecond before an answer is given up as late.
    fn has_input(&mut self) -> Option<bool> {
        None
    }
}

macro_rules! socket_stream {
    ($type:ty) => {
        impl Duplex for $type {
            fn set_read_timeout(&mut self, timeout: Option<Duration>) -> io::Result<()> {
                <$type>::set_read_timeout(self, timeout)
            }

            fn set_write_timeout(&mut self, timeout: Option<Duration>) -> io::Result<()> {
                <$type>::set_write_timeout(self, timeout)
            }

            fn shutdown_write(&mut self) -> io::Result<()> {
                self.shutdown(std::net::Shutdown::Write)
            }

            fn has_input(&mut self) -> Option<bool> {
                let waits = self.set_nonblocking(true).is_ok()
                    && matches!(next_byte(&*self), Err(e) if e.kind() == io::ErrorKind::WouldBlock);
                Some(!(self.set_nonblocking(false).is_ok() && waits))
            }
        }
    };
}

socket_stream!(TcpStream);
#[cfg(unix)]
socket_stream!(UnixStream);

/// Looks at the next byte, and leaves it where it is; 0 at the end of the stream.
fn next_byte<'a>(socket: impl Into<SockRef<'a>>) -> io::Result<usize> {
    socket.into().peek(&mut [std::mem::MaybeUninit::uninit()])
}

impl<S: Duplex + ?Sized> Duplex for Box<S> {
    fn set_read_timeout(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        (**self).set_read_timeout(timeout)
    }

    fn set_write_timeout(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        (**self).set_write_timeout(timeout)
    }

    fn shutdown_write(&mut self) -> io::Result<()> {
        (**self).shutdown_write()
    }

    fn has_input(&mut self) -> Option<bool> {
        (**self).has_input()
    }
}
