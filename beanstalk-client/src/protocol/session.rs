//! Everything one connection knows, without its socket: bytes to write, bytes read, who waits for which reply.

#[cfg(any(feature = "tokio", feature = "blocking"))]
mod frame;
mod leftover;

use std::{collections::VecDeque, time::Instant};

use bytes::BytesMut;
pub use queue_core::Epoch;
use queue_core::{Io, written};

use crate::{
    Error, ErrorKind, Fate, Job, JobRef, Metrics, TubeName,
    protocol::{Command, Effect, Response, ServerWait, command::line, response::Decoder},
};

#[cfg(any(feature = "tokio", feature = "blocking"))]
pub(crate) use self::{frame::Frame, leftover::is_gone};

/// The number of a command on its connection, and so the number of its reply.
///
/// The server answers in order, so the n-th reply belongs to the n-th command. Asking for a reply by number is what
/// keeps later callers right after a call was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(u64);

/// One connection's state, kept apart from its socket.
///
/// A face moves bytes: it writes [`outgoing`](Self::outgoing), reads into [`space`](Self::space), and asks for the
/// [`reply`](Self::reply) to a ticket. Nothing of a connection lives in a future, so a dropped call loses no byte: a
/// half-written command is finished by the next call, and a reply whose caller is gone is still understood.
///
/// ```text
///            send            outgoing / sent            space / received          reply
///  command ───────► encoded ────────────────► written ───────────────────► read ────────► response
///     │                                                                       │
///     └──────── ticket n ──────────────── the n-th reply ─────────────────────┘
/// ```
///
/// A reply nobody asks for still takes effect: `USING` and `WATCHING` update the state that a reconnect restores, and
/// a `RESERVED` becomes an *orphan*, a job that is offered to the next reserve (see [`orphan`](Self::orphan)).
#[derive(Debug)]
pub struct Session {
    epoch: Epoch,
    outgoing: BytesMut,
    /// Offset behind the last byte that was queued, and behind the last one that the transport took.
    queued: u64,
    sent: u64,
    /// How many bytes a pump has read.
    read: u64,
    decoder: Decoder,
    pending: VecDeque<Pending>,
    /// How many replies were read, which is the number of the reply that comes next.
    answered: u64,
    /// Offset behind the last byte of the command that was answered last: the oldest pending one begins there.
    answered_to: u64,
    used: TubeName,
    watched: Vec<TubeName>,
    orphans: VecDeque<Job>,
    /// The touch that asks for the oldest orphan, and when it was sent.
    asked: Option<(Ticket, Instant)>,
    end_of_stream: bool,
    health: Health,
    max_body: usize,
    metrics: Metrics,
}

#[derive(Debug)]
struct Pending {
    /// Offset behind the command's last byte.
    end: u64,
    /// Whether an old server may have cut its line, and taken the rest for a command of its own.
    may_be_cut: bool,
    wait: ServerWait,
    meaning: Meaning,
}

#[derive(Debug)]
enum Meaning {
    Command(Effect),
    /// Sent by the session itself, to bring a new connection into the old one's state.
    Restore,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Health {
    Good,
    /// Usable for the replies that are under way, but not for another command.
    Closing,
    /// Never used again.
    Poisoned,
}

impl Session {
    /// The state of a connection that was just made. Bodies over `max_body` bytes are skipped, not stored.
    #[must_use]
    pub fn new(max_body: usize) -> Self {
        let epoch = Epoch::next();
        Session {
            epoch,
            outgoing: BytesMut::new(),
            queued: 0,
            sent: 0,
            read: 0,
            decoder: Decoder::new(epoch, max_body),
            pending: VecDeque::new(),
            answered: 0,
            answered_to: 0,
            used: TubeName::default(),
            watched: vec![TubeName::default()],
            orphans: VecDeque::new(),
            asked: None,
            end_of_stream: false,
            health: Health::Good,
            max_body,
            metrics: Metrics::default(),
        }
    }

