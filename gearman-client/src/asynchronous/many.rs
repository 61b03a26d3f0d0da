//! Pipelined requests and jobs, async.

use std::{
    collections::VecDeque,
    future::poll_fn,
    iter::Fuse,
    task::{Context, Poll, ready},
};

use tokio::task::consume_budget;

use queue_core::{BatchOperation as Observation, Limit, now};

use crate::{
    Client, Epoch, JobEvent, Origin, Result,
    asynchronous::link::CallerInbox,
    observed,
    protocol::{
        Request, Submit,
        client::{
            BatchJob, InboxItem, JobBatch, UnreadItems, WINDOW,
            route::{may_repeat, no_server},
        },
    },
};

impl Client {
    /// Sends requests without waiting for each answer, and returns the answers in order: to submit many background
    /// jobs.
    ///
    /// It is lazy: it takes requests as the window (256 in flight, see [`window`](CallMany::window)) has room, and
    /// writes many of them at once. It yields exactly one result for each request taken. A request that did not reach
    /// its server is resent, as by [`call`](Self::call); any other failure becomes its result, and the rest continues.
    /// Dropping it early is allowed: outstanding answers are discarded.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = fixtures::gearmand::Server::start()?;
    /// # let address = server.address();
    /// use gearman_client::{Client, FunctionName, SubmitOptions, protocol::Submit};
    ///
    /// let client = Client::connect(address).await?;
    /// let function = FunctionName::try_from("resize")?;
    /// let submits = (0..1000).map(|n| {
    ///     Submit::background(function.clone(), format!("{n}.jpg"), SubmitOptions::default()).expect("it is small")
    /// });
    /// let mut answers = client.call_many(submits);
    /// while let Some(submitted) = answers.next().await {
    ///     println!("{}", submitted?.handle);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn call_many<I>(&self, requests: I) -> CallMany<I::IntoIter>
    where
        I: IntoIterator<Item: Request>,
    {
        CallMany {
            boxes: ServerInboxes::new(self),
            requests: requests.into_iter().fuse(),
            in_flight: VecDeque::new(),
            unsent: 0,
            window: WINDOW,
            tags: 0,
            observation: Observation::new(),
        }
    }

    /// Submits many foreground jobs at once, and returns their events as they arrive, each with the number of its job:
    /// 0 for the first of `jobs`. The first event of a job is `Created`.
    ///
    /// It takes jobs as the window (256 unfinished, see [`window`](SubmitMany::window)) has room. After an error, no
    /// further event of that job follows; the others continue. A job that did not reach its server is resubmitted, as
    /// by [`submit`](Self::submit).
    pub fn submit_many<W, I>(&self, jobs: I) -> SubmitMany<W, I::IntoIter>
    where
        W: AsRef<[u8]>,
        I: IntoIterator<Item = Submit<W>>,
    {
        SubmitMany {
            boxes: ServerInboxes::new(self),
            jobs: jobs.into_iter().fuse(),
            unsent: VecDeque::new(),
            batch: JobBatch::new(self.policy().1),
            tags: 0,
            observation: Observation::new(),
        }
    }
}

/// One inbox for each server in use.
struct ServerInboxes {
    client: Client,
    boxes: Vec<Option<ServerInbox>>,
    /// The one to check first.
    turn: usize,
}

/// An inbox, and the items taken out of it in one step.
struct ServerInbox {
    inbox: CallerInbox,
    unread: UnreadItems<(u32, Epoch)>,
    /// The origin of the last item.
    origin: Origin,
}

impl ServerInbox {
    fn new(inbox: CallerInbox) -> Self {
        let origin = inbox.link.origin(inbox.link.epoch());
        ServerInbox { inbox, unread: UnreadItems::new(), origin }
    }

    /// The next item, and the tag of its request. It came from [`origin`](Self::origin).
    fn poll_next(&mut self, cx: &Context<'_>) -> Poll<(u32, InboxItem)> {
        if self.unread.is_empty() {
            ready!(self.inbox.poll_all(&mut self.unread, cx));
        }
        let Some(((tag, epoch), item)) = self.unread.pop_front() else { return Poll::Pending };
        if epoch != self.origin.epoch {
            self.origin = self.inbox.link.origin(epoch);
        }
        Poll::Ready((tag, item))
    }

    fn decode<R: Request>(&self, request: &R, item: InboxItem) -> Result<R::Reply> {
        self.inbox.link.decode(request, &self.origin, item)
    }
}

impl ServerInboxes {
    fn new(client: &Client) -> Self {
        let boxes = client.inner.links.iter().map(|_| None).collect();
        ServerInboxes { client: client.clone(), boxes, turn: 0 }
    }

