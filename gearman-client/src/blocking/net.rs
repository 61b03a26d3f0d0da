//! Streams with timeouts, and how to connect one.

use std::{
    io::{self, Read, Write},
    net::{SocketAddr, TcpStream, ToSocketAddrs},
    time::Duration,
};
#[cfg(unix)]
use std::{os::unix::net::UnixStream, path::Path};

use socket2::SockRef;
#[cfg(unix)]
use socket2::{Domain, SockAddr, Socket, Type};

use crate::{
    Address, ConnectOptions, Error,
    deadline::Limit,
    socket::{cannot_connect, no_address_answered, prepare},
};

/// A connected stream that a [`Client`](super::Client) can use.
///
/// It is implemented for `TcpStream` and, on Unix, `UnixStream`. A stream of another kind keeps the client's deadlines
/// only as far as it implements the timeouts.
pub trait Stream: Read + Write + Send {
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

    /// Whether the peer has closed or sent something while nobody read. Must not wait; "don't know" is `false`.
    fn is_stale(&mut self) -> bool {
        false
    }
}

macro_rules! socket_stream {
    ($type:ty) => {
        fn set_read_timeout(&mut self, timeout: Option<Duration>) -> io::Result<()> {
            <$type>::set_read_timeout(self, timeout)
        }

        fn set_write_timeout(&mut self, timeout: Option<Duration>) -> io::Result<()> {
            <$type>::set_write_timeout(self, timeout)
        }

        fn is_stale(&mut self) -> bool {
            let waits = self.set_nonblocking(true).is_ok()
                && matches!(next_byte(&*self), Err(e) if e.kind() == io::ErrorKind::WouldBlock);
            !(self.set_nonblocking(false).is_ok() && waits)
        }
    };
}

impl Stream for TcpStream {
    socket_stream!(TcpStream);
}

#[cfg(unix)]
impl Stream for UnixStream {
    socket_stream!(UnixStream);
}

#[cfg(feature = "__rustls")]
impl Stream for rustls::StreamOwned<rustls::ClientConnection, TcpStream> {
    fn set_read_timeout(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        self.sock.set_read_timeout(timeout)
    }

    fn set_write_timeout(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        self.sock.set_write_timeout(timeout)
    }

    /// Bytes may be a session ticket, which says nothing; the closing alert and the end of the stream do.
    fn is_stale(&mut self) -> bool {
        let has_ended = self.sock.set_nonblocking(true).is_err() || tls_has_ended(self);
        self.sock.set_nonblocking(false).is_err() || has_ended
    }
}

/// Takes in what has come without waiting; whether that was the end, or plain text that nobody asked for.
#[cfg(feature = "__rustls")]
fn tls_has_ended(stream: &mut rustls::StreamOwned<rustls::ClientConnection, TcpStream>) -> bool {
    // More records than a server has tickets to send are no better than the end.
    for _ in 0..64 {
        match stream.conn.read_tls(&mut stream.sock) {
            Ok(0) => return true,
            Ok(_) => match stream.conn.process_new_packets() {
                Ok(state) if state.peer_has_closed() || state.plaintext_bytes_to_read() > 0 => {
                    return true;
                }
                Ok(_) => {}
                Err(_) => return true,
            },
            Err(error) => return error.kind() != io::ErrorKind::WouldBlock,
        }
    }
    true
}

/// Looks at the next byte, and leaves it where it is; 0 at the end of the stream.
fn next_byte<'a>(socket: impl Into<SockRef<'a>>) -> io::Result<usize> {
    socket.into().peek(&mut [std::mem::MaybeUninit::uninit()])
}

/// A stream, and the timeouts that are set on it, so that they are only set when they have to change.
pub(super) struct Transport {
    stream: Box<dyn Stream>,
    read_timeout: Option<Duration>,
    write_timeout: Option<Duration>,
}

/// How far from the limit a timeout that is already set may be, and so how early or late a limit may pass.
const SLACK: Duration = Duration::from_millis(20);

impl Transport {
    /// Wraps a stream, and makes sure that no old timeout is set.
    pub(super) fn new(mut stream: Box<dyn Stream>) -> io::Result<Self> {
        stream.set_read_timeout(None)?;
        stream.set_write_timeout(None)?;
        Ok(Transport { stream, read_timeout: None, write_timeout: None })
    }

