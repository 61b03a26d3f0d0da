//! Which server a push goes to, and what happens when none accepts it.

use std::{mem, sync::Arc, time::Instant};

use queue_core::{Chooser, Health, Later, Limit, SLOW, Signal, earliest, stable_hash};

use super::room::{Room, Rooms};
use crate::{
    Deadline, Error, ErrorKind, Fate, MessageId, ProducerEventKind, ProducerOptions, QueueName,
    Refusal, Result, RetryPolicy, Servers,
};

/// The servers of a producer.
#[derive(Debug)]
pub(crate) struct Router {
    chooser: Chooser,
    /// Failed servers are skipped for a while.
    servers: Vec<Health>,
    /// Signals that a failed server has answered, or that a queue may have room.
    back: Arc<Signal>,
    /// Fill levels of the queues, if they are limited.
    rooms: Option<Rooms>,
    /// What was reported about each server: whether it has answered, and the last failure since then.
    told: Vec<Told>,
    /// Events by server that were not reported yet, if there is an observer. They are reported after each step.
    events: Option<Vec<(usize, ProducerEventKind)>>,
    /// Wakes pushes after each step.
    later: Later,
}

#[derive(Debug, Default)]
struct Told {
    answers: bool,
    failure: Option<ErrorKind>,
    /// Whether it could be reached since its last failure.
    is_reached: bool,
}

impl Router {
    pub(crate) fn of(options: &ProducerOptions) -> Self {
        let rooms = options.max_ready.map(|limit| Rooms::new(limit, options.depth_interval));
        let events = options.observer.is_some().then(Vec::new);
        Router { rooms, events, ..Self::new(&options.servers) }
    }

    pub(crate) fn new(servers: &Servers) -> Self {
        let hash = |address: &crate::Address| stable_hash(address.to_string().as_bytes());
        // Each producer draws its own sequence, unless a server's seed makes it repeatable.
        let retry = servers.options().first().map_or_else(RetryPolicy::default, |one| one.retry);
        let seed = retry.random().next_u64();
        let hashes = servers.addresses().map(hash).collect();
        Router {
            chooser: Chooser::new(servers.selected(), hashes, seed),
            servers: servers
                .options()
                .iter()
                .map(|server| Health::new(server.retry, None))
                .collect(),
            back: Arc::default(),
            rooms: None,
            told: servers.options().iter().map(|_| Told::default()).collect(),
            events: None,
            later: Later::default(),
        }
    }

    /// The servers that have failed and not answered since, if another one is well, and whether they may be tried again:
    /// behind the backs of callers, who use the other one.
    pub(crate) fn doubtful(&self, now: Instant) -> Vec<(usize, bool)> {
        let servers = 0..self.servers.len();
        if servers.clone().all(|server| self.is_doubtful(server)) {
            return Vec::new();
        }
        let doubtful = servers.filter(|server| self.is_doubtful(*server));
        doubtful.map(|server| (server, !self.is_away(server, now))).collect()
    }

    /// Handles the outcome of such an attempt to connect.
    pub(crate) fn tried(&mut self, server: usize, outcome: Result<()>, now: Instant) {
        match outcome {
            // Whether it takes pushes is not known yet.
            Ok(()) => self.told.get_mut(server).into_iter().for_each(|told| told.is_reached = true),
            Err(error) => self.fails(server, &error, now),
        }
    }

    fn is_doubtful(&self, server: usize) -> bool {
        let is_reached = self.told.get(server).is_some_and(|told| told.is_reached);
        !is_reached && self.servers.get(server).is_some_and(|health| health.failures() > 0)
    }

    fn note(&mut self, server: usize, what: ProducerEventKind) {
        if let Some(events) = &mut self.events {
            events.push((server, what));
        }
    }

    /// Takes what has to be done once no lock is held.
    pub(crate) fn take_later(&mut self) -> Later {
        mem::take(&mut self.later)
    }

    /// Takes the events to report outside of any lock.
    pub(crate) fn take_events(&mut self) -> Vec<(usize, ProducerEventKind)> {
        self.events.as_mut().map(std::mem::take).unwrap_or_default()
    }

    fn is_away(&self, server: usize, now: Instant) -> bool {
        self.servers.get(server).is_some_and(|health| health.quarantine(now).is_some())
    }

