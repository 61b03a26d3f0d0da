//! A pull over HTTP, which may take several requests.

use std::time::{Duration, Instant};

use super::{
    AskAnswer,
    exchange::{HttpRequest, Reply, unasked},
    pulls::LOOK_EVERY,
    step::{ClientStep, RequestSettings},
};
use queue_core::Limit;

use crate::{
    Deadline, Delivery, Error, ErrorKind, Result,
    protocol::{Encoding, Request, Success},
};

/// A pull, from the first request to the message.
///
/// A JSON pull on a missing queue crashes the server, so the queue is counted first; only another client that deletes it
/// before the pull arrives can still crash the server. And since the server cannot cancel
/// a pull, one with a deadline repeats the count until there is a message. Another client may be faster; then the pull
/// waits on the server, and the next one gets its message.
///
/// Returned messages have not woken an abandoned pull, so the queue is counted before anybody waits for one. It is
/// counted again now and then: if the queue was deleted, the server never answers that pull.
#[derive(Debug)]
pub(crate) struct Pulling {
    pull: Request,
    terms: RequestSettings,
    patience: PullWait,
    total: Limit,
    doing: PullStage,
    /// How long to wait before the next count.
    delay: Duration,
    /// Whether an abandoned pull waits, and there were no ready messages.
    joins: bool,
    /// Whether the time for a message limits connecting, too.
    connects_in_time: bool,
    /// Whether the caller gets the server's answer instead of a delivery.
    is_raw: bool,
}

/// How long to wait for a message.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PullWait {
    /// Without limit, by the caller's own pull or by an abandoned one.
    Endless,
    /// Without limit, by this pull only.
    ByItself,
    /// Until then.
    Until(Instant),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum PullStage {
    Nothing,
    Adopting,
    Counting,
    Waiting,
    Pulling,
}

/// Initial interval between two counts, which doubles.
const FIRST: Duration = Duration::from_millis(50);
const MOST: Duration = Duration::from_secs(1);
/// How long connecting may take at least, however short the time for a message is.
const CONNECTING: Duration = Duration::from_secs(1);

impl Pulling {
    pub(crate) fn new(
        pull: Request,
        terms: RequestSettings,
        patience: PullWait,
        total: Limit,
    ) -> Self {
        Pulling {
            pull,
            terms,
            patience,
            total,
            doing: PullStage::Nothing,
            delay: FIRST,
            joins: false,
            connects_in_time: false,
            is_raw: false,
        }
    }

    /// The same, for a caller who waits no longer for a connection than for a message.
    pub(crate) fn connecting_in_time(self) -> Self {
        Pulling { connects_in_time: true, ..self }
    }

    /// The same, for a caller who gets the server's answer instead of a delivery.
    pub(crate) fn raw(self) -> Self {
        Pulling { is_raw: true, ..self }
    }

    /// The next step. `last` is the outcome of the previous one; `None` if it was a wait, or if there was nothing to
    /// adopt.
    pub(crate) fn next(&mut self, last: Option<Result<Reply>>, now: Instant) -> ClientStep {
        match (self.doing, last) {
            (PullStage::Nothing, _) => match self.patience {
                PullWait::ByItself => self.begin(now),
                PullWait::Endless | PullWait::Until(_) => self.adopt(now),
            },
            (PullStage::Waiting, _) => match self.patience {
                PullWait::Until(at) if at <= now => ClientStep::Over(Ok(AskAnswer::Nothing)),
                _ => self.adopt(now),
            },
            (PullStage::Adopting, None) => {
                self.joins = false;
                self.begin(now)
            }
            (PullStage::Counting, Some(Ok(Reply::Success(_, Success::Counted(count))))) => {
                self.counted(count, now)
            }
            (
                PullStage::Adopting | PullStage::Pulling,
                Some(Ok(Reply::Success(pull, Success::Delivered(message)))),
            ) => ClientStep::Over(Ok(match self.is_raw {
                true => AskAnswer::Success(Success::Delivered(message)),
                false => {
                    let (queue, id) = (pull.queue().clone(), *pull.id());
                    AskAnswer::Delivery(Delivery::new(queue, id, message, None))
                }
            })),
            (PullStage::Adopting, Some(Err(error))) if self.is_bound(&error, now) => {
                self.joins = true;
                self.count(now)
            }
            (PullStage::Pulling, Some(Err(error))) if self.is_bound(&error, now) => {
                ClientStep::Over(Ok(AskAnswer::Nothing))
            }
            // Its own caller has not seen this failure, and the current one has not asked yet.
            (PullStage::Adopting, Some(Err(error))) if !self.is_late(&error) => self.adopt(now),
            (_, Some(Err(error))) => ClientStep::Over(Err(error)),
            (_, Some(Ok(_)) | None) => ClientStep::Over(Err(unasked())),
        }
    }

