//! What the pump asks of a link.

use std::{
    task::Waker,
    time::{Duration, Instant},
};

use queue_core::{End, Io, Late, Pulse, Role, Watch, earliest};

use super::{Link, Stage};
use crate::{
    ClientEventKind, Deadline, Error, ErrorKind, Fate, Result,
    error::lost,
    protocol::{
        Delivery, Lost, Magic, Packet, Session,
        client::{
            hold::{Hold, Load},
            inbox::Mail,
        },
    },
    trace,
};

impl Role for Link {
    type Failure = Error;

    fn exchange(&mut self, io: &mut Io<Error>, now: Instant) -> Pulse {
        (self.is_urgent, self.has_queued) = (false, false);
        if self.health.is_new(io) {
            self.begin(io, now);
        }
        if self.stage == Stage::Open {
            self.session.note(io);
            if let Err(error) = self.take(io) {
                self.lose(&error, io, now);
            }
        }
        self.end(io, now);
        if self.stage != Stage::Open {
            return self.dial(io, now);
        }
        if let Some(look) = self.watch.look_first(self.session.unwritten() > 0, io, now) {
            return look;
        }
        let held = self.write(io, now);
        self.keep_pace(held, io, now)
    }
}

/// For the pump.
impl Link {
    /// Starts on a new connection. Its first request goes out with the first request of a caller.
    fn begin(&mut self, io: &mut Io<Error>, now: Instant) {
        let mut session = Session::new(self.address.clone());
        session.follow(self.session.metrics());
        if self.options.exceptions {
            session.ask_for_exceptions();
        }
        (self.session, self.stage, self.is_moved) = (session, Stage::Open, true);
        self.is_outwaited = false;
        (self.has_served, self.has_answers) = (false, false);
        (self.hold, self.watch) = (Hold::default(), Watch::new(now));
        self.pace.reset();
        self.overdue.clear();
        self.waiting.append_to(&mut io.wake);
        self.outage.ends();
        self.note(|| ClientEventKind::Connected);
    }

