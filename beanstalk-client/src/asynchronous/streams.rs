//! Jobs, events and results of the async face as streams.

use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Instant,
};

use futures_core::Stream;
use queue_core::{Backoff, EventStream, Operation, Steps, now, yields_steps};
use tokio::time::{Sleep, sleep};

use crate::{
    CallMany, Client, Inserted, JobList, JobStats, ProducerEvent, ProducerOptions, PutMany,
    Reserved, Result,
    protocol::{Command, ReserveWithTimeout},
    trace,
    work::options::RESERVE_WAIT,
};

impl Client {
    /// The jobs of the watched tubes as a [`Stream`]: one `reserve-with-timeout` after the other, without those that
    /// time out.
    ///
    /// Jobs are settled by the client that reserved them, which the stream lends: [`ReserveStream::client`]. It yields
    /// [`DeadlineSoon`](Reserved::DeadlineSoon) only to a caller that holds jobs while it waits for the next one. For
    /// several jobs at once, and jobs that take long, use a [`Worker`](crate::Worker).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = fixtures::beanstalkd::Server::start()?;
    /// # let address = server.address();
    /// use beanstalk_client::{Client, PutOptions, Reserved};
    /// use futures_util::TryStreamExt;
    ///
    /// let mut client = Client::connect(address).await?;
    /// # let _ = client.put("hello", PutOptions::default()).await?;
    /// let mut jobs = client.reserve_stream();
    /// while let Some(Reserved::Job(job)) = jobs.try_next().await? {
    ///     println!("{}", String::from_utf8_lossy(&job.body));
    ///     jobs.client().delete(&job).await?;
    /// #   break;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "JobStream")]
    pub fn reserve_stream(&mut self) -> ReserveStream<'_> {
        let delays = self.role.options.retry.delays();
        ReserveStream { client: self, reserving: None, delays, pause: None, is_over: false }
    }
}

/// The jobs of a client's watched tubes. See [`Client::reserve_stream`].
///
/// It ends after an error, whose [`fate`](crate::Error::fate) shows whether the reserve took effect.
/// [`Client::reserve_stream`] starts a new stream.
///
/// # Cancel safety
///
/// No job is lost when the stream, or a wait for its next job, is dropped: the reserve stays in flight as after a
/// dropped [`reserve`](Client::reserve), and a job that comes after all is given to the next one, of the stream or of
/// the client. Commands of the client before that end the wait on the server, as described there, and a connection that
/// ends with it gives back the jobs that it held: settle a job before waiting for the next one. Jobs that were yielded
/// and not settled stay reserved by the client until their time to run expires.
#[must_use = "nothing is reserved until it is polled"]
pub struct ReserveStream<'a> {
    client: &'a mut Client,
    /// The reserve in flight, and since when.
    reserving: Option<(Operation, Instant)>,
    /// After a reserve that the server ended early, and would end early again.
    delays: Backoff,
    pause: Option<Pin<Box<Sleep>>>,
    is_over: bool,
}

impl ReserveStream<'_> {
    /// The client, to settle jobs with.
    pub fn client(&mut self) -> &mut Client {
        // What it does drops the reserve, if one is in flight.
        self.reserving = None;
        self.client
    }

    /// The outcome of a reserve, and whether the server took its time for it.
    fn poll_reserved(&mut self, cx: &mut Context<'_>) -> Poll<(Result<Reserved>, bool)> {
        let is_long = |since| now().saturating_duration_since(since) >= RESERVE_WAIT / 2;
        let outcome = ready!(self.poll_outcome(cx));
        let waited = self.reserving.take().is_none_or(|(_, since)| is_long(since));
        Poll::Ready((outcome, waited))
    }

    fn poll_outcome(&mut self, cx: &mut Context<'_>) -> Poll<Result<Reserved>> {
        let command = ReserveWithTimeout::new(RESERVE_WAIT)?;
        let ReserveStream { client, reserving, .. } = self;
        let (operation, _) = match reserving {
            Some(begun) => begun,
            None => {
                let operation = trace::command(&client.role, &command);
                operation.run(|| client.role.begin(&command));
                reserving.insert((operation, now()))
            }
        };
        let span = operation.span().clone();
        span.run(|| {
            let reply = ready!(client.poll_reply(cx));
            Poll::Ready(client.role.conclude(&command, reply, operation))
        })
    }
}

