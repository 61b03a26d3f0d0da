//! The messages that a lane holds.

use std::collections::{BTreeMap, HashMap, VecDeque};

use bytes::Bytes;
use foldhash::fast::FixedState;
use queue_core::Epoch;

use crate::{Delivery, JobFate, MessageId, QueueName, RequestId};

/// Identifies a held message to a lane and its handlers. Keys are never reused.
pub(crate) type HeldKey = u64;

/// A pulled message that is not settled yet.
#[derive(Debug)]
pub(super) struct HeldMessage {
    pub(super) queue: QueueName,
    pub(super) id: RequestId,
    pub(super) message: MessageId,
    /// Number of deliveries, without those after which it was deferred.
    pub(super) attempts: u16,
    pub(super) epoch: Option<Epoch>,
    /// For the dead-letter queue, if there is one.
    pub(super) body: Bytes,
    /// Why its handler failed, for a message that goes there.
    pub(super) reason: Option<String>,
    pub(super) stage: HeldStage,
}

#[derive(Debug)]
pub(super) enum HeldStage {
    /// Waiting for a free handler.
    Waiting(Delivery),
    /// With a handler.
    Running,
    /// Lost, but its handler is still running.
    Lost,
    /// Its copy to the dead-letter queue is in flight.
    Copying,
    /// The request to settle it is in flight; this is its fate on success.
    Settling(JobFate),
}

#[derive(Debug, Default)]
pub(super) struct HeldEntry {
    pub(super) messages: HashMap<HeldKey, HeldMessage, FixedState>,
    pub(super) last: HeldKey,
    /// Messages with a copy or settlement in flight, with its task, in order.
    pub(super) asked: VecDeque<(u64, HeldKey)>,
    /// Messages with running handlers, including lost ones.
    pub(super) running: Vec<HeldKey>,
    /// Messages that wait for a handler, oldest first.
    pub(super) waiting: VecDeque<HeldKey>,
    /// Number given to handlers since the connection was last checked.
    pub(super) started: usize,
}

impl HeldEntry {
    /// Number that handlers have, or will have; without those whose queue has all the handlers that it may have, so that
    /// other queues are served meanwhile.
    pub(super) fn taken(&self, slots_for: &BTreeMap<QueueName, usize>) -> usize {
        let mut waiting = self.waiting.len();
        if !slots_for.is_empty() {
            waiting -= self.waiting.iter().filter(|key| self.is_blocked(**key, slots_for)).count();
        }
        self.running.len() + waiting
    }

    /// The same for the messages of one queue.
    pub(super) fn taken_of(&self, queue: &QueueName) -> usize {
        self.count(queue, self.running.iter().chain(&self.waiting))
    }

    fn count<'a>(&self, queue: &QueueName, keys: impl Iterator<Item = &'a HeldKey>) -> usize {
        keys.filter(|key| self.messages.get(key).is_some_and(|held| held.queue == *queue)).count()
    }

    /// Whether the queue of this message has all the handlers that it may have.
    fn is_blocked(&self, key: HeldKey, slots_for: &BTreeMap<QueueName, usize>) -> bool {
        self.messages.get(&key).is_some_and(|held| {
            let most = slots_for.get(&held.queue);
            most.is_some_and(|most| self.count(&held.queue, self.running.iter()) >= *most)
        })
    }

    pub(super) fn add(&mut self, held: HeldMessage) -> HeldKey {
        self.last += 1;
        self.messages.insert(self.last, held);
        self.last
    }

    /// The next message to run. A message whose earlier run is still active waits for that run to end, and one whose queue
    /// has all the handlers that it may have for one of those.
    pub(super) fn next(&mut self, slots_for: &BTreeMap<QueueName, usize>) -> Option<HeldKey> {
        let name = |key: &HeldKey| self.messages.get(key).map(|held| (&held.queue, held.message));
        let is_twin = |key: &HeldKey| self.running.iter().any(|other| name(other) == name(key));
        let place = self.waiting.iter().position(|key| {
            !is_twin(key) && (slots_for.is_empty() || !self.is_blocked(*key, slots_for))
        })?;
        self.waiting.remove(place)
    }

    /// A handler has stopped running it.
    pub(super) fn stopped(&mut self, key: HeldKey) {
        self.running.retain(|running| *running != key);
    }

    /// The messages that are being copied or settled, oldest first.
    pub(super) fn settling(&self) -> Vec<HeldKey> {
        let is_settling = |stage: &_| matches!(stage, HeldStage::Copying | HeldStage::Settling(_));
        let held = self.messages.iter().filter(|(_, held)| is_settling(&held.stage));
        let mut keys: Vec<HeldKey> = held.map(|(key, _)| *key).collect();
        keys.sort_unstable();
        keys
    }

    /// Messages with running handlers that are not lost, oldest first.
    pub(super) fn own_running(&self) -> impl Iterator<Item = HeldKey> {
        let is_own = |key: &HeldKey| {
            self.messages.get(key).is_some_and(|held| matches!(held.stage, HeldStage::Running))
        };
        self.running.iter().copied().filter(is_own)
    }
}
