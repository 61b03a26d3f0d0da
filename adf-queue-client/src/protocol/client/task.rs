//! Calls in progress.

use std::{collections::VecDeque, task::Waker};

use super::{
    ask::{Ask, AskAnswer},
    batch::PushBatch,
};
use queue_core::Limit;

use crate::{Error, RequestId, Result, protocol::Action};

/// A call in progress.
#[derive(Debug)]
pub(super) struct Task {
    pub(super) ask: Ask,
    pub(super) stage: TaskStage,
    pub(super) limit: Limit,
    /// Number of failed attempts.
    pub(super) tries: u32,
    /// The connection that its request was sent on.
    pub(super) epoch: Option<queue_core::Epoch>,
    pub(super) waker: Option<Waker>,
}

#[derive(Debug)]
pub(super) enum TaskStage {
    /// Waits for a connection, to be sent then.
    Queued(Option<RequestName>),
    /// Waits for the answer to this request.
    Sent(RequestName),
    /// Sends this pull once its queue is known to exist.
    Checking(RequestName),
    /// Waits for a pong.
    Pinging,
    /// Pushes, some of them unfinished, to be sent or already sent.
    PushBatch(PushBatch),
    /// Waits among the callers that pull from its queue.
    Pulling,
    /// Finished; the caller does not know yet.
    Done(Result<AskAnswer>),
}

/// The key of a request and its answer.
pub(super) type RequestName = (Action, RequestId);

/// A sorted list, for what mostly comes and goes in this order, such as tasks in the order in which they began.
#[derive(Debug)]
pub(super) struct InOrder<T = u64>(VecDeque<T>);

impl<T> Default for InOrder<T> {
    fn default() -> Self {
        InOrder(VecDeque::new())
    }
}

impl<T: Copy + Ord> InOrder<T> {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn first(&self) -> Option<T> {
        self.0.front().copied()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = T> {
        self.0.iter().copied()
    }

    /// Usually it is the last.
    pub(super) fn insert(&mut self, one: T) {
        match self.0.back() {
            Some(last) if *last >= one => {
                self.0.insert(self.0.partition_point(|other| *other < one), one);
            }
            _ => self.0.push_back(one),
        }
    }

    pub(super) fn extend(&mut self, several: impl IntoIterator<Item = T>) {
        self.0.extend(several);
        self.0.make_contiguous().sort_unstable();
    }

    pub(super) fn pop(&mut self) -> Option<T> {
        self.0.pop_front()
    }

    pub(super) fn remove_up_to(&mut self, last: T) {
        self.0.drain(..self.0.partition_point(|other| *other <= last));
    }

    /// Usually it is the first.
    pub(super) fn remove(&mut self, one: T) {
        if self.first() == Some(one) {
            self.0.pop_front();
        } else if let Ok(place) = self.0.binary_search(&one) {
            self.0.remove(place);
        }
    }
}

impl Task {
    pub(super) fn is_done(&self) -> bool {
        matches!(self.stage, TaskStage::Done(_))
    }

    /// Its own request, if it has one.
    fn name(&self) -> Option<&RequestName> {
        match &self.stage {
            TaskStage::Queued(name) => name.as_ref(),
            TaskStage::Sent(name) | TaskStage::Checking(name) => Some(name),
            TaskStage::PushBatch(_)
            | TaskStage::Pinging
            | TaskStage::Pulling
            | TaskStage::Done(_) => None,
        }
    }

    /// The error as reported to its caller.
    pub(super) fn named(&self, error: Error) -> Error {
        match (self.name(), self.ask.action()) {
            (Some((_, id)), Some(action)) => error.with_request(action, id),
            (None, Some(action)) => error.with_action(action),
            (_, None) => error,
        }
    }
}
