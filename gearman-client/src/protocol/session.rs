//! The client role of one connection, without its socket: which caller awaits which answer and which job.

#[cfg(test)]
mod tests;

use std::{
    collections::{HashMap, VecDeque, hash_map::Entry},
    sync::Arc,
};

use bytes::BytesMut;
use queue_core::{Epoch, Io, emptied, written};

use crate::{
    Address, Error, ErrorKind, Fate, JobEvent, JobHandle, Metrics, Origin, Progress,
    names::{keys::Keys, short::ShortId},
    protocol::{
        Packet, PacketType, Request, SetExceptions,
        request::{received_handle, refusal},
    },
    random::note_process,
};

/// The client role of one connection.
///
/// A face sends [requests](Request), each with a token `T` that identifies the waiting caller, and passes every
/// received packet to [`accept`](Self::accept), which returns its recipient:
///
/// * JOB_CREATED, STATUS_RES, ECHO_RES, OPTION_RES and ERROR answer the requests in order, except for the answer to the
///   [request for exceptions](Self::ask_for_exceptions), which is not awaited;
/// * WORK_* packets go to the submitter of the foreground job with that handle. When submissions were joined by their
///   unique id, the server sends every packet once for each of them, so the n-th copy goes to the n-th submitter.
///
/// ```
/// use gearman_client::{Address, protocol::{Echo, Magic, Packet, PacketType, Recipient, Session}};
///
/// let mut session = Session::new(Address::default().into());
/// session.send(&Echo("hi"), 7);
/// assert_eq!(session.outgoing(), b"\0REQ\0\0\0\x10\0\0\0\x02hi");
/// session.sent(session.outgoing().len());
///
/// let packet = Packet::new(Magic::Response, PacketType::EchoRes, &["hi"])?;
/// assert!(matches!(session.accept(packet)?, Recipient::Answer(7, _)));
/// # Ok::<(), gearman_client::Error>(())
/// ```
#[derive(Debug)]
pub struct Session<T> {
    origin: Origin,
    outgoing: BytesMut,
    /// Offset after the last queued byte, and after the last one that the transport took.
    queued: u64,
    sent: u64,
    received: u64,
    pending: VecDeque<PendingRequest<T>>,
    /// Number of requests that are still in `outgoing`.
    unwritten: usize,
    jobs: HashMap<ShortId, Waiters<T>, Keys>,
    exceptions: Exceptions,
    metrics: Metrics,
}

/// The server's answer to the request for exceptions. It is not awaited, since some servers never answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Exceptions {
    NotAsked,
    /// Its answer comes next, if at all.
    Asked,
    /// A later request was answered before it.
    PassedOver,
    Granted,
    Refused,
}

#[derive(Debug)]
struct PendingRequest<T> {
    /// Offset after the request's last byte.
    end: u64,
    request: PacketType,
    answered_by: PacketType,
    has_events: bool,
    waiter: T,
}

/// Who waits for one job.
#[derive(Debug)]
enum Waiters<T> {
    /// Nearly always one caller, which needs no allocation.
    One(T),
    Several {
        list: VecDeque<T>,
        /// Who gets the next copy of the current packet.
        turn: usize,
    },
}

/// The recipient of a packet.
#[derive(Debug)]
pub enum Recipient<T> {
    /// The answer to a request, or ERROR.
    Answer(T, Packet),
    /// The answer to the submission of a foreground job: its events follow.
    Created(T, Packet),
    /// An event of a job.
    Event(T, JobEvent),
    /// No recipient: the job is not awaited, or clients have no use for the packet.
    Nobody,
}

/// A request or a job that was lost with its connection.
#[derive(Debug)]
#[non_exhaustive]
pub struct Lost<T> {
    /// Who waits.
    pub waiter: T,
    /// Whether the server may have acted.
    pub fate: Fate,
    /// The request's name.
    pub request: &'static str,
    /// The job, if the server had accepted it.
    pub handle: Option<JobHandle>,
}

impl<T: Copy> Session<T> {
    /// The state of a new connection to this server.
    #[must_use]
    pub fn new(server: Arc<Address>) -> Self {
        note_process();
        Session {
            origin: Origin { server, epoch: Epoch::next() },
            outgoing: BytesMut::new(),
            queued: 0,
            sent: 0,
            received: 0,
            pending: VecDeque::new(),
            unwritten: 0,
            jobs: HashMap::default(),
            exceptions: Exceptions::NotAsked,
            metrics: Metrics::default(),
        }
    }

