//! Waiting callers: one of them moves the bytes of each connection.

use std::{
    task::{Poll, Waker},
    time::Instant,
};

use queue_core::{Io, Pulse, Role, blocking::Drive, now};

use super::{Shared, seat::Seat};
use crate::{
    Error, ProducerReport,
    produce::shared::SharedOutbox,
    protocol::producer::{Lead, Outbox, SlotId},
};

impl Shared {
    /// Waits until `poll` is ready. Moves bytes in the meantime if no other caller does. `slot` is the put that is
    /// waited for, if any.
    pub(super) fn wait<T>(
        &self,
        slot: Option<SlotId>,
        mut poll: impl FnMut(&mut Outbox, &Waker) -> Poll<T>,
    ) -> T {
        let (seat, waker) = Seat::own();
        let mut poll = |outbox: &mut Outbox| poll(outbox, &waker);
        let mut last = None;
        loop {
            let lead = self.outbox.with(|outbox| match poll(outbox) {
                Poll::Ready(outcome) => Err(outcome),
                Poll::Pending => Ok(outbox.lead(slot, last, now())),
            });
            match lead {
                Err(outcome) => return outcome,
                Ok(Lead::Drive(server, until)) => {
                    last = Some(server);
                    if let Some(outcome) = self.drive(server, until, &mut poll) {
                        return outcome;
                    }
                }
                Ok(Lead::Park(until)) => seat.wait(until),
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
        let _resigns = Resigns { outbox: &self.outbox, server };
        let mut wire = self.wires.get(server).map(queue_core::lock)?;
        let mut lane = Lane { outbox: &self.outbox, server, poll, outcome: None };
        match wire.drive(&mut lane, until, |lane| lane.outcome.take()) {
            Drive::Done(outcome) => Some(outcome),
            Drive::Rest(_) | Drive::Late | Drive::Over => None,
        }
    }

    /// Stops accepting puts, waits for the accepted ones, and closes the connections.
    pub(super) fn close(&self) -> ProducerReport {
        self.outbox.with(Outbox::close);
        self.wait(None, |outbox, waker| outbox.poll_closed(waker));
        for server in 0..self.wires.len() {
            self.drive(server, None, &mut |_| Poll::<()>::Pending);
        }
        self.outbox.with(|outbox| outbox.report())
    }
}

/// A lane as seen by the caller that drives it. What that caller waits for is polled under the same lock.
struct Lane<'a, P, T> {
    outbox: &'a SharedOutbox,
    server: usize,
    poll: &'a mut P,
    outcome: Option<T>,
}

impl<T, P: FnMut(&mut Outbox) -> Poll<T>> Role for Lane<'_, P, T> {
    type Failure = Error;

    fn exchange(&mut self, io: &mut Io<Error>, now: Instant) -> Pulse {
        let (pulse, polled) = self.outbox.exchange(self.server, io, now, &mut self.poll);
        if let Poll::Ready(outcome) = polled {
            self.outcome = Some(outcome);
        }
        pulse
    }
}

/// Resigns when dropped, so that another caller can take over.
struct Resigns<'a> {
    outbox: &'a SharedOutbox,
    server: usize,
}

impl Drop for Resigns<'_> {
    fn drop(&mut self) {
        self.outbox.with(|outbox| outbox.resign(self.server));
    }
}
