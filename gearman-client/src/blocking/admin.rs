//! The blocking admin client: the text protocol on a connection of its own.

use std::{io, thread, time::Duration};

use queue_core::blocking::Transport;

use crate::{
    Address, ConnectOptions, Error, Fate, FunctionName, FunctionPriorities, FunctionStatus,
    JobHandle, JobInfo, Listing, Result, UniqueJob, WorkerInfo,
    deadline::Limit,
    error::{closed, lost},
    protocol::client::route::{LEAST_WAIT, may_repeat},
    protocol::{AdminCommand, AdminReply, Backoff, MaxQueue, TextDecoder},
};

/// The administration of one Gearman server.
///
/// When the connection is lost, the call that notices fails and says what became of its command ([`Error::fate`]); the
/// next call connects again.
pub struct Admin {
    options: ConnectOptions,
    transport: Option<Transport>,
    decoder: TextDecoder,
    backoff: Backoff,
    unproven: bool,
}

impl Admin {
    /// Connects to a server.
    ///
    /// # Errors
    ///
    /// `Connect`, `Timeout(Connect)` or `Tls`; `InvalidInput` for a wrong address.
    pub fn connect<O>(options: O) -> Result<Self>
    where
        O: TryInto<ConnectOptions>,
        Error: From<O::Error>,
    {
        let options = options.try_into()?;
        let transport = options.connect_blocking(options.connecting_limit())?;
        Ok(Admin {
            transport: Some(transport),
            decoder: TextDecoder::new(options.max_packet_size),
            backoff: options.retry.delays(),
            unproven: true,
            options,
        })
    }

    /// The server's address.
    #[must_use]
    pub fn address(&self) -> &Address {
        &self.options.address
    }

    /// Changes the bound for whole calls from the next one on; see [`ConnectOptions::total_timeout`].
    pub fn set_total_timeout(&mut self, timeout: Option<Duration>) {
        self.options.total_timeout = timeout;
    }

    /// Sends any command and waits for its reply.
    ///
    /// # Errors
    ///
    /// What the server refused, and any failure of the connection; see [`Error::fate`].
    pub fn call(&mut self, command: &AdminCommand) -> Result<AdminReply> {
        let total = self.options.total_limit();
        let mut attempts = self.options.retry.attempts();
        loop {
            let outcome = self.exchange(command, total);
            match outcome {
                Err(error) if may_repeat(&error, false) && attempts > 0 && !total.has_passed() => {
                    attempts -= 1;
                    self.back_off(total);
                }
                other => return other.map_err(|error| error.with_command(command.name())),
            }
        }
    }

    fn exchange(&mut self, command: &AdminCommand, total: Limit) -> Result<AdminReply> {
        let mut out = bytes::BytesMut::new();
        command.encode(&mut out)?;
        self.make_ready(total)?;
        let outcome = self.write(&out, total).and_then(|()| self.read(command, total));
        match &outcome {
            Ok(_) => self.prove(),
            Err(error) if error.fate() == Fate::Refused => self.prove(),
            Err(_) => self.transport = None,
        }
        outcome
    }

    fn make_ready(&mut self, total: Limit) -> Result<()> {
        // Nothing comes unasked, so anything that came means that the connection is out of step, or gone.
        let is_stale = !self.decoder.is_at_boundary()
            || self.transport.as_mut().is_none_or(Transport::is_stale);
        if is_stale {
            self.transport = None;
            self.transport =
                Some(self.options.connect_blocking(self.options.connect_limit(total))?);
            self.decoder = TextDecoder::new(self.options.max_packet_size);
            self.unproven = true;
        }
        Ok(())
    }

    fn write(&mut self, mut bytes: &[u8], total: Limit) -> Result<()> {
        let limit = self.options.write_limit(total);
        let Some(transport) = &mut self.transport else { return Err(lost(closed())) };
        while !bytes.is_empty() {
            if limit.has_passed() {
                return Err(limit.error());
            }
            match transport.write(bytes, limit).map_err(|e| lost(e).with_fate(Fate::NotSent))? {
                Some(n) => bytes = bytes.get(n..).unwrap_or_default(),
                None => return Err(limit.error()),
            }
        }
        if transport.flush(limit).map_err(lost)? {
            Ok(())
        } else {
            Err(limit.error().with_fate(Fate::Unknown))
        }
    }

    fn read(&mut self, command: &AdminCommand, total: Limit) -> Result<AdminReply> {
        let limit = self.options.reply_limit(total);
        let Some(transport) = &mut self.transport else { return Err(lost(closed())) };
        loop {
            if let Some(reply) = self.decoder.reply(command.shape())? {
                return Ok(reply);
            }
            // Also when a little comes all the time.
            if limit.has_passed() {
                return Err(limit.error().with_fate(Fate::Unknown));
            }
            match transport.read(self.decoder.space(), limit).map_err(lost)? {
                // Some servers just go.
                Some(0) if matches!(command, AdminCommand::Shutdown { .. }) => {
                    self.transport = None;
                    return Ok(AdminReply::Line("OK".into()));
                }
                Some(0) => return Err(lost(io::ErrorKind::UnexpectedEof.into())),
                Some(n) => self.decoder.received(n),
                None => return Err(limit.error().with_fate(Fate::Unknown)),
            }
        }
    }

