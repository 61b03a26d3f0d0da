//! How a blocking worker is told to end.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

/// Ends the [`run`](super::Worker::run) of a worker.
#[derive(Clone, Debug, Default)]
pub struct StopHandle {
    is_stopped: Arc<AtomicBool>,
}

impl StopHandle {
    /// The worker finishes the job that it runs, asks for no other, and ends, within a fifth of a second if it is idle.
    pub fn stop(&self) {
        self.is_stopped.store(true, Ordering::Relaxed);
    }

    /// Whether the worker is to end.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Relaxed)
    }
}
