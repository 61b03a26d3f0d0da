//! Who waits for messages of which queue, and abandoned pulls.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    mem,
    time::{Duration, Instant},
};

use super::task::InOrder;
use crate::{Delivery, QueueName, RequestId, protocol::Delivered};

/// Interval between two counts for callers who wait for abandoned pulls. The server never answers these if their queue
/// was deleted since, even if it was created again, and nothing shows whether it was.
pub(super) const LOOK_EVERY: Duration = Duration::from_secs(10);

/// A received message without an owner.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) id: RequestId,
    pub(super) delivered: Delivered,
}

impl Kept {
    /// From a delivery whose caller is gone.
    pub(super) fn of(delivery: Delivery) -> (QueueName, Self) {
        let (queue, id, delivered) = delivery.into_parts();
        (queue, Kept { id, delivered })
    }
}

/// All pulls of one client.
///
/// A pull cannot be cancelled. An abandoned one stays outstanding for the next caller; a message that arrives without a
/// caller is kept for the next one. So callers and pulls are counted separately, and the caller that has waited longest
/// gets the next message of the queue.
#[derive(Debug, Default)]
pub(super) struct Pulls {
    lines: BTreeMap<QueueName, Line>,
    /// Queues with more callers than pulls, by the first caller without one.
    lacking: BTreeMap<u64, QueueName>,
    /// Callers who have joined an abandoned pull, which messages that are ready have not woken: these are to be counted.
    looks: BTreeMap<u64, QueueName>,
    /// When to count again, by queue.
    later_looks: BTreeSet<(Instant, QueueName)>,
    /// Number of abandoned pulls and kept messages.
    spare: usize,
    kept_bytes: usize,
}

#[derive(Debug, Default)]
struct Line {
    callers: InOrder,
    /// Number of pulls in flight.
    outstanding: usize,
    /// Number of these for which only the count before them has been sent.
    checked: usize,
    kept: VecDeque<Kept>,
    /// When to count again for its callers.
    look_at: Option<Instant>,
}

impl Line {
    fn spare(&self) -> usize {
        self.outstanding.saturating_sub(self.callers.len()) + self.kept.len()
    }

    /// Whether a pull is in flight whose caller is gone.
    fn has_spare_pull(&self) -> bool {
        self.outstanding > self.callers.len()
    }

    /// The first caller without a pull.
    fn lacking(&self) -> Option<u64> {
        self.callers.iter().nth(self.outstanding)
    }
}

impl Pulls {
    /// Changes a line, and updates the totals.
    fn change<T>(&mut self, queue: &QueueName, change: impl FnOnce(&mut Line) -> T) -> T {
        let line = self.lines.entry(queue.clone()).or_default();
        self.spare -= line.spare();
        let lacked = line.lacking();
        let outcome = change(line);
        self.spare += line.spare();
        let lacking = line.lacking();
        if lacking != lacked {
            lacked.map(|caller| self.lacking.remove(&caller));
            self.lacking.extend(lacking.map(|caller| (caller, queue.clone())));
        }
        if line.callers.is_empty() && line.spare() == 0 {
            if let Some(at) = line.look_at {
                self.later_looks.remove(&(at, queue.clone()));
            }
            self.lines.remove(queue);
        }
        outcome
    }

    /// A kept message, if there is one.
    pub(super) fn take_kept(&mut self, queue: &QueueName) -> Option<Kept> {
        if !self.lines.contains_key(queue) {
            return None;
        }
        let kept = self.change(queue, |line| line.kept.pop_front())?;
        self.kept_bytes -= kept.delivered.body.len();
        Some(kept)
    }

    pub(super) fn join(&mut self, queue: &QueueName, caller: u64) {
        self.change(queue, |line| line.callers.insert(caller));
    }

    /// Joins; if there is an abandoned pull, the messages that are ready are to be counted.
    pub(super) fn join_and_look(&mut self, queue: &QueueName, caller: u64) {
        if self.has_spare(queue) {
            self.looks.insert(caller, queue.clone());
        }
        self.join(queue, caller);
    }

    /// The next caller for whom to count.
    pub(super) fn take_look(&mut self) -> Option<(u64, QueueName)> {
        self.looks.pop_first()
    }

    /// Messages were counted for a caller of the queue: they are counted again while anybody waits there.
    pub(super) fn look_again(&mut self, queue: &QueueName, now: Instant) {
        if let Some(line) = self.lines.get_mut(queue)
            && !line.callers.is_empty()
            && line.look_at.is_none()
        {
            let at = queue_core::after(now, LOOK_EVERY);
            line.look_at = Some(at);
            self.later_looks.insert((at, queue.clone()));
        }
    }

    /// When the next of these counts is due.
    pub(super) fn next_look(&self) -> Option<Instant> {
        self.later_looks.first().map(|(at, _)| *at)
    }

