//! Who waits for messages of which queue, and abandoned pulls.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    mem,
    time::{Duration, Instant},
};

use super::task::InOrder;
use crate::{
    QueueName, RequestId,
    protocol::{Delivered, Refusal, Success},
};

/// Interval between two counts for callers who wait for abandoned pulls. The server never answers these if their queue
/// was deleted since, even if it was created again, and nothing but a later pull shows whether it was.
pub(super) const LOOK_EVERY: Duration = Duration::from_secs(10);

/// A received message without an owner.
#[derive(Debug)]
pub(super) struct UnclaimedMessage {
    pub(super) id: RequestId,
    pub(super) delivered: Delivered,
}

/// All pulls of one client.
///
/// A pull cannot be cancelled. An abandoned one stays outstanding for the next caller; a message that arrives without a
/// caller is kept for the next one. So callers and pulls are listed separately, and the caller that has waited longest
/// gets the next message of the queue.
///
/// The server queues every pull, even if a message is ready, and each message of a queue goes to the oldest of its
/// pulls. So a pull whose successor on the same connection gets a message was forgotten with its queue, which was deleted
/// and created again; and so is every pull sent before a request that finds no such queue.
#[derive(Debug, Default)]
pub(super) struct Pulls {
    lines: BTreeMap<QueueName, PullQueue>,
    /// Queues with more callers than pulls, by the first caller without one.
    lacking: BTreeMap<u64, QueueName>,
    /// Callers who have joined an abandoned pull, which messages that are ready have not woken: these are to be counted.
    looks: BTreeMap<u64, QueueName>,
    /// When to count again, by queue.
    later_looks: BTreeSet<(Instant, QueueName)>,
    /// Number of abandoned pulls and kept messages.
    pub(super) spare: usize,
    /// Total size of the kept messages.
    pub(super) kept_bytes: usize,
}

#[derive(Debug, Default)]
struct PullQueue {
    callers: InOrder,
    /// The pulls in flight, by their numbers on the connection.
    pulls: InOrder,
    /// Number of pulls for which only the count before them is in flight.
    checks: usize,
    kept: VecDeque<UnclaimedMessage>,
    /// When to count again for its callers.
    look_at: Option<Instant>,
}

impl PullQueue {
    fn outstanding(&self) -> usize {
        self.pulls.len() + self.checks
    }

    fn spare(&self) -> usize {
        self.outstanding().saturating_sub(self.callers.len()) + self.kept.len()
    }

    /// The first caller without a pull.
    fn lacking(&self) -> Option<u64> {
        self.callers.iter().nth(self.outstanding())
    }
}

