//! Streams of the results of repeated async calls.

pub(crate) mod events;

use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll, ready},
};

pub use futures_core::Stream;

use crate::exclusive::Exclusive;

/// A stream of the results of successive calls of a step, until it returns `None`. The clients' named streams wrap it.
///
/// A step stays in progress from one poll to the next, so it need not be cancel-safe. All steps use one allocation.
pub struct Steps<'a, T>(Exclusive<Pin<Box<dyn Stream<Item = T> + Send + 'a>>>);

impl<'a, T: 'a> Steps<'a, T> {
    /// Starts with this state, and calls `step` when polled.
    pub fn new<S, F, R>(state: S, step: F) -> Self
    where
        S: Send + 'a,
        F: FnMut(S) -> R + Send + 'a,
        R: Future<Output = Option<(T, S)>> + Send + 'a,
    {
        let steps = Unfold { state: Some(state), step, running: None, is_running: false };
        Steps(Exclusive::new(Box::pin(steps)))
    }
}

impl<T> Stream for Steps<'_, T> {
    type Item = T;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        self.0.get().as_mut().poll_next(cx)
    }
}

impl<T> fmt::Debug for Steps<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Steps")
    }
}

/// Makes a client's named stream yield what the [`Steps`] in it yield.
#[doc(hidden)]
#[macro_export]
macro_rules! yields_steps {
    ($stream:ty, $item:ty $(, $generic:ident)?) => {
        impl$(<$generic>)? $crate::Stream for $stream {
            type Item = $item;

            fn poll_next(
                mut self: std::pin::Pin<&mut Self>,
                cx: &mut std::task::Context<'_>,
            ) -> std::task::Poll<Option<$item>> {
                std::pin::Pin::new(&mut self.0).poll_next(cx)
            }
        }
    };
}

struct Unfold<S, F, R> {
    /// Set between two steps.
    state: Option<S>,
    step: F,
    /// The current step, or the allocation of the previous one.
    running: Option<Pin<Box<R>>>,
    is_running: bool,
}

/// Only the boxed step is ever pinned.
impl<S, F, R> Unpin for Unfold<S, F, R> {}

impl<S, T, F, R> Stream for Unfold<S, F, R>
where
    F: FnMut(S) -> R,
    R: Future<Output = Option<(T, S)>>,
{
    type Item = T;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        let this = self.get_mut();
        if let Some(state) = this.state.take() {
            let step = (this.step)(state);
            match &mut this.running {
                Some(place) => place.as_mut().set(step),
                none => *none = Some(Box::pin(step)),
            }
            this.is_running = true;
        }
        let Some(running) = this.running.as_mut().filter(|_| this.is_running) else {
            return Poll::Ready(None);
        };
        let given = ready!(running.as_mut().poll(cx));
        this.is_running = false;
        let Some((item, state)) = given else {
            this.running = None;
            return Poll::Ready(None);
        };
        this.state = Some(state);
        Poll::Ready(Some(item))
    }
}

#[cfg(test)]
mod tests {
    use std::{future::poll_fn, pin::pin};

    use super::*;

    /// A step that is pending once before it returns.
    async fn count(left: u32) -> Option<(u32, u32)> {
        let mut is_second = false;
        poll_fn(|_| {
            if std::mem::replace(&mut is_second, true) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        left.checked_sub(1).map(|next| (left, next))
    }

    #[test]
    fn a_step_spans_polls_and_the_end_is_final() {
        let mut stream = pin!(Steps::new(2, count));
        let cx = &mut Context::from_waker(std::task::Waker::noop());
        let polls: Vec<_> = (0..8).map(|_| stream.as_mut().poll_next(cx)).collect();
        let (wait, end) = (Poll::Pending, Poll::Ready(None));
        assert_eq!(
            polls,
            [wait, Poll::Ready(Some(2)), wait, Poll::Ready(Some(1)), wait, end, end, end]
        );
    }
}
