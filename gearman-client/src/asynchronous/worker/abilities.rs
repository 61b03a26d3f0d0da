//! The functions that a worker serves.

use std::{future::Future, sync::Arc, time::Duration};

use queue_core::in_thread;

#[cfg(feature = "tower")]
use super::service;
use super::{JobContext, Worker};
use crate::{
    Error, Failure, FunctionName, IntoOutcome, Result, asynchronous::dispatch::Handler,
    work::failure::Failed,
};

impl Worker {
    /// Serves a function: `handler` runs its jobs. gearmand gives out those of the function that was registered first
    /// before those of the others; one that is added to a running worker comes first until the next connection. The output of its future is the result. A [`Failure`] fails the job,
    /// with or without an exception. A panic fails it without one: its message goes only to
    /// [`WorkerOptions::on_event`](crate::WorkerOptions::on_event), because it may contain what submitters must not
    /// see.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for an invalid name.
    pub fn register<F, H, T>(&mut self, function: F, handler: H) -> Result<()>
    where
        F: TryInto<FunctionName>,
        Error: From<F::Error>,
        H: Fn(JobContext) -> T + Send + Sync + 'static,
        T: Future<Output: IntoOutcome> + Send + 'static,
    {
        self.add(function.try_into()?, None, handler);
        Ok(())
    }

    /// Serves a function whose jobs the server gives to other workers when they take longer than `timeout`, in whole
    /// milliseconds (rounded up; the server raises less than 1 s to 1 s).
    ///
    /// The server notifies no one. The worker tracks the time, and [`lost`](JobContext::lost) notifies a handler when
    /// it expires; no other run of the job starts in this worker until that handler has ended. Servers up to 1.1 keep
    /// one timer per connection, which can miss the job or hit the wrong one, so the result is sent in any case. Prefer
    /// a timeout at the submitter.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for an invalid name.
    pub fn register_with_timeout<F, H, T>(
        &mut self,
        function: F,
        timeout: Duration,
        handler: H,
    ) -> Result<()>
    where
        F: TryInto<FunctionName>,
        Error: From<F::Error>,
        H: Fn(JobContext) -> T + Send + Sync + 'static,
        T: Future<Output: IntoOutcome> + Send + 'static,
    {
        self.add(function.try_into()?, Some(timeout), handler);
        Ok(())
    }

    /// Serves a function with a handler that blocks its thread: it runs on tokio's blocking thread pool. Wait for the
    /// async methods of its job with [`Handle::block_on`](tokio::runtime::Handle::block_on).
    ///
    /// A handler still running when the [grace](crate::WorkerOptions::grace) ends cannot be interrupted. Its job goes
    /// back to the server, and [`JobContext::is_lost`] becomes true.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for an invalid name.
    pub fn register_blocking<F, H, R>(&mut self, function: F, handler: H) -> Result<()>
    where
        F: TryInto<FunctionName>,
        Error: From<F::Error>,
        H: Fn(JobContext) -> R + Send + Sync + 'static,
        R: IntoOutcome,
    {
        let handler = Arc::new(handler);
        let run = move |job: JobContext| {
            let handler = handler.clone();
            async move {
                // `in_thread` returns nothing only if the runtime is shutting down.
                let outcome = in_thread(move || handler(job).into_outcome()).await;
                outcome.unwrap_or(Err(Failure::Fail))
            }
        };
        self.register(function, run)
    }

