//! What the types of both faces have in the same words: methods of clients, producers and workers, in one list for each.

/// Methods of an `impl`, whose parameter `queue: Q` is anything that converts to a queue's name. A value of type `V` is
/// anything that can be written as JSON.
macro_rules! queue_methods {
    ($(
        $(#[$attribute:meta])*
        pub $($async_fn_name:ident)+$(<$value:ident>)?($($parameter:tt)+) -> $out:ty $body:block
    )+) => {$(
        $(#[$attribute])*
        pub $($async_fn_name)+<Q $(, $value)?>($($parameter)+) -> $out
        where
            Q: TryInto<QueueName>,
            Error: From<Q::Error>,
            $($value: serde_core::Serialize + ?Sized,)?
        $body
    )+};
}

/// What a client has besides its requests, which are in `requests.rs`. Connecting the async one is `async`, and says what
/// happens if its future is dropped.
macro_rules! client_methods {
    ([$($mut:ident)?] $($async:ident $await:ident $cancel:literal)?) => {
impl Client {
    /// Connects to a server: `"127.0.0.1:6230"`, `"adf+json://queue:6230"`, an [`Address`] or [`ConnectOptions`]. It
    /// makes one attempt: startup errors are reported immediately.
    ///
    /// # Errors
    ///
    /// `Connect`, `Timeout(Connect)` or `Tls`; `Protocol` when something else answers; `InvalidInput` for an invalid
    /// address.
    $(#[doc = concat!(
        "`InvalidInput` also outside of a tokio runtime.\n\n",
        $cancel,
        "Dropping closes the half-made connection."
    )])?
    pub $($async)? fn connect<O>(options: O) -> Result<Self>
    where
        O: TryInto<ConnectOptions>,
        Error: From<O::Error>,
    {
        let $($mut)? client = Self::new(options)?;
        client.ready()$(.$await)??;
        Ok(client)
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client")
            .field("address", &self.address().to_string())
            .field("state", &self.connection_state())
            .finish_non_exhaustive()
    }
}
    };
}

/// The methods of a producer; those of the async one are `async`, and say what happens if their future is dropped.
macro_rules! producer_methods {
    ($($async:ident $await:ident $cancel:literal)?) => {
impl Producer {
    /// Creates a producer, and [checks](Self::check) that a server answers. Otherwise as [`new`](Self::new).
    ///
    /// # Errors
    ///
    /// As [`check`](Self::check) and [`new`](Self::new).
    $(#[doc = concat!(
        "`InvalidInput` outside of a tokio runtime.\n\n",
        $cancel,
        "Dropping closes the half-made connection."
    )])?
    pub $($async)? fn connect<O>(options: O) -> Result<Self>
    where
        O: TryInto<ProducerOptions>,
        Error: From<O::Error>,
    {
        let producer = Self::new(options)?;
        producer.check()$(.$await)??;
        Ok(producer)
    }

    $crate::faces::queue_methods! {
    /// Adds a message at the left end of a queue, where it is pulled next (`lpush`). Returns its number in the queue of
    /// the server that took it.
    ///
    /// # Errors
    ///
    /// See the table of the [producer](Self); `InvalidInput` for a message that cannot be sent.
    $(#[doc = concat!(
        "`InvalidInput` also outside of a tokio runtime.\n\n",
        $cancel,
        "A call that was never polled has sent nothing. Otherwise the message may be pushed, once, or not at all."
    )])?
    pub $($async)? fn lpush(&self, queue: Q, body: impl AsRef<[u8]>) -> Result<MessageId> {
        self.push(None, Push::left(queue.try_into()?, body))$(.$await)?
    }

    /// Adds a message at the right end of a queue (`rpush`); see [`lpush`](Self::lpush).
    ///
    /// # Errors
    ///
    /// As [`lpush`](Self::lpush).
    $(#[doc = concat!($cancel, "As [`lpush`](Self::lpush).")])?
    pub $($async)? fn rpush(&self, queue: Q, body: impl AsRef<[u8]>) -> Result<MessageId> {
        self.push(None, Push::right(queue.try_into()?, body))$(.$await)?
    }

    /// As [`lpush`](Self::lpush), on the server selected by this key with
    /// [`Selection::ByKey`](crate::Selection::ByKey); other selections ignore it.
    ///
    /// # Errors
    ///
    /// As [`lpush`](Self::lpush).
    $(#[doc = concat!($cancel, "As [`lpush`](Self::lpush).")])?
    pub $($async)? fn lpush_by_key(
        &self,
        key: impl AsRef<[u8]>,
        queue: Q,
        body: impl AsRef<[u8]>,
    ) -> Result<MessageId> {
        self.push(Some(key.as_ref()), Push::left(queue.try_into()?, body))$(.$await)?
    }

    /// As [`rpush`](Self::rpush), with a key; see [`lpush_by_key`](Self::lpush_by_key).
    ///
    /// # Errors
    ///
    /// As [`lpush`](Self::lpush).
    $(#[doc = concat!($cancel, "As [`lpush`](Self::lpush).")])?
    pub $($async)? fn rpush_by_key(
        &self,
        key: impl AsRef<[u8]>,
        queue: Q,
        body: impl AsRef<[u8]>,
    ) -> Result<MessageId> {
        self.push(Some(key.as_ref()), Push::right(queue.try_into()?, body))$(.$await)?
    }
    }

    /// Asks whether messages can be pushed now: makes one round trip to each server in turn until one answers, over the
    /// connection that is there, or over a new one. For a readiness probe: the [state](Self::state) of an idle
    /// connection says nothing about its server.
    ///
    /// # Errors
    ///
    /// When no server answers, the error of the last, which names every server and why: `Connect`, `Timeout`, `Tls`,
    /// `ConnectionLost`, or `Protocol` when something else answers. `Closed` after [`close`](Self::close).
    $(#[doc = concat!($cancel, "Dropping it only ends the wait.")])?
    pub $($async)? fn check(&self) -> Result<()> {
        let servers = self.open_servers()?;
        let mut checking = servers.checking();
        while let Some((server, limit)) = checking.next_server(now()) {
            match servers.server(server)?.link.run(Ask::Ping, limit)$(.$await)? {
                Ok(_) => return Ok(()),
                Err(error) => {
                    servers.check_failed(server, &error);
                    checking.failed(error);
                }
            }
        }
        Err(checking.error())
    }
}
    };
}

