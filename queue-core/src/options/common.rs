//! What the options of all clients have in common.

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
        }

        $crate::setters! {
            self: ConnectOptions;

            /// Makes a plain-text address of another machine an error.
            require_tls(require: bool) => self.server.dial.require_tls = require;

            /// How long the operating system waits for a sign of life before it closes a connection whose peer has
            /// vanished: by keepalive on an idle one and, on Linux, by the user timeout while data is unacknowledged.
            /// From 3 seconds to 9 hours; 30 seconds unless set. Applies to TCP connections that the client makes
            /// itself.
            dead_peer_after(time: std::time::Duration) => self.server.dial.dead_peer_after = time;

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
            on_measurement(observer: impl Fn(&$crate::Measurement<'_>) + Send + Sync + 'static) =>
                self.server.measures = $crate::Measures::new(observer);

            /// Lets another thread end the calls of blocking clients; see [`Canceller`](crate::blocking::Canceller).
            #[cfg(feature = "blocking")]
            canceller(canceller: $crate::blocking::Canceller) =>
                self.server.dial.canceller = Some(canceller);

            #[doc = concat!(" Certificates and names for ", $schemes, " addresses.")]
            #[cfg(feature = "__rustls")]
            tls(tls: $crate::TlsOptions) => self.server.dial.tls = tls;
        }

        impl ConnectOptions {
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
            #[doc = concat!("# let server = ", $fixtures, "::Server::start()?;")]
            /// # let there = server.socket_addr().expect("it listens on TCP");
            #[doc = concat!("use ", env!("CARGO_CRATE_NAME"), "::{Client, ConnectOptions};")]
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
                let address = self.server.address.clone();
                let connector = $crate::Connector::new(move || connect(address.clone()));
                self.server.dial.connector = Some(connector);
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
                let address = self.server.address.clone();
                let connector = $crate::blocking::Connector::new(move |left| connect(&address, left));
                self.server.dial.blocking_connector = Some(connector);
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

/// What options for several servers have in common, for a struct with a field `servers`: the values that make them,
/// which are `$servers`, each `$from` and text; and the observer of measurements, which gets the duration of `$what`.
#[doc(hidden)]
#[macro_export]
macro_rules! from_servers {
    ($options:ident, $error:ty, $what:literal: $servers:ty $(, $from:ty)+) => {
        impl $options {
            /// Options for these servers, everything else at its default: comma-separated addresses, [`Servers`], or the
            /// options or the address of one.
            ///
            /// # Errors
            ///
            /// `InvalidInput` for an invalid address.
            pub fn new<S>(servers: S) -> Result<Self, $error>
            where
                S: TryInto<$servers>,
                $error: From<S::Error>,
            {
                Ok(servers.try_into()?.into())
            }

            /// The servers.
            #[must_use]
            pub fn servers(&self) -> &$servers {
                &self.servers
            }

            #[doc = concat!("Calls `observer` with the duration of ", $what, " and the number of messages, for every")]
            /// server; see [`ConnectOptions::on_measurement`].
            #[must_use]
            pub fn on_measurement(
                mut self,
                observer: impl Fn(&$crate::Measurement<'_>) + Send + Sync + 'static,
            ) -> Self {
                let measures = $crate::Measures::new(observer);
                self.servers = self.servers.each(|mut server| {
                    server.server.measures = measures.clone();
                    server
                });
                self
            }
        }

        $(
            impl From<$from> for $options {
                fn from(from: $from) -> Self {
                    <$servers>::from(from).into()
                }
            }
        )+

        $crate::from_text!($options, $error: $servers);
    };
}

/// What the options of all workers have in common, for a struct `WorkerOptions` with the fields `observer`,
/// `logs_errors` and `on_span`. Handlers run a `$work`; the documentation calls it `$noun`, and its bytes `$body`.
#[doc(hidden)]
#[macro_export]
macro_rules! worker_options {
    ($work:ty, $noun:literal, $body:literal) => {
        $crate::setters! {
            self: WorkerOptions;

            /// Whether to log the messages of handler errors and panics (feature `tracing`), on one line and truncated
            #[doc = concat!(" to 256 characters; off by default, because they may quote the ", $noun, ".")]
            log_errors(log: bool) => self.logs_errors = log;

            #[doc = concat!(" Calls `hook` with the span of each ", $noun, " (feature `tracing`) and the ", $noun, ",")]
            /// after the span is created and before it is entered: the moment to give the span a parent, such as the
            /// context that the sender has put into the body. It is called just before the handler runs, and only if
            /// the span is enabled; it must not block. If it panics, the handler still runs.
            ///
            /// ```
            #[doc = concat!(" # use ", env!("CARGO_CRATE_NAME"), "::WorkerOptions;")]
            /// let options: WorkerOptions = "localhost".parse()?;
            /// # fn context_in(_: &[u8]) {}
            /// # trait OpenTelemetrySpanExt {
            /// #     fn set_parent(&self, _: ()) -> Result<(), ()> { Ok(()) }
            /// # }
            /// # impl OpenTelemetrySpanExt for tracing::Span {}
            #[doc = concat!(" let options = options.on_span(|span, ", $noun, "| {")]
            #[doc = concat!("     let sender = context_in(", $body, "); // yours: it reads your envelope")]
            ///     let _ = span.set_parent(sender); // of tracing-opentelemetry
            /// });
            #[doc = concat!(" # Ok::<(), ", env!("CARGO_CRATE_NAME"), "::Error>(())")]
            /// ```
            #[cfg(feature = "tracing")]
            on_span(hook: impl Fn(&tracing::Span, &$work) + Send + Sync + 'static) =>
                self.on_span = $crate::SpanHook::new(hook);
        }

        impl WorkerOptions {
            /// The events as a stream, for a separate task: the same as for [`on_event`](Self::on_event), in addition to
            /// other observers.
            ///
            /// It keeps up to `capacity` events, never delays the worker, and counts those that its reader
            /// [missed](crate::EventStream::missed). It ends when these options and all workers made from them are
            /// dropped.
            ///
            /// ```
            #[doc = concat!("use ", env!("CARGO_CRATE_NAME"), "::WorkerOptions;")]
            /// use futures_util::StreamExt;
            ///
            /// let options: WorkerOptions = "localhost".parse()?;
            /// let (options, mut events) = options.event_stream(256);
            /// let log = async move {
            ///     while let Some(event) = events.next().await {
            ///         println!("{event}");
            ///     }
            ///     println!("the worker has ended; {} events were missed", events.missed());
            /// };
            /// # drop((options, log));
            #[doc = concat!("# Ok::<(), ", env!("CARGO_CRATE_NAME"), "::Error>(())")]
            /// ```
            #[cfg(feature = "stream")]
            #[must_use]
            pub fn event_stream(mut self, capacity: usize) -> (Self, $crate::EventStream<WorkerEvent>) {
                let (observer, events) = $crate::EventStream::new(capacity);
                self.observer = Some(observer.after(self.observer));
                (self, events)
            }
        }
    };
}
