//! The blocking worker.

mod by_hand;

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use queue_core::{Signal, sync::thread};

use super::{
    held::{Dropped, JobContext},
    lane::Lane,
    serve::{Handlers, Registered, Shop},
};
use crate::{
    Error, Failure, FunctionName, Result, WorkerHandle, WorkerOptions, WorkerReport,
    protocol::client::route::no_server,
};

/// A worker for one or more Gearman servers.
///
/// Functions are [registered](Self::register) with a handler and served by [`run`](Self::run), or announced with
/// [`can_do`](Self::can_do) and taken by hand with [`next_job`](Self::next_job). It connects again to a server that was
/// lost, with all functions registered anew.
///
/// **Lost jobs.** When a connection is lost, the server gives its jobs to other workers, or to this one again.
/// [`JobContext::is_lost`] tells a running handler, and its outcome is not sent. Until such a handler ends, it keeps
/// its slot, and this worker starts no other run of the same job from that server.
///
/// **Threads.** There are none before [`run`](Self::run), and none of them outlives it. It has one for each connection
/// (the caller's if there is only one), which also runs handlers: all of them with [`slots`](WorkerOptions::slots) of 1
/// or with [`batch_results`](WorkerOptions::batch_results), otherwise those that have proved quick. The others run in
/// their own threads, one per slot, and their results go out within 16 ms.
pub struct Worker {
    lanes: Vec<Lane>,
    handlers: Handlers,
    /// Whose turn it is to be looked at first.
    turn: usize,
    options: WorkerOptions,
    stop: Arc<Signal>,
    dropped: Dropped,
}

impl Worker {
    /// Connects to the servers: `"127.0.0.1:4730"`, `"one:4730,two:4730"`, [`Servers`](crate::Servers) or
    /// [`WorkerOptions`]. Each is tried once, one after the other. One that can be reached is enough; the others are tried
    /// again later.
    ///
    /// # Errors
    ///
    /// When no server can be reached, the error of the last: `Connect`, `Timeout(Connect)` or `Tls`. `InvalidInput` for
    /// a wrong address.
    pub fn connect<O>(options: O) -> Result<Self>
    where
        O: TryInto<WorkerOptions>,
        Error: From<O::Error>,
    {
        let mut worker = Self::new(options)?;
        let mut last = None;
        for lane in &mut worker.lanes {
            last = lane.connect().err().or(last);
        }
        match worker.connected() {
            0 => Err(last.unwrap_or_else(no_server)),
            _ => Ok(worker),
        }
    }

    /// A worker that connects when it asks for jobs, and keeps trying: for a service that may start before its
    /// servers.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a wrong address, `Tls` for options that cannot be used.
    pub fn new<O>(options: O) -> Result<Self>
    where
        O: TryInto<WorkerOptions>,
        Error: From<O::Error>,
    {
        let options = options.try_into()?;
        options.servers.check()?;
        let lanes = options.lanes().map(|server| Lane::new(server, &options)).collect();
        Ok(Worker {
            lanes,
            handlers: Handlers::default(),
            turn: 0,
            options,
            stop: Arc::default(),
            dropped: Dropped::default(),
        })
    }

