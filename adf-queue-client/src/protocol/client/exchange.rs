//! HTTP: one request at a time, over successive connections.

use std::{
    io, mem,
    time::{Duration, Instant},
};

use bytes::{Bytes, BytesMut};
use queue_core::{
    Awaits, Cause, ConnectionError, Deadlines, Io, Life, Limit, Loss, Need, OneCall, Protocol,
    Pulse, Replace,
};

use crate::{
    ConnectOptions, Deadline, Error, ErrorKind, Fate, Metrics, QueueName, Result,
    protocol::{Action, Encoding, Request, Success, http, http::Answer},
};

/// How long an idle connection is kept. The server closes it after 10 seconds, and a request in flight at that moment
/// has an unknown fate.
const KEPT: Duration = Duration::from_secs(5);

/// A request and its encoding.
#[derive(Clone, Debug)]
pub(crate) struct HttpRequest {
    frame: Bytes,
    /// The action and its encoding; `None` for the status page.
    action: Option<(Encoding, Request)>,
    is_tried_again: bool,
    /// When there has to be a connection for it.
    connected_by: Option<Instant>,
}

impl HttpRequest {
    /// A request for one of the ten actions.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a request that the server would not accept; see [`http::encode`].
    pub(crate) fn action(encoding: Encoding, request: Request, host: &str) -> Result<Self> {
        let mut frame = BytesMut::new();
        http::encode(encoding, &request, host, &mut frame)
            .map_err(|error| error.with_request(request.action(), request.id()))?;
        Ok(Self::new(frame, Some((encoding, request))))
    }

    /// A request for the status page of one queue, or of all.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a request that the server would not accept; see [`http::encode_page`].
    pub(crate) fn page(queue: Option<&QueueName>, host: &str) -> Result<Self> {
        let mut frame = BytesMut::new();
        http::encode_page(queue, host, &mut frame)?;
        Ok(Self::new(frame, None))
    }

    fn new(frame: BytesMut, action: Option<(Encoding, Request)>) -> Self {
        HttpRequest { frame: frame.freeze(), action, is_tried_again: true, connected_by: None }
    }

    fn request(&self) -> Option<&Request> {
        self.action.as_ref().map(|(_, request)| request)
    }

    /// The same with one attempt, whatever the policy says.
    pub(crate) fn once(self) -> Self {
        HttpRequest { is_tried_again: false, ..self }
    }

    /// The same, if it fails unless there is a connection by then.
    pub(crate) fn connected_by(self, at: Instant) -> Self {
        HttpRequest { connected_by: Some(at), ..self }
    }

    /// This limit, or that of its wait for a connection.
    pub(crate) fn connecting(&self, limit: Limit) -> Limit {
        limit.sooner(Limit::until(Deadline::Connect, self.connected_by))
    }

    /// Whether it may be carried out twice without a visible difference.
    fn is_idempotent(&self) -> bool {
        self.request().is_none_or(|request| request.action() == Action::Count)
    }

    /// The pull in this request, if it is one. It has no deadline.
    pub(crate) fn pull(&self) -> Option<&Request> {
        self.request().filter(|request| request.action() == Action::Pull)
    }

    /// Decodes the answer.
    fn understand(&self, answer: Answer) -> Result<Reply> {
        let Some((encoding, request)) = &self.action else {
            return answer.page().map(Reply::Page);
        };
        let response = answer.finish(*encoding)?;
        if !response.answers(request) {
            return Err(unasked());
        }
        Ok(Reply::Success(request.clone(), response.outcome?))
    }
}

impl queue_core::Request<Error> for HttpRequest {
    fn name(&self, error: Error) -> Error {
        match self.request() {
            Some(request) => error.with_request(request.action(), request.id()),
            None => error,
        }
    }
}

/// The decoded answer.
#[derive(Debug)]
pub(crate) enum Reply {
    /// The action of this request has succeeded.
    Success(Request, Success),
    /// The status page.
    Page(Bytes),
}

impl Reply {
    pub(crate) fn page(self) -> Result<Bytes> {
        match self {
            Reply::Page(page) => Ok(page),
            Reply::Success(..) => Err(unasked()),
        }
    }
}

