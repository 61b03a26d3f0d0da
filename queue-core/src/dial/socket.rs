//! Socket handling shared by both faces.

use std::{cell::Cell, io, net::SocketAddr, time::Duration};

use socket2::{SockRef, TcpKeepalive};

use crate::{Error, Limit, now};

/// Number of bytes that every socket is given at a time. A write that fills a small send buffer alone goes out as one
/// segment, and the peer delays the acknowledgement of a single segment by 40 ms. Where the operating system limits a
/// socket's buffer to 16 to 64 KiB, that costs 99% of the throughput.
pub(crate) const WRITE_SIZE: usize = 16 * 1024;

/// The share of a larger send buffer that one write may fill, so that several writes are under way at a time.
const SHARE: usize = 8;

/// Maximum number of bytes to give to this socket at a time. The operating system enlarges send buffers as connections
/// prove fast, so the answer is not kept.
pub(crate) fn write_size(socket: SockRef<'_>) -> usize {
    socket.send_buffer_size().map_or(WRITE_SIZE, |buffer| WRITE_SIZE.max(buffer / SHARE))
}

/// The next portion of these bytes to write. `size` is asked only if there are many.
pub(crate) fn portion(bytes: &[u8], size: impl FnOnce() -> usize) -> &[u8] {
    if bytes.len() <= WRITE_SIZE {
        return bytes;
    }
    bytes.get(..size().max(1)).unwrap_or(bytes)
}

/// Disables the delay of small writes, and makes the system give up an unresponsive peer in time.
///
/// On an idle connection keepalive does that: a first probe at half the time, and three unanswered ones in the other
/// half. While data is unacknowledged it is the user timeout where available, and otherwise the operating system's
/// limit for retransmissions.
pub(crate) fn prepare(socket: SockRef<'_>, dead_peer_after: Duration) -> io::Result<()> {
    // The range that all systems accept.
    let dead_peer_after =
        dead_peer_after.clamp(Duration::from_secs(3), Duration::from_secs(9 * 3600));
    socket.set_tcp_nodelay(true)?;
    let keepalive = TcpKeepalive::new().with_time(whole_seconds(dead_peer_after / 2));
    #[cfg(any(target_os = "linux", target_os = "android", target_os = "macos", windows))]
    let keepalive = keepalive.with_interval(whole_seconds(dead_peer_after / 6));
    #[cfg(any(target_os = "linux", target_os = "android", target_os = "macos"))]
    let keepalive = keepalive.with_retries(3);
    socket.set_tcp_keepalive(&keepalive)?;
    #[cfg(any(target_os = "linux", target_os = "android"))]
    socket.set_tcp_user_timeout(Some(dead_peer_after))?;
    Ok(())
}

thread_local! {
    static EXPECTS: Cell<bool> = const { Cell::new(true) };
}

/// Reads, knowing whether an answer is expected. The read may be below TLS or within a custom stream, which could not
/// pass this knowledge on.
#[cfg(feature = "tokio")]
pub(crate) fn reading<T>(expects: bool, read: impl FnOnce() -> T) -> T {
    let before = EXPECTS.replace(expects);
    let outcome = read();
    EXPECTS.set(before);
    outcome
}

/// Whether received data has to be acknowledged at once.
///
/// The operating system delays an acknowledgement for up to 40 ms, to send it along with outgoing data. A server
/// without `TCP_NODELAY` holds its next small answer back until then, so a client that expects one and has nothing to
/// write acknowledges explicitly.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Acks {
    is_wanted: bool,
    /// Data was received, and nothing was written since.
    is_owed: bool,
}

impl Acks {
    pub(crate) fn new(is_wanted: bool) -> Self {
        Acks { is_wanted, is_owed: false }
    }

    pub(crate) fn has_read(&mut self) {
        self.is_owed = self.is_wanted;
    }

    pub(crate) fn has_written(&mut self) {
        self.is_owed = false;
    }

