//! Pipelined requests and jobs on one client.

use std::{
    collections::{HashMap, VecDeque},
    iter::Fuse,
    time::Duration,
};

use super::{Client, client::AnswerSlot};
use queue_core::{BatchOperation as Observation, Limit};

use crate::{
    Deadline, Error, ErrorKind, JobEvent, Result, observed,
    protocol::{
        Request, Submit,
        client::{
            BatchJob, InboxItem, JobBatch, WINDOW,
            route::{may_repeat, no_server},
        },
    },
};

/// How long to listen to one of several servers before the next.
const SLICE: Duration = Duration::from_millis(1);

impl Client {
    /// Sends requests without waiting for each answer, and returns the answers in order: to submit many background
    /// jobs.
    ///
    /// The iterator is lazy: it takes requests as the window (256 in flight, see [`window`](CallMany::window)) has
    /// room, and writes many of them at once. It yields exactly one result for each request taken. A request that did
    /// not reach its server is resent, as by [`call`](Self::call); any other failure becomes its result, and the rest
    /// continues. Dropping it early is allowed: outstanding answers are read and dropped by the next call.
    ///
    /// ```
    /// # let server = fixtures::gearmand::Server::start()?;
    /// # let address = server.address();
    /// use gearman_client::{FunctionName, SubmitOptions, blocking::Client, protocol::Submit};
    ///
    /// let mut client = Client::connect(address)?;
    /// let function = FunctionName::try_from("resize")?;
    /// let submits = (0..1000).map(|n| {
    ///     Submit::background(function.clone(), format!("{n}.jpg"), SubmitOptions::default()).expect("it is small")
    /// });
    /// for submitted in client.call_many(submits) {
    ///     println!("{}", submitted?.handle);
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn call_many<I>(&mut self, requests: I) -> CallMany<'_, I::IntoIter>
    where
        I: IntoIterator<Item: Request>,
    {
        CallMany {
            boxes: ServerInboxes::new(self),
            requests: requests.into_iter().fuse(),
            in_flight: VecDeque::new(),
            early: HashMap::new(),
            window: WINDOW,
            observation: Observation::new(),
        }
    }

    /// Submits many foreground jobs at once, and returns their events as they arrive, each with the number of its job:
    /// 0 for the first of `jobs`. The first event of a job is `Created`.
    ///
    /// It takes jobs as the window (256 unfinished, see [`window`](SubmitMany::window)) has room. After an error, no
    /// further event of that job follows; the others continue. A job that did not reach its server is resubmitted, as
    /// by [`submit`](Self::submit).
    ///
    /// ```
    /// # let server = fixtures::gearmand::Server::start()?;
    /// # let address = server.address();
    /// # let mut worker = gearman_client::blocking::Worker::connect(address)?;
    /// # worker.register("up", |job| job.workload.to_ascii_uppercase())?;
    /// # let stop = worker.handle();
    /// # let thread = std::thread::spawn(|| worker.run());
    /// use gearman_client::{FunctionName, JobEvent, SubmitOptions, blocking::Client, protocol::Submit};
    ///
    /// let mut client = Client::connect(address)?;
    /// let function = FunctionName::try_from("up")?;
    /// let jobs = ["a", "b"].map(|word| {
    ///     Submit::foreground(function.clone(), word, SubmitOptions::default()).expect("it is small")
    /// });
    /// for (number, event) in client.submit_many(jobs) {
    ///     if let JobEvent::Complete(result) = event? {
    ///         assert_eq!(result, ["A", "B"][number]);
    ///     }
    /// }
    /// # stop.stop();
    /// # thread.join().expect("it does not panic")?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn submit_many<W, I>(&mut self, jobs: I) -> SubmitMany<'_, W, I::IntoIter>
    where
        W: AsRef<[u8]>,
        I: IntoIterator<Item = Submit<W>>,
    {
        let batch = JobBatch::new(self.policy().1);
        let (boxes, observation) = (ServerInboxes::new(self), Observation::new());
        SubmitMany { boxes, jobs: jobs.into_iter().fuse(), batch, turn: 0, observation }
    }
}

/// One slot for each server in use.
struct ServerInboxes<'a> {
    client: &'a mut Client,
    slots: Vec<Option<u32>>,
    tags: u32,
}

impl<'a> ServerInboxes<'a> {
    fn new(client: &'a mut Client) -> Self {
        let slots = client.links.iter().map(|_| None).collect();
        ServerInboxes { client, slots, tags: 0 }
    }