    /// Starts over on a new connection: the commands that restore the used tube and the watch list are the first to be
    /// written. What was pending is forgotten; orphans are gone, since the server took them back.
    pub fn reopen(&mut self) {
        let fresh = Session::new(self.max_body);
        let lost = std::mem::replace(self, fresh);
        self.used = lost.used;
        self.watched = lost.watched;
        self.metrics = lost.metrics;
        let default = TubeName::default();
        if self.used != default {
            self.restore("use", self.used.clone());
        }
        for tube in self.watched.clone() {
            if tube != default {
                self.restore("watch", tube);
            }
        }
        if !self.watched.contains(&default) {
            self.restore("ignore", default);
        }
    }

    fn restore(&mut self, verb: &str, tube: TubeName) {
        let before = self.outgoing.len();
        line(&mut self.outgoing, verb, &[&tube]);
        self.queue(before, ServerWait::None, Meaning::Restore);
    }

    /// Encodes a command for writing and gives it the next number.
    ///
    /// # Errors
    ///
    /// `JobLost` when the command acts on a reservation of another connection, and `ConnectionLost` when this
    /// one must not be used any more. Nothing is queued then.
    pub fn send<C: Command>(&mut self, command: &C) -> Result<Ticket, Error> {
        self.refuse(command.job())?;
        let before = self.outgoing.len();
        command.encode(&mut self.outgoing);
        let meaning = Meaning::Command(command.effect());
        Ok(self.queue(before, command.server_wait(), meaning))
    }

    /// Refuses a command that must not be sent on this connection.
    fn refuse(&self, job: Option<JobRef>) -> Result<(), Error> {
        self.refuse_lost_reservation(job)?;
        if self.is_open() {
            return Ok(());
        }
        Err(Error::new(ErrorKind::ConnectionLost, Fate::NotSent, "the connection is closed"))
    }

    /// Refuses a command on a job that another connection held: by now the id may be somebody else's job.
    pub(crate) fn refuse_lost_reservation(&self, job: Option<JobRef>) -> Result<(), Error> {
        match job.and_then(|job| job.reservation.map(|held_by| (job, held_by))) {
            Some((job, held_by)) if held_by != self.epoch => Err(Error::new(
                ErrorKind::JobLost,
                Fate::NotSent,
                format!(
                    "the connection that held job {} is gone, and the server has given the job back; reserve again",
                    job.id
                ),
            )),
            _ => Ok(()),
        }
    }

    fn queue(&mut self, before: usize, wait: ServerWait, meaning: Meaning) -> Ticket {
        let frame = self.outgoing.get(before..).unwrap_or_default();
        let may_be_cut = may_be_cut(frame);
        self.queued += frame.len() as u64;
        let ticket = Ticket(self.answered + self.pending.len() as u64);
        self.pending.push_back(Pending { end: self.queued, may_be_cut, wait, meaning });
        self.metrics.commands += 1;
        ticket
    }

    /// The bytes to write next.
    #[must_use]
    pub fn outgoing(&self) -> &[u8] {
        &self.outgoing
    }

    /// Notes that the transport took the first `n` outgoing bytes.
    pub fn sent(&mut self, n: usize) {
        let n = n.min(self.outgoing.len());
        self.sent += n as u64;
        self.metrics.bytes_out += n as u64;
        written(&mut self.outgoing, n);
    }

    /// Room for the next read: never empty, and never sized by a length that the server announced.
    pub fn space(&mut self) -> &mut [u8] {
        self.decoder.space()
    }

    /// Notes that the first `n` bytes of [`space`](Self::space) were read.
    pub fn received(&mut self, n: usize) {
        self.decoder.received(n);
        self.metrics.bytes_in += n as u64;
    }

    /// Notes that the server closed its side.
    pub fn end_of_stream(&mut self) {
        self.end_of_stream = true;
    }

    /// Whether the server closed its side.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.end_of_stream
    }

    /// The reply to `ticket`, once it is here; `None` if more bytes are needed. Tickets are asked for in order; the
    /// replies to the ones that were passed over take effect and are dropped.
    ///
    /// # Errors
    ///
    /// `Protocol` when the bytes are no reply, `ConnectionLost` when the stream ended before it. Both poison.
    pub fn reply(&mut self, ticket: Ticket) -> Result<Option<Response>, Error> {
        loop {
            match self.next_reply(ticket)? {
                Some((number, response)) if number == ticket => return Ok(Some(response)),
                Some(_) => {}
                None => return Ok(None),
            }
        }
    }

