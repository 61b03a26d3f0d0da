//! The job context passed to handlers.

use std::{
    sync::{Arc, PoisonError},
    time::{Duration, Instant},
};

use queue_core::{
    Signal, lock, now,
    sync::{Condvar, Mutex},
};

use crate::{
    Address, Job, JobStats, LostReason, Result, TubeName,
    job_context::{HandlerRequest, job_context},
    protocol::{HandlerJob, JobKey},
    work::view::ReservationState,
};

/// The receiver of a handler's requests.
pub(super) trait Answers: Send + Sync {
    /// Takes a request; the answer changes the job's view.
    fn ask(&self, ask: HandlerRequest);
}

job_context!(Condvar, notify_all, dyn Answers);

impl JobContext {
    /// Waits until the reservation ends, at most for `timeout`, and returns the reason; `None` if it has not ended.
    #[must_use]
    pub fn wait_lost(&self, timeout: Duration) -> Option<LostReason> {
        let deadline = Instant::now().checked_add(timeout);
        self.wait_until(deadline, |view| view.lost)
    }

    /// Waits until the worker is told to stop, or its run ends, at most for `timeout`; returns whether it was. A
    /// long-running handler can then finish early, within the [grace](crate::WorkerOptions::grace).
    #[must_use]
    pub fn wait_stopping(&self, timeout: Duration) -> bool {
        self.0.stopping.wait_timeout(timeout)
    }

    /// Waits without a limit: the slot answers everything, at the latest when the connection is lost.
    fn wait<T>(&self, mut look: impl FnMut(&ReservationState) -> Option<T>) -> T {
        loop {
            if let Some(found) = self.wait_until(None, &mut look) {
                return found;
            }
        }
    }

    fn wait_until<T>(
        &self,
        deadline: Option<Instant>,
        mut look: impl FnMut(&ReservationState) -> Option<T>,
    ) -> Option<T> {
        let mut view = lock(&self.0.view);
        loop {
            if let Some(found) = look(&view) {
                return Some(found);
            }
            let left = match deadline {
                Some(deadline) => deadline.saturating_duration_since(Instant::now()),
                None => Duration::from_secs(3600),
            };
            if left.is_zero() {
                return None;
            }
            let waited = self.0.changed.wait_timeout(view, left);
            view = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}
