//! The client role of one connection, without its socket: who waits for which answer, and for which job.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use bytes::BytesMut;
pub use queue_core::Epoch;
use queue_core::written;
#[cfg(any(feature = "tokio", feature = "blocking"))]
use queue_core::{Io, emptied};

use crate::{
    Address, Error, ErrorKind, Fate, JobEvent, JobHandle, Metrics, Origin, Progress,
    keys::Keys,
    protocol::{
        Packet, PacketType, Request, SetExceptions,
        request::{created_handle, received_handle, refusal},
    },
    random::note_process,
    short::Short,
};

/// The client role of one connection.
///
/// A face sends [requests](Request) with a token `T` of its own, which says who waits, and gives every packet that came
/// to [`accept`](Self::accept), which says for whom it is:
///
/// * JOB_CREATED, STATUS_RES, ECHO_RES, OPTION_RES and ERROR answer the requests in their order, except what answers the
///   [question for exceptions](Self::ask_for_exceptions), for which nobody waits;
/// * WORK_* packets are for whoever submitted a foreground job with that handle. When submissions were joined by their
///   unique id, the server sends every packet once for each of them, so the n-th copy is for the n-th submitter.
///
/// ```
/// use gearman_client::{Address, protocol::{Decoder, Delivery, Echo, Magic, Session}};
///
/// let mut session = Session::new(Address::default().into());
/// session.send(&Echo("hi"), 7);
/// assert_eq!(session.outgoing(), b"\0REQ\0\0\0\x10\0\0\0\x02hi");
/// session.sent(session.outgoing().len());
///
/// let mut decoder = Decoder::new(Magic::Response, 1 << 20);
/// let wire = b"\0RES\0\0\0\x11\0\0\0\x02hi";
/// decoder.space()[..wire.len()].copy_from_slice(wire);
/// decoder.received(wire.len());
/// let packet = decoder.next()?.expect("it is whole");
/// assert!(matches!(session.accept(packet)?, Delivery::Answer(7, _)));
/// # Ok::<(), gearman_client::Error>(())
/// ```
#[derive(Debug)]
pub struct Session<T> {
    origin: Origin,
    outgoing: BytesMut,
    /// Offset behind the last byte that was queued, and behind the last one that the transport took.
    queued: u64,
    sent: u64,
    #[cfg(any(feature = "tokio", feature = "blocking"))]
    received: u64,
    pending: VecDeque<Pending<T>>,
    /// How many of them are still in `outgoing`.
    unwritten: usize,
    jobs: HashMap<Short, Waiters<T>, Keys>,
    exceptions: Exceptions,
    metrics: Metrics,
}

/// What a server has said to the question for exceptions, which nobody waits for: some servers never answer it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Exceptions {
    NotAsked,
    /// Its answer is the next one, if it comes.
    Asked,
    /// A later question was answered before it.
    PassedOver,
    Granted,
    Refused,
}

#[derive(Debug)]
struct Pending<T> {
    /// Offset behind the request's last byte.
    end: u64,
    request: PacketType,
    answered_by: PacketType,
    has_events: bool,
    waiter: T,
}

/// Who waits for one job. Nearly always one.
#[derive(Debug)]
struct Waiters<T> {
    list: VecDeque<T>,
    /// Whose copy of the present packet comes next.
    turn: usize,
}

/// For whom a packet is.
#[derive(Debug)]
pub enum Delivery<T> {
    /// The answer to a request, or ERROR.
    Answer(T, Packet),
    /// The answer to the submission of a foreground job: its events follow.
    Created(T, Packet),
    /// Something that happened to a job.
    Event(T, JobEvent),
    /// Nobody: a job that is not waited for, or something that a client has no use for.
    Nobody,
}

/// A request or a job that a connection took with it.
#[derive(Debug)]
pub struct Lost<T> {
    /// Who waits.
    pub waiter: T,
    /// Whether the server can have acted.
    pub fate: Fate,
    /// The request's name.
    pub request: &'static str,
    /// The job, if the server had taken it.
    pub handle: Option<JobHandle>,
}

