//! HTTP: one request at a time, over successive connections.

use std::{
    io, mem,
    time::{Duration, Instant},
};

use bytes::{Bytes, BytesMut};
use queue_core::{End, Health, Io, Late, Limit, Pace, Pulse, Role, earliest};

use crate::{
    ConnectOptions, Deadline, Error, ErrorKind, Fate, Metrics, QueueName, Result,
    error::lost,
    protocol::{Action, Encoding, Request, Success, http, http::Answer},
};

/// How long an idle connection is kept. The server closes it after 10 seconds, and a request in flight at that moment
/// has an unknown fate.
const KEPT: Duration = Duration::from_secs(5);

/// A request and its encoding.
#[derive(Clone, Debug)]
pub(crate) struct HttpRequest {
    frame: Bytes,
    of: Of,
    is_tried_again: bool,
    /// When there has to be a connection for it.
    connected_by: Option<Instant>,
}

#[derive(Clone, Debug)]
enum Of {
    Action(Encoding, Request),
    Page,
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
        Ok(Self::new(frame, Of::Action(encoding, request)))
    }

    /// A request for the status page of one queue, or of all.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a request that the server would not accept; see [`http::encode_page`].
    pub(crate) fn page(queue: Option<&QueueName>, host: &str) -> Result<Self> {
        let mut frame = BytesMut::new();
        http::encode_page(queue, host, &mut frame)?;
        Ok(Self::new(frame, Of::Page))
    }

    fn new(frame: BytesMut, of: Of) -> Self {
        HttpRequest { frame: frame.freeze(), of, is_tried_again: true, connected_by: None }
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
        match &self.of {
            Of::Action(_, request) => request.action() == Action::Count,
            Of::Page => true,
        }
    }

    /// The pull in this request, if it is one. It has no deadline.
    pub(crate) fn pull(&self) -> Option<&Request> {
        match &self.of {
            Of::Action(_, request) if request.action() == Action::Pull => Some(request),
            _ => None,
        }
    }

    /// Decodes the answer.
    fn understand(&self, answer: Answer) -> Result<Reply> {
        let Of::Action(encoding, request) = &self.of else { return answer.page().map(Reply::Page) };
        let response = answer.finish(*encoding)?;
        if !response.answers(request) {
            return Err(unasked());
        }
        Ok(Reply::Success(request.clone(), response.outcome?))
    }

    /// Adds the request to an error.
    fn name(&self, error: Error) -> Error {
        match &self.of {
            Of::Action(_, request) => error.with_request(request.action(), request.id()),
            Of::Page => error,
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
    link: Option<Link>,
    call: Option<Call>,
    outcome: Option<Result<Reply>>,
    health: Health,
    pace: Pace,
    seen: Seen,
}

/// Events since the last call of [`Exchange::seen`].
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    connections: u64,
    requests: u64,
    answers: u64,
    bytes_out: u64,
    bytes_in: u64,
    /// Whether the server has answered.
    pub(crate) is_well: Option<bool>,
}

impl Seen {
    pub(crate) fn add_to(self, metrics: &mut Metrics) {
        (0..self.connections).for_each(|_| metrics.connected());
        metrics.commands += self.requests;
        metrics.replies += self.answers;
        metrics.bytes_out += self.bytes_out;
        metrics.bytes_in += self.bytes_in;
    }
}

#[derive(Clone, Copy, Debug)]
struct Link {
    /// When it was made or last used.
    since: Instant,
    has_served: bool,
}

#[derive(Debug)]
struct Call {
    request: HttpRequest,
    since: Instant,
    total: Limit,
    /// Set to read what has arrived since then: nobody has read while the pull had no caller.
    look_since: Option<Instant>,
    /// How often it may still be retried.
    attempts: u32,
    has_failed: bool,
    /// Set once it was queued on this connection.
    sent: Option<Sent>,
}

#[derive(Debug)]
struct Sent {
    /// Its end offset on the connection.
    end: u64,
    /// How much had been received before it was sent.
    received: u64,
    answer: Answer,
}

impl Call {
    /// Whether it was sent whole.
    fn is_sent<F>(&self, io: &Io<F>) -> bool {
        self.sent.as_ref().is_some_and(|sent| sent.end <= io.sent())
    }

    fn fate<F>(&self, io: &Io<F>) -> Fate {
        if self.is_sent(io) { Fate::Unknown } else { Fate::NotSent }
    }
}

/// For the caller.
impl Exchange {
    /// The n-th of several connections to one server.
    pub(crate) fn new(options: ConnectOptions, n: u64) -> Self {
        let retry = options.retry.of_connection(n);
        Exchange {
            link: None,
            call: None,
            outcome: None,
            seen: Seen::default(),
            health: Health::new(retry, Some(options.connect_timeout)),
            pace: Pace::new(Some(options.reply_timeout), Some(options.write_timeout)),
            options,
        }
    }

