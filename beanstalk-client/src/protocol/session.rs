//! The state of one connection without its socket: bytes to write, bytes read, and pending replies.

mod frame;
mod leftover;
mod replies;
mod reset;
#[cfg(test)]
mod tests;

use std::{collections::VecDeque, time::Instant};

use bytes::BytesMut;
use queue_core::{Epoch, Io, written};

use crate::protocol::{Ignore, Watch};
use crate::{
    Error, ErrorKind, Fate, Job, JobId, JobRef, Metrics, TubeName,
    protocol::{Command, Effect, ServerWait, command::line, parser::Decoder},
};

pub(crate) use self::{frame::EncodedCommand, leftover::is_gone, reset::Reset};

/// The number of a command on its connection, and of its reply.
///
/// The server answers in order, so the n-th reply belongs to the n-th command. Asking for a reply by number keeps later
/// callers in step after a call was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(u64);

/// The state of one connection, independent of its socket.
///
/// A face moves bytes: it writes [`outgoing`](Self::outgoing), reads into [`space`](Self::space), and asks for the
/// [`reply`](Self::reply) to a ticket. No state of a connection lives in a future, so a dropped call loses no byte: the
/// next call finishes a half-written command, and a reply whose caller is gone is still processed.
///
/// ```text
///            send            outgoing / sent            space / received          reply
///  command ───────► encoded ────────────────► written ───────────────────► read ────────► response
///     │                                                                       │
///     └──────── ticket n ──────────────── the n-th reply ─────────────────────┘
/// ```
///
/// An unclaimed reply still takes effect: `USING` and `WATCHING` update the state that a reconnect restores,
/// and a `RESERVED` becomes an *orphan*, a job that is offered to the next reserve (see [`orphan`](Self::orphan)).
#[derive(Debug)]
pub struct Session {
    epoch: Epoch,
    outgoing: BytesMut,
    /// Offset after the last queued byte, and after the last one that the transport took.
    queued: u64,
    sent: u64,
    /// How many bytes a pump has read.
    read: u64,
    decoder: Decoder,
    pending: VecDeque<PendingReply>,
    /// The number of replies read, which is the number of the next reply.
    answered: u64,
    /// Whether the server has answered a command since this was last asked.
    has_answered: bool,
    /// Offset after the last byte of the most recently answered command, where the oldest pending one begins.
    answered_to: u64,
    used: TubeName,
    watched: Vec<TubeName>,
    orphans: VecDeque<Job>,
    holdings: reset::Holdings,
    /// The touch that checks the oldest orphan, and when it was sent.
    asked: Option<(Ticket, Instant)>,
    end_of_stream: bool,
    state: SessionState,
    max_body: usize,
    metrics: Metrics,
}

#[derive(Debug)]
struct PendingReply {
    /// Offset after the command's last byte.
    end: u64,
    /// Whether an old server may have truncated its line, and taken the rest for another command.
    may_be_cut: bool,
    wait: ServerWait,
    meaning: Meaning,
    /// The job that it acts on.
    job: Option<JobId>,
}