    /// Makes the callers that have waited longest count where it is time.
    pub(super) fn look_in_time(&mut self, now: Instant) {
        while self.next_look().is_some_and(|at| at <= now)
            && let Some((_, queue)) = self.later_looks.pop_first()
        {
            let Some(line) = self.lines.get_mut(&queue) else { continue };
            line.look_at = None;
            if let Some(first) = line.callers.first() {
                self.looks.insert(first, queue);
            }
        }
    }

    pub(super) fn leave(&mut self, queue: &QueueName, caller: u64) {
        self.looks.remove(&caller);
        self.change(queue, |line| line.callers.remove(caller));
    }

    /// A queue that needs another pull, and the caller that this is for: of all, the one that has waited longest.
    pub(super) fn lacking(&self) -> Option<(u64, QueueName)> {
        self.lacking.first_key_value().map(|(caller, queue)| (*caller, queue.clone()))
    }

    /// Whether each pull that callers of the queue have asked for is in flight itself.
    pub(super) fn are_sent(&self, queue: &QueueName) -> bool {
        self.lines.get(queue).is_none_or(|line| line.checked == 0 && line.lacking().is_none())
    }

    /// A pull is in flight.
    pub(super) fn sent(&mut self, queue: &QueueName) {
        self.change(queue, |line| line.outstanding += 1);
    }

    /// The count before a pull is in flight, which counts as the pull.
    pub(super) fn checks(&mut self, queue: &QueueName) {
        self.change(queue, |line| {
            line.outstanding += 1;
            line.checked += 1;
        });
    }

    /// The count before a pull was answered.
    pub(super) fn checked(&mut self, queue: &QueueName) {
        self.change(queue, |line| line.checked = line.checked.saturating_sub(1));
    }

    /// Whether the caller for which a pull was counted is gone, so that the pull need not be sent.
    pub(super) fn is_spare(&self, queue: &QueueName) -> bool {
        self.lines.get(queue).is_none_or(Line::has_spare_pull)
    }

    /// Whether an abandoned pull waits.
    pub(super) fn has_spare(&self, queue: &QueueName) -> bool {
        self.lines.get(queue).is_some_and(Line::has_spare_pull)
    }

    /// A pull has ended without a message. Returns the caller that has waited longest, if it was for one.
    pub(super) fn ended(&mut self, queue: &QueueName) -> Option<u64> {
        self.change(queue, |line| {
            line.outstanding = line.outstanding.saturating_sub(1);
            line.callers.first()
        })
    }

    /// A message arrived for a pull. Returns the caller that gets it; without one, it is kept.
    pub(super) fn came(&mut self, queue: &QueueName, kept: Kept) -> Option<(u64, Kept)> {
        self.change(queue, |line| line.outstanding = line.outstanding.saturating_sub(1));
        self.put(queue, kept)
    }

    /// A message has lost its owner. Returns the caller that gets it; without one, it is kept.
    pub(super) fn put(&mut self, queue: &QueueName, kept: Kept) -> Option<(u64, Kept)> {
        let bytes = kept.delivered.body.len();
        let served = self.change(queue, |line| match line.callers.pop() {
            Some(caller) => Some((caller, kept)),
            None => {
                line.kept.push_back(kept);
                None
            }
        });
        if served.is_none() {
            self.kept_bytes += bytes;
        }
        served
    }

    /// The connection has ended: nothing is in flight, and the server has taken back the kept messages.
    pub(super) fn reset(&mut self) {
        (self.spare, self.kept_bytes) = (0, 0);
        let lines = mem::take(&mut self.lines);
        self.lacking.clear();
        self.looks.clear();
        self.later_looks.clear();
        for (queue, line) in lines {
            if let Some(first) = line.callers.first() {
                self.lacking.insert(first, queue.clone());
                self.lines.insert(queue, Line { callers: line.callers, ..Line::default() });
            }
        }
    }

    /// Number of abandoned pulls in flight and kept messages.
    pub(super) fn spare(&self) -> usize {
        self.spare
    }