impl<T: Copy> Session<T> {
    /// The state of a connection that was just made to this server.
    #[must_use]
    pub fn new(server: Arc<Address>) -> Self {
        note_process();
        Session {
            origin: Origin { server, epoch: Epoch::next() },
            outgoing: BytesMut::new(),
            queued: 0,
            sent: 0,
            #[cfg(any(feature = "tokio", feature = "blocking"))]
            received: 0,
            pending: VecDeque::new(),
            unwritten: 0,
            jobs: HashMap::default(),
            exceptions: Exceptions::NotAsked,
            metrics: Metrics::default(),
        }
    }

    /// What was done so far.
    #[must_use]
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Takes the place of this session on a connection that was lost, and counts on.
    #[cfg(any(feature = "tokio", feature = "blocking"))]
    pub(crate) fn follow(&mut self, lost: &Metrics) {
        let own = std::mem::replace(&mut self.metrics, lost.clone());
        self.metrics.add(&own);
        self.metrics.connected();
    }

    /// Notes that `n` bytes were read.
    pub fn note_read(&mut self, n: usize) {
        self.metrics.bytes_in += n as u64;
    }

    /// Asks for exceptions (OPTION_REQ). To be the first of a connection.
    ///
    /// Nobody waits for the answer. gearmand and the Perl server grant it before they answer anything else; other servers
    /// are silent, and refusing it does no harm: a worker's exception comes as a plain failure then.
    pub fn ask_for_exceptions(&mut self) {
        let before = self.outgoing.len();
        SetExceptions.encode(&mut self.outgoing);
        self.metrics.commands += 1;
        self.queued += (self.outgoing.len() - before) as u64;
        self.exceptions = Exceptions::Asked;
    }

    /// Whether exceptions come as such: `None` while that is not known.
    #[must_use]
    pub fn has_exceptions(&self) -> Option<bool> {
        match self.exceptions {
            Exceptions::Asked => None,
            Exceptions::Granted => Some(true),
            Exceptions::NotAsked | Exceptions::PassedOver | Exceptions::Refused => Some(false),
        }
    }

    /// Encodes a request for writing. Its answer is for `waiter`.
    pub fn send<R: Request>(&mut self, request: &R, waiter: T) {
        let before = self.outgoing.len();
        request.encode(&mut self.outgoing);
        self.metrics.commands += 1;
        self.queued += (self.outgoing.len() - before) as u64;
        self.unwritten += 1;
        self.pending.push_back(Pending {
            end: self.queued,
            request: request.packet_type(),
            answered_by: request.answered_by(),
            has_events: request.has_events(),
            waiter,
        });
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
        if n == self.outgoing.len() {
            self.unwritten = 0;
        }
        written(&mut self.outgoing, n);
    }

    /// Notes how much the connection has taken and brought so far.
    #[cfg(any(feature = "tokio", feature = "blocking"))]
    pub(crate) fn note<F>(&mut self, io: &Io<F>) {
        self.metrics.bytes_out += io.sent() - self.sent;
        self.metrics.bytes_in += io.received() - self.received;
        (self.sent, self.received) = (io.sent(), io.received());
    }

    /// Hands the outgoing bytes to the connection, which has written all before them.
    #[cfg(any(feature = "tokio", feature = "blocking"))]
    pub(crate) fn hand_over<F>(&mut self, io: &mut Io<F>) {
        io.queue(&mut self.outgoing);
        emptied(&mut self.outgoing);
        self.unwritten = 0;
    }

    /// Says for whom a packet is.
    ///
    /// # Errors
    ///
    /// `Protocol` when the packet answers no request, or not the one whose turn it is. The connection cannot be used any
    /// further then.
    pub fn accept(&mut self, packet: Packet) -> Result<Delivery<T>, Error> {
        match packet.packet_type {
            PacketType::WorkComplete
            | PacketType::WorkFail
            | PacketType::WorkException
            | PacketType::WorkData
            | PacketType::WorkWarning
            | PacketType::WorkStatus => self.event(&packet),
            // For workers, which may share a connection.
            PacketType::Noop => Ok(Delivery::Nobody),
            PacketType::OptionRes if self.is_asked_for_exceptions() => {
                Ok(self.told_of_exceptions(Exceptions::Granted))
            }
            PacketType::Error if self.refuses_exceptions(&packet) => {
                Ok(self.told_of_exceptions(Exceptions::Refused))
            }
            // An error that answers nothing is about something this connection did not wait for.
            PacketType::Error if self.pending.is_empty() => Ok(Delivery::Nobody),
            PacketType::Error => Ok(self.answer(packet)),
            answer => match self.pending.front() {
                Some(head) if head.answered_by == answer && head.has_events => {
                    let waiter = head.waiter;
                    let handle = created_handle(&packet)?;
                    self.pending.pop_front();
                    self.metrics.replies += 1;
                    self.pass_over_exceptions();
                    self.jobs.entry(handle).or_default().list.push_back(waiter);
                    Ok(Delivery::Created(waiter, packet))
                }
                Some(head) if head.answered_by == answer => Ok(self.answer(packet)),
                Some(head) => {
                    let asked = head.request;
                    Err(Error::protocol(format!("the server answered {asked} with {answer}")))
                }
                None => Err(Error::protocol(format!("{answer} came, which answers no request"))),
            },
        }
    }

