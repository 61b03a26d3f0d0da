//! Messages, events and results of the async face as streams.

use queue_core::{EventStream, Steps, yields_steps};

use crate::{
    Client, Delivery, Error, MessageId, ProducerEvent, ProducerOptions, Push, PushMany, QueueName,
    Result,
};

impl Client {
    /// The messages of a queue as a [`Stream`](queue_core::Stream) of successive [`pull`](Self::pull)s by a clone of
    /// this client, which remains available for everything else, including settling messages from the stream.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = fixtures::adf_queue::Server::builder().queue("/mail").start()?;
    /// # let address = server.address();
    /// use adf_queue_client::Client;
    /// use futures_util::{StreamExt, TryStreamExt};
    ///
    /// let client = Client::connect(address).await?;
    /// for body in ["one", "two"] {
    ///     client.rpush("/mail", body).await?;
    /// }
    /// let mut messages = client.messages("/mail")?.take(2);
    /// while let Some(message) = messages.try_next().await? {
    ///     println!("{}", String::from_utf8_lossy(message.body()));
    ///     client.delete(&message).await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// `InvalidInput` for an invalid name.
    pub fn messages<Q>(&self, queue: Q) -> Result<MessageStream>
    where
        Q: TryInto<QueueName>,
        Error: From<Q::Error>,
    {
        Ok(MessageStream::new(self.clone(), queue.try_into()?))
    }
}

/// The messages of a queue. See [`Client::messages`].
///
/// It ends after an error, whose [`fate`](Error::fate) shows whether the pull took effect. [`Client::messages`] starts
/// a new stream.
///
/// # Cancel safety
///
/// No message is lost when the stream, or a wait for its next message, is dropped: a pull in flight stays there, and
/// its message goes to the next pull of this queue by the client or its clones, as described at [`pull`](Client::pull).
/// Messages that were yielded and not settled stay pulled.
#[derive(Debug)]
#[must_use = "nothing is pulled until it is polled"]
pub struct MessageStream(Steps<'static, Result<Delivery>>);

impl MessageStream {
    fn new(client: Client, queue: QueueName) -> Self {
        MessageStream(Steps::new(Some((client, queue)), |pulling| async {
            let (client, queue) = pulling?;
            let message = client.pull(&queue).await;
            let next = message.is_ok().then_some((client, queue));
            Some((message, next))
        }))
    }
}

yields_steps!(MessageStream, Result<Delivery>);

impl ProducerOptions {
    /// The events as a stream, for a separate task: the same as for [`on_event`](Self::on_event), in addition to other
    /// observers.
    ///
    /// It keeps up to `capacity` events, never delays the producer, and counts those that its reader
    /// [missed](EventStream::missed). It ends when these options and all producers made from them are dropped.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = fixtures::adf_queue::Server::builder().queue("/mail").start()?;
    /// # let address = server.address();
    /// use adf_queue_client::{Producer, ProducerEventKind, ProducerOptions};
    /// use futures_util::StreamExt;
    ///
    /// let options: ProducerOptions = address.parse()?;
    /// let (options, mut events) = options.event_stream(64);
    /// let producer = Producer::new(options)?;
    /// producer.rpush("/mail", "hello").await?;
    /// let first = events.next().await.expect("the producer is there");
    /// assert!(matches!(first.what, ProducerEventKind::Connected));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn event_stream(mut self, capacity: usize) -> (Self, EventStream<ProducerEvent>) {
        let (observer, events) = EventStream::new(capacity);
        self.observer = Some(observer.after(self.observer));
        (self, events)
    }
}

impl<'a, I: Iterator<Item = Push> + Send + 'a> PushMany<'a, I> {
    /// The answers as a [`Stream`](queue_core::Stream) of what [`next`](Self::next) returns.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = fixtures::adf_queue::Server::builder().queue("/mail").start()?;
    /// # let address = server.address();
    /// use adf_queue_client::{Client, Push, QueueName};
    /// use futures_util::TryStreamExt;
    ///
    /// let client = Client::connect(address).await?;
    /// let queue: QueueName = "/mail".parse()?;
    /// let pushes = ["one", "two"].map(|body| Push::right(queue.clone(), body));
    /// let ids: Vec<_> = client.push_many(pushes).into_stream().try_collect().await?;
    /// assert_eq!(ids.len(), 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn into_stream(self) -> PushManyStream<'a> {
        let next = |mut many: Self| async { Some((many.next().await?, many)) };
        PushManyStream(Steps::new(self, next))
    }
}

/// The answers to a pipeline of pushes, in order. See [`PushMany::into_stream`].
///
/// # Cancel safety
///
/// A dropped wait loses nothing. If the stream is dropped, pushes that were not sent yet are never sent; over HTTP, the
/// fate of the message in flight is then unknown.
#[derive(Debug)]
#[must_use = "nothing is sent until it is polled"]
pub struct PushManyStream<'a>(Steps<'a, Result<MessageId>>);

yields_steps!(PushManyStream<'_>, Result<MessageId>);
