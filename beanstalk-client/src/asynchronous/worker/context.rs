//! The job context passed to handlers.

use std::{collections::VecDeque, sync::Arc, task::Waker, time::Duration};

use queue_core::{Signal, lock, now, sync::Mutex};
use tokio::sync::Notify;

use crate::{
    Address, Job, JobStats, LostReason, Result, TubeName,
    job_context::{HandlerRequest, MAX_ASKS, job_context},
    protocol::{HandlerJob, JobKey},
    work::view::ReservationState,
};

job_context!(Notify, notify_waiters, HandlerRequests, async await "\n# Cancel safety\n\n");

impl JobContext {
    /// Waits until the reservation ends, and returns the reason. Use it in `select!` to abandon the work.
    ///
    /// # Cancel safety
    ///
    /// Dropping it does no harm.
    pub async fn lost(&self) -> LostReason {
        self.wait(|view| view.lost).await
    }

    /// Waits until the worker is told to stop, or its run ends. A long-running handler can then finish early, within the
    /// [grace](crate::WorkerOptions::grace).
    ///
    /// # Cancel safety
    ///
    /// Dropping it does no harm.
    pub async fn stopping(&self) {
        self.0.stopping.wait().await;
    }

    async fn wait<T>(&self, mut look: impl FnMut(&ReservationState) -> Option<T>) -> T {
        loop {
            let mut changed = std::pin::pin!(self.0.changed.notified());
            changed.as_mut().enable();
            if let Some(found) = look(&lock(&self.0.view)) {
                return found;
            }
            changed.await;
        }
    }
}

/// Mailbox from handlers to their slot.
#[derive(Debug, Default)]
pub(super) struct HandlerRequests(Mutex<QueuedRequests>);

#[derive(Debug, Default)]
struct QueuedRequests {
    asks: VecDeque<HandlerRequest>,
    waker: Option<Waker>,
}

impl HandlerRequests {
    fn ask(&self, ask: HandlerRequest) {
        let mut post = lock(&self.0);
        if post.asks.len() < MAX_ASKS {
            post.asks.push_back(ask);
        }
        let waker = post.waker.take();
        drop(post);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    pub(super) fn take(&self, waker: &Waker) -> VecDeque<HandlerRequest> {
        let mut post = lock(&self.0);
        match &mut post.waker {
            Some(known) => known.clone_from(waker),
            none => *none = Some(waker.clone()),
        }
        std::mem::take(&mut post.asks)
    }
}
