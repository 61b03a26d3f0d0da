//! Decides a job by the outcome of its task.

use apalis_bridge::{BodyCodec, Leave, Once, Panicked, Settle};
use apalis_core::error::BoxDynError;
use futures_util::future::BoxFuture;
use gearman_client::GrabbedJob;

/// The job of a task, in the data of the task; for the backend's own layer.
#[derive(Clone)]
pub struct Assigned<C> {
    job: Once<Held>,
    codec: C,
}

/// A job that is given back, not failed, when dropped.
struct Held(Option<GrabbedJob>);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.take().into_iter().for_each(GrabbedJob::give_back);
    }
}

impl<C> Assigned<C> {
    pub(crate) fn new(job: GrabbedJob, codec: C) -> Self {
        Assigned { job: Once::new(Held(Some(job))), codec }
    }
}

impl<C> std::fmt::Debug for Assigned<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Assigned").field("job", &self.job).finish_non_exhaustive()
    }
}

impl<C: Clone + Send + Sync + 'static> Leave for Assigned<C> {
    fn leave(&self) {
        drop(self.job.take());
    }
}

impl<R: Send + Sync + 'static, C: BodyCodec<R>> Settle<R> for Assigned<C> {
    fn settle<'a>(&'a self, ended: &'a Result<R, BoxDynError>) -> BoxFuture<'a, ()> {
        let job = self.job.take().and_then(|mut held| held.0.take());
        Box::pin(async move {
            let Some(job) = job else { return };
            // The server has already given a lost job to others.
            let _ = match ended {
                Ok(value) => match self.codec.to_body(value) {
                    Ok(result) => job.complete(result).await,
                    Err(error) => {
                        job.exception(format!("the result cannot be encoded: {error:#}")).await
                    }
                },
                // Its message may contain what no submitter should see.
                Err(error) if error.is::<Panicked>() => job.fail().await,
                Err(error) => job.exception(format!("{error:#}")).await,
            };
        })
    }
}