#[derive(Debug)]
enum Meaning {
    Command(Effect),
    /// Sent by the session itself, to restore the previous connection's state.
    Restore,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SessionState {
    Open,
    /// Only for the replies that are under way; accepts no further command.
    Closing,
    /// Unusable.
    Closed,
}

impl Session {
    /// The state of a new connection. Bodies over `max_body` bytes are skipped, not stored.
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
            has_answered: false,
            answered_to: 0,
            used: TubeName::default(),
            watched: vec![TubeName::default()],
            orphans: VecDeque::new(),
            holdings: reset::Holdings::default(),
            asked: None,
            end_of_stream: false,
            state: SessionState::Open,
            max_body,
            metrics: Metrics::default(),
        }
    }

    /// Starts over on a new connection, on which the commands that restore the used tube and the watch list are written
    /// first. Pending commands are forgotten; orphans are gone, since the server took them back.
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
        self.queue(before, ServerWait::None, Meaning::Restore, None);
    }

    /// Encodes a command for writing and gives it the next number.
    ///
    /// # Errors
    ///
    /// `JobLost` when the command acts on a reservation of another connection; `ConnectionLost` when this one must not
    /// be used any more. In both cases nothing is queued.
    pub fn send<C: Command>(&mut self, command: &C) -> Result<Ticket, Error> {
        self.refuse(command.job())?;
        let before = self.outgoing.len();
        command.encode(&mut self.outgoing);
        let meaning = Meaning::Command(command.effect());
        Ok(self.queue(before, command.server_wait(), meaning, command.job()))
    }

    /// Refuses a command that must not be sent on this connection.
    fn refuse(&self, job: Option<JobRef>) -> Result<(), Error> {
        self.refuse_lost_reservation(job)?;
        if self.is_open() {
            return Ok(());
        }
        Err(Error::new(ErrorKind::ConnectionLost, Fate::NotSent, "the connection is closed"))
    }

    /// Refuses a command on a job that another connection held: its id may by now name another job.
    pub(crate) fn refuse_lost_reservation(&self, job: Option<JobRef>) -> Result<(), Error> {
        match job.and_then(|job| job.reservation.map(|held_by| (job, held_by))) {
            Some((job, held_by)) if held_by != self.epoch => Err(Error::new(
                ErrorKind::JobLost,
                Fate::NotSent,
                format!(
                    "the connection that held job {} is gone; unless the server stopped, the job is ready again: reserve it again",
                    job.id
                ),
            )),
            _ => Ok(()),
        }
    }

    fn queue(
        &mut self,
        before: usize,
        wait: ServerWait,
        meaning: Meaning,
        job: Option<JobRef>,
    ) -> Ticket {
        let frame = self.outgoing.get(before..).unwrap_or_default();
        let may_be_cut = may_be_cut(frame);
        self.queued += frame.len() as u64;
        let ticket = Ticket(self.answered + self.pending.len() as u64);
        let job = job.map(|job| job.id);
        self.pending.push_back(PendingReply { end: self.queued, may_be_cut, wait, meaning, job });
        self.metrics.commands += 1;
        ticket
    }

    /// The next bytes to write.
    #[must_use]
    pub fn outgoing(&self) -> &[u8] {
        &self.outgoing
    }

    /// Records that the transport took the first `n` outgoing bytes.
    pub fn sent(&mut self, n: usize) {
        let n = n.min(self.outgoing.len());
        self.sent += n as u64;
        self.metrics.bytes_out += n as u64;
        written(&mut self.outgoing, n);
    }

    /// Buffer space for the next read: never empty, and never sized by a length that the server announced.
    pub fn space(&mut self) -> &mut [u8] {
        self.decoder.space()
    }

    /// Records that the first `n` bytes of [`space`](Self::space) were read.
    pub fn received(&mut self, n: usize) {
        self.decoder.received(n);
        self.metrics.bytes_in += n as u64;
    }

    /// Records that the server closed its side.
    pub fn end_of_stream(&mut self) {
        self.end_of_stream = true;
    }

    /// Whether the server closed its side.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.end_of_stream
    }

    /// Queues the outgoing bytes in a pump.
    pub fn queue_in<F>(&mut self, io: &mut Io<F>) {
        self.follow(io);
        if !self.outgoing.is_empty() {
            io.queue(&mut self.outgoing);
        }
    }

    /// Records how much a pump has moved on this connection.
    pub fn follow<F>(&mut self, io: &Io<F>) {
        self.metrics.bytes_out += io.sent().saturating_sub(self.sent);
        self.metrics.bytes_in += io.received().saturating_sub(self.read);
        (self.sent, self.read) = (io.sent(), io.received());
    }

    /// Whether the oldest unanswered command was completely sent.
    #[must_use]
    pub fn oldest_is_sent(&self) -> bool {
        self.pending.front().is_some_and(|oldest| oldest.end <= self.sent)
    }

    /// How long the server may hold back the oldest reply, if its command was completely sent.
    pub(crate) fn oldest_wait(&self) -> Option<ServerWait> {
        self.pending.front().filter(|_| self.oldest_is_sent()).map(|oldest| oldest.wait)
    }

    /// Whether a pump has read only whole replies.
    pub(crate) fn is_at_boundary_in<F>(&self, io: &Io<F>) -> bool {
        self.decoder.parser.is_at_boundary(io)
    }

    /// Whether a pump has read bytes that answer no command.
    #[must_use]
    pub fn has_unsolicited_bytes_in<F>(&self, io: &Io<F>) -> bool {
        self.pending.is_empty() && !self.is_at_boundary_in(io)
    }

    /// Whether the transport took the last byte of this command.
    pub(crate) fn is_sent(&self, ticket: Ticket) -> bool {
        self.fate(ticket) != Fate::NotSent
    }

    /// Whether the next reply can have arrived: the transport took the first byte of its command.
    pub(crate) fn may_be_answered(&self) -> bool {
        self.sent > self.answered_to
    }

    /// Number of unwritten bytes, here and in the pump.
    pub(crate) fn unsent(&self) -> u64 {
        self.queued.saturating_sub(self.sent)
    }

    /// Maximum size of a reply: once that much is buffered, a reply has to be taken before more is read.
    pub(crate) fn largest_reply(&self) -> usize {
        self.decoder.parser.largest_reply()
    }

    /// Marks the connection as unusable, for its pump to close.
    pub fn close(&mut self) {
        self.state = SessionState::Closed;
    }

    /// Lets outstanding replies arrive, but accepts no further command.
    pub fn close_after_replies(&mut self) {
        if self.state == SessionState::Open {
            self.state = SessionState::Closing;
        }
    }

    /// Whether the connection accepts commands.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.state == SessionState::Open && !self.end_of_stream
    }

    /// Whether the connection accepts commands, or at least has replies outstanding.
    pub(crate) fn is_in_use(&self) -> bool {
        let is_closing = self.state == SessionState::Closing && self.awaits_replies();
        (self.state == SessionState::Open || is_closing) && !self.end_of_stream
    }

    /// Whether replies are outstanding.
    #[must_use]
    pub fn awaits_replies(&self) -> bool {
        !self.pending.is_empty()
    }

    /// The number of this connection.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Metrics of this connection and of those before it.
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

    /// The commands that ensure that these tubes are watched, taking abandoned commands into account.
    pub(crate) fn to_watch(&self, tubes: &[TubeName]) -> Vec<Watch> {
        let stays = |tube: &TubeName| {
            self.watched.contains(tube)
                && !self.under_way().any(|effect| *effect == Effect::Ignore(tube.clone()))
        };
        tubes.iter().filter(|tube| !stays(tube)).cloned().map(Watch).collect()
    }

    /// The commands that ensure that no other tube is watched.
    pub(crate) fn to_ignore(&self, tubes: &[TubeName]) -> Vec<Ignore> {
        let comes = self.under_way().filter_map(|effect| match effect {
            Effect::Watch(tube) if !self.watched.contains(tube) => Some(tube),
            _ => None,
        });
        let others = self.watched.iter().chain(comes).filter(|tube| !tubes.contains(tube));
        others.cloned().map(Ignore).collect()
    }

    /// The pending effects of unanswered commands.
    fn under_way(&self) -> impl Iterator<Item = &Effect> {
        self.pending.iter().filter_map(|pending| match &pending.meaning {
            Meaning::Command(effect) => Some(effect),
            Meaning::Restore => None,
        })
    }
}

/// The maximum length of a line that every server accepts, in bytes with its CRLF: that of version 1.10.
const SHORTEST_LIMIT: usize = 208;

/// Whether the line of a command exceeds some servers' limit. Servers up to 1.11 refuse such a line at their limit, and
/// read the rest of it as the next command.
fn may_be_cut(frame: &[u8]) -> bool {
    frame.len() > SHORTEST_LIMIT
        && frame
            .get(..SHORTEST_LIMIT)
            .is_some_and(|start| !start.windows(2).any(|pair| pair == b"\r\n"))
}

fn closed() -> Error {
    let why = "an earlier reply left the connection unusable, so it is closed";
    Error::new(ErrorKind::ConnectionLost, Fate::Unknown, why)
}

/// The error for a connection whose server has closed its side.
pub(crate) fn ended() -> Error {
    Error::new(ErrorKind::ConnectionLost, Fate::Unknown, "the server closed the connection")
}
