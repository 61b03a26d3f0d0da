//! The blocking worker.

mod by_hand;

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use queue_core::{Haste, Registered, Stop, sync::thread};

use super::{
    Client,
    held::{DroppedJobs, JobContext},
    lane::LanePump,
    serve::{Handlers, WorkerPool},
};
use crate::{
    Error, Failure, FunctionName, IntoOutcome, Result, WorkerHandle, WorkerOptions, WorkerReport,
    protocol::{GetStatus, PacketType, client::route::no_server},
    servers::no_answer,
};

/// A worker for one or more Gearman servers.
///
/// Functions are [registered](Self::register) with a handler and served by [`run`](Self::run), or announced with
/// [`can_do`](Self::can_do) and taken manually with [`next_job`](Self::next_job). It reconnects to lost servers, and
/// registers all functions again.
///
/// **Lost jobs.** When a connection is lost, the server gives its jobs to other workers, or to this one again.
/// [`JobContext::is_lost`] tells a running handler, and its outcome is not sent. Until such a handler ends, it keeps
/// its slot, and this worker starts no other run of the same job from that server.
///
/// **Threads.** An attempt to connect has its own thread, which ends with it, so that a server that takes no
/// connection holds up no other. There are no others before [`run`](Self::run), and none of them outlives it. It has
/// one for each connection (the caller's if there is only one), which also runs handlers: all of them with
/// [`slots`](WorkerOptions::slots) of 1 or with [`batch_results`](WorkerOptions::batch_results), otherwise those that
/// have proved quick. The others run in their own threads, one per slot, and their results go out within 16 ms.
pub struct Worker {
    lanes: Vec<LanePump>,
    handlers: Handlers,
    /// The lane to check first.
    turn: usize,
    options: WorkerOptions,
    stop: Arc<Stop>,
    dropped: DroppedJobs,
}

impl Worker {
    /// Creates a worker, and [checks](Self::check) that a server answers. Otherwise as [`new`](Self::new).
    ///
    /// # Errors
    ///
    /// As [`check`](Self::check) and [`new`](Self::new).
    pub fn connect<O>(options: O) -> Result<Self>
    where
        O: TryInto<WorkerOptions>,
        Error: From<O::Error>,
    {
        let worker = Self::new(options)?;
        worker.check()?;
        Ok(worker)
    }

    /// Asks whether jobs can be had now: makes one round trip to each server in turn until one answers, over a
    /// connection of its own that it closes again. For a worker that is not to start without a server.
    ///
    /// # Errors
    ///
    /// When no server answers, an error of the kind of the last that names every server and why: `Connect`, `Timeout`,
    /// `Tls`, `ConnectionLost`, or `Protocol` when something else answers.
    pub fn check(&self) -> Result<()> {
        let mut failures = Vec::new();
        for server in self.options.servers.options() {
            match Client::new(server.asked_once())?.call(&GetStatus::of_no_job()?) {
                Ok(_) => return Ok(()),
                Err(error) => failures.push(error),
            }
        }
        Err(no_answer(failures))
    }

    /// Creates a worker for these servers: `"127.0.0.1:4730"`, `"one:4730,two:4730"`, [`Servers`](crate::Servers) or
    /// [`WorkerOptions`]. It connects when it is run or asked for a job, and keeps trying: for a service that may start
    /// before its servers.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for an invalid address, `Tls` for unusable TLS options.
    pub fn new<O>(options: O) -> Result<Self>
    where
        O: TryInto<WorkerOptions>,
        Error: From<O::Error>,
    {
        let options = options.try_into()?;
        options.servers.check()?;
        let lanes = options.lanes();
        let lanes = lanes.map(|(server, share)| LanePump::new(server, share, &options)).collect();
        Ok(Worker {
            lanes,
            handlers: Handlers::default(),
            turn: 0,
            options,
            stop: Arc::new(Stop::new(0)),
            dropped: DroppedJobs::default(),
        })
    }

