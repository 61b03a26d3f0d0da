//! What both workers share: the check of the servers, the functions that are announced and withdrawn, and barriers.

use std::time::Duration;

use crate::{
    Error, FunctionName, Result, WorkerOptions,
    protocol::{GetStatus, PacketType, client::route::no_server},
    servers::no_answer,
};

/// The methods of a worker, with the field that has its handlers; those of the async one are `async`, and say what
/// happens if their future is dropped.
macro_rules! workers {
    (
        $worker:ty, $client:ty, $handlers:ident
        $(, $async:ident $await:ident $cancel:literal $cancel_barrier:literal)?
    ) => {
impl $worker {
    /// Creates a worker, and [checks](Self::check) that a server answers. Otherwise as [`new`](Self::new).
    ///
    /// # Errors
    ///
    /// As [`check`](Self::check) and [`new`](Self::new).
    $(#[doc = $cancel])?
    pub $($async)? fn connect<O>(options: O) -> Result<Self>
    where
        O: TryInto<WorkerOptions>,
        Error: From<O::Error>,
    {
        let worker = Self::new(options)?;
        worker.check()$(.$await)??;
        Ok(worker)
    }

    /// Asks whether jobs can be had now: makes one round trip to each server in turn until one answers, over a connection
    /// of its own that it closes again. For a worker that is not to start without a server.
    ///
    /// # Errors
    ///
    /// When no server answers, an error of the kind of the last that names every server and why: `Connect`, `Timeout`,
    /// `Tls`, `ConnectionLost`, or `Protocol` when something else answers.
    $(#[doc = $cancel])?
    pub $($async)? fn check(&self) -> Result<()> {
        let mut failures = Vec::new();
        for server in self.options.servers.options() {
            match <$client>::new(server.asked_once())?.call(&GetStatus::of_no_job()?)$(.$await)? {
                Ok(_) => return Ok(()),
                Err(error) => failures.push(error),
            }
        }
        Err(no_answer(failures))
    }

    /// Announces a function whose jobs are taken with [`next_job`](Self::next_job) (`CAN_DO`, `CAN_DO_TIMEOUT`). If it
    /// is announced already, another timeout counts from the next connection on. The server learns of it with the first
    /// request for a job, or the first [barrier](Self::echo_barrier).
    ///
    /// # Errors
    ///
    /// `InvalidInput` for an invalid name.
    pub fn can_do<F>(&mut self, function: F, timeout: Option<Duration>) -> Result<()>
    where
        F: TryInto<FunctionName>,
        Error: From<F::Error>,
    {
        self.announce(&function.try_into()?, timeout);
        Ok(())
    }

    /// Withdraws a function (`CANT_DO`). A job of it that was already requested may still arrive.
    ///
    /// # Errors
    ///
    /// `InvalidInput` while jobs are running, because the server would give them to other workers.
    pub fn cant_do<F>(&mut self, function: F) -> Result<()>
    where
        F: TryInto<FunctionName>,
        Error: From<F::Error>,
    {
        let function = function.try_into()?;
        self.refuse_while_running(PacketType::CantDo)?;
        self.lanes.iter_mut().try_for_each(|lane| lane.cant_do(&function))?;
        self.$handlers.remove(&function);
        Ok(())
    }

    /// Withdraws all functions (`RESET_ABILITIES`). Jobs that were already requested may still arrive.
    ///
    /// # Errors
    ///
    /// `InvalidInput` while jobs are running, because the server would give them to other workers.
    pub fn reset_abilities(&mut self) -> Result<()> {
        self.refuse_while_running(PacketType::ResetAbilities)?;
        self.lanes.iter_mut().try_for_each(|lane| lane.reset_abilities())?;
        self.$handlers.clear();
        Ok(())
    }

    /// Asks all servers before any of them is told.
    fn refuse_while_running(&self, command: PacketType) -> Result<()> {
        self.lanes.iter().try_for_each(|lane| lane.refuse_while_running(command))
    }

    /// Waits until every server has read everything sent so far, and all results are accounted for. It first connects
    /// to servers that were never tried; unreachable ones were sent nothing, and are skipped.
    ///
    /// # Errors
    ///
    /// If a connection is lost during the wait, or was lost with unconfirmed results since the last barrier; these
    /// count as unknown. Also if there is no connection at all.
    $(#[doc = $cancel_barrier])?
    pub $($async)? fn echo_barrier(&mut self) -> Result<()> {
        let mut outcome = Err(no_server());
        for lane in &mut self.lanes {
            lane.check_losses()?;
            let tried = lane.connect()$(.$await)?;
            if tried.is_ok() {
                lane.barrier()$(.$await)??;
            }
            if outcome.is_err() {
                outcome = tried;
            }
        }
        outcome
    }

    /// The number of good connections.
    #[must_use]
    pub fn connected(&self) -> usize {
        self.lanes.iter().filter(|lane| lane.is_connected()).count()
    }
}

impl std::fmt::Debug for $worker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let servers: Vec<_> = self.lanes.iter().map(|lane| lane.address.to_string()).collect();
        f.debug_struct("Worker")
            .field("servers", &servers)
            .field("connected", &self.connected())
            .finish_non_exhaustive()
    }
}
    };
}

#[cfg(feature = "tokio")]
workers!(
    crate::Worker, crate::Client, dispatch,
    async await
    "\n# Cancel safety\n\nDropping it closes the connection."
    "\n# Cancel safety\n\nDropping it does no harm."
);
#[cfg(feature = "blocking")]
workers!(crate::blocking::Worker, crate::blocking::Client, handlers);