impl Stream for ReserveStream<'_> {
    type Item = Result<Reserved>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        if this.is_over {
            return Poll::Ready(None);
        }
        if let Some(pause) = &mut this.pause {
            ready!(pause.as_mut().poll(cx));
            this.pause = None;
        }
        let (reserved, waited) = ready!(this.poll_reserved(cx));
        if let Ok(Reserved::TimedOut) = reserved {
            if waited {
                this.delays.reset();
            } else {
                // It would repeat this forever, thousands of times a second.
                this.pause = Some(Box::pin(sleep(this.delays.next_delay())));
            }
            // Left to the next poll, so that other tasks get their turn.
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        this.delays.reset();
        this.is_over = reserved.is_err();
        Poll::Ready(Some(reserved))
    }
}

impl fmt::Debug for ReserveStream<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReserveStream")
            .field("client", self.client)
            .field("is_waiting", &self.reserving.is_some())
            .finish_non_exhaustive()
    }
}

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
    /// # let server = fixtures::beanstalkd::Server::start()?;
    /// # let address = server.address();
    /// use beanstalk_client::{Producer, ProducerEventKind, ProducerOptions, PutOptions};
    /// use futures_util::StreamExt;
    ///
    /// let options: ProducerOptions = address.parse()?;
    /// let (options, mut events) = options.event_stream(64);
    /// let producer = Producer::connect(options).await?;
    /// let _ = producer.put("mail", "hello", PutOptions::default()).await?;
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

impl<'a, I> PutMany<'a, I>
where
    I: Iterator<Item: AsRef<[u8]> + Send + Sync> + Send + 'a,
{
    /// The answers as a [`Stream`] of what [`next`](Self::next) returns.
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
    pub fn into_stream(self) -> PutManyStream<'a> {
        let next = |mut many: Self| async { Some((many.next().await?, many)) };
        PutManyStream(Steps::new(self, next))
    }
}

/// The answers to many puts, in order. See [`PutMany::into_stream`].
///
/// # Cancel safety
///
/// A dropped wait loses nothing. When the stream is dropped, puts already taken are still carried out.
#[derive(Debug)]
#[must_use = "nothing is put until it is polled"]
pub struct PutManyStream<'a>(Steps<'a, Result<Inserted>>);

yields_steps!(PutManyStream<'_>, Result<Inserted>);

impl<'a, I> CallMany<'a, I>
where
    I: Iterator<Item: Command<Reply: Send> + Send> + Send + 'a,
{
    /// The replies as a [`Stream`] of what [`next`](Self::next) returns.
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
    pub fn into_stream(self) -> CallManyStream<'a, <I::Item as Command>::Reply> {
        let next = |mut many: Self| async { Some((many.next().await?, many)) };
        CallManyStream(Steps::new(self, next))
    }
}

/// The replies `R` of a pipeline, in the order of its commands. See [`CallMany::into_stream`].
///
/// # Cancel safety
///
/// A dropped wait loses nothing. When the stream is dropped, outstanding replies are read and dropped by the next call,
/// and jobs among them are offered to the next reserve.
#[derive(Debug)]
#[must_use = "nothing is sent until it is polled"]
pub struct CallManyStream<'a, R>(Steps<'a, Result<R>>);

yields_steps!(CallManyStream<'_, R>, Result<R>, R);

impl<'a> JobList<'a> {
    /// The jobs as a [`Stream`] of what [`next`](Self::next) returns.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = fixtures::beanstalkd::Server::start()?;
    /// # let address = server.address();
    /// use beanstalk_client::{Client, JobState};
    /// use futures_util::TryStreamExt;
    ///
    /// let mut client = Client::connect(address).await?;
    /// let oldest = client.jobs(JobState::Ready).into_stream();
    /// let oldest = oldest.try_fold(0, |oldest, job| async move { Ok(oldest.max(job.age)) }).await?;
    /// # assert_eq!(oldest, 0);
    /// # Ok(())
    /// # }
    /// ```
    pub fn into_stream(self) -> JobListStream<'a> {
        JobListStream(Steps::new(self, |mut list: Self| async { Some((list.next().await?, list)) }))
    }
}

/// The jobs of a listing. See [`JobList::into_stream`].
///
/// # Cancel safety
///
/// A dropped wait loses nothing. The stream may be dropped at any time; the next call skips outstanding replies.
#[derive(Debug)]
#[must_use = "nothing is asked until it is polled"]
pub struct JobListStream<'a>(Steps<'a, Result<JobStats>>);

yields_steps!(JobListStream<'_>, Result<JobStats>);
