//! Slots: one for each put whose caller waits.

use std::{
    task::Waker,
    time::{Duration, Instant},
};

use crate::{Inserted, Result};

/// The slots of a producer.
#[derive(Debug, Default)]
pub(super) struct PutSlots {
    slots: Vec<PutSlot>,
    free: Vec<SlotId>,
}

pub(crate) type SlotId = u32;

#[derive(Debug, Default)]
pub(super) enum PutSlot {
    #[default]
    Free,
    /// Its put waits for room in the queue.
    InLine { weight: usize, deadline: Option<Instant>, timeout: Duration, waker: Waker },
    /// Its put has been granted room, and may be added.
    Granted { weight: usize },
    /// Its put is in the queue of a server.
    Queued { lane: usize, deadline: Option<Instant>, waker: Option<Waker> },
    /// Its put has this outcome.
    Done(Result<Inserted>),
    /// Its caller is gone, and its put is still in the queue of a server.
    Abandoned { lane: usize },
}

impl PutSlots {
    pub(super) fn open(&mut self, slot: PutSlot) -> SlotId {
        let Some(id) = self.free.pop() else {
            self.slots.push(slot);
            return SlotId::try_from(self.slots.len() - 1).unwrap_or(SlotId::MAX);
        };
        self.set(id, slot);
        id
    }

    pub(super) fn get(&mut self, id: SlotId) -> Option<&mut PutSlot> {
        self.slots.get_mut(id as usize)
    }

    pub(super) fn set(&mut self, id: SlotId, state: PutSlot) {
        if let Some(slot) = self.get(id) {
            *slot = state;
        }
    }

    /// Frees a slot, and returns its content.
    pub(super) fn close(&mut self, id: SlotId) -> PutSlot {
        let Some(slot) = self.get(id) else { return PutSlot::Free };
        let state = std::mem::take(slot);
        self.free.push(id);
        state
    }

    /// Stores the outcome of a put; returns the waker of its caller.
    pub(super) fn finish(&mut self, id: SlotId, outcome: Result<Inserted>) -> Option<Waker> {
        let slot = self.get(id)?;
        match std::mem::replace(slot, PutSlot::Done(outcome)) {
            PutSlot::Queued { waker, .. } => waker,
            PutSlot::InLine { waker, .. } => Some(waker),
            PutSlot::Abandoned { .. } => {
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