    /// Starts the next request. None is in flight.
    pub(crate) fn begin(&mut self, request: HttpRequest, total: Limit, now: Instant) {
        self.outcome = None;
        self.call = Some(Call {
            since: now,
            total,
            look_since: None,
            attempts: if request.is_tried_again { self.options.retry.attempts() } else { 0 },
            request,
            has_failed: false,
            sent: None,
        });
    }

    /// The outcome of the request.
    pub(crate) fn outcome(&mut self) -> Option<Result<Reply>> {
        self.outcome.take()
    }

    /// The queue and id of an abandoned pull that the server has, or may have.
    pub(crate) fn given_up<F>(&self, io: &Io<F>) -> Option<&Request> {
        let call = self.call.as_ref().filter(|call| self.link.is_some() && call.is_sent(io))?;
        call.request.pull()
    }

    /// Gives the abandoned pull to another caller, until its limit.
    pub(crate) fn adopt(&mut self, total: Limit, now: Instant) {
        self.outcome = None;
        if let Some(call) = &mut self.call {
            (call.total, call.look_since) = (total, Some(now));
        }
    }

    pub(crate) fn seen(&mut self) -> Seen {
        mem::take(&mut self.seen)
    }

    /// Whether the next request may find the connection open.
    pub(crate) fn is_kept(&self, now: Instant) -> bool {
        self.call.is_none() && self.link.is_some_and(|link| !link.is_old(now))
    }
}

impl Link {
    fn is_old(self, now: Instant) -> bool {
        self.until() <= now
    }

    fn until(self) -> Instant {
        queue_core::after(self.since, KEPT)
    }
}

impl Role for Exchange {
    type Failure = Error;

    fn exchange(&mut self, io: &mut Io<Error>, now: Instant) -> Pulse {
        if self.health.is_new(io) {
            self.link = Some(Link { since: now, has_served: false });
            self.seen.connections += 1;
            self.pace.reset();
        }
        if self.link.is_some() && !io.data().is_empty() {
            self.take(io, now);
        }
        match io.take_end() {
            Some(End::NotConnected(error)) => self.fail(error, now),
            Some(End::Lost(error)) if self.link.is_some() => self.lose(error, io, now),
            _ => {}
        }
        let Some(call) = &self.call else { return self.idle(now) };
        if self.link.is_some() && call.look_since.is_some_and(|since| !io.has_looked_since(since)) {
            return Pulse::Look;
        }
        if call.total.at.is_some_and(|at| at <= now) {
            return self.give_up(io, now);
        }
        if self.link.is_none_or(|link| call.sent.is_none() && link.is_old(now)) {
            self.link = None;
            if call.request.connected_by.is_some_and(|at| at <= now) {
                self.settle(Err(self.options.timed_out(Deadline::Connect).into()));
                return self.idle(now);
            }
            return self.dial(now);
        }
        if call.sent.is_none() && !io.has_looked_since(call.since) {
            return Pulse::Peek;
        }
        self.send(io);
        self.keep_pace(io, now)
    }
}

/// For the pump.
impl Exchange {
    fn idle(&mut self, now: Instant) -> Pulse {
        match self.link.take_if(|link| !link.is_old(now)) {
            Some(link) => {
                self.link = Some(link);
                Pulse::Rest(Some(link.until()))
            }
            None => {
                self.link = None;
                Pulse::Close(None)
            }
        }
    }

    /// Handles received data: the answer, or something unexpected.
    fn take(&mut self, io: &mut Io<Error>, now: Instant) {
        let Some(sent) = self.call.as_mut().and_then(|call| call.sent.as_mut()) else {
            return self.leave(now);
        };
        match sent.answer.read(io.data()) {
            Ok(n) => {
                io.take(n);
                self.seen.bytes_in += n as u64;
                io.want(sent.answer.missing());
                if sent.answer.is_whole() {
                    self.answered(io, now);
                }
            }
            Err(error) => {
                self.leave(now);
                self.settle(Err(error));
            }
        }
    }

    /// Handles a complete answer. The connection is reused if the server allows it and nothing else has arrived.
    fn answered(&mut self, io: &Io<Error>, now: Instant) {
        self.health.proven();
        self.seen.answers += 1;
        self.seen.is_well = Some(true);
        let Some(call) = self.call.take() else { return };
        let is_sent = call.is_sent(io);
        let Some(sent) = call.sent else { return };
        let is_kept = sent.answer.keeps_alive() && is_sent && io.data().is_empty();
        self.link = is_kept.then_some(Link { since: now, has_served: true });
        let reply = call.request.understand(sent.answer);
        self.outcome = Some(reply.map_err(|error| call.request.name(error)));
    }

    fn settle(&mut self, outcome: Result<Reply>) {
        if let Some(call) = self.call.take() {
            self.outcome = Some(
                outcome
                    .map_err(|error| call.request.name(error).with_server(&self.options.address)),
            );
        }
    }

