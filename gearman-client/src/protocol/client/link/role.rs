//! The link's side of the exchange with its server.

use std::{
    task::Waker,
    time::{Duration, Instant},
};

use queue_core::{Awaits, Cause, IdleCheck, Io, Life, Loss, Need, Protocol, Pulse, Role};

use super::Link;
use crate::{
    ClientEventKind, Error, Result,
    protocol::{
        Lost, Magic, Packet, Recipient, Session,
        client::{
            hold::{ConnectionLoad, RequestHold},
            inbox::InboxItem,
        },
    },
    trace,
};

impl Role for Link {
    type Failure = Error;

    fn exchange(&mut self, io: &mut Io<Error>, now: Instant) -> Pulse {
        (self.is_urgent, self.has_queued) = (false, false);
        queue_core::exchange(self, io, now)
    }
}

impl Protocol for Link {
    fn life(&mut self) -> &mut Life<Error> {
        &mut self.life
    }

    /// The first request goes out with the first request of a caller.
    fn connected(&mut self, io: &mut Io<Error>, now: Instant) {
        let mut session = Session::new(self.address.clone());
        session.follow(self.session.metrics());
        if self.options.exceptions {
            session.ask_for_exceptions();
        }
        (self.session, self.is_outwaited) = (session, false);
        (self.hold, self.idle_check) = (RequestHold::default(), IdleCheck::new(now));
        self.waiting.append_to(&mut io.wake);
        self.outage.ends();
        self.note(|| ClientEventKind::Connected);
    }

    /// Delivers everything that has arrived.
    fn receive(&mut self, io: &mut Io<Error>, _: Instant) -> Result<()> {
        self.session.note(io);
        let before = self.session.pending();
        while let Some(packet) = self.framing.take(io)? {
            if packet.magic == Magic::Request && !std::mem::replace(&mut self.is_noted, true) {
                let (address, packet_type) = (self.address.clone(), packet.packet_type);
                io.later.push(move || trace::magic(&address, packet_type));
            }
            let waker = self.deliver(packet)?;
            io.wake.extend(waker);
        }
        if self.session.pending() < before {
            self.life.answered();
            (self.is_outwaited, self.is_silent) = (false, false);
        }
        Ok(())
    }

    /// Tells all waiting callers, those with a request its fate.
    fn lost(&mut self, loss: Loss<Error>, io: &mut Io<Error>, _: Instant) {
        let Loss { error, cause, delay } = loss;
        if cause != Cause::NotConnected {
            let (address, why) = (self.address.clone(), error.share());
            io.later.push(move || trace::lost(&address, &why));
        }
        if self.events.is_some() && self.outage.is_new(error.kind()) {
            self.note(|| ClientEventKind::Disconnected(error.share()));
        }
        if let Some(time) = delay {
            let address = self.address.clone();
            io.later.push(move || trace::backing_off(&address, time));
            self.note(|| ClientEventKind::BackingOff(time));
        }
        for Lost { waiter, fate, request, handle } in self.session.close() {
            let mut reported = error.share().with_fate(fate).with_command(request);
            reported = reported.with_server(&*self.address);
            if let Some(handle) = handle {
                reported = reported.with_handle(handle);
            }
            io.wake.extend(self.slots.last(waiter, InboxItem::Lost(reported)));
        }
        self.is_silent |= cause == Cause::Late;
        self.is_outwaited = false;
        self.last_error = Some(error.with_server(&*self.address));
        self.waiting.append_to(&mut io.wake);
    }

    fn needs(&mut self, io: &mut Io<Error>, now: Instant) -> Need {
        if self.is_leaving {
            return Need::Over;
        }
        if !self.life.is_connected() {
            return if self.life.is_wanted() { Need::Use(None) } else { Need::Close(None) };
        }
        let is_idle = self.session.pending() == 0 && self.session.running() == 0;
        let look = self.idle_check.look_first(self.session.unwritten() > 0, io, now);
        look.unwrap_or(if is_idle { Need::Keep(None) } else { Need::Use(None) })
    }

    /// Callers who have another server do not ask this one for a connection while it has to be left alone.
    fn dial(&mut self, now: Instant) -> Pulse {
        if self.can_dial { self.life.attempt(0, now) } else { Pulse::Close(None) }
    }

    /// Hands over queued requests, unless they are held back.
    fn send(&mut self, io: &mut Io<Error>, now: Instant) -> Awaits {
        let mut held = None;
        if self.session.unwritten() > 0 && io.is_drained() {
            held = self.hold.check(self.load(), now);
            if held.is_none() {
                self.session.hand_over(io);
                self.waiting.append_to(&mut io.wake);
            }
        }
        let answer = self.session.is_waiting().then_some(Duration::ZERO);
        Awaits { answer, until: held, ..Awaits::default() }
    }
}

impl Link {
    /// Delivers a packet; returns the waker of its caller.
    fn deliver(&mut self, packet: Packet) -> Result<Option<Waker>> {
        Ok(match self.session.accept(packet)? {
            Recipient::Created(ticket, packet) => {
                self.life.served();
                self.slots.created(ticket, packet)
            }
            Recipient::Answer(ticket, packet) => {
                self.life.served();
                self.slots.last(ticket, InboxItem::Answer(packet))
            }
            Recipient::Event(ticket, event) if event.is_last() => {
                self.slots.last(ticket, InboxItem::Event(event))
            }
            Recipient::Event(ticket, event) => self.slots.event(ticket, event),
            Recipient::Nobody => None,
        })
    }

    fn note(&mut self, what: impl FnOnce() -> ClientEventKind) {
        if let Some(events) = &mut self.events {
            events.push(what());
        }
    }

    pub(super) fn load(&self) -> ConnectionLoad {
        let waiting = self.session.unwritten();
        ConnectionLoad {
            under_way: self.session.pending().saturating_sub(waiting),
            waiting,
            bytes: self.session.outgoing().len(),
        }
    }
}
