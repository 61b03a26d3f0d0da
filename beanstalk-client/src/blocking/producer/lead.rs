//! Waiting callers: one of them moves the bytes of each connection.

use std::{
    sync::Arc,
    task::{Poll, Waker},
    time::Instant,
};

use queue_core::{
    Io, Pulse, Role,
    blocking::{Drive, Parker},
    now,
    sync::spawn,
};

use super::ProducerShared;
use crate::{
    Error, ProducerReport,
    produce::shared::SharedOutbox,
    protocol::producer::{Leadership, Outbox, SlotId, UnwaitedPuts},
};

impl ProducerShared {
    /// Waits until `poll` is ready. Moves bytes in the meantime if no other caller does. `slot` is the put that is
    /// waited for, if any.
    pub(super) fn wait<T>(
        self: &Arc<Self>,
        slot: Option<SlotId>,
        poll: impl FnMut(&mut Outbox, &Waker) -> Poll<T>,
    ) -> T {
        let outcome = self.lead(slot, poll);
        self.push();
        outcome
    }

    fn lead<T>(
        &self,
        slot: Option<SlotId>,
        mut poll: impl FnMut(&mut Outbox, &Waker) -> Poll<T>,
    ) -> T {
        let (parker, waker) = Parker::own();
        let mut poll = |outbox: &mut Outbox| poll(outbox, &waker);
        let mut last = None;
        loop {
            let lead = self.outbox.with(|outbox| match poll(outbox) {
                Poll::Ready(outcome) => Err(outcome),
                Poll::Pending => Ok(outbox.lead(slot, last, now())),
            });
            match lead {
                Err(outcome) => return outcome,
                Ok(Leadership::Drive(server, until)) => {
                    last = Some(server);
                    if let Some(outcome) = self.drive(server, until, &mut poll) {
                        return outcome;
                    }
                }
                Ok(Leadership::Park(until)) => parker.wait(until),
            }
        }
    }

    /// Moves the bytes of a lane until `poll` is ready or the lane has nothing to do for now.
    fn drive<T>(
        &self,
        server: usize,
        until: Option<Instant>,
        poll: &mut impl FnMut(&mut Outbox) -> Poll<T>,
    ) -> Option<T> {
        let _resigns = StepDown { outbox: &self.outbox, server };
        let mut wire = self.wires.get(server).map(queue_core::lock)?;
        let mut lane = LedLane { outbox: &self.outbox, server, poll, outcome: None };
        match wire.drive(&mut lane, until, |lane| lane.outcome.take()) {
            Drive::Done(outcome) => Some(outcome),
            Drive::Rest(_) | Drive::Late | Drive::Over => None,
        }
    }

    /// Writes puts without a writer, as far as the sockets take it at once. A thread that ends with it writes the rest.
    pub(super) fn push(self: &Arc<Self>) {
        loop {
            match self.outbox.with(|outbox| outbox.left(now())) {
                // A socket that takes nothing more, or a server that has to prove itself first.
                UnwaitedPuts::Push(server) if !self.push_to(server) => {
                    if let UnwaitedPuts::Help = self.outbox.with(Outbox::needs_help) {
                        self.help();
                    }
                    return;
                }
                UnwaitedPuts::Push(_) => {}
                UnwaitedPuts::Help => return self.help(),
                UnwaitedPuts::Nothing => return,
            }
        }
    }

    /// Returns whether all is written or settled that could be.
    fn push_to(&self, server: usize) -> bool {
        let _resigns = StepDown { outbox: &self.outbox, server };
        let Some(mut wire) = self.wires.get(server).map(queue_core::lock) else { return false };
        let sent = wire.io().sent();
        let mut poll = |_: &mut Outbox| Poll::<()>::Pending;
        wire.try_push(&mut LedLane {
            outbox: &self.outbox,
            server,
            poll: &mut poll,
            outcome: None,
        });
        let io = wire.io();
        !io.is_open() || (io.is_drained() && io.sent() != sent)
    }

    fn help(self: &Arc<Self>) {
        let shared = Arc::clone(self);
        let helps = move || shared.wait(None, Outbox::poll_written);
        if spawn("producer", helps).is_err() {
            self.outbox.with(Outbox::has_no_helper);
        }
    }

    /// Stops accepting puts, waits for the accepted ones, and closes the connections.
    pub(super) fn close(self: &Arc<Self>) -> ProducerReport {
        self.outbox.with(Outbox::close);
        self.wait(None, |outbox, waker| outbox.poll_closed(waker));
        for server in 0..self.wires.len() {
            self.drive(server, None, &mut |_| Poll::<()>::Pending);
        }
        self.outbox.with(|outbox| outbox.report())
    }
}

/// A lane as seen by the caller that drives it. What that caller waits for is polled under the same lock.
struct LedLane<'a, P, T> {
    outbox: &'a SharedOutbox,
    server: usize,
    poll: &'a mut P,
    outcome: Option<T>,
}

impl<T, P: FnMut(&mut Outbox) -> Poll<T>> Role for LedLane<'_, P, T> {
    type Failure = Error;

    fn exchange(&mut self, io: &mut Io<Error>, now: Instant) -> Pulse {
        let (pulse, polled) = self.outbox.exchange(self.server, io, now, &mut self.poll);
        if let Poll::Ready(outcome) = polled {
            self.outcome = Some(outcome);
        }
        pulse
    }
}

/// Steps down when dropped, so that another caller can take over.
struct StepDown<'a> {
    outbox: &'a SharedOutbox,
    server: usize,
}

impl Drop for StepDown<'_> {
    fn drop(&mut self) {
        self.outbox.with(|outbox| outbox.resign(self.server));
    }
}
