//! Jobs, events and results of the async face as streams.

use queue_core::{EventStream, Steps, yields_steps};

use crate::{
    CallMany, ClientEvent, ConnectOptions, GrabbedJob, Job, JobEvent, Result, SubmitMany, Worker,
    protocol::{Request, Submit},
};

impl Worker {
    /// The jobs of functions that were announced with [`can_do`](Self::can_do), as a [`Stream`](queue_core::Stream):
    /// what [`next_job`](Self::next_job) gives, until the worker's [handle](Self::handle) stops it or there are no more
    /// ([`until_empty`](crate::WorkerOptions::until_empty)).
    ///
    /// Up to [`slots`](crate::WorkerOptions::slots) jobs of each connection can be held at once. [`stop`](Self::stop)
    /// the worker behind the stream, so that results are known to be accepted.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = fixtures::gearmand::Server::start()?;
    /// # let address = server.address();
    /// use futures_util::StreamExt;
    /// use gearman_client::{Client, SubmitOptions, Worker};
    ///
    /// let client = Client::connect(address).await?;
    /// client.submit_background("shout", "hello", SubmitOptions::default()).await?;
    /// let mut worker = Worker::connect(address).await?;
    /// worker.can_do("shout", None)?;
    /// let handle = worker.handle();
    /// let mut jobs = worker.jobs();
    /// while let Some(job) = jobs.next().await {
    ///     let result = job.workload.to_ascii_uppercase();
    ///     job.complete(result).await?;
    ///     handle.stop();
    /// }
    /// drop(jobs);
    /// assert_eq!(worker.stop().await.completed, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn jobs(&mut self) -> JobStream<'_> {
        JobStream(Steps::new(self, |worker| async {
            let job = worker.next_until_stopped().await?;
            Some((job, worker))
        }))
    }
}

/// The manually taken jobs of a worker. See [`Worker::jobs`].
///
/// # Cancel safety
///
/// No job is lost when the stream, or a wait for its next job, is dropped: a job that comes after all is given by the
/// next call of [`next_job`](Worker::next_job), or by the next stream. A job that was yielded is the caller's: dropped
/// without an end, it is failed; [`give_back`](GrabbedJob::give_back) gives it back.
#[derive(Debug)]
#[must_use = "no job is asked for until it is polled"]
pub struct JobStream<'a>(Steps<'a, GrabbedJob>);

yields_steps!(JobStream<'_>, GrabbedJob);

impl ConnectOptions {
    /// The events of clients that concern this server as a stream, for their own task: what
    /// [`on_event`](Self::on_event) is told, besides other observers.
    ///
    /// It keeps up to `capacity` events, never delays a client, and counts those that its reader
    /// [missed](EventStream::missed). It ends when these options and all clients made from them are dropped.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = fixtures::gearmand::Server::start()?;
    /// # let address = server.address();
    /// use futures_util::StreamExt;
    /// use gearman_client::{Client, ClientEventKind, ConnectOptions};
    ///
    /// let options: ConnectOptions = address.parse()?;
    /// let (options, mut events) = options.event_stream(64);
    /// let client = Client::connect(options).await?;
    /// let first = events.next().await.expect("the client is there");
    /// assert!(matches!(first.what, ClientEventKind::Connected));
    /// # drop(client);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn event_stream(mut self, capacity: usize) -> (Self, EventStream<ClientEvent>) {
        let (observer, events) = EventStream::new(capacity);
        self.observer = Some(observer.after(self.observer));
        (self, events)
    }
}

impl Job {
    /// The events as a [`Stream`](queue_core::Stream) of what [`next`](Self::next) returns.
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
    /// worker.register("shout", |job| async move { job.workload.to_ascii_uppercase() })?;
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
    pub fn into_stream(self) -> JobEventStream {
        let next = |mut job: Self| async { Some((job.next().await?, job)) };
        JobEventStream(Steps::new(self, next))
    }
}

/// The events of a foreground job. See [`Job::into_stream`].
///
/// # Cancel safety
///
/// A dropped wait loses nothing. If the stream is dropped, the job continues, and its events are discarded, as for
/// [`Job`].
#[derive(Debug)]
#[must_use = "the events of the job are read through it"]
pub struct JobEventStream(Steps<'static, Result<JobEvent>>);

yields_steps!(JobEventStream, Result<JobEvent>);

impl<I: Iterator<Item: Request>> CallMany<I> {
    /// The answers as a [`Stream`](queue_core::Stream) of what [`next`](Self::next) returns.
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
    pub fn into_stream<'a>(self) -> CallManyStream<'a, <I::Item as Request>::Reply>
    where
        I: Send + 'a,
        I::Item: Send + Sync,
        <I::Item as Request>::Reply: Send,
    {
        let next = |mut many: Self| async { Some((many.next().await?, many)) };
        CallManyStream(Steps::new(self, next))
    }
}

/// The answers `R` to many requests, in the order of the requests. See [`CallMany::into_stream`].
///
/// # Cancel safety
///
/// A dropped wait loses nothing. When the stream is dropped, requests in flight may be carried out, and their answers
/// are discarded.
#[derive(Debug)]
#[must_use = "nothing is sent until it is polled"]
pub struct CallManyStream<'a, R>(Steps<'a, Result<R>>);

yields_steps!(CallManyStream<'_, R>, Result<R>, R);

impl<W, I> SubmitMany<W, I>
where
    W: AsRef<[u8]>,
    I: Iterator<Item = Submit<W>>,
{
    /// The events as a [`Stream`](queue_core::Stream) of what [`next`](Self::next) returns.
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
    /// worker.register("shout", |job| async move { job.workload.to_ascii_uppercase() })?;
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
    pub fn into_stream<'a>(self) -> SubmitManyStream<'a>
    where
        W: Send + Sync + 'a,
        I: Send + 'a,
    {
        let next = |mut many: Self| async { Some((many.next().await?, many)) };
        SubmitManyStream(Steps::new(self, next))
    }
}

/// The events of many foreground jobs, each with the number of its job. See [`SubmitMany::into_stream`].
///
/// # Cancel safety
///
/// A dropped wait loses nothing. When the stream is dropped, jobs in flight continue, and their events are discarded.
#[derive(Debug)]
#[must_use = "nothing is sent until it is polled"]
pub struct SubmitManyStream<'a>(Steps<'a, (usize, Result<JobEvent>)>);

yields_steps!(SubmitManyStream<'_>, (usize, Result<JobEvent>));
