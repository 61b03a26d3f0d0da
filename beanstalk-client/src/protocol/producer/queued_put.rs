//! A put on its way.

use std::time::{Duration, Instant};

use super::slots::SlotId;
use crate::{Delivery, TubeName};

/// A queued put. Its frame is in a log.
#[derive(Debug)]
pub(super) struct QueuedPut {
    /// Who waits for it; `None` after the answer was given.
    pub(super) owner: Option<PutCaller>,
    pub(super) tube: TubeName,
    /// The length of the body.
    pub(super) body: usize,
    /// Its share of the queue's room.
    pub(super) weight: usize,
    pub(super) deadline: Option<Instant>,
    /// The time that it had until then.
    pub(super) timeout: Duration,
    pub(super) delivery: Delivery,
    pub(super) retries: bool,
    pub(super) key: Option<u64>,
    /// Whether an earlier copy was sent whole: the job may exist, whatever happens to this copy.
    pub(super) may_exist: bool,
}

/// Where to leave the answer to a put, and which flushes wait for it.
#[derive(Clone, Copy, Debug)]
pub(super) struct PutCaller {
    pub(super) slot: SlotId,
    pub(super) generation: u64,
}

impl QueuedPut {
    /// When to tell the owner that the time has expired.
    pub(super) fn due_at(&self) -> Option<Instant> {
        self.owner.and(self.deadline)
    }

    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.due_at().is_some_and(|at| at <= now)
    }
}