    /// Serves a function with a handler that has its own error type: `classify` maps an error to a failure.
    /// An error that implements `Display` needs none: it is an
    /// exception.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), gearman_client::Error> {
    /// # let server = fixtures::gearmand::Server::start().unwrap();
    /// # let mut worker = gearman_client::Worker::connect(server.address()).await?;
    /// use gearman_client::Failure;
    ///
    /// enum Refused { Secret, Because(String) }
    ///
    /// let classify = |refused| match refused {
    ///     Refused::Secret => Failure::Fail,
    ///     Refused::Because(why) => Failure::exception(why),
    /// };
    /// worker.register_classified("open", |_| async { Err::<String, _>(Refused::Secret) }, classify)?;
    /// worker.register("shut", |_| async { Err::<String, _>("no such door") })?;
    /// # let _ = Refused::Because(String::new());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// `InvalidInput` for an invalid name.
    pub fn register_classified<F, H, T, R, E, C>(
        &mut self,
        function: F,
        handler: H,
        classify: C,
    ) -> Result<()>
    where
        F: TryInto<FunctionName>,
        Error: From<F::Error>,
        H: Fn(JobContext) -> T + Send + Sync + 'static,
        T: Future<Output = std::result::Result<R, E>> + Send + 'static,
        R: IntoOutcome,
        C: Fn(E) -> Failure + Send + Sync + 'static,
    {
        let classify = Arc::new(classify);
        let run = move |job: JobContext| {
            let (running, classify) = (handler(job), classify.clone());
            async move { running.await.map_err(|error| classify(error)) }
        };
        self.register(function, run)
    }

    /// Serves a function with a tower service that all jobs share: its middleware applies to the whole worker, and it
    /// needs no `Clone`. `classify` decides the outcome of an error, including one of the middleware, as for
    /// [`register_classified`](Self::register_classified). The blocking face has no counterpart, since a service
    /// returns a future.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), gearman_client::Error> {
    /// # let server = fixtures::gearmand::Server::start().unwrap();
    /// # let mut worker = gearman_client::Worker::connect(server.address()).await?;
    /// use std::time::Duration;
    /// use gearman_client::{Failure, JobContext};
    /// use tower::{ServiceBuilder, service_fn};
    ///
    /// let service = ServiceBuilder::new()
    ///     .rate_limit(100, Duration::from_secs(1))
    ///     .timeout(Duration::from_secs(30))
    ///     .service(service_fn(|job: JobContext| async move {
    ///         Ok::<_, std::io::Error>(job.workload.to_ascii_uppercase())
    ///     }));
    /// worker.register_service("upper", service, Failure::from)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// * **Readiness.** A job is handed over when the service is ready. Until then the worker holds it, and the server,
    ///   which has no time limit for it, leaves it there; [`slots`](crate::WorkerOptions::slots) bounds the number of
    ///   such jobs, which other workers could run meanwhile. A job that is lost while it waits is not handed over.
    /// * **A broken service.** A service whose `poll_ready` fails is permanently unusable. [`run`](Self::run) stops,
    ///   and waiting jobs go back to the server. [`WorkerEventKind::Failed`](crate::WorkerEventKind::Failed) gives the
    ///   reason.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for an invalid name.
    #[cfg(feature = "tower")]
    pub fn register_service<F, S, C>(&mut self, function: F, service: S, classify: C) -> Result<()>
    where
        F: TryInto<FunctionName>,
        Error: From<F::Error>,
        S: tower_service::Service<JobContext> + Send + 'static,
        S::Response: Into<bytes::Bytes> + 'static,
        S::Error: std::fmt::Display + Send + 'static,
        S::Future: Send + 'static,
        C: Fn(S::Error) -> Failure + Send + Sync + 'static,
    {
        let handler = service::handler(service, classify, self.stop.signal().clone());
        self.serve(function.try_into()?, None, Box::new(handler));
        Ok(())
    }

    fn add<H, T>(&mut self, function: FunctionName, timeout: Option<Duration>, handler: H)
    where
        H: Fn(JobContext) -> T + Send + Sync + 'static,
        T: Future<Output: IntoOutcome> + Send + 'static,
    {
        let handler = Box::new(move |job: JobContext| {
            let outcome = handler(job);
            let ended = async move { outcome.await.into_outcome().map_err(Failed::Handler) };
            Box::pin(ended) as std::pin::Pin<Box<_>>
        });
        self.serve(function, timeout, handler);
    }

    fn serve(&mut self, function: FunctionName, timeout: Option<Duration>, handler: Handler) {
        self.dispatch.register(function.clone(), handler);
        self.lanes.iter().for_each(|lane| lane.can_do(&function, timeout));
    }

    pub(crate) fn announce(&mut self, function: &FunctionName, timeout: Option<Duration>) {
        self.dispatch.remove(function);
        self.lanes.iter().for_each(|lane| lane.can_do(function, timeout));
    }
}
