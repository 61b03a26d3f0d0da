//! A tower service shared by the handlers of a worker.

use std::{
    fmt::Display,
    future::poll_fn,
    pin::pin,
    task::{Context, Poll},
};

use tokio::sync::Mutex;
use tower_service::Service;

/// A tower service shared by the handlers of a worker. It needs no `Clone`, and its limits apply to all of them
/// together.
///
/// Handlers queue fairly, and one at a time waits for the service to be ready, because a service has one waker.
#[derive(Debug)]
pub struct SharedService<S, F> {
    /// `None` once its `poll_ready` has failed: it is unusable, and has been dropped.
    service: Mutex<Option<S>>,
    /// Stops the worker.
    stop: F,
}

impl<S, F: Fn()> SharedService<S, F> {
    /// Shares a service; `stop` is called when it is broken.
    #[must_use]
    pub fn new(service: S, stop: F) -> Self {
        SharedService { service: Mutex::new(Some(service)), stop }
    }

    /// Calls the service once it is ready, unless `in_vain` is ready before.
    ///
    /// # Errors
    ///
    /// The service has not seen the request: with a message if it broke just now.
    ///
    /// # Cancel safety
    ///
    /// If it is dropped before it is ready, it has not called the service. Capacity that the service reserved for the
    /// call goes to the next one.
    pub async fn call<R>(
        &self,
        request: R,
        in_vain: impl Future,
    ) -> Result<S::Future, Option<String>>
    where
        S: Service<R>,
        S::Error: Display,
    {
        let mut called = pin!(self.call_when_ready(request));
        let mut in_vain = pin!(in_vain);
        poll_fn(|cx| match in_vain.as_mut().poll(cx) {
            Poll::Ready(_) => Poll::Ready(Err(None)),
            Poll::Pending => called.as_mut().poll(cx),
        })
        .await
    }

    async fn call_when_ready<R>(&self, request: R) -> Result<S::Future, Option<String>>
    where
        S: Service<R>,
        S::Error: Display,
    {
        let mut shared = self.service.lock().await;
        let service = shared.as_mut().ok_or(None)?;
        match poll_fn(|cx: &mut Context<'_>| service.poll_ready(cx)).await {
            Ok(()) => Ok(service.call(request)),
            Err(error) => {
                // It must not be polled again.
                *shared = None;
                // What follows may be any code, so it has no lock.
                drop(shared);
                (self.stop)();
                Err(Some(format!("the service is no longer ready: {error:#}")))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        future::{Ready, pending, ready},
        sync::{
            Arc,
            atomic::{AtomicU32, Ordering},
        },
        task::Waker,
    };

    use super::*;

    /// Ready for as many calls as it has tokens; without tokens it fails if it is broken.
    #[derive(Clone, Default)]
    struct Tokens {
        left: Arc<AtomicU32>,
        is_broken: bool,
    }

    impl Service<u32> for Tokens {
        type Response = u32;
        type Error = &'static str;
        type Future = Ready<Result<u32, &'static str>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), &'static str>> {
            match (self.left.load(Ordering::SeqCst), self.is_broken) {
                (0, true) => Poll::Ready(Err("out of tokens")),
                (0, false) => Poll::Pending,
                _ => Poll::Ready(Ok(())),
            }
        }

        fn call(&mut self, request: u32) -> Self::Future {
            self.left.fetch_sub(1, Ordering::SeqCst);
            ready(Ok(request))
        }
    }

    fn polled<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn a_service_is_called_when_it_is_ready_in_the_order_of_its_callers() {
        let tokens = Tokens::default();
        let shared = SharedService::new(tokens.clone(), || ());
        let mut first = pin!(shared.call(1, pending::<()>()));
        let mut second = pin!(shared.call(2, pending::<()>()));
        assert!(polled(first.as_mut()).is_pending() && polled(second.as_mut()).is_pending());
        tokens.left.store(2, Ordering::SeqCst);
        assert!(polled(second.as_mut()).is_pending(), "the first has its turn first");
        let answers = [polled(first), polled(second)].map(|called| match called {
            Poll::Ready(Ok(running)) => running.into_inner(),
            other => panic!("{other:?}"),
        });
        assert_eq!(answers, [Ok(1), Ok(2)]);
    }

    #[test]
    fn a_cancelled_call_is_skipped_for_the_next() {
        let tokens = Tokens::default();
        let shared = SharedService::new(tokens.clone(), || ());
        let mut is_lost = false;
        {
            let lost = poll_fn(|_| if is_lost { Poll::Ready(()) } else { Poll::Pending });
            let mut first = pin!(shared.call(1, lost));
            assert!(polled(first.as_mut()).is_pending());
        }
        is_lost = true;
        tokens.left.store(1, Ordering::SeqCst);
        let lost = poll_fn(|_| if is_lost { Poll::Ready(()) } else { Poll::Pending });
        assert!(matches!(polled(pin!(shared.call(1, lost))), Poll::Ready(Err(None))));
        assert_eq!(tokens.left.load(Ordering::SeqCst), 1, "it was not called");
        assert!(matches!(polled(pin!(shared.call(2, pending::<()>()))), Poll::Ready(Ok(_))));
    }

    #[test]
    fn a_broken_service_is_polled_once() {
        let stops = AtomicU32::default();
        let stop = || {
            stops.fetch_add(1, Ordering::SeqCst);
        };
        let shared = SharedService::new(Tokens { is_broken: true, ..Tokens::default() }, stop);
        let first = polled(pin!(shared.call(1, pending::<()>())));
        let words = "the service is no longer ready: out of tokens";
        assert!(matches!(first, Poll::Ready(Err(Some(shown))) if shown == words));
        assert!(matches!(polled(pin!(shared.call(2, pending::<()>()))), Poll::Ready(Err(None))));
        assert_eq!(stops.load(Ordering::SeqCst), 1);
    }
}
