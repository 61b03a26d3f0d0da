//! The tasks of async workers.

use std::{future::poll_fn, panic::resume_unwind, pin::pin, task::Poll};

use tokio::task::{JoinSet, spawn_blocking};

/// Waits until all tasks have ended. Calls `on_stop`, which asks them to, as soon as `stop` is ready.
///
/// # Cancel safety
///
/// Dropping it leaves the tasks running.
pub async fn join_until(tasks: &mut JoinSet<()>, stop: impl Future, on_stop: impl FnOnce()) {
    let (mut stop, mut on_stop) = (pin!(stop), Some(on_stop));
    poll_fn(|cx| {
        if on_stop.is_some() && stop.as_mut().poll(cx).is_ready() {
            on_stop.take().into_iter().for_each(|on_stop| on_stop());
        }
        loop {
            match tasks.poll_join_next(cx) {
                Poll::Ready(Some(_)) => {}
                other => return other.map(|_| ()),
            }
        }
    })
    .await;
}

/// Runs a blocking step on tokio's blocking thread pool; `None` if the runtime shuts down before it starts.
///
/// # Panics
///
/// When `step` does.
pub async fn in_thread<T: Send + 'static>(step: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    match spawn_blocking(step).await {
        Ok(done) => Some(done),
        Err(error) => match error.try_into_panic() {
            Ok(panic) => resume_unwind(panic),
            Err(_) => None,
        },
    }
}
