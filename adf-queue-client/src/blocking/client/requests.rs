//! The requests of the blocking client.

use std::time::Duration;

use bytes::Bytes;
use queue_core::Limit;

use super::Client;
use crate::{
    Deadline, Delivery, Error, ErrorKind, MessageId, QueueName, QueueStats, Refusal, RequestId,
    Result, Stats,
    protocol::{
        Action, Request, Success,
        client::{Answer, Ask},
    },
};

impl Client {
    fn plain<Q>(&mut self, action: Action, queue: Q, body: Bytes) -> Result<Answer>
    where
        Q: TryInto<QueueName>,
        Error: From<Q::Error>,
    {
        self.run_in_total(Ask::Plain(action, queue.try_into()?, body))
    }

    /// Adds a message at the left end of a queue, where it is pulled next (`lpush`). Gives its number in the queue.
    ///
    /// # Errors
    ///
    /// `Refused(QueueNotFound)`: only [`create_queue`](Self::create_queue) creates queues. `InvalidInput` for a body
    /// that the transport cannot carry: over 65,535 bytes in binary frames, not UTF-8 in JSON. A connection failure,
    /// where [`fate`](Error::fate) says whether the message may have arrived.
    pub fn lpush<Q>(&mut self, queue: Q, body: impl Into<Bytes>) -> Result<MessageId>
    where
        Q: TryInto<QueueName>,
        Error: From<Q::Error>,
    {
        self.plain(Action::Lpush, queue, body.into())?.pushed()
    }

    /// Adds a message at the right end of a queue (`rpush`); see [`lpush`](Self::lpush).
    ///
    /// # Errors
    ///
    /// As [`lpush`](Self::lpush).
    pub fn rpush<Q>(&mut self, queue: Q, body: impl Into<Bytes>) -> Result<MessageId>
    where
        Q: TryInto<QueueName>,
        Error: From<Q::Error>,
    {
        self.plain(Action::Rpush, queue, body.into())?.pushed()
    }

    /// Takes the leftmost message of a queue, waiting indefinitely for one (`pull`). The caller that has waited longest
    /// gets the next message. If the connection is lost in the meantime, it is re-established within the retry policy.
    ///
    /// A queue that is deleted while a pull waits never answers it, not even when it is made again.
    ///
    /// # Errors
    ///
    /// `Refused(QueueNotFound)`, and a failure of the connection; over HTTP [`request_id`](Error::request_id) then has the id
    /// that the message is found by, should the server have sent one. `Unsupported` over HTTP when too many pulls were given up.
    pub fn pull<Q>(&mut self, queue: Q) -> Result<Delivery>
    where
        Q: TryInto<QueueName>,
        Error: From<Q::Error>,
    {
        self.run(Ask::Pull(queue.try_into()?), Limit::never())?.message()
    }

    /// The same for at most this time; `None` if no message arrived. A late message goes to the next pull of the queue
    /// by this client, since a pull cannot be cancelled. Beyond a thousand abandoned pulls, a WebSocket is closed to
    /// give their messages back.
    ///
    /// Over HTTP, the queue is counted, at growing intervals of up to a second, and pulled from once there is a
    /// message. If another client is quicker, this may take up to the reply timeout longer.
    ///
    /// # Errors
    ///
    /// As [`pull`](Self::pull).
    pub fn pull_within<Q>(&mut self, queue: Q, time: Duration) -> Result<Option<Delivery>>
    where
        Q: TryInto<QueueName>,
        Error: From<Q::Error>,
    {
        let limit = Limit::of(Deadline::Total, Some(time));
        self.run(Ask::Pull(queue.try_into()?), limit)?.delivery()
    }

    /// Takes the leftmost message of a queue if there is one: `count`, then a pull for at most the reply timeout,
    /// because other clients may be quicker.
    ///
    /// # Errors
    ///
    /// As [`pull`](Self::pull).
    pub fn try_pull<Q>(&mut self, queue: Q) -> Result<Option<Delivery>>
    where
        Q: TryInto<QueueName>,
        Error: From<Q::Error>,
    {
        self.run_in_total(Ask::TryPull(queue.try_into()?))?.delivery()
    }