/// A single caller with one request at a time.
///
/// A connection is kept for the next request as long as the server and [`KEPT`] allow. The server sends nothing
/// unasked, so a connection with unexpected data is not used again.
///
/// A pull is not bound to its caller. An abandoned one still waits on the server, which will send it a message; so it
/// stays in flight here, for the next caller that pulls from that queue.
#[derive(Debug)]
pub(crate) struct Exchange {
    options: ConnectOptions,
    life: Life<Error>,
    one: OneCall<HttpRequest, Reply, Error>,
    answer: Answer,
    /// How much had been received before the request was sent.
    received: u64,
    /// How long the idle connection is kept.
    kept_until: Option<Instant>,
    /// Set to read what has arrived since then: nothing was read while the pull had no caller.
    look_since: Option<Instant>,
    /// Metrics since they were last taken.
    seen: Metrics,
    /// Whether the server has answered since then.
    is_well: Option<bool>,
}

/// For the caller.
impl Exchange {
    /// The n-th of several connections to one server.
    pub(crate) fn new(options: ConnectOptions, n: u64) -> Self {
        let deadlines = Deadlines::new(Some(options.reply_timeout), Some(options.write_timeout));
        let (retry, connect) = (options.retry.of_connection(n), Some(options.connect_timeout));
        Exchange {
            life: Life::new(retry, connect, deadlines, Replace::IfGood),
            one: OneCall::default(),
            answer: Answer::new(options.max_message_size),
            received: 0,
            kept_until: None,
            look_since: None,
            seen: Metrics::default(),
            is_well: None,
            options,
        }
    }

    /// Starts the next request. None is in flight.
    pub(crate) fn begin(&mut self, request: HttpRequest, total: Limit, now: Instant) {
        let attempts = if request.is_tried_again { self.options.retry.attempts() } else { 0 };
        let connected_by = request.connected_by;
        self.one.begin(request, total, attempts, now);
        if let Some(call) = self.one.call_mut() {
            call.connected_by = connected_by;
        }
        self.look_since = None;
    }

    /// The outcome of the request.
    pub(crate) fn outcome(&mut self) -> Option<Result<Reply>> {
        let outcome = self.one.outcome()?;
        Some(outcome.map_err(|error| error.with_server(&self.options.address)))
    }

    /// The queue and id of an abandoned pull that the server has, or may have.
    pub(crate) fn given_up<F>(&self, io: &Io<F>) -> Option<&Request> {
        let call = self.one.call().filter(|call| self.life.is_open() && call.is_sent(io))?;
        call.request.pull()
    }

    /// Gives the abandoned pull to another caller, until its limit.
    pub(crate) fn adopt(&mut self, total: Limit, now: Instant) {
        // Its caller is gone.
        self.one.outcome();
        if let Some(call) = self.one.call_mut() {
            (call.total, self.look_since) = (total, Some(now));
        }
    }

    /// Metrics since the last call, and whether the server has answered since then.
    pub(crate) fn take_seen(&mut self) -> (Metrics, Option<bool>) {
        (mem::take(&mut self.seen), self.is_well.take())
    }

    /// Whether the next request may find the connection open.
    pub(crate) fn is_kept(&self, now: Instant) -> bool {
        self.one.call().is_none() && self.life.is_open() && !self.is_old(now)
    }

    fn is_old(&self, now: Instant) -> bool {
        self.kept_until.is_some_and(|until| until <= now)
    }
}

queue_core::role!(Exchange, Error);

impl Protocol for Exchange {
    fn life(&mut self) -> &mut Life<Error> {
        &mut self.life
    }

    fn connected(&mut self, _: &mut Io<Error>, now: Instant) {
        self.kept_until = now.checked_add(KEPT);
        self.seen.connected();
    }

    /// Takes the answer; anything else was not asked for.
    fn receive(&mut self, io: &mut Io<Error>, now: Instant) -> Result<()> {
        if io.data().is_empty() {
            return Ok(());
        }
        if self.one.queued().is_none() {
            return Err(unasked());
        }
        let n = self.answer.read(io.data())?;
        io.take(n);
        self.seen.bytes_in += n as u64;
        io.want(self.answer.missing());
        if self.answer.is_whole() {
            self.answered(io, now);
        }
        Ok(())
    }

    /// Some answers end with the connection.
    fn ended(&mut self, why: io::Error, io: &mut Io<Error>, now: Instant) -> Result<()> {
        if self.one.queued().is_none() || !self.answer.end() {
            return Err(Error::lost(why));
        }
        self.answered(io, now);
        Ok(())
    }