    /// Serves a function: `handler` runs its jobs. gearmand gives out those of the function that was registered first
    /// before those of the others. The return value of the handler is the result. A [`Failure`] fails the job, with or
    /// without an exception. A panic fails it without one: its message goes only to [`WorkerOptions::on_event`],
    /// because it may contain what submitters must not see.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for an invalid name.
    pub fn register<F, H, R>(&mut self, function: F, handler: H) -> Result<()>
    where
        F: TryInto<FunctionName>,
        Error: From<F::Error>,
        H: Fn(&mut JobContext<'_>) -> R + Send + Sync + 'static,
        R: IntoOutcome,
    {
        self.add(function.try_into()?, None, handler);
        Ok(())
    }

    /// Serves a function whose jobs the server gives to other workers when they take longer than `timeout`, in whole
    /// milliseconds (rounded up; the server raises less than 1 s to 1 s).
    ///
    /// The server notifies no one. The worker tracks the time, and [`wait_lost`](JobContext::wait_lost) notifies a
    /// handler when it expires; no other run of the job starts in this worker until that handler has ended. Servers up
    /// to 1.1 keep one timer per connection, which can miss the job or hit the wrong one, so the result is sent in any
    /// case. Prefer a timeout at the submitter.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for an invalid name.
    pub fn register_with_timeout<F, H, R>(
        &mut self,
        function: F,
        timeout: Duration,
        handler: H,
    ) -> Result<()>
    where
        F: TryInto<FunctionName>,
        Error: From<F::Error>,
        H: Fn(&mut JobContext<'_>) -> R + Send + Sync + 'static,
        R: IntoOutcome,
    {
        self.add(function.try_into()?, Some(timeout), handler);
        Ok(())
    }

    /// Serves a function with a handler that has its own error type: `classify` maps an error to a failure.
    /// An error that implements `Display` needs none: it is an
    /// exception.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for an invalid name.
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
        R: IntoOutcome,
        C: Fn(E) -> Failure + Send + Sync + 'static,
    {
        self.register(function, move |job| handler(job).map_err(&classify))
    }

    fn add<H, R>(&mut self, function: FunctionName, timeout: Option<Duration>, handler: H)
    where
        H: Fn(&mut JobContext<'_>) -> R + Send + Sync + 'static,
        R: IntoOutcome,
    {
        self.announce(&function, timeout);
        let handler = move |job: &mut JobContext<'_>| -> std::result::Result<Bytes, Failure> {
            handler(job).into_outcome()
        };
        self.handlers.insert(function, Registered::new(Box::new(handler)));
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

    fn announce(&mut self, function: &FunctionName, timeout: Option<Duration>) {
        for lane in &mut self.lanes {
            lane.can_do(function, timeout);
        }
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
        for lane in &mut self.lanes {
            lane.cant_do(&function)?;
        }
        self.handlers.remove(&function);
        Ok(())
    }

    /// Withdraws all functions (`RESET_ABILITIES`). Jobs that were already requested may still arrive.
    ///
    /// # Errors
    ///
    /// `InvalidInput` while jobs are running, because the server would give them to other workers.
    pub fn reset_abilities(&mut self) -> Result<()> {
        self.refuse_while_running(PacketType::ResetAbilities)?;
        for lane in &mut self.lanes {
            lane.reset_abilities()?;
        }
        self.handlers.clear();
        Ok(())
    }

    /// Asks all servers before any of them is told.
    fn refuse_while_running(&self, command: PacketType) -> Result<()> {
        self.lanes.iter().try_for_each(|lane| lane.refuse_while_running(command))
    }

    /// Runs handlers until [`WorkerHandle::stop`] is called, the last job of the [limit](WorkerOptions::limit) has
    /// arrived, or there are no jobs ([`until_empty`](WorkerOptions::until_empty)), then finishes and returns the
    /// report. Jobs of functions without a handler fail.
    ///
    /// # Errors
    ///
    /// Currently none: lost servers are retried.
    pub fn run(mut self) -> Result<WorkerReport> {
        self.fail_dropped();
        Ok(self.serve())
    }

    fn serve(&mut self) -> WorkerReport {
        let handle = self.handle();
        let Worker { lanes, handlers, options, stop, .. } = self;
        let pool = WorkerPool { handlers, options, stop };
        if let [lane] = &mut lanes[..] {
            pool.serve(lane);
            return handle.report();
        }
        thread::scope(|scope| {
            let serve = |lane| scope.spawn(move || pool.serve(lane));
            let threads: Vec<_> = lanes.iter_mut().map(serve).collect();
            for thread in threads {
                thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            }
        });
        handle.report()
    }

    /// A handle to observe the worker and to end a [`run`](Self::run) from another thread or a signal handler. For jobs
    /// that are taken manually, its stop ends the requests for further ones.
    #[must_use]
    pub fn handle(&self) -> WorkerHandle {
        let gauges = self.lanes.iter().map(|lane| &lane.shared_lane().gauge);
        WorkerHandle::new(gauges, &self.options.servers, &self.stop)
    }

    /// Waits until every server has read everything sent so far, and all results are accounted for. It first connects
    /// to servers that were never tried; unreachable ones were sent nothing, and are skipped.
    ///
    /// # Errors
    ///
    /// If a connection is lost during the wait, or was lost with unconfirmed results since the last barrier; these
    /// count as unknown. Also if there is no connection at all.
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

    /// Stops: requests no further job, makes sure that the server accepted the results, and closes the connections.
    /// Held jobs go back to the server.
    #[must_use]
    pub fn stop(mut self) -> WorkerReport {
        self.stop.ask(Haste::Gently);
        self.fail_dropped();
        self.lanes.iter_mut().for_each(LanePump::leave_held);
        self.serve()
    }

    /// The number of servers with a good connection.
    #[must_use]
    pub fn connected(&self) -> usize {
        self.lanes.iter().filter(|lane| lane.is_connected()).count()
    }

    fn is_ending(&self) -> bool {
        let Worker { handlers, options, stop, .. } = self;
        WorkerPool { handlers, options, stop }.is_ending()
    }

    /// Requests no further job if the worker is stopping.
    fn heed_stop(&mut self) {
        if self.stop.asked().is_some() {
            self.lanes.iter().for_each(LanePump::wind_down);
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
