//! The fair queue of callers that find the producer's queue full.

use std::{
    task::{Poll, Waker},
    time::Instant,
};

use queue_core::earliest;

use super::{Outbox, Policy, SlotId, slots::PutSlot, weight};
use crate::{Result, TubeName, protocol::Put};

impl Outbox {
    /// Queues for room, which is [granted](Self::poll_room) in order.
    pub(crate) fn stand_in_line<B: AsRef<[u8]>>(
        &mut self,
        put: &Put<B>,
        (policy, deadline): (&Policy, Option<Instant>),
        waker: &Waker,
    ) -> SlotId {
        let (weight, timeout) = (weight(put), policy.timeout);
        let waiting = PutSlot::InLine { weight, deadline, timeout, waker: waker.clone() };
        let slot = self.slots.open(waiting);
        self.line.push_back(slot);
        self.line_due = earliest([self.line_due, deadline]);
        // The drivers have to take the deadline into account.
        for lane in &mut self.lanes {
            lane.wake_driver(&mut self.wakers);
        }
        // Room may have become free since the caller found none, and nothing else may happen that grants it.
        self.grant();
        slot
    }

    /// Adds the put once its slot has been granted room. An error frees the slot.
    pub(crate) fn poll_room<B: AsRef<[u8]>>(
        &mut self,
        slot: SlotId,
        put: &Put<B>,
        tube: &TubeName,
        (policy, deadline): (&Policy, Option<Instant>),
        now: Instant,
        waker: &Waker,
    ) -> Poll<Result<()>> {
        match self.slots.get(slot) {
            Some(PutSlot::InLine { waker: present, .. }) => {
                present.clone_from(waker);
                return Poll::Pending;
            }
            Some(PutSlot::Granted { weight }) => self.room.leave(*weight),
            _ => return Poll::Ready(self.take_outcome(slot).map(drop)),
        }
        let added = self
            .refuse_if_closing("put")
            .and_then(|()| self.add(slot, put, tube, policy, deadline, now));
        if added.is_err() {
            self.slots.close(slot);
            self.grant();
        }
        Poll::Ready(added)
    }

    /// Grants room to waiting callers, in order.
    pub(super) fn grant(&mut self) {
        while let Some(slot) = self.line.front().copied() {
            if let Some(state @ PutSlot::InLine { .. }) = self.slots.get(slot) {
                let PutSlot::InLine { weight, .. } = *state else { return };
                if !self.room.fits(weight) {
                    return;
                }
                self.room.enter(weight);
                if let PutSlot::InLine { waker, .. } =
                    std::mem::replace(state, PutSlot::Granted { weight })
                {
                    self.wakers.push(waker);
                }
            }
            self.line.pop_front();
        }
        self.line_due = None;
    }
}