    /// Delivers everything that has arrived.
    fn take(&mut self, io: &mut Io<Error>) -> Result<()> {
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
            (self.has_answers, self.is_outwaited, self.is_silent) = (true, false, false);
        }
        Ok(())
    }

    /// Delivers a packet; returns the waker of its caller.
    fn deliver(&mut self, packet: Packet) -> Result<Option<Waker>> {
        Ok(match self.session.accept(packet)? {
            Delivery::Created(ticket, packet) => {
                self.prove();
                self.slots.created(ticket, packet)
            }
            Delivery::Answer(ticket, packet) => {
                self.prove();
                self.slots.last(ticket, Mail::Answer(packet))
            }
            Delivery::Event(ticket, event) if event.is_last() => {
                self.slots.last(ticket, Mail::Event(event))
            }
            Delivery::Event(ticket, event) => self.slots.event(ticket, event),
            Delivery::Nobody => None,
        })
    }

    /// A complete exchange shows that the server is alive, so the next connection may follow without a delay.
    fn prove(&mut self) {
        if !self.has_served {
            (self.has_served, self.is_unproven) = (true, false);
            self.health.proven();
        }
    }

    /// Checks whether the connection has ended or has to end, or could not be made.
    fn end(&mut self, io: &mut Io<Error>, now: Instant) {
        let doom = self.doom.take();
        let end = match io.take_end() {
            Some(End::NotConnected(error)) => return self.fail(&error, io, now),
            Some(End::Lost(error)) => Some(lost(error)),
            Some(End::Abandoned) => Some(self.abandoned()),
            None => None,
        };
        match doom.or(end) {
            Some(error) if self.stage == Stage::Open => self.lose(&error, io, now),
            Some(error) if self.stage == Stage::Wanted && !self.is_moved => {
                self.fail(&error, io, now);
            }
            _ => {}
        }
    }

    /// The error of a connection whose pump is gone. The next caller has to find another.
    fn abandoned(&mut self) -> Error {
        self.is_moved = false;
        self.health.abandoned();
        Error::new(ErrorKind::ConnectionLost, Fate::Unknown, "the client's runtime has ended")
    }

    /// Closes the connection, and tells all waiting callers the fate of their requests.
    fn lose(&mut self, error: &Error, io: &mut Io<Error>, now: Instant) {
        let (address, why) = (self.address.clone(), error.share());
        io.later.push(move || trace::lost(&address, &why));
        self.disconnected(error);
        // A single connection may be unlucky: a server that was just restarted needs no delay.
        if self.has_served || !std::mem::replace(&mut self.is_unproven, true) {
            self.health.lost();
        } else {
            self.back_off(io, now);
        }
        for Lost { waiter, fate, request, handle } in self.session.close() {
            let mut told = error.share().with_fate(fate).with_command(request);
            told = told.with_server(&*self.address);
            if let Some(handle) = handle {
                told = told.with_handle(handle);
            }
            io.wake.extend(self.slots.last(waiter, Mail::Lost(told)));
        }
        self.ended(error, io);
    }

    /// Handles a failed attempt to connect.
    fn fail(&mut self, error: &Error, io: &mut Io<Error>, now: Instant) {
        self.disconnected(error);
        self.back_off(io, now);
        self.ended(error, io);
    }

    fn back_off(&mut self, io: &mut Io<Error>, now: Instant) {
        self.health.failed(now);
        if let Some(until) = self.health.quarantine(now) {
            let time = until.saturating_duration_since(now);
            let address = self.address.clone();
            io.later.push(move || trace::backing_off(&address, time));
            self.note(|| ClientEventKind::BackingOff(time));
        }
    }

    fn disconnected(&mut self, error: &Error) {
        if self.events.is_some() && self.outage.is_new(error.kind()) {
            self.note(|| ClientEventKind::Disconnected(error.share()));
        }
    }

    fn note(&mut self, what: impl FnOnce() -> ClientEventKind) {
        if let Some(events) = &mut self.events {
            events.push(what());
        }
    }

    /// Tells the callers that wait for a connection about the end of this attempt.
    fn ended(&mut self, error: &Error, io: &mut Io<Error>) {
        (self.stage, self.is_outwaited) = (Stage::Closed, false);
        self.attempts += 1;
        self.last_error = Some(error.share().with_server(&*self.address));
        self.waiting.append_to(&mut io.wake);
    }

    /// What to do about a missing connection.
    fn dial(&mut self, io: &mut Io<Error>, now: Instant) -> Pulse {
        if self.stage == Stage::Wanted && self.health.is_overdue(now) {
            self.fail(&self.options.timed_out(Deadline::Connect).into(), io, now);
        }
        match self.stage {
            _ if self.is_leaving => Pulse::Over,
            Stage::Wanted if self.can_dial => self.health.attempt(0, now),
            _ => Pulse::Close(None),
        }
    }

    /// Hands over queued requests, unless they are held back; returns until when.
    fn write(&mut self, io: &mut Io<Error>, now: Instant) -> Option<Instant> {
        if self.session.unwritten() == 0 || !io.is_drained() {
            return None;
        }
        let held = self.hold.check(self.load(), now);
        if held.is_none() {
            self.session.hand_over(io);
            self.waiting.append_to(&mut io.wake);
        }
        held
    }

    pub(super) fn load(&self) -> Load {
        let waiting = self.session.unwritten();
        Load {
            under_way: self.session.pending().saturating_sub(waiting),
            waiting,
            bytes: self.session.outgoing().len(),
        }
    }

    fn keep_pace(&mut self, held: Option<Instant>, io: &mut Io<Error>, now: Instant) -> Pulse {
        let holds = self.session.is_waiting().then_some(Duration::ZERO);
        let answered = std::mem::take(&mut self.has_answers);
        match self.pace.check(io, holds, answered, now) {
            _ if self.is_leaving => Pulse::Over,
            Ok(until) => {
                self.overdue.clear();
                match self.is_idle() {
                    true => Pulse::Rest(until),
                    false => Pulse::Go(earliest([until, held])),
                }
            }
            Err(Late::Reply) if self.overdue.may_be_here(io, now) => Pulse::Look,
            Err(late) => {
                self.is_silent = true;
                self.lose(&self.pace.error(late).into(), io, now);
                self.dial(io, now)
            }
        }
    }

    /// Whether nothing is to be written or awaited.
    fn is_idle(&self) -> bool {
        self.session.pending() == 0 && self.session.running() == 0
    }
}