    /// Reads what is there, at least a byte; 0 at the end of the stream, `None` when the limit passed.
    pub(super) fn read(&mut self, space: &mut [u8], limit: Limit) -> io::Result<Option<usize>> {
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

    /// Writes some of `bytes`, at least one; `None` when the limit passed.
    pub(super) fn write(&mut self, bytes: &[u8], limit: Limit) -> io::Result<Option<usize>> {
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

    /// Hands on what the stream has taken but not yet sent; `false` when the limit passed.
    pub(super) fn flush(&mut self, limit: Limit) -> io::Result<bool> {
        loop {
            match settle(self.stream.flush().map(|()| 0), limit) {
                Some(outcome) => return outcome.map(|done| done.is_some()),
                None => continue,
            }
        }
    }

    pub(super) fn is_stale(&mut self) -> bool {
        self.stream.is_stale()
    }
}

/// The timeout to set now, or `None` if the present one serves.
fn change(present: Option<Duration>, limit: Limit) -> Option<Option<Duration>> {
    let Some(left) = limit.remaining() else {
        return present.is_some().then_some(None);
    };
    let left = left.max(Duration::from_millis(1));
    let serves = present.is_some_and(|set| left <= set + SLACK && set <= left + SLACK);
    (!serves).then_some(Some(left))
}

/// The outcome of one system call, or `None` to try it again.
fn settle(outcome: io::Result<usize>, limit: Limit) -> Option<io::Result<Option<usize>>> {
    match outcome {
        Ok(n) => Some(Ok(Some(n))),
        Err(error) => match error.kind() {
            io::ErrorKind::Interrupted => None,
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => match limit.remaining() {
                Some(left) => (left <= SLACK).then_some(Ok(None)),
                // No timeout was set, so it is the operating system that gave up: the peer is gone.
                None if error.kind() == io::ErrorKind::TimedOut => Some(Err(error)),
                None => None,
            },
            _ => Some(Err(error)),
        },
    }
}

/// Connects to the server: every address that the name stands for is tried, within one limit.
///
/// Name resolution is the operating system's and keeps its own time.
pub(super) fn connect(options: &ConnectOptions, limit: Limit) -> Result<Transport, Error> {
    options.check()?;
    let stream: Box<dyn Stream> = match &options.address {
        Address::Tcp { host, port } => Box::new(tcp(host, *port, limit)?),
        #[cfg(feature = "__rustls")]
        Address::Tls { host, port } => Box::new(tls(options, host, *port, limit)?),
        #[cfg(not(feature = "__rustls"))]
        Address::Tls { .. } => {
            return Err(Error::invalid("this build has no TLS: enable the feature `tls`"));
        }
        #[cfg(unix)]
        Address::Unix(path) => Box::new(unix(path, limit)?),
        #[cfg(not(unix))]
        Address::Unix(_) => {
            return Err(Error::invalid("unix sockets exist on Unix only: write host:port"));
        }
    };
    Transport::new(stream).map_err(|error| cannot_connect(&options.address.to_string(), error))
}

fn tcp(host: &str, port: u16, limit: Limit) -> Result<TcpStream, Error> {
    let addresses: Vec<SocketAddr> = (host, port)
        .to_socket_addrs()
        .map_err(|error| cannot_connect(&format!("{host}:{port}"), error))?
        .collect();
    let mut causes = Vec::new();
    for (tried, address) in addresses.iter().enumerate() {
        let left_to_try = u32::try_from(addresses.len() - tried).unwrap_or(u32::MAX);
        match connect_one(*address, limit, left_to_try) {
            Ok(stream) => return Ok(stream),
            Err(error) => causes.push(format!("{address}: {error}")),
        }
        if limit.has_passed() {
            return Err(limit.error().with_source(causes.join("; ")));
        }
    }
    Err(no_address_answered(host, port, &causes))
}

fn connect_one(address: SocketAddr, limit: Limit, left_to_try: u32) -> io::Result<TcpStream> {
    let stream = match limit.remaining() {
        // An equal share each, so that one address that swallows packets leaves time for the next.
        Some(left) => TcpStream::connect_timeout(
            &address,
            (left / left_to_try).max(Duration::from_millis(1)),
        )?,
        None => TcpStream::connect(address)?,
    };
    prepare(SockRef::from(&stream))?;
    Ok(stream)
}

/// Connecting waits while the server's queue of connections is full; on Linux for as long as a write may take.
#[cfg(unix)]
fn unix(path: &Path, limit: Limit) -> Result<UnixStream, Error> {
    let connect = || {
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
        socket
            .set_write_timeout(limit.remaining().map(|left| left.max(Duration::from_millis(1))))?;
        socket.connect(&SockAddr::unix(path)?)?;
        Ok(socket.into())
    };
    connect().map_err(|error: io::Error| match error.kind() {
        io::ErrorKind::WouldBlock => limit.error(),
        _ => cannot_connect(&format!("unix:{}", path.display()), error),
    })
}

#[cfg(feature = "__rustls")]
fn tls(
    options: &ConnectOptions,
    host: &str,
    port: u16,
    limit: Limit,
) -> Result<rustls::StreamOwned<rustls::ClientConnection, TcpStream>, Error> {
    let (config, name) = options.tls.prepare(host)?;
    let mut socket = tcp(host, port, limit)?;
    let mut connection = rustls::ClientConnection::new(config, name)
        .map_err(|error| crate::tls::handshake_failed(io::Error::other(error)))?;
    while connection.is_handshaking() {
        if limit.has_passed() {
            return Err(limit.error().with_source(crate::tls::NO_ANSWER));
        }
        let left = limit.remaining().map(|left| left.max(Duration::from_millis(1)));
        let step = socket
            .set_read_timeout(left)
            .and_then(|()| socket.set_write_timeout(left))
            .and_then(|()| connection.complete_io(&mut socket));
        match step {
            Ok(_) => {}
            Err(error)
                if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) =>
            {
                return Err(limit.error().with_source(crate::tls::NO_ANSWER));
            }
            Err(error) => return Err(crate::tls::handshake_failed(error)),
        }
    }
    Ok(rustls::StreamOwned::new(connection, socket))
}
