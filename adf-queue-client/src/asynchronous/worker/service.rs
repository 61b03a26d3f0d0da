//! A tower service as the handler of a queue.

use std::{fmt, sync::Arc};

use queue_core::SharedService;
use tower_service::Service;

use super::HandlerFuture;
use crate::{IntoOutcome, JobContext, Outcome, WorkerHandle};

/// A handler that calls the service, and stops the worker when the service is broken.
pub(super) fn handler<S>(
    service: S,
    worker: WorkerHandle,
) -> impl Fn(JobContext) -> HandlerFuture + Send + Sync
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
                Ok(running) => running.await.into_outcome().into(),
                // The decision about a lost message is never sent.
                Err(error) => (Outcome::ReturnLeft, error).into(),
            }
        })
    }
}
