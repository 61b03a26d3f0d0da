//! Many requests in flight on one client.

use std::{
    collections::{HashMap, VecDeque},
    time::Duration,
};

use super::Client;
use crate::{
    Deadline, Error, Fate, JobEvent, JobHandle, Result,
    deadline::Limit,
    keys::Keys,
    protocol::{Request, Submit, client::Mail},
    route::{may_repeat, no_server},
};

/// How many requests may be in flight unless the caller says otherwise.
pub(crate) const WINDOW: usize = 256;

/// How long one of several servers is listened to before the next.
const SLICE: Duration = Duration::from_millis(1);

impl Client {
    /// Sends requests without waiting for each answer, and gives the answers in order: to submit many background jobs.
    ///
    /// The iterator is lazy: it takes requests as the window (256 in flight, see [`window`](CallMany::window)) has room,
    /// and writes many of them at once. It gives exactly one result for each request it took. A request that did not
    /// reach its server is sent again as [`call`](Self::call) does; another failure is given as its result, and the rest
    /// goes on. Dropping it early is allowed: answers under way are read and dropped by the next call.
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
            client: self,
            requests: requests.into_iter(),
            in_flight: VecDeque::new(),
            early: HashMap::new(),
            window: WINDOW,
        }
    }

    /// Submits foreground jobs, many at a time, and gives their events as they come, each with the number of its job:
    /// 0 for the first of `jobs`. The first event of a job is `Created`.
    ///
    /// It takes jobs as the window (256 not ended, see [`window`](SubmitMany::window)) has room. After an error no further
    /// event of its job comes; the others go on. A job that did not reach its server is submitted again as
    /// [`submit`](Self::submit) does.
    ///
    /// ```
    /// # let server = fixtures::gearmand::Server::start()?;
    /// # let address = server.address();
    /// # let mut worker = gearman_client::blocking::Worker::connect(address)?;
    /// # worker.register("up", |job| Ok(job.workload.to_ascii_uppercase()))?;
    /// # let stop = worker.stop_handle();
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
        SubmitMany {
            client: self,
            jobs: jobs.into_iter(),
            running: HashMap::default(),
            ready: VecDeque::new(),
            window: WINDOW,
            taken: 0,
            turn: 0,
        }
    }

    /// Queues a request on the first server of its order that has a connection.
    fn queue<R: Request>(&mut self, request: &R, token: u64) -> Result<usize> {
        let (_, index) =
            self.on_some_server(request.route(), false, Limit::never(), |link, total| {
                link.make_ready(total)?;
                link.send(request, token);
                Ok(())
            })?;
        Ok(index)
    }
}

/// The answers to many requests, in the order of the requests. See [`Client::call_many`].
#[must_use = "nothing is sent until answers are asked for"]
pub struct CallMany<'a, I: Iterator> {
    client: &'a mut Client,
    requests: I,
    in_flight: VecDeque<InFlight<I::Item>>,
    /// What came for requests in flight while an earlier one was sent again.
    early: HashMap<u64, Mail>,
    window: usize,
}

struct InFlight<R> {
    request: R,
    /// Over which link, and with which token; or why it could not be sent.
    sent: Result<(usize, u64)>,
}

impl<I: Iterator<Item: Request>> CallMany<'_, I> {
    /// How many requests may be in flight; at least 1.
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
        while self.in_flight.len() < self.window && self.client.outgoing() < ENOUGH_OUTGOING {
            let Some(request) = self.requests.next() else { break };
            let token = self.client.token();
            let sent = self.client.queue(&request, token).map(|link| (link, token));
            let has_failed = sent.is_err();
            self.in_flight.push_back(InFlight { request, sent });
            if has_failed {
                break;
            }
        }
        self.client.flush_all();
    }

    fn answer(&mut self, InFlight { request, sent }: InFlight<I::Item>) -> Answer<I> {
        let (mut index, mut token) = sent?;
        let (_, mut attempts) = self.client.policy();
        loop {
            let outcome = self.mail(index, token).and_then(|mail| {
                let link = self.client.links.get_mut(index).ok_or_else(no_server)?;
                link.decode(&request, mail)
            });
            let named = |error: Error| error.with_command(request.packet_type().name());
            match outcome {
                Err(error) if may_repeat(&error, false) && attempts > 0 => {
                    attempts -= 1;
                    token = self.client.token();
                    index = self.client.queue(&request, token).map_err(named)?;
                    self.client.flush_all();
                }
                outcome => return outcome.map_err(named),
            }
        }
    }

    /// The answer to one request. Those to others in flight are kept for them.
    fn mail(&mut self, index: usize, token: u64) -> Result<Mail> {
        // Nearly always there are none.
        if !self.early.is_empty()
            && let Some(mail) = self.early.remove(&token)
        {
            return Ok(mail);
        }
        let link = self.client.links.get_mut(index).ok_or_else(no_server)?;
        loop {
            match link.next(Limit::never()) {
                Ok((to, mail)) if to == token => return Ok(mail),
                Ok((to, mail)) => {
                    let is_to = |one: &InFlight<_>| matches!(one.sent, Ok((_, of)) if of == to);
                    if self.in_flight.iter().any(is_to) {
                        self.early.insert(to, mail);
                    }
                }
                Err(error) => return Err(error.with_fate(Fate::Unknown)),
            }
        }
    }
}

type Answer<I> = Result<<<I as Iterator>::Item as Request>::Reply>;

