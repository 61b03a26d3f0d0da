//! Results of the async face as streams.

use futures_core::Stream;
use queue_core::unfold;

use crate::{CallMany, Inserted, PutMany, Result, protocol::Command};

impl<I> PutMany<'_, I>
where
    I: Iterator<Item: AsRef<[u8]>>,
{
    /// The answers as a [`Stream`]: what [`next`](Self::next) gives.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = fixtures::beanstalkd::Server::start()?;
    /// # let address = server.address();
    /// use beanstalk_client::{Producer, PutOptions};
    /// use futures_util::TryStreamExt;
    ///
    /// let producer = Producer::connect(address).await?;
    /// let answers = producer.put_many("mail", ["one", "two"], PutOptions::default())?;
    /// let inserted: Vec<_> = answers.into_stream().try_collect().await?;
    /// assert_eq!(inserted.len(), 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn into_stream(self) -> impl Stream<Item = Result<Inserted>> {
        unfold(self, |mut many| async { Some((many.next().await?, many)) })
    }
}

impl<I> CallMany<'_, I>
where
    I: Iterator<Item: Command>,
{
    /// The replies as a [`Stream`]: what [`next`](Self::next) gives.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = fixtures::beanstalkd::Server::start()?;
    /// # let address = server.address();
    /// use beanstalk_client::{Client, PutOptions, protocol::Put};
    /// use futures_util::StreamExt;
    ///
    /// let mut client = Client::connect(address).await?;
    /// let puts = ["one", "two"].map(|body| Put::new(body, PutOptions::default()).expect("it is small"));
    /// let failed = client.call_many(puts).into_stream().filter(|reply| std::future::ready(reply.is_err()));
    /// assert_eq!(failed.count().await, 0);
    /// # Ok(())
    /// # }
    /// ```
    pub fn into_stream(self) -> impl Stream<Item = Result<<I::Item as Command>::Reply>> {
        unfold(self, |mut many| async { Some((many.next().await?, many)) })
    }
}
