//! Results of the async face as streams.

use futures_core::Stream;
use queue_core::unfold;

use crate::{Client, Delivery, Error, MessageId, Push, PushMany, QueueName, Result};

impl Client {
    /// The messages of a queue as a [`Stream`]: a [`pull`](Self::pull) after the other. It ends after an error.
    ///
    /// Messages that are not settled stay pulled, as after [`pull`](Self::pull). The client remains available for
    /// everything else, including settling messages from the stream. If a pull is in flight when the stream is dropped,
    /// its message goes to the next pull of this queue by this client or its clones.
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
    /// `InvalidInput` for a wrong name.
    pub fn messages<Q>(&self, queue: Q) -> Result<impl Stream<Item = Result<Delivery>> + use<'_, Q>>
    where
        Q: TryInto<QueueName>,
        Error: From<Q::Error>,
    {
        Ok(self.messages_of(queue.try_into()?))
    }

    fn messages_of(&self, queue: QueueName) -> impl Stream<Item = Result<Delivery>> {
        unfold(Some(queue), async |queue| {
            let queue = queue?;
            let message = self.pull(&queue).await;
            let next = message.is_ok().then_some(queue);
            Some((message, next))
        })
    }
}

impl<I: Iterator<Item = Push>> PushMany<'_, I> {
    /// The answers as a [`Stream`]: what [`next`](Self::next) gives.
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
    pub fn into_stream(self) -> impl Stream<Item = Result<MessageId>> {
        unfold(self, |mut many| async { Some((many.next().await?, many)) })
    }
}