    /// Repeats what the server definitely did not do: requests not sent whole, and idempotent ones if the server
    /// silently closed a kept connection.
    fn lost(&mut self, loss: Loss<Error>, io: &mut Io<Error>, now: Instant) {
        self.is_well = Some(false);
        let cause = loss.cause;
        let is_silent = self.life.has_served() && io.received() == self.received;
        let is_idempotent = self.one.call().is_some_and(|call| call.request.is_idempotent());
        let Some(error) = self.one.failure(loss, io) else { return };
        let is_harmless = match cause {
            Cause::NotConnected => {
                matches!(error.kind(), ErrorKind::Connect | ErrorKind::Timeout(Deadline::Connect))
            }
            Cause::Unusable => return self.one.settle(Err(error)),
            Cause::Ended if is_silent && is_idempotent => true,
            Cause::Ended | Cause::Abandoned | Cause::Late => error.fate() == Fate::NotSent,
        };
        self.one.repeat(error, is_harmless, &self.life, now);
    }

    fn needs(&mut self, io: &mut Io<Error>, now: Instant) -> Need {
        let is_unread = self.look_since.is_some_and(|since| !io.has_looked_since(since));
        if is_unread && self.life.is_open() && self.one.call().is_some() {
            return Need::Look;
        }
        self.give_up(io, now);
        if self.is_old(now) && self.one.queued().is_none() {
            self.life.close();
        }
        let is_open = self.life.is_open();
        match self.one.call() {
            Some(call) if is_open && call.is_unchecked(io) => Need::Peek,
            Some(call) if !is_open && call.connected_by.is_some_and(|at| at <= now) => {
                self.one.settle(Err(self.options.timed_out(Deadline::Connect).into()));
                Need::Close(None)
            }
            Some(call) => Need::Use(call.total.at),
            None => Need::Keep(self.kept_until.filter(|_| is_open)),
        }
    }

    fn dial(&mut self, now: Instant) -> Pulse {
        match self.one.call() {
            Some(call) => call.dial(&mut self.life, now),
            None => Pulse::Close(None),
        }
    }

    /// A pull has only a write deadline, since a message may arrive at any time.
    fn send(&mut self, io: &mut Io<Error>, _: Instant) -> Awaits {
        let Some(call) = self.one.call_mut() else { return Awaits::default() };
        if !call.is_queued() {
            let frame = call.request.frame.clone();
            call.queue(frame.len(), io);
            self.answer = Answer::new(self.options.max_message_size);
            self.received = io.received();
            self.seen.commands += 1;
            self.seen.bytes_out += frame.len() as u64;
            io.replace(frame);
        }
        let answer = call.awaits(io).filter(|_| call.request.pull().is_none());
        Awaits { answer, ..Awaits::default() }
    }
}

/// For the exchange.
impl Exchange {
    /// Handles a complete answer. The connection is reused if the server allows it and nothing else has arrived.
    fn answered(&mut self, io: &Io<Error>, now: Instant) {
        self.life.served();
        self.seen.replies += 1;
        self.is_well = Some(true);
        let Some(call) = self.one.call() else { return };
        let answer = mem::replace(&mut self.answer, Answer::new(self.options.max_message_size));
        let is_kept = answer.keeps_alive() && call.is_sent(io) && io.data().is_empty();
        let reply = call.request.understand(answer);
        self.one.settle(reply);
        self.kept_until = now.checked_add(KEPT);
        if !is_kept {
            self.life.close();
        }
    }

    /// Ends a call whose time has expired. A pull that the server has stays in flight.
    fn give_up(&mut self, io: &Io<Error>, now: Instant) {
        let Some(late) = self.one.late(io, now) else { return };
        if self.given_up(io).is_some() {
            self.one.report(Err(late));
            if let Some(call) = self.one.call_mut() {
                call.total = Limit::never();
            }
        } else {
            let is_queued = self.one.queued().is_some();
            self.one.settle(Err(late));
            if is_queued {
                self.life.close();
            }
        }
    }
}

/// The server's answer does not match the request.
pub(crate) fn unasked() -> Error {
    Error::protocol("the server sent a reply that was not requested")
}
