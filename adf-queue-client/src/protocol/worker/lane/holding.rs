//! The fate of the messages that a lane holds.

use std::{mem, task::Poll, time::Instant};

use bytes::Bytes;
use queue_core::Limit;

use super::{HandlerMessage, Lane, LaneEvent, LanePhase};
use crate::{
    Deadline, Delivery, Error, ErrorKind, Fate, JobFate, LostReason, Outcome, Refusal, Result,
    WorkerEventKind,
    protocol::{
        Action,
        client::{Ask, AskAnswer},
        worker::{
            held::{HeldKey, HeldMessage, HeldStage},
            line::ServedQueue,
        },
    },
};

/// Maximum number of messages given to handlers before the connection is checked.
const MAX_STARTED: usize = 64;

impl Lane {
    /// Handles a new message.
    pub(super) fn hold(&mut self, delivery: Delivery, now: Instant) {
        let (queue, message) = (delivery.queue().clone(), delivery.message_id());
        let duplications = delivery.duplications();
        let deferred = self.deferrals.of(&(queue.clone(), message));
        let attempts = attempts(duplications, deferred);
        let mut held = HeldMessage {
            queue: queue.clone(),
            id: *delivery.request_id(),
            message,
            attempts,
            epoch: delivery.epoch(),
            body: Bytes::new(),
            reason: None,
            stage: HeldStage::Copying,
        };
        if self.terms.dead_letter.is_some() {
            held.body = delivery.body().clone();
        }
        if attempts <= self.terms.max_duplications {
            self.line(&queue, ServedQueue::note_work);
            held.stage = HeldStage::Waiting(delivery);
            let key = self.hold.add(held);
            self.hold.waiting.push_back(key);
            return;
        }
        self.claimed.give_back();
        self.line(&queue, |line| line.note_poison(now));
        held.reason = Some(format!("it was delivered {duplications} times"));
        self.notify(WorkerEventKind::Poisoned { queue, message, duplications });
        let key = self.hold.add(held);
        self.set_aside(key, now);
    }

    /// Gives messages to free handlers. A handler that finishes at once makes room for the next message, so that many
    /// are settled in one write; but the connection is checked after a limited number.
    pub(super) fn start_waiting(&mut self) {
        self.hold.started = 0;
        self.start_next();
    }

    fn start_next(&mut self) {
        while self.phase == LanePhase::Working
            && self.hold.started < MAX_STARTED
            && self.hold.running.len() < self.terms.slots
            && let Some(key) = self.hold.next(&self.terms.slots_for)
        {
            if !self.claimed.take() {
                return self.hold.waiting.push_front(key);
            }
            if let Some(held) = self.hold.messages.get_mut(&key)
                && let HeldStage::Waiting(delivery) =
                    mem::replace(&mut held.stage, HeldStage::Running)
            {
                self.hold.running.push(key);
                self.hold.started += 1;
                let attempts = held.attempts;
                self.jobs.push(HandlerMessage { key, delivery, attempts });
            }
        }
    }

    /// The handler of a message gives this reason for its outcome, which follows.
    pub(crate) fn note_reason(&mut self, key: HeldKey, reason: String) {
        if self.terms.dead_letter.is_some()
            && let Some(held) = self.hold.messages.get_mut(&key)
        {
            held.reason = Some(queue_core::shorten(reason.into()).into_owned());
        }
    }

    /// A handler has ended with this outcome.
    pub(crate) fn finish(&mut self, key: HeldKey, outcome: Outcome, now: Instant) {
        let Some(held) = self.hold.messages.get(&key) else { return };
        let is_last_time = held.attempts >= self.terms.max_duplications;
        match held.stage {
            HeldStage::Running => {
                self.hold.stopped(key);
                self.decided(key, outcome, is_last_time, now);
            }
            HeldStage::Lost => {
                self.hold.stopped(key);
                self.hold.messages.remove(&key);
            }
            HeldStage::Waiting(_) | HeldStage::Copying | HeldStage::Settling(_) => return,
        }
        self.start_next();
    }

    fn decided(&mut self, key: HeldKey, outcome: Outcome, is_last_time: bool, now: Instant) {
        match outcome {
            Outcome::Delete => self.settle(key, JobFate::Deleted, now),
            Outcome::ReturnLeft => self.settle(key, JobFate::ReturnedLeft, now),
            Outcome::ReturnRight => self.settle(key, JobFate::ReturnedRight, now),
            Outcome::Defer => {
                if let Some(held) = self.hold.messages.get(&key) {
                    self.deferrals.add(&(held.queue.clone(), held.message));
                }
                self.settle(key, JobFate::ReturnedRight, now);
            }
            Outcome::DeadLetter => self.set_aside(key, now),
            Outcome::Retry if is_last_time => self.set_aside(key, now),
            Outcome::Retry => self.settle(key, JobFate::ReturnedRight, now),
        }
    }

