//! Options for one server: its address and deadlines.

use std::time::Duration;

use queue_core::{RetryPolicy, ServerOptions};

use crate::protocol::Action;
use crate::{Address, Error, address::AdfQueue};

/// Connection settings and deadlines.
///
/// Created from an [`Address`] or its text; setters consume and return it:
///
/// ```
/// use std::time::Duration;
/// use adf_queue_client::ConnectOptions;
///
/// let options: ConnectOptions = "localhost:6230".parse()?;
/// let options = options.connect_timeout(Duration::from_secs(1)).reply_timeout(Duration::from_secs(2));
/// # Ok::<(), adf_queue_client::Error>(())
/// ```
///
/// Settings can be read back: `options.reply_timeout`, from [`ServerOptions`].
///
/// | deadline | default | covers |
/// |---|---|---|
/// | connect | 5 s | name resolution, TCP over all addresses, TLS handshake, upgrade to WebSocket |
/// | write | 10 s | handing a request to the operating system; a long one has the time again for every 64 KiB of it |
/// | reply | 10 s | from the oldest request written, or the last answer, to the next answer; a pull has none |
/// | total | none | the whole call, with reconnects and retries; a pull has none either |
///
/// The deadlines apply whatever else a server sends.
///
/// With the feature `serde` they are an address, or a map with the address and any settings, under the names of the
/// setters: `{"address": "localhost:6230", "reply_timeout": 2}`. Durations are seconds, or text such as `250ms`;
/// `"never"` means none. Connectors are code and TLS options hold keys, so neither is serialized.
#[derive(Clone, Debug)]
pub struct ConnectOptions {
    pub(crate) server: ServerOptions<AdfQueue>,
    pub(crate) max_message_size: usize,
    pub(crate) max_connections: usize,
    pub(crate) ping_interval: Option<Duration>,
    pub(crate) seed: Option<u64>,
}

impl ConnectOptions {
    /// Options for this server, everything else at its default.
    #[must_use]
    pub fn new(address: Address) -> Self {
        let mut server = ServerOptions::new(address);
        // The server does not set `TCP_NODELAY`.
        server.dial.acknowledges_at_once = true;
        ConnectOptions {
            server,
            max_message_size: 64 << 20,
            max_connections: 16,
            ping_interval: Some(Duration::from_secs(30)),
            seed: None,
        }
    }
}

queue_core::setters! {
    self: ConnectOptions;

    /// Time limit for name resolution, connecting, the TLS handshake and the upgrade to WebSocket together.
    connect_timeout(timeout: Duration) => self.server.connect_timeout = timeout;

    /// Time limit for handing a request to the operating system; it restarts after every 64 KiB of a longer request.
    write_timeout(timeout: Duration) => self.server.write_timeout = timeout;

    /// Time limit for a whole answer once its request is written. Does not apply to a pull.
    reply_timeout(timeout: Duration) => self.server.reply_timeout = timeout;

    /// Time limit for each call as a whole, except [`pull`](crate::blocking::Client::pull), including reconnects and
    /// retries. With `None`, only the other deadlines apply.
    total_timeout(timeout: Option<Duration>) => self.server.total_timeout = timeout;

    /// Maximum size of a received message, in bytes; 64 MiB by default. A larger one ends the connection with
    /// [`MessageTooLarge`](crate::ErrorKind::MessageTooLarge). It also limits the total size of messages that were
    /// pulled for former callers, and wait for the next pull of their queue.
    max_message_size(bytes: usize) => self.max_message_size = bytes;

    /// Maximum number of HTTP connections of an async client for requests, and separately for waiting pulls; 16 of each
    /// unless set, and at least 1. Callers that find all in use queue fairly. The server has few threads for HTTP:
    /// three waiting pulls already slow other requests down, so consumers should use WebSocket.
    max_connections(connections: usize) => self.max_connections = connections.clamp(1, 1 << 16);

    /// Idle time after which a WebSocket connection sends a ping; 30 seconds by default, at least 100 ms, `None` for
    /// never. Silence for the reply timeout after that ends the connection. The server never sends pings.
    ///
    /// The blocking face has no thread, so it pings only while a call waits.
    ping_interval(interval: Option<Duration>) =>
        self.ping_interval = interval.map(|interval| interval.max(Duration::from_millis(100)));

    /// Derives everything random (masks of frames, keys of upgrades, ids of HTTP requests) from this seed, so that a
    /// simulation or a test is repeatable. Without a seed, as is right for a service, each client draws its own. Delays
    /// have the seed of their [`RetryPolicy`].
    seed(seed: u64) => self.seed = Some(seed);

    /// How often to retry a request that definitely did not reach a server.
    retry(policy: RetryPolicy) => self.server.retry = policy;
}

impl ConnectOptions {
    /// Rejects a transport that needs more than one stream.
    pub(crate) fn check_stream(&self) -> Result<(), Error> {
        match self.address.transport().is_http() {
            true => Err(Error::unsupported(
                "HTTP needs more than one connection: use an address with adf:// or adf+json://",
            )),
            false => self.check(),
        }
    }

    /// Rejects settling a pulled message by its id where only the connection that pulled it can do that.
    pub(crate) fn check_by_id(&self, action: Action) -> Result<(), Error> {
        if self.address.transport().is_http() {
            return Ok(());
        }
        let why = "over WebSocket a pulled message belongs to its connection, and returns to its queue when that closes: \
                   use an address with http:// or http+json://";
        Err(Error::unsupported(why).with_action(action))
    }

    /// The random number generator, seeded if configured.
    pub(crate) fn random(&self) -> queue_core::Random {
        self.seed.map_or_else(|| self.retry.random(), queue_core::Random::new)
    }
}

queue_core::connect_options!(
    AdfQueue,
    "fixtures::adf_queue",
    "`adfs://`, `adfs+json://`, `https://` and `https+json://`"
);

#[cfg(feature = "serde")]
queue_core::serde_connect_options! {
    ConnectOptions, Error, Address;
    max_message_size: usize;
    max_connections: usize;
    ping_interval: queue_core::OrNever;
    seed: Option<u64> => seed;
}