    fn settle(&mut self, action: Action, delivery: &Delivery) -> Result<()> {
        let (queue, id) = (delivery.queue().clone(), *delivery.request_id());
        let (ask, limit) = (Ask::Settle(action, queue, id, delivery.epoch()), self.total_limit());
        self.run_about(ask, Some(delivery.message_id()), limit)?.done()
    }

    /// Removes a message that was pulled (`delete`).
    ///
    /// # Errors
    ///
    /// `JobLost` when the connection that pulled it is gone. `Refused(NotPulled)` when it is settled already.
    pub fn delete(&mut self, delivery: &Delivery) -> Result<()> {
        self.settle(Action::Delete, delivery)
    }

    /// Puts a message that was pulled back at the left end of its queue (`lcancel`).
    ///
    /// The server wakes no pull that waits: the message lies there until the next pull or push.
    ///
    /// # Errors
    ///
    /// As [`delete`](Self::delete).
    pub fn lcancel(&mut self, delivery: &Delivery) -> Result<()> {
        self.settle(Action::Lcancel, delivery)
    }

    /// Puts a message that was pulled back at the right end of its queue (`rcancel`); see [`lcancel`](Self::lcancel).
    ///
    /// # Errors
    ///
    /// As [`delete`](Self::delete).
    pub fn rcancel(&mut self, delivery: &Delivery) -> Result<()> {
        self.settle(Action::Rcancel, delivery)
    }

    /// How many messages are ready (`count`). Pulled ones are not counted, and no pulls that wait.
    ///
    /// # Errors
    ///
    /// `Refused(QueueNotFound)`, and a failure of the connection.
    pub fn count<Q>(&mut self, queue: Q) -> Result<u32>
    where
        Q: TryInto<QueueName>,
        Error: From<Q::Error>,
    {
        self.plain(Action::Count, queue, Bytes::new())?.counted()
    }

    /// Removes all ready messages, and returns how many (`clear`). Messages already pulled stay with their consumer.
    ///
    /// # Errors
    ///
    /// As [`count`](Self::count).
    pub fn clear<Q>(&mut self, queue: Q) -> Result<u32>
    where
        Q: TryInto<QueueName>,
        Error: From<Q::Error>,
    {
        self.plain(Action::Clear, queue, Bytes::new())?.counted()
    }

    /// Creates a queue (`createqueue`).
    ///
    /// # Errors
    ///
    /// `Refused(QueueExists)`; see [`ensure_queue`](Self::ensure_queue).
    pub fn create_queue<Q>(&mut self, queue: Q) -> Result<()>
    where
        Q: TryInto<QueueName>,
        Error: From<Q::Error>,
    {
        self.plain(Action::CreateQueue, queue, Bytes::new())?.done()
    }

    /// Creates a queue unless it exists. Whether it was created.
    ///
    /// # Errors
    ///
    /// A failure of the connection.
    pub fn ensure_queue<Q>(&mut self, queue: Q) -> Result<bool>
    where
        Q: TryInto<QueueName>,
        Error: From<Q::Error>,
    {
        match self.create_queue(queue) {
            Err(error) if *error.kind() == ErrorKind::Refused(Refusal::QueueExists) => Ok(false),
            outcome => outcome.map(|()| true),
        }
    }

    /// Removes a queue and its ready messages (`deletequeue`). Pulls that wait for it are never answered.
    ///
    /// # Errors
    ///
    /// As [`count`](Self::count).
    pub fn delete_queue<Q>(&mut self, queue: Q) -> Result<()>
    where
        Q: TryInto<QueueName>,
        Error: From<Q::Error>,
    {
        self.plain(Action::DeleteQueue, queue, Bytes::new())?.done()
    }

    /// Asks for a sign of life: the server is alive, and speaks the protocol.
    ///
    /// # Errors
    ///
    /// A failure of the connection.
    pub fn ping(&mut self) -> Result<()> {
        self.run_in_total(Ask::Ping)?.done()
    }