    /// Queues a run of requests if there is one connected server; returns the number queued.
    fn send_run<'r, R: Request + 'r>(&self, run: impl Iterator<Item = (&'r R, u32)>) -> usize {
        match self.boxes.as_slice() {
            [Some(only)] => only.inbox.send(run),
            _ => 0,
        }
    }

    /// Queues a request on the first server of its order that accepts it. If it is dropped before it is ready, it has
    /// queued nothing.
    async fn send<R: Request>(&mut self, request: &R, tag: u32) -> Result<usize> {
        let client = self.client.clone();
        let mut route = client.route(client.next_order(request)?, false, Limit::never());
        loop {
            let (index, link) = route.next().await?;
            let Some(place) = self.boxes.get_mut(index) else { return Err(no_server()) };
            loop {
                let run = std::iter::once((request, tag));
                if place.as_ref().is_some_and(|place| place.inbox.send(run) > 0) {
                    return Ok(index);
                }
                // Waits for a connection with room. One inbox serves all connections of the link.
                let limit = match link.is_connected() {
                    true => Limit::never(),
                    false => route.time(now()).connecting,
                };
                match link.inbox(limit).await {
                    Ok(inbox) => {
                        place.get_or_insert_with(|| ServerInbox::new(inbox));
                    }
                    Err(error) => {
                        route.attempts.failed(index, error, now())?;
                        break;
                    }
                }
            }
        }
    }

    fn get(&mut self, index: usize) -> Result<&mut ServerInbox> {
        self.boxes.get_mut(index).and_then(Option::as_mut).ok_or_else(no_server)
    }

    fn poll_any(&mut self, cx: &Context<'_>) -> Poll<(usize, u32, InboxItem)> {
        let count = self.boxes.len();
        self.turn = self.turn.wrapping_add(1);
        for offset in 0..count {
            let index = self.turn.wrapping_add(offset) % count;
            let Ok(one) = self.get(index) else { continue };
            if let Poll::Ready((tag, item)) = one.poll_next(cx) {
                return Poll::Ready((index, tag, item));
            }
        }
        Poll::Pending
    }
}

/// The answers to many requests, in the order of the requests. See [`Client::call_many`].
#[must_use = "nothing is sent until the replies are requested"]
pub struct CallMany<I: Iterator> {
    boxes: ServerInboxes,
    requests: Fuse<I>,
    in_flight: VecDeque<InFlight<I::Item>>,
    /// Number of requests at its end that are not sent yet.
    unsent: usize,
    window: usize,
    tags: u32,
    observation: Observation,
}

struct InFlight<R> {
    request: R,
    tag: u32,
    /// The link that it was sent over, or the first while that is unknown; or why it could not be sent.
    sent: Result<usize>,
}

impl<I: Iterator<Item: Request>> CallMany<I> {
    /// Maximum number of requests in flight; at least 1.
    pub fn window(mut self, requests: usize) -> Self {
        self.window = requests.max(1);
        self
    }

    /// The next answer; `None` after the last one.
    ///
    /// # Errors
    ///
    /// Each result is that of its own request; see [`Client::call_many`].
    ///
    /// # Cancel safety
    ///
    /// A dropped `next` loses nothing, unless it was resending a request that had not reached its server.
    pub async fn next(&mut self) -> Option<Result<<I::Item as Request>::Reply>> {
        // Lets other tasks run even if answers arrive faster than they are read.
        consume_budget().await;
        self.fill();
        let span = self.observation.span();
        span.follow(self.next_answer()).await
    }

    async fn next_answer(&mut self) -> Option<Result<<I::Item as Request>::Reply>> {
        self.send().await;
        let item = self.item().await?;
        let InFlight { request, sent, .. } = self.in_flight.pop_front()?;
        let outcome = sent
            .and_then(|index| self.boxes.get(index)?.decode(&request, item.ok_or_else(no_server)?));
        let outcome = match outcome {
            Err(error) if may_repeat(&error, false) => {
                match self.boxes.client.calling(&request, false, Limit::never()) {
                    Ok(call) => call.await,
                    Err(error) => Err(error),
                }
            }
            outcome => outcome.map_err(|error| error.with_command(request.packet_type().name())),
        };
        self.boxes.client.count(&outcome);
        observed::answered(&mut self.observation, &request, &outcome);
        Some(outcome)
    }

    /// Takes requests once half of the window is free, so that many go out in one write while the server works on the
    /// other half.
    fn fill(&mut self) {
        if self.in_flight.len() > self.window / 2 {
            return;
        }
        while self.in_flight.len() < self.window {
            let Some(request) = self.requests.next() else { return };
            let client = &self.boxes.client;
            self.observation.begin(|| observed::pipeline(&client.inner.router, &request));
            self.observation.takes(1);
            self.tags = self.tags.wrapping_add(1);
            self.in_flight.push_back(InFlight { request, tag: self.tags, sent: Ok(0) });
            self.unsent += 1;
        }
    }

