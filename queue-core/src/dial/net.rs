//! Streams of the async face, and connecting.

use std::{
    fmt,
    future::poll_fn,
    io,
    net::SocketAddr,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll},
};

use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpStream, lookup_host},
    time::{Instant, Sleep, sleep_until, timeout, timeout_at},
};

#[cfg(feature = "tls")]
use crate::dial::tls::{NO_ANSWER, handshake_failed};
use crate::{
    Dial, Endpoint, Error, Limit, ServerOptions, System,
    dial::socket::{Acks, AddressAttempts, no_answer_in_time},
    now,
    pump::attentive::AckAware,
};

/// A connected stream that a client can use: anything that reads, writes, and can be sent.
pub trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Duplex for S {}

type Connecting = Pin<Box<dyn Future<Output = io::Result<Box<dyn Duplex>>> + Send>>;

/// Makes a client's streams instead of the operating system.
#[derive(Clone)]
pub struct Connector(Arc<dyn Fn() -> Connecting + Send + Sync>);

impl Connector {
    /// Calls `connect` for every attempt.
    pub fn new<C, F, S>(connect: C) -> Self
    where
        C: Fn() -> F + Send + Sync + 'static,
        F: Future<Output = io::Result<S>> + Send + 'static,
        S: Duplex + 'static,
    {
        Connector(Arc::new(move || {
            let connecting = connect();
            Box::pin(async move { Ok(Box::new(connecting.await?) as Box<dyn Duplex>) })
        }))
    }
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Connector")
    }
}

/// Connects to the server: through the custom connector, or to one of the addresses that the name currently resolves
/// to. It makes one attempt, including TLS, within one limit.
///
/// # Errors
///
/// The client's error for the failure; it names every address tried.
pub async fn connect<S: System>(
    options: &ServerOptions<S>,
    limit: Limit,
) -> Result<Box<dyn Duplex>, S::Error> {
    let span = S::connecting(&options.address);
    let attempt = async {
        let outcome = secured(options, limit).await.map_err(S::Error::from);
        S::connected(&options.address, &span, outcome.as_ref().map(drop));
        outcome
    };
    span.follow(attempt).await
}

async fn secured<S: System>(
    options: &ServerOptions<S>,
    limit: Limit,
) -> Result<Box<dyn Duplex>, Error> {
    let (dial, endpoint) = (&options.dial, options.address.endpoint());
    dial.check(&options.address)?;
    match endpoint {
        #[cfg(feature = "tls")]
        Endpoint::Tls { host, .. } => {
            let (config, name) = dial.tls.prepare(host)?;
            let connector = tokio_rustls::TlsConnector::from(config);
            let handshake = connector.connect(name, transport(options, limit).await?);
            match within(limit, handshake).await {
                Ok(stream) => Ok(Box::new(stream.map_err(handshake_failed)?)),
                Err(_) => Err(limit.error_while(NO_ANSWER)),
            }
        }
        #[cfg(not(feature = "tls"))]
        Endpoint::Tls { .. } => Err(Error::no_tls()),
        _ => transport(options, limit).await,
    }
}

/// The stream below TLS.
async fn transport<S: System>(
    options: &ServerOptions<S>,
    limit: Limit,
) -> Result<Box<dyn Duplex>, Error> {
    let dial = &options.dial;
    let cannot_connect = |error: io::Error| Error::cannot_connect(&options.address, error);
    if let Some(Connector(connector)) = &dial.connector {
        return within(limit, connector()).await?.map_err(cannot_connect);
    }
    match options.address.endpoint() {
        Endpoint::Tcp { host, port } | Endpoint::Tls { host, port } => {
            let acks = Acks::new(dial.acknowledges_at_once);
            Ok(Box::new(AckAware::new(tcp(dial, host, port, limit).await?, acks)))
        }
        #[cfg(unix)]
        Endpoint::Unix(path) => {
            let stream = within(limit, tokio::net::UnixStream::connect(path)).await?;
            Ok(Box::new(AckAware::new(stream.map_err(cannot_connect)?, Acks::new(false))))
        }
        #[cfg(not(unix))]
        Endpoint::Unix(_) => Err(cannot_connect(io::ErrorKind::Unsupported.into())),
    }
}

async fn tcp(dial: &Dial, host: &str, port: u16, limit: Limit) -> Result<TcpStream, Error> {
    let addresses = within(limit, resolve(host, port))
        .await
        .map_err(|_| limit.error_while(format!("the name {host} was not resolved in time")))?
        .map_err(|error| Error::cannot_connect(format_args!("{host}:{port}"), error))?;
    first_of(dial, AddressAttempts::new((host, port), addresses, limit)).await
}