    /// Queues a request on the first connected server of its order. Returns which, and the request's tag.
    fn queue<R: Request>(&mut self, request: &R) -> Result<(usize, u32)> {
        self.tags = self.tags.wrapping_add(1);
        let ServerInboxes { client, slots, tags } = self;
        // The usual case: a single connected server.
        if let ([Some(slot)], [link]) = (slots.as_slice(), client.links.as_mut_slice())
            && link.queue_now(request, *slot, *tags)
        {
            return Ok((0, *tags));
        }
        let queued = client.on_some_server(request, false, Limit::never(), |index, link, time| {
            let slot = slots.get(index).copied().flatten();
            link.queue(request, slot, *tags, time)
        });
        let (slot, index) = queued?;
        if let Some(place) = slots.get_mut(index) {
            *place = Some(slot);
        }
        Ok((index, *tags))
    }

    fn next(&mut self, index: usize, limit: Limit) -> Result<(u32, InboxItem)> {
        let slot = self.slots.get(index).copied().flatten().ok_or_else(no_server)?;
        self.client.links.get_mut(index).ok_or_else(no_server)?.next(slot, limit)
    }

    fn decode<R: Request>(
        &mut self,
        index: usize,
        request: &R,
        item: InboxItem,
    ) -> Result<R::Reply> {
        self.client.links.get_mut(index).ok_or_else(no_server)?.decode(request, item)
    }
}

impl Drop for ServerInboxes<'_> {
    fn drop(&mut self) {
        for (link, slot) in self.slots.iter().enumerate() {
            if let Some(slot) = *slot {
                self.client.leave(AnswerSlot { link, slot });
            }
        }
    }
}

/// The answers to many requests, in the order of the requests. See [`Client::call_many`].
#[must_use = "nothing is sent until the replies are requested"]
pub struct CallMany<'a, I: Iterator> {
    boxes: ServerInboxes<'a>,
    requests: Fuse<I>,
    in_flight: VecDeque<InFlight<I::Item>>,
    /// Items for requests in flight that arrived while an earlier one was resent.
    early: HashMap<u32, InboxItem>,
    window: usize,
    observation: Observation,
}

struct InFlight<R> {
    request: R,
    /// The link that it was sent over, and its tag; or why it could not be sent.
    sent: Result<(usize, u32)>,
}

impl<I: Iterator<Item: Request>> CallMany<'_, I> {
    /// Maximum number of requests in flight; at least 1.
    pub fn window(mut self, requests: usize) -> Self {
        self.window = requests.max(1);
        self
    }

    /// Takes requests once half of the window is free, so that many go out in one write while the server works on the
    /// other half.
    fn fill(&mut self) {
        if self.in_flight.len() > self.window / 2 {
            return;
        }
        while self.in_flight.len() < self.window && self.boxes.client.queued() < ENOUGH_OUTGOING {
            let Some(request) = self.requests.next() else { break };
            let boxes = &mut self.boxes;
            self.observation.begin(|| observed::pipeline(&boxes.client.router, &request));
            self.observation.takes(1);
            let sent = self.observation.run(|| boxes.queue(&request));
            let has_failed = sent.is_err();
            self.in_flight.push_back(InFlight { request, sent });
            if has_failed {
                break;
            }
        }
        self.boxes.client.flush_all();
    }

    fn answer(&mut self, InFlight { request, sent }: InFlight<I::Item>) -> ManyAnswer<I> {
        let answer = sent.and_then(|sent| self.answer_to(&request, sent));
        self.boxes.client.count(&answer);
        observed::answered(&mut self.observation, &request, &answer);
        answer
    }

    fn answer_to(
        &mut self,
        request: &I::Item,
        (mut index, mut tag): (usize, u32),
    ) -> ManyAnswer<I> {
        let (_, mut attempts) = self.boxes.client.policy();
        loop {
            let outcome =
                self.item(index, tag).and_then(|item| self.boxes.decode(index, request, item));
            let named = |error: Error| error.with_command(request.packet_type().name());
            match outcome {
                Err(error) if may_repeat(&error, false) && attempts > 0 => {
                    attempts -= 1;
                    (index, tag) = self.boxes.queue(request).map_err(named)?;
                    self.boxes.client.flush_all();
                }
                outcome => return outcome.map_err(named),
            }
        }
    }

    /// The answer to one request. Answers to others in flight are kept for them.
    fn item(&mut self, index: usize, tag: u32) -> Result<InboxItem> {
        // There are almost never any.
        if !self.early.is_empty()
            && let Some(item) = self.early.remove(&tag)
        {
            return Ok(item);
        }
        loop {
            let (to, item) = self.boxes.next(index, Limit::never())?;
            if to == tag {
                return Ok(item);
            }
            let is_to = |one: &InFlight<_>| matches!(one.sent, Ok((_, of)) if of == to);
            if self.in_flight.iter().any(is_to) {
                // An item after an answer, such as the events of a job, is dropped.
                self.early.entry(to).or_insert(item);
            }
        }
    }
}

