//! The connection to one server, and its successors.

mod role;

use std::{
    sync::Arc,
    task::{Poll, Waker},
    time::{Duration, Instant},
};

use queue_core::{Deadlines, IdleCheck, Life, Outage, Replace, Wakers};

use super::{
    hold::RequestHold,
    inbox::InboxItem,
    slots::{CallerSlots, SlotTicket},
};
use crate::{
    Address, ClientEventKind, ConnectOptions, ConnectionState, Epoch, Error, ErrorKind, Fate,
    JobHandle, Metrics, Origin, Result,
    protocol::client::route::no_server,
    protocol::{Framing, GetStatus, Magic, PacketType, Request, Session, request::refusal},
    trace,
};

/// A server, and the connection to it, which is made when a caller needs it.
///
/// Any number of callers queue requests, each in its own slot, and find their answers there. Queued requests go out
/// together, after the request for exceptions, which is the first on a connection and is not awaited.
#[derive(Debug)]
pub(crate) struct Link {
    options: ConnectOptions,
    address: Arc<Address>,
    framing: Framing,
    session: Session<SlotTicket>,
    /// The callers' answers and events.
    pub(crate) slots: CallerSlots,
    pub(crate) life: Life<Error>,
    can_dial: bool,
    /// Whether no caller is left.
    is_leaving: bool,
    /// Callers that wait for a connection or for room.
    waiting: Wakers,
    /// Whether a caller has given up waiting for the current attempt to connect, or for an answer since the last one.
    is_outwaited: bool,
    /// Whether a request was left unanswered, on whatever connection, and none was answered since.
    is_silent: bool,
    /// Why the last connection has ended, or could not be made.
    last_error: Option<Error>,
    hold: RequestHold,
    idle_check: IdleCheck,
    /// Whether the pump has to act at once. Otherwise it acts when the queued bytes are worth a write.
    is_urgent: bool,
    has_queued: bool,
    /// Whether it was logged that the server passes on packets of workers unchanged.
    is_noted: bool,
    /// Events for the observer, if there is one.
    events: Option<Vec<ClientEventKind>>,
    /// The failures that were reported since there was a connection.
    outage: Outage<ErrorKind>,
}

/// No further request is accepted while this many bytes wait to be written.
const ENOUGH_OUTGOING: usize = 1 << 20;

/// Decodes the answer to a request.
///
/// # Errors
///
/// Any refusal by the server; `Protocol` when the connection becomes unusable.
pub(crate) fn answer<R: Request>(
    request: &R,
    origin: &Origin,
    item: InboxItem,
) -> Result<R::Reply> {
    let outcome = match item {
        InboxItem::Answer(packet) => {
            if packet.packet_type == PacketType::JobCreated {
                trace::created(&packet.body);
            }
            match packet.packet_type {
                PacketType::Error => Err(refusal(&packet)),
                _ => request.decode(packet, origin),
            }
        }
        InboxItem::Lost(error) => Err(error),
        InboxItem::Event(_) => Err(Error::protocol("an event arrived before its job was created")),
    };
    let name = request.packet_type().name();
    outcome.map_err(|error| error.with_command(name).with_server(&*origin.server))
}

/// For callers.
impl Link {
    /// Connects when a caller needs it.
    pub(crate) fn new(options: ConnectOptions) -> Self {
        let address = Arc::new(options.address.clone());
        let connect = Some(options.connecting_timeout());
        let deadlines = Deadlines::new(Some(options.reply_timeout), Some(options.write_timeout));
        Link {
            framing: Framing::new(Magic::Response, options.max_packet_size),
            session: Session::new(address.clone()),
            slots: CallerSlots::new(options.max_backlog),
            life: Life::new(options.retry, connect, deadlines, Replace::UnlessTwice).left_unread(),
            can_dial: true,
            is_leaving: false,
            waiting: Wakers::default(),
            is_outwaited: false,
            is_silent: false,
            last_error: None,
            hold: RequestHold::default(),
            idle_check: IdleCheck::default(),
            is_urgent: false,
            has_queued: false,
            is_noted: false,
            events: options.observer.is_some().then(Vec::new),
            outage: Outage::default(),
            address,
            options,
        }
    }

    /// Uses only the stream of the pump.
    pub(crate) fn for_stream(options: ConnectOptions) -> Self {
        let link = Link::new(options);
        Link { can_dial: false, life: link.life.given(), ..link }
    }

    /// Ready when there is a connection with room for requests. Without a connection, one attempt is made. `seen` is
    /// the number of attempts that had ended when the caller came.
    pub(crate) fn poll_room(&mut self, seen: &mut Option<u64>, caller: &Waker) -> Poll<Result<()>> {
        if self.has_room() {
            return Poll::Ready(Ok(()));
        }
        let seen = *seen.get_or_insert(self.life.ends());
        if self.life.state() == ConnectionState::Idle {
            if self.life.ends() > seen {
                let error = self.last_error.as_ref().map_or_else(no_server, Error::share);
                return Poll::Ready(Err(error.with_fate(Fate::NotSent)));
            }
            if !self.can_dial {
                return Poll::Ready(Err(only_one_stream()));
            }
            self.life.want();
            self.is_urgent = true;
        }
        self.waiting.add(caller);
        Poll::Pending
    }