    /// The metrics so far.
    #[must_use]
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Continues the metrics of a session whose connection was lost. This must come before the first request.
    pub(crate) fn follow(&mut self, lost: &Metrics) {
        self.metrics = lost.clone();
        self.metrics.connected();
    }

    /// Records that `n` bytes were read.
    pub fn note_read(&mut self, n: usize) {
        self.metrics.bytes_in += n as u64;
    }

    /// Asks for exceptions (OPTION_REQ). This must be the first request of a connection.
    ///
    /// The answer is not awaited. gearmand and the Perl server grant it before they answer anything else. Other
    /// servers do not answer or refuse, which does no harm: exceptions of workers then arrive as plain failures.
    pub fn ask_for_exceptions(&mut self) {
        let before = self.outgoing.len();
        SetExceptions.encode(&mut self.outgoing);
        self.metrics.commands += 1;
        self.queued += (self.outgoing.len() - before) as u64;
        self.exceptions = Exceptions::Asked;
    }

    /// Whether exceptions arrive as such; `None` while that is unknown.
    #[must_use]
    pub fn has_exceptions(&self) -> Option<bool> {
        match self.exceptions {
            Exceptions::Asked => None,
            Exceptions::Granted => Some(true),
            Exceptions::NotAsked | Exceptions::PassedOver | Exceptions::Refused => Some(false),
        }
    }

