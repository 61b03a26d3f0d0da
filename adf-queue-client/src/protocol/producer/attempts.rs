//! Which server a push goes to, and what happens when none accepts it.

use std::{mem, sync::Arc, time::Instant};

use bytes::Bytes;
use queue_core::{Limit, Signal, earliest, stable_hash};

use super::{ProducerServers, ServerHealth};
use crate::{
    Deadline, Error, ErrorKind, Fate, MessageId, ProducerEventKind, Push, Refusal, Result,
    protocol::{
        Action,
        client::{Ask, AskAnswer},
    },
};

/// The attempts of a producer to have one message accepted.
#[derive(Debug)]
pub(crate) struct PushAttempts {
    push: Push,
    key: Option<u64>,
    terms: PushTerms,
    /// Whether no step was taken yet.
    is_new: bool,
    /// The servers that have failed since the last wait.
    tried: Vec<usize>,
    /// The next question to this server, whichever would be selected.
    here: Option<(Question, usize)>,
    /// The last question to this server.
    asked: Option<(Question, usize)>,
    /// Whether the queue was created for this message.
    has_created: bool,
    /// Whether a server may have accepted the message, which was sent again.
    may_be_there: bool,
    last_error: Option<Error>,
    /// The last server that the message was meant for.
    pub(crate) server: Option<usize>,
    pub(crate) counts: PushCounts,
}

/// How to treat a push.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PushTerms {
    pub(crate) limit: Limit,
    pub(crate) at_least_once: bool,
    pub(crate) create_queues: bool,
}

/// Counts of one push, to be added to a report.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PushCounts {
    pub(crate) created: u64,
    pub(crate) resent: u64,
    pub(crate) moved: u64,
}

/// The next step of a push.
#[derive(Debug)]
pub(crate) enum PushStep {
    /// Make the [request](PushAttempts::request) to this server, within the limit of the push. Connecting to it first
    /// may have its own limit.
    Ask { server: usize, connecting: Option<Limit> },
    /// Wait until then, or for the signal: all servers are away.
    Wait(Instant, Arc<Signal>),
    /// The outcome is known.
    Done(Result<MessageId>),
}

/// A question to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Question {
    Push,
    CreateQueue,
}

impl PushAttempts {
    pub(crate) fn new(push: Push, key: Option<&[u8]>, terms: PushTerms) -> Self {
        PushAttempts {
            push,
            key: key.map(stable_hash),
            terms,
            is_new: true,
            tried: Vec::new(),
            here: None,
            asked: None,
            has_created: false,
            may_be_there: false,
            last_error: None,
            server: None,
            counts: PushCounts::default(),
        }
    }

    pub(crate) fn limit(&self) -> Limit {
        self.terms.limit
    }

    /// The next step, given the answer if the last one was a question.
    pub(crate) fn next(
        &mut self,
        answer: Option<Result<AskAnswer>>,
        router: &mut ProducerServers,
        now: Instant,
    ) -> PushStep {
        if let (Some((question, server)), Some(answer)) = (self.asked.take(), answer) {
            let over = match question {
                Question::Push => {
                    self.pushed(router, server, answer.and_then(AskAnswer::pushed), now)
                }
                Question::CreateQueue => {
                    self.created(router, server, answer.and_then(AskAnswer::done), now)
                }
            };
            if let Some(outcome) = over {
                return PushStep::Done(outcome);
            }
        }
        if self.terms.limit.has_passed(now) {
            return PushStep::Done(Err(self.reported_error(self.terms.limit.error().into())));
        }
        match self.here.take() {
            Some((question, server)) => self.ask(question, router, server, now),
            None => self.select(router, now),
        }
    }

    /// The request to the server that was last to be asked.
    pub(crate) fn request(&self) -> Ask {
        let plain = |action| Ask::Plain(action, self.push.queue().clone(), Bytes::new());
        match self.asked {
            Some((Question::CreateQueue, _)) => plain(Action::CreateQueue),
            Some((Question::Push, _)) | None => self.push.clone().into_ask(),
        }
    }

