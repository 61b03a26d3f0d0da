//! The client role of one connection, without its socket: which caller awaits which answer, and which job.

#[cfg(test)]
mod tests;

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
    names::{keys::Keys, short::Short},
    protocol::{
        Packet, PacketType, Request, SetExceptions,
        request::{created_handle, received_handle, refusal},
    },
    random::note_process,
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
#[non_exhaustive]
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
