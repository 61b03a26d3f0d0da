//! A tower service as the handler of a function.

use std::{fmt, sync::Arc};

use bytes::Bytes;
use queue_core::{SharedService, Signal};
use tower_service::Service;

use super::JobContext;
use crate::{Failure, asynchronous::dispatch::RunningHandler, work::failure::Failed};

/// A handler that calls the service, and stops the worker when the service is broken.
pub(super) fn handler<S, C>(
    service: S,
    classify: C,
    stop: Arc<Signal>,
) -> impl Fn(JobContext) -> RunningHandler + Send + Sync
where
    S: Service<JobContext> + Send + 'static,
    S::Response: Into<Bytes> + 'static,
    S::Error: fmt::Display + Send + 'static,
    S::Future: Send + 'static,
    C: Fn(S::Error) -> Failure + Send + Sync + 'static,
{
    let shared = Arc::new((SharedService::new(service, move || stop.set()), classify));
    move |job| {
        let shared = shared.clone();
        Box::pin(async move {
            let (service, classify) = &*shared;
            let lost = job.clone();
            match service.call(job, lost.lost()).await {
                Ok(running) => match running.await {
                    Ok(result) => Ok(result.into()),
                    Err(error) => Err(Failed::Handler(classify(error))),
                },
                Err(reason) => Err(Failed::NotRun(reason)),
            }
        })
    }
}
