//! Streams over TCP and Unix sockets, where a command takes either.

use std::fmt;
use std::io;
use std::net::TcpListener;
use std::path::PathBuf;

use tokio::io::{AsyncRead, AsyncWrite};

use super::listen;
use crate::error::CliError;

/// Where a server is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    /// Host and port.
    Tcp(String),
    /// The path of a Unix socket.
    Unix(PathBuf),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => f.write_str(address),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// The path in `unix:PATH` and `unix://PATH`.
pub(crate) fn unix_path(address: &str) -> Option<&str> {
    let path = address.strip_prefix("unix:")?;
    Some(path.strip_prefix("//").unwrap_or(path))
}

/// A connection.
#[derive(Debug)]
pub(crate) enum Stream {
    Tcp(tokio::net::TcpStream),
    #[cfg(unix)]
    Unix(tokio::net::UnixStream),
}

/// The reading half.
pub(crate) type Reader<'a> = Box<dyn AsyncRead + Send + Unpin + 'a>;
/// The writing half.
pub(crate) type Writer<'a> = Box<dyn AsyncWrite + Send + Unpin + 'a>;

impl Stream {
    /// Connects.
    ///
    /// # Errors
    /// Nothing listens there, or this system has no such sockets.
    pub(crate) async fn connect(place: &Place) -> io::Result<Self> {
        match place {
            Place::Tcp(address) => tokio::net::TcpStream::connect(address).await.map(Self::Tcp),
            #[cfg(unix)]
            Place::Unix(path) => tokio::net::UnixStream::connect(path).await.map(Self::Unix),
            #[cfg(not(unix))]
            Place::Unix(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Sends what is written at once.
    pub(crate) fn set_nodelay(&self) {
        match self {
            Self::Tcp(stream) => drop(stream.set_nodelay(true)),
            #[cfg(unix)]
            Self::Unix(_) => {}
        }
    }

    /// Resets the connection when it is dropped, where there are resets.
    pub(crate) fn reset(&self) {
        match self {
            Self::Tcp(stream) => drop(stream.set_zero_linger()),
            #[cfg(unix)]
            Self::Unix(_) => {}
        }
    }

    pub(crate) fn split(&mut self) -> (Reader<'_>, Writer<'_>) {
        match self {
            Self::Tcp(stream) => {
                let (from, to) = stream.split();
                (Box::new(from), Box::new(to))
            }
            #[cfg(unix)]
            Self::Unix(stream) => {
                let (from, to) = stream.split();
                (Box::new(from), Box::new(to))
            }
        }
    }
}

/// A listener.
#[derive(Debug)]
pub(crate) enum Listener {
    Tcp(TcpListener),
    #[cfg(unix)]
    Unix(unix::Listener),
}

impl Listener {
    /// Listens at an address that a person wrote, and gives it as it is bound. `what` is what listens there.
    ///
    /// # Errors
    /// It is no address, or other machines could reach it (2); it cannot be bound (69).
    pub(crate) fn bind(
        wanted: &str,
        allow_remote: bool,
        what: &str,
    ) -> Result<(Self, String), CliError> {
        if let Some(path) = unix_path(wanted) {
            return unix::listen(path);
        }
        let address = listen::address(wanted, allow_remote, what)
            .map_err(|error| error.hint("--listen 127.0.0.1:0 or unix:/path/to/socket"))?;
        let (listener, address) = listen::bind("--listen", address)?;
        Ok((Self::Tcp(listener), address.to_string()))
    }

    /// Ready to accept, on the runtime that this is called on.
    ///
    /// # Errors
    /// The operating system refuses it.
    pub(crate) fn into_async(self) -> io::Result<Accepting> {
        Ok(match self {
            Self::Tcp(listener) => {
                listener.set_nonblocking(true)?;
                Accepting::Tcp(tokio::net::TcpListener::from_std(listener)?)
            }
            #[cfg(unix)]
            Self::Unix(unix::Listener { listener, file }) => {
                listener.set_nonblocking(true)?;
                Accepting::Unix(tokio::net::UnixListener::from_std(listener)?, file)
            }
        })
    }
}

/// A listener on a runtime.
#[derive(Debug)]
pub(crate) enum Accepting {
    Tcp(tokio::net::TcpListener),
    #[cfg(unix)]
    Unix(tokio::net::UnixListener, fixtures::unix_socket::SocketFile),
}

impl Accepting {
    /// The next connection, with where it comes from.
    ///
    /// # Errors
    /// Such as a lack of file descriptors.
    pub(crate) async fn next(&self) -> io::Result<(Stream, String)> {
        match self {
            Self::Tcp(listener) => {
                let (stream, peer) = listener.accept().await?;
                Ok((Stream::Tcp(stream), peer.to_string()))
            }
            #[cfg(unix)]
            Self::Unix(listener, file) => {
                let (stream, _) = listener.accept().await?;
                Ok((Stream::Unix(stream), format!("unix:{}", file.path().display())))
            }
        }
    }
}

#[cfg(not(unix))]
mod unix {
    use crate::error::CliError;

    pub(super) fn listen(path: &str) -> Result<(super::Listener, String), CliError> {
        Err(CliError::usage(format!(
            "cannot listen on `unix:{path}`: this system has no Unix sockets"
        )))
    }
}

#[cfg(unix)]
mod unix {
    use std::os::unix::net::UnixListener;
    use std::path::Path;

    use fixtures::unix_socket::{self, SocketFile};

    use crate::error::CliError;
    use crate::text::escape;

    /// A socket, whose file is removed with it.
    #[derive(Debug)]
    pub(crate) struct Listener {
        pub(super) listener: UnixListener,
        pub(super) file: SocketFile,
    }

    pub(super) fn listen(path: &str) -> Result<(super::Listener, String), CliError> {
        let (listener, file) = unix_socket::listen(Path::new(path)).map_err(|error| {
            let path = escape::line(path);
            CliError::unavailable(format!("cannot listen on unix:{path}: {error}"))
        })?;
        Ok((super::Listener::Unix(Listener { listener, file }), format!("unix:{path}")))
    }
}
