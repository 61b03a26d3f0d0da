//! Pushing tasks: each is a background job.

use std::{
    pin::Pin,
    task::{Context, Poll},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use apalis_bridge::BodyCodec;
use apalis_core::task::{ExecutionContext, Task};
use futures_sink::Sink;
use gearman_client::{FunctionName, SubmitOptions, UniqueId};

use crate::{Error, GearmanBackend};

impl<A, C> Sink<Task<A>> for GearmanBackend<A, C>
where
    C: BodyCodec<A>,
{
    type Error = Error;

    fn poll_ready(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.get_mut().pushes.poll_ready(cx)
    }

    fn start_send(self: Pin<&mut Self>, task: Task<A>) -> Result<(), Error> {
        let this = self.get_mut();
        let (options, at) = submission(this.submit, task.ctx())?;
        let function = match task.ctx().queue() {
            Some(queue) => FunctionName::try_from(queue.as_ref()).map_err(Error::Client)?,
            None => this.function.clone(),
        };
        let workload = this.codec.to_body(&task.args).map_err(Error::Encode)?;
        let client = this.client.clone();
        this.pushes.add(async move {
            let submitted = match at {
                Some(at) => client.submit_epoch(function, workload, at, options).await,
                None => client.submit_background(function, workload, options).await,
            };
            submitted.map(drop).map_err(Error::Client)
        });
        Ok(())
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.get_mut().pushes.poll_flush(cx)
    }

    fn poll_close(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        // The client belongs to all clones.
        self.get_mut().pushes.poll_flush(cx)
    }
}

/// How a task is submitted, and when, if not at once.
fn submission(
    usual: SubmitOptions,
    task: &ExecutionContext,
) -> Result<(SubmitOptions, Option<SystemTime>), Error> {
    let mut options = task.data().get::<SubmitOptions>().copied().unwrap_or(usual);
    if let Some(priority) = task.priority() {
        return Err(Error::Unsupported(format!(
            "Gearman has no priority {priority}: give the task `SubmitOptions` with one of its three in its data"
        )));
    }
    if let Some(key) = task.idempotency_key() {
        options = options.unique(UniqueId::try_from(key).map_err(Error::Client)?);
    }
    let at = match task.run_at() {
        Some(at) => {
            let at = UNIX_EPOCH.checked_add(Duration::from_secs(at)).ok_or_else(|| {
                Error::Unsupported(format!(
                    "second {at} is beyond the range of this machine's clock"
                ))
            })?;
            Some(at).filter(|at| *at > SystemTime::now())
        }
        None => None,
    };
    Ok((options, at))
}