    /// As [`reply`](Self::reply), from the bytes that a pump has read.
    ///
    /// # Errors
    ///
    /// As [`reply`](Self::reply).
    pub fn reply_in<F>(
        &mut self,
        ticket: Ticket,
        io: &mut Io<F>,
    ) -> Result<Option<Response>, Error> {
        self.follow(io);
        while let Some((number, response)) = self.next_reply_in(ticket, io)? {
            if number == ticket {
                return Ok(Some(response));
            }
        }
        Ok(None)
    }

    /// Takes in the replies to the commands before this one, which nobody waits for, so that they need no room.
    #[cfg(any(feature = "tokio", feature = "blocking"))]
    pub(crate) fn pass_over_in<F>(&mut self, ticket: Ticket, io: &mut Io<F>) -> Result<(), Error> {
        self.follow(io);
        while self.answered < ticket.0 && self.next_reply_in(ticket, io)?.is_some() {}
        Ok(())
    }

    /// The same for all commands that were sent so far.
    #[cfg(any(feature = "tokio", feature = "blocking"))]
    pub(crate) fn pass_over_all_in<F>(&mut self, io: &mut Io<F>) -> Result<(), Error> {
        if !self.may_be_answered() {
            return Ok(());
        }
        self.pass_over_in(Ticket(self.answered + self.pending.len() as u64), io)
    }

    fn next_reply_in<F>(
        &mut self,
        ticket: Ticket,
        io: &mut Io<F>,
    ) -> Result<Option<(Ticket, Response)>, Error> {
        self.refuse_poisoned(ticket)?;
        let decoded = self.decoder.parser.next(io);
        self.sort(ticket, decoded)
    }

    /// Has a pump send what is outgoing.
    pub fn queue_in<F>(&mut self, io: &mut Io<F>) {
        self.follow(io);
        if !self.outgoing.is_empty() {
            io.queue(&mut self.outgoing);
        }
    }

    /// Notes how much a pump has moved on this connection.
    pub fn follow<F>(&mut self, io: &Io<F>) {
        self.metrics.bytes_out += io.sent().saturating_sub(self.sent);
        self.metrics.bytes_in += io.received().saturating_sub(self.read);
        (self.sent, self.read) = (io.sent(), io.received());
    }

    /// Whether the oldest command that is not answered was sent whole.
    #[must_use]
    pub fn oldest_is_sent(&self) -> bool {
        self.pending.front().is_some_and(|oldest| oldest.end <= self.sent)
    }

    /// Whether a pump has read all of a reply, or nothing.
    pub(crate) fn is_at_boundary_in<F>(&self, io: &Io<F>) -> bool {
        self.decoder.parser.is_at_boundary(io)
    }

    /// Whether a pump has read bytes that answer no command.
    #[must_use]
    pub fn has_unsolicited_bytes_in<F>(&self, io: &Io<F>) -> bool {
        self.pending.is_empty() && !self.is_at_boundary_in(io)
    }

    /// The reply that comes next, and its number, for somebody who waits for that of `ticket`.
    fn next_reply(&mut self, ticket: Ticket) -> Result<Option<(Ticket, Response)>, Error> {
        self.refuse_poisoned(ticket)?;
        let decoded = self.decoder.next();
        self.sort(ticket, decoded)
    }

    fn refuse_poisoned(&mut self, ticket: Ticket) -> Result<(), Error> {
        match self.health {
            Health::Poisoned => Err(self.fail(ticket, poisoned())),
            _ => Ok(()),
        }
    }

