//! The requirements of a blocking client on a stream.

#[cfg(unix)]
use std::os::unix::net::UnixStream;
use std::{
    io::{self, Read, Write},
    net::TcpStream,
    time::Duration,
};

use socket2::SockRef;

use super::prompt::PromptAcks;
use crate::dial::socket::{WRITE_SIZE, write_size};

/// A connected stream that a blocking client can use.
///
/// Implemented for `TcpStream` and, on Unix, `UnixStream`. Other streams keep the client's deadlines only as far as
/// they implement the timeouts.
pub trait Duplex: Read + Write + Send {
    /// After this time without a byte, `read` fails with `WouldBlock` or `TimedOut`. `None` means no limit.
    ///
    /// # Errors
    ///
    /// Any error of the operating system.
    fn set_read_timeout(&mut self, timeout: Option<Duration>) -> io::Result<()>;

    /// After this time without progress, `write` fails with `WouldBlock` or `TimedOut`. `None` means no limit.
    ///
    /// # Errors
    ///
    /// Any error of the operating system.
    fn set_write_timeout(&mut self, timeout: Option<Duration>) -> io::Result<()>;

    /// Closes the sending side and leaves the receiving side open. If a stream does not support it, a client that needs
    /// it closes the connection instead.
    ///
    /// # Errors
    ///
    /// Any error of the operating system; `Unsupported` if the stream has no half-close.
    fn shutdown_write(&mut self) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Whether a read would not block, because the peer has sent something or closed. Must not block itself; `None`
    /// when the stream cannot tell.
    ///
    /// If a stream can tell, the client notices that the peer has closed the connection before it writes. If not, it
    /// reads for a millisecond before it gives up a late answer.
    fn has_input(&mut self) -> Option<bool> {
        None
    }

    /// Maximum number of bytes that a client passes to one `write`: 16 KiB unless the stream knows better. Sockets take
    /// an eighth of their send buffer if that is more.
    fn write_size(&mut self) -> usize {
        WRITE_SIZE
    }
}

/// Implements [`Duplex`] for a stream that is a socket, or has it in this field.
macro_rules! socket_stream {
    ($type:ty $(, $field:ident)?) => {
        impl Duplex for $type {
            fn set_read_timeout(&mut self, timeout: Option<Duration>) -> io::Result<()> {
                (*self)$(.$field)?.set_read_timeout(timeout)
            }

            fn set_write_timeout(&mut self, timeout: Option<Duration>) -> io::Result<()> {
                (*self)$(.$field)?.set_write_timeout(timeout)
            }

            fn shutdown_write(&mut self) -> io::Result<()> {
                (*self)$(.$field)?.shutdown(std::net::Shutdown::Write)
            }

            fn has_input(&mut self) -> Option<bool> {
                let socket = &(*self)$(.$field)?;
                let waits = socket.set_nonblocking(true).is_ok()
                    && matches!(next_byte(socket), Err(e) if e.kind() == io::ErrorKind::WouldBlock);
                Some(!(socket.set_nonblocking(false).is_ok() && waits))
            }

            fn write_size(&mut self) -> usize {
                write_size(SockRef::from(&(*self)$(.$field)?))
            }
        }
    };
}

socket_stream!(TcpStream);
#[cfg(unix)]
socket_stream!(UnixStream);
socket_stream!(PromptAcks, socket);

/// Peeks at the next byte; 0 at the end of the stream.
fn next_byte<'a>(socket: impl Into<SockRef<'a>>) -> io::Result<usize> {
    socket.into().peek(&mut [std::mem::MaybeUninit::uninit()])
}

/// Whether a stream's timeout has ended a call.
pub(super) fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
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

    fn write_size(&mut self) -> usize {
        (**self).write_size()
    }
}