    fn adopt(&mut self, now: Instant) -> ClientStep {
        self.doing = PullStage::Adopting;
        let again = match self.patience {
            // The server wakes it for what comes from now on, unless it is dead.
            PullWait::Endless if self.joins => queue_core::after(now, LOOK_EVERY),
            _ => self.next_count(now),
        };
        let limit = self.total.sooner(Limit::until(Deadline::Total, Some(again)));
        ClientStep::Adopt(self.pull.queue().clone(), limit)
    }

    fn begin(&mut self, now: Instant) -> ClientStep {
        if self.terms.encoding == Encoding::Json || matches!(self.patience, PullWait::Until(_)) {
            return self.count(now);
        }
        self.pull(now)
    }

    fn count(&mut self, now: Instant) -> ClientStep {
        self.doing = PullStage::Counting;
        let count = Request::count(*self.pull.id(), self.pull.queue().clone());
        match (self.ask(count, self.total), self.patience) {
            (ClientStep::Ask(ask, limit), PullWait::Until(at)) if self.connects_in_time => {
                let by = at.max(queue_core::after(now, CONNECTING));
                ClientStep::Ask(ask.connected_by(by), limit)
            }
            (step, _) => step,
        }
    }

    fn counted(&mut self, count: u32, now: Instant) -> ClientStep {
        match self.patience {
            PullWait::Until(at) if count == 0 && at <= now => {
                ClientStep::Over(Ok(AskAnswer::Nothing))
            }
            PullWait::Until(_) if count == 0 => {
                let step = if self.joins { self.adopt(now) } else { self.wait(now) };
                self.delay = (2 * self.delay).min(MOST);
                step
            }
            PullWait::Endless if count == 0 && self.joins => self.adopt(now),
            _ => self.pull(now),
        }
    }

    fn wait(&mut self, now: Instant) -> ClientStep {
        self.doing = PullStage::Waiting;
        ClientStep::Wait(self.next_count(now))
    }

    fn next_count(&self, now: Instant) -> Instant {
        let again = queue_core::after(now, self.delay);
        match self.patience {
            PullWait::Until(at) => again.min(at),
            PullWait::Endless | PullWait::ByItself => again,
        }
    }

    fn pull(&mut self, now: Instant) -> ClientStep {
        self.doing = PullStage::Pulling;
        self.ask(self.pull.clone(), self.limit(now))
    }

    fn ask(&self, request: Request, limit: Limit) -> ClientStep {
        match HttpRequest::action(self.terms.encoding, request, &self.terms.host) {
            Ok(ask) => ClientStep::Ask(ask, limit),
            Err(error) => ClientStep::Over(Err(error)),
        }
    }

    /// The limit of a pull. There was a message a moment ago, so one with a deadline gets at least the time of an
    /// answer.
    fn limit(&self, now: Instant) -> Limit {
        let PullWait::Until(at) = self.patience else { return self.total };
        let at = at.max(queue_core::after(now, self.terms.reply_timeout));
        self.total.sooner(Limit::until(Deadline::Total, Some(at)))
    }