    /// Sends any request unchanged, and waits for its answer; for a pull, indefinitely.
    ///
    /// # Errors
    ///
    /// A refusal by the server, or any connection failure. `InvalidInput` for an id in flight, or a pull with a number
    /// that this client has used.
    pub fn call(&mut self, request: Request) -> Result<Success> {
        let limit = match request.action() {
            Action::Pull => Limit::never(),
            _ => self.options.total_limit(),
        };
        self.run(Ask::Raw(request), limit)?.success()
    }

    /// Takes the leftmost message by a pull with this id, over HTTP: the id finds the message whatever happens to the
    /// call.
    ///
    /// # Errors
    ///
    /// As [`pull`](Self::pull). `Unsupported` over WebSocket, where a message goes back when the connection ends.
    pub fn pull_with_id<Q>(&mut self, queue: Q, id: RequestId) -> Result<Delivery>
    where
        Q: TryInto<QueueName>,
        Error: From<Q::Error>,
    {
        self.by_id(Action::Pull, queue.try_into()?, &id)?.message()
    }

    /// Removes the message that the pull of this id brought, over HTTP.
    ///
    /// # Errors
    ///
    /// `Refused(NotPulled)`. `Unsupported` over WebSocket, where only the connection that pulled a message can act on it.
    pub fn delete_pulled<Q>(&mut self, queue: Q, id: &RequestId) -> Result<()>
    where
        Q: TryInto<QueueName>,
        Error: From<Q::Error>,
    {
        self.by_id(Action::Delete, queue.try_into()?, id)?.done()
    }

    /// Puts the message returned by the pull with this id back at the left end, over HTTP. The queue must be the one it
    /// was pulled from: the server would move it to another one, and lose it if that does not exist.
    ///
    /// # Errors
    ///
    /// As [`delete_pulled`](Self::delete_pulled).
    pub fn lcancel_pulled<Q>(&mut self, queue: Q, id: &RequestId) -> Result<()>
    where
        Q: TryInto<QueueName>,
        Error: From<Q::Error>,
    {
        self.by_id(Action::Lcancel, queue.try_into()?, id)?.done()
    }

    /// The same at the right end; see [`lcancel_pulled`](Self::lcancel_pulled).
    ///
    /// # Errors
    ///
    /// As [`delete_pulled`](Self::delete_pulled).
    pub fn rcancel_pulled<Q>(&mut self, queue: Q, id: &RequestId) -> Result<()>
    where
        Q: TryInto<QueueName>,
        Error: From<Q::Error>,
    {
        self.by_id(Action::Rcancel, queue.try_into()?, id)?.done()
    }

    /// Puts back a message swallowed by an abandoned pull over HTTP: [`lcancel_pulled`](Self::lcancel_pulled).
    ///
    /// # Errors
    ///
    /// As [`delete_pulled`](Self::delete_pulled).
    pub fn recover<Q>(&mut self, queue: Q, id: &RequestId) -> Result<()>
    where
        Q: TryInto<QueueName>,
        Error: From<Q::Error>,
    {
        self.lcancel_pulled(queue, id)
    }

    fn by_id(&mut self, action: Action, queue: QueueName, id: &RequestId) -> Result<Answer> {
        self.options.check_by_id(action)?;
        self.run_in_total(Ask::Settle(action, queue, *id, None))
    }

    /// Statistics of the server and of up to 100 queues, from its status page: the only source for waiting pulls,
    /// pulled messages, and the list of queues. It is fetched over HTTP, whatever the transport, at the same address.
    ///
    /// It is made for people: a queue whose name holds the text of a whole row of the page may pass for another.
    ///
    /// # Errors
    ///
    /// `Protocol` for another page, or when the server did not get to its queues. A failure of the connection.
    pub fn stats(&mut self) -> Result<Stats> {
        Stats::parse(&self.page(None)?)
    }

    /// The same for one queue; `None` if there is no such queue.
    ///
    /// # Errors
    ///
    /// As [`stats`](Self::stats), and `InvalidInput` for a name that makes a request of over 512 bytes in its line.
    pub fn queue_stats<Q>(&mut self, queue: Q) -> Result<Option<QueueStats>>
    where
        Q: TryInto<QueueName>,
        Error: From<Q::Error>,
    {
        let queue = queue.try_into()?;
        QueueStats::parse(&self.page(Some(&queue))?, &queue)
    }
}
