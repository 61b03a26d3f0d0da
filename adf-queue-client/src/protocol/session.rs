//! One WebSocket connection without its socket: its upgrade, its frames, and who waits for which answer.

use std::{
    collections::{HashMap, VecDeque},
    mem,
};

use bytes::{Bytes, BytesMut};
use foldhash::fast::FixedState;
use queue_core::{Io, Random, decimal, emptied};

mod run;

use self::run::{Runs, UnansweredPush};
use super::{
    Action, Encoding, Refusal, Request, RequestFields, Response, Success, binary,
    websocket::{Frame, Frames, FrontFrame, Incoming, Upgrade},
};
use crate::{Error, ErrorKind, Fate, Push, RequestId, Result};

/// One connection. Requests sent before the server has upgraded it wait until then, because the server reads no earlier
/// frames.
///
/// Answers are matched by action and id. Answers to pulls may arrive at any time; all others arrive in the order of
/// their requests.
#[derive(Debug)]
pub(crate) struct Session<W> {
    encoding: Encoding,
    frames: Frames,
    /// Set until it is answered.
    upgrade: Option<Upgrade>,
    /// The upgrade request, until it is handed over.
    first: BytesMut,
    /// Frames not handed over yet.
    out: BytesMut,
    /// Offset of the next frame.
    position: u64,
    /// The peer does not choose these keys.
    waiting: HashMap<(Action, RequestId), Waiting<W>, FixedState>,
    runs: Runs<W>,
    /// Buffer for encoding a request.
    scratch: BytesMut,
    pings: VecDeque<(u64, Option<W>)>,
    /// Requests with an answer deadline, oldest first: the number, and the end offset on the connection.
    due: VecDeque<(u64, u64)>,
    last_number: u64,
    /// Whether the oldest of them was answered.
    has_answered: bool,
    /// A ping of the peer. Only the last one has to be answered.
    asked: Option<Bytes>,
}

#[derive(Debug)]
struct Waiting<W> {
    waiter: W,
    number: u64,
    /// The end offset of the request on the connection.
    end: u64,
}

/// An event for a sender.
#[derive(Debug)]
pub(crate) enum Event<W> {
    /// The connection is upgraded.
    Open,
    /// The answer to the request with this number.
    Answer { waiter: W, id: RequestId, number: u64, outcome: Result<Success, Refusal> },
    /// The answer to the push at this place of a run.
    InRun { waiter: W, place: usize, outcome: Result<Success, Refusal> },
    /// A pong, and the sender of the ping.
    Pong(Option<W>),
}

/// A sender whose answer will not arrive.
#[derive(Debug)]
pub(crate) struct Unanswered<W> {
    pub(crate) waiter: W,
    /// The place within a run of pushes.
    pub(crate) place: Option<usize>,
    pub(crate) fate: Fate,
}

impl<W: Clone> Session<W> {
    /// The state of a new connection. `host` is the value of the `Host` header; `max_message` is the maximum length of
    /// a message.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a host that the server would not read.
    pub(crate) fn new(
        encoding: Encoding,
        host: &str,
        max_message: usize,
        random: &mut Random,
    ) -> Result<Self> {
        let mut first = BytesMut::new();
        let upgrade = Upgrade::start(encoding, host, random, &mut first)?;
        Ok(Session {
            encoding,
            frames: Frames::new(encoding, max_message, random.next_u64()),
            upgrade: Some(upgrade),
            position: first.len() as u64,
            first,
            out: BytesMut::new(),
            waiting: HashMap::default(),
            runs: Runs::default(),
            scratch: BytesMut::new(),
            pings: VecDeque::new(),
            due: VecDeque::new(),
            last_number: 0,
            has_answered: false,
            asked: None,
        })
    }

    /// Whether the server accepts requests.
    pub(crate) fn is_open(&self) -> bool {
        self.upgrade.is_none()
    }

    /// Sends a valid request as one frame. No request with this action and id may be in flight. Returns its number,
    /// which is higher than those of earlier requests.
    pub(crate) fn send(
        &mut self,
        (action, id): (Action, RequestId),
        queue: &str,
        body: &[u8],
        waiter: W,
    ) -> u64 {
        let number = self.request(&RequestFields { action, id: id.as_str(), queue, body });
        let waiting = Waiting { waiter, number, end: self.position };
        self.waiting.insert((action, id), waiting);
        number
    }

    /// Appends a valid request as one frame. Returns its number.
    fn request(&mut self, asked: &RequestFields<'_>) -> u64 {
        let _ = self.encoding.write(asked, &mut self.scratch);
        let before = self.out.len();
        self.frames.message(&self.scratch, &mut self.out);
        self.position += (self.out.len() - before) as u64;
        emptied(&mut self.scratch);
        let number = self.next_number();
        if asked.action != Action::Pull {
            self.due.push_back((number, self.position));
        }
        number
    }

