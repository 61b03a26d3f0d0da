//! One server of an async client: what its callers and the driver of its connection share.
//!
//! Callers encode straight into the connection's one outgoing buffer, under a short lock, and take a slot. The driver
//! swaps the buffer out and writes it, reads all that is there, puts it into the slots, and wakes callers outside the
//! lock. So requests of many callers go out in one write, and nothing is allocated per request.
//! While many are on their way, the driver [holds back](Hold) the next ones for a moment, so that they are not written one
//! by one as answers come.

use std::{
    future::poll_fn,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Waker, ready},
    time::{Duration, Instant},
};

use queue_core::{Stream, Wakers, now};

use crate::{
    Address, ConnectOptions, ConnectionState, Error, ErrorKind, Fate, Metrics, Origin, Result,
    connection,
    driver::{Io, Pulse, Served},
    hold::{Hold, Load},
    inbox::Mail,
    protocol::{
        Backoff, Delivery, Epoch, Lost, Packet, PacketType, Request, Session, request::refusal,
    },
    route::no_server,
    slot::Slot,
    trace,
};

/// One server, and the connection to it that is made when it is needed.
pub(crate) struct Link {
    pub(crate) options: ConnectOptions,
    pub(crate) address: Arc<Address>,
    can_reconnect: bool,
    /// Whether there may be a time before which the server is not to be tried: asked by each call.
    has_failed: AtomicBool,
    state: Mutex<State>,
}

/// What callers and the driver share.
pub(crate) struct State {
    phase: Phase,
    pub(crate) session: Session<Ticket>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// The driver, when it sleeps.
    driver: Option<Waker>,
    /// Callers that wait for a connection, or for room in the outgoing buffer.
    waiting: Wakers,
    /// How many attempts to connect have ended.
    attempts: u64,
    last_error: Option<Error>,
    backoff: Backoff,
    /// Connections made or tried since the last healthy exchange.
    unproven: u32,
    quarantine: Option<Instant>,
    hold: Hold,
    /// It was told that the server passes on the packets of workers as they came.
    is_noted: bool,
    /// No client is left.
    is_closing: bool,
    max_backlog: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// There is no connection.
    Idle,
    /// A driver is making one.
    Connecting,
    Open,
}

/// For whom an answer or an event is: a slot, and which of the slot's requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket {
    slot: u32,
    tag: u32,
}

/// No further request is taken while so many bytes wait to be written.
const ENOUGH_OUTGOING: usize = 1 << 20;

impl Link {
    pub(crate) fn new(options: ConnectOptions) -> Arc<Self> {
        Arc::new(Self::build(options, true))
    }

    /// A link for one stream, which [`serve`](Self::serve) gives it.
    pub(crate) fn for_stream(options: ConnectOptions) -> Arc<Self> {
        Arc::new(Self::build(options, false))
    }

    /// Serves a stream that is connected.
    pub(crate) async fn serve(self: &Arc<Self>, stream: Box<dyn Stream>) -> Result<()> {
        self.lock().phase = Phase::Connecting;
        connection::spawn(self.clone(), Some(stream))?;
        self.connect().await
    }

