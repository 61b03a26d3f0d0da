//! What the workers of both faces have in common.

/// The methods of a worker beside its handlers and its run; those of the async one say what happens if their future is
/// dropped.
macro_rules! worker {
    ($($async:ident $await:ident $cancel:literal)?) => {
impl Worker {
    /// Creates a worker from [`WorkerOptions`], [`ConnectOptions`](crate::ConnectOptions), or comma-separated
    /// addresses. It connects when it is run.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for an invalid address, and for plain text to another machine when TLS is required.
    pub fn new<O>(options: O) -> Result<Self>
    where
        O: TryInto<WorkerOptions>,
        Error: From<O::Error>,
    {
        let options = options.try_into()?;
        options.check()?;
        let worker_status = WorkerStatus::new(&options);
        Ok(Worker { worker_status, options, handlers: Handlers::new() })
    }

    /// Creates a worker, and [checks](Self::check) that a server answers. Otherwise as [`new`](Self::new).
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new) and [`check`](Self::check).
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

    /// Asks whether there can be jobs now: makes one round trip to each server in turn until one answers, over a
    /// separate connection that it closes again. For a worker that is not to start without a server.
    ///
    /// # Errors
    ///
    /// When no server answers, an error that names each and why: `Connect`, `Timeout`, `Tls`, `ConnectionLost`;
    /// `UnexpectedReply` or `Protocol` when something else answers.
    $(#[doc = concat!($cancel, "Dropping it closes the connection.")])?
    pub $($async)? fn check(&self) -> Result<()> {
        let mut failures = Vec::new();
        for server in self.options.asked_once() {
            let address = server.address().clone();
            let asked = match Client::new(server) {
                Ok(mut client) => client.list_tube_used()$(.$await)?,
                Err(error) => Err(error),
            };
            match asked {
                Ok(_) => return Ok(()),
                Err(error) => failures.push(error.with_server(address).with_fate(Fate::NotSent)),
            }
        }
        $crate::servers::none_can_be_reached(failures, "check").map_or(Ok(()), Err)
    }

    /// A handle to stop and observe the worker.
    #[must_use]
    pub fn handle(&self) -> WorkerHandle {
        WorkerHandle { worker_status: self.worker_status.clone() }
    }
}

impl std::fmt::Debug for Worker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Worker")
            .field("options", &self.options)
            .field("tubes", &self.handlers.keys().collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}
    };
}

pub(crate) use worker;