    fn is_late(&self, error: &Error) -> bool {
        error.kind() == &ErrorKind::Timeout(Deadline::Total)
    }

    /// Whether its own limit ended a step, rather than the time of the call.
    fn is_bound(&self, error: &Error, now: Instant) -> bool {
        self.is_late(error) && self.total.at.is_none_or(|at| at > now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Fate, protocol::Action};

    const SECOND: Duration = Duration::from_secs(1);
    const REPLY: Duration = Duration::from_secs(10);

    fn request(action: fn(crate::RequestId, crate::QueueName) -> Request) -> Request {
        action("h1".parse().unwrap(), "/q".parse().unwrap())
    }

    fn pulling(encoding: Encoding, patience: PullWait, total: Limit) -> Pulling {
        let terms = RequestSettings { encoding, host: "server:1".into(), reply_timeout: REPLY };
        Pulling::new(request(Request::pull), terms, patience, total)
    }

    fn counted(count: u32) -> Option<Result<Reply>> {
        Some(Ok(Reply::Success(request(Request::count), Success::Counted(count))))
    }

    fn delivered() -> Option<Result<Reply>> {
        let body = "hi".into();
        let message = crate::protocol::Delivered { message_id: 1.into(), duplications: 1, body };
        Some(Ok(Reply::Success(request(Request::pull), Success::Delivered(message))))
    }

    fn late() -> Option<Result<Reply>> {
        Some(Err(Error::timed_out(Deadline::Total)))
    }

    /// The request and its limit.
    fn asked(step: ClientStep) -> (Action, Option<Instant>) {
        match step {
            ClientStep::Ask(ask, limit) if ask.pull().is_some() => (Action::Pull, limit.at),
            ClientStep::Ask(_, limit) => (Action::Count, limit.at),
            other => panic!("{other:?}"),
        }
    }

    fn outcome(step: ClientStep) -> Result<Option<Delivery>> {
        match step {
            ClientStep::Over(outcome) => outcome.and_then(AskAnswer::delivery),
            other => panic!("{other:?}"),
        }
    }

    /// Row 2.
    #[test]
    fn a_pull_with_a_deadline_is_not_sent_while_there_is_no_message() {
        for encoding in [Encoding::Binary, Encoding::Json] {
            let start = queue_core::now();
            let mut now = start;
            let until = PullWait::Until(start + 10 * SECOND);
            let mut pull = pulling(encoding, until, Limit::never());
            let (mut waits, mut last) = (Vec::new(), None);
            let end = loop {
                match pull.next(last.take(), now) {
                    ClientStep::Adopt(..) => {
                        assert!(now < start + 10 * SECOND, "its patience is over");
                    }
                    ClientStep::Ask(ask, _) if ask.pull().is_none() => last = counted(0),
                    ClientStep::Wait(at) => {
                        waits.push(at - now);
                        now = at;
                    }
                    ClientStep::Over(outcome) => break outcome,
                    other => panic!("{other:?}"),
                }
            };
            assert!(matches!(end, Ok(AskAnswer::Nothing)) && now == start + 10 * SECOND);
            assert_eq!(waits[..3], [SECOND / 20, SECOND / 10, SECOND / 5]);
            assert!(waits.iter().all(|wait| *wait <= SECOND) && waits.len() < 20, "{waits:?}");
        }
    }

    #[test]
    fn a_pull_that_follows_a_count_has_the_time_of_an_answer() {
        let now = queue_core::now();
        for (patience, expected) in [(SECOND, REPLY), (60 * SECOND, 60 * SECOND)] {
            let patience = PullWait::Until(now + patience);
            let mut pull = pulling(Encoding::Binary, patience, Limit::never());
            pull.next(None, now);
            pull.next(None, now);
            assert_eq!(asked(pull.next(counted(1), now)), (Action::Pull, Some(now + expected)));
            assert!(outcome(pull.next(late(), now + expected)).unwrap().is_none());
        }
    }

    fn adopts_until(step: ClientStep) -> Option<Instant> {
        match step {
            ClientStep::Adopt(_, limit) => limit.at,
            other => panic!("{other:?}"),
        }
    }

    /// A message that another client returned, or one of a queue that was made again.
    #[test]
    fn counts_before_waiting_for_an_abandoned_pull() {
        let start = queue_core::now();
        for patience in [PullWait::Endless, PullWait::Until(start + 10 * SECOND)] {
            let mut pull = pulling(Encoding::Binary, patience, Limit::never());
            let mut now = adopts_until(pull.next(None, start)).unwrap();
            assert!(now <= start + SECOND / 10, "it looks soon");
            assert_eq!(asked(pull.next(late(), now)).0, Action::Count);
            let again = adopts_until(pull.next(counted(0), now)).unwrap();
            // One without a limit waits for what comes from now on, and looks again in case that never wakes the pull.
            assert_eq!(again == now + LOOK_EVERY, matches!(patience, PullWait::Endless));
            now = again;
            assert_eq!(asked(pull.next(late(), now)).0, Action::Count);
            assert_eq!(asked(pull.next(counted(1), now)).0, Action::Pull);
            assert!(outcome(pull.next(delivered(), now)).unwrap().is_some());
        }
        // Without patience, too.
        let mut pull = pulling(Encoding::Binary, PullWait::Until(start), Limit::never());
        assert_eq!(adopts_until(pull.next(None, start)), Some(start));
        assert_eq!(asked(pull.next(late(), start)).0, Action::Count);
        assert!(outcome(pull.next(counted(0), start)).unwrap().is_none());
    }

    #[test]
    fn the_end_of_the_call_is_an_error_but_the_end_of_its_wait_is_not() {
        let now = queue_core::now();
        let total = Limit::until(Deadline::Total, Some(now + SECOND));
        for patience in [PullWait::Endless, PullWait::Until(now + 2 * SECOND)] {
            let mut pull = pulling(Encoding::Binary, patience, total);
            pull.next(None, now);
            let error = outcome(pull.next(late(), now + SECOND)).unwrap_err();
            assert_eq!(error.kind(), &ErrorKind::Timeout(Deadline::Total));
        }
        let mut pull = pulling(Encoding::Binary, PullWait::Until(now + SECOND / 2), total);
        pull.next(None, now);
        assert_eq!(asked(pull.next(late(), now + SECOND / 2)).0, Action::Count);
        assert!(outcome(pull.next(counted(0), now + SECOND / 2)).unwrap().is_none());
    }

    #[test]
    fn a_failed_pull_fails_its_caller() {
        let now = queue_core::now();
        let patience = PullWait::Until(now + SECOND);
        let mut pull = pulling(Encoding::Binary, patience, Limit::never());
        pull.next(None, now);
        pull.next(None, now);
        assert_eq!(asked(pull.next(counted(1), now)).0, Action::Pull);
        let lost = Error::new(ErrorKind::ConnectionLost, Fate::Unknown, "lost");
        let error = outcome(pull.next(Some(Err(lost)), now)).unwrap_err();
        assert_eq!(error.kind(), &ErrorKind::ConnectionLost);
    }

    #[test]
    fn a_pull_without_end_waits_for_an_abandoned_one_only_if_there_is_one_and_nothing_is_ready() {
        let now = queue_core::now();
        for (is_there, ready, joins) in [(false, 0, false), (true, 1, false), (true, 0, true)] {
            let mut pull = pulling(Encoding::Json, PullWait::Endless, Limit::never());
            pull.next(None, now);
            let adopted = if is_there { late() } else { None };
            assert_eq!(asked(pull.next(adopted, now)).0, Action::Count);
            match pull.next(counted(ready), now) {
                ClientStep::Adopt(_, limit) => assert!(joins && limit.at == Some(now + LOOK_EVERY)),
                step => assert!(!joins && asked(step).0 == Action::Pull),
            }
        }
    }
}