    /// Nothing has arrived. Systems without an explicit acknowledgement acknowledge later.
    pub(crate) fn waits<'a, S>(&mut self, socket: &'a S)
    where
        SockRef<'a>: From<&'a S>,
    {
        if self.is_owed && EXPECTS.get() {
            self.is_owed = false;
            #[cfg(any(target_os = "linux", target_os = "android"))]
            let _ = SockRef::from(socket).set_tcp_quickack(true);
            #[cfg(not(any(target_os = "linux", target_os = "android")))]
            let _ = socket;
        }
    }
}

/// Keepalive has whole seconds, and 0 is not allowed.
fn whole_seconds(time: Duration) -> Duration {
    Duration::from_secs(time.as_secs().max(1))
}

/// The addresses of a name, which are tried in turn within a limit, and the outcomes.
pub(crate) struct AddressAttempts<'a> {
    host: &'a str,
    port: u16,
    left: std::vec::IntoIter<SocketAddr>,
    limit: Limit,
    causes: Vec<String>,
    last: Option<io::Error>,
}

impl<'a> AddressAttempts<'a> {
    pub(crate) fn new(
        (host, port): (&'a str, u16),
        addresses: Vec<SocketAddr>,
        limit: Limit,
    ) -> Self {
        let left = addresses.into_iter();
        AddressAttempts { host, port, left, limit, causes: Vec::new(), last: None }
    }

    /// The next address, and its time limit: an equal share of the rest, so that one that swallows packets leaves time
    /// for the others.
    pub(crate) fn next_address(&mut self) -> Option<(SocketAddr, Option<Duration>)> {
        let addresses = u32::try_from(self.left.len()).unwrap_or(u32::MAX);
        let address = self.left.next()?;
        Some((address, self.limit.remaining(now()).map(|left| left / addresses)))
    }

    /// The stream to this address, [prepared](prepare), unless the address did not answer, or answered with an error.
    pub(crate) fn ended<S>(
        &mut self,
        address: SocketAddr,
        outcome: io::Result<S>,
        dead_peer_after: Duration,
    ) -> Option<S>
    where
        for<'s> SockRef<'s>: From<&'s S>,
    {
        let prepared = outcome.and_then(|stream| {
            prepare(SockRef::from(&stream), dead_peer_after)?;
            Ok(stream)
        });
        prepared.map_err(|cause| self.failed(address, cause)).ok()
    }

    fn failed(&mut self, address: SocketAddr, cause: io::Error) {
        // The message names the requested host. For a name, add which of its addresses failed.
        let is_named = self.host.parse() == Ok(address.ip());
        self.causes.push(if is_named { cause.to_string() } else { format!("{address}: {cause}") });
        self.last = Some(cause);
    }

    /// The error when no address has answered.
    pub(crate) fn error(self) -> Error {
        let AddressAttempts { host, port, limit, causes, last, .. } = self;
        let causes = match causes.as_slice() {
            [] => "the name has no address".to_owned(),
            causes => causes.join("; "),
        };
        let error = if limit.has_passed(now()) {
            limit.error_while(format_args!("{host}:{port}: {causes}"))
        } else {
            Error::no_connection(format_args!("{host}:{port}")).with_detail(causes)
        };
        error.caused_by(last)
    }
}

/// The error of an address that did not answer in time.
pub(crate) fn no_answer_in_time() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "no answer in its share of the time")
}

