//! Connecting, blocking.

use std::{
    fmt, io,
    net::{TcpStream, ToSocketAddrs},
    sync::Arc,
    time::Duration,
};
#[cfg(unix)]
use std::{os::unix::net::UnixStream, path::Path};

#[cfg(unix)]
use socket2::{Domain, SockAddr, Socket, Type};

use super::{Duplex, TimedStream, duplex::is_timeout, prompt::PromptAcks};
use crate::{
    Dial, Endpoint, Error, Limit, ServerOptions, System,
    dial::socket::{AddressAttempts, no_answer_in_time},
    now,
};

type Connect = dyn Fn(Option<Duration>) -> io::Result<Box<dyn Duplex>> + Send + Sync;

/// Makes a client's streams instead of the operating system.
#[derive(Clone)]
pub struct Connector(Arc<Connect>);

impl Connector {
    /// Calls `connect` for every attempt, with the remaining time; `None` means no limit.
    pub fn new<C, S>(connect: C) -> Self
    where
        C: Fn(Option<Duration>) -> io::Result<S> + Send + Sync + 'static,
        S: Duplex + 'static,
    {
        Connector(Arc::new(move |left| Ok(Box::new(connect(left)?))))
    }
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Connector")
    }
}

/// Connects to the server: through the custom connector, or to one of the addresses that the name currently resolves
/// to. It makes one attempt, including TLS, within one limit; name resolution has the operating system's own time
/// limit.
///
/// # Errors
///
/// The client's error for the failure; it names every address tried.
pub fn connect<S: System>(
    options: &ServerOptions<S>,
    limit: Limit,
) -> Result<TimedStream, S::Error> {
    let span = S::connecting(&options.address);
    span.run(|| {
        let outcome = attempt(options, limit).map_err(S::Error::from);
        S::connected(&options.address, &span, outcome.as_ref().map(drop));
        outcome
    })
}

fn attempt<S: System>(options: &ServerOptions<S>, limit: Limit) -> Result<TimedStream, Error> {
    options.dial.check(&options.address)?;
    let stream = secured(options, limit)?;
    TimedStream::new(stream).map_err(|error| cannot_connect(&options.address, error, limit))
}

fn secured<S: System>(options: &ServerOptions<S>, limit: Limit) -> Result<Box<dyn Duplex>, Error> {
    match options.address.endpoint() {
        #[cfg(feature = "__rustls")]
        Endpoint::Tls { host, .. } => {
            let prepared = options.dial.tls.prepare(host)?;
            Ok(Box::new(super::tls::handshake(prepared, watched(options, limit)?, limit)?))
        }
        #[cfg(not(feature = "__rustls"))]
        Endpoint::Tls { .. } => Err(Error::no_tls()),
        _ => watched(options, limit),
    }
}

/// The stream below TLS, whose calls can be cancelled.
fn watched<S: System>(options: &ServerOptions<S>, limit: Limit) -> Result<Box<dyn Duplex>, Error> {
    let Some(canceller) = &options.dial.canceller else { return plain(options, limit) };
    let aside = options.clone();
    let failure = |error| Error::cannot_connect(&options.address, error);
    canceller.connect(move || plain(&aside, limit), failure)
}

/// The stream itself.
fn plain<S: System>(options: &ServerOptions<S>, limit: Limit) -> Result<Box<dyn Duplex>, Error> {
    let (dial, address) = (&options.dial, &options.address);
    if let Some(Connector(connector)) = &dial.blocking_connector {
        let stream = connector(limit.remaining(now()))
            .map_err(|error| cannot_connect(address, error, limit))?;
        return if limit.has_passed(now()) { Err(limit.error()) } else { Ok(stream) };
    }
    match address.endpoint() {
        Endpoint::Tcp { host, port } | Endpoint::Tls { host, port } => {
            let stream = tcp(dial, host, port, limit)?;
            if dial.acknowledges_at_once {
                return Ok(Box::new(PromptAcks::new(stream)));
            }
            Ok(Box::new(stream))
        }
        #[cfg(unix)]
        Endpoint::Unix(path) => {
            let stream = unix(path, limit).map_err(|error| match is_timeout(&error) {
                true => limit.error(),
                false => cannot_connect(address, error, limit),
            })?;
            Ok(Box::new(stream))
        }
        #[cfg(not(unix))]
        Endpoint::Unix(_) => Err(cannot_connect(address, io::ErrorKind::Unsupported.into(), limit)),
    }
}

fn cannot_connect(address: &impl fmt::Display, error: io::Error, limit: Limit) -> Error {
    if is_timeout(&error) && limit.has_passed(now()) {
        return limit.error();
    }
    Error::cannot_connect(address, error)
}

fn tcp(dial: &Dial, host: &str, port: u16, limit: Limit) -> Result<TcpStream, Error> {
    let addresses = (host, port)
        .to_socket_addrs()
        .map_err(|error| Error::cannot_connect(format_args!("{host}:{port}"), error))?
        .collect();
    first_of(dial, AddressAttempts::new((host, port), addresses, limit))
}

/// Connects to the first address that answers.
fn first_of(dial: &Dial, mut attempts: AddressAttempts<'_>) -> Result<TcpStream, Error> {
    while let Some((address, share)) = attempts.next_address() {
        let outcome = match share {
            Some(Duration::ZERO) => Err(no_answer_in_time()),
            Some(share) => {
                TcpStream::connect_timeout(&address, share.max(Duration::from_millis(1)))
                    .map_err(|error| if is_timeout(&error) { no_answer_in_time() } else { error })
            }
            None => TcpStream::connect(address),
        };
        if let Some(stream) = attempts.ended(address, outcome, dial.dead_peer_after) {
            return Ok(stream);
        }
    }
    Err(attempts.error())
}

/// Connecting blocks while the server's backlog is full; on Linux for as long as the send timeout.
#[cfg(unix)]
fn unix(path: &Path, limit: Limit) -> io::Result<UnixStream> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    let address = SockAddr::unix(path)?;
    loop {
        let left = limit.remaining(now()).map(|left| left.max(Duration::from_millis(1)));
        socket.set_write_timeout(left)?;
        match socket.connect(&address) {
            // Interrupted by a signal, with nothing left in progress.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            outcome => return outcome.map(|()| socket.into()),
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::net::SocketAddr;

    use super::*;
    use crate::{Deadline, dial::socket::tests::Places};

    fn reach(addresses: Vec<SocketAddr>, time: Duration) -> Result<TcpStream, Error> {
        let limit = Limit::of(Deadline::Connect, Some(time));
        first_of(&Dial::default(), AddressAttempts::new(("name", 7), addresses, limit))
    }

    /// C1.
    #[test]
    fn an_address_that_swallows_packets_leaves_time_for_the_next() {
        let places = Places::new();
        let stream = reach(places.all(), Duration::from_millis(600)).unwrap();
        assert_eq!(stream.peer_addr().unwrap(), places.open());
    }

    /// C1.
    #[test]
    fn a_failed_attempt_names_every_address_and_its_cause() {
        let places = Places::new();
        places.check_out_of_time(reach(places.bad(), Duration::from_millis(100)).err());
        places.check_refused(reach(vec![places.closed()], Duration::from_secs(60)).err());
    }
}