    /// A server could not be reached, or was lost. For many pushes at once that is one failure.
    fn fails(&mut self, server: usize, error: &Error, now: Instant) {
        if self.is_away(server, now) {
            return;
        }
        let Some(health) = self.servers.get_mut(server) else { return };
        health.failed(now);
        let pause = health.not_before().map(|at| at.saturating_duration_since(now));
        if let Some(told) = self.told.get_mut(server) {
            (told.answers, told.is_reached) = (false, false);
            if told.failure.as_ref() != Some(error.kind()) {
                told.failure = Some(error.kind().clone());
                self.note(server, ProducerEventKind::Disconnected(error.share()));
            }
        }
        if let Some(pause) = pause {
            self.note(server, ProducerEventKind::BackingOff(pause));
        }
    }

    /// A server has answered.
    fn answers(&mut self, server: usize) {
        if let Some(told) = self.told.get_mut(server)
            && !std::mem::replace(&mut told.answers, true)
        {
            told.failure = None;
            self.note(server, ProducerEventKind::Connected);
        }
        let Some(health) = self.servers.get_mut(server) else { return };
        if health.failures() > 0 {
            health.proven();
            self.is_back();
        }
    }

    /// Pushes that wait for a server try again.
    fn is_back(&mut self) {
        self.later.set(mem::take(&mut self.back));
    }

    /// A push has arrived while every server is away.
    fn hurry(&mut self, now: Instant) {
        self.servers.iter_mut().for_each(|health| health.hurry(now));
    }

    /// When the first of the failed servers may be retried.
    fn back_at(&self) -> Option<Instant> {
        self.servers.iter().filter_map(Health::not_before).min()
    }
}

/// The way of one push through the servers.
#[derive(Debug)]
pub(crate) struct Course {
    key: Option<u64>,
    /// The queue, if the number of its messages is limited.
    limited: Option<QueueName>,
    /// The number of ready messages when there was no room for this push.
    found_full: Option<u64>,
    limit: Limit,
    terms: Terms,
    /// Whether no step was taken yet.
    is_new: bool,
    /// The servers that have failed it since its last wait.
    tried: Vec<usize>,
    /// What to do at this server, whichever would be selected.
    here: Option<Step>,
    /// Whether the queue was created for it.
    has_created: bool,
    /// Whether a server may have accepted it, and it was resent.
    may_be_there: bool,
    last_error: Option<Error>,
    pub(crate) counts: Counts,
}

/// How to treat a push.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    pub(crate) at_least_once: bool,
    pub(crate) create_queues: bool,
}

/// Counts of one push, to be added to a report.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) created: u64,
    pub(crate) resent: u64,
    pub(crate) moved: u64,
}

#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// Push it to this server.
    Push(usize),
    /// Create its queue on this server.
    Create(usize),
    /// Count the ready messages of its queue on this server.
    Count(usize),
    /// Wait until then, or for a server to answer: all servers are away.
    Wait(Instant, Arc<Signal>),
}

impl Course {
    /// A push with this key, to be finished within this limit.
    pub(crate) fn new(key: Option<&[u8]>, limit: Limit, terms: Terms) -> Self {
        Course {
            key: key.map(stable_hash),
            limited: None,
            found_full: None,
            limit,
            terms,
            is_new: true,
            tried: Vec::new(),
            here: None,
            has_created: false,
            may_be_there: false,
            last_error: None,
            counts: Counts::default(),
        }
    }

    /// The same for this queue, which may be full.
    pub(crate) fn to(mut self, queue: &QueueName, router: &Router) -> Self {
        self.limited = router.rooms.as_ref().map(|_| queue.clone());
        self
    }

    /// # Errors
    ///
    /// The error once its time has expired: why no server has accepted it.
    pub(crate) fn next(&mut self, router: &mut Router, now: Instant) -> Result<Step> {
        if self.limit.has_passed(now) {
            return Err(self.over(router));
        }
        if let Some(step) = self.here.take() {
            return Ok(step);
        }
        let mut chosen = self.choose(router, now);
        if mem::take(&mut self.is_new) && chosen.is_none() {
            router.hurry(now);
            chosen = self.choose(router, now);
        }
        if let Some(server) = chosen {
            if let Some(step) = self.look_for_room(router, server, now) {
                return Ok(step);
            }
            self.counts.moved += u64::from(!self.tried.is_empty());
            if let Some(from) = self.tried.last().copied() {
                router.note(from, ProducerEventKind::Moved);
            }
            return Ok(Step::Push(server));
        }
        self.tried.clear();
        // If no server is away, the next round includes those already tried.
        let at = router.back_at().filter(|at| *at > now).unwrap_or(now);
        let at = earliest([Some(at), self.limit.at]).unwrap_or(at);
        Ok(Step::Wait(at, router.back.clone()))
    }