    /// Gives a reply its number, and lets it take effect.
    fn sort(
        &mut self,
        ticket: Ticket,
        decoded: Result<Option<Response>, Error>,
    ) -> Result<Option<(Ticket, Response)>, Error> {
        let response = match decoded {
            Ok(Some(response)) => response,
            Ok(None) if self.end_of_stream => match self.pending.front() {
                Some(Pending { meaning: Meaning::Command(Effect::Quit), .. })
                    if self.decoder.is_at_boundary() =>
                {
                    Response::Closed
                }
                _ => return Err(self.fail(ticket, ended())),
            },
            Ok(None) => return Ok(None),
            Err(error) => return Err(self.fail(ticket, error)),
        };
        let Some(answered) = self.take_begun() else {
            let error = Error::protocol("a reply came that answers no command");
            return Err(self.fail(ticket, error));
        };
        let number = Ticket(self.answered);
        self.answered += 1;
        self.metrics.replies += 1;
        if answered.may_be_cut && matches!(response, Response::BadFormat | Response::UnknownCommand)
        {
            // What the server made of the rest of the line gets a reply, too: the next one would be out of step.
            self.poison();
        }
        self.take_effect(answered.meaning, &response, number == ticket)
            .map_err(|error| self.fail(ticket, error))?;
        Ok(Some((number, response)))
    }

    /// Takes the oldest command, for its reply. None can have come before its first byte was sent; the last one need not
    /// have been, since some refusals come as soon as the command line is read.
    fn take_begun(&mut self) -> Option<Pending> {
        if self.sent <= self.answered_to {
            return None;
        }
        let oldest = self.pending.pop_front()?;
        self.answered_to = oldest.end;
        Some(oldest)
    }

    fn take_effect(
        &mut self,
        meaning: Meaning,
        response: &Response,
        wanted: bool,
    ) -> Result<(), Error> {
        let effect = match meaning {
            Meaning::Command(effect) => effect,
            Meaning::Restore => {
                return match response {
                    Response::Using(_) | Response::Watching(_) => Ok(()),
                    other => Err(Error::protocol(format!(
                        "the server answered {} when the used tube and the watch list were restored",
                        other.word()
                    ))),
                };
            }
        };
        match (effect, response) {
            (Effect::Use(tube), Response::Using(_)) => self.used = tube,
            (Effect::Watch(tube), Response::Watching(_)) if !self.watched.contains(&tube) => {
                self.watched.push(tube);
                self.give_orphans_back();
            }
            (Effect::Ignore(tube), Response::Watching(_)) if self.watched.contains(&tube) => {
                self.watched.retain(|t| *t != tube);
                self.give_orphans_back();
            }
            (
                Effect::Put,
                Response::BadFormat | Response::UnknownCommand | Response::ExpectedCrlf,
            ) => self.poison(),
            (Effect::Reserve, Response::Reserved(job)) if !wanted => {
                self.keep_orphan(job.clone());
            }
            // Nobody will run it, and no reserve may be given it: closing gives it back with its priority unchanged.
            (Effect::ReserveJob, Response::Reserved(_))
            | (
                Effect::Reserve | Effect::ReserveJob,
                Response::BodyTooLarge { .. } | Response::BodyDamaged { .. },
            ) if !wanted => {
                self.close_after_replies();
            }
            _ => {}
        }
        Ok(())
    }

    /// Decodes the reply to `command`. A reply that cannot belong to it poisons the connection.
    ///
    /// # Errors
    ///
    /// Whatever the server refused.
    pub fn decode<C: Command>(
        &mut self,
        command: &C,
        response: Response,
    ) -> Result<C::Reply, Error> {
        command.decode(response).map_err(|error| {
            if error.kind() == ErrorKind::Protocol {
                self.poison();
            }
            error.with_command(command.name())
        })
    }

    /// Poisons the connection and says what became of the command with this ticket.
    #[must_use]
    pub fn fail(&mut self, ticket: Ticket, error: Error) -> Error {
        self.poison();
        error.with_fate(self.fate(ticket))
    }

    /// Whether the server can have acted on a command that has no reply yet: only if its last byte was taken.
    fn fate(&self, ticket: Ticket) -> Fate {
        let index = ticket.0.checked_sub(self.answered).and_then(|n| usize::try_from(n).ok());
        match index.and_then(|index| self.pending.get(index)) {
            Some(pending) if pending.end > self.sent => Fate::NotSent,
            _ => Fate::Unknown,
        }
    }

