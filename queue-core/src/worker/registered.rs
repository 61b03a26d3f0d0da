//! Running a handler: its panics are contained, its time is measured.

#[cfg(feature = "blocking")]
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

#[cfg(feature = "tokio")]
use crate::contain;
use crate::{Quick, now};

/// A handler, and whether it has proved quick.
#[derive(Debug)]
pub struct Registered<H> {
    handler: H,
    quick: Quick,
}

impl<H> Registered<H> {
    /// A handler that has not proved quick yet.
    pub fn new(handler: H) -> Self {
        Registered { handler, quick: Quick::default() }
    }

    /// Whether the handler has proved quick, so that a task or another thread would cost more.
    pub fn is_quick(&self) -> bool {
        self.quick.is_proven()
    }

    /// Calls the handler and runs its future. A panic is a failure of its job only.
    ///
    /// # Errors
    ///
    /// The panic's payload.
    #[cfg(feature = "tokio")]
    pub async fn run<F: Future>(&self, call: impl FnOnce(&H) -> F) -> thread::Result<F::Output> {
        let start = now();
        let made = contain(|| call(&self.handler)).await;
        self.quick.note(now().saturating_duration_since(start));
        made
    }

    /// Calls the handler in this thread. A panic is a failure of its job only.
    ///
    /// # Errors
    ///
    /// The panic's payload.
    #[cfg(feature = "blocking")]
    pub fn run_here<T>(&self, call: impl FnOnce(&H) -> T) -> thread::Result<T> {
        let start = now();
        // State of the handler may be left half done; that is the handler's responsibility.
        let made = catch_unwind(AssertUnwindSafe(|| call(&self.handler)));
        self.quick.note(now().saturating_duration_since(start));
        made
    }
}
