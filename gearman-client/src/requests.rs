//! What both clients share: one method per request, each a thin wrapper around `Client::call`, and the views of their
//! servers.

use std::time::SystemTime;

use bytes::Bytes;
use queue_core::Limit;

use crate::{
    Address, ConnectionState, Epoch, Error, FunctionName, JobHandle, JobStatus, Outcome, Result,
    Schedule, SubmitOptions, UniqueId,
    protocol::{Echo, GetStatus, GetStatusUnique, Request, Submit, Submitted},
};

/// The methods of a client; those of the async one are `async`, and say what happens if their future is dropped.
macro_rules! requests {
    ($client:ty, $job:ty, [$($mut:ident)?] $(, $inner:ident $async:ident $await:ident $cancel:literal)?) => {
impl $client {
    /// Sends any request and waits for its answer.
    ///
    /// If the request submits a foreground job, the job's events are dropped; see [`submit`](Self::submit).
    ///
    /// # Errors
    ///
    /// A refusal by the server, or any connection failure; see [`Error::fate`].
    $(#[doc = $cancel])?
    pub $($async)? fn call<R: Request>(&$($mut)? self, request: &R) -> Result<R::Reply> {
        self.call_with(request, false)$(.$await)?
    }

    /// Submits a foreground job (`SUBMIT_JOB`, `_HIGH`, `_LOW`) and returns its events.
    ///
    /// # Errors
    ///
    /// `QueueFull` is temporary; `InvalidInput` for an invalid name; a connection failure, where [`fate`](Error::fate)
    /// says whether the job may exist.
    $(#[doc = $cancel])?
    pub $($async)? fn submit<F>(
        &$($mut)? self,
        function: F,
        workload: impl AsRef<[u8]>,
        options: SubmitOptions,
    ) -> Result<$job>
    where
        F: TryInto<FunctionName>,
        Error: From<F::Error>,
    {
        let submit = Submit::foreground(function.try_into()?, workload, options)?;
        <$job>::start(self, submit, options)$(.$await)?
    }

    /// Submits a foreground job and waits for its end. Partial data, warnings and progress are dropped; see
    /// [`submit`](Self::submit).
    ///
    /// # Errors
    ///
    /// As [`submit`](Self::submit), and `Timeout(Job)`. A job that failed is an [`Outcome`], not an error.
    $(#[doc = $cancel])?
    pub $($async)? fn run<F>(
        &$($mut)? self,
        function: F,
        workload: impl AsRef<[u8]>,
        options: SubmitOptions,
    ) -> Result<Outcome>
    where
        F: TryInto<FunctionName>,
        Error: From<F::Error>,
    {
        let submit = Submit::foreground(function.try_into()?, workload, options)?;
        <$job>::run(self, submit, options)$(.$await)?
    }

    /// Submits a background job (`SUBMIT_JOB_BG`, `_HIGH_BG`, `_LOW_BG`). Its result is discarded.
    ///
    /// # Errors
    ///
    /// As [`submit`](Self::submit).
    $(#[doc = $cancel])?
    pub $($async)? fn submit_background<F>(
        &$($mut)? self,
        function: F,
        workload: impl AsRef<[u8]>,
        options: SubmitOptions,
    ) -> Result<Submitted>
    where
        F: TryInto<FunctionName>,
        Error: From<F::Error>,
    {
        let submit = Submit::background(function.try_into()?, workload, options)?;
        self.call_with(&submit, options.idempotent)$(.$await)?
    }

    /// Submits a background job that is not run before `at` (`SUBMIT_JOB_EPOCH`), in whole seconds (rounded up).
    ///
    /// Servers up to 1.1 do not wake a sleeping worker at that time: it finds the job when it next asks.
    ///
    /// # Errors
    ///
    /// As [`submit`](Self::submit); `InvalidInput` for a priority other than normal.
    $(#[doc = $cancel])?
    pub $($async)? fn submit_epoch<F>(
        &$($mut)? self,
        function: F,
        workload: impl AsRef<[u8]>,
        at: SystemTime,
        options: SubmitOptions,
    ) -> Result<Submitted>
    where
        F: TryInto<FunctionName>,
        Error: From<F::Error>,
    {
        let submit = Submit::epoch(function.try_into()?, workload, at, options)?;
        self.call_with(&submit, options.idempotent)$(.$await)?
    }

    /// Submits a background job with a cron-like schedule (`SUBMIT_JOB_SCHED`). gearmand answers with `Unsupported`.
    ///
    /// # Errors
    ///
    /// As [`submit`](Self::submit); `InvalidInput` for a priority other than normal.
    $(#[doc = $cancel])?
    pub $($async)? fn submit_sched<F>(
        &$($mut)? self,
        function: F,
        workload: impl AsRef<[u8]>,
        schedule: Schedule,
        options: SubmitOptions,
    ) -> Result<Submitted>
    where
        F: TryInto<FunctionName>,
        Error: From<F::Error>,
    {
        let submit = Submit::sched(function.try_into()?, workload, schedule, options)?;
        self.call_with(&submit, options.idempotent)$(.$await)?
    }

    /// Submits a foreground job with the name of a reducer function for its worker (`SUBMIT_REDUCE_JOB`).
    ///
    /// # Errors
    ///
    /// As [`submit`](Self::submit); `InvalidInput` for a priority other than normal.
    $(#[doc = $cancel])?
    pub $($async)? fn submit_reduce<F, R>(
        &$($mut)? self,
        function: F,
        workload: impl AsRef<[u8]>,
        reducer: R,
        options: SubmitOptions,
    ) -> Result<$job>
    where
        F: TryInto<FunctionName>,
        R: TryInto<FunctionName>,
        Error: From<F::Error> + From<R::Error>,
    {
        let submit = Submit::reduce(function.try_into()?, workload, reducer.try_into()?, options)?;
        <$job>::start(self, submit, options)$(.$await)?
    }

    /// Submits a background job with the name of a reducer function for its worker (`SUBMIT_REDUCE_JOB_BACKGROUND`).
    ///
    /// # Errors
    ///
    /// As [`submit`](Self::submit); `InvalidInput` for a priority other than normal.
    $(#[doc = $cancel])?
    pub $($async)? fn submit_reduce_background<F, R>(
        &$($mut)? self,
        function: F,
        workload: impl AsRef<[u8]>,
        reducer: R,
        options: SubmitOptions,
    ) -> Result<Submitted>
    where
        F: TryInto<FunctionName>,
        R: TryInto<FunctionName>,
        Error: From<F::Error> + From<R::Error>,
    {
        let (function, reducer) = (function.try_into()?, reducer.try_into()?);
        let submit = Submit::reduce_background(function, workload, reducer, options)?;
        self.call_with(&submit, options.idempotent)$(.$await)?
    }

    /// The status of a job (`GET_STATUS`). A handle that names its server is looked up there; any other is looked up on
    /// each server until one knows it.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for text that is not a handle, and for a handle of a server that this client does not have; a
    /// connection failure.
    $(#[doc = $cancel])?
    pub $($async)? fn status<H>(&$($mut)? self, handle: H) -> Result<JobStatus>
    where
        H: TryInto<JobHandle>,
        Error: From<H::Error>,
    {
        self.ask_each(&GetStatus(handle.try_into()?), Limit::never())$(.$await)?
    }

    /// The status of a job with this unique id (`GET_STATUS_UNIQUE`), whatever its function. The servers are asked in
    /// turn until one knows it.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for an invalid id; a connection failure.
    $(#[doc = $cancel])?
    pub $($async)? fn status_unique<U>(&$($mut)? self, unique: U) -> Result<JobStatus>
    where
        U: TryInto<UniqueId>,
        Error: From<U::Error>,
    {
        self.ask_each(&GetStatusUnique(unique.try_into()?), Limit::never())$(.$await)?
    }

    /// Sends bytes and receives them back (`ECHO_REQ`), which shows that the server is alive and has read everything
    /// sent before.
    ///
    /// # Errors
    ///
    /// A connection failure.
    $(#[doc = $cancel])?
    pub $($async)? fn echo(&$($mut)? self, data: impl AsRef<[u8]>) -> Result<Bytes> {
        self.call(&Echo(data))$(.$await)?
    }

    /// The state of the connection to each server.
    pub fn connection_states(&self) -> impl ExactSizeIterator<Item = ConnectionState> {
        self.$($inner.)?links.iter().map(|link| link.connection_state())
    }

    /// The addresses of the servers, in order.
    pub fn addresses(&self) -> impl ExactSizeIterator<Item = &Address> {
        self.$($inner.)?router.addresses()
    }

    /// The number of the current connection to each server.
    pub fn epochs(&self) -> impl ExactSizeIterator<Item = Epoch> {
        self.$($inner.)?links.iter().map(|link| link.epoch())
    }
}

impl std::fmt::Debug for $client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client")
            .field("servers", &self.addresses().map(ToString::to_string).collect::<Vec<_>>())
            .field("connected", &self.is_connected())
            .finish_non_exhaustive()
    }
}
    };
}

#[cfg(feature = "tokio")]
requests!(
    crate::Client, crate::Job, [],
    inner async await "\n# Cancel safety\n\nAs for the [client](Self#cancel-safety)."
);
#[cfg(feature = "blocking")]
requests!(crate::blocking::Client, crate::blocking::Job<'_>, [mut]);
