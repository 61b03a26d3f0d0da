//! An event that happens once, which any number of tasks and threads can wait for.

pub(crate) mod lock;
pub(crate) mod tickets;
pub(crate) mod wakers;

use std::{sync::PoisonError, time::Duration};

use crate::{
    lock,
    sync::{Condvar, Mutex},
};

/// An event that happens once, such as a stop. Dropping a waiter leaves nothing behind.
#[derive(Debug, Default)]
pub struct Signal {
    is_set: Mutex<bool>,
    threads: Condvar,
    #[cfg(feature = "tokio")]
    tasks: tokio::sync::Notify,
}

impl Signal {
    /// Sets the signal, and wakes everything that waits for it.
    pub fn set(&self) {
        *lock(&self.is_set) = true;
        self.threads.notify_all();
        #[cfg(feature = "tokio")]
        self.tasks.notify_waiters();
    }

    /// Whether it was set.
    #[must_use]
    pub fn is_set(&self) -> bool {
        *lock(&self.is_set)
    }

    /// Waits until it is set.
    ///
    /// # Cancel safety
    ///
    /// Dropping it does no harm.
    #[cfg(feature = "tokio")]
    pub async fn wait(&self) {
        let mut set = std::pin::pin!(self.tasks.notified());
        // From here on it cannot be missed.
        set.as_mut().enable();
        if !self.is_set() {
            set.await;
        }
    }

    /// Blocks until it is set, at most for `timeout`; returns whether it was.
    #[must_use]
    pub fn wait_timeout(&self, timeout: Duration) -> bool {
        let waited =
            self.threads.wait_timeout_while(lock(&self.is_set), timeout, |is_set| !*is_set);
        let (is_set, _) = waited.unwrap_or_else(PoisonError::into_inner);
        *is_set
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, thread};

    use super::*;

    #[test]
    fn threads_wait_up_to_their_limit() {
        let signal = Arc::new(Signal::default());
        assert!(
            !signal.wait_timeout(Duration::ZERO) && !signal.wait_timeout(Duration::from_millis(1))
        );
        let waits = thread::spawn({
            let signal = signal.clone();
            move || signal.wait_timeout(Duration::MAX)
        });
        signal.set();
        assert!(waits.join().unwrap() && signal.is_set());
        assert!(signal.wait_timeout(Duration::ZERO));
    }

    #[cfg(feature = "tokio")]
    #[tokio::test]
    async fn tasks_wait_before_and_after_it_is_set() {
        let signal = Arc::new(Signal::default());
        let waits = tokio::spawn({
            let signal = signal.clone();
            async move { signal.wait().await }
        });
        tokio::task::yield_now().await;
        assert!(!waits.is_finished());
        signal.set();
        waits.await.unwrap();
        signal.wait().await;
    }
}
