//! Lanes without drivers of their own: one of the waiting callers drives each.

use std::time::Instant;

use queue_core::earliest;

use super::{Outbox, Slot, SlotId, lane::Phase};

/// The task of a waiting caller.
#[derive(Debug)]
pub(crate) enum Lead {
    /// Drive this lane, until then at most, and [resign](Outbox::resign).
    Drive(usize, Option<Instant>),
    /// Sleep until then, or until woken.
    Park(Option<Instant>),
}

impl Outbox {
    /// The task of a caller that waits for the answer to the put in this slot, or for anything else.
    pub(crate) fn lead(&mut self, slot: Option<SlotId>, now: Instant) -> Lead {
        let own = slot.and_then(|slot| match self.slots.get(slot) {
            Some(Slot::Queued { lane, deadline, .. }) => Some((*lane, *deadline)),
            _ => None,
        });
        let mut wake_at = None;
        for server in own.map_or(0..self.lanes.len(), |(lane, _)| lane..lane + 1) {
            self.expire(server, now);
            let Some(lane) = self.lanes.get_mut(server) else { continue };
            wake_at = earliest([wake_at, lane.next_due]);
            if lane.is_driven || !lane.has_work() {
                continue;
            }
            match lane.phase {
                Phase::Closed => {}
                Phase::Backoff if lane.health.quarantine(now).is_some() => {
                    wake_at = earliest([wake_at, lane.health.quarantine(now)]);
                }
                _ => {
                    lane.is_driven = true;
                    return Lead::Drive(
                        server,
                        own.map_or(self.line_due, |(_, deadline)| deadline),
                    );
                }
            }
        }
        Lead::Park(earliest([wake_at, self.line_due]))
    }

    /// The caller that drove a lane has stopped; another waiting caller takes over.
    pub(crate) fn resign(&mut self, server: usize) {
        let Some(lane) = self.lanes.get_mut(server) else { return };
        lane.is_driven = false;
        if lane.phase == Phase::Connecting {
            // An attempt was announced, but is not in progress.
            lane.phase = Phase::Idle;
            lane.health.lost();
        }
        if self.is_closing {
            self.wakers.append(&mut self.watchers);
        }
        if !lane.has_work() {
            return;
        }
        let owners = lane.parcels().filter_map(|parcel| parcel.owner);
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
}
