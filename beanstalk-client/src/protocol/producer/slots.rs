//! Slots: one for each put whose caller waits.

use std::{
    task::Waker,
    time::{Duration, Instant},
};

use crate::{Inserted, Result};

/// The slots of a producer.
#[derive(Debug, Default)]
pub(super) struct Slots {
    slots: Vec<Slot>,
    free: Vec<SlotId>,
}

pub(crate) type SlotId = u32;

#[derive(Debug, Default)]
pub(super) enum Slot {
    #[default]
    Free,
    /// Its put waits for room in the queue.
    InLine { weight: usize, deadline: Option<Instant>, timeout: Duration, waker: Waker },
    /// Its put has been granted room, and may be added.
    Granted { weight: usize },
    /// Its put is in the queue of a server.
    Queued {
        lane: usize,
        #[cfg_attr(
            not(feature = "blocking"),
            expect(dead_code, reason = "a task has no put of its own")
        )]
        deadline: Option<Instant>,
        waker: Option<Waker>,
    },
    /// Its put has this outcome.
    Done(Result<Inserted>),
    /// Its caller is gone, and its put is still in the queue of a server.
    Abandoned { lane: usize },
}

impl Slots {
    pub(super) fn open(&mut self, slot: Slot) -> SlotId {
        let Some(id) = self.free.pop() else {
            self.slots.push(slot);
            return SlotId::try_from(self.slots.len() - 1).unwrap_or(SlotId::MAX);
        };
        self.set(id, slot);
        id
    }

    pub(super) fn get(&mut self, id: SlotId) -> Option<&mut Slot> {
        self.slots.get_mut(id as usize)
    }

    pub(super) fn set(&mut self, id: SlotId, state: Slot) {
        if let Some(slot) = self.get(id) {
            *slot = state;
        }
    }

    /// Frees a slot, and returns its content.
    pub(super) fn close(&mut self, id: SlotId) -> Slot {
        let Some(slot) = self.get(id) else { return Slot::Free };
        let state = std::mem::take(slot);
        self.free.push(id);
        state
    }

    /// Stores the outcome of a put; returns the waker of its caller.
    pub(super) fn finish(&mut self, id: SlotId, outcome: Result<Inserted>) -> Option<Waker> {
        let slot = self.get(id)?;
        match std::mem::replace(slot, Slot::Done(outcome)) {
            Slot::Queued { waker, .. } => waker,
            Slot::InLine { waker, .. } => Some(waker),
            Slot::Abandoned { .. } => {
                self.close(id);
                None
            }
            other => {
                *slot = other;
                None
            }
        }
    }
}