    /// Serves a function: `handler` runs its jobs. Its return value is the result. A [`Failure`] fails the job, with or
    /// without an exception. So does a panic, without one: its message goes only to [`WorkerOptions::on_event`],
    /// because it may contain what submitters must not see.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a name that is not valid.
    pub fn register<F, H, R>(&mut self, function: F, handler: H) -> Result<()>
    where
        F: TryInto<FunctionName>,
        Error: From<F::Error>,
        H: Fn(&mut JobContext<'_>) -> std::result::Result<R, Failure> + Send + Sync + 'static,
        R: Into<Bytes>,
    {
        self.add(function.try_into()?, None, handler);
        Ok(())
    }

    /// Serves a function whose jobs the server gives to others when they take longer than `timeout`, in whole
    /// milliseconds (rounded up; the server makes 1 s of less).
    ///
    /// The server notifies no one. The worker knows the time, and [`wait_lost`](JobContext::wait_lost) tells a handler
    /// when it expires; no other run of the job starts here before that handler has ended. Servers up to 1.1 keep the
    /// timer per connection, not per job, so it can miss the job or hit the wrong one, and the result is sent in any
    /// case: prefer a timeout at the submitter.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a name that is not valid.
    pub fn register_with_timeout<F, H, R>(
        &mut self,
        function: F,
        timeout: Duration,
        handler: H,
    ) -> Result<()>
    where
        F: TryInto<FunctionName>,
        Error: From<F::Error>,
        H: Fn(&mut JobContext<'_>) -> std::result::Result<R, Failure> + Send + Sync + 'static,
        R: Into<Bytes>,
    {
        self.add(function.try_into()?, Some(timeout), handler);
        Ok(())
    }

    /// Serves a function with a handler that has its own error type: `classify` maps an error to a failure.
    /// [`Failure::display`] makes it an exception, for any `Display` error.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a name that is not valid.
    pub fn register_classified<F, H, R, E, C>(
        &mut self,
        function: F,
        handler: H,
        classify: C,
    ) -> Result<()>
    where
        F: TryInto<FunctionName>,
        Error: From<F::Error>,
        H: Fn(&mut JobContext<'_>) -> std::result::Result<R, E> + Send + Sync + 'static,
        R: Into<Bytes>,
        C: Fn(E) -> Failure + Send + Sync + 'static,
    {
        self.register(function, move |job| handler(job).map_err(&classify))
    }

    fn add<H, R>(&mut self, function: FunctionName, timeout: Option<Duration>, handler: H)
    where
        H: Fn(&mut JobContext<'_>) -> std::result::Result<R, Failure> + Send + Sync + 'static,
        R: Into<Bytes>,
    {
        self.announce(&function, timeout);
        let handler = move |job: &mut JobContext<'_>| -> std::result::Result<Bytes, Failure> {
            handler(job).map(Into::into)
        };
        self.handlers.insert(function, Registered::new(Box::new(handler)));
    }

    /// Announces a function whose jobs are taken with [`next_job`](Self::next_job) (`CAN_DO`, `CAN_DO_TIMEOUT`).
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a name that is not valid.
    pub fn can_do<F>(&mut self, function: F, timeout: Option<Duration>) -> Result<()>
    where
        F: TryInto<FunctionName>,
        Error: From<F::Error>,
    {
        self.announce(&function.try_into()?, timeout);
        Ok(())
    }

    fn announce(&mut self, function: &FunctionName, timeout: Option<Duration>) {
        for lane in &mut self.lanes {
            lane.can_do(function, timeout);
        }
    }

    /// Takes a function back (`CANT_DO`).
    ///
    /// # Errors
    ///
    /// `InvalidInput` while jobs are running: the server would give them to others.
    pub fn cant_do<F>(&mut self, function: F) -> Result<()>
    where
        F: TryInto<FunctionName>,
        Error: From<F::Error>,
    {
        let function = function.try_into()?;
        for lane in &mut self.lanes {
            lane.cant_do(&function)?;
        }
        self.handlers.remove(&function);
        Ok(())
    }

    /// Takes all functions back (`RESET_ABILITIES`).
    ///
    /// # Errors
    ///
    /// `InvalidInput` while jobs are running: the server would give them to others.
    pub fn reset_abilities(&mut self) -> Result<()> {
        for lane in &mut self.lanes {
            lane.reset_abilities()?;
        }
        self.handlers.clear();
        Ok(())
    }

    /// Runs handlers until [`WorkerHandle::stop`] is called or the last job of the [limit](WorkerOptions::limit) has
    /// come, then finishes and gives the report. Jobs of functions
    /// without a handler are failed.
    ///
    /// # Errors
    ///
    /// None at present: lost servers are retried indefinitely.
    pub fn run(mut self) -> Result<WorkerReport> {
        self.fail_dropped();
        Ok(self.serve())
    }

    fn serve(&mut self) -> WorkerReport {
        let Worker { lanes, handlers, options, stop, .. } = self;
        let shop = Shop { handlers, options, stop };
        if let [lane] = &mut lanes[..] {
            return shop.serve(lane);
        }
        let mut total = WorkerReport::default();
        thread::scope(|scope| {
            let serve = |lane| scope.spawn(move || shop.serve(lane));
            let threads: Vec<_> = lanes.iter_mut().map(serve).collect();
            for thread in threads {
                let report = thread.join();
                total.merge(report.unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            }
        });
        total
    }

    /// A handle to observe the worker and to end a [`run`](Self::run) from another thread or a signal handler; between
    /// jobs that are taken manually, it ends the requests for further ones.
    #[must_use]
    pub fn handle(&self) -> WorkerHandle {
        WorkerHandle::new(self.lanes.iter().map(|lane| &lane.post().gauge), &self.stop)
    }

    /// Waits until every server has read everything sent so far, and all results in it are accounted for. A server that
    /// was never tried is connected to first; an unreachable one was sent nothing, and is left out.
    ///
    /// # Errors
    ///
    /// If a connection is lost in the meantime, or was lost since the last barrier with unconfirmed results, which are
    /// counted as unknown; and if there is no connection at all.
    pub fn echo_barrier(&mut self) -> Result<()> {
        let mut outcome = Err(no_server());
        for lane in &mut self.lanes {
            lane.check_losses()?;
            let tried = lane.connect();
            if tried.is_ok() {
                lane.barrier()?;
            }
            if outcome.is_err() {
                outcome = tried;
            }
        }
        outcome
    }

    /// Stops: asks for no further job, makes sure that the results were taken, and closes. Jobs that are still held go
    /// back to the server.
    #[must_use]
    pub fn stop(mut self) -> WorkerReport {
        self.stop.set();
        self.fail_dropped();
        self.lanes.iter_mut().for_each(Lane::leave_held);
        self.serve()
    }

    /// How many servers' connections are good.
    #[must_use]
    pub fn connected(&self) -> usize {
        self.lanes.iter().filter(|lane| lane.is_connected()).count()
    }

    /// Whether no further job is to be asked for.
    fn is_ending(&self) -> bool {
        let Worker { handlers, options, stop, .. } = self;
        Shop { handlers, options, stop }.is_ending()
    }

    /// Asks for no further job if the worker is to stop.
    fn heed_stop(&mut self) {
        if self.stop.is_set() {
            self.lanes.iter().for_each(Lane::stop);
        }
    }
}

impl std::fmt::Debug for Worker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Worker")
            .field(
                "servers",
                &self.lanes.iter().map(|lane| lane.address().to_string()).collect::<Vec<_>>(),
            )
            .field("connected", &self.connected())
            .finish_non_exhaustive()
    }
}
