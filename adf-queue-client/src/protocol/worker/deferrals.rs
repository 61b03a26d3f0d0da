//! Deliveries that do not count as attempts.

use std::collections::{BTreeMap, HashMap};

use foldhash::fast::FixedState;

use crate::{MessageId, QueueName};

/// Maximum number of messages whose deferrals are remembered.
const MAX: usize = 10_000;

/// How often handlers have deferred each message, since the server counts deliveries only. Beyond [`MAX`] messages, the
/// one whose first deferral is the longest ago is forgotten.
#[derive(Debug, Default)]
pub(super) struct Deferrals {
    counts: HashMap<(QueueName, MessageId), (u16, u64), FixedState>,
    order: BTreeMap<u64, (QueueName, MessageId)>,
    last: u64,
}

impl Deferrals {
    pub(super) fn add(&mut self, queue: &QueueName, message: MessageId) {
        let name = (queue.clone(), message);
        if let Some((count, _)) = self.counts.get_mut(&name) {
            *count = count.saturating_add(1);
            return;
        }
        if self.counts.len() >= MAX
            && let Some((_, oldest)) = self.order.pop_first()
        {
            self.counts.remove(&oldest);
        }
        self.last += 1;
        self.order.insert(self.last, name.clone());
        self.counts.insert(name, (1, self.last));
    }

    /// Number of deliveries that were attempts.
    pub(super) fn attempts(&self, queue: &QueueName, message: MessageId, duplications: u16) -> u16 {
        if self.counts.is_empty() {
            return duplications;
        }
        let deferred = self.counts.get(&(queue.clone(), message)).map_or(0, |(count, _)| *count);
        duplications.saturating_sub(deferred).max(1)
    }

    /// The message is gone.
    pub(super) fn forget(&mut self, queue: &QueueName, message: MessageId) {
        if !self.counts.is_empty()
            && let Some((_, at)) = self.counts.remove(&(queue.clone(), message))
        {
            self.order.remove(&at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deferrals_are_not_attempts_and_the_oldest_are_forgotten_first() {
        let (mut deferrals, queue) = (Deferrals::default(), "/q".parse::<QueueName>().unwrap());
        let id = |n: u64| MessageId::from(n);
        deferrals.add(&queue, id(0));
        deferrals.add(&queue, id(0));
        assert_eq!(deferrals.attempts(&queue, id(0), 5), 3);
        assert_eq!(deferrals.attempts(&queue, id(0), 1), 1, "the server counts modulo 65,536");
        assert_eq!(deferrals.attempts(&queue, id(7), 5), 5);
        for n in 1..MAX as u64 + 1 {
            deferrals.add(&queue, id(n));
        }
        assert_eq!(deferrals.attempts(&queue, id(0), 5), 5);
        assert_eq!(deferrals.attempts(&queue, id(1), 5), 4);
        deferrals.forget(&queue, id(1));
        assert_eq!(deferrals.attempts(&queue, id(1), 5), 5);
        assert_eq!((deferrals.counts.len(), deferrals.order.len()), (MAX - 1, MAX - 1));
    }
}
