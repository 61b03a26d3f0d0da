//! The blocking admin client: the text protocol on a connection of its own.

use std::time::Duration;

use queue_core::{blocking::Wire, now};

use crate::{
    Address, ConnectOptions, Error, FunctionName, FunctionPriorities, FunctionStatus, JobHandle,
    JobInfo, Listing, Result, UniqueJob, WorkerInfo,
    protocol::{AdminCommand, AdminReply, MaxQueue, admin::AdminSession, client::route::no_server},
};

/// An administration client for one Gearman server.
///
/// When the connection is lost, the call that notices fails and reports the fate of its command ([`Error::fate`]); the
/// next call reconnects.
pub struct Admin {
    role: AdminSession,
    wire: Wire<Error>,
}

impl Admin {
    /// Connects to a server.
    ///
    /// # Errors
    ///
    /// `Connect`, `Timeout(Connect)` or `Tls`; `InvalidInput` for an invalid address.
    pub fn connect<O>(options: O) -> Result<Self>
    where
        O: TryInto<ConnectOptions>,
        Error: From<O::Error>,
    {
        let options = options.try_into()?;
        let transport = queue_core::blocking::connect(&options, options.connecting_limit())?;
        let wire = Wire::to(&options).over(transport);
        Ok(Admin { role: AdminSession::new(options), wire })
    }

    /// Creates a client that connects at its first call, with all attempts of the [retry policy](crate::RetryPolicy):
    /// for a service that may start before its server.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for an invalid address, `Tls` for unusable TLS options.
    pub fn new<O>(options: O) -> Result<Self>
    where
        O: TryInto<ConnectOptions>,
        Error: From<O::Error>,
    {
        let options: ConnectOptions = options.try_into()?;
        options.check()?;
        let wire = Wire::to(&options);
        Ok(Admin { role: AdminSession::new(options), wire })
    }

    /// The server's address.
    #[must_use]
    pub fn address(&self) -> &Address {
        self.role.options().address()
    }

    /// Sets the total timeout of all later calls; see [`ConnectOptions::total_timeout`].
    pub fn set_total_timeout(&mut self, timeout: Option<Duration>) {
        self.role.set_total_timeout(timeout);
    }

    /// Sends any command and waits for its reply.
    ///
    /// # Errors
    ///
    /// A refusal by the server, or any connection failure; see [`Error::fate`].
    pub fn call(&mut self, command: &AdminCommand) -> Result<AdminReply> {
        self.role.begin(command, now())?;
        let outcome = self.wire.call(&mut self.role, AdminSession::outcome);
        outcome.unwrap_or_else(|| Err(no_server()))
    }
}

impl Admin {
    /// All connections of the server, with their functions (`workers`).
    ///
    /// # Errors
    ///
    /// A connection failure.
    pub fn workers(&mut self) -> Result<Listing<WorkerInfo>> {
        Listing::parse(self.call(&AdminCommand::Workers)?)
    }

    /// All functions with their counts (`status`), in no particular order.
    ///
    /// # Errors
    ///
    /// A connection failure.
    pub fn status(&mut self) -> Result<Listing<FunctionStatus>> {
        Listing::parse(self.call(&AdminCommand::Status)?)
    }

    /// All functions with their queued jobs by priority (`prioritystatus`); server 1.1.15 or later.
    ///
    /// # Errors
    ///
    /// `Unsupported`; a connection failure.
    pub fn prioritystatus(&mut self) -> Result<Listing<FunctionPriorities>> {
        Listing::parse(self.call(&AdminCommand::PriorityStatus)?)
    }

    /// All jobs (`show jobs`). The server does not report their functions.
    ///
    /// # Errors
    ///
    /// `Unsupported` from servers other than gearmand; a connection failure.
    pub fn show_jobs(&mut self) -> Result<Listing<JobInfo>> {
        Listing::parse(self.call(&AdminCommand::ShowJobs)?)
    }

    /// The unique ids of all jobs (`show unique jobs`).
    ///
    /// # Errors
    ///
    /// `Unsupported` from servers other than gearmand; a connection failure.
    pub fn show_unique_jobs(&mut self) -> Result<Listing<UniqueJob>> {
        Listing::parse(self.call(&AdminCommand::ShowUniqueJobs)?)
    }

    /// Removes a queued job (`cancel job`): waiting clients see a failure. A running job is not stopped.
    ///
    /// # Errors
    ///
    /// `JobNotFound`; `InvalidInput` for text that is not a handle, and for a handle of another server; a connection
    /// failure.
    pub fn cancel_job<H>(&mut self, handle: H) -> Result<()>
    where
        H: TryInto<JobHandle>,
        Error: From<H::Error>,
    {
        self.call(&AdminCommand::CancelJob(handle.try_into()?))?.ok()
    }

    /// Creates a function that no worker or job has named yet (`create function`).
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a name that cannot be part of a command; a connection failure.
    pub fn create_function<F>(&mut self, function: F) -> Result<()>
    where
        F: TryInto<FunctionName>,
        Error: From<F::Error>,
    {
        self.call(&AdminCommand::CreateFunction(function.try_into()?))?.ok()
    }

    /// Removes a function (`drop function`). Its queued jobs are leaked: they never run.
    ///
    /// # Errors
    ///
    /// `FunctionNotFound`; `FunctionInUse` while there are workers or running jobs; a connection failure.
    pub fn drop_function<F>(&mut self, function: F) -> Result<()>
    where
        F: TryInto<FunctionName>,
        Error: From<F::Error>,
    {
        self.call(&AdminCommand::DropFunction(function.try_into()?))?.ok()
    }

    /// Limits a function's queue (`maxqueue`), including running jobs. For an unknown function, the server accepts the
    /// command and does nothing.
    ///
    /// Gearman needs no limit in each producer: the server itself refuses jobs over this limit
    /// ([`QueueFull`](crate::ErrorKind::QueueFull)), whoever submits them, so the limit is exact. It still accepts a
    /// job that joins another by its unique id.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a name that cannot be part of a command; a connection failure.
    pub fn maxqueue<F>(&mut self, function: F, size: MaxQueue) -> Result<()>
    where
        F: TryInto<FunctionName>,
        Error: From<F::Error>,
    {
        self.call(&AdminCommand::MaxQueue(function.try_into()?, size))?.ok()
    }

    /// The server's process id (`getpid`).
    ///
    /// # Errors
    ///
    /// `Unsupported`; a connection failure.
    pub fn getpid(&mut self) -> Result<u64> {
        self.call(&AdminCommand::GetPid)?.number()
    }

    /// The server's log level (`verbose`), such as `ERROR`.
    ///
    /// # Errors
    ///
    /// `Unsupported`; a connection failure.
    pub fn verbose(&mut self) -> Result<String> {
        self.call(&AdminCommand::Verbose)?.value()
    }

    /// The server's version (`version`): `1.1.20` from gearmand, `v1.130.1` from the Perl server.
    ///
    /// # Errors
    ///
    /// A connection failure; Python's `gear` server never answers.
    pub fn version(&mut self) -> Result<String> {
        self.call(&AdminCommand::Version)?.value()
    }

    /// Shuts the server down (`shutdown`, `shutdown graceful`). gearmand removed the command in 1.1.14.
    ///
    /// # Errors
    ///
    /// `Unsupported`; a connection failure.
    pub fn shutdown(&mut self, graceful: bool) -> Result<()> {
        self.call(&AdminCommand::Shutdown { graceful })?.ok()
    }
}

impl std::fmt::Debug for Admin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Admin")
            .field("address", self.address())
            .field("connected", &self.wire.io().is_open())
            .finish_non_exhaustive()
    }
}