    /// Sends the unfinished pushes of a run, each as one frame; their ids are consecutive numbers from `first`, by
    /// place. No earlier run of this connection may have higher ids.
    pub(crate) fn send_run<'a>(
        &mut self,
        first: u64,
        pushes: impl Iterator<Item = Option<&'a Push>>,
        waiter: W,
    ) {
        let mut digits = itoa::Buffer::new();
        let mut send = |push: &Push, id| {
            let number = self.request(&push.asked(digits.format(id)));
            UnansweredPush { action: push.action(), number, end: self.position }
        };
        let places = pushes.zip(first..).map(|(push, id)| push.map(|push| send(push, id)));
        let places = places.collect();
        self.runs.add(waiter, first, places);
    }

    /// Sends a ping.
    pub(crate) fn ping(&mut self, waiter: Option<W>) {
        self.frame(Frames::ping);
        let number = self.next_number();
        self.due.push_back((number, self.position));
        self.pings.push_back((number, waiter));
    }

    /// Sends a close frame, which the server does not answer.
    pub(crate) fn close(&mut self) {
        self.frame(Frames::close);
    }

    fn frame(&mut self, write: impl FnOnce(&mut Frames, &mut BytesMut)) {
        let before = self.out.len();
        write(&mut self.frames, &mut self.out);
        self.position += (self.out.len() - before) as u64;
    }

    fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    /// Whether a request with this action and id is in flight.
    pub(crate) fn has(&self, action: Action, id: &RequestId) -> bool {
        self.waiting.contains_key(&(action, *id)) || self.runs.has(action, id)
    }

    /// Who waits for the answer to the request with this action and id.
    pub(crate) fn waiter(&self, action: Action, id: &RequestId) -> Option<&W> {
        self.waiting.get(&(action, *id)).map(|waiting| &waiting.waiter)
    }

    /// Makes another caller wait for the answer. Returns the number of the request, if it is in flight.
    pub(crate) fn hand_on(&mut self, action: Action, id: &RequestId, waiter: W) -> Option<u64> {
        let waiting = self.waiting.get_mut(&(action, *id))?;
        waiting.waiter = waiter;
        Some(waiting.number)
    }

    /// Hands over everything that the server will read now.
    pub(crate) fn hand_over<F>(&mut self, io: &mut Io<F>) {
        if !self.first.is_empty() {
            io.queue(&mut self.first);
        }
        if !self.is_open() {
            return;
        }
        // A peer that pings without reading the answers gets one at a time.
        if io.is_drained()
            && let Some(payload) = self.asked.take()
        {
            self.frame(|frames, out| frames.pong(&payload, out));
        }
        if !self.out.is_empty() {
            io.queue(&mut self.out);
        }
    }

    /// Number of frame bytes waiting to be written.
    pub(crate) fn unwritten<F>(&self, io: &Io<F>) -> usize {
        self.out.len() + io.unwritten()
    }

    /// Whether anything has to be handed over.
    pub(crate) fn is_queued(&self) -> bool {
        !self.first.is_empty() || (self.is_open() && (!self.out.is_empty() || self.asked.is_some()))
    }

    /// Whether an answer deadline applies: to any request but a pull, once it is sent whole.
    pub(crate) fn is_due<F>(&self, io: &Io<F>) -> bool {
        self.due.front().is_some_and(|(_, end)| *end <= io.sent())
    }

    /// Whether such an answer is or will be awaited.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.due.is_empty()
    }

    /// Whether a ping is in flight.
    pub(crate) fn is_pinging(&self) -> bool {
        !self.pings.is_empty()
    }

    /// Whether the oldest awaited answer has arrived since the last call.
    pub(crate) fn take_answered(&mut self) -> bool {
        mem::take(&mut self.has_answered)
    }

    /// The next event in the received data.
    ///
    /// # Errors
    ///
    /// When the connection becomes unusable: the peer violates the protocol or closes the connection.
    pub(crate) fn take<F>(&mut self, io: &mut Io<F>) -> Result<Option<Event<W>>> {
        if let Some(upgrade) = &self.upgrade {
            let Some(len) = upgrade.finish(io.data())? else { return Ok(None) };
            io.take(len);
            self.upgrade = None;
            return Ok(Some(Event::Open));
        }
        loop {
            let frame = match self.frames.next(io.data())? {
                FrontFrame::Frame(frame) => frame,
                FrontFrame::Missing(len) => {
                    io.want(len);
                    return Ok(None);
                }
            };
            if let Some(event) = self.success(&frame, io.data()) {
                io.skip(frame.len());
                return Ok(Some(event));
            }
            let Some(incoming) = self.frames.read(&frame, io.take(frame.len()))? else { continue };
            if let Some(event) = self.sort(incoming)? {
                return Ok(Some(event));
            }
        }
    }

    /// Handles the frame at the front of `data` without copying it, if it is the binary answer to a request that has
    /// succeeded, and carries no body.
    fn success(&mut self, frame: &Frame, data: &[u8]) -> Option<Event<W>> {
        if self.encoding != Encoding::Binary {
            return None;
        }
        let (action, id, success) = binary::success_without_body(self.frames.whole(frame, data)?)?;
        self.event(action, id, Ok(success))
    }

    /// The event of an answer, if its request is in flight.
    fn event(
        &mut self,
        action: Action,
        id: &str,
        outcome: Result<Success, Refusal>,
    ) -> Option<Event<W>> {
        if let Some((waiter, place, number)) = self.runs.answered(action, id.as_bytes()) {
            self.answered(number);
            return Some(Event::InRun { waiter, place, outcome });
        }
        let id = RequestId::checked(id)?;
        let Waiting { waiter, number, .. } = self.waiting.remove(&(action, id))?;
        self.answered(number);
        Some(Event::Answer { waiter, id, number, outcome })
    }

    fn sort(&mut self, incoming: Incoming) -> Result<Option<Event<W>>> {
        match incoming {
            Incoming::Message(message) => self.answer(message).map(Some),
            Incoming::Pong => {
                // An unsolicited pong does no harm.
                let Some((number, waiter)) = self.pings.pop_front() else { return Ok(None) };
                self.answered(number);
                Ok(Some(Event::Pong(waiter)))
            }
            Incoming::Ping(payload) => {
                self.asked = Some(payload);
                Ok(None)
            }
            Incoming::Close => {
                let why = "the server closed the connection";
                Err(Error::new(ErrorKind::ConnectionLost, Fate::Unknown, why))
            }
        }
    }

    fn answer(&mut self, message: Bytes) -> Result<Event<W>> {
        let Response { action, id, outcome, .. } = self.encoding.decode(message)?;
        self.event(action, id.as_str(), outcome).ok_or_else(|| {
            Error::protocol(format!(
                "the server answered a {action} with the request id {id}, which is not in flight"
            ))
        })
    }

    /// All answers but those to pulls arrive in the order of their requests.
    fn answered(&mut self, number: u64) {
        if self.due.front().is_some_and(|(oldest, _)| *oldest == number) {
            self.has_answered = true;
            self.due.pop_front();
        } else if let Ok(place) = self.due.binary_search_by_key(&number, |(number, _)| *number) {
            self.due.remove(place);
        }
    }

    /// The connection has ended. Returns the waiters for answers, in the order of the requests, then those for pongs.
    pub(crate) fn end<F>(&mut self, io: &Io<F>) -> Vec<Unanswered<W>> {
        let single = self.waiting.drain().map(|(_, one)| (one, None));
        let mut waiting: Vec<(Waiting<W>, Option<usize>)> =
            single.chain(self.runs.end().map(|(one, place)| (one, Some(place)))).collect();
        waiting.sort_unstable_by_key(|(one, _)| one.number);
        let unanswered = waiting.into_iter().map(|(Waiting { waiter, end, .. }, place)| {
            Unanswered { waiter, place, fate: fate(end, io) }
        });
        let pings = self.pings.drain(..).filter_map(|(_, waiter)| waiter);
        let pings = pings.map(|waiter| Unanswered { waiter, place: None, fate: Fate::Unknown });
        unanswered.chain(pings).collect()
    }
}

