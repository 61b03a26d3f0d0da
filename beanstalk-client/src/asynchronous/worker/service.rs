//! A tower service as the handler of a worker.

use std::{fmt, pin::Pin, sync::Arc};

use queue_core::SharedService;
use tower_service::Service;

use super::context::JobContext;
use crate::{Decision, IntoOutcome, Outcome, WorkerHandle};

type RunningService = Pin<Box<dyn Future<Output = Decision> + Send>>;

/// A handler that calls the service; it stops the worker when the service is broken.
pub(super) fn handler<S>(service: S, worker: WorkerHandle) -> impl Fn(JobContext) -> RunningService
where
    S: Service<JobContext> + Send + 'static,
    S::Response: IntoOutcome + 'static,
    S::Error: fmt::Display + Send + 'static,
    S::Future: Send + 'static,
{
    let service = Arc::new(SharedService::new(service, move || worker.stop()));
    move |job| {
        let service = service.clone();
        Box::pin(async move {
            let lost = job.clone();
            match service.call(job, lost.lost()).await {
                Ok(running) => Decision::of(running.await),
                // The outcome of a lost job is never sent.
                Err(reason) => Decision { outcome: Outcome::release(), reason },
            }
        })
    }
}