    /// Whether the last byte of this command was taken.
    pub(crate) fn is_sent(&self, ticket: Ticket) -> bool {
        self.fate(ticket) != Fate::NotSent
    }

    /// Whether the reply that comes next can have come: the first byte of its command was taken.
    #[cfg(any(feature = "tokio", feature = "blocking"))]
    pub(crate) fn may_be_answered(&self) -> bool {
        self.sent > self.answered_to
    }

    /// How many bytes wait to be written, here and in the pump.
    #[cfg(any(feature = "tokio", feature = "blocking"))]
    pub(crate) fn unsent(&self) -> u64 {
        self.queued.saturating_sub(self.sent)
    }

    /// The most bytes that the largest reply has: there is nothing to gain by reading on before one was taken.
    #[cfg(any(feature = "tokio", feature = "blocking"))]
    pub(crate) fn largest_reply(&self) -> usize {
        self.decoder.parser.largest_reply()
    }

    /// Marks the connection as never to be used again.
    pub fn poison(&mut self) {
        self.health = Health::Poisoned;
    }

    /// Lets the replies that are under way come, and takes no further command.
    pub fn close_after_replies(&mut self) {
        if self.health == Health::Good {
            self.health = Health::Closing;
        }
    }

    /// Whether the connection takes commands.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.health == Health::Good && !self.end_of_stream
    }

    /// Whether the connection takes commands, or replies at least are still to come on it.
    #[cfg(any(feature = "tokio", feature = "blocking"))]
    pub(crate) fn is_in_use(&self) -> bool {
        let is_closing = self.health == Health::Closing && self.awaits_replies();
        (self.health == Health::Good || is_closing) && !self.end_of_stream
    }

    /// Whether replies are still to come.
    #[must_use]
    pub fn awaits_replies(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Whether bytes came that answer no command.
    #[must_use]
    pub fn has_unsolicited_bytes(&self) -> bool {
        self.pending.is_empty() && !self.decoder.is_at_boundary()
    }

    /// The number of this connection.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// What was done so far, on this connection and on those before it.
    #[must_use]
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// The same, for the face to count its connections and failures.
    pub(crate) fn metrics_mut(&mut self) -> &mut Metrics {
        &mut self.metrics
    }

    /// The tube that puts go to.
    #[must_use]
    pub fn used_tube(&self) -> &TubeName {
        &self.used
    }

    /// The tubes that reserves take from, in the order in which they were watched.
    #[must_use]
    pub fn watched_tubes(&self) -> &[TubeName] {
        &self.watched
    }
}

/// The longest line, in bytes with its CRLF, that every server takes whole: version 1.10's.
const SHORTEST_LIMIT: usize = 208;

/// Whether the line of a command is longer than some servers' limit. Those up to 1.11 refuse such a line at its limit,
/// and go on with what is left of it as the next one.
fn may_be_cut(frame: &[u8]) -> bool {
    frame.len() > SHORTEST_LIMIT
        && frame
            .get(..SHORTEST_LIMIT)
            .is_some_and(|start| !start.windows(2).any(|pair| pair == b"\r\n"))
}

fn poisoned() -> Error {
    let why = "an earlier reply left the connection unusable, so it is closed";
    Error::new(ErrorKind::ConnectionLost, Fate::Unknown, why)
}