type ManyAnswer<I> = Result<<<I as Iterator>::Item as Request>::Reply>;

/// No further request is taken while this many bytes wait to be written.
const ENOUGH_OUTGOING: usize = 256 * 1024;

impl<I: Iterator<Item: Request>> Iterator for CallMany<'_, I> {
    type Item = ManyAnswer<I>;

    fn next(&mut self) -> Option<Self::Item> {
        self.fill();
        let head = self.in_flight.pop_front()?;
        let span = self.observation.span();
        Some(span.run(|| self.answer(head)))
    }
}

/// The events of many foreground jobs. See [`Client::submit_many`].
#[must_use = "nothing is sent until the events are requested"]
pub struct SubmitMany<'a, W, I> {
    boxes: ServerInboxes<'a>,
    jobs: Fuse<I>,
    batch: JobBatch<W>,
    /// The server to listen to first.
    turn: usize,
    observation: Observation,
}

impl<W: AsRef<[u8]>, I: Iterator<Item = Submit<W>>> SubmitMany<'_, W, I> {
    /// Maximum number of jobs in flight; at least 1.
    pub fn window(mut self, jobs: usize) -> Self {
        self.batch.set_window(jobs);
        self
    }

    fn fill(&mut self) {
        for _ in 0..self.batch.room(0) {
            if self.boxes.client.queued() >= ENOUGH_OUTGOING {
                break;
            }
            let Some(submit) = self.jobs.next() else { break };
            let boxes = &self.boxes;
            self.observation.begin(|| observed::pipeline(&boxes.client.router, &submit));
            self.observation.takes(1);
            let job = self.batch.take(submit);
            let span = self.observation.span();
            if !span.run(|| self.send(job)) {
                break;
            }
        }
        self.boxes.client.flush_all();
    }

    fn send(&mut self, job: BatchJob<W>) -> bool {
        match self.boxes.queue(&job.submit) {
            Ok((link, tag)) => {
                self.batch.sent(job, link, tag);
                true
            }
            Err(error) => {
                self.batch.failed(&job, error);
                false
            }
        }
    }

    fn receive(&mut self) -> Result<(usize, u32, InboxItem)> {
        let count = self.boxes.slots.len();
        loop {
            self.turn = self.turn.wrapping_add(1);
            for offset in 0..count {
                let index = self.turn.wrapping_add(offset) % count;
                if !self.batch.uses(index) {
                    continue;
                }
                let limit = match count {
                    1 => Limit::never(),
                    _ => Limit::of(Deadline::Total, Some(SLICE)),
                };
                match self.boxes.next(index, limit) {
                    Ok((tag, item)) => return Ok((index, tag, item)),
                    Err(error) if error.kind() == ErrorKind::Timeout(Deadline::Total) => {}
                    Err(error) => return Err(error),
                }
            }
        }
    }

    fn take(&mut self, index: usize, tag: u32, item: InboxItem) {
        let SubmitMany { boxes, batch, .. } = self;
        let again = batch.came(tag, |submit| match item {
            InboxItem::Event(event) => Ok(event),
            answer => Ok(JobEvent::Created(boxes.decode(index, submit, answer)?.handle)),
        });
        if let Some(job) = again {
            self.send(job);
            self.boxes.client.flush_all();
        }
    }

    fn next_event(&mut self) -> Option<(usize, Result<JobEvent>)> {
        loop {
            if let Some(event) = self.batch.next() {
                return Some(event);
            }
            self.fill();
            if self.batch.is_idle() {
                return self.batch.next();
            }
            match self.receive() {
                Ok((index, tag, item)) => self.take(index, tag, item),
                // The end of the connection was already reported to every job; this ends any that was missed.
                Err(error) => self.batch.lost(&error),
            }
        }
    }
}

impl<W: AsRef<[u8]>, I: Iterator<Item = Submit<W>>> Iterator for SubmitMany<'_, W, I> {
    type Item = (usize, Result<JobEvent>);

    fn next(&mut self) -> Option<Self::Item> {
        let span = self.observation.span();
        span.run(|| {
            let (number, event) = self.next_event()?;
            self.boxes.client.count(&event);
            observed::event(&mut self.observation, &event);
            Some((number, event))
        })
    }
}