/// No further request is taken while so many bytes wait to be written.
const ENOUGH_OUTGOING: usize = 256 * 1024;

impl<I: Iterator<Item: Request>> Iterator for CallMany<'_, I> {
    type Item = Answer<I>;

    fn next(&mut self) -> Option<Self::Item> {
        self.fill();
        let head = self.in_flight.pop_front()?;
        let answer = self.answer(head);
        self.client.count(&answer);
        Some(answer)
    }
}

/// The events of many foreground jobs. See [`Client::submit_many`].
#[must_use = "nothing is sent until events are asked for"]
pub struct SubmitMany<'a, W, I> {
    client: &'a mut Client,
    jobs: I,
    /// The jobs that have not ended, by token.
    running: HashMap<u64, Running<W>, Keys>,
    ready: VecDeque<(usize, Result<JobEvent>)>,
    window: usize,
    taken: usize,
    /// Which server is listened to first.
    turn: usize,
}

struct Running<W> {
    number: usize,
    submit: Submit<W>,
    handle: Option<JobHandle>,
    link: usize,
    /// How often it may be sent again.
    attempts: u32,
}

impl<W: AsRef<[u8]>, I: Iterator<Item = Submit<W>>> SubmitMany<'_, W, I> {
    /// How many jobs may be under way; at least 1.
    pub fn window(mut self, jobs: usize) -> Self {
        self.window = jobs.max(1);
        self
    }

    fn fill(&mut self) {
        if self.running.len() > self.window / 2 {
            return;
        }
        while self.running.len() < self.window && self.client.outgoing() < ENOUGH_OUTGOING {
            let Some(submit) = self.jobs.next() else { break };
            let number = self.taken;
            self.taken += 1;
            let (_, attempts) = self.client.policy();
            if !self.send(Running { number, submit, handle: None, link: 0, attempts }) {
                break;
            }
        }
        self.client.flush_all();
    }

    fn send(&mut self, mut job: Running<W>) -> bool {
        let token = self.client.token();
        match self.client.queue(&job.submit, token) {
            Ok(link) => {
                job.link = link;
                self.running.insert(token, job);
                true
            }
            Err(error) => {
                self.ready.push_back((job.number, Err(named(error, &job))));
                false
            }
        }
    }

    /// Waits for mail of any server.
    fn receive(&mut self) -> Result<(usize, u64, Mail)> {
        let count = self.client.links.len();
        loop {
            self.turn = self.turn.wrapping_add(1);
            for offset in 0..count {
                let index = self.turn.wrapping_add(offset) % count;
                if !self.running.values().any(|job| job.link == index) {
                    continue;
                }
                let Some(link) = self.client.links.get_mut(index) else { continue };
                let limit = match count {
                    1 => Limit::never(),
                    _ => Limit::of(Deadline::Total, Some(SLICE)),
                };
                match link.next(limit) {
                    Ok((token, mail)) => return Ok((index, token, mail)),
                    Err(error) if error.kind() == crate::ErrorKind::Timeout(Deadline::Total) => {}
                    Err(error) => return Err(error.with_fate(Fate::Unknown)),
                }
            }
        }
    }

    fn take(&mut self, index: usize, token: u64, mail: Mail) {
        let Some(mut job) = self.running.remove(&token) else { return };
        let event = match mail {
            Mail::Event(event) => Ok(event),
            answer => match self.client.links.get_mut(index) {
                Some(link) => link
                    .decode(&job.submit, answer)
                    .map(|submitted| JobEvent::Created(submitted.handle)),
                None => Err(no_server()),
            },
        };
        match event {
            Ok(event) => {
                if let JobEvent::Created(handle) = &event {
                    job.handle = Some(handle.clone());
                }
                let number = job.number;
                if !event.is_last() {
                    self.running.insert(token, job);
                }
                self.ready.push_back((number, Ok(event)));
            }
            Err(error) if may_repeat(&error, false) && job.attempts > 0 => {
                job.attempts -= 1;
                self.send(job);
                self.client.flush_all();
            }
            Err(error) => self.ready.push_back((job.number, Err(named(error, &job)))),
        }
    }
}

/// The error of a job, with everything by which it can be asked for.
fn named<W: AsRef<[u8]>>(error: Error, job: &Running<W>) -> Error {
    let error =
        error.with_command(job.submit.packet_type().name()).with_unique(job.submit.unique());
    match &job.handle {
        Some(handle) => error.with_handle(handle.clone()),
        None => error,
    }
}

impl<W: AsRef<[u8]>, I: Iterator<Item = Submit<W>>> Iterator for SubmitMany<'_, W, I> {
    type Item = (usize, Result<JobEvent>);

    fn next(&mut self) -> Option<Self::Item> {
        let (number, event) = self.next_event()?;
        self.client.count(&event);
        Some((number, event))
    }
}

impl<W: AsRef<[u8]>, I: Iterator<Item = Submit<W>>> SubmitMany<'_, W, I> {
    fn next_event(&mut self) -> Option<(usize, Result<JobEvent>)> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            self.fill();
            if self.running.is_empty() {
                return self.ready.pop_front();
            }
            match self.receive() {
                Ok((index, token, mail)) => self.take(index, token, mail),
                // Every job was told of its connection's end before; this ends what was forgotten.
                Err(error) => {
                    let lost = self.running.drain().map(|(_, job)| job);
                    self.ready
                        .extend(lost.map(|job| (job.number, Err(named(error.share(), &job)))));
                }
            }
        }
    }
}