    fn is_asked_for_exceptions(&self) -> bool {
        matches!(self.exceptions, Exceptions::Asked | Exceptions::PassedOver)
    }

    /// Whether an ERROR is about exceptions. It says so; or nothing else is asked; or it is the first answer, and about
    /// a packet that the server does not know.
    fn refuses_exceptions(&self, packet: &Packet) -> bool {
        let kind = || refusal(packet).kind();
        match self.exceptions {
            Exceptions::Asked => {
                self.pending.is_empty()
                    || matches!(kind(), ErrorKind::UnknownOption | ErrorKind::Unsupported)
            }
            Exceptions::PassedOver => kind() == ErrorKind::UnknownOption,
            Exceptions::NotAsked | Exceptions::Granted | Exceptions::Refused => false,
        }
    }

    fn told_of_exceptions(&mut self, answer: Exceptions) -> Delivery<T> {
        self.exceptions = answer;
        self.metrics.replies += 1;
        Delivery::Nobody
    }

    /// Notes that something was answered that was asked after exceptions.
    fn pass_over_exceptions(&mut self) {
        if self.exceptions == Exceptions::Asked {
            self.exceptions = Exceptions::PassedOver;
        }
    }

    fn answer(&mut self, packet: Packet) -> Delivery<T> {
        match self.pending.pop_front() {
            Some(answered) => {
                self.metrics.replies += 1;
                self.pass_over_exceptions();
                Delivery::Answer(answered.waiter, packet)
            }
            None => Delivery::Nobody,
        }
    }

    fn event(&mut self, packet: &Packet) -> Result<Delivery<T>, Error> {
        let (handle, event) = event(packet)?;
        let Some(waiters) = self.jobs.get_mut(&handle) else { return Ok(Delivery::Nobody) };
        let waiter = if event.is_last() { waiters.take_next() } else { waiters.next() };
        if waiters.list.is_empty() {
            self.jobs.remove(&handle);
        }
        Ok(waiter.map_or(Delivery::Nobody, |waiter| Delivery::Event(waiter, event)))
    }

    /// Everything that waits: the connection is lost.
    pub fn close(&mut self) -> Vec<Lost<T>> {
        let sent = self.sent;
        let mut lost: Vec<Lost<T>> = self
            .pending
            .drain(..)
            .map(|pending| Lost {
                waiter: pending.waiter,
                fate: if pending.end > sent { Fate::NotSent } else { Fate::Unknown },
                request: pending.request.name(),
                handle: None,
            })
            .collect();
        // In the same order each time, for a simulation that has to come out the same again.
        let mut jobs: Vec<_> = self.jobs.drain().collect();
        jobs.sort_unstable_by(|(one, _), (other, _)| one.as_bytes().cmp(other.as_bytes()));
        for (handle, waiters) in jobs {
            let handle = JobHandle::received(handle, &self.origin);
            lost.extend(waiters.list.into_iter().map(|waiter| Lost {
                waiter,
                fate: Fate::Unknown,
                request: PacketType::SubmitJob.name(),
                handle: Some(handle.clone()),
            }));
        }
        self.outgoing.clear();
        self.unwritten = 0;
        lost
    }