    fn ask(
        &mut self,
        question: Question,
        router: &ProducerServers,
        server: usize,
        now: Instant,
    ) -> PushStep {
        self.asked = Some((question, server));
        if question == Question::Push {
            self.server = Some(server);
        }
        PushStep::Ask { server, connecting: self.connecting(router, server, now) }
    }

    /// How long connecting to this server may take: the servers that are left need their shares of the time, and it
    /// does not wait long while there are some. `None` if there are none.
    fn connecting(&self, router: &ProducerServers, server: usize, now: Instant) -> Option<Limit> {
        let left = self.left(router, server, now);
        (left > 0).then(|| self.terms.limit.connecting(left, left, now))
    }

    /// Selects a server, or waits for one.
    fn select(&mut self, router: &mut ProducerServers, now: Instant) -> PushStep {
        let mut chosen = self.choose(router, now);
        if mem::take(&mut self.is_new) && chosen.is_none() {
            router.hurry(now);
            chosen = self.choose(router, now);
        }
        let Some(server) = chosen else {
            self.tried.clear();
            // If no server is away, the next round includes those already tried.
            let at = router.back_at().filter(|at| *at > now).unwrap_or(now);
            let at = earliest([Some(at), self.terms.limit.at]).unwrap_or(at);
            return PushStep::Wait(at, router.back.clone());
        };
        self.counts.moved += u64::from(!self.tried.is_empty());
        if let Some(from) = self.tried.last().copied() {
            router.note(from, ProducerEventKind::Moved);
        }
        self.ask(Question::Push, router, server, now)
    }

    fn choose(&self, router: &mut ProducerServers, now: Instant) -> Option<usize> {
        let ProducerServers { chooser, servers, .. } = router;
        let is_open = |server: usize| self.is_open(servers, server, now);
        let is_well = |server: usize| {
            is_open(server) && servers.get(server).is_some_and(|server| !server.is_doubtful())
        };
        match (0..servers.len()).any(is_well) {
            true => chooser.choose(self.key, is_well),
            false => chooser.choose(self.key, is_open),
        }
    }

    fn is_open(&self, servers: &[ServerHealth], server: usize, now: Instant) -> bool {
        !self.tried.contains(&server) && servers.get(server).is_some_and(|one| !one.is_away(now))
    }

    /// Number of other servers that the push may go to.
    fn left(&self, router: &ProducerServers, server: usize, now: Instant) -> usize {
        let others = (0..router.servers.len()).filter(|other| *other != server);
        others.filter(|other| self.is_open(&router.servers, *other, now)).count()
    }

    /// Handles the outcome of a push to this server; returns the final outcome, if any.
    fn pushed(
        &mut self,
        router: &mut ProducerServers,
        server: usize,
        outcome: Result<MessageId>,
        now: Instant,
    ) -> Option<Result<MessageId>> {
        let error = match outcome {
            Ok(message) => {
                router.answers(server);
                return Some(Ok(message));
            }
            Err(error) => error,
        };
        match (error.kind(), error.fate()) {
            (ErrorKind::Refused(Refusal::QueueNotFound), _)
                if self.terms.create_queues && !self.has_created =>
            {
                router.answers(server);
                self.here = Some((Question::CreateQueue, server));
                None
            }
            (ErrorKind::Refused(_), _) => {
                router.answers(server);
                Some(Err(self.reported_error(error)))
            }
            (kind, Fate::NotSent) if is_of_the_server(kind) => {
                self.passes(router, server, error, now);
                None
            }
            // If its time is over, it is not resent.
            (kind, Fate::Unknown)
                if self.terms.at_least_once && *kind != ErrorKind::Timeout(Deadline::Total) =>
            {
                self.may_be_there = true;
                self.counts.resent += 1;
                router.note(server, ProducerEventKind::Resent);
                self.passes(router, server, error, now);
                None
            }
            _ => {
                self.gives_up(router, server, &error, now);
                Some(Err(self.reported_error(error)))
            }
        }
    }