    /// The step before a push to its queue on this server, if one is needed.
    fn look_for_room(&mut self, router: &mut Router, server: usize, now: Instant) -> Option<Step> {
        let (Some(queue), Some(rooms)) = (&self.limited, &mut router.rooms) else { return None };
        match rooms.room(server, queue, now) {
            Room::Free => {
                self.found_full = None;
                None
            }
            Room::Ask => Some(Step::Count(server)),
            Room::Full { until, ready } => {
                self.found_full = ready.or(self.found_full);
                let at = earliest([Some(until), self.limit.at]).unwrap_or(until);
                Some(Step::Wait(at, router.back.clone()))
            }
        }
    }

    /// Handles the number of ready messages; returns the final outcome, if any.
    pub(crate) fn counted(
        &mut self,
        router: &mut Router,
        server: usize,
        outcome: Result<u32>,
        now: Instant,
    ) -> Option<Result<MessageId>> {
        let ready = match &outcome {
            Ok(ready) => Some(u64::from(*ready)),
            // The push itself will report it.
            Err(error) if matches!(error.kind(), ErrorKind::Refused(_)) => Some(0),
            Err(_) => None,
        };
        if let (Some(queue), Some(rooms)) = (&self.limited, &mut router.rooms) {
            rooms.answered(server, queue, ready);
        }
        match outcome {
            Err(error) if ready.is_none() => {
                if *error.kind() == ErrorKind::Timeout(Deadline::Total) {
                    self.gives_up(router, server, &error, now);
                    if self.found_full.is_some() {
                        return Some(Err(self.over(router)));
                    }
                }
                let error = error.with_fate(Fate::NotSent);
                if !is_of_the_server(error.kind()) {
                    return Some(Err(self.told(error)));
                }
                self.passes(router, server, error, now);
            }
            _ => {
                router.answers(server);
                router.is_back();
            }
        }
        None
    }

    /// How long connecting to this server may take within the limit of the push: the servers that are left need their
    /// shares of the time, and it does not wait long while there are some. `None` if there are none.
    pub(crate) fn connecting(
        &self,
        router: &Router,
        server: usize,
        total: Limit,
        now: Instant,
    ) -> Option<Limit> {
        let left = self.left(router, server, now);
        let share = || total.share(left + 1, now).named(Deadline::Connect);
        (left > 0).then(|| share().step(Deadline::Connect, Some(SLOW), now))
    }

    /// Number of other servers that the push may go to.
    fn left(&self, router: &Router, server: usize, now: Instant) -> usize {
        let is_left = |other: &usize| {
            *other != server && !self.tried.contains(other) && !router.is_away(*other, now)
        };
        (0..router.servers.len()).filter(is_left).count()
    }

    fn choose(&self, router: &mut Router, now: Instant) -> Option<usize> {
        let is_free = |server| !self.tried.contains(&server) && !router.is_away(server, now);
        let mut open: Vec<bool> = (0..router.servers.len()).map(is_free).collect();
        let is_well = |(server, is_free): (usize, &bool)| *is_free && !router.is_doubtful(server);
        let well: Vec<bool> = open.iter().enumerate().map(is_well).collect();
        if well.contains(&true) {
            open = well;
        }
        router.chooser.choose(self.key, |server| open.get(server).copied().unwrap_or_default())
    }