    /// Copies a message to the dead-letter queue, or returns it if there is none.
    fn set_aside(&mut self, key: HeldKey, now: Instant) {
        let Some(queue) = self.terms.dead_letter.clone() else {
            return self.settle(key, JobFate::ReturnedRight, now);
        };
        let Some(held) = self.hold.messages.get_mut(&key) else { return };
        held.stage = HeldStage::Copying;
        let copy = Ask::Plain(Action::Rpush, queue, held.body.clone());
        match self.begin(copy, None, now) {
            Ok(task) => self.hold.asked.push_back((task, key)),
            Err(error) => self.not_copied(key, error, now),
        }
    }

    /// The dead-letter queue did not accept a message, so it stays.
    fn not_copied(&mut self, key: HeldKey, error: Error, now: Instant) {
        let Some(held) = self.hold.messages.get(&key) else { return };
        let (source, queue) = (held.queue.clone(), self.terms.dead_letter.clone());
        let pause = self.line(&source, |line| line.back_off(now)).unwrap_or_default();
        self.notify(WorkerEventKind::Refused { queue: queue.unwrap_or(source), error, pause });
        self.settle(key, JobFate::ReturnedRight, now);
    }

    /// Settles a message on the server.
    fn settle(&mut self, key: HeldKey, fate: JobFate, now: Instant) {
        let action = match fate {
            JobFate::ReturnedLeft => Action::Lcancel,
            JobFate::ReturnedRight => Action::Rcancel,
            _ => Action::Delete,
        };
        let Some(held) = self.hold.messages.get_mut(&key) else { return };
        let ask = Ask::Settle(action, held.queue.clone(), held.id, held.epoch);
        let message = held.message;
        held.stage = HeldStage::Settling(fate);
        match self.begin(ask, Some(message), now) {
            Ok(task) => self.hold.asked.push_back((task, key)),
            // The connection that pulled it is gone.
            Err(_) => self.ended(key, JobFate::Lost(LostReason::ConnectionLost)),
        }
    }

    /// Waits for answers about messages no longer than until then.
    pub(super) fn limit_settlements(&mut self, at: Instant) {
        let limit = Limit::until(Deadline::Total, Some(at));
        for (task, _) in &self.hold.asked {
            self.is_changed |= self.link.limit_more(*task, limit);
        }
    }

    /// Handles the answers about messages, which arrive in order.
    pub(super) fn take_ends(&mut self, now: Instant) {
        while let Some((task, key)) = self.hold.asked.front().copied()
            && let Poll::Ready(outcome) = self.poll(task)
        {
            self.hold.asked.pop_front();
            self.answered(key, outcome, now);
        }
    }

    fn answered(&mut self, key: HeldKey, outcome: Result<AskAnswer>, now: Instant) {
        let Some(held) = self.hold.messages.get(&key) else { return };
        let (queue, fate) = match held.stage {
            HeldStage::Settling(fate) => (held.queue.clone(), fate),
            _ => {
                return match outcome {
                    Ok(_) => self.settle(key, JobFate::DeadLettered, now),
                    Err(error) if matches!(error.kind(), ErrorKind::Refused(_)) => {
                        self.not_copied(key, error, now);
                    }
                    Err(error) => self.ended(key, JobFate::Lost(why_lost(&error))),
                };
            }
        };
        match outcome {
            Ok(_) => {
                if matches!(fate, JobFate::ReturnedLeft | JobFate::ReturnedRight) {
                    self.line(&queue, ServedQueue::was_returned);
                }
                self.ended(key, fate);
            }
            Err(error) => self.ended(key, unsettled(&error)),
        }
    }

    /// Reports the fate of a message.
    fn ended(&mut self, key: HeldKey, fate: JobFate) {
        if let Some(held) = self.hold.messages.remove(&key) {
            let HeldMessage { queue, message, reason, attempts, .. } = held;
            if matches!(fate, JobFate::Deleted | JobFate::DeadLettered) {
                self.deferrals.forget(&(queue.clone(), message));
            }
            if fate == JobFate::DeadLettered {
                self.notify(WorkerEventKind::DeadLettered {
                    queue: queue.clone(),
                    message,
                    reason: reason.unwrap_or_else(|| "its handler decided so".to_owned()),
                    attempts: attempts.into(),
                });
            }
            self.notify(WorkerEventKind::Settled { queue, message, fate });
        }
    }