/// Resolves a name. tokio does so in a thread, and panics when it cannot start one, which may be temporary.
async fn resolve(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    let mut lookup = pin!(lookup_host((host, port)));
    let addresses = poll_fn(|cx| {
        let polled = catch_unwind(AssertUnwindSafe(|| lookup.as_mut().poll(cx)));
        let no_thread = || io::Error::other("no thread could be started for the name lookup");
        polled.unwrap_or_else(|_| Poll::Ready(Err(no_thread())))
    });
    Ok(addresses.await?.collect())
}

/// Connects to the first address that answers.
async fn first_of(dial: &Dial, mut attempts: AddressAttempts<'_>) -> Result<TcpStream, Error> {
    while let Some((address, share)) = attempts.next_address() {
        let connecting = TcpStream::connect(address);
        let outcome = match share {
            Some(share) => {
                timeout(share, connecting).await.unwrap_or_else(|_| Err(no_answer_in_time()))
            }
            None => connecting.await,
        };
        if let Some(stream) = attempts.ended(address, outcome, dial.dead_peer_after) {
            return Ok(stream);
        }
    }
    Err(attempts.error())
}

/// Runs a step until its limit.
///
/// # Errors
///
/// The error that names the limit, if it passed first.
pub async fn within<F: Future>(limit: Limit, step: F) -> Result<F::Output, Error> {
    match limit.at {
        Some(at) => timeout_at(Instant::from_std(at), step).await.map_err(|_| limit.error()),
        None => Ok(step.await),
    }
}

/// A timer that is reused from one reply to the next.
///
/// Moving a timer to a later time costs almost nothing, while a new one for each reply would have to be inserted into
/// the runtime's timer wheel and removed again.
#[derive(Debug, Default)]
pub struct Timer(Option<Pin<Box<Sleep>>>);

impl Timer {
    /// Ready with the limit's error once the limit that the timer was [`set`](Self::set) to has passed.
    ///
    /// # Errors
    ///
    /// The error that names the limit.
    pub fn poll<T>(&mut self, cx: &mut Context<'_>, limit: Limit) -> Poll<Result<T, Error>> {
        let sleep = self.0.as_mut().filter(|_| limit.at.is_some());
        let Some(sleep) = sleep else { return Poll::Pending };
        // A task that reads all the time has used up its budget before it gets here: the runtime then reports every
        // timer as pending.
        if sleep.as_mut().poll(cx).is_ready() || limit.has_passed(now()) {
            return Poll::Ready(Err(limit.error()));
        }
        Poll::Pending
    }

    /// Starts the timer for a limit.
    pub fn set(&mut self, limit: Limit) {
        let Some(at) = limit.at.map(Instant::from_std) else { return };
        match &mut self.0 {
            Some(sleep) => sleep.as_mut().reset(at),
            None => self.0 = Some(Box::pin(sleep_until(at))),
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{Deadline, dial::socket::tests::Places};

    async fn reach(addresses: Vec<SocketAddr>, time: Duration) -> Result<TcpStream, Error> {
        let limit = Limit::of(Deadline::Connect, Some(time));
        first_of(&Dial::default(), AddressAttempts::new(("name", 7), addresses, limit)).await
    }

    #[tokio::test(start_paused = true)]
    async fn a_timer_fires_for_its_latest_limit() {
        let limit = |seconds| Limit::of(Deadline::Reply, Some(Duration::from_secs(seconds)));
        let mut timer = Timer::default();
        let (soon, later) = (limit(1), limit(5));
        timer.set(soon);
        timer.set(later);
        let began = Instant::now();
        let outcome: Result<(), Error> = poll_fn(|cx| timer.poll(cx, later)).await;
        assert_eq!(outcome.unwrap_err().kind(), later.error().kind());
        assert_eq!(began.elapsed().as_secs(), 5);
        timer.set(Limit::never());
        let never = poll_fn(|cx| timer.poll::<()>(cx, Limit::never()));
        assert!(tokio::time::timeout(Duration::from_secs(3600), never).await.is_err());
    }

    /// C1.
    #[tokio::test]
    async fn an_address_that_swallows_packets_leaves_time_for_the_next() {
        let places = Places::new();
        let stream = reach(places.all(), Duration::from_millis(600)).await.unwrap();
        assert_eq!(stream.peer_addr().unwrap(), places.open());
    }

    /// C1.
    #[tokio::test]
    async fn a_failed_attempt_names_every_address_and_its_cause() {
        let places = Places::new();
        places.check_out_of_time(reach(places.bad(), Duration::from_millis(100)).await.err());
        let refused = vec![places.closed()];
        places.check_refused(reach(refused, Duration::from_secs(60)).await.err());
    }
}
