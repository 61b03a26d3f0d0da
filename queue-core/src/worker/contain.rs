//! Containment of panics.

use std::{
    any::Any,
    future::poll_fn,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    task::Poll,
};

/// Creates a future and runs it to its end or its panic, which is contained: it is the failure of one handler only.
/// State of the handler may be left half done; that is the handler's responsibility.
///
/// # Errors
///
/// The panic's payload.
pub async fn contain<F: Future>(
    make: impl FnOnce() -> F,
) -> Result<F::Output, Box<dyn Any + Send>> {
    let mut running = pin!(catch_unwind(AssertUnwindSafe(make))?);
    poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| running.as_mut().poll(cx))) {
        Ok(polled) => polled.map(Ok),
        Err(panic) => Poll::Ready(Err(panic)),
    })
    .await
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Waker};

    use super::*;
    use crate::panic_text;

    #[test]
    fn a_panic_is_an_outcome_whether_at_once_or_later() {
        let mut cx = Context::from_waker(Waker::noop());
        let at_once = pin!(contain(|| -> std::future::Ready<()> { panic!("at once") }));
        let later = pin!(contain(|| async { panic!("later") }));
        for (polled, text) in [(at_once.poll(&mut cx), "at once"), (later.poll(&mut cx), "later")] {
            let Poll::Ready(Err(panic)) = polled else { panic!("it goes on") };
            assert_eq!(panic_text(&*panic), text);
        }
        let fine = pin!(contain(|| async { 7 }));
        assert!(matches!(fine.poll(&mut cx), Poll::Ready(Ok(7))));
    }
}