    fn build(options: ConnectOptions, can_reconnect: bool) -> Self {
        let address = Arc::new(options.address.clone());
        let state = State {
            phase: Phase::Idle,
            session: Session::new(address.clone()),
            slots: Vec::new(),
            free: Vec::new(),
            driver: None,
            waiting: Wakers::default(),
            attempts: 0,
            last_error: None,
            backoff: options.retry.delays(),
            unproven: 0,
            quarantine: None,
            hold: Hold::default(),
            is_noted: false,
            is_closing: false,
            max_backlog: options.max_backlog,
        };
        Link {
            options,
            address,
            can_reconnect,
            has_failed: AtomicBool::new(false),
            state: Mutex::new(state),
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing in the state is left half done by a panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.lock().phase == Phase::Open
    }

    pub(crate) fn connection_state(&self) -> ConnectionState {
        let state = self.lock();
        match state.phase {
            Phase::Open => ConnectionState::Ready,
            Phase::Connecting => ConnectionState::Connecting,
            Phase::Idle if state.is_closing || !self.can_reconnect => ConnectionState::Closed,
            Phase::Idle if state.quarantine.is_some_and(|until| until > now()) => {
                ConnectionState::Backoff
            }
            Phase::Idle => ConnectionState::Idle,
        }
    }

    pub(crate) fn add_metrics(&self, to: &mut Metrics) {
        to.add(self.lock().session.metrics());
    }

    pub(crate) fn epoch(&self) -> Epoch {
        self.lock().session.origin().epoch
    }

    /// How long the server is not to be tried yet.
    pub(crate) fn quarantine(&self) -> Option<Duration> {
        if !self.has_failed.load(Ordering::Relaxed) {
            return None;
        }
        let state = self.lock();
        if state.quarantine.is_none() {
            self.has_failed.store(false, Ordering::Relaxed);
        }
        if state.phase == Phase::Open {
            return None;
        }
        let left = state.quarantine?.checked_duration_since(now())?;
        (!left.is_zero()).then_some(left)
    }

    /// Makes sure that there is a connection, with one attempt to make one.
    pub(crate) async fn connect(self: &Arc<Self>) -> Result<()> {
        let mut seen = None;
        poll_fn(|cx| self.poll_open(cx, &mut seen, |_| ())).await
    }

    /// Queues a request, with one attempt to connect. The answer comes by the mailbox.
    pub(crate) async fn send<R: Request>(
        self: &Arc<Self>,
        request: &R,
        wants_end_only: bool,
    ) -> Result<Mailbox> {
        let mut seen = None;
        poll_fn(|cx| {
            self.poll_open(cx, &mut seen, |state| {
                let slot = state.open_slot(wants_end_only);
                state.send(request, slot, 0);
                Mailbox { link: self.clone(), slot }
            })
        })
        .await
    }

    /// Queues a request, with one attempt to connect; gives the slot that its mail comes to. The caller is woken by it.
    pub(crate) fn poll_send<R: Request>(
        self: &Arc<Self>,
        cx: &Context<'_>,
        seen: &mut Option<u64>,
        request: &R,
    ) -> Poll<Result<u32>> {
        self.poll_open(cx, seen, |state| {
            let index = state.open_slot(false);
            state.send(request, index, 0);
            if let Some(slot) = state.slot(index) {
                slot.wait(cx);
            }
            index
        })
    }

    /// The next mail of a slot, and whether it was the last: then the slot is free again.
    pub(crate) fn poll_answer(&self, cx: &Context<'_>, index: u32) -> Poll<(Mail, Origin, bool)> {
        let mut state = self.lock();
        let (_, mail, epoch) = ready!(state.poll_mail(index, cx));
        let is_over = state.slot(index).is_none_or(|slot| slot.is_over());
        if is_over {
            state.release(index);
        }
        drop(state);
        Poll::Ready((mail, self.origin(epoch), is_over))
    }

    fn origin(&self, epoch: Epoch) -> Origin {
        Origin { server: self.address.clone(), epoch }
    }

    /// Nobody waits for the mail of a slot any more: what still comes is passed over.
    pub(crate) fn leave_slot(&self, index: u32) {
        let mut state = self.lock();
        let Some(slot) = state.slot(index) else { return };
        if slot.open == 0 {
            state.release(index);
        } else {
            slot.is_abandoned = true;
            slot.waker = None;
            slot.inbox.clear();
        }
    }

    /// A mailbox for many requests, once there is a connection.
    pub(crate) async fn mailbox(self: &Arc<Self>) -> Result<Mailbox> {
        let mut seen = None;
        poll_fn(|cx| {
            self.poll_open(cx, &mut seen, |state| {
                let slot = state.open_slot(false);
                Mailbox { link: self.clone(), slot }
            })
        })
        .await
    }

    /// Runs `step` once there is a connection with room. `seen` is how many attempts to connect had ended when the
    /// caller came.
    fn poll_open<T>(
        self: &Arc<Self>,
        cx: &Context<'_>,
        seen: &mut Option<u64>,
        step: impl FnOnce(&mut State) -> T,
    ) -> Poll<Result<T>> {
        let mut state = self.lock();
        match state.phase {
            Phase::Open if state.session.outgoing().len() < ENOUGH_OUTGOING => {
                let done = step(&mut state);
                let driver = state.take_driver();
                drop(state);
                if let Some(driver) = driver {
                    driver.wake();
                }
                return Poll::Ready(Ok(done));
            }
            Phase::Idle => {
                if seen.is_some_and(|seen| state.attempts > seen) {
                    let error = state.last_error.as_ref().map_or_else(no_server, Error::share);
                    return Poll::Ready(Err(error.with_fate(Fate::NotSent)));
                }
                if !self.can_reconnect {
                    return Poll::Ready(Err(only_one_stream()));
                }
                state.phase = Phase::Connecting;
                seen.get_or_insert(state.attempts);
                state.wait(cx);
                drop(state);
                connection::spawn(self.clone(), None)?;
                return Poll::Pending;
            }
            Phase::Open | Phase::Connecting => {
                seen.get_or_insert(state.attempts);
                state.wait(cx);
            }
        }
        Poll::Pending
    }

    fn back_off(&self, state: &mut State) {
        let delay = state.backoff.next_delay();
        trace::backing_off(&self.address, delay);
        state.quarantine = now().checked_add(delay);
        self.has_failed.store(true, Ordering::Relaxed);
    }

    /// The driver has made a connection.
    pub(crate) fn opened(&self, mut session: Session<Ticket>) {
        let mut state = self.lock();
        state.hold = Hold::default();
        session.follow(state.session.metrics());
        state.session = session;
        state.phase = Phase::Open;
        let waiting = state.take_waiting();
        drop(state);
        waiting.into_iter().for_each(Waker::wake);
    }

    /// The driver starts an attempt to connect.
    pub(crate) fn connecting(&self) {
        let mut state = self.lock();
        state.unproven = state.unproven.saturating_add(1);
        if state.unproven > 1 {
            self.back_off(&mut state);
        }
    }

    /// The driver has no connection any more or, without an epoch, could not make one.
    pub(crate) fn closed(&self, epoch: Option<Epoch>, error: &Error) {
        let mut state = self.lock();
        match epoch {
            None => self.back_off(&mut state),
            Some(epoch) if !state.is_served_by(epoch) => return,
            Some(_) => trace::lost(&self.address, error),
        }
        let wakers = state.disconnect(error);
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// The driver has ended, and may have told nobody: its runtime was shut down.
    pub(crate) fn abandoned(&self, epoch: Option<Epoch>) {
        let error =
            Error::new(ErrorKind::ConnectionLost, Fate::Unknown, "the client's runtime has ended");
        self.closed(epoch, &error);
    }

    /// Ends this connection, as if the server had.
    pub(crate) fn disconnect(&self, epoch: Epoch, error: &Error) {
        let mut state = self.lock();
        if !state.is_served_by(epoch) {
            return;
        }
        let wakers = state.disconnect(error);
        let driver = state.driver.take();
        drop(state);
        driver.into_iter().chain(wakers).for_each(Waker::wake);
    }

    /// No client is left: the driver ends.
    pub(crate) fn leave(&self) {
        let mut state = self.lock();
        state.is_closing = true;
        let driver = state.driver.take();
        drop(state);
        if let Some(driver) = driver {
            driver.wake();
        }
    }

    /// The answer to a request, read. One that cannot be its answer ends the connection.
    pub(crate) fn decode<R: Request>(
        &self,
        request: &R,
        origin: &Origin,
        mail: Mail,
    ) -> Result<R::Reply> {
        let outcome = match mail {
            Mail::Answer(packet) if packet.packet_type == PacketType::Error => {
                trace::answer(&self.address, &packet);
                Err(refusal(&packet))
            }
            Mail::Answer(packet) => {
                trace::answer(&self.address, &packet);
                request.decode(packet, origin).inspect_err(|error| {
                    self.disconnect(origin.epoch, error);
                })
            }
            Mail::Lost(error) => Err(error),
            Mail::Event(_) => Err(Error::protocol("an event came before its job was created")),
        };
        outcome.map_err(|error| error.with_command(request.packet_type().name()))
    }
}

impl Served for Link {
    fn exchange(
        self: &Arc<Self>,
        epoch: Epoch,
        io: &mut Io,
        now: Instant,
        cx: &Context<'_>,
    ) -> Result<Pulse> {
        let mut state = self.lock();
        if state.is_closing || !state.is_served_by(epoch) {
            return Ok(Pulse::Over);
        }
        state.session.note_written(std::mem::take(&mut io.written));
        state.session.note_read(std::mem::take(&mut io.read));
        let before = state.session.pending();
        for packet in io.arrived.drain(..) {
            trace::magic(&self.address, &packet, &mut state.is_noted);
            if let Err(error) = state.deliver(packet, &mut io.wakers) {
                io.failure.get_or_insert(error);
                break;
            }
        }
        let has_answers = state.session.pending() < before;
        let was_stuck = !io.writing.is_empty();
        let wake_at = if was_stuck { None } else { state.hold_back(now) };
        if !was_stuck {
            if wake_at.is_none() {
                state.session.swap_outgoing(&mut io.writing);
            }
            state.waiting.append_to(&mut io.wakers);
        }
        let is_waiting = state.session.is_waiting();
        if !io.is_busy(was_stuck) {
            state.sleep(cx);
        }
        drop(state);
        io.wakers.drain(..).for_each(Waker::wake);
        Ok(Pulse::Beats { is_waiting, has_answers, wake_at })
    }
}

fn only_one_stream() -> Error {
    let why = "the connection is closed, and this client has only the stream it was given";
    Error::new(ErrorKind::ConnectionLost, Fate::NotSent, why)
}

impl State {
    /// Whether this connection is the present one.
    pub(crate) fn is_served_by(&self, epoch: Epoch) -> bool {
        self.phase == Phase::Open && self.session.origin().epoch == epoch
    }

    /// Lets the driver sleep until there is something to write.
    pub(crate) fn sleep(&mut self, cx: &Context<'_>) {
        match &mut self.driver {
            Some(driver) => driver.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        }
    }

    /// The driver, if it has to be told of a request that was queued. When it holds back requests it looks for itself.
    fn take_driver(&mut self) -> Option<Waker> {
        if self.hold.goes_on(self.load()) { None } else { self.driver.take() }
    }

    /// Until when the requests that wait are held back; `None` when they are to be written now.
    fn hold_back(&mut self, now: Instant) -> Option<Instant> {
        self.hold.check(self.load(), now)
    }

    fn load(&self) -> Load {
        let waiting = self.session.unwritten();
        Load {
            under_way: self.session.pending().saturating_sub(waiting),
            waiting,
            bytes: self.session.outgoing().len(),
        }
    }

    pub(crate) fn take_waiting(&mut self) -> Vec<Waker> {
        self.waiting.take()
    }

    fn wait(&mut self, cx: &Context<'_>) {
        self.waiting.add(cx.waker());
    }

    fn open_slot(&mut self, wants_end_only: bool) -> u32 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            u32::try_from(self.slots.len() - 1).unwrap_or(u32::MAX)
        });
        if let Some(slot) = self.slot(index) {
            slot.wants_end_only = wants_end_only;
        }
        index
    }

    fn slot(&mut self, index: u32) -> Option<&mut Slot> {
        self.slots.get_mut(index as usize)
    }

    /// Queues a request of a slot.
    pub(crate) fn send<R: Request>(&mut self, request: &R, slot: u32, tag: u32) {
        let epoch = self.session.origin().epoch;
        if let Some(slot) = self.slot(slot) {
            slot.open += 1;
            slot.epoch = Some(epoch);
        }
        self.session.send(request, Ticket { slot, tag });
    }

    /// Puts a packet where it belongs; gives who is to be woken.
    ///
    /// # Errors
    ///
    /// `Protocol`: the connection cannot be used any further.
    pub(crate) fn deliver(&mut self, packet: Packet, wakers: &mut Vec<Waker>) -> Result<()> {
        match self.session.accept(packet)? {
            Delivery::Created(ticket, packet) => {
                let waker = self.slot(ticket.slot).and_then(|slot| {
                    slot.put(ticket.tag, Mail::Answer(packet));
                    if slot.wants_end_only { None } else { slot.waker.take() }
                });
                wakers.extend(waker);
                self.prove();
            }
            Delivery::Answer(ticket, packet) => {
                wakers.extend(self.end(ticket, Mail::Answer(packet)));
                self.prove();
            }
            Delivery::Event(ticket, event) if event.is_last() => {
                wakers.extend(self.end(ticket, Mail::Event(event)));
            }
            Delivery::Event(ticket, event) => {
                let max = self.max_backlog;
                if let Some(slot) = self.slot(ticket.slot) {
                    slot.put_event(ticket.tag, event, max);
                    if !slot.wants_end_only {
                        wakers.extend(slot.waker.take());
                    }
                }
            }
            Delivery::Nobody => {}
        }
        Ok(())
    }

    /// The last mail of a request.
    fn end(&mut self, ticket: Ticket, mail: Mail) -> Option<Waker> {
        let slot = self.slot(ticket.slot)?;
        slot.put_last(ticket.tag, mail);
        slot.open = slot.open.saturating_sub(1);
        let waker = slot.waker.take();
        if slot.is_abandoned && slot.open == 0 {
            self.release(ticket.slot);
        }
        waker
    }

    /// A slot that nobody uses any more.
    fn release(&mut self, index: u32) {
        if let Some(slot) = self.slot(index) {
            slot.reset();
            self.free.push(index);
        }
    }

    /// The next mail of a slot, with the tag of its request and the connection that it came by.
    fn poll_mail(&mut self, index: u32, cx: &Context<'_>) -> Poll<(u32, Mail, Epoch)> {
        let Some(slot) = self.slot(index) else { return Poll::Pending };
        let Some((tag, mail)) = slot.inbox.pop() else {
            slot.wait(cx);
            return Poll::Pending;
        };
        let epoch = slot.epoch.unwrap_or_else(Epoch::next);
        Poll::Ready((tag, mail, epoch))
    }

    /// A complete exchange: the server is alive, so the next reconnect need not back off.
    fn prove(&mut self) {
        if self.unproven > 0 {
            self.unproven = 0;
            self.quarantine = None;
            self.backoff.reset();
        }
    }

    /// Tells everybody who waits that the connection is lost.
    fn disconnect(&mut self, error: &Error) -> Vec<Waker> {
        self.phase = Phase::Idle;
        self.attempts += 1;
        self.last_error = Some(error.share());
        let mut wakers = self.take_waiting();
        for Lost { waiter, fate, request, handle } in self.session.close() {
            let mut told = error.share().with_fate(fate).with_command(request);
            if let Some(handle) = handle {
                told = told.with_handle(handle);
            }
            wakers.extend(self.end(waiter, Mail::Lost(told)));
        }
        wakers
    }
}

