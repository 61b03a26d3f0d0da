//! The async admin client: the text protocol on a connection of its own.

use std::{future::poll_fn, io, pin::Pin, task::Poll, time::Duration};

use bytes::BytesMut;
use queue_core::{Stream, within};
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf},
    time::sleep,
};

use crate::{
    Address, ConnectOptions, Error, Fate, FunctionName, FunctionPriorities, FunctionStatus,
    JobHandle, JobInfo, Listing, MaxQueue, Result, UniqueJob, WorkerInfo,
    deadline::Limit,
    error::lost,
    protocol::client::route::{LEAST_WAIT, may_repeat},
    protocol::{AdminCommand, AdminReply, Backoff, TextDecoder},
};

/// The administration of one Gearman server.
///
/// When the connection is lost, the call that notices fails and says what became of its command ([`Error::fate`]); the
/// next call connects again.
///
/// # Cancel safety
///
/// Every call may be dropped at any await point. One that was never polled has sent nothing. After that the command may
/// or may not be carried out; the connection is closed, and the next call connects again.
pub struct Admin {
    options: ConnectOptions,
    stream: Option<Box<dyn Stream>>,
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
    ///
    /// # Cancel safety
    ///
    /// Dropping closes the half-made connection.
    pub async fn connect<O>(options: O) -> Result<Self>
    where
        O: TryInto<ConnectOptions>,
        Error: From<O::Error>,
    {
        let options = options.try_into()?;
        let stream = options.connect(options.connecting_limit()).await?;
        Ok(Admin {
            stream: Some(stream),
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
    ///
    /// # Cancel safety
    ///
    /// As for the [admin client](Self#cancel-safety).
    pub async fn call(&mut self, command: &AdminCommand) -> Result<AdminReply> {
        let total = self.options.total_limit();
        let mut attempts = self.options.retry.attempts();
        loop {
            match self.exchange(command, total).await {
                Err(error) if may_repeat(&error, false) && attempts > 0 && !total.has_passed() => {
                    attempts -= 1;
                    self.back_off(total).await;
                }
                other => return other.map_err(|error| error.with_command(command.name())),
            }
        }
    }

    async fn exchange(&mut self, command: &AdminCommand, total: Limit) -> Result<AdminReply> {
        let mut out = BytesMut::new();
        command.encode(&mut out)?;
        // Out of `self` while it is used: a dropped call leaves no connection that is out of step.
        let mut stream = self.ready_stream(total).await?;
        let outcome = match self.write(&mut stream, &out, total).await {
            Ok(()) => self.read(&mut stream, command, total).await,
            Err(error) => Err(error),
        };
        let is_answered = match &outcome {
            Ok(_) => true,
            Err(error) => error.fate() == Fate::Refused,
        };
        if is_answered {
            self.stream = Some(stream);
            self.prove();
        }
        outcome
    }

    async fn ready_stream(&mut self, total: Limit) -> Result<Box<dyn Stream>> {
        // Nothing comes unasked, so anything that came means that the connection is out of step, or gone.
        if let Some(mut stream) = self.stream.take()
            && self.decoder.is_at_boundary()
            && is_quiet(&mut stream).await
        {
            return Ok(stream);
        }
        self.unproven = true;
        let stream = self.options.connect(self.options.connect_limit(total)).await?;
        self.decoder = TextDecoder::new(self.options.max_packet_size);
        Ok(stream)
    }

    async fn write(&self, stream: &mut Box<dyn Stream>, bytes: &[u8], total: Limit) -> Result<()> {
        let limit = self.options.write_limit(total);
        let mut left = bytes;
        let written = async {
            while !left.is_empty() {
                let n = poll_fn(|cx| Pin::new(&mut *stream).poll_write(cx, left)).await?;
                if n == 0 {
                    return Err(io::ErrorKind::WriteZero.into());
                }
                left = left.get(n..).unwrap_or_default();
            }
            stream.flush().await
        };
        let outcome = within(limit, written).await;
        let outcome = outcome.and_then(|written| written.map_err(lost));
        let fate = if left.is_empty() { Fate::Unknown } else { Fate::NotSent };
        outcome.map_err(|error| error.with_fate(fate))
    }

    async fn read(
        &mut self,
        stream: &mut Box<dyn Stream>,
        command: &AdminCommand,
        total: Limit,
    ) -> Result<AdminReply> {
        let limit = self.options.reply_limit(total);
        loop {
            if let Some(reply) = self.decoder.reply(command.shape())? {
                return Ok(reply);
            }
            // Also when a little comes all the time.
            if limit.has_passed() {
                return Err(limit.error().with_fate(Fate::Unknown));
            }
            let step = poll_fn(|cx| {
                let mut space = ReadBuf::new(self.decoder.space());
                Pin::new(&mut *stream)
                    .poll_read(cx, &mut space)
                    .map(|outcome| outcome.map(|()| space.filled().len()))
            });
            let read = within(limit, step).await.map_err(|error| error.with_fate(Fate::Unknown))?;
            match read.map_err(lost)? {
                // Some servers just go.
                0 if matches!(command, AdminCommand::Shutdown { .. }) => {
                    return Ok(AdminReply::Line("OK".into()));
                }
                0 => return Err(lost(io::ErrorKind::UnexpectedEof.into())),
                n => self.decoder.received(n),
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

    async fn back_off(&mut self, total: Limit) {
        if self.unproven {
            let delay = self.backoff.next_delay().max(LEAST_WAIT);
            sleep(total.remaining().map_or(delay, |left| left.min(delay))).await;
        }
    }
}

/// Whether nothing came, and the server has not closed. It does not wait.
async fn is_quiet(stream: &mut Box<dyn Stream>) -> bool {
    let mut byte = [0];
    let mut space = ReadBuf::new(&mut byte);
    poll_fn(|cx| Poll::Ready(Pin::new(&mut *stream).poll_read(cx, &mut space).is_pending())).await
}

impl Admin {
    /// Every connection of the server, with what it can do (`workers`).
    ///
    /// # Errors
    ///
    /// A failure of the connection.
    ///
    /// # Cancel safety
    ///
    /// As for the [admin client](Self#cancel-safety).
    pub async fn workers(&mut self) -> Result<Listing<WorkerInfo>> {
        Listing::parse(self.call(&AdminCommand::Workers).await?)
    }

    /// Every function, with its counts (`status`), in no order.
    ///
    /// # Errors
    ///
    /// A failure of the connection.
    ///
    /// # Cancel safety
    ///
    /// As for the [admin client](Self#cancel-safety).
    pub async fn status(&mut self) -> Result<Listing<FunctionStatus>> {
        Listing::parse(self.call(&AdminCommand::Status).await?)
    }

    /// Every function, with what is queued by priority (`prioritystatus`), from server 1.1.15 on.
    ///
    /// # Errors
    ///
    /// `Unsupported`; a failure of the connection.
    ///
    /// # Cancel safety
    ///
    /// As for the [admin client](Self#cancel-safety).
    pub async fn prioritystatus(&mut self) -> Result<Listing<FunctionPriorities>> {
        Listing::parse(self.call(&AdminCommand::PriorityStatus).await?)
    }

    /// Every job (`show jobs`). Their functions are not told.
    ///
    /// # Errors
    ///
    /// `Unsupported` by other servers than gearmand; a failure of the connection.
    ///
    /// # Cancel safety
    ///
    /// As for the [admin client](Self#cancel-safety).
    pub async fn show_jobs(&mut self) -> Result<Listing<JobInfo>> {
        Listing::parse(self.call(&AdminCommand::ShowJobs).await?)
    }

    /// The unique id of every job (`show unique jobs`).
    ///
    /// # Errors
    ///
    /// `Unsupported` by other servers than gearmand; a failure of the connection.
    ///
    /// # Cancel safety
    ///
    /// As for the [admin client](Self#cancel-safety).
    pub async fn show_unique_jobs(&mut self) -> Result<Listing<UniqueJob>> {
        Listing::parse(self.call(&AdminCommand::ShowUniqueJobs).await?)
    }

    /// Takes a queued job away (`cancel job`): its submitters are told that it failed. A running job is not stopped.
    ///
    /// # Errors
    ///
    /// `JobNotFound`; `InvalidInput` for text that is no handle; a failure of the connection.
    ///
    /// # Cancel safety
    ///
    /// As for the [admin client](Self#cancel-safety).
    pub async fn cancel_job<H>(&mut self, handle: H) -> Result<()>
    where
        H: TryInto<JobHandle>,
        Error: From<H::Error>,
    {
        self.call(&AdminCommand::CancelJob(handle.try_into()?)).await?.ok()
    }

    /// Makes a function known that no worker and no job has named (`create function`).
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a name that cannot stand in a command; a failure of the connection.
    ///
    /// # Cancel safety
    ///
    /// As for the [admin client](Self#cancel-safety).
    pub async fn create_function<F>(&mut self, function: F) -> Result<()>
    where
        F: TryInto<FunctionName>,
        Error: From<F::Error>,
    {
        self.call(&AdminCommand::CreateFunction(function.try_into()?)).await?.ok()
    }

    /// Forgets a function (`drop function`). Its queued jobs are leaked: they never run.
    ///
    /// # Errors
    ///
    /// `FunctionNotFound`; `FunctionInUse` while there are workers or running jobs; a failure of the connection.
    ///
    /// # Cancel safety
    ///
    /// As for the [admin client](Self#cancel-safety).
    pub async fn drop_function<F>(&mut self, function: F) -> Result<()>
    where
        F: TryInto<FunctionName>,
        Error: From<F::Error>,
    {
        self.call(&AdminCommand::DropFunction(function.try_into()?)).await?.ok()
    }

    /// Limits a function's queue (`maxqueue`), running jobs included. The server accepts it for a function that it does
    /// not know, and does nothing then.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a name that cannot stand in a command; a failure of the connection.
    ///
    /// # Cancel safety
    ///
    /// As for the [admin client](Self#cancel-safety).
    pub async fn maxqueue<F>(&mut self, function: F, size: MaxQueue) -> Result<()>
    where
        F: TryInto<FunctionName>,
        Error: From<F::Error>,
    {
        self.call(&AdminCommand::MaxQueue(function.try_into()?, size)).await?.ok()
    }

    /// The server's process id (`getpid`).
    ///
    /// # Errors
    ///
    /// `Unsupported`; a failure of the connection.
    ///
    /// # Cancel safety
    ///
    /// As for the [admin client](Self#cancel-safety).
    pub async fn getpid(&mut self) -> Result<u64> {
        self.call(&AdminCommand::GetPid).await?.number()
    }

    /// The server's log level (`verbose`), such as `ERROR`.
    ///
    /// # Errors
    ///
    /// `Unsupported`; a failure of the connection.
    ///
    /// # Cancel safety
    ///
    /// As for the [admin client](Self#cancel-safety).
    pub async fn verbose(&mut self) -> Result<String> {
        self.call(&AdminCommand::Verbose).await?.value()
    }

    /// The server's version (`version`): `1.1.20` from gearmand, `v1.130.1` from the Perl server.
    ///
    /// # Errors
    ///
    /// A failure of the connection; Python's `gear` server leaves it unanswered.
    ///
    /// # Cancel safety
    ///
    /// As for the [admin client](Self#cancel-safety).
    pub async fn version(&mut self) -> Result<String> {
        self.call(&AdminCommand::Version).await?.value()
    }

    /// Ends the server (`shutdown`, `shutdown graceful`). gearmand has not had the command since 1.1.14.
    ///
    /// # Errors
    ///
    /// `Unsupported`; a failure of the connection.
    ///
    /// # Cancel safety
    ///
    /// As for the [admin client](Self#cancel-safety).
    pub async fn shutdown(&mut self, graceful: bool) -> Result<()> {
        self.call(&AdminCommand::Shutdown { graceful }).await?.ok()
    }
}

impl std::fmt::Debug for Admin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Admin")
            .field("address", &self.options.address)
            .field("connected", &self.stream.is_some())
            .finish_non_exhaustive()
    }
}