    /// Gives the connection up.
    fn leave(&mut self, now: Instant) {
        self.seen.is_well = Some(false);
        match self.link.take() {
            Some(link) if link.has_served => self.health.lost(),
            _ => self.health.failed(now),
        }
    }

    /// Handles the loss of the connection. What the server definitely did not do is retried: requests not sent whole,
    /// and idempotent ones if the server silently closed a kept connection.
    fn lose(&mut self, why: io::Error, io: &Io<Error>, now: Instant) {
        let is_kept = self.link.is_some_and(|link| link.has_served);
        let Some(sent) = self.call.as_mut().and_then(|call| call.sent.as_mut()) else {
            return self.leave(now);
        };
        if sent.answer.end() {
            self.answered(io, now);
            self.link = None;
            return;
        }
        let is_silent = io.received() == sent.received;
        self.leave(now);
        let Some(call) = &self.call else { return };
        let fate = call.fate(io);
        let is_stale = is_kept && is_silent && call.request.is_idempotent();
        self.repeat(lost(why).with_fate(fate), fate == Fate::NotSent || is_stale, now);
    }

    /// Handles a failed attempt to connect.
    fn fail(&mut self, error: Error, now: Instant) {
        self.seen.is_well = Some(false);
        self.health.failed(now);
        let is_of_network =
            matches!(error.kind(), ErrorKind::Connect | ErrorKind::Timeout(Deadline::Connect));
        self.repeat(error, is_of_network, now);
    }

    /// Retries on another connection, while retries are allowed.
    fn repeat(&mut self, error: Error, is_harmless: bool, now: Instant) {
        let Some(call) = &mut self.call else { return };
        if call.total.at.is_some_and(|at| at <= now) {
            let late = Error::from(call.total.error()).with_fate(error.fate());
            return self.settle(Err(late));
        }
        let next = self.health.quarantine(now).unwrap_or(now);
        let is_last = call.attempts == 0 || call.request.connected_by.is_some_and(|at| at <= next);
        if !is_harmless || is_last {
            return self.settle(Err(error));
        }
        (call.attempts, call.sent, call.has_failed) = (call.attempts - 1, None, true);
    }

    /// The caller's time has expired. A pull that the server has stays in flight.
    fn give_up(&mut self, io: &Io<Error>, now: Instant) -> Pulse {
        let Some(call) = &mut self.call else { return self.idle(now) };
        let late = Error::from(call.total.error()).with_fate(call.fate(io));
        if self.link.is_some() && call.is_sent(io) && call.request.pull().is_some() {
            call.total = Limit::never();
            let late = call.request.name(late).with_server(&self.options.address);
            self.outcome = Some(Err(late));
            return self.keep_pace(io, now);
        }
        if call.sent.is_some() {
            self.link = None;
        }
        self.settle(Err(late));
        self.idle(now)
    }

    fn dial(&mut self, now: Instant) -> Pulse {
        if self.health.is_overdue(now) {
            self.fail(self.options.timed_out(Deadline::Connect).into(), now);
        }
        match &self.call {
            Some(call) => {
                let by = call.request.connecting(call.total).at;
                self.health.dial_for_call(!call.has_failed, by, now)
            }
            None => Pulse::Close(None),
        }
    }

    fn send(&mut self, io: &mut Io<Error>) {
        let Some(call) = self.call.as_mut().filter(|call| call.sent.is_none()) else { return };
        call.sent = Some(Sent {
            end: io.sent() + call.request.frame.len() as u64,
            received: io.received(),
            answer: Answer::new(self.options.max_message_size),
        });
        io.replace(call.request.frame.clone());
        self.seen.requests += 1;
        self.seen.bytes_out += call.request.frame.len() as u64;
    }

    /// A pull has only a write deadline, since nobody knows when a message will arrive.
    fn keep_pace(&mut self, io: &Io<Error>, now: Instant) -> Pulse {
        let Some(call) = &self.call else { return self.idle(now) };
        let waits = call.request.pull().is_some();
        let holds = (call.is_sent(io) && !waits).then_some(Duration::ZERO);
        let late: Error = match self.pace.check(io, holds, false, now) {
            Ok(until) => return Pulse::Go(earliest([until, call.total.at])),
            Err(late @ Late::Reply) => self.pace.error(late).with_fate(Fate::Unknown).into(),
            Err(late @ Late::Write) => self.pace.error(late).into(),
        };
        self.leave(now);
        let is_harmless = late.fate() == Fate::NotSent;
        self.repeat(late, is_harmless, now);
        match self.call {
            Some(_) => self.dial(now),
            None => self.idle(now),
        }
    }
}

/// The server's answer does not match the request.
pub(crate) fn unasked() -> Error {
    Error::protocol("the server sent a reply that was not requested")
}
