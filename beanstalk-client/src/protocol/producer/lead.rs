//! Lanes without drivers of their own: of those who wait, one drives each.

use std::time::Instant;

use super::{
    Outbox, Slot, SlotId,
    lane::{Lane, Phase},
    sooner,
};

/// What somebody who waits is to do.
#[derive(Debug)]
pub(crate) enum Lead {
    /// Drive this lane, and [resign](Outbox::resign).
    Drive(usize),
    /// Sleep until then, or to be woken.
    Park(Option<Instant>),
}

impl Outbox {
    /// What somebody is to do who waits for the answer to the put of this slot, or for anything else.
    pub(crate) fn lead(&mut self, slot: Option<SlotId>, now: Instant) -> Lead {
        let own = slot.and_then(|slot| match self.slots.get(slot) {
            Some(Slot::Queued { lane, .. }) => Some(*lane),
            _ => None,
        });
        let mut wake_at = None;
        for server in own.map_or(0..self.lanes.len(), |own| own..own + 1) {
            self.expire(server, now);
            let Some(lane) = self.lanes.get_mut(server) else { continue };
            wake_at = sooner(wake_at, lane.next_due);
            if lane.is_driven || !lane.has_work() {
                continue;
            }
            match lane.phase {
                Phase::Closed => {}
                Phase::Backoff(until) if until > now => wake_at = sooner(wake_at, Some(until)),
                _ => {
                    lane.is_driven = true;
                    return Lead::Drive(server);
                }
            }
        }
        Lead::Park(sooner(wake_at, self.line_due))
    }

    /// Whoever drove a lane no longer does: somebody else who waits takes over.
    pub(crate) fn resign(&mut self, server: usize) {
        let Some(lane) = self.lanes.get_mut(server) else { return };
        lane.is_driven = false;
        if lane.phase == Phase::Connecting {
            lane.phase = Phase::Idle;
        }
        if self.is_closing {
            self.wakers.append(&mut self.watchers);
        }
        if !lane.has_work() {
            return;
        }
        let owners = lane.log.parcels().filter_map(|parcel| parcel.owner);
        for owner in owners {
            if let Some(Slot::Queued { waker, .. }) = self.slots.get(owner.slot)
                && let Some(waker) = waker.take()
            {
                self.wakers.push(waker);
                return;
            }
        }
        match self.line.front().and_then(|slot| self.slots.get(*slot)) {
            Some(Slot::InLine { waker, .. }) => self.wakers.push(waker.clone()),
            _ => self.wakers.append(&mut self.watchers),
        }
    }

    /// Until when an attempt to connect may take, for the sake of whoever makes it.
    pub(crate) fn connect_by(&mut self, server: usize, slot: Option<SlotId>) -> Option<Instant> {
        let lane = self.lanes.get(server)?;
        let is_own = |owner: super::Owner| Some(owner.slot) == slot;
        let own = lane.log.parcels().find(|parcel| parcel.owner.is_some_and(is_own));
        own.map_or(self.line_due, |own| own.deadline)
    }

    /// Whether there is something to do on a lane.
    pub(crate) fn has_work(&self, server: usize) -> bool {
        self.lanes.get(server).is_some_and(Lane::has_work)
    }

    /// Whether no reply is under way on a lane.
    pub(crate) fn is_quiet(&self, server: usize) -> bool {
        self.lanes.get(server).is_none_or(|lane| lane.log.is_quiet())
    }
}

impl Lane {
    fn has_work(&self) -> bool {
        self.is_wanted || !self.log.is_empty()
    }
}