#[cfg(test)]
pub(crate) mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;
    #[cfg(target_os = "linux")]
    use crate::{Deadline, ErrorKind};

    /// A server without `TCP_NODELAY` that answers each byte with two, in two writes.
    #[cfg(target_os = "linux")]
    pub(crate) fn in_two_parts() -> SocketAddr {
        use std::io::{Read, Write};

        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            while stream.read_exact(&mut [0]).is_ok() {
                let written = stream.write_all(b"1").and_then(|()| stream.write_all(b"2"));
                if written.is_err() {
                    return;
                }
            }
        });
        address
    }

    /// An address that swallows packets, one that refuses, and one that answers.
    #[cfg(target_os = "linux")]
    pub(crate) struct Places {
        full: socket2::Socket,
        _fillers: Vec<socket2::Socket>,
        closed: socket2::Socket,
        open: TcpListener,
    }

    #[cfg(target_os = "linux")]
    impl Places {
        pub(crate) fn new() -> Self {
            let socket = || {
                socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap()
            };
            let bound = || {
                let socket = socket();
                let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
                socket.bind(&any.into()).unwrap();
                socket
            };
            // Linux drops connection requests when the backlog is full.
            let full = bound();
            full.listen(0).unwrap();
            let fillers = (0..8)
                .map(|_| {
                    let filler = socket();
                    filler.set_nonblocking(true).unwrap();
                    let _ = filler.connect(&full.local_addr().unwrap());
                    filler
                })
                .collect();
            let open = TcpListener::bind("127.0.0.1:0").unwrap();
            // Bound but not listening, so that the port stays reserved.
            Places { full, _fillers: fillers, closed: bound(), open }
        }

        fn full(&self) -> SocketAddr {
            self.full.local_addr().unwrap().as_socket().unwrap()
        }

        pub(crate) fn closed(&self) -> SocketAddr {
            self.closed.local_addr().unwrap().as_socket().unwrap()
        }

        pub(crate) fn open(&self) -> SocketAddr {
            self.open.local_addr().unwrap()
        }

        pub(crate) fn bad(&self) -> Vec<SocketAddr> {
            vec![self.closed(), self.full()]
        }

        pub(crate) fn all(&self) -> Vec<SocketAddr> {
            vec![self.full(), self.closed(), self.open()]
        }

        pub(crate) fn check_out_of_time(&self, error: Option<Error>) {
            let error = error.expect("an error");
            assert_eq!(*error.kind(), ErrorKind::Timeout(Deadline::Connect));
            let (closed, full) = (self.closed(), self.full());
            let expected = format!(
                "no connection within the connect timeout of 100 ms: name:7: {closed}: Connection refused (os error 111); {full}: \
                 no answer in its share of the time"
            );
            assert_eq!(error.to_string(), expected);
        }

        pub(crate) fn check_refused(&self, error: Option<Error>) {
            let error = error.expect("an error");
            assert_eq!(*error.kind(), ErrorKind::Connect);
            let system = error.io_error().map(io::Error::kind);
            assert_eq!(system, Some(io::ErrorKind::ConnectionRefused));
            let closed = self.closed();
            let expected =
                format!("cannot connect to name:7: {closed}: Connection refused (os error 111)");
            assert_eq!(error.to_string(), expected);
        }
    }

    #[test]
    fn an_address_is_named_once() {
        let refused = || io::ErrorKind::ConnectionRefused.into();
        for (host, expected) in
            [("127.0.0.1", "connection refused"), ("localhost", "127.0.0.1:7: connection refused")]
        {
            let mut attempts = AddressAttempts::new((host, 7), Vec::new(), Limit::never());
            attempts.failed("127.0.0.1:7".parse().unwrap(), refused());
            assert_eq!(attempts.causes, [expected]);
        }
    }

    /// C3.
    #[test]
    fn a_socket_notices_a_vanished_peer_in_time() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let socket = SockRef::from(&stream);
        for (after, time, interval) in [(30, 15, 5), (3, 1, 1), (32400, 16200, 5400)] {
            prepare(SockRef::from(&stream), Duration::from_secs(after)).unwrap();
            assert!(socket.tcp_nodelay().unwrap() && socket.keepalive().unwrap());
            #[cfg(any(target_os = "linux", target_os = "macos"))]
            {
                assert_eq!(socket.tcp_keepalive_time().unwrap(), Duration::from_secs(time));
                assert_eq!(socket.tcp_keepalive_interval().unwrap(), Duration::from_secs(interval));
                assert_eq!(socket.tcp_keepalive_retries().unwrap(), 3);
            }
            #[cfg(target_os = "linux")]
            assert_eq!(socket.tcp_user_timeout().unwrap(), Some(Duration::from_secs(after)));
            assert!(time + 3 * interval <= after.max(4));
        }
    }
}
