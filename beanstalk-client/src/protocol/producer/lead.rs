//! Lanes without their own drivers: one of the waiting callers drives each.

use std::{
    task::{Poll, Waker},
    time::{Duration, Instant},
};

use queue_core::earliest;

use super::{
    Outbox, PutSlot, SlotId,
    lane::{Lane, LanePhase},
};

/// The task of a waiting caller.
#[derive(Debug)]
pub(crate) enum Leadership {
    /// Drive this lane, until then at most, and [resign](Outbox::resign).
    Drive(usize, Option<Instant>),
    /// Sleep until then, or until woken.
    Park(Option<Instant>),
}

/// The next step of a caller that found puts without a waiter.
#[derive(Debug)]
pub(crate) enum UnwaitedPuts {
    /// Write to this lane without waiting, and [resign](Outbox::resign).
    Push(usize),
    /// Start a thread that waits until everything is written.
    Help,
    Nothing,
}

/// How long a caller drives one lane while others have no driver.
const TURN: Duration = Duration::from_millis(20);

impl Outbox {
    /// The task of a caller that waits for the answer to the put in this slot, or for anything else, and has driven
    /// this lane until its turn was over.
    pub(crate) fn lead(
        &mut self,
        slot: Option<SlotId>,
        last: Option<usize>,
        now: Instant,
    ) -> Leadership {
        let own = slot.and_then(|slot| match self.slots.get(slot) {
            Some(PutSlot::Queued { lane, deadline, .. }) => Some((*lane, *deadline)),
            _ => None,
        });
        let mut wake_at = None;
        for server in own.map_or(0..self.lanes.len(), |(lane, _)| lane..lane + 1) {
            // Who drives it reads first: the answers may be here.
            let reads_first =
                |lane: &Lane| lane.is_connected() && !lane.is_driven && !lane.log.is_quiet();
            if !self.lanes.get(server).is_some_and(reads_first) {
                self.expire(server, now);
            }
            let Some(lane) = self.lanes.get_mut(server) else { continue };
            if own.is_some_and(|(_, deadline)| deadline.is_some_and(|at| at <= now)) {
                // This caller was woken to drive it, and may have nothing to wait for any more.
                lane.is_handed_on = false;
            }
            wake_at = earliest([wake_at, lane.next_due]);
            if lane.phase == LanePhase::Backoff && !lane.is_driven && lane.has_work() {
                wake_at = earliest([wake_at, lane.health.quarantine(now)]);
            }
        }
        let home = own.map(|(lane, _)| lane);
        let Some(server) = self.next_to_drive(home, last, now) else {
            return Leadership::Park(earliest([wake_at, self.line_due]));
        };
        let has_others = self.others(home, now).any(|other| other != server);
        let Some(lane) = self.lanes.get_mut(server) else { return Leadership::Park(wake_at) };
        lane.drive();
        // An attempt to connect would be cut short.
        let takes_turns =
            lane.is_connected() && (has_others || home.is_some_and(|own| own != server));
        let turn = takes_turns.then(|| queue_core::after(now, TURN));
        if home != Some(server) {
            self.turn = server;
        }
        Leadership::Drive(
            server,
            earliest([turn, own.map_or(self.line_due, |(_, deadline)| deadline)]),
        )
    }

    /// The lane for a caller to drive next: its own, in turns with those without a driver.
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

    /// The lanes that a caller with this lane may also drive, in turns. One with its own does not wait for
    /// connections to other servers.
    fn others(&self, own: Option<usize>, now: Instant) -> impl Iterator<Item = usize> {
        let (count, first) = (self.lanes.len(), self.turn + 1);
        let in_turn = (first..first + count).map(move |server| server % count);
        in_turn.filter(move |server| {
            let waits = |lane: &Lane| lane.waits(now) && (own.is_none() || lane.is_connected());
            own != Some(*server) && self.lanes.get(*server).is_some_and(waits)
        })
    }

    /// A lane without a driver, with something to write or to expire. The caller [writes](UnwaitedPuts::Push) what it
    /// can, and [resigns](Self::resign), or starts the thread that [helps](UnwaitedPuts::Help).
    pub(crate) fn left(&mut self, now: Instant) -> UnwaitedPuts {
        let is_left = |lane: &Lane| !lane.is_driven && !lane.is_handed_on;
        let may_move = |lane: &Lane| {
            let is_due = lane.has_work() && lane.next_due.is_some_and(|at| at <= now);
            is_left(lane)
                && ((lane.phase == LanePhase::Ready && lane.log.has_unwritten()) || is_due)
        };
        if let Some(server) = self.lanes.iter().position(may_move)
            && let Some(lane) = self.lanes.get_mut(server)
        {
            lane.drive();
            return UnwaitedPuts::Push(server);
        }
        self.needs_help()
    }

    /// Whether a thread has to write what callers have left.
    pub(crate) fn needs_help(&mut self) -> UnwaitedPuts {
        let is_left = |lane: &Lane| !lane.is_driven && !lane.is_handed_on && lane.has_unwritten();
        if !self.lanes.iter().any(is_left) {
            return UnwaitedPuts::Nothing;
        }
        if std::mem::replace(&mut self.has_helper, true) {
            // It may sleep until a later moment.
            self.wakers.append(&mut self.watchers);
            return UnwaitedPuts::Nothing;
        }
        UnwaitedPuts::Help
    }

    /// Waits until everything is written, for the thread that helps.
    pub(crate) fn poll_written(&mut self, waker: &Waker) -> Poll<()> {
        if self.lanes.iter().any(Lane::has_unwritten) {
            self.watch(waker);
            return Poll::Pending;
        }
        self.has_helper = false;
        Poll::Ready(())
    }

    /// The thread that was to help could not be started.
    pub(crate) fn has_no_helper(&mut self) {
        self.has_helper = false;
    }

    /// The caller that drove a lane has stopped; another waiting caller takes over.
    pub(crate) fn resign(&mut self, server: usize) {
        let Some(lane) = self.lanes.get_mut(server) else { return };
        lane.is_driven = false;
        if lane.phase == LanePhase::Connecting {
            // An attempt was announced, but is not in progress.
            lane.phase = LanePhase::Idle;
            lane.health.lost();
        }
        if self.is_closing {
            self.wakers.append(&mut self.watchers);
        }
        if !lane.has_work() {
            return;
        }
        let mut owners = lane.log.queued_puts().filter_map(|queued_put| queued_put.owner);
        let waits = owners.find_map(|owner| match self.slots.get(owner.slot) {
            Some(PutSlot::Queued { waker, .. }) => waker.take(),
            _ => None,
        });
        drop(owners);
        if let Some(waker) = waits {
            self.wakers.push(waker);
            lane.is_handed_on = true;
            return;
        }
        match self.line.front().and_then(|slot| self.slots.get(*slot)) {
            Some(PutSlot::InLine { waker, .. }) => self.wakers.push(waker.clone()),
            _ => self.wakers.append(&mut self.watchers),
        }
    }
}