    /// The server has taken back the unsettled messages.
    pub(super) fn lose_held(&mut self, now: Instant) {
        for (task, key) in mem::take(&mut self.hold.asked) {
            match self.poll(task) {
                Poll::Ready(outcome) => self.answered(key, outcome, now),
                // A copy must not be made over the next connection: the message belongs to another client by then.
                Poll::Pending => self.leave(task),
            }
        }
        self.drop_waiting(JobFate::Lost(LostReason::ConnectionLost));
        for key in self.hold.settling() {
            self.ended(key, JobFate::Lost(LostReason::ConnectionLost));
        }
        self.lose_running(LostReason::ConnectionLost);
    }

    /// Gives up messages that were not handed to a handler, unless they have used up some of a limit.
    pub(super) fn take_back_untaken(&mut self) {
        if self.claimed.is_limited() {
            return;
        }
        for HandlerMessage { key, delivery, .. } in mem::take(&mut self.jobs).into_iter().rev() {
            if let Some(held) = self.hold.messages.get_mut(&key) {
                held.stage = HeldStage::Waiting(delivery);
                self.hold.stopped(key);
                self.hold.waiting.push_front(key);
            }
        }
    }

    /// Leaves messages without a running handler to the server.
    pub(super) fn drop_waiting(&mut self, fate: JobFate) {
        for key in mem::take(&mut self.hold.waiting) {
            self.claimed.give_back();
            self.ended(key, fate);
        }
    }

    /// Marks messages with running handlers as lost.
    pub(super) fn lose_running(&mut self, reason: LostReason) {
        for key in self.hold.own_running().collect::<Vec<_>>() {
            let Some(held) = self.hold.messages.get_mut(&key) else { continue };
            held.stage = HeldStage::Lost;
            let (queue, message) = (held.queue.clone(), held.message);
            self.news.push(LaneEvent::Lost(key, reason));
            let fate = JobFate::Lost(reason);
            self.notify(WorkerEventKind::Settled { queue, message, fate });
        }
    }

    /// Whether handlers have messages that are not lost.
    pub(super) fn has_running(&self) -> bool {
        self.hold.own_running().next().is_some()
    }
}

/// The number of deliveries that were attempts, of those that the server counts modulo 65,536.
fn attempts(duplications: u16, deferred: u64) -> u16 {
    match deferred {
        0 => duplications,
        _ => u64::from(duplications).saturating_sub(deferred).max(1) as u16,
    }
}

/// The fate of a message whose settlement was not acknowledged.
fn unsettled(error: &Error) -> JobFate {
    match (error.kind(), error.fate()) {
        (ErrorKind::Refused(Refusal::NotPulled), _) => JobFate::Lost(LostReason::NotPulled),
        (ErrorKind::Refused(Refusal::QueueNotFound), _) => JobFate::Lost(LostReason::QueueDeleted),
        (_, Fate::NotSent) => JobFate::Lost(why_lost(error)),
        _ => JobFate::Unknown,
    }
}

/// Why a message goes back to its queue that was not settled.
fn why_lost(error: &Error) -> LostReason {
    match error.kind() {
        // The only requests with a limit are those of a stopping lane.
        ErrorKind::Timeout(Deadline::Total) => LostReason::Stopped,
        _ => LostReason::ConnectionLost,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_settlement_states_the_fate_of_the_message() {
        let lost = |fate| Error::new(ErrorKind::ConnectionLost, fate, "lost");
        let late = |fate| Error::timed_out(Deadline::Total).with_fate(fate);
        let cases = [
            (Refusal::NotPulled.into(), JobFate::Lost(LostReason::NotPulled)),
            (Refusal::QueueNotFound.into(), JobFate::Lost(LostReason::QueueDeleted)),
            (Refusal::Other("no".into()).into(), JobFate::Unknown),
            (lost(Fate::NotSent), JobFate::Lost(LostReason::ConnectionLost)),
            (lost(Fate::Unknown), JobFate::Unknown),
            (late(Fate::NotSent), JobFate::Lost(LostReason::Stopped)),
            (late(Fate::Unknown), JobFate::Unknown),
        ];
        for (error, expected) in cases {
            assert_eq!(unsettled(&error), expected, "{error}");
        }
    }

    #[test]
    fn deferrals_are_not_attempts() {
        assert_eq!([attempts(5, 0), attempts(5, 2), attempts(1, 2)], [5, 3, 1]);
        assert_eq!(attempts(u16::MAX, u64::MAX), 1);
    }
}