    /// Whether a request would be accepted now.
    pub(crate) fn has_room(&self) -> bool {
        self.is_open() && self.session.outgoing().len() < ENOUGH_OUTGOING
    }

    /// Whether this request would be accepted now. One with the handle of another server's job never is.
    pub(crate) fn takes<R: Request>(&self, request: &R) -> bool {
        let server = request.handle().and_then(JobHandle::server);
        self.has_room() && server.is_none_or(|server| *server == *self.address)
    }

    /// Queues a request of a slot, once there is [room](Self::poll_room).
    pub(crate) fn send<R: Request>(&mut self, request: &R, slot: u32, tag: u32) {
        self.slots.expect(slot);
        let epoch = self.session.origin().epoch;
        self.session.send(request, SlotTicket { slot, tag, epoch });
        self.has_queued = true;
    }

    /// Ends this connection as if the server had closed it.
    pub(crate) fn disconnect(&mut self, epoch: Epoch, error: &Error) {
        if self.is_open() && self.session.origin().epoch == epoch {
            self.life.close_with(error.share());
            self.is_urgent = true;
        }
    }

    /// No caller is left.
    pub(crate) fn close(&mut self) {
        (self.is_leaving, self.is_urgent) = (true, true);
    }

    /// Whether something has changed since the role was last asked.
    pub(crate) fn has_news(&self) -> bool {
        self.is_urgent || self.has_queued
    }

    /// Has the pump read what has already arrived.
    pub(crate) fn look(&mut self, now: Instant) {
        self.idle_check.look(now);
    }

    /// Whether that is still to be done.
    pub(crate) fn is_looking(&self) -> bool {
        self.life.is_connected() && self.idle_check.is_looking()
    }

    /// Number of request bytes not yet handed to the connection.
    pub(crate) fn queued(&self) -> usize {
        match self.session.unwritten() {
            0 => 0,
            _ => self.session.outgoing().len(),
        }
    }

    pub(crate) fn set_reply_timeout(&mut self, timeout: Duration) {
        self.options.server.reply_timeout = timeout;
        self.life.set_deadlines(Deadlines::new(Some(timeout), Some(self.options.write_timeout)));
    }

    /// The events of the exchanges since the last call, if any.
    pub(crate) fn take_events(&mut self) -> Option<Vec<ClientEventKind>> {
        let events = self.events.as_mut().filter(|events| !events.is_empty())?;
        Some(std::mem::take(events))
    }

    /// Whether to wake the pump. A pump that holds requests back checks by itself.
    pub(crate) fn wakes_pump(&self) -> bool {
        self.is_urgent || (self.has_queued && !self.hold.goes_on(self.load()))
    }

    pub(crate) fn is_open(&self) -> bool {
        self.life.is_open()
    }

    pub(crate) fn connection_state(&self, now: Instant) -> ConnectionState {
        match self.life.state() {
            ConnectionState::Idle if self.is_leaving || !self.can_dial => ConnectionState::Closed,
            ConnectionState::Idle if self.life.quarantine(now).is_some() => {
                ConnectionState::Backoff
            }
            state => state,
        }
    }

    /// A caller does not wait any longer, for a connection or for an answer.
    pub(crate) fn outwaited(&mut self) {
        self.is_outwaited |= match self.life.is_connected() {
            true => self.session.pending() > 0,
            false => self.life.is_wanted(),
        };
    }

    /// Whether the last attempt to make a connection has failed, or the current one, or an answer, takes long, or the
    /// last answer did not come.
    pub(crate) fn is_doubtful(&self) -> bool {
        self.is_outwaited || self.is_silent || self.life.is_away()
    }

    /// Asks a server that has left a request unanswered for something that every server answers, so that no caller has
    /// to find out whether it does again. The answer is not awaited.
    pub(crate) fn probe(&mut self) {
        if self.is_silent && self.is_open() && self.session.pending() == 0 {
            let slot = self.slots.open(true);
            self.send(&GetStatus(JobHandle::unknown()), slot, 0);
            self.slots.leave(slot);
        }
    }

    pub(crate) fn metrics(&self) -> &Metrics {
        self.session.metrics()
    }

    /// The server, and the number of the current connection.
    pub(crate) fn origin(&self) -> &Origin {
        self.session.origin()
    }
}

fn only_one_stream() -> Error {
    let why = "the connection is closed, and a client made from a stream cannot reconnect";
    Error::new(ErrorKind::ConnectionLost, Fate::NotSent, why)
}