    /// A complete exchange: the server is alive, so the next reconnect need not back off.
    fn prove(&mut self) {
        if self.unproven {
            self.unproven = false;
            self.backoff.reset();
        }
    }

    fn back_off(&mut self, total: Limit) {
        if self.unproven {
            let delay = self.backoff.next_delay().max(LEAST_WAIT);
            thread::sleep(total.remaining().map_or(delay, |left| left.min(delay)));
        }
    }
}

impl Admin {
    /// Every connection of the server, with what it can do (`workers`).
    ///
    /// # Errors
    ///
    /// A failure of the connection.
    pub fn workers(&mut self) -> Result<Listing<WorkerInfo>> {
        Listing::parse(self.call(&AdminCommand::Workers)?)
    }

    /// Every function, with its counts (`status`), in no order.
    ///
    /// # Errors
    ///
    /// A failure of the connection.
    pub fn status(&mut self) -> Result<Listing<FunctionStatus>> {
        Listing::parse(self.call(&AdminCommand::Status)?)
    }

    /// Every function, with what is queued by priority (`prioritystatus`), from server 1.1.15 on.
    ///
    /// # Errors
    ///
    /// `Unsupported`; a failure of the connection.
    pub fn prioritystatus(&mut self) -> Result<Listing<FunctionPriorities>> {
        Listing::parse(self.call(&AdminCommand::PriorityStatus)?)
    }

    /// Every job (`show jobs`). Their functions are not told.
    ///
    /// # Errors
    ///
    /// `Unsupported` by other servers than gearmand; a failure of the connection.
    pub fn show_jobs(&mut self) -> Result<Listing<JobInfo>> {
        Listing::parse(self.call(&AdminCommand::ShowJobs)?)
    }

    /// The unique id of every job (`show unique jobs`).
    ///
    /// # Errors
    ///
    /// `Unsupported` by other servers than gearmand; a failure of the connection.
    pub fn show_unique_jobs(&mut self) -> Result<Listing<UniqueJob>> {
        Listing::parse(self.call(&AdminCommand::ShowUniqueJobs)?)
    }

    /// Takes a queued job away (`cancel job`): its submitters are told that it failed. A running job is not stopped.
    ///
    /// # Errors
    ///
    /// `JobNotFound`; `InvalidInput` for text that is no handle; a failure of the connection.
    pub fn cancel_job<H>(&mut self, handle: H) -> Result<()>
    where
        H: TryInto<JobHandle>,
        Error: From<H::Error>,
    {
        self.call(&AdminCommand::CancelJob(handle.try_into()?))?.ok()
    }

    /// Makes a function known that no worker and no job has named (`create function`).
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a name that cannot stand in a command; a failure of the connection.
    pub fn create_function<F>(&mut self, function: F) -> Result<()>
    where
        F: TryInto<FunctionName>,
        Error: From<F::Error>,
    {
        self.call(&AdminCommand::CreateFunction(function.try_into()?))?.ok()
    }

    /// Forgets a function (`drop function`). Its queued jobs are leaked: they never run.
    ///
    /// # Errors
    ///
    /// `FunctionNotFound`; `FunctionInUse` while there are workers or running jobs; a failure of the connection.
    pub fn drop_function<F>(&mut self, function: F) -> Result<()>
    where
        F: TryInto<FunctionName>,
        Error: From<F::Error>,
    {
        self.call(&AdminCommand::DropFunction(function.try_into()?))?.ok()
    }

    /// Limits a function's queue (`maxqueue`), running jobs included. The server accepts it for a function that it does
    /// not know, and does nothing then.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a name that cannot stand in a command; a failure of the connection.
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
    /// `Unsupported`; a failure of the connection.
    pub fn getpid(&mut self) -> Result<u64> {
        self.call(&AdminCommand::GetPid)?.number()
    }

    /// The server's log level (`verbose`), such as `ERROR`.
    ///
    /// # Errors
    ///
    /// `Unsupported`; a failure of the connection.
    pub fn verbose(&mut self) -> Result<String> {
        self.call(&AdminCommand::Verbose)?.value()
    }

    /// The server's version (`version`): `1.1.20` from gearmand, `v1.130.1` from the Perl server.
    ///
    /// # Errors
    ///
    /// A failure of the connection; Python's `gear` server leaves it unanswered.
    pub fn version(&mut self) -> Result<String> {
        self.call(&AdminCommand::Version)?.value()
    }

    /// Ends the server (`shutdown`, `shutdown graceful`). gearmand has not had the command since 1.1.14.
    ///
    /// # Errors
    ///
    /// `Unsupported`; a failure of the connection.
    pub fn shutdown(&mut self, graceful: bool) -> Result<()> {
        self.call(&AdminCommand::Shutdown { graceful })?.ok()
    }
}

impl std::fmt::Debug for Admin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Admin")
            .field("address", &self.options.address)
            .field("connected", &self.transport.is_some())
            .finish_non_exhaustive()
    }
}
