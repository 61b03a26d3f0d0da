//! The pushes in flight of a sink.

use std::task::{Context, Poll, ready};

use futures_util::{
    future::BoxFuture,
    stream::{FuturesUnordered, StreamExt},
};

/// Pushes in flight, at most as many as its window. Errors are returned one at a time: each is that of one push.
pub struct Pushes<E> {
    under_way: FuturesUnordered<BoxFuture<'static, Result<(), E>>>,
    window: usize,
}

impl<E> Pushes<E> {
    /// None yet; `window` is at least 1.
    #[must_use]
    pub fn new(window: usize) -> Self {
        Pushes { under_way: FuturesUnordered::new(), window: window.max(1) }
    }

    /// Waits until there is room for one more.
    ///
    /// # Errors
    ///
    /// That of a push that has failed in the meantime.
    pub fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), E>> {
        while self.under_way.len() >= self.window {
            if let Some(Err(error)) = ready!(self.under_way.poll_next_unpin(cx)) {
                return Poll::Ready(Err(error));
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Adds a push, which begins when the sink is polled next.
    pub fn add(&mut self, push: impl Future<Output = Result<(), E>> + Send + 'static) {
        self.under_way.push(Box::pin(push));
    }

    /// Waits until none is in flight.
    ///
    /// # Errors
    ///
    /// That of a push; the others stay in flight, and the next call waits for them.
    pub fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), E>> {
        while let Some(pushed) = ready!(self.under_way.poll_next_unpin(cx)) {
            if let Err(error) = pushed {
                return Poll::Ready(Err(error));
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl<E> std::fmt::Debug for Pushes<E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pushes")
            .field("under_way", &self.under_way.len())
            .field("window", &self.window)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, poll_fn, ready};

    use super::*;

    #[tokio::test]
    async fn has_room_for_a_window_and_reports_each_failure_once() {
        let mut pushes = Pushes::new(2);
        pushes.add(ready(Err("one")));
        assert_eq!(poll_fn(|cx| pushes.poll_ready(cx)).await, Ok(()));
        pushes.add(ready(Ok(())));
        let mut told = Vec::new();
        for _ in 0..3 {
            told.push(poll_fn(|cx| pushes.poll_flush(cx)).await);
        }
        told.sort();
        assert_eq!(told, [Ok(()), Ok(()), Err("one")]);
        pushes.add(pending());
        pushes.add(pending());
        let mut cx = Context::from_waker(std::task::Waker::noop());
        assert!(pushes.poll_ready(&mut cx).is_pending() && pushes.poll_flush(&mut cx).is_pending());
    }
}