/// The server may have acted once it has the last byte.
fn fate<F>(end: u64, io: &Io<F>) -> Fate {
    if end <= io.sent() { Fate::Unknown } else { Fate::NotSent }
}

/// Ids for a client's requests: decimal numbers, each used once.
#[derive(Debug, Default)]
pub(crate) struct RequestIds(u64);

impl RequestIds {
    pub(crate) fn next(&mut self) -> RequestId {
        RequestId::of(self.run(1))
    }

    /// The first of this many consecutive unused numbers.
    pub(crate) fn run(&mut self, len: u64) -> u64 {
        let first = self.0.wrapping_add(1);
        self.0 = self.0.wrapping_add(len);
        first
    }

    /// Whether this id may have been given out.
    pub(crate) fn may_be_given(&self, id: &RequestId) -> bool {
        decimal(id.as_str().as_bytes()).is_some_and(|number| number <= self.0)
    }

    /// Records a request with its own id.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a pull with a used number: the server would confuse the messages.
    pub(crate) fn note(&mut self, request: &Request) -> Result<()> {
        let Some(number) = decimal(request.id().as_str().as_bytes()) else { return Ok(()) };
        if number > self.0 {
            // Numbers near the end are never reached.
            self.0 = if number < u64::MAX / 2 { number } else { self.0 };
            return Ok(());
        }
        if request.action() != Action::Pull {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "request id {number} is not new: this client has used the numbers up to {} (use a larger one, or no number)",
            self.0
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_used_once() {
        let mut ids = RequestIds::default();
        assert_eq!(ids.next().as_str(), "1");
        let pull = |id: &str| Request::pull(id.parse().unwrap(), "/q".parse().unwrap());
        ids.note(&pull("7")).unwrap();
        assert_eq!(ids.next().as_str(), "8");
        assert!(ids.note(&pull("8")).is_err());
        ids.note(&pull("08")).unwrap();
        // A number near the end does not use up those before it.
        ids.note(&pull(&u64::MAX.to_string())).unwrap();
        assert_eq!(ids.next().as_str(), "9");
    }
}