    /// Handles the outcome of creating the queue on this server; returns the final outcome, if any.
    fn created(
        &mut self,
        router: &mut ProducerServers,
        server: usize,
        outcome: Result<()>,
        now: Instant,
    ) -> Option<Result<MessageId>> {
        match outcome {
            Err(error) if *error.kind() != ErrorKind::Refused(Refusal::QueueExists) => {
                // The push itself was refused.
                if *error.kind() == ErrorKind::Timeout(Deadline::Total) {
                    self.gives_up(router, server, &error, now);
                    return Some(Err(self.reported_error(error.with_fate(Fate::NotSent))));
                }
                if !is_of_the_server(error.kind()) {
                    return Some(Err(self.reported_error(error.with_fate(Fate::Refused))));
                }
                self.passes(router, server, error.with_fate(Fate::NotSent), now);
            }
            outcome => {
                if outcome.is_ok() {
                    self.counts.created += 1;
                    router.note(server, ProducerEventKind::Created(self.push.queue().clone()));
                }
                self.has_created = true;
                self.here = Some((Question::Push, server));
            }
        }
        None
    }

    /// The push ends with this error. If the message was sent and not answered, later ones go to another server, if
    /// there is one.
    fn gives_up(&self, router: &mut ProducerServers, server: usize, error: &Error, now: Instant) {
        if error.fate() == Fate::Unknown && self.left(router, server, now) > 0 {
            router.fails(server, error, now);
        }
    }

    /// Moves on to the next server.
    fn passes(&mut self, router: &mut ProducerServers, server: usize, error: Error, now: Instant) {
        router.fails(server, &error, now);
        self.tried.push(server);
        self.has_created = false;
        self.last_error = Some(error);
    }

    /// The error as reported to the caller.
    fn reported_error(&mut self, error: Error) -> Error {
        let error = error.after(self.last_error.take());
        match self.may_be_there {
            true => error.with_fate(Fate::Unknown),
            false => error,
        }
    }
}

