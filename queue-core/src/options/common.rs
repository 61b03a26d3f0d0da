//! The common part of `ConnectOptions` of all clients.

/// The setters and the reading access that do not depend on the protocol, for a struct `ConnectOptions` with a field
/// `server: ServerOptions<$system>`. `$fixtures` is the module of the in-memory server, and `$schemes` are the
/// addresses over TLS, both for the documentation.
#[doc(hidden)]
#[macro_export]
macro_rules! connect_options {
    ($system:ty, $fixtures:literal, $schemes:literal) => {
        impl ConnectOptions {
            /// The same, for a question that is asked once.
            pub(crate) fn asked_once(&self) -> Self {
                let mut options = self.clone();
                options.server.retry = options.server.retry.up_to(0);
                options
            }

            /// Makes a plain-text address of another machine an error.
            #[must_use]
            pub fn require_tls(mut self, require: bool) -> Self {
                self.server.dial.require_tls = require;
                self
            }

            /// How long the operating system waits for a sign of life before it closes a connection whose peer has
            /// vanished: by keepalive on an idle one and, on Linux, by the user timeout while data is unacknowledged.
            /// From 3 seconds to 9 hours; 30 seconds unless set. Applies to TCP connections that the client makes
            /// itself.
            #[must_use]
            pub fn dead_peer_after(mut self, time: std::time::Duration) -> Self {
                self.server.dial.dead_peer_after = time;
                self
            }

            /// Calls `observer` with the duration of operations and the number of messages sent and received: the
            /// measurements that OpenTelemetry's messaging conventions ask of a client. It is called where an operation
            /// ends, outside of all locks, and must not block. If it panics, the operation continues. See
            /// [`Measurement`](crate::Measurement) for the values.
            ///
            /// ```
            /// use std::sync::atomic::{AtomicU64, Ordering};
            #[doc = concat!(" use ", env!("CARGO_CRATE_NAME"), "::{ConnectOptions, Instrument};")]
            ///
            /// static SENT: AtomicU64 = AtomicU64::new(0);
            ///
            /// let options: ConnectOptions = "localhost".parse()?;
            /// let options = options.on_measurement(|measurement| {
            ///     if measurement.instrument() == Instrument::SentMessages {
            ///         SENT.fetch_add(measurement.value() as u64, Ordering::Relaxed);
            ///     }
            /// });
            #[doc = concat!(" # Ok::<(), ", env!("CARGO_CRATE_NAME"), "::Error>(())")]
            /// ```
            #[must_use]
            pub fn on_measurement(
                mut self,
                observer: impl Fn(&$crate::Measurement<'_>) + Send + Sync + 'static,
            ) -> Self {
                self.server.measures = $crate::Measures::new(observer);
                self
            }

            /// Makes the connections of the async face instead of the operating system: through a proxy or a tunnel,
            /// over another TLS implementation, or in memory.
            ///
            /// It is called with the address of these options for every attempt to connect, within the connect
            /// deadline. For a TLS address, the client speaks TLS over the returned stream. Its error counts as a
            /// failure to connect. Set `TCP_NODELAY` on a TCP stream.
            ///
            /// ```
            /// # #[tokio::main(flavor = "current_thread")]
            /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
            #[doc = concat!(" # let server = ", $fixtures, "::Server::start()?;")]
            /// # let there = server.socket_addr().expect("it listens on TCP");
            #[doc = concat!(" use ", env!("CARGO_CRATE_NAME"), "::{Client, ConnectOptions};")]
            ///
            /// let options: ConnectOptions = "queue.internal".parse()?;
            /// let options = options.connector(move |address| async move {
            ///     // A name of our own: look it up where we know it.
            ///     println!("connecting to {address}");
            ///     tokio::net::TcpStream::connect(there).await
            /// });
            /// let client = Client::connect(options).await?;
            /// # drop(client);
            /// # Ok(())
            /// # }
            /// ```
            #[cfg(feature = "tokio")]
            #[must_use]
            pub fn connector<C, F, S>(mut self, connect: C) -> Self
            where
                C: Fn(Address) -> F + Send + Sync + 'static,
                F: std::future::Future<Output = std::io::Result<S>> + Send + 'static,
                S: $crate::Duplex + 'static,
            {
                self.server.set_connector(connect);
                self
            }

            /// The same for the blocking face. The connector also gets the remaining time (`None` for no limit) and
            /// must observe it itself.
            #[cfg(feature = "blocking")]
            #[must_use]
            pub fn blocking_connector<C, S>(mut self, connect: C) -> Self
            where
                C: Fn(&Address, Option<std::time::Duration>) -> std::io::Result<S> + Send + Sync + 'static,
                S: $crate::blocking::Duplex + 'static,
            {
                self.server.set_blocking_connector(connect);
                self
            }

            /// Lets another thread end the calls of blocking clients; see
            /// [`Canceller`]($crate::blocking::Canceller).
            #[cfg(feature = "blocking")]
            #[must_use]
            pub fn canceller(mut self, canceller: $crate::blocking::Canceller) -> Self {
                self.server.dial.canceller = Some(canceller);
                self
            }

            #[doc = concat!("Certificates and names for ", $schemes, " addresses.")]
            #[cfg(feature = "__rustls")]
            #[must_use]
            pub fn tls(mut self, tls: $crate::TlsOptions) -> Self {
                self.server.dial.tls = tls;
                self
            }

            /// The server's address.
            #[must_use]
            pub fn address(&self) -> &Address {
                &self.server.address
            }
        }

        impl std::ops::Deref for ConnectOptions {
            type Target = $crate::ServerOptions<$system>;

            fn deref(&self) -> &$crate::ServerOptions<$system> {
                &self.server
            }
        }

        impl From<Address> for ConnectOptions {
            fn from(address: Address) -> Self {
                ConnectOptions::new(address)
            }
        }

        $crate::from_text!(ConnectOptions, Error: Address);
    };
}
