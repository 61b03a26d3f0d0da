//! Pushing tasks: each is a put of the producer.

use std::{
    pin::Pin,
    task::{Context, Poll},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use apalis_bridge::BodyCodec;
use apalis_core::task::{ExecutionContext, Task};
use beanstalk_client::{PutOptions, TubeName};
use futures_sink::Sink;

use crate::{BeanstalkBackend, Error};

impl<A, C> Sink<Task<A>> for BeanstalkBackend<A, C>
where
    C: BodyCodec<A>,
{
    type Error = Error;

    fn poll_ready(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.get_mut().pushes.poll_ready(cx)
    }

    fn start_send(self: Pin<&mut Self>, task: Task<A>) -> Result<(), Error> {
        let this = self.get_mut();
        let options = put_options(this.put, task.ctx())?;
        let tube = match task.ctx().queue() {
            Some(queue) => TubeName::try_from(queue.as_ref()).map_err(Error::Client)?,
            None => this.tube.clone(),
        };
        let body = this.codec.to_body(&task.args).map_err(Error::Encode)?;
        let producer = this.producer.clone();
        this.pushes.add(async move {
            producer.put(tube, body, options).await.map(drop).map_err(Error::Client)
        });
        Ok(())
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.get_mut().pushes.poll_flush(cx)
    }

    fn poll_close(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        // The producer belongs to all clones.
        self.get_mut().pushes.poll_flush(cx)
    }
}

/// How a task is put: by the options in its data, or else those of the backend; the task's own settings take
/// precedence.
fn put_options(usual: PutOptions, task: &ExecutionContext) -> Result<PutOptions, Error> {
    let mut options = task.data().get::<PutOptions>().copied().unwrap_or(usual);
    if let Some(priority) = task.priority() {
        let priority = u32::try_from(priority).map_err(|_| {
            Error::Unsupported(format!("priority {priority} is not valid: it is 0 to 4294967295"))
        })?;
        options = options.priority(priority);
    }
    if let Some(at) = task.run_at() {
        let at = UNIX_EPOCH.checked_add(Duration::from_secs(at)).ok_or_else(|| {
            Error::Unsupported(format!("second {at} is beyond the range of this machine's clock"))
        })?;
        options = options.delay(at.duration_since(SystemTime::now()).unwrap_or_default());
    }
    Ok(options)
}
