//! Pulled messages.

use bytes::Bytes;
use queue_core::Epoch;

use crate::{MessageId, QueueName, RequestId, protocol::Delivered};

/// A pulled message, which belongs to this client until it is deleted or returned.
///
/// It knows its queue, because the server does not check it: a request naming another one would move the message there,
/// or lose it. Over WebSocket, it is bound to the connection that delivered it: when that ends, the server takes the
/// message back, and acting on it fails with [`JobLost`](crate::ErrorKind::JobLost). Over HTTP, it is not bound to a
/// connection, and stays pulled until any client acts on it, [by its id](crate::blocking::Client::delete_pulled) if
/// necessary.
///
/// Dropping it does not notify the server: over WebSocket, the message stays pulled until the connection ends.
#[derive(Debug)]
pub struct Delivery {
    queue: QueueName,
    id: RequestId,
    delivered: Delivered,
    /// The connection; `None` over HTTP.
    epoch: Option<Epoch>,
}

impl Delivery {
    pub(crate) fn new(
        queue: QueueName,
        id: RequestId,
        delivered: Delivered,
        epoch: Option<Epoch>,
    ) -> Self {
        Delivery { queue, id, delivered, epoch }
    }

    /// A fictitious first message of this queue that looks pulled for the first time, for tests of code that takes one.
    /// Acting on it fails with [`JobLost`](crate::ErrorKind::JobLost).
    pub fn for_test(queue: QueueName, body: impl AsRef<[u8]>) -> Self {
        let delivered = Delivered {
            message_id: MessageId::from(1),
            duplications: 1,
            body: Bytes::copy_from_slice(body.as_ref()),
        };
        Delivery { queue, id: RequestId::unique(), delivered, epoch: Some(Epoch::next()) }
    }

    /// Sets the number of deliveries, for tests.
    #[must_use]
    pub fn with_duplications(mut self, duplications: u16) -> Self {
        self.delivered.duplications = duplications;
        self
    }

    pub(crate) fn into_parts(self) -> (QueueName, RequestId, Delivered) {
        (self.queue, self.id, self.delivered)
    }

    /// The queue that it was pulled from, and to which it returns.
    #[must_use]
    pub fn queue(&self) -> &QueueName {
        &self.queue
    }

    /// The id of the pull, by which the server identifies the pulled message.
    #[must_use]
    pub fn request_id(&self) -> &RequestId {
        &self.id
    }

    /// Its number in the queue that it was pushed to.
    #[must_use]
    pub fn message_id(&self) -> MessageId {
        self.delivered.message_id
    }

    /// How often it was delivered, including this time: 1 at first, modulo 65,536.
    #[must_use]
    pub fn duplications(&self) -> u16 {
        self.delivered.duplications
    }

    /// Whether it was delivered before without being deleted.
    #[must_use]
    pub fn is_redelivered(&self) -> bool {
        self.delivered.is_redelivered()
    }

    /// Its bytes. Over JSON, bytes that are not UTF-8 are replaced by U+FFFD.
    #[must_use]
    pub fn body(&self) -> &Bytes {
        &self.delivered.body
    }

    /// Its bytes alone, after which the message can no longer be settled.
    #[must_use]
    pub fn into_body(self) -> Bytes {
        self.delivered.body
    }

    /// The connection that delivered it; `None` over HTTP.
    #[must_use]
    pub fn epoch(&self) -> Option<Epoch> {
        self.epoch
    }
}
