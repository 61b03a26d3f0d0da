//! One put of the async producer, from its first poll to its answer.

use std::{
    sync::Arc,
    task::{Context, Poll, ready},
    time::Instant,
};

use queue_core::now;

use crate::{
    Inserted, Result, TubeName,
    produce::shared::SharedOutbox,
    protocol::{
        Put,
        producer::{Outbox, Policy, SlotId},
    },
};

/// A put and its slot. Dropping it abandons the slot; an accepted put continues.
pub(super) struct PutCall<'a> {
    shared: &'a Arc<SharedOutbox>,
    policy: &'a Policy,
    stage: CallStage,
    deadline: Option<Instant>,
}

enum CallStage {
    New,
    InLine(SlotId),
    Queued(SlotId),
    Done,
}

impl<'a> PutCall<'a> {
    pub(super) fn new(shared: &'a Arc<SharedOutbox>, policy: &'a Policy) -> Self {
        PutCall { shared, policy, stage: CallStage::New, deadline: None }
    }

    pub(super) fn poll_answer<B: AsRef<[u8]>>(
        &mut self,
        tube: &TubeName,
        put: &Put<B>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Inserted>> {
        self.shared.with(|outbox| {
            ready!(self.poll_room_in(outbox, tube, put, cx))?;
            let CallStage::Queued(slot) = self.stage else { return Poll::Pending };
            let answer = ready!(outbox.poll_answer(slot, cx.waker()));
            self.stage = CallStage::Done;
            Poll::Ready(answer)
        })
    }

    pub(super) fn poll_room<B: AsRef<[u8]>>(
        &mut self,
        tube: &TubeName,
        put: &Put<B>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<()>> {
        self.shared.with(|outbox| self.poll_room_in(outbox, tube, put, cx))
    }

    fn poll_room_in<B: AsRef<[u8]>>(
        &mut self,
        outbox: &mut Outbox,
        tube: &TubeName,
        put: &Put<B>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<()>> {
        match self.stage {
            CallStage::New => {
                if !self.enter(outbox, tube, put)? {
                    let slot = outbox.stand_in_line(put, (self.policy, self.deadline), cx.waker());
                    self.stage = CallStage::InLine(slot);
                    return Poll::Pending;
                }
            }
            CallStage::InLine(slot) => {
                let stands = (self.policy, self.deadline);
                let room = ready!(outbox.poll_room(slot, put, tube, stands, now(), cx.waker()));
                // On an error the outbox has freed the slot.
                self.stage = if room.is_ok() { CallStage::Queued(slot) } else { CallStage::Done };
                return Poll::Ready(room);
            }
            CallStage::Queued(_) | CallStage::Done => {}
        }
        Poll::Ready(Ok(()))
    }

    /// Queues the put if there is room; returns whether it did.
    pub(super) fn try_enter<B: AsRef<[u8]>>(
        &mut self,
        tube: &TubeName,
        put: &Put<B>,
    ) -> Result<bool> {
        self.shared.with(|outbox| self.enter(outbox, tube, put))
    }

    fn enter<B: AsRef<[u8]>>(
        &mut self,
        outbox: &mut Outbox,
        tube: &TubeName,
        put: &Put<B>,
    ) -> Result<bool> {
        let now = now();
        self.deadline = now.checked_add(self.policy.timeout);
        let slot = outbox.offer(put, tube, self.policy, self.deadline, now)?;
        if let Some(slot) = slot {
            self.stage = CallStage::Queued(slot);
        }
        Ok(slot.is_some())
    }

    /// Takes the slot of an accepted put, which this no longer abandons.
    pub(super) fn take_slot(mut self) -> Option<SlotId> {
        match std::mem::replace(&mut self.stage, CallStage::Done) {
            CallStage::Queued(slot) => Some(slot),
            _ => None,
        }
    }
}

impl Drop for PutCall<'_> {
    fn drop(&mut self) {
        if let CallStage::InLine(slot) | CallStage::Queued(slot) = self.stage {
            self.shared.with(|outbox| outbox.abandon(slot));
        }
    }
}