    async fn send(&mut self) {
        while self.unsent > 0 {
            let from = self.in_flight.len() - self.unsent;
            let run = self.in_flight.range(from..).map(|one| (&one.request, one.tag));
            self.unsent -= match self.boxes.send_run(run) {
                0 => {
                    let Some(next) = self.in_flight.get_mut(from) else { return };
                    next.sent = self.boxes.send(&next.request, next.tag).await;
                    1
                }
                sent => sent,
            };
        }
    }

    /// The items of the oldest request, or `Some(None)` if it could not be sent; `None` when there is no request.
    async fn item(&mut self) -> Option<Option<InboxItem>> {
        let InFlight { tag, sent, .. } = self.in_flight.front()?;
        let place = sent.as_ref().ok().and_then(|index| self.boxes.get(*index).ok());
        let Some(place) = place else { return Some(None) };
        loop {
            let (to, item) = poll_fn(|cx| place.poll_next(cx)).await;
            if to == *tag {
                return Some(Some(item));
            }
        }
    }
}

/// The events of many foreground jobs. See [`Client::submit_many`].
#[must_use = "nothing is sent until the events are requested"]
pub struct SubmitMany<W, I> {
    boxes: ServerInboxes,
    jobs: Fuse<I>,
    /// Jobs that were taken and not sent yet.
    unsent: VecDeque<BatchJob<W>>,
    batch: JobBatch<W>,
    tags: u32,
    observation: Observation,
}

impl<W: AsRef<[u8]>, I: Iterator<Item = Submit<W>>> SubmitMany<W, I> {
    /// Maximum number of jobs in flight; at least 1.
    pub fn window(mut self, jobs: usize) -> Self {
        self.batch.set_window(jobs);
        self
    }

    /// The next event of any job, with the job's number; `None` when all have ended.
    ///
    /// # Errors
    ///
    /// Each result is that of its own job; see [`Client::submit_many`].
    ///
    /// # Cancel safety
    ///
    /// A dropped `next` loses nothing: the next call returns the event.
    pub async fn next(&mut self) -> Option<(usize, Result<JobEvent>)> {
        if !self.observation.is_begun() {
            self.fill();
        }
        let span = self.observation.span();
        span.follow(self.next_observed()).await
    }

    async fn next_observed(&mut self) -> Option<(usize, Result<JobEvent>)> {
        let (number, event) = self.next_event().await?;
        self.boxes.client.count(&event);
        observed::event(&mut self.observation, &event);
        Some((number, event))
    }

    async fn next_event(&mut self) -> Option<(usize, Result<JobEvent>)> {
        loop {
            // Lets other tasks run even if events arrive faster than they are read.
            consume_budget().await;
            if let Some(event) = self.batch.next() {
                return Some(event);
            }
            self.fill();
            self.send().await;
            if self.batch.has_next() {
                continue;
            }
            if self.batch.is_idle() && self.unsent.is_empty() {
                return None;
            }
            let boxes = &mut self.boxes;
            let (index, tag, item) = poll_fn(|cx| boxes.poll_any(cx)).await;
            self.take(index, tag, item);
        }
    }

    fn fill(&mut self) {
        for submit in self.jobs.by_ref().take(self.batch.room(self.unsent.len())) {
            let client = &self.boxes.client;
            self.observation.begin(|| observed::pipeline(&client.inner.router, &submit));
            self.observation.takes(1);
            self.unsent.push_back(self.batch.take(submit));
        }
    }

    async fn send(&mut self) {
        while !self.unsent.is_empty() {
            let first = self.tags.wrapping_add(1);
            let tags = std::iter::successors(Some(first), |tag| Some(tag.wrapping_add(1)));
            let run = self.unsent.iter().map(|job| &job.submit).zip(tags);
            let sent = self.boxes.send_run(run);
            for job in self.unsent.drain(..sent) {
                self.tags = self.tags.wrapping_add(1);
                self.batch.sent(job, 0, self.tags);
            }
            if sent > 0 {
                continue;
            }
            let Some(next) = self.unsent.front() else { return };
            self.tags = first;
            let outcome = self.boxes.send(&next.submit, self.tags).await;
            let Some(job) = self.unsent.pop_front() else { return };
            match outcome {
                Ok(link) => self.batch.sent(job, link, self.tags),
                Err(error) => self.batch.failed(&job, error),
            }
        }
    }

    fn take(&mut self, index: usize, tag: u32, item: InboxItem) {
        let SubmitMany { boxes, batch, unsent, .. } = self;
        let again = batch.came(tag, |submit| match item {
            InboxItem::Event(event) => Ok(event),
            answer => Ok(JobEvent::Created(boxes.get(index)?.decode(submit, answer)?.handle)),
        });
        unsent.extend(again);
    }
}
