//! Admission of a put to the queue of the blocking producer.

use std::{sync::Arc, task::Poll};

use queue_core::now;

use super::ProducerShared;
use crate::{
    Result, TubeName,
    protocol::{
        Put,
        producer::{Policy, SlotId},
    },
};

/// Waits for room, and returns the slot of the accepted put.
pub(super) fn accept<B: AsRef<[u8]>>(
    shared: &Arc<ProducerShared>,
    policy: &Policy,
    tube: &TubeName,
    put: &Put<B>,
) -> Result<SlotId> {
    let start = now();
    let deadline = start.checked_add(policy.timeout);
    let offered = shared.outbox.with(|outbox| outbox.offer(put, tube, policy, deadline, start))?;
    if let Some(slot) = offered {
        return Ok(slot);
    }
    let mut place = None;
    shared.wait(None, |outbox, waker| {
        let Some(slot) = place else {
            place = Some(outbox.stand_in_line(put, (policy, deadline), waker));
            return Poll::Pending;
        };
        let room = outbox.poll_room(slot, put, tube, (policy, deadline), now(), waker);
        room.map(|outcome| outcome.map(|()| slot))
    })
}