/// A caller's side of a slot. Dropping it leaves the connection in step: what still comes is passed over.
pub(crate) struct Mailbox {
    pub(crate) link: Arc<Link>,
    slot: u32,
}

impl Mailbox {
    pub(crate) fn new(link: Arc<Link>, slot: u32) -> Self {
        Mailbox { link, slot }
    }

    /// The next mail, with the tag of its request, and where it came from.
    pub(crate) async fn next(&self) -> (u32, Mail, Origin) {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    pub(crate) fn poll_next(&self, cx: &Context<'_>) -> Poll<(u32, Mail, Origin)> {
        let (tag, mail, epoch) = ready!(self.link.lock().poll_mail(self.slot, cx));
        Poll::Ready((tag, mail, self.link.origin(epoch)))
    }

    /// How much mail waits to be taken.
    pub(crate) fn len(&self) -> usize {
        self.link.lock().slot(self.slot).map_or(0, |slot| slot.inbox.len())
    }

    /// Queues a request of this mailbox; `false` when the connection does not take it now.
    pub(crate) fn send<R: Request>(&self, request: &R, tag: u32) -> bool {
        let mut state = self.link.lock();
        if state.phase != Phase::Open || state.session.outgoing().len() >= ENOUGH_OUTGOING {
            return false;
        }
        state.send(request, self.slot, tag);
        let driver = state.take_driver();
        drop(state);
        if let Some(driver) = driver {
            driver.wake();
        }
        true
    }
}

impl Drop for Mailbox {
    fn drop(&mut self) {
        self.link.leave_slot(self.slot);
    }
}
