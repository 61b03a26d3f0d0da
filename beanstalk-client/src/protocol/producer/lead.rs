//! Lanes without drivers of their own: one of the waiting callers drives each.

use std::time::{Duration, Instant};

use queue_core::earliest;

use super::{
    Outbox, Slot, SlotId,
    lane::{Lane, Phase},
};

/// The task of a waiting caller.
#[derive(Debug)]
pub(crate) enum Lead {
    /// Drive this lane, until then at most, and [resign](Outbox::resign).
    Drive(usize, Option<Instant>),
    /// Sleep until then, or until woken.
    Park(Option<Instant>),
}

/// How long a caller drives one lane while others have nobody to drive them.
const TURN: Duration = Duration::from_millis(20);

impl Outbox {
    /// The task of a caller that waits for the answer to the put in this slot, or for anything else, and has driven
    /// this lane until its turn was over.
    pub(crate) fn lead(&mut self, slot: Option<SlotId>, last: Option<usize>, now: Instant) -> Lead {
        let own = slot.and_then(|slot| match self.slots.get(slot) {
            Some(Slot::Queued { lane, deadline, .. }) => Some((*lane, *deadline)),
            _ => None,
        });
        let mut wake_at = None;
        for server in own.map_or(0..self.lanes.len(), |(lane, _)| lane..lane + 1) {
            self.expire(server, now);
            let Some(lane) = self.lanes.get(server) else { continue };
            wake_at = earliest([wake_at, lane.next_due]);
            if lane.phase == Phase::Backoff && !lane.is_driven && lane.has_work() {
                wake_at = earliest([wake_at, lane.health.quarantine(now)]);
            }
        }
        let home = own.map(|(lane, _)| lane);
        let Some(server) = self.next_to_drive(home, last, now) else {
            return Lead::Park(earliest([wake_at, self.line_due]));
        };
        let has_others = self.others(home, now).any(|other| other != server);
        let Some(lane) = self.lanes.get_mut(server) else { return Lead::Park(wake_at) };
        lane.is_driven = true;
        // An attempt to connect would be cut short.
        let takes_turns =
            lane.is_connected() && (has_others || home.is_some_and(|own| own != server));
        let turn = takes_turns.then(|| queue_core::after(now, TURN));
        if home != Some(server) {
            self.turn = server;
        }
        Lead::Drive(server, earliest([turn, own.map_or(self.line_due, |(_, deadline)| deadline)]))
    }

    /// The lane for a caller to drive next: its own, in turns with those that nobody drives.
    fn next_to_drive(
        &self,
        own: Option<usize>,
        last: Option<usize>,
        now: Instant,
    ) -> Option<usize> {
        let waits = |server| self.lanes.get(server).is_some_and(|lane: &Lane| lane.waits(now));
        match own {
            Some(own) if !waits(own) => None,
            Some(own) if last != Some(own) => Some(own),
            own => self.others(own, now).next().or(own),
        }
    }

    /// The lanes that a caller with this lane of its own may drive besides, in turns. One with its own does not wait for
    /// connections to other servers.
    fn others(&self, own: Option<usize>, now: Instant) -> impl Iterator<Item = usize> {
        let (count, first) = (self.lanes.len(), self.turn + 1);
        let in_turn = (first..first + count).map(move |server| server % count);
        in_turn.filter(move |server| {
            let waits = |lane: &Lane| lane.waits(now) && (own.is_none() || lane.is_connected());
            own != Some(*server) && self.lanes.get(*server).is_some_and(waits)
        })
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
