//! Messages to be pushed.

use bytes::Bytes;

use crate::{QueueName, protocol::Action};

/// A message to be pushed, and its destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Push {
    action: Action,
    queue: QueueName,
    body: Bytes,
}

impl Push {
    /// A push to the left end of a queue, where it is pulled next (`lpush`).
    #[must_use]
    pub fn left(queue: QueueName, body: impl AsRef<[u8]>) -> Self {
        Push { action: Action::Lpush, queue, body: Bytes::copy_from_slice(body.as_ref()) }
    }

    /// A push to the right end of a queue (`rpush`).
    #[must_use]
    pub fn right(queue: QueueName, body: impl AsRef<[u8]>) -> Self {
        Push { action: Action::Rpush, queue, body: Bytes::copy_from_slice(body.as_ref()) }
    }

    /// `lpush` or `rpush`.
    #[must_use]
    pub fn action(&self) -> Action {
        self.action
    }

    /// The queue.
    #[must_use]
    pub fn queue(&self) -> &QueueName {
        &self.queue
    }

    /// The body.
    #[must_use]
    pub fn body(&self) -> &Bytes {
        &self.body
    }

    pub(crate) fn into_ask(self) -> crate::protocol::client::Ask {
        crate::protocol::client::Ask::Plain(self.action, self.queue, self.body)
    }

    /// The request for it with this id.
    pub(crate) fn asked<'a>(&'a self, id: &'a str) -> crate::protocol::RequestFields<'a> {
        let Push { action, queue, body } = self;
        crate::protocol::RequestFields { action: *action, id, queue: queue.as_str(), body }
    }
}
