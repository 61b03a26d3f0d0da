//! The requested action.

use bytes::Bytes;

use super::Action;
use crate::{QueueName, RequestId};

/// A request. Those that act on a pulled message carry the id of the pull.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    action: Action,
    id: RequestId,
    queue: QueueName,
    body: Bytes,
}

macro_rules! plain {
    ($($(#[$doc:meta])+ $method:ident $action:ident)+) => {$(
        $(#[$doc])+
        #[must_use]
        pub fn $method(id: RequestId, queue: QueueName) -> Self {
            Request { action: Action::$action, id, queue, body: Bytes::new() }
        }
    )+};
}

impl Request {
    /// Adds a message at the left end.
    #[must_use]
    pub fn lpush(id: RequestId, queue: QueueName, body: impl AsRef<[u8]>) -> Self {
        Request { action: Action::Lpush, id, queue, body: Bytes::copy_from_slice(body.as_ref()) }
    }

    /// Adds a message at the right end.
    #[must_use]
    pub fn rpush(id: RequestId, queue: QueueName, body: impl AsRef<[u8]>) -> Self {
        Request { action: Action::Rpush, id, queue, body: Bytes::copy_from_slice(body.as_ref()) }
    }

    plain! {
        /// Takes the leftmost message of the queue, when there is one.
        pull Pull
        /// Deletes the message delivered to the pull `id` of this queue.
        delete Delete
        /// Returns the message delivered to the pull `id` of this queue to the left end.
        ///
        /// The server checks only the id. If another queue is named, it moves the message there, or loses it if that
        /// queue does not exist.
        lcancel Lcancel
        /// Returns it to the right end.
        rcancel Rcancel
        /// Counts the ready messages.
        count Count
        /// Removes the ready messages.
        clear Clear
        /// Creates a queue.
        create_queue CreateQueue
        /// Deletes a queue.
        delete_queue DeleteQueue
    }

    /// Any request; only a push has a body.
    pub(crate) fn new(action: Action, id: RequestId, queue: QueueName, body: Bytes) -> Self {
        Request { action, id, queue, body }
    }

    pub(super) fn asked(&self) -> RequestFields<'_> {
        let Request { action, id, queue, body } = self;
        RequestFields { action: *action, id: id.as_str(), queue: queue.as_str(), body }
    }

    /// The requested action.
    #[must_use]
    pub fn action(&self) -> Action {
        self.action
    }

    /// The id, by which the answer is found.
    #[must_use]
    pub fn id(&self) -> &RequestId {
        &self.id
    }

    /// The queue.
    #[must_use]
    pub fn queue(&self) -> &QueueName {
        &self.queue
    }

    /// The body of a push; empty otherwise.
    #[must_use]
    pub fn body(&self) -> &Bytes {
        &self.body
    }
}

/// The fields of a request, wherever they are stored.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestFields<'a> {
    pub(crate) action: Action,
    pub(crate) id: &'a str,
    pub(crate) queue: &'a str,
    /// The body of a push.
    pub(crate) body: &'a [u8],
}