impl Pulls {
    /// Changes a line, and updates the totals.
    fn change<T>(&mut self, queue: &QueueName, change: impl FnOnce(&mut PullQueue) -> T) -> T {
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
    pub(super) fn take_kept(&mut self, queue: &QueueName) -> Option<UnclaimedMessage> {
        if self.lines.get(queue).is_none_or(|line| line.kept.is_empty()) {
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
        self.lines.get(queue).is_none_or(|line| line.checks == 0 && line.lacking().is_none())
    }

    /// Whether a caller waits for whom there is no pull.
    pub(super) fn is_lacking(&self, queue: &QueueName) -> bool {
        self.lines.get(queue).is_some_and(|line| line.lacking().is_some())
    }

    /// Whether an abandoned pull waits.
    pub(super) fn has_spare(&self, queue: &QueueName) -> bool {
        self.lines.get(queue).is_some_and(|line| line.outstanding() > line.callers.len())
    }

    /// The pull with this number is in flight.
    pub(super) fn sent(&mut self, queue: &QueueName, number: u64) {
        self.change(queue, |line| line.pulls.insert(number));
    }

    /// The count before a pull is in flight, which counts as the pull.
    pub(super) fn checks(&mut self, queue: &QueueName) {
        self.change(queue, |line| line.checks += 1);
    }

    /// The count before a pull was answered.
    pub(super) fn checked(&mut self, queue: &QueueName) {
        self.change(queue, |line| line.checks = line.checks.saturating_sub(1));
    }

    /// The request with this number was answered: if it was a pull, it has ended, and earlier ones may be known to have
    /// been forgotten.
    pub(super) fn answered(
        &mut self,
        queue: &QueueName,
        number: u64,
        outcome: &Result<Success, Refusal>,
    ) {
        if !self.lines.contains_key(queue) {
            return;
        }
        self.change(queue, |line| match outcome {
            Ok(Success::Delivered(_)) | Err(Refusal::QueueNotFound) => {
                line.pulls.remove_up_to(number);
            }
            _ => line.pulls.remove(number),
        });
    }

    /// The caller that has waited longest.
    pub(super) fn first_caller(&self, queue: &QueueName) -> Option<u64> {
        self.lines.get(queue)?.callers.first()
    }

    /// A message has lost its owner. Returns the caller that gets it; without one, it is kept.
    pub(super) fn put(
        &mut self,
        queue: &QueueName,
        kept: UnclaimedMessage,
    ) -> Option<(u64, UnclaimedMessage)> {
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
                self.lines
                    .insert(queue, PullQueue { callers: line.callers, ..PullQueue::default() });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue() -> QueueName {
        "/q".parse().unwrap()
    }

    fn kept(id: &str) -> UnclaimedMessage {
        let delivered =
            Delivered { message_id: 1.into(), duplications: 1, body: id.to_owned().into() };
        UnclaimedMessage { id: id.parse().unwrap(), delivered }
    }

    fn who(served: Option<(u64, UnclaimedMessage)>) -> Option<u64> {
        served.map(|(caller, _)| caller)
    }

    fn delivered() -> Result<Success, Refusal> {
        Ok(Success::Delivered(kept("x").delivered))
    }

    #[test]
    fn the_longest_waiter_gets_the_next_message() {
        let (mut pulls, queue) = (Pulls::default(), queue());
        // The first pull was abandoned by the caller that is now third.
        for (caller, number) in [(2, 1), (3, 2)] {
            pulls.join(&queue, caller);
            assert_eq!(pulls.lacking(), Some((caller, queue.clone())));
            pulls.sent(&queue, number);
            assert_eq!(pulls.lacking(), None);
        }
        pulls.join(&queue, 1);
        for (number, caller) in [(1, 1), (2, 2)] {
            pulls.answered(&queue, number, &delivered());
            assert_eq!(who(pulls.put(&queue, kept("x"))), Some(caller));
        }
        assert_eq!(pulls.lacking(), Some((3, queue)));
    }

    #[test]
    fn an_overtaken_pull_is_resent_for_its_waiter() {
        let (mut pulls, queue) = (Pulls::default(), queue());
        for caller in [1, 2, 3] {
            pulls.join(&queue, caller);
            pulls.sent(&queue, 10 * caller);
        }
        pulls.answered(&queue, 20, &delivered());
        assert_eq!(who(pulls.put(&queue, kept("x"))), Some(1));
        assert_eq!(pulls.lacking(), Some((3, queue.clone())), "the third pull serves the second");
        pulls.leave(&queue, 2);
        assert_eq!((pulls.lacking(), pulls.spare), (None, 0), "nobody needs another one");
        // A message that comes for it nevertheless is not lost.
        pulls.answered(&queue, 10, &delivered());
        assert_eq!(who(pulls.put(&queue, kept("y"))), Some(3));
        assert_eq!(pulls.spare, 1);
    }

    #[test]
    fn pulls_on_a_queue_that_was_missing_later_are_forgotten_and_others_are_not() {
        let (mut pulls, queue) = (Pulls::default(), queue());
        for caller in [1, 2, 3] {
            pulls.join(&queue, caller);
            pulls.sent(&queue, 10 * caller);
        }
        pulls.answered(&queue, 25, &Ok(Success::Counted(1)));
        pulls.answered(&queue, 30, &Err(Refusal::Other("server is full.".into())));
        assert_eq!(pulls.lacking(), Some((3, queue.clone())));
        pulls.sent(&queue, 40);
        pulls.answered(&queue, 35, &Err(Refusal::QueueNotFound));
        assert_eq!(pulls.lacking(), Some((2, queue.clone())), "the last one may wait");
        pulls.answered(&"/other".parse().unwrap(), 50, &Err(Refusal::QueueNotFound));
        assert_eq!(pulls.lacking(), Some((2, queue)));
    }

    #[test]
    fn the_caller_that_has_waited_longest_is_served_first_whatever_its_queue() {
        let mut pulls = Pulls::default();
        let [first, second] = ["/z", "/a"].map(|name| name.parse().unwrap());
        pulls.join(&first, 1);
        pulls.join(&second, 2);
        for expected in [(1, first), (2, second)] {
            assert_eq!(pulls.lacking().as_ref(), Some(&expected));
            pulls.sent(&expected.1, expected.0);
        }
        assert_eq!(pulls.lacking(), None);
    }

    #[test]
    fn only_a_caller_joining_an_abandoned_pull_polls() {
        let (mut pulls, queue) = (Pulls::default(), queue());
        pulls.join_and_look(&queue, 1);
        assert_eq!(pulls.take_look(), None);
        pulls.sent(&queue, 1);
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
        pulls.sent(&queue, 1);
        pulls.leave(&queue, 1);
        assert_eq!((pulls.spare, pulls.lacking()), (1, None));
        pulls.join(&queue, 2);
        assert_eq!((pulls.spare, pulls.lacking()), (0, None));
        pulls.leave(&queue, 2);
        pulls.answered(&queue, 1, &delivered());
        assert_eq!(who(pulls.put(&queue, kept("late"))), None);
        assert_eq!((pulls.spare, pulls.kept_bytes), (1, 4));
        assert_eq!(&*pulls.take_kept(&queue).unwrap().delivered.body, b"late");
        assert_eq!((pulls.spare, pulls.kept_bytes), (0, 0));
        assert!(pulls.take_kept(&queue).is_none() && pulls.lines.is_empty());
    }

    #[test]
    fn in_flight_pulls_end_with_the_connection_but_callers_stay() {
        let (mut pulls, queue) = (Pulls::default(), queue());
        pulls.join(&queue, 1);
        pulls.sent(&queue, 1);
        pulls.sent(&"/other".parse().unwrap(), 2);
        pulls.put(&"/kept".parse().unwrap(), kept("k"));
        assert_eq!(pulls.spare, 2);
        pulls.reset();
        assert_eq!((pulls.spare, pulls.kept_bytes), (0, 0));
        assert_eq!((pulls.lacking(), pulls.lines.len()), (Some((1, queue)), 1));
    }

    #[test]
    fn a_queue_without_waiters_is_not_counted_again() {
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
}
