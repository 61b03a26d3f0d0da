//! Calls in progress.

use std::{collections::VecDeque, task::Waker};

use bytes::Bytes;

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
    Queued(Option<EncodedRequest>),
    /// Waits for the answer to this request.
    Sent(EncodedRequest),
    /// Sends this pull once its queue is known to exist.
    Checking(EncodedRequest),
    /// Waits for a pong.
    Pinging,
    /// Pushes, some of them unfinished, to be sent or already sent.
    PushBatch(PushBatch),
    /// Waits among the callers that pull from its queue.
    Pulling,
    /// Finished; the caller does not know yet.
    Done(Result<AskAnswer>),
}

/// An encoded request.
#[derive(Clone, Debug)]
pub(super) struct EncodedRequest {
    pub(super) action: Action,
    pub(super) id: RequestId,
    pub(super) frame: Bytes,
}

impl EncodedRequest {
    /// The key of the server's answer.
    pub(super) fn name(&self) -> (Action, RequestId) {
        (self.action, self.id)
    }
}

/// Tasks in the order in which they began.
#[derive(Debug, Default)]
pub(super) struct InOrder(VecDeque<u64>);

impl InOrder {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn first(&self) -> Option<u64> {
        self.0.front().copied()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = u64> {
        self.0.iter().copied()
    }

    /// Usually it is the latest.
    pub(super) fn insert(&mut self, number: u64) {
        match self.0.back() {
            Some(last) if *last >= number => self.extend([number]),
            _ => self.0.push_back(number),
        }
    }

    pub(super) fn extend(&mut self, numbers: impl IntoIterator<Item = u64>) {
        self.0.extend(numbers);
        self.0.make_contiguous().sort_unstable();
    }

    pub(super) fn pop(&mut self) -> Option<u64> {
        self.0.pop_front()
    }

    pub(super) fn remove_up_to(&mut self, number: u64) {
        self.0.drain(..self.0.partition_point(|other| *other <= number));
    }

    pub(super) fn remove(&mut self, number: u64) {
        if let Ok(place) = self.0.binary_search(&number) {
            self.0.remove(place);
        }
    }
}

impl Task {
    pub(super) fn is_done(&self) -> bool {
        matches!(self.stage, TaskStage::Done(_))
    }

    /// Its own request, if it has one.
    pub(super) fn message(&self) -> Option<&EncodedRequest> {
        match &self.stage {
            TaskStage::Queued(message) => message.as_ref(),
            TaskStage::Sent(message) | TaskStage::Checking(message) => Some(message),
            TaskStage::PushBatch(_)
            | TaskStage::Pinging
            | TaskStage::Pulling
            | TaskStage::Done(_) => None,
        }
    }

    /// The error as reported to its caller.
    pub(super) fn named(&self, error: Error) -> Error {
        match (self.message(), self.ask.action()) {
            (Some(message), Some(action)) => error.with_request(action, &message.id),
            (None, Some(action)) => error.with_action(action),
            (_, None) => error,
        }
    }
}
