//! Options for one server: its address and deadlines.

use std::time::Duration;

use queue_core::{RetryPolicy, ServerOptions};

use crate::{Address, Error, address::Gearmand};
use crate::{ClientEvent, ClientEventKind};

/// Connection settings and deadlines.
///
/// Created from an [`Address`] or its text; setters consume and return it:
///
/// ```
/// use std::time::Duration;
/// use gearman_client::ConnectOptions;
///
/// let options: ConnectOptions = "localhost:4730".parse()?;
/// let options = options.connect_timeout(Duration::from_secs(1)).reply_timeout(Duration::from_secs(2));
/// # Ok::<(), gearman_client::Error>(())
/// ```
///
/// Settings can be read back: `options.reply_timeout`, from [`ServerOptions`].
///
/// | deadline | default | covers |
/// |---|---|---|
/// | connect | 5 s | name resolution, TCP over all addresses, TLS handshake |
/// | write | 10 s | handing a request to the operating system; a long one has the time again for every 64 KiB of it |
/// | reply | 10 s | from the oldest request written, or the last reply, to the next reply |
/// | total | none | the whole call, with reconnects and retries, over all servers |
///
/// The deadlines apply whatever else a server sends. A query ([`status`](crate::blocking::Client::status)) is repeated
/// after a lost connection only until the reply timeout has passed since its start. With a total, each server that it
/// goes to gets an equal share of the remaining time.
///
/// With the feature `serde` they are an address, or a map with the address and any settings, under the names of the
/// setters: `{"address": "localhost:4730", "reply_timeout": 2}`. Durations are seconds, or text such as `250ms`;
/// `"never"` means none. Connectors and observers are code and TLS options hold keys, so none of them is serialized.
#[derive(Clone, Debug)]
pub struct ConnectOptions {
    pub(crate) server: ServerOptions<Gearmand>,
    pub(crate) max_packet_size: usize,
    pub(crate) max_backlog: usize,
    pub(crate) exceptions: bool,
    pub(crate) observer: Option<queue_core::Observer<ClientEvent>>,
}

impl ConnectOptions {
    /// Options for this server, everything else at its default.
    #[must_use]
    pub fn new(address: Address) -> Self {
        ConnectOptions {
            server: ServerOptions::new(address),
            max_packet_size: 64 << 20,
            max_backlog: 64 << 20,
            exceptions: true,
            observer: None,
        }
    }
}

queue_core::setters! {
    self: ConnectOptions;

    /// Time limit for name resolution, connecting and the TLS handshake together.
    connect_timeout(timeout: Duration) => self.server.connect_timeout = timeout;

    /// Time limit for handing a request to the operating system; it restarts after every 64 KiB of a longer request.
    write_timeout(timeout: Duration) => self.server.write_timeout = timeout;

    /// Time limit for a whole reply once its request is written.
    reply_timeout(timeout: Duration) => self.server.reply_timeout = timeout;

    /// Time limit for each call as a whole, over all servers, including reconnects and retries; each attempt gets the
    /// remaining time. `None`: only the other deadlines apply.
    total_timeout(timeout: Option<Duration>) => self.server.total_timeout = timeout;

    /// Maximum size of a received packet or text reply, in bytes; 64 MiB unless set. A larger one ends the connection
    /// with [`PacketTooLarge`](crate::ErrorKind::PacketTooLarge), except a [worker's
    /// job](crate::WorkerOptions::fail_oversized).
    max_packet_size(bytes: usize) => self.max_packet_size = bytes;

    /// Maximum size in bytes of unread events of one job, or of all jobs of one `submit_many` on a server; 64 MiB
    /// unless set. Results count, and are always kept. A job whose data or warnings would exceed it fails with
    /// [`Backlog`](crate::ErrorKind::Backlog). The async `submit_many` takes everything that waits in one step and
    /// reads from that, so it may hold as much again.
    max_backlog(bytes: usize) => self.max_backlog = bytes;

    /// Whether to request exceptions on each connection; on by default. Otherwise a worker's exception arrives as a
    /// plain failure, as it does from servers that refuse the request or do not answer it, such as Python's `gear`. The
    /// answer is not awaited.
    exceptions(negotiate: bool) => self.exceptions = negotiate;

    /// How often to retry a request that definitely did not reach a server.
    retry(policy: RetryPolicy) => self.server.retry = policy;

    /// Calls `observer` for every event of a client that concerns this server: connections, losses, the time for which
    /// the server is skipped, requests that are moved or resent. It is called where the event occurs, outside of the
    /// client's locks, and must not block. If it panics, the client continues. Several observers are called in the
    /// order in which they were set. Workers have [`WorkerOptions::on_event`](crate::WorkerOptions::on_event) instead.
    ///
    /// ```
    /// use gearman_client::{ClientEventKind, Servers};
    ///
    /// let servers: Servers = "one:4730,two:4730".parse()?;
    /// let servers = servers.each(|server| {
    ///     server.on_event(|event| match &event.what {
    ///         ClientEventKind::Disconnected(error) => eprintln!("{}: {error}", event.server),
    ///         what => println!("{}: {what}", event.server),
    ///     })
    /// });
    /// # Ok::<(), gearman_client::Error>(())
    /// ```
    on_event(observer: impl Fn(&ClientEvent) + Send + Sync + 'static) =>
        self.observer = Some(queue_core::Observer::new(observer).after(self.observer));
}

impl ConnectOptions {
    /// Calls the observer, if any.
    pub(crate) fn notify(&self, what: ClientEventKind) {
        if let Some(observer) = &self.observer {
            observer.notify(&ClientEvent { server: self.address.clone(), what });
        }
    }
}

queue_core::connect_options!(Gearmand, "fixtures::gearmand", "`gearmans://`");

#[cfg(feature = "serde")]
queue_core::serde_connect_options! {
    ConnectOptions, Error, Address;
    max_packet_size: usize;
    max_backlog: usize;
    exceptions: bool;
}
