//! One method per command of the text protocol, each a thin wrapper around `Admin::call`, in one list for both admin
//! clients.

use std::time::Duration;

use crate::{
    Error, FunctionName, FunctionPriorities, FunctionStatus, JobHandle, JobInfo, Listing, MaxQueue,
    Result, UniqueJob, WorkerInfo, protocol::AdminCommand,
};

/// The methods of an admin client; those of the async one are `async`, and say what happens if their future is dropped.
macro_rules! admin_commands {
    ($admin:ty $(, $async:ident $await:ident $cancel:literal)?) => {
impl $admin {
    /// Sets the total timeout of all later calls; see
    /// [`ConnectOptions::total_timeout`](crate::ConnectOptions::total_timeout).
    pub fn set_total_timeout(&mut self, timeout: Option<Duration>) {
        self.role.set_total_timeout(timeout);
    }

    /// All connections of the server, with their functions (`workers`).
    ///
    /// # Errors
    ///
    /// A connection failure.
    $(#[doc = $cancel])?
    pub $($async)? fn workers(&mut self) -> Result<Listing<WorkerInfo>> {
        Listing::parse(self.call(&AdminCommand::Workers)$(.$await)??)
    }

    /// All functions with their counts (`status`), in no particular order.
    ///
    /// # Errors
    ///
    /// A connection failure.
    $(#[doc = $cancel])?
    pub $($async)? fn status(&mut self) -> Result<Listing<FunctionStatus>> {
        Listing::parse(self.call(&AdminCommand::Status)$(.$await)??)
    }

    /// All functions with their queued jobs by priority (`prioritystatus`); server 1.1.15 or later.
    ///
    /// # Errors
    ///
    /// `Unsupported`; a connection failure.
    $(#[doc = $cancel])?
    pub $($async)? fn prioritystatus(&mut self) -> Result<Listing<FunctionPriorities>> {
        Listing::parse(self.call(&AdminCommand::PriorityStatus)$(.$await)??)
    }

    /// All jobs (`show jobs`). The server does not report their functions.
    ///
    /// # Errors
    ///
    /// `Unsupported` from servers other than gearmand; a connection failure.
    $(#[doc = $cancel])?
    pub $($async)? fn show_jobs(&mut self) -> Result<Listing<JobInfo>> {
        Listing::parse(self.call(&AdminCommand::ShowJobs)$(.$await)??)
    }

    /// The unique ids of all jobs (`show unique jobs`).
    ///
    /// # Errors
    ///
    /// `Unsupported` from servers other than gearmand; a connection failure.
    $(#[doc = $cancel])?
    pub $($async)? fn show_unique_jobs(&mut self) -> Result<Listing<UniqueJob>> {
        Listing::parse(self.call(&AdminCommand::ShowUniqueJobs)$(.$await)??)
    }

    /// Removes a queued job (`cancel job`): waiting clients see a failure. A running job is not stopped.
    ///
    /// # Errors
    ///
    /// `JobNotFound`; `InvalidInput` for text that is not a handle, and for a handle of another server; a connection
    /// failure.
    $(#[doc = $cancel])?
    pub $($async)? fn cancel_job<H>(&mut self, handle: H) -> Result<()>
    where
        H: TryInto<JobHandle>,
        Error: From<H::Error>,
    {
        self.call(&AdminCommand::CancelJob(handle.try_into()?))$(.$await)??.ok()
    }

    /// Creates a function that no worker or job has named yet (`create function`).
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a name that cannot be part of a command; a connection failure.
    $(#[doc = $cancel])?
    pub $($async)? fn create_function<F>(&mut self, function: F) -> Result<()>
    where
        F: TryInto<FunctionName>,
        Error: From<F::Error>,
    {
        self.call(&AdminCommand::CreateFunction(function.try_into()?))$(.$await)??.ok()
    }

    /// Removes a function (`drop function`). Its queued jobs are leaked: they never run.
    ///
    /// # Errors
    ///
    /// `FunctionNotFound`; `FunctionInUse` while there are workers or running jobs; a connection failure.
    $(#[doc = $cancel])?
    pub $($async)? fn drop_function<F>(&mut self, function: F) -> Result<()>
    where
        F: TryInto<FunctionName>,
        Error: From<F::Error>,
    {
        self.call(&AdminCommand::DropFunction(function.try_into()?))$(.$await)??.ok()
    }

    /// Limits a function's queue (`maxqueue`), including running jobs. For an unknown function, the server accepts the
    /// command and does nothing.
    ///
    /// Gearman needs no limit in each producer: the server itself refuses jobs over this limit
    /// ([`QueueFull`](crate::ErrorKind::QueueFull)), from any client, so the limit is exact. It still accepts a
    /// job that joins another by its unique id.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a name that cannot be part of a command; a connection failure.
    $(#[doc = $cancel])?
    pub $($async)? fn maxqueue<F>(&mut self, function: F, size: MaxQueue) -> Result<()>
    where
        F: TryInto<FunctionName>,
        Error: From<F::Error>,
    {
        self.call(&AdminCommand::MaxQueue(function.try_into()?, size))$(.$await)??.ok()
    }

    /// The server's process id (`getpid`).
    ///
    /// # Errors
    ///
    /// `Unsupported`; a connection failure.
    $(#[doc = $cancel])?
    pub $($async)? fn getpid(&mut self) -> Result<u64> {
        self.call(&AdminCommand::GetPid)$(.$await)??.number()
    }

    /// The server's log level (`verbose`), such as `ERROR`.
    ///
    /// # Errors
    ///
    /// `Unsupported`; a connection failure.
    $(#[doc = $cancel])?
    pub $($async)? fn verbose(&mut self) -> Result<String> {
        self.call(&AdminCommand::Verbose)$(.$await)??.value()
    }

    /// The server's version (`version`): `1.1.20` from gearmand, `v1.130.1` from the Perl server.
    ///
    /// # Errors
    ///
    /// A connection failure; Python's `gear` server never answers.
    $(#[doc = $cancel])?
    pub $($async)? fn version(&mut self) -> Result<String> {
        self.call(&AdminCommand::Version)$(.$await)??.value()
    }

    /// Shuts the server down (`shutdown`, `shutdown graceful`). gearmand removed the command in 1.1.14.
    ///
    /// # Errors
    ///
    /// `Unsupported`; a connection failure.
    $(#[doc = $cancel])?
    pub $($async)? fn shutdown(&mut self, graceful: bool) -> Result<()> {
        self.call(&AdminCommand::Shutdown { graceful })$(.$await)??.ok()
    }
}
    };
}

#[cfg(feature = "tokio")]
admin_commands!(
    crate::Admin,
    async await "\n# Cancel safety\n\nAs for the [admin client](Self#cancel-safety)."
);
#[cfg(feature = "blocking")]
admin_commands!(crate::blocking::Admin);