    /// How many requests have no answer yet.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    /// Whether a request that is written whole has no answer yet.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.pending.front().is_some_and(|oldest| oldest.end <= self.sent)
    }

    /// How many of them wait to be written.
    #[cfg(any(feature = "tokio", feature = "blocking"))]
    pub(crate) fn unwritten(&self) -> usize {
        self.unwritten
    }

    /// How many foreground jobs have not ended yet, by handle.
    #[must_use]
    pub fn running(&self) -> usize {
        self.jobs.len()
    }

    /// The server and the number of this connection.
    #[must_use]
    pub fn origin(&self) -> &Origin {
        &self.origin
    }
}

impl<T> Default for Waiters<T> {
    fn default() -> Self {
        Waiters { list: VecDeque::new(), turn: 0 }
    }
}

impl<T: Copy> Waiters<T> {
    /// Whose copy this is.
    fn next(&mut self) -> Option<T> {
        let waiter = self.list.get(self.turn).copied();
        self.turn = if self.turn + 1 < self.list.len() { self.turn + 1 } else { 0 };
        waiter
    }

    /// Whose last copy this is.
    fn take_next(&mut self) -> Option<T> {
        let waiter = self.list.remove(self.turn.min(self.list.len().saturating_sub(1)));
        if self.turn >= self.list.len() {
            self.turn = 0;
        }
        waiter
    }
}

