//! How a blocking worker is told to end.

use std::sync::Arc;

use queue_core::Signal;

/// Ends the [`run`](super::Worker::run) of a worker.
#[derive(Clone, Debug, Default)]
pub struct StopHandle {
    pub(super) stopping: Arc<Signal>,
}

impl StopHandle {
    /// The worker finishes the job that it runs, asks for no other, and ends, within a fifth of a second if it is idle.
    pub fn stop(&self) {
        self.stopping.set();
    }

    /// Whether the worker is to end.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.stopping.is_set()
    }
}
