//! Futures that are dropped half-way.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    task::Poll,
};

/// Polls `future` at most `polls` times, and drops it if it is not ready by then. Between polls it waits to be woken,
/// as any executor does. `None` if it was dropped.
pub async fn drop_after<F: Future>(polls: usize, future: F) -> Option<F::Output> {
    if polls == 0 {
        return None;
    }
    let mut future = pin!(future);
    let mut polled = 0;
    poll_fn(|cx| {
        polled += 1;
        match future.as_mut().poll(cx) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if polled == polls => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// Drops `future` after this many turns of the runtime, whether it was woken or not, even while its driver is working.
#[cfg(feature = "tokio")]
pub async fn drop_after_turns<F: Future>(turns: usize, future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    for _ in 0..turns {
        let polled = poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await;
        if let Poll::Ready(output) = polled {
            return Some(output);
        }
        tokio::task::yield_now().await;
    }
    None
}
