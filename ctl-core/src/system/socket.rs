//! Streams over TCP and Unix sockets, where a command takes either.

use std::fmt;
use std::io;
use std::path::PathBuf;

use tokio::io::{AsyncRead, AsyncWrite};

use super::listen;
use crate::error::CliError;
#[cfg(unix)]
use crate::text::escape;

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

/// On a system without Unix sockets.
pub(crate) fn unsupported(path: &str) -> CliError {
    CliError::usage(format!("cannot listen on `unix:{path}`: this system has no Unix sockets"))
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
            Place::Tcp(address) => tokio::net::TcpStream::connect(address).await.map(Self::tcp),
            #[cfg(unix)]
            Place::Unix(path) => tokio::net::UnixStream::connect(path).await.map(Self::Unix),
            #[cfg(not(unix))]
            Place::Unix(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Sends what is written at once: otherwise the last bytes of a command would wait for the acknowledgement of those
    /// before.
    fn tcp(stream: tokio::net::TcpStream) -> Self {
        let _ = stream.set_nodelay(true);
        Self::Tcp(stream)
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
    Tcp(tokio::net::TcpListener),
    #[cfg(unix)]
    Unix(tokio::net::UnixListener, fixtures::unix_socket::SocketFile),
}

impl Listener {
    /// Listens at an address that a person wrote, on the runtime that this is called on, and gives it as it is bound.
    /// `what` is what listens there.
    ///
    /// # Errors
    /// It is no address, or other machines could reach it (2); it cannot be bound (69).
    pub(crate) fn bind(
        wanted: &str,
        allow_remote: bool,
        what: &str,
    ) -> Result<(Self, String), CliError> {
        if let Some(path) = unix_path(wanted) {
            return listen_at(path);
        }
        let address = listen::address(wanted, allow_remote, what)
            .map_err(|error| error.hint("--listen 127.0.0.1:0 or unix:/path/to/socket"))?;
        let (listener, address) = listen::bind("--listen", address)?;
        let listener = listener
            .set_nonblocking(true)
            .and_then(|()| tokio::net::TcpListener::from_std(listener))
            .map_err(|error| cannot_listen(&address, &error))?;
        Ok((Self::Tcp(listener), address.to_string()))
    }

    /// The next connection, with where it comes from.
    ///
    /// # Errors
    /// Such as a lack of file descriptors.
    pub(crate) async fn next(&self) -> io::Result<(Stream, String)> {
        match self {
            Self::Tcp(listener) => {
                let (stream, peer) = listener.accept().await?;
                Ok((Stream::tcp(stream), peer.to_string()))
            }
            #[cfg(unix)]
            Self::Unix(listener, file) => {
                let (stream, _) = listener.accept().await?;
                Ok((Stream::Unix(stream), format!("unix:{}", file.path().display())))
            }
        }
    }
}

fn cannot_listen(place: &impl fmt::Display, error: &io::Error) -> CliError {
    CliError::unavailable(format!("cannot listen on {place}: {error}"))
}

#[cfg(not(unix))]
fn listen_at(path: &str) -> Result<(Listener, String), CliError> {
    Err(unsupported(path))
}

#[cfg(unix)]
fn listen_at(path: &str) -> Result<(Listener, String), CliError> {
    let bound = fixtures::unix_socket::listen(path.as_ref()).and_then(|(listener, file)| {
        listener.set_nonblocking(true)?;
        Ok(Listener::Unix(tokio::net::UnixListener::from_std(listener)?, file))
    });
    let place = format!("unix:{path}");
    let listener = bound.map_err(|error| cannot_listen(&escape::line(&place), &error))?;
    Ok((listener, place))
}