/// The server has closed its side.
pub(crate) fn ended() -> Error {
    Error::new(ErrorKind::ConnectionLost, Fate::Unknown, "the server closed the connection")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{Delete, Ignore, Put, Quit, Reserve, StatsTube, Use, Watch};

    fn feed(session: &mut Session, bytes: &[u8]) {
        let space = session.space();
        space[..bytes.len()].copy_from_slice(bytes);
        session.received(bytes.len());
    }

    fn flush(session: &mut Session) -> Vec<u8> {
        let bytes = session.outgoing().to_vec();
        session.sent(bytes.len());
        bytes
    }

    fn tube(name: &str) -> TubeName {
        name.try_into().unwrap()
    }

    fn put(body: &[u8]) -> Put<&[u8]> {
        Put::new(body, crate::PutOptions::default()).unwrap()
    }

    #[test]
    fn a_session_whose_bytes_a_pump_moves_keeps_no_bytes_of_its_own() {
        let (mut session, mut io) = (Session::new(1024), Io::<()>::default());
        io.opened();
        let first = session.send(&put(b"a")).unwrap();
        let second = session.send(&Delete::new(5)).unwrap();
        session.queue_in(&mut io);
        assert_eq!(session.outgoing(), b"");
        io.took("put 1024 0 60 1\r\na\r\n".len(), queue_core::now());
        let feed = |io: &mut Io<()>, bytes: &[u8]| {
            io.space()[..bytes.len()].copy_from_slice(bytes);
            io.came(bytes.len());
        };
        feed(&mut io, b"INSERTED 1\r\nDELE");
        assert_eq!(session.reply_in(first, &mut io).unwrap(), Some(Response::Inserted(1.into())));
        assert_eq!(session.reply_in(second, &mut io).unwrap(), None);
        feed(&mut io, b"TED\r\n");
        let error = session.reply_in(second, &mut io).unwrap_err();
        assert_eq!((error.kind(), error.fate()), (ErrorKind::Protocol, Fate::NotSent));
        assert!(io.data().is_empty() && session.outgoing().is_empty());
        let metrics = session.metrics();
        assert_eq!((metrics.bytes_in, metrics.bytes_out), (io.received(), io.sent()));
    }

    #[test]
    fn a_passed_over_reply_does_not_shift_the_next_one() {
        let mut session = Session::new(1024);
        session.send(&put(b"a")).unwrap();
        let second = session.send(&Delete::new(5)).unwrap();
        flush(&mut session);
        feed(&mut session, b"INSERTED 1\r\nDELETED\r\n");
        assert_eq!(session.reply(second).unwrap(), Some(Response::Deleted));
    }

    #[test]
    fn fate_follows_the_last_byte() {
        let mut session = Session::new(1024);
        let first = session.send(&Delete::new(1)).unwrap();
        let second = session.send(&Delete::new(2)).unwrap();
        session.sent("delete 1\r\ndelete 2\r".len());
        let lost = || Error::new(ErrorKind::ConnectionLost, Fate::Unknown, "gone");
        assert_eq!(session.fail(first, lost()).fate(), Fate::Unknown);
        assert_eq!(session.fail(second, lost()).fate(), Fate::NotSent);
        assert!(!session.is_open());
    }

    #[test]
    fn reopen_restores_the_used_tube_and_the_watch_list() {
        let mut session = Session::new(1024);
        session.send(&Use(tube("out"))).unwrap();
        session.send(&Watch(tube("a"))).unwrap();
        session.send(&Watch(tube("a"))).unwrap();
        let last = session.send(&Ignore(tube("default"))).unwrap();
        flush(&mut session);
        feed(&mut session, b"USING out\r\nWATCHING 2\r\nWATCHING 2\r\nWATCHING 1\r\n");
        assert!(session.reply(last).unwrap().is_some());
        let old = session.epoch();
        session.poison();
        session.reopen();
        assert_ne!(session.epoch(), old);
        let ticket = session.send(&Reserve).unwrap();
        assert_eq!(flush(&mut session), b"use out\r\nwatch a\r\nignore default\r\nreserve\r\n");
        feed(&mut session, b"USING out\r\nWATCHING 2\r\nWATCHING 1\r\nTIMED_OUT\r\n");
        assert_eq!(session.reply(ticket).unwrap(), Some(Response::TimedOut));
    }

    #[test]
    fn a_refused_restore_is_an_error_not_a_silent_default() {
        let mut session = Session::new(1024);
        let first = session.send(&Use(tube("out"))).unwrap();
        flush(&mut session);
        feed(&mut session, b"USING out\r\n");
        session.reply(first).unwrap();
        session.reopen();
        let ticket = session.send(&put(b"a")).unwrap();
        flush(&mut session);
        feed(&mut session, b"OUT_OF_MEMORY\r\nINSERTED 1\r\n");
        assert_eq!(session.reply(ticket).unwrap_err().kind(), ErrorKind::Protocol);
        assert!(!session.is_open());
    }

    #[test]
    fn a_refused_put_line_poisons() {
        for (reply, open) in
            [("BAD_FORMAT", false), ("EXPECTED_CRLF", false), ("JOB_TOO_BIG", true)]
        {
            let mut session = Session::new(1024);
            let ticket = session.send(&put(b"a")).unwrap();
            flush(&mut session);
            feed(&mut session, format!("{reply}\r\n").as_bytes());
            assert!(session.reply(ticket).unwrap().is_some());
            assert_eq!(session.is_open(), open, "{reply}");
        }
    }

    #[test]
    fn a_refused_line_that_an_old_server_may_have_cut_poisons() {
        for (length, reply, open) in [
            (195, "BAD_FORMAT", true),
            (196, "BAD_FORMAT", false),
            (200, "UNKNOWN_COMMAND", false),
            (200, "NOT_FOUND", true),
        ] {
            let mut session = Session::new(1024);
            let ticket = session.send(&StatsTube(tube(&"t".repeat(length)))).unwrap();
            let behind = session.send(&Delete::new(5)).unwrap();
            flush(&mut session);
            feed(&mut session, format!("{reply}\r\nUNKNOWN_COMMAND\r\nDELETED\r\n").as_bytes());
            assert!(session.reply(ticket).unwrap().is_some());
            assert_eq!(session.is_open(), open, "{length} {reply}");
            let next = session.reply(behind).map(|reply| reply.unwrap()).map_err(|e| e.fate());
            assert_eq!(next, if open { Ok(Response::UnknownCommand) } else { Err(Fate::Unknown) });
        }
        // A long body is no long line.
        let mut session = Session::new(1024);
        session.send(&put(&[b'x'; 500])).unwrap();
        assert!(!session.pending[0].may_be_cut);
    }

    #[test]
    fn a_reply_that_comes_before_its_command_was_begun_poisons() {
        let mut session = Session::new(1024);
        let first = session.send(&put(b"a")).unwrap();
        let second = session.send(&put(b"b")).unwrap();
        // Some refusals come as soon as the line is read.
        session.sent(3);
        feed(&mut session, b"INSERTED 1\r\nINSERTED 2\r\n");
        assert_eq!(session.reply(first).unwrap(), Some(Response::Inserted(1.into())));
        let error = session.reply(second).unwrap_err();
        assert_eq!((error.kind(), error.fate()), (ErrorKind::Protocol, Fate::NotSent));
        assert!(!session.is_open());
    }

    #[test]
    fn a_reservation_is_only_good_on_its_connection() {
        let mut session = Session::new(1024);
        let ticket = session.send(&Reserve).unwrap();
        flush(&mut session);
        feed(&mut session, b"RESERVED 7 2\r\nhi\r\n");
        let Some(Response::Reserved(job)) = session.reply(ticket).unwrap() else { panic!() };
        session.reopen();
        let error = session.send(&Delete::new(&job)).unwrap_err();
        assert_eq!((error.kind(), error.fate()), (ErrorKind::JobLost, Fate::NotSent));
        assert_eq!(session.outgoing(), b"");
        assert!(session.send(&Delete::new(job.id)).is_ok());
    }

    #[test]
    fn unsolicited_bytes_are_noticed_and_end_of_stream_is_an_answer_only_to_quit() {
        let mut session = Session::new(1024);
        feed(&mut session, b"DELETED\r\n");
        assert!(session.has_unsolicited_bytes());

        let mut session = Session::new(1024);
        let quit = session.send(&Quit).unwrap();
        flush(&mut session);
        assert_eq!(session.reply(quit).unwrap(), None);
        session.end_of_stream();
        assert_eq!(session.reply(quit).unwrap(), Some(Response::Closed));

        let mut session = Session::new(1024);
        let ticket = session.send(&Reserve).unwrap();
        flush(&mut session);
        feed(&mut session, b"RESERVED 1 10\r\nabc");
        session.end_of_stream();
        let error = session.reply(ticket).unwrap_err();
        assert_eq!((error.kind(), error.fate()), (ErrorKind::ConnectionLost, Fate::Unknown));
    }
}