    /// Total size of the kept messages.
    pub(super) fn kept_bytes(&self) -> usize {
        self.kept_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue() -> QueueName {
        "/q".parse().unwrap()
    }

    fn kept(id: &str) -> Kept {
        let delivered =
            Delivered { message_id: 1.into(), duplications: 1, body: id.to_owned().into() };
        Kept { id: id.parse().unwrap(), delivered }
    }

    fn who(served: Option<(u64, Kept)>) -> Option<u64> {
        served.map(|(caller, _)| caller)
    }

    #[test]
    fn whoever_waits_longest_has_the_next_message_whichever_pull_brings_it() {
        let (mut pulls, queue) = (Pulls::default(), queue());
        for caller in [1, 2] {
            pulls.join(&queue, caller);
            assert_eq!(pulls.lacking(), Some((caller, queue.clone())));
            pulls.sent(&queue);
            assert_eq!(pulls.lacking(), None);
        }
        assert_eq!(who(pulls.came(&queue, kept("second"))), Some(1));
        assert_eq!(who(pulls.came(&queue, kept("first"))), Some(2));
        assert!(pulls.lines.is_empty());
    }

    #[test]
    fn the_caller_that_has_waited_longest_is_served_first_whatever_its_queue() {
        let mut pulls = Pulls::default();
        let [first, second] = ["/z", "/a"].map(|name| name.parse().unwrap());
        pulls.join(&first, 1);
        pulls.join(&second, 2);
        for expected in [(1, first), (2, second)] {
            assert_eq!(pulls.lacking().as_ref(), Some(&expected));
            pulls.sent(&expected.1);
        }
        assert_eq!(pulls.lacking(), None);
    }

    #[test]
    fn only_who_joins_a_pull_that_was_given_up_looks() {
        let (mut pulls, queue) = (Pulls::default(), queue());
        pulls.join_and_look(&queue, 1);
        assert_eq!(pulls.take_look(), None);
        pulls.sent(&queue);
        pulls.leave(&queue, 1);
        for caller in [2, 3] {
            pulls.join_and_look(&queue, caller);
            assert_eq!(pulls.looks.len(), 1, "there is one such pull");
        }
        pulls.leave(&queue, 3);
        assert_eq!(pulls.take_look(), Some((2, queue.clone())));
        pulls.leave(&queue, 2);
        pulls.join_and_look(&queue, 4);
        pulls.leave(&queue, 4);
        assert_eq!(pulls.take_look(), None, "it does not wait any more");
        pulls.join_and_look(&queue, 5);
        pulls.reset();
        assert_eq!(pulls.take_look(), None, "the pull is gone");
    }

    #[test]
    fn a_pull_that_was_given_up_is_the_next_callers() {
        let (mut pulls, queue) = (Pulls::default(), queue());
        pulls.join(&queue, 1);
        pulls.sent(&queue);
        pulls.leave(&queue, 1);
        assert_eq!((pulls.spare(), pulls.lacking()), (1, None));
        pulls.join(&queue, 2);
        assert_eq!((pulls.spare(), pulls.lacking()), (0, None));
        pulls.leave(&queue, 2);
        assert_eq!(who(pulls.came(&queue, kept("late"))), None);
        assert_eq!((pulls.spare(), pulls.kept_bytes()), (1, 4));
        assert_eq!(&*pulls.take_kept(&queue).unwrap().delivered.body, b"late");
        assert_eq!((pulls.spare(), pulls.kept_bytes()), (0, 0));
        assert!(pulls.take_kept(&queue).is_none() && pulls.lines.is_empty());
    }

    #[test]
    fn a_queue_that_nobody_waits_for_is_not_counted_again() {
        let (mut pulls, queue, now) = (Pulls::default(), queue(), queue_core::now());
        for caller in [1, 2] {
            pulls.join(&queue, caller);
            pulls.look_again(&queue, now);
            pulls.look_again(&queue, now);
            assert_eq!((pulls.next_look(), pulls.later_looks.len()), (Some(now + LOOK_EVERY), 1));
            pulls.leave(&queue, caller);
            assert_eq!((pulls.next_look(), pulls.lines.len()), (None, 0));
        }
        pulls.join(&queue, 3);
        pulls.look_again(&queue, now);
        pulls.look_in_time(now);
        assert_eq!(pulls.take_look(), None);
        pulls.look_in_time(now + LOOK_EVERY);
        assert_eq!((pulls.take_look(), pulls.next_look()), (Some((3, queue)), None));
    }

    #[test]
    fn a_pull_is_sent_once_it_is_in_flight_itself() {
        let (mut pulls, queue) = (Pulls::default(), queue());
        assert!(pulls.are_sent(&queue), "there is none");
        pulls.join(&queue, 1);
        assert!(!pulls.are_sent(&queue));
        pulls.checks(&queue);
        assert!(!pulls.are_sent(&queue), "only the count before it");
        pulls.checked(&queue);
        assert!(pulls.are_sent(&queue));
    }

    #[test]
    fn what_was_under_way_is_forgotten_with_its_connection_and_callers_are_not() {
        let (mut pulls, queue) = (Pulls::default(), queue());
        pulls.join(&queue, 1);
        pulls.sent(&queue);
        pulls.sent(&"/other".parse().unwrap());
        pulls.put(&"/kept".parse().unwrap(), kept("k"));
        assert_eq!(pulls.spare(), 2);
        pulls.reset();
        assert_eq!((pulls.spare(), pulls.kept_bytes()), (0, 0));
        assert_eq!((pulls.lacking(), pulls.lines.len()), (Some((1, queue)), 1));
    }
}