    /// Encodes a request for writing. Its answer goes to `waiter`.
    pub fn send<R: Request>(&mut self, request: &R, waiter: T) {
        let before = self.outgoing.len();
        request.encode(&mut self.outgoing);
        self.metrics.commands += 1;
        self.queued += (self.outgoing.len() - before) as u64;
        self.unwritten += 1;
        self.pending.push_back(PendingRequest {
            end: self.queued,
            request: request.packet_type(),
            answered_by: request.answered_by(),
            has_events: request.has_events(),
            waiter,
        });
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

    /// Records how much the connection has written and read so far.
    pub(crate) fn note<F>(&mut self, io: &Io<F>) {
        self.metrics.bytes_out += io.sent() - self.sent;
        self.metrics.bytes_in += io.received() - self.received;
        (self.sent, self.received) = (io.sent(), io.received());
    }

    /// Hands the outgoing bytes to the connection, which has written all earlier ones.
    pub(crate) fn hand_over<F>(&mut self, io: &mut Io<F>) {
        io.queue(&mut self.outgoing);
        emptied(&mut self.outgoing);
        self.unwritten = 0;
    }

    /// Returns the recipient of a packet.
    ///
    /// # Errors
    ///
    /// `Protocol` when the packet answers no request, or not the next one. The connection is unusable then.
    pub fn accept(&mut self, packet: Packet) -> Result<Recipient<T>, Error> {
        match packet.packet_type {
            PacketType::WorkComplete
            | PacketType::WorkFail
            | PacketType::WorkException
            | PacketType::WorkData
            | PacketType::WorkWarning
            | PacketType::WorkStatus => self.event(&packet),
            // Meant for workers, which may share a connection.
            PacketType::Noop => Ok(Recipient::Nobody),
            PacketType::OptionRes if self.is_asked_for_exceptions() => {
                Ok(self.knows_exceptions(Exceptions::Granted))
            }
            PacketType::Error if self.refuses_exceptions(&packet) => {
                Ok(self.knows_exceptions(Exceptions::Refused))
            }
            PacketType::Error => Ok(self.answer(packet)),
            answer => match self.pending.front() {
                Some(head) if head.answered_by == answer && head.has_events => {
                    let waiter = head.waiter;
                    let handle = received_handle(&packet.body)?;
                    self.pending.pop_front();
                    self.metrics.replies += 1;
                    self.pass_over_exceptions();
                    match self.jobs.entry(handle) {
                        Entry::Vacant(job) => _ = job.insert(Waiters::One(waiter)),
                        Entry::Occupied(mut job) => job.get_mut().add(waiter),
                    }
                    Ok(Recipient::Created(waiter, packet))
                }
                Some(head) if head.answered_by == answer => Ok(self.answer(packet)),
                Some(head) => {
                    let asked = head.request;
                    Err(Error::protocol(format!("the server answered {asked} with {answer}")))
                }
                None => {
                    Err(Error::protocol(format!("unexpected {answer}, which matches no request")))
                }
            },
        }
    }

    fn is_asked_for_exceptions(&self) -> bool {
        matches!(self.exceptions, Exceptions::Asked | Exceptions::PassedOver)
    }

    /// Whether an ERROR refuses exceptions: it says so; or nothing else was asked; or it is the first answer, and
    /// concerns an unknown packet type.
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

    fn knows_exceptions(&mut self, answer: Exceptions) -> Recipient<T> {
        self.exceptions = answer;
        self.metrics.replies += 1;
        Recipient::Nobody
    }

    /// Notes that a request after the one for exceptions was answered.
    fn pass_over_exceptions(&mut self) {
        if self.exceptions == Exceptions::Asked {
            self.exceptions = Exceptions::PassedOver;
        }
    }

    fn answer(&mut self, packet: Packet) -> Recipient<T> {
        match self.pending.pop_front() {
            Some(answered) => {
                self.metrics.replies += 1;
                self.pass_over_exceptions();
                Recipient::Answer(answered.waiter, packet)
            }
            // An error without a request concerns something that this connection does not wait for.
            None => Recipient::Nobody,
        }
    }

    fn event(&mut self, packet: &Packet) -> Result<Recipient<T>, Error> {
        let (handle, event) = event(packet)?;
        let Entry::Occupied(mut job) = self.jobs.entry(handle) else {
            return Ok(Recipient::Nobody);
        };
        let (waiter, is_over) = job.get_mut().take_turn(event.is_last());
        if is_over {
            job.remove();
        }
        Ok(waiter.map_or(Recipient::Nobody, |waiter| Recipient::Event(waiter, event)))
    }

    /// Ends the session and returns everything that waits: the connection is lost.
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
        // Sorted, so that simulations are repeatable.
        let mut jobs: Vec<_> = self.jobs.drain().collect();
        jobs.sort_unstable_by(|(one, _), (other, _)| one.as_bytes().cmp(other.as_bytes()));
        for (handle, waiters) in jobs {
            let handle = JobHandle::received(handle, &self.origin);
            lost.extend(waiters.into_list().into_iter().map(|waiter| Lost {
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

    /// The number of unanswered requests.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    /// Whether a completely written request is unanswered.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.pending.front().is_some_and(|oldest| oldest.end <= self.sent)
    }

    /// The number of requests waiting to be written.
    pub(crate) fn unwritten(&self) -> usize {
        self.unwritten
    }

    /// The number of unfinished foreground jobs, by handle.
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

impl<T: Copy> Waiters<T> {
    fn add(&mut self, waiter: T) {
        match self {
            Waiters::One(first) => {
                *self = Waiters::Several { list: [*first, waiter].into(), turn: 0 };
            }
            Waiters::Several { list, .. } => list.push_back(waiter),
        }
    }

    /// The recipient of this copy, and whether it was the last; after the last copy, its recipient does not.
    fn take_turn(&mut self, is_last: bool) -> (Option<T>, bool) {
        let (list, turn) = match self {
            Waiters::One(waiter) => return (Some(*waiter), is_last),
            Waiters::Several { list, turn } => (list, turn),
        };
        let waiter = if is_last { list.remove(*turn) } else { list.get(*turn).copied() };
        let next = if is_last { *turn } else { *turn + 1 };
        *turn = if next < list.len() { next } else { 0 };
        (waiter, list.is_empty())
    }

    fn into_list(self) -> VecDeque<T> {
        match self {
            Waiters::One(waiter) => [waiter].into(),
            Waiters::Several { list, .. } => list,
        }
    }
}

/// The job and its event.
fn event(packet: &Packet) -> Result<(ShortId, JobEvent), Error> {
    if packet.packet_type == PacketType::WorkFail {
        return Ok((received_handle(&packet.body)?, JobEvent::Fail));
    }
    if packet.packet_type == PacketType::WorkStatus {
        let ([handle, numerator], denominator) = packet.split()?;
        let progress = Progress::new(numerator, denominator);
        return Ok((received_handle(&handle)?, JobEvent::Status(progress)));
    }
    let ([handle], data) = packet.parts()?;
    let data = packet.body.slice_ref(data);
    let event = match packet.packet_type {
        PacketType::WorkComplete => JobEvent::Complete(data),
        PacketType::WorkException => JobEvent::Exception(data),
        PacketType::WorkWarning => JobEvent::Warning(data),
        _ => JobEvent::Data(data),
    };
    Ok((received_handle(handle)?, event))
}
