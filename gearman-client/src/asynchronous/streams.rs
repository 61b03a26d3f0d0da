//! Results of the async face as streams.

use futures_core::Stream;
use queue_core::unfold;

use crate::{
    CallMany, Job, JobEvent, Result, SubmitMany,
    protocol::{Request, Submit},
};

impl Job {
    /// The events as a [`Stream`]: what [`next`](Self::next) gives.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = fixtures::gearmand::Server::start()?;
    /// # let address = server.address();
    /// use futures_util::TryStreamExt;
    /// use gearman_client::{Client, JobEvent, SubmitOptions, Worker};
    ///
    /// let mut worker = Worker::new(address)?;
    /// worker.register("shout", |job| async move { Ok(job.workload.to_ascii_uppercase()) })?;
    /// let (handle, working) = (worker.handle(), tokio::spawn(worker.run()));
    /// let client = Client::connect(address).await?;
    /// let job = client.submit("shout", "hello", SubmitOptions::default()).await?;
    /// let events: Vec<JobEvent> = job.into_stream().try_collect().await?;
    /// assert!(matches!(events.last(), Some(JobEvent::Complete(body)) if body == "HELLO"));
    /// handle.stop();
    /// working.await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn into_stream(self) -> impl Stream<Item = Result<JobEvent>> {
        unfold(self, |mut job| async { Some((job.next().await?, job)) })
    }
}

impl<I> CallMany<I>
where
    I: Iterator<Item: Request>,
{
    /// The answers as a [`Stream`]: what [`next`](Self::next) gives.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = fixtures::gearmand::Server::start()?;
    /// # let address = server.address();
    /// use futures_util::TryStreamExt;
    /// use gearman_client::{Client, FunctionName, SubmitOptions, protocol::Submit};
    ///
    /// let client = Client::connect(address).await?;
    /// let function = FunctionName::try_from("resize")?;
    /// let submits = ["one.jpg", "two.jpg"].map(|name| {
    ///     Submit::background(function.clone(), name, SubmitOptions::default()).expect("it is small")
    /// });
    /// let submitted: Vec<_> = client.call_many(submits).into_stream().try_collect().await?;
    /// assert_eq!(submitted.len(), 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn into_stream(self) -> impl Stream<Item = Result<<I::Item as Request>::Reply>> {
        unfold(self, |mut many| async { Some((many.next().await?, many)) })
    }
}

impl<W, I> SubmitMany<W, I>
where
    W: AsRef<[u8]>,
    I: Iterator<Item = Submit<W>>,
{
    /// The events as a [`Stream`]: what [`next`](Self::next) gives.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = fixtures::gearmand::Server::start()?;
    /// # let address = server.address();
    /// use futures_util::StreamExt;
    /// use gearman_client::{Client, FunctionName, JobEvent, SubmitOptions, Worker, protocol::Submit};
    ///
    /// let mut worker = Worker::new(address)?;
    /// worker.register("shout", |job| async move { Ok(job.workload.to_ascii_uppercase()) })?;
    /// let (handle, working) = (worker.handle(), tokio::spawn(worker.run()));
    /// let client = Client::connect(address).await?;
    /// let function = FunctionName::try_from("shout")?;
    /// let jobs = ["one", "two"].map(|word| {
    ///     Submit::foreground(function.clone(), word, SubmitOptions::default()).expect("it is small")
    /// });
    /// let events: Vec<_> = client.submit_many(jobs).into_stream().collect().await;
    /// let completed = |event: &&(usize, _)| matches!(event.1, Ok(JobEvent::Complete(_)));
    /// assert_eq!(events.iter().filter(completed).count(), 2);
    /// handle.stop();
    /// working.await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn into_stream(self) -> impl Stream<Item = (usize, Result<JobEvent>)> {
        unfold(self, |mut many| async { Some((many.next().await?, many)) })
    }
}
