//! The blocking worker.

mod by_hand;

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use queue_core::{Haste, Registered, Stop, sync::thread};

use super::{
    held::{DroppedJobs, JobContext},
    lane::LanePump,
    serve::{Handlers, WorkerPool},
};
use crate::{
    Error, Failure, FunctionName, IntoOutcome, Result, WorkerHandle, WorkerOptions, WorkerReport,
    protocol::worker::lane::Lane as Role,
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
    pub(crate) lanes: Vec<LanePump>,
    pub(crate) handlers: Handlers,
    /// The lane to check first.
    turn: usize,
    pub(crate) options: WorkerOptions,
    stop: Arc<Stop>,
    dropped: DroppedJobs,
}

impl Worker {
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

    pub(crate) fn announce(&mut self, function: &FunctionName, timeout: Option<Duration>) {
        self.lanes.iter_mut().for_each(|lane| lane.can_do(function, timeout));
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
        let gauges = self.lanes.iter().map(|lane| &lane.shared_lane.gauge);
        WorkerHandle::new(gauges, &self.options.servers, &self.stop)
    }

    /// Stops: requests no further job, makes sure that the server accepted the results, and closes the connections.
    /// Held jobs go back to the server.
    #[must_use]
    pub fn stop(mut self) -> WorkerReport {
        self.stop.ask(Haste::Gently);
        self.fail_dropped();
        self.lanes.iter().for_each(|lane| lane.with(|role| role.session.leave_all()));
        self.serve()
    }

    fn is_ending(&self) -> bool {
        let Worker { handlers, options, stop, .. } = self;
        WorkerPool { handlers, options, stop }.is_ending()
    }

    /// Requests no further job if the worker is stopping.
    fn heed_stop(&mut self) {
        if self.stop.asked().is_some() {
            self.lanes.iter().for_each(|lane| lane.with(Role::wind_down));
        }
    }
}