/// Whether another server may do better.
fn is_of_the_server(kind: &ErrorKind) -> bool {
    !matches!(
        kind,
        ErrorKind::InvalidInput | ErrorKind::Unsupported | ErrorKind::Timeout(Deadline::Total)
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{
        ConnectOptions, ProducerOptions, RetryPolicy, Selection, Servers, protocol::Success,
    };

    const SECOND: Duration = Duration::from_secs(1);

    fn router(selection: Selection) -> ProducerServers {
        let servers: Servers = "one,two,three".parse().unwrap();
        ProducerServers::new(&servers.selection(selection))
    }

    fn attempts(limit: Limit, key: Option<&[u8]>, at_least_once: bool) -> PushAttempts {
        let terms = PushTerms { limit, at_least_once, create_queues: true };
        PushAttempts::new(Push::right("/q".try_into().unwrap(), "hello"), key, terms)
    }

    /// A push within 5 seconds.
    fn push(at_least_once: bool, now: Instant) -> PushAttempts {
        attempts(Limit::after(Deadline::Total, Some(5 * SECOND), now), None, at_least_once)
    }

    fn taken() -> Result<AskAnswer> {
        Ok(AskAnswer::Success(Success::Pushed(MessageId::from(1))))
    }

    fn done() -> Result<AskAnswer> {
        Ok(AskAnswer::Success(Success::Done))
    }

    fn lost(fate: Fate) -> Error {
        Error::new(ErrorKind::ConnectionLost, fate, "lost")
    }

    fn failed(fate: Fate) -> Result<AskAnswer> {
        Err(lost(fate))
    }

    fn refused(refusal: Refusal) -> Result<AskAnswer> {
        Err(refusal.into())
    }

    /// The action of the next request, and the server that it goes to.
    #[track_caller]
    fn asks(
        push: &mut PushAttempts,
        answer: Option<Result<AskAnswer>>,
        router: &mut ProducerServers,
        now: Instant,
    ) -> (Action, usize) {
        match push.next(answer, router, now) {
            PushStep::Ask { server, .. } => (push.request().action().unwrap(), server),
            other => panic!("{other:?}"),
        }
    }

    #[track_caller]
    fn error(step: PushStep) -> Error {
        match step {
            PushStep::Done(outcome) => outcome.unwrap_err(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn unsent_pushes_try_the_next_server_until_the_deadline() {
        let (mut router, mut now) = (router(Selection::InOrder), Instant::now());
        let mut push = push(false, now);
        let (end, mut order, mut answer) = (now + 5 * SECOND, Vec::new(), None);
        let error = loop {
            match push.next(answer.take(), &mut router, now) {
                PushStep::Ask { server, .. } => {
                    order.push(server);
                    answer = Some(failed(Fate::NotSent));
                }
                PushStep::Wait(at, _) => {
                    assert!(at <= end);
                    now = at.max(now + SECOND / 1000);
                }
                PushStep::Done(outcome) => break outcome.unwrap_err(),
            }
        };
        assert_eq!(
            (error.kind(), error.fate()),
            (&ErrorKind::Timeout(Deadline::Total), Fate::NotSent)
        );
        assert_eq!(error.to_string(), "not done within the total timeout of 5 s: lost");
        assert_eq!(order[..3], [0, 1, 2]);
        assert!((4..500).contains(&order.len()), "{}", order.len());
        assert_eq!(push.server, order.last().copied());
    }

    #[test]
    fn a_push_timeout_in_a_later_attempt_reports_the_earlier_failure() {
        let (mut router, now) = (router(Selection::RoundRobin), Instant::now());
        let mut push = push(false, now);
        assert_eq!(asks(&mut push, None, &mut router, now), (Action::Rpush, 0));
        assert_eq!(
            asks(&mut push, Some(failed(Fate::NotSent)), &mut router, now),
            (Action::Rpush, 1)
        );
        let late = Err(Error::timed_out(Deadline::Total));
        let error = error(push.next(Some(late), &mut router, now));
        assert_eq!(error.kind(), &ErrorKind::Timeout(Deadline::Total));
        assert!(error.to_string().ends_with(": lost"), "{error}");
    }

    #[test]
    fn pushes_leave_a_server_that_has_not_answered_if_there_is_another() {
        let late = || Error::timed_out(Deadline::Total).with_fate(Fate::Unknown);
        for (failure, again) in [(late(), false), (late(), true), (lost(Fate::Unknown), false)] {
            let (mut router, now) = (router(Selection::InOrder), Instant::now());
            for expected in [0, 1, 2] {
                let mut push = push(again, now);
                assert_eq!(asks(&mut push, None, &mut router, now), (Action::Rpush, expected));
                let failed = error(push.next(Some(Err(failure.share())), &mut router, now));
                assert_eq!(failed.fate(), Fate::Unknown, "{failure}");
            }
            // No other is there.
            assert_eq!(asks(&mut push(again, now), None, &mut router, now), (Action::Rpush, 2));
        }
        let (mut router, now) = (router(Selection::InOrder), Instant::now());
        let mut creates = push(false, now);
        assert_eq!(asks(&mut creates, None, &mut router, now), (Action::Rpush, 0));
        assert_eq!(
            asks(&mut creates, Some(refused(Refusal::QueueNotFound)), &mut router, now),
            (Action::CreateQueue, 0)
        );
        let late = error(creates.next(Some(Err(late())), &mut router, now));
        assert_eq!(late.fate(), Fate::NotSent, "it is on no server");
        assert_eq!(asks(&mut push(false, now), None, &mut router, now), (Action::Rpush, 1));
    }

    #[test]
    fn a_missing_queue_is_created_once_where_the_push_goes() {
        let (mut router, now) = (router(Selection::RoundRobin), Instant::now());
        let mut push = push(false, now);
        let missing = || Some(refused(Refusal::QueueNotFound));
        assert_eq!(asks(&mut push, None, &mut router, now), (Action::Rpush, 0));
        assert_eq!(asks(&mut push, missing(), &mut router, now), (Action::CreateQueue, 0));
        // Another client was faster.
        let exists = refused(Refusal::QueueExists);
        assert_eq!(asks(&mut push, Some(exists), &mut router, now), (Action::Rpush, 0));
        let error = error(push.next(missing(), &mut router, now));
        assert_eq!(*error.kind(), ErrorKind::Refused(Refusal::QueueNotFound));
    }

    #[test]
    fn a_missing_queue_is_created_on_the_next_server_too() {
        let (mut router, now) = (router(Selection::InOrder), Instant::now());
        let (mut push, mut last) = (push(false, now), None);
        for server in [0, 1] {
            assert_eq!(asks(&mut push, last, &mut router, now), (Action::Rpush, server));
            let missing = Some(refused(Refusal::QueueNotFound));
            assert_eq!(asks(&mut push, missing, &mut router, now), (Action::CreateQueue, server));
            assert_eq!(asks(&mut push, Some(done()), &mut router, now), (Action::Rpush, server));
            last = Some(failed(Fate::NotSent));
        }
        assert_eq!(push.counts.created, 2);
    }

    #[test]
    fn a_push_whose_queue_cannot_be_created_tries_the_next_server() {
        for (kind, is_better) in
            [(ErrorKind::ConnectionLost, true), (ErrorKind::Unsupported, false)]
        {
            let (mut router, now) = (router(Selection::InOrder), Instant::now());
            let mut push = push(false, now);
            assert_eq!(asks(&mut push, None, &mut router, now), (Action::Rpush, 0));
            let missing = Some(refused(Refusal::QueueNotFound));
            assert_eq!(asks(&mut push, missing, &mut router, now), (Action::CreateQueue, 0));
            let failed = Err(Error::new(kind, Fate::Unknown, "no"));
            if is_better {
                assert_eq!(asks(&mut push, Some(failed), &mut router, now), (Action::Rpush, 1));
            } else {
                let error = error(push.next(Some(failed), &mut router, now));
                assert_eq!(error.fate(), Fate::Refused);
            }
        }
    }

    #[test]
    fn a_push_that_comes_while_every_server_is_away_has_one_tried_soon_and_the_others_hear_of_it() {
        let retry = RetryPolicy::default().seed(1).backoff(SECOND / 10, 1000 * SECOND);
        let server: ConnectOptions = "one".parse().unwrap();
        let mut router = ProducerServers::new(&server.retry(retry).into());
        let new = || attempts(Limit::never(), None, false);
        let (mut now, mut first, mut answer) = (Instant::now(), new(), None);
        let (at, back) = loop {
            match first.next(answer.take(), &mut router, now) {
                PushStep::Ask { .. } => answer = Some(failed(Fate::NotSent)),
                PushStep::Wait(at, back) if at > now + 60 * SECOND => break (at, back),
                PushStep::Wait(at, _) => now = at,
                PushStep::Done(outcome) => panic!("{outcome:?}"),
            }
        };
        // Many pushes retry no earlier than the shortest delay after the last failure.
        for _ in 0..100 {
            let step = new().next(None, &mut router, now);
            let PushStep::Wait(soon, _) = step else { panic!("at once: {step:?}") };
            assert_eq!(soon, now + SECOND / 10);
        }
        now += SECOND / 10;
        let mut second = new();
        assert_eq!(asks(&mut second, None, &mut router, now), (Action::Rpush, 0));
        router.take_later().run();
        assert!(now < at && !back.is_set());
        let step = second.next(Some(taken()), &mut router, now);
        assert!(matches!(step, PushStep::Done(Ok(_))), "{step:?}");
        router.take_later().run();
        assert!(back.is_set());
        assert_eq!(asks(&mut first, None, &mut router, now), (Action::Rpush, 0));
    }

    #[test]
    fn connecting_leaves_the_servers_that_are_left_their_shares_of_the_time() {
        let (mut router, now) = (router(Selection::InOrder), queue_core::now());
        let within = |time| attempts(Limit::after(Deadline::Total, Some(time), now), None, false);
        let (mut push, other) = (within(SECOND), within(SECOND));
        assert_eq!(push.left(&router, 1, now), 2);
        assert_eq!(asks(&mut push, None, &mut router, now), (Action::Rpush, 0));
        let next = push.next(Some(failed(Fate::NotSent)), &mut router, now);
        let PushStep::Ask { server: 1, connecting: Some(limit), .. } = next else {
            panic!("{next:?}")
        };
        assert_eq!(limit.at, Some(now + SECOND / 2), "half of the time is for the last one");
        assert_eq!([&push, &other].map(|push| push.left(&router, 1, now)), [1, 1], "it is away");
        router.answers(0);
        let left = [&push, &other].map(|push| push.left(&router, 1, now));
        assert_eq!(left, [1, 2], "one of them has tried it");
        router.fails(2, &Error::timed_out(Deadline::Reply), now);
        assert!(push.connecting(&router, 1, now).is_none());
    }

    #[test]
    fn a_failed_server_is_doubtful_until_it_is_reached_if_another_is_well() {
        let lost = || lost(Fate::NotSent);
        let (mut router, mut now) = (router(Selection::InOrder), Instant::now());
        assert!(router.doubtful(now).is_empty());
        router.fails(0, &lost(), now);
        assert_eq!(router.doubtful(now), [(0, false)]);
        now += 60 * SECOND;
        assert_eq!(router.doubtful(now), [(0, true)]);
        assert_eq!(asks(&mut push(false, now), None, &mut router, now), (Action::Rpush, 1));
        router.tried(0, Err(lost()), now);
        assert_eq!(router.doubtful(now), [(0, false)]);
        router.tried(0, Ok(()), now);
        assert!(router.doubtful(now).is_empty());
        for expected in [1, 0] {
            assert_eq!(
                asks(&mut push(false, now), None, &mut router, now),
                (Action::Rpush, expected)
            );
            now += 60 * SECOND;
        }
        (0..3).for_each(|server| router.fails(server, &lost(), now));
        assert!(router.doubtful(now).is_empty(), "pushes try them");
    }

    #[test]
    fn events_of_servers_and_pushes_are_reported_once() {
        let servers: Servers = "one,two".parse().unwrap();
        let options = ProducerOptions::from(servers.selection(Selection::InOrder)).on_event(|_| {});
        let (mut router, mut now) = (ProducerServers::of(&options), Instant::now());
        let events = |router: &mut ProducerServers| {
            let name = |(server, what)| match what {
                ProducerEventKind::Connected => (server, "connected"),
                ProducerEventKind::Disconnected(_) => (server, "disconnected"),
                ProducerEventKind::BackingOff(_) => (server, "backs off"),
                ProducerEventKind::Moved => (server, "moved"),
                ProducerEventKind::Resent => (server, "resent"),
                ProducerEventKind::Created(_) => (server, "created"),
            };
            router.take_events().into_iter().map(name).collect::<Vec<_>>()
        };
        let mut push = push(true, now);
        assert_eq!(asks(&mut push, None, &mut router, now), (Action::Rpush, 0));
        assert_eq!((events(&mut router), push.counts.moved), (vec![], 0));
        assert_eq!(
            asks(&mut push, Some(failed(Fate::Unknown)), &mut router, now),
            (Action::Rpush, 1)
        );
        let lost = [(0, "resent"), (0, "disconnected"), (0, "backs off"), (0, "moved")];
        assert_eq!((events(&mut router), push.counts.moved), (lost.to_vec(), 1));
        let missing = || Some(refused(Refusal::QueueNotFound));
        assert_eq!(asks(&mut push, missing(), &mut router, now), (Action::CreateQueue, 1));
        assert_eq!(events(&mut router), [(1, "connected")]);
        assert_eq!(asks(&mut push, Some(done()), &mut router, now), (Action::Rpush, 1));
        assert_eq!(events(&mut router), [(1, "created")]);
        let back = router.back.clone();
        assert!(matches!(push.next(Some(taken()), &mut router, now), PushStep::Done(Ok(_))));
        assert_eq!(events(&mut router), []);
        router.take_later().run();
        assert!(!back.is_set(), "it was not away");
        let message = || Ok(MessageId::from(1));
        let failed = |kind| Err(Error::new(kind, Fate::NotSent, "again"));
        let refused = || Err(Refusal::Other("no".into()).into());
        for (outcome, expected) in [
            (failed(ErrorKind::ConnectionLost), vec![(0, "backs off")]),
            (failed(ErrorKind::Connect), vec![(0, "disconnected"), (0, "backs off")]),
            (refused(), vec![(0, "connected")]),
            (message(), vec![]),
            (failed(ErrorKind::Connect), vec![(0, "disconnected"), (0, "backs off")]),
            (message(), vec![(0, "connected")]),
        ] {
            now += 60 * SECOND;
            let _ = push.pushed(&mut router, 0, outcome, now);
            assert_eq!(events(&mut router), expected);
            router.take_later().run();
        }
        assert!(back.is_set());
    }
}