    /// Handles the outcome of a push to this server; returns the final outcome, if any.
    pub(crate) fn pushed(
        &mut self,
        router: &mut Router,
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
                self.here = Some(Step::Create(server));
                None
            }
            (ErrorKind::Refused(_), _) => {
                router.answers(server);
                Some(Err(self.told(error)))
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
                Some(Err(self.told(error)))
            }
        }
    }

    /// Handles the outcome of creating the queue on this server; returns the final outcome, if any.
    pub(crate) fn created(
        &mut self,
        router: &mut Router,
        server: usize,
        outcome: Result<()>,
        now: Instant,
    ) -> Option<Result<MessageId>> {
        match outcome {
            Err(error) if *error.kind() != ErrorKind::Refused(Refusal::QueueExists) => {
                // The push itself was refused.
                if *error.kind() == ErrorKind::Timeout(Deadline::Total) {
                    self.gives_up(router, server, &error, now);
                    return Some(Err(self.told(error.with_fate(Fate::NotSent))));
                }
                if !is_of_the_server(error.kind()) {
                    return Some(Err(self.told(error.with_fate(Fate::Refused))));
                }
                self.passes(router, server, error.with_fate(Fate::NotSent), now);
            }
            outcome => {
                self.counts.created += u64::from(outcome.is_ok());
                self.has_created = true;
                self.here = Some(Step::Push(server));
            }
        }
        None
    }

    /// It ends with this error. If it was sent and not answered, later pushes go to another server, if there is one.
    fn gives_up(&self, router: &mut Router, server: usize, error: &Error, now: Instant) {
        if error.fate() == Fate::Unknown && self.left(router, server, now) > 0 {
            router.fails(server, error, now);
        }
    }

    /// Moves on to the next server.
    fn passes(&mut self, router: &mut Router, server: usize, error: Error, now: Instant) {
        router.fails(server, &error, now);
        self.found_full = None;
        self.tried.push(server);
        self.has_created = false;
        self.last_error = Some(error);
    }

    /// Its time has expired.
    fn over(&mut self, router: &Router) -> Error {
        if let (Some(ready), Some(queue), Some(rooms)) =
            (self.found_full, &self.limited, &router.rooms)
        {
            let limit = rooms.limit();
            let message = format!(
                "the queue {queue} is full: {ready} messages are ready or in flight, and the limit is {limit} (more consumers, or a larger max_ready)"
            );
            return self.told(Error::new(ErrorKind::QueueFull, Fate::NotSent, message));
        }
        self.told(self.limit.error().into())
    }

    /// The error as reported to the caller.
    fn told(&mut self, error: Error) -> Error {
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
    use crate::Selection;

    const SECOND: Duration = Duration::from_secs(1);

    fn router(selection: Selection) -> Router {
        let servers: Servers = "one,two,three".parse().unwrap();
        Router::new(&servers.selection(selection))
    }

    fn course(at_least_once: bool, now: Instant) -> Course {
        let terms = Terms { at_least_once, create_queues: true };
        Course::new(None, Limit::after(Deadline::Total, Some(5 * SECOND), now), terms)
    }

    fn failed(fate: Fate) -> Result<MessageId> {
        Err(Error::new(ErrorKind::ConnectionLost, fate, "lost"))
    }

    #[test]
    fn random_selection_differs_between_producers_unless_they_have_a_seed() {
        let drawn = |retry: RetryPolicy| {
            let servers: Servers = "one,two".parse().unwrap();
            let servers = servers.selection(Selection::Random).each(|server| server.retry(retry));
            let mut router = Router::new(&servers);
            let chosen = (0..64).filter_map(|_| router.chooser.choose(None, |_| true));
            chosen.collect::<Vec<_>>()
        };
        let seeded = RetryPolicy::default().seed(7);
        assert_eq!(drawn(seeded), drawn(seeded));
        assert_ne!(drawn(seeded), drawn(seeded.seed(8)));
        assert_ne!(drawn(RetryPolicy::default()), drawn(RetryPolicy::default()));
    }

    #[test]
    fn what_was_not_sent_goes_to_the_next_server_until_its_time_is_over() {
        let (mut router, mut now) = (router(Selection::InOrder), Instant::now());
        let mut course = course(false, now);
        let (end, mut order) = (now + 5 * SECOND, Vec::new());
        let error = loop {
            match course.next(&mut router, now) {
                Ok(Step::Push(server)) => {
                    order.push(server);
                    assert!(
                        course.pushed(&mut router, server, failed(Fate::NotSent), now).is_none()
                    );
                }
                Ok(Step::Wait(at, _)) => {
                    assert!(at <= end);
                    now = at.max(now + SECOND / 1000);
                }
                Ok(step) => panic!("nobody said that the queue is missing: {step:?}"),
                Err(error) => break error,
            }
        };
        assert_eq!(
            (error.kind(), error.fate()),
            (&ErrorKind::Timeout(Deadline::Total), Fate::NotSent)
        );
        assert_eq!(error.to_string(), "not done within the total timeout of 5 s: lost");
        assert_eq!(order[..3], [0, 1, 2]);
        assert!((4..500).contains(&order.len()), "{}", order.len());
    }

    #[test]
    fn a_push_whose_time_ends_in_a_later_attempt_tells_why_the_earlier_one_failed() {
        let (mut router, now) = (router(Selection::RoundRobin), Instant::now());
        let mut push = course(false, now);
        assert!(matches!(push.next(&mut router, now), Ok(Step::Push(0))));
        assert!(push.pushed(&mut router, 0, failed(Fate::NotSent), now).is_none());
        let late = Err(Error::timed_out(Deadline::Total));
        let error = push.pushed(&mut router, 1, late, now).unwrap().unwrap_err();
        assert_eq!(error.kind(), &ErrorKind::Timeout(Deadline::Total));
        assert!(error.to_string().ends_with(": lost"), "{error}");
    }

    #[test]
    fn a_push_of_unknown_fate_is_its_callers_unless_it_may_come_twice() {
        let (mut router, now) = (router(Selection::RoundRobin), Instant::now());
        let mut once = course(false, now);
        assert!(matches!(once.next(&mut router, now), Ok(Step::Push(0))));
        let error = once.pushed(&mut router, 0, failed(Fate::Unknown), now).unwrap().unwrap_err();
        assert_eq!(error.fate(), Fate::Unknown);
        let mut twice = course(true, now);
        assert!(matches!(twice.next(&mut router, now), Ok(Step::Push(1))));
        assert!(twice.pushed(&mut router, 1, failed(Fate::Unknown), now).is_none());
        assert!(matches!(twice.next(&mut router, now).unwrap(), Step::Push(_)));
        // Whatever the second one returns, the first may be there.
        let refused = Err(Refusal::Other("no".into()).into());
        let error = twice.pushed(&mut router, 2, refused, now).unwrap().unwrap_err();
        assert_eq!((error.fate(), twice.counts.resent), (Fate::Unknown, 1));
    }

    #[test]
    fn pushes_leave_a_server_that_has_not_answered_if_there_is_another() {
        let late = || Error::timed_out(Deadline::Total).with_fate(Fate::Unknown);
        let lost = || failed(Fate::Unknown).unwrap_err();
        for (error, again) in [(late(), false), (late(), true), (lost(), false)] {
            let (mut router, now) = (router(Selection::InOrder), Instant::now());
            for expected in [0, 1, 2] {
                let mut push = course(again, now);
                let next = push.next(&mut router, now);
                assert!(matches!(next, Ok(Step::Push(to)) if to == expected), "{error}: {next:?}");
                let told = push.pushed(&mut router, expected, Err(error.share()), now);
                assert_eq!(told.unwrap().unwrap_err().fate(), Fate::Unknown);
            }
            let next = course(again, now).next(&mut router, now);
            assert!(matches!(next, Ok(Step::Push(2))), "no other is there: {next:?}");
        }
        let (mut router, now) = (router(Selection::InOrder), Instant::now());
        let mut push = course(false, now);
        assert!(push.pushed(&mut router, 0, Err(Refusal::QueueNotFound.into()), now).is_none());
        let late = push.created(&mut router, 0, Err(late()), now).unwrap().unwrap_err();
        assert_eq!(late.fate(), Fate::NotSent, "it is on no server");
        assert!(matches!(course(false, now).next(&mut router, now), Ok(Step::Push(1))));
    }

    #[test]
    fn a_missing_queue_is_created_once_where_the_push_goes() {
        let (mut router, now) = (router(Selection::RoundRobin), Instant::now());
        let mut course = course(false, now);
        let missing = || Err(Refusal::QueueNotFound.into());
        assert!(matches!(course.next(&mut router, now), Ok(Step::Push(0))));
        assert!(course.pushed(&mut router, 0, missing(), now).is_none());
        assert!(matches!(course.next(&mut router, now), Ok(Step::Create(0))));
        // Another client was faster.
        let exists = Err(Refusal::QueueExists.into());
        assert!(course.created(&mut router, 0, exists, now).is_none());
        assert!(matches!(course.next(&mut router, now), Ok(Step::Push(0))));
        let error = course.pushed(&mut router, 0, missing(), now).unwrap().unwrap_err();
        assert_eq!(*error.kind(), ErrorKind::Refused(Refusal::QueueNotFound));
    }

    #[test]
    fn a_missing_queue_is_created_on_the_next_server_too() {
        let (mut router, now) = (router(Selection::InOrder), Instant::now());
        let mut course = course(false, now);
        for server in [0, 1] {
            assert!(matches!(course.next(&mut router, now), Ok(Step::Push(to)) if to == server));
            let missing = Err(Refusal::QueueNotFound.into());
            assert!(course.pushed(&mut router, server, missing, now).is_none());
            assert!(matches!(course.next(&mut router, now), Ok(Step::Create(at)) if at == server));
            assert!(course.created(&mut router, server, Ok(()), now).is_none());
            assert!(matches!(course.next(&mut router, now), Ok(Step::Push(to)) if to == server));
            assert!(course.pushed(&mut router, server, failed(Fate::NotSent), now).is_none());
        }
        assert_eq!(course.counts.created, 2);
    }

    #[test]
    fn a_push_whose_queue_cannot_be_created_goes_to_the_next_server_unless_that_is_no_better() {
        for (kind, is_better) in
            [(ErrorKind::ConnectionLost, true), (ErrorKind::Unsupported, false)]
        {
            let (mut router, now) = (router(Selection::InOrder), Instant::now());
            let mut course = course(false, now);
            let missing = Err(Refusal::QueueNotFound.into());
            assert!(course.pushed(&mut router, 0, missing, now).is_none());
            assert!(matches!(course.next(&mut router, now), Ok(Step::Create(0))));
            let failed = Err(Error::new(kind, Fate::Unknown, "no"));
            let outcome = course.created(&mut router, 0, failed, now);
            match is_better {
                true => assert!(matches!(course.next(&mut router, now), Ok(Step::Push(1)))),
                false => assert_eq!(outcome.unwrap().unwrap_err().fate(), Fate::Refused),
            }
        }
    }

    #[test]
    fn a_push_to_a_full_queue_waits_for_room_and_fails_when_its_time_is_over() {
        let (options, mut now) = ("one".parse::<ProducerOptions>().unwrap(), Instant::now());
        let options = options.max_ready(2).depth_interval(SECOND);
        let (mut router, queue) = (Router::of(&options), QueueName::try_from("/q").unwrap());
        let new = |router: &Router, now| course(false, now).to(&queue, router);
        let mut first = new(&router, now);
        assert!(matches!(first.next(&mut router, now), Ok(Step::Count(0))));
        let mut other = new(&router, now);
        let Ok(Step::Wait(_, back)) = other.next(&mut router, now) else { panic!("nobody knows") };
        assert!(first.counted(&mut router, 0, Ok(1), now).is_none());
        router.take_later().run();
        assert!(back.is_set());
        assert!(matches!(first.next(&mut router, now), Ok(Step::Push(0))));
        let Ok(Step::Wait(at, _)) = other.next(&mut router, now) else { panic!("it is full") };
        assert_eq!(at, now + SECOND);
        now += SECOND;
        assert!(matches!(other.next(&mut router, now), Ok(Step::Count(0))));
        assert!(other.counted(&mut router, 0, Ok(2), now).is_none());
        assert!(matches!(other.next(&mut router, now), Ok(Step::Wait(..))));
        let full = (&ErrorKind::QueueFull, Fate::NotSent);
        let error = other.next(&mut router, now + 5 * SECOND).unwrap_err();
        assert!(error.to_string().contains("the limit is 2 "), "{error}");
        assert_eq!((error.kind(), error.fate()), full);
        // Its time may also end while it asks once more.
        assert!(matches!(other.next(&mut router, now + SECOND), Ok(Step::Count(0))));
        let late = Err(Error::timed_out(Deadline::Total));
        let error = other.counted(&mut router, 0, late, now).unwrap().unwrap_err();
        assert_eq!((error.kind(), error.fate()), full);
        // A missing queue is left to the push to report.
        now += 2 * SECOND;
        let mut last = new(&router, now);
        assert!(matches!(last.next(&mut router, now), Ok(Step::Count(0))));
        let missing = Err(Refusal::QueueNotFound.into());
        assert!(last.counted(&mut router, 0, missing, now).is_none());
        assert!(matches!(last.next(&mut router, now), Ok(Step::Push(0))));
    }

    #[test]
    fn a_push_that_waits_for_room_waits_on_when_its_server_is_lost() {
        let (options, mut now) = ("one".parse::<ProducerOptions>().unwrap(), Instant::now());
        let options = options.max_ready(2).depth_interval(SECOND);
        let (mut router, queue) = (Router::of(&options), QueueName::try_from("/q").unwrap());
        let mut push = course(false, now).to(&queue, &router);
        assert!(matches!(push.next(&mut router, now), Ok(Step::Count(0))));
        assert!(push.counted(&mut router, 0, Ok(2), now).is_none());
        assert!(matches!(push.next(&mut router, now), Ok(Step::Wait(..))));
        now += SECOND;
        assert!(matches!(push.next(&mut router, now), Ok(Step::Count(0))));
        let lost = Err(Error::new(ErrorKind::ConnectionLost, Fate::Unknown, "lost"));
        assert!(push.counted(&mut router, 0, lost, now).is_none());
        assert!(router.is_away(0, now));
        assert!(matches!(push.next(&mut router, now), Ok(Step::Wait(..))));
        let late = push.next(&mut router, now + 5 * SECOND).unwrap_err();
        assert_eq!(late.kind(), &ErrorKind::Timeout(Deadline::Total), "nobody knows if it is full");
    }

    #[test]
    fn equal_keys_go_to_one_server_and_elsewhere_only_while_it_is_away() {
        let (mut router, now) = (router(Selection::ByKey), Instant::now());
        let push = |router: &mut Router, key: &str| {
            let terms = Terms { at_least_once: false, create_queues: false };
            let mut course = Course::new(Some(key.as_bytes()), Limit::never(), terms);
            match course.next(router, now).unwrap() {
                Step::Push(server) => server,
                other => panic!("{other:?}"),
            }
        };
        let homes: Vec<usize> = (0..60).map(|key| push(&mut router, &key.to_string())).collect();
        assert!((0..3).all(|server| homes.contains(&server)));
        while !router.is_away(1, now) {
            router.fails(1, &Error::timed_out(Deadline::Reply), now);
        }
        for (key, home) in homes.iter().enumerate() {
            let server = push(&mut router, &key.to_string());
            assert_eq!(server == *home, *home != 1, "key {key}");
        }
    }

    #[test]
    fn a_push_that_comes_while_every_server_is_away_has_one_tried_soon_and_the_others_hear_of_it() {
        let retry = RetryPolicy::default().seed(1).backoff(SECOND / 10, 1000 * SECOND);
        let server: crate::ConnectOptions = "one".parse().unwrap();
        let mut router = Router::new(&server.retry(retry).into());
        let terms = Terms { at_least_once: false, create_queues: false };
        let new = || Course::new(None, Limit::never(), terms);
        let (mut now, mut first) = (Instant::now(), new());
        let (at, back) = loop {
            match first.next(&mut router, now).unwrap() {
                Step::Push(server) => {
                    assert!(
                        first.pushed(&mut router, server, failed(Fate::NotSent), now).is_none()
                    );
                }
                Step::Wait(at, back) if at > now + 60 * SECOND => break (at, back),
                Step::Wait(at, _) => now = at,
                step => panic!("nobody said that the queue is missing: {step:?}"),
            }
        };
        // Many pushes retry no earlier than the shortest delay after the last failure.
        for _ in 0..100 {
            let Ok(Step::Wait(soon, _)) = new().next(&mut router, now) else { panic!("at once") };
            assert_eq!(soon, now + SECOND / 10);
        }
        now += SECOND / 10;
        let mut second = new();
        assert!(matches!(second.next(&mut router, now), Ok(Step::Push(0))));
        router.take_later().run();
        assert!(now < at && !back.is_set());
        let pushed = second.pushed(&mut router, 0, Ok(MessageId::from(1)), now);
        assert!(matches!(pushed, Some(Ok(_))));
        router.take_later().run();
        assert!(back.is_set());
        assert!(matches!(first.next(&mut router, now), Ok(Step::Push(0))));
    }

    #[test]
    fn connecting_leaves_the_servers_that_are_left_their_shares_of_the_time() {
        let (mut router, now) = (router(Selection::InOrder), queue_core::now());
        let (mut push, other) = (course(false, now), course(false, now));
        assert_eq!(push.left(&router, 1, now), 2);
        assert!(push.pushed(&mut router, 0, failed(Fate::NotSent), now).is_none());
        assert_eq!([&push, &other].map(|push| push.left(&router, 1, now)), [1, 1], "it is away");
        router.answers(0);
        let left = [&push, &other].map(|push| push.left(&router, 1, now));
        assert_eq!(left, [1, 2], "one of them has tried it");
        let total = |time| Limit::until(Deadline::Total, Some(now + time));
        let connecting = |router: &Router, time| push.connecting(router, 1, total(time), now);
        let limit = connecting(&router, 60 * SECOND).unwrap();
        assert_eq!(Error::from(limit.error()).kind(), &ErrorKind::Timeout(Deadline::Connect));
        assert!(limit.remaining(now).unwrap() <= SLOW, "not long while another one is there");
        let share = connecting(&router, SECOND).unwrap();
        assert!(share.at < Some(now + SECOND) && share.at >= Some(now + SECOND / 2));
        router.fails(2, &Error::timed_out(Deadline::Reply), now);
        assert!(connecting(&router, SECOND).is_none());
    }

    #[test]
    fn a_failed_server_is_doubtful_until_it_is_reached_if_another_is_well() {
        let lost = || Error::new(ErrorKind::ConnectionLost, Fate::NotSent, "lost");
        let (mut router, mut now) = (router(Selection::InOrder), Instant::now());
        assert!(router.doubtful(now).is_empty());
        router.fails(0, &lost(), now);
        assert_eq!(router.doubtful(now), [(0, false)]);
        now += 60 * SECOND;
        assert_eq!(router.doubtful(now), [(0, true)]);
        let mut push = course(false, now);
        assert!(matches!(push.next(&mut router, now), Ok(Step::Push(1))));
        router.tried(0, Err(lost()), now);
        assert_eq!(router.doubtful(now), [(0, false)]);
        router.tried(0, Ok(()), now);
        assert!(router.doubtful(now).is_empty());
        for expected in [1, 0] {
            let mut push = course(false, now);
            let next = push.next(&mut router, now);
            assert!(matches!(next, Ok(Step::Push(server)) if server == expected), "{next:?}");
            now += 60 * SECOND;
        }
        (0..3).for_each(|server| router.fails(server, &lost(), now));
        assert!(router.doubtful(now).is_empty(), "pushes try them");
    }

    #[test]
    fn what_happens_to_servers_and_pushes_is_told_once() {
        let servers: Servers = "one,two".parse().unwrap();
        let options = ProducerOptions::new(servers.selection(Selection::InOrder)).on_event(|_| {});
        let (mut router, mut now) = (Router::of(&options), Instant::now());
        let told = |router: &mut Router| {
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
        let message = || Ok(MessageId::from(1));
        let mut push = course(true, now);
        assert!(matches!(push.next(&mut router, now), Ok(Step::Push(0))));
        assert_eq!((told(&mut router), push.counts.moved), (vec![], 0));
        assert!(push.pushed(&mut router, 0, failed(Fate::Unknown), now).is_none());
        let lost = [(0, "resent"), (0, "disconnected"), (0, "backs off")];
        assert_eq!(told(&mut router), lost);
        assert!(matches!(push.next(&mut router, now), Ok(Step::Push(1))));
        assert_eq!((told(&mut router), push.counts.moved), (vec![(0, "moved")], 1));
        let back = router.back.clone();
        for expected in [vec![(1, "connected")], vec![]] {
            assert!(push.pushed(&mut router, 1, message(), now).is_some());
            assert_eq!(told(&mut router), expected);
        }
        router.take_later().run();
        assert!(!back.is_set(), "it was not away");
        for (kind, expected) in [
            (ErrorKind::ConnectionLost, vec![(0, "backs off")]),
            (ErrorKind::Connect, vec![(0, "disconnected"), (0, "backs off")]),
        ] {
            now += 60 * SECOND;
            let failed = Err(Error::new(kind, Fate::NotSent, "again"));
            assert!(push.pushed(&mut router, 0, failed, now).is_none());
            assert_eq!(told(&mut router), expected);
        }
        let refused = Err(Refusal::Other("no".into()).into());
        assert!(push.pushed(&mut router, 0, refused, now).is_some());
        assert_eq!(told(&mut router), [(0, "connected")]);
        router.take_later().run();
        assert!(back.is_set());
        let refused = Err(Error::new(ErrorKind::Connect, Fate::NotSent, "refused"));
        assert!(push.pushed(&mut router, 0, refused, now).is_none());
        assert_eq!(told(&mut router), lost[1..]);
        let missing = Err(Refusal::QueueNotFound.into());
        assert!(push.pushed(&mut router, 0, missing, now).is_none());
        assert_eq!(told(&mut router), [(0, "connected")]);
    }
}
