//! The requests of both clients, in one list.

use std::time::Duration;

use bytes::Bytes;
use queue_core::Limit;

use crate::{
    Deadline, Delivery, Error, ErrorKind, MessageId, Push, QueueName, QueueStats, Refusal,
    RequestId, Result, Stats,
    faces::queue_methods,
    protocol::{
        Action, Request, Success,
        client::{Ask, AskAnswer},
    },
};

/// The methods of a client; those of the async one are `async`, and say what happens if their future is dropped.
macro_rules! requests {
    ($client:ty, [$($mut:ident)?] $(, $async:ident $await:ident $cancel:literal)?) => {
impl $client {
    pub(crate) $($async)? fn run(&$($mut)? self, ask: Ask, limit: Limit) -> Result<AskAnswer> {
        self.run_about(ask, None, limit)$(.$await)?
    }

    pub(crate) $($async)? fn run_in_total(&$($mut)? self, ask: Ask) -> Result<AskAnswer> {
        self.run(ask, self.options().total_limit())$(.$await)?
    }

    pub(crate) $($async)? fn push(&$($mut)? self, push: Push) -> Result<MessageId> {
        self.run_in_total(push.into_ask())$(.$await)??.pushed()
    }

    $($async)? fn plain(&$($mut)? self, action: Action, queue: QueueName) -> Result<AskAnswer> {
        self.run_in_total(Ask::Plain(action, queue, Bytes::new()))$(.$await)?
    }

    queue_methods! {
    /// Adds a message at the left end of a queue, where it is pulled next (`lpush`). Returns its number in the queue.
    ///
    /// # Errors
    ///
    /// `Refused(QueueNotFound)`: only [`create_queue`](Self::create_queue) creates queues. `InvalidInput` for a body
    /// that the transport cannot carry: over 65,535 bytes in binary frames, not UTF-8 in JSON. A connection failure,
    /// where [`fate`](Error::fate) says whether the message may have arrived.
    $(#[doc = $cancel])?
    pub $($async)? fn lpush(&$($mut)? self, queue: Q, body: impl AsRef<[u8]>) -> Result<MessageId> {
        self.push(Push::left(queue.try_into()?, body))$(.$await)?
    }

    /// Adds a message at the right end of a queue (`rpush`); see [`lpush`](Self::lpush).
    ///
    /// # Errors
    ///
    /// As [`lpush`](Self::lpush).
    $(#[doc = $cancel])?
    pub $($async)? fn rpush(&$($mut)? self, queue: Q, body: impl AsRef<[u8]>) -> Result<MessageId> {
        self.push(Push::right(queue.try_into()?, body))$(.$await)?
    }

    /// Takes the leftmost message of a queue, waiting indefinitely for one (`pull`). The caller that has waited longest
    /// gets the next message. If the connection is lost in the meantime, it is re-established within the retry policy.
    ///
    /// The server never answers a pull that waits on a queue when the queue is deleted, even if the queue is created
    /// again. Over WebSocket, the pull is sent again once a later pull gets a message, or a later request finds no such
    /// queue.
    ///
    /// # Errors
    ///
    /// `Refused(QueueNotFound)`. A connection failure; over HTTP, [`request_id`](Error::request_id) then has the id by
    /// which a message can be found if the server has sent one. `Unsupported` over HTTP when too many pulls were
    /// abandoned.
    $(#[doc = concat!(
        $cancel,
        " No message is lost. A pull cannot be cancelled, so it stays in flight, and its message goes to \
         the next pull of this queue by this client or its clones. With more than a thousand abandoned \
         pulls, the connection is closed to give their messages back. Over HTTP that is impossible, and a \
         pull still in flight when the last clone is dropped swallows a message that only \
         [`recover`](Self::recover) returns."
    )])?
    pub $($async)? fn pull(&$($mut)? self, queue: Q) -> Result<Delivery> {
        self.run(Ask::Pull(queue.try_into()?), Limit::never())$(.$await)??.message()
    }

    /// As [`pull`](Self::pull), but waits at most this long; `None` if no message arrived. A pull cannot be cancelled,
    /// so a late message goes to the next pull of the queue by this client. With more than a thousand abandoned pulls,
    /// a WebSocket is closed to give their messages back.
    ///
    /// Over WebSocket, a time shorter than a round trip finds only messages that this client has kept. For what is ready
    /// now, use [`try_pull`](Self::try_pull).
    ///
    /// Over HTTP, it counts the queue's messages at growing intervals of up to a second, and pulls once there is one.
    /// If another client is faster, or the server answers late, it may take up to the reply timeout longer. Connecting
    /// has this time too, and a second at least.
    ///
    /// # Errors
    ///
    /// As [`pull`](Self::pull).
    $(#[doc = concat!(
        $cancel,
        " As [`pull`](Self::pull): a late message goes to the next pull of the queue."
    )])?
    pub $($async)? fn pull_within(&$($mut)? self, queue: Q, time: Duration) -> Result<Option<Delivery>> {
        let limit = Limit::of(Deadline::Total, Some(time));
        self.run(Ask::Pull(queue.try_into()?), limit)$(.$await)??.delivery()
    }

    /// Takes the leftmost message of a queue if there is one: `count`, then a pull for at most the reply timeout,
    /// because other clients may be faster.
    ///
    /// # Errors
    ///
    /// As [`pull`](Self::pull).
    $(#[doc = concat!(
        $cancel,
        " As [`pull`](Self::pull)."
    )])?
    pub $($async)? fn try_pull(&$($mut)? self, queue: Q) -> Result<Option<Delivery>> {
        self.run_in_total(Ask::TryPull(queue.try_into()?))$(.$await)??.delivery()
    }
    }

    $($async)? fn settle(&$($mut)? self, action: Action, delivery: &Delivery) -> Result<()> {
        let (queue, id) = (delivery.queue().clone(), *delivery.request_id());
        let ask = Ask::Settle(action, queue, id, delivery.epoch());
        let limit = self.options().total_limit();
        self.run_about(ask, Some(delivery.message_id()), limit)$(.$await)??.done()
    }

    /// Deletes a pulled message (`delete`).
    ///
    /// # Errors
    ///
    /// `JobLost` when the connection that pulled it is gone. `Refused(NotPulled)` when it is already settled.
    $(#[doc = $cancel])?
    pub $($async)? fn delete(&$($mut)? self, delivery: &Delivery) -> Result<()> {
        self.settle(Action::Delete, delivery)$(.$await)?
    }

    /// Returns a pulled message to the left end of its queue (`lcancel`).
    ///
    /// The server does not wake waiting pulls: the message stays there until the next pull or push.
    ///
    /// # Errors
    ///
    /// As [`delete`](Self::delete).
    $(#[doc = $cancel])?
    pub $($async)? fn lcancel(&$($mut)? self, delivery: &Delivery) -> Result<()> {
        self.settle(Action::Lcancel, delivery)$(.$await)?
    }

    /// Returns a pulled message to the right end of its queue (`rcancel`); see [`lcancel`](Self::lcancel).
    ///
    /// # Errors
    ///
    /// As [`delete`](Self::delete).
    $(#[doc = $cancel])?
    pub $($async)? fn rcancel(&$($mut)? self, delivery: &Delivery) -> Result<()> {
        self.settle(Action::Rcancel, delivery)$(.$await)?
    }

    queue_methods! {
    /// The number of ready messages (`count`). Does not include pulled messages.
    ///
    /// # Errors
    ///
    /// `Refused(QueueNotFound)`; a connection failure.
    $(#[doc = $cancel])?
    pub $($async)? fn count(&$($mut)? self, queue: Q) -> Result<u32> {
        self.plain(Action::Count, queue.try_into()?)$(.$await)??.counted()
    }

    /// Removes all ready messages, and returns their number (`clear`). Pulled messages stay with their consumers.
    ///
    /// # Errors
    ///
    /// As [`count`](Self::count).
    $(#[doc = $cancel])?
    pub $($async)? fn clear(&$($mut)? self, queue: Q) -> Result<u32> {
        self.plain(Action::Clear, queue.try_into()?)$(.$await)??.counted()
    }

    /// Creates a queue (`createqueue`).
    ///
    /// # Errors
    ///
    /// `Refused(QueueExists)`; see [`ensure_queue`](Self::ensure_queue).
    $(#[doc = $cancel])?
    pub $($async)? fn create_queue(&$($mut)? self, queue: Q) -> Result<()> {
        self.plain(Action::CreateQueue, queue.try_into()?)$(.$await)??.done()
    }

    /// Creates a queue unless it exists. Returns whether it was created.
    ///
    /// # Errors
    ///
    /// A connection failure.
    $(#[doc = $cancel])?
    pub $($async)? fn ensure_queue(&$($mut)? self, queue: Q) -> Result<bool> {
        match self.create_queue(queue)$(.$await)? {
            Err(error) if *error.kind() == ErrorKind::Refused(Refusal::QueueExists) => Ok(false),
            outcome => outcome.map(|()| true),
        }
    }

    /// Deletes a queue and its ready messages (`deletequeue`). Pulls that wait on it are never answered.
    ///
    /// # Errors
    ///
    /// As [`count`](Self::count).
    $(#[doc = $cancel])?
    pub $($async)? fn delete_queue(&$($mut)? self, queue: Q) -> Result<()> {
        self.plain(Action::DeleteQueue, queue.try_into()?)$(.$await)??.done()
    }
    }

    /// Checks that the server is alive and speaks the protocol.
    ///
    /// # Errors
    ///
    /// A connection failure.
    $(#[doc = $cancel])?
    pub $($async)? fn ping(&$($mut)? self) -> Result<()> {
        self.run_in_total(Ask::Ping)$(.$await)??.done()
    }

    /// Sends any request unchanged, and waits for its answer; for a pull, indefinitely.
    ///
    /// # Errors
    ///
    /// A refusal by the server, or any connection failure. `InvalidInput` for an id in flight, or a pull with a number
    /// that this client has used.
    $(#[doc = concat!(
        $cancel,
        " As for [`pull`](Self::pull)."
    )])?
    pub $($async)? fn call(&$($mut)? self, request: Request) -> Result<Success> {
        let limit = match request.action() {
            Action::Pull => Limit::never(),
            _ => self.options().total_limit(),
        };
        self.run(Ask::Raw(request), limit)$(.$await)??.success()
    }

    queue_methods! {
    /// Takes the leftmost message over HTTP by a pull with this id, by which the message can be found whatever happens
    /// to the call.
    ///
    /// # Errors
    ///
    /// As [`pull`](Self::pull). `Unsupported` over WebSocket, where a message goes back when the connection ends.
    $(#[doc = concat!(
        $cancel,
        " The server keeps waiting. The message it sends goes to the next [`pull`](Self::pull) of this \
         queue by this client or its clones; without one, [`recover`](Self::recover) returns it."
    )])?
    pub $($async)? fn pull_with_id(&$($mut)? self, queue: Q, id: RequestId) -> Result<Delivery> {
        self.by_id(Action::Pull, queue.try_into()?, &id)$(.$await)??.message()
    }

    /// Deletes the message delivered to the pull with this id, over HTTP.
    ///
    /// # Errors
    ///
    /// `Refused(NotPulled)`. `Unsupported` over WebSocket, where only the connection that pulled a message can act on
    /// it.
    $(#[doc = $cancel])?
    pub $($async)? fn delete_pulled(&$($mut)? self, queue: Q, id: &RequestId) -> Result<()> {
        self.by_id(Action::Delete, queue.try_into()?, id)$(.$await)??.done()
    }

    /// Returns the message delivered to the pull with this id to the left end of its queue, over HTTP. The queue must
    /// be the one that it was pulled from: otherwise the server moves it to the other queue, or loses it if that does
    /// not exist.
    ///
    /// # Errors
    ///
    /// As [`delete_pulled`](Self::delete_pulled).
    $(#[doc = $cancel])?
    pub $($async)? fn lcancel_pulled(&$($mut)? self, queue: Q, id: &RequestId) -> Result<()> {
        self.by_id(Action::Lcancel, queue.try_into()?, id)$(.$await)??.done()
    }

    /// Returns it to the right end; see [`lcancel_pulled`](Self::lcancel_pulled).
    ///
    /// # Errors
    ///
    /// As [`delete_pulled`](Self::delete_pulled).
    $(#[doc = $cancel])?
    pub $($async)? fn rcancel_pulled(&$($mut)? self, queue: Q, id: &RequestId) -> Result<()> {
        self.by_id(Action::Rcancel, queue.try_into()?, id)$(.$await)??.done()
    }

    /// Recovers a message swallowed by an abandoned pull over HTTP, by [`lcancel_pulled`](Self::lcancel_pulled).
    ///
    /// # Errors
    ///
    /// As [`delete_pulled`](Self::delete_pulled).
    $(#[doc = $cancel])?
    pub $($async)? fn recover(&$($mut)? self, queue: Q, id: &RequestId) -> Result<()> {
        self.lcancel_pulled(queue, id)$(.$await)?
    }
    }

    $($async)? fn by_id(&$($mut)? self, action: Action, queue: QueueName, id: &RequestId) -> Result<AskAnswer> {
        self.options().check_by_id(action)?;
        self.run_in_total(Ask::Settle(action, queue, *id, None))$(.$await)?
    }

    /// Statistics of the server and of up to 100 queues, from its status page: the only source for waiting pulls,
    /// pulled messages, and the list of queues. It is fetched over HTTP, whatever the transport, at the same address.
    ///
    /// The page is meant for people: a queue whose name contains the text of a whole row may be mistaken for another
    /// one.
    ///
    /// # Errors
    ///
    /// `Protocol` for another page, or when the server timed out listing its queues; a connection failure.
    $(#[doc = concat!(
        $cancel,
        " Read-only: dropping it has no effect."
    )])?
    pub $($async)? fn stats(&$($mut)? self) -> Result<Stats> {
        Stats::parse(&self.page(None)$(.$await)??)
    }

    queue_methods! {
    /// The statistics of one queue; `None` if it does not exist.
    ///
    /// # Errors
    ///
    /// As [`stats`](Self::stats), and `InvalidInput` for a name that makes the request line longer than 512 bytes.
    $(#[doc = concat!(
        $cancel,
        " Read-only: dropping it has no effect."
    )])?
    pub $($async)? fn queue_stats(&$($mut)? self, queue: Q) -> Result<Option<QueueStats>> {
        let queue = queue.try_into()?;
        QueueStats::parse(&self.page(Some(&queue))$(.$await)??, &queue)
    }
    }
}
    };
}

#[cfg(feature = "tokio")]
requests!(
    crate::Client, [],
    async await "\n# Cancel safety\n\nAs for the [client](Self#cancel-safety)."
);
#[cfg(feature = "blocking")]
requests!(crate::blocking::Client, [mut]);