/// The methods of a worker, likewise.
macro_rules! worker_methods {
    ($($async:ident $await:ident $cancel:literal)?) => {
impl Worker {
    /// Creates a worker from [`WorkerOptions`], [`ConnectOptions`](crate::ConnectOptions), or comma-separated
    /// addresses. It connects when it is run.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for an invalid address; `Unsupported` for an HTTP transport, where an abandoned pull still takes
    /// a message.
    pub fn new<O>(options: O) -> Result<Self>
    where
        O: TryInto<WorkerOptions>,
        Error: From<O::Error>,
    {
        let options = options.try_into()?;
        options.check()?;
        Ok(Worker {
            worker_status: WorkerStatus::new(&options),
            options,
            handlers: Handlers::new(),
        })
    }

    /// Creates a worker, and [checks](Self::check) that a server answers. Otherwise as [`new`](Self::new).
    ///
    /// # Errors
    ///
    /// As [`check`](Self::check) and [`new`](Self::new).
    $(#[doc = concat!($cancel, "Dropping it closes the connection.")])?
    pub $($async)? fn connect<O>(options: O) -> Result<Self>
    where
        O: TryInto<WorkerOptions>,
        Error: From<O::Error>,
    {
        let worker = Self::new(options)?;
        worker.check()$(.$await)??;
        Ok(worker)
    }

    /// Asks whether messages can be pulled now: makes one round trip to each server in turn until one answers, over a
    /// separate connection that it closes again. For a worker that is not to start without a server.
    ///
    /// # Errors
    ///
    /// When no server answers, the error of the last, which names every server and why: `Connect`, `Timeout`, `Tls`,
    /// `ConnectionLost`, or `Protocol` when something else answers.
    $(#[doc = concat!($cancel, "Dropping it closes the connection.")])?
    pub $($async)? fn check(&self) -> Result<()> {
        let servers = self.options.servers.options();
        let mut checking = Checking::new(servers);
        while let Some((server, limit)) = checking.next_server(now()) {
            let Some(options) = servers.get(server) else { continue };
            match ServerLink::new(options.asked_once()).run(Ask::Ping, limit)$(.$await)? {
                Ok(_) => return Ok(()),
                Err(error) => checking.failed(error),
            }
        }
        Err(checking.error())
    }
}

impl std::fmt::Debug for Worker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Worker")
            .field("options", &self.options)
            .field("queues", &self.handlers.keys().collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}
    };
}

pub(crate) use {client_methods, producer_methods, queue_methods, worker_methods};