/// The job and what happened to it.
fn event(packet: &Packet) -> Result<(Short, JobEvent), Error> {
    if packet.packet_type == PacketType::WorkFail {
        return Ok((received_handle(&packet.body)?, JobEvent::Fail));
    }
    if packet.packet_type == PacketType::WorkStatus {
        let ([handle, numerator], denominator) = packet.split()?;
        let progress = Progress::new(numerator, denominator);
        return Ok((received_handle(&handle)?, JobEvent::Status(progress)));
    }
    let ([handle], data) = packet.split()?;
    let event = match packet.packet_type {
        PacketType::WorkComplete => JobEvent::Complete(data),
        PacketType::WorkException => JobEvent::Exception(data),
        PacketType::WorkWarning => JobEvent::Warning(data),
        _ => JobEvent::Data(data),
    };
    Ok((received_handle(&handle)?, event))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        ErrorKind, FunctionName, SubmitOptions,
        protocol::{Echo, GetStatus, Magic, Submit},
    };

    fn session() -> Session<u32> {
        Session::new(Arc::default())
    }

    fn packet(packet_type: PacketType, arguments: &[&str]) -> Packet {
        Packet::new(Magic::Response, packet_type, arguments).unwrap()
    }

    fn foreground() -> Submit<&'static str> {
        let function = FunctionName::try_from("f").unwrap();
        Submit::foreground(function, "data", SubmitOptions::default()).unwrap()
    }

    /// Who got it, and how it reads.
    fn accept(session: &mut Session<u32>, packet: Packet) -> Option<(u32, String)> {
        match session.accept(packet).unwrap() {
            Delivery::Answer(waiter, packet) | Delivery::Created(waiter, packet) => {
                Some((waiter, packet.packet_type.to_string()))
            }
            Delivery::Event(waiter, event) => Some((waiter, format!("{event:?}"))),
            Delivery::Nobody => None,
        }
    }

    fn got(waiter: u32, what: &str) -> Option<(u32, String)> {
        Some((waiter, what.to_owned()))
    }

    #[test]
    fn answers_come_in_the_order_of_the_requests() {
        let mut session = session();
        session.send(&Echo("a"), 1);
        session.send(&GetStatus("H:x:1".parse().unwrap()), 2);
        session.send(&Echo("b"), 3);
        let status = packet(PacketType::StatusRes, &["H:x:1", "0", "0", "0", "0"]);
        assert_eq!(accept(&mut session, packet(PacketType::EchoRes, &["a"])), got(1, "ECHO_RES"));
        assert_eq!(accept(&mut session, status), got(2, "STATUS_RES"));
        let error = packet(PacketType::Error, &["X", "y"]);
        assert_eq!(accept(&mut session, error), got(3, "ERROR"));
        assert_eq!(session.pending(), 0);
    }

    fn asking() -> Session<u32> {
        let mut session = session();
        session.ask_for_exceptions();
        session.send(&foreground(), 1);
        session.send(&Echo("a"), 2);
        session
    }

    fn error(code: &str) -> Packet {
        packet(PacketType::Error, &[code, "text"])
    }

    #[test]
    fn exceptions_are_asked_for_first_and_nobody_waits_for_the_answer() {
        let mut session = asking();
        assert!(session.outgoing().starts_with(b"\0REQ\0\0\0\x1a\0\0\0\x0aexceptions\0REQ"));
        assert_eq!((session.pending(), session.has_exceptions()), (2, None));
        assert_eq!(accept(&mut session, packet(PacketType::OptionRes, &["exceptions"])), None);
        assert_eq!((session.pending(), session.has_exceptions()), (2, Some(true)));
        let created = packet(PacketType::JobCreated, &["H:x:1"]);
        assert_eq!(accept(&mut session, created), got(1, "JOB_CREATED"));
        // It is asked once.
        assert!(session.accept(packet(PacketType::OptionRes, &["exceptions"])).is_err());
    }

    #[test]
    fn quirk_a_server_may_be_silent_about_exceptions() {
        let mut session = asking();
        let created = packet(PacketType::JobCreated, &["H:x:1"]);
        assert_eq!(accept(&mut session, created), got(1, "JOB_CREATED"));
        assert_eq!(session.has_exceptions(), Some(false));
        assert_eq!(accept(&mut session, error("INVALID_COMMAND")), got(2, "ERROR"));
        assert_eq!(session.pending(), 0);
        // The first answer may be a refusal, too.
        let mut session = asking();
        assert_eq!(accept(&mut session, error("QUEUE_ERROR")), got(1, "ERROR"));
        assert_eq!(accept(&mut session, packet(PacketType::EchoRes, &["a"])), got(2, "ECHO_RES"));
    }

    #[test]
    fn quirk_a_server_may_refuse_exceptions() {
        for code in ["UNKNOWN_OPTION", "unknown_option", "INVALID_COMMAND"] {
            let mut session = asking();
            assert_eq!(accept(&mut session, error(code)), None, "{code}");
            assert_eq!(session.has_exceptions(), Some(false));
            assert_eq!(accept(&mut session, error("QUEUE_ERROR")), got(1, "ERROR"));
            assert_eq!(accept(&mut session, error(code)), got(2, "ERROR"), "only one was for that");
        }
        let mut session = session();
        session.ask_for_exceptions();
        assert_eq!(accept(&mut session, error("server_error")), None);
        session.send(&Echo("a"), 1);
        assert_eq!(accept(&mut session, error("server_error")), got(1, "ERROR"));
    }

    #[test]
    fn quirk_a_server_may_answer_late_about_exceptions() {
        for late in [packet(PacketType::OptionRes, &["exceptions"]), error("UNKNOWN_OPTION")] {
            let mut session = asking();
            let granted = late.packet_type == PacketType::OptionRes;
            let created = packet(PacketType::JobCreated, &["H:x:1"]);
            assert_eq!(accept(&mut session, created), got(1, "JOB_CREATED"));
            assert_eq!(accept(&mut session, late), None);
            assert_eq!(session.has_exceptions(), Some(granted));
            assert_eq!(
                accept(&mut session, packet(PacketType::EchoRes, &["a"])),
                got(2, "ECHO_RES")
            );
        }
    }

    #[test]
    fn a_request_waits_for_its_answer_from_its_last_byte_on() {
        let mut session = session();
        session.send(&Echo("large"), 1);
        session.sent(session.outgoing().len() - 1);
        assert!(!session.is_waiting());
        session.sent(1);
        assert!(session.is_waiting());
        accept(&mut session, packet(PacketType::EchoRes, &["large"]));
        assert!(!session.is_waiting());
    }

    #[test]
    fn an_answer_out_of_turn_is_a_protocol_error() {
        let mut one = session();
        one.send(&Echo("a"), 1);
        let error = one.accept(packet(PacketType::JobCreated, &["H:x:1"])).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Protocol);
        assert_eq!(error.to_string(), "the server answered ECHO_REQ with JOB_CREATED");
        assert!(session().accept(packet(PacketType::EchoRes, &["a"])).is_err());
        assert!(session().accept(packet(PacketType::Other(77), &["a"])).is_err());
    }

    #[test]
    fn quirk_noop_and_error_may_come_at_any_time() {
        let mut session = session();
        assert_eq!(accept(&mut session, packet(PacketType::Noop, &[])), None);
        assert_eq!(accept(&mut session, packet(PacketType::Error, &["JOB_NOT_FOUND", ""])), None);
        session.send(&Echo("a"), 1);
        assert_eq!(accept(&mut session, packet(PacketType::Noop, &[])), None);
        assert_eq!(accept(&mut session, packet(PacketType::EchoRes, &["a"])), got(1, "ECHO_RES"));
    }

    #[test]
    fn events_find_their_job_in_any_order() {
        let mut session = session();
        session.send(&foreground(), 1);
        session.send(&foreground(), 2);
        accept(&mut session, packet(PacketType::JobCreated, &["H:x:1"]));
        accept(&mut session, packet(PacketType::JobCreated, &["H:x:2"]));
        let data = packet(PacketType::WorkData, &["H:x:2", "ab"]);
        assert_eq!(accept(&mut session, data), got(2, "Data(2 bytes)"));
        let complete = packet(PacketType::WorkComplete, &["H:x:2", ""]);
        assert_eq!(accept(&mut session, complete), got(2, "Complete(0 bytes)"));
        assert_eq!(accept(&mut session, packet(PacketType::WorkFail, &["H:x:1"])), got(1, "Fail"));
        assert_eq!(session.running(), 0);
    }

    #[test]
    fn quirk_the_handle_of_work_fail_may_end_with_a_nul() {
        let mut session = session();
        session.send(&foreground(), 1);
        accept(&mut session, packet(PacketType::JobCreated, &["H:x:1"]));
        let fail = packet(PacketType::WorkFail, &["H:x:1\0"]);
        assert_eq!(accept(&mut session, fail), got(1, "Fail"));
    }

    #[test]
    fn quirk_joined_submissions_get_every_packet_once_each() {
        let mut session = session();
        for waiter in [1, 2] {
            session.send(&foreground(), waiter);
            accept(&mut session, packet(PacketType::JobCreated, &["H:x:1"]));
        }
        let data = || packet(PacketType::WorkData, &["H:x:1", "a"]);
        assert_eq!(accept(&mut session, data()), got(1, "Data(1 bytes)"));
        assert_eq!(accept(&mut session, data()), got(2, "Data(1 bytes)"));
        session.send(&foreground(), 3);
        accept(&mut session, packet(PacketType::JobCreated, &["H:x:1"]));
        let complete = || packet(PacketType::WorkComplete, &["H:x:1", "r"]);
        for waiter in [1, 2, 3] {
            assert_eq!(accept(&mut session, complete()), got(waiter, "Complete(1 bytes)"));
        }
        assert_eq!(accept(&mut session, complete()), None);
    }

    #[test]
    fn quirk_a_result_after_a_cancelling_failure_is_for_nobody() {
        let mut session = session();
        session.send(&foreground(), 1);
        accept(&mut session, packet(PacketType::JobCreated, &["H:x:1"]));
        assert_eq!(accept(&mut session, packet(PacketType::WorkFail, &["H:x:1"])), got(1, "Fail"));
        assert_eq!(accept(&mut session, packet(PacketType::WorkComplete, &["H:x:1", "r"])), None);
    }

    #[test]
    fn quirk_progress_may_be_no_number() {
        let mut session = session();
        session.send(&foreground(), 1);
        accept(&mut session, packet(PacketType::JobCreated, &["H:x:1"]));
        let status = packet(PacketType::WorkStatus, &["H:x:1", "half", "-1"]);
        let Delivery::Event(1, JobEvent::Status(progress)) = session.accept(status).unwrap() else {
            panic!("it is for the submitter");
        };
        assert_eq!((progress.numerator(), progress.raw()), (None, (&b"half"[..], &b"-1"[..])));
    }

    #[test]
    fn fate_follows_the_last_byte() {
        let mut session = session();
        session.send(&foreground(), 0);
        session.sent(session.outgoing().len());
        accept(&mut session, packet(PacketType::JobCreated, &["H:x:1"]));
        session.send(&Echo("one"), 1);
        session.send(&Echo("two"), 2);
        session.sent(session.outgoing().len() - 1);
        let lost: Vec<_> =
            session.close().into_iter().map(|lost| (lost.waiter, lost.fate)).collect();
        assert_eq!(lost, [(1, Fate::Unknown), (2, Fate::NotSent), (0, Fate::Unknown)]);
    }
}
