//! Which server a request goes to, and whether it may go to another after a failure.

use std::{
    cmp::Reverse,
    time::{Duration, Instant},
};

use queue_core::{Limit, Measures, affinity, stable_hash};

use super::ring::HashRing;
use crate::{
    Address, ClientEventKind, ConnectOptions, Deadline, Error, ErrorKind, Fate, Result, Selection,
    Servers, protocol::Request,
};

/// The attempts of one call: rounds over the servers in order of preference, until one answers.
#[derive(Debug)]
pub(crate) struct RouteAttempts {
    order: ServerOrder,
    position: usize,
    /// The servers of this round that are tried last.
    doubtful: Vec<usize>,
    /// Remaining extra rounds.
    rounds: u32,
    /// Whether no step was taken yet.
    is_new: bool,
    idempotent: bool,
    /// No attempt starts after this.
    patience: Limit,
    /// Whether the caller asks other servers if this one takes long to connect.
    has_others: bool,
    /// The server to try once more before any other.
    again: Option<usize>,
    has_repeated: bool,
    /// Whether some attempt may have been carried out, whatever happened to later ones.
    may_have_acted: bool,
    last: Option<Error>,
    /// Where the last attempt has failed, and whether it may have been carried out.
    failed: Option<(usize, bool)>,
}

#[derive(Debug)]
pub(crate) enum RouteStep {
    /// Try this server.
    Try(usize),
    /// Wait, because no server may be tried yet.
    Wait(Duration),
    /// Give up: no attempt is left.
    GiveUp(Error),
}

/// The limits of an attempt.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Time {
    /// For connecting.
    pub(crate) connecting: Limit,
    /// For the call as a whole.
    pub(crate) total: Limit,
}

/// The event to report for a request that is retried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RetryEvent {
    is_moved: bool,
    is_resent: bool,
}

impl RetryEvent {
    pub(crate) fn notify(self, server: &ConnectOptions) {
        if self.is_resent {
            server.notify(ClientEventKind::Resent);
        }
        if self.is_moved {
            server.notify(ClientEventKind::Moved);
        }
    }
}

impl RouteAttempts {
    pub(crate) fn new(order: ServerOrder, rounds: u32, idempotent: bool) -> Self {
        RouteAttempts {
            order,
            position: 0,
            doubtful: Vec::new(),
            rounds,
            is_new: true,
            idempotent,
            patience: Limit::never(),
            has_others: false,
            again: None,
            has_repeated: false,
            may_have_acted: false,
            last: None,
            failed: None,
        }
    }

    /// Attempts for a query to one server. A query is harmless, so it may be repeated, but only within the time of one
    /// answer: a caller with a deadline does not want to wait several times as long.
    pub(crate) fn question(question: Question, reply_timeout: Duration, now: Instant) -> Self {
        let Question { server, rounds, has_others, .. } = question;
        let patience = Limit::after(Deadline::Reply, Some(reply_timeout), now);
        RouteAttempts { patience, has_others, ..Self::new(ServerOrder::only(server), rounds, true) }
    }

    /// The limits of an attempt at the server of the last step. The servers after it need their shares of the time, and
    /// one that takes long to connect is tried last.
    pub(crate) fn time(&self, total: Limit, now: Instant) -> Time {
        let untried = self.untried();
        let others = untried + self.doubtful.len();
        let untried = untried.max(usize::from(self.has_others));
        let connecting = total.connecting(untried, others, now);
        Time { connecting, total }
    }

    /// Number of servers of this round that were not looked at.
    fn untried(&self) -> usize {
        self.order.len().saturating_sub(self.position)
    }

    /// Whether this is a new call while every server is away. It does not wait for the delays of earlier ones: its
    /// servers are hurried.
    pub(crate) fn wants_haste(&mut self, is_away: impl Fn(usize) -> bool) -> bool {
        std::mem::take(&mut self.is_new) && self.order.iter().all(is_away)
    }

    /// The next step. `quarantine` returns how long a server must not be tried yet, and `is_doubtful` whether others
    /// should be tried before it.
    pub(crate) fn step(
        &mut self,
        quarantine: impl Fn(usize) -> Option<Duration>,
        is_doubtful: impl Fn(usize) -> bool,
        total: Limit,
        now: Instant,
    ) -> RouteStep {
        if self.last.is_some() && total.has_passed(now) {
            return self.give_up();
        }
        if let Some(index) = self.again.take() {
            return RouteStep::Try(index);
        }
        // A caller that may never wait tries the server even so.
        let only_chance = self.rounds == 0
            && self.last.is_none()
            && self.order.iter().all(|index| quarantine(index).is_some());
        while let Some(index) = self.order.get(self.position) {
            self.position += 1;
            if only_chance || quarantine(index).is_none() {
                if self.order.len() > 1 && is_doubtful(index) {
                    self.doubtful.push(index);
                    continue;
                }
                self.has_repeated = false;
                return RouteStep::Try(index);
            }
        }
        // An attempt that was begun for an earlier call may have failed by now.
        self.doubtful.retain(|index| quarantine(*index).is_none());
        if !self.doubtful.is_empty() {
            self.has_repeated = false;
            return RouteStep::Try(self.doubtful.remove(0));
        }
        if self.rounds == 0 {
            return self.give_up();
        }
        self.rounds -= 1;
        self.position = 0;
        let waits = self.order.iter().map(|index| quarantine(index).unwrap_or_default());
        let wait = waits.min().unwrap_or_default().max(LEAST_WAIT);
        RouteStep::Wait(total.remaining(now).map_or(wait, |left| left.min(wait)))
    }

    /// The server of the last attempt, if it failed, and the event to report there now that the next one goes to `next`.
    pub(crate) fn news(&mut self, next: usize) -> Option<(usize, RetryEvent)> {
        let (failed, is_unknown) = self.failed.take()?;
        let news = RetryEvent { is_moved: failed != next, is_resent: is_unknown };
        (news.is_moved || news.is_resent).then_some((failed, news))
    }

    /// Where the last attempt has failed.
    pub(crate) fn failed_at(&self) -> Option<usize> {
        self.failed.map(|(index, _)| index)
    }

    fn give_up(&mut self) -> RouteStep {
        RouteStep::GiveUp(self.last.take().unwrap_or_else(no_server))
    }

    /// Records a server's failure.
    ///
    /// # Errors
    ///
    /// The failure itself, if no other attempt may follow. Its fate is that of the whole call: unknown if an earlier
    /// attempt may have been carried out.
    pub(crate) fn failed(&mut self, index: usize, error: Error, now: Instant) -> Result<()> {
        let is_unknown = error.fate() == Fate::Unknown;
        let may_repeat = may_repeat(&error, self.idempotent) && !self.patience.has_passed(now);
        self.may_have_acted |= is_unknown;
        self.failed = Some((index, is_unknown));
        let error = if self.may_have_acted { error.with_fate(Fate::Unknown) } else { error };
        if !may_repeat {
            return Err(error.after(self.last.take()));
        }
        if error.kind() == ErrorKind::Timeout(Deadline::Connect) && self.untried() > 0 {
            self.doubtful.push(index);
        }
        // The same unique id on the same server names the same job, so try that server first.
        if is_unknown && !self.has_repeated {
            self.has_repeated = true;
            self.again = Some(index);
        }
        self.last = Some(error);
        Ok(())
    }
}

/// A question to one server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Question {
    pub(crate) server: usize,
    /// How often it is asked again.
    pub(crate) rounds: u32,
    /// Its share of the remaining time.
    pub(crate) limit: Limit,
    /// Whether it comes back to this server after the others.
    pub(super) has_others: bool,
}

/// Server indexes in order of preference. A single server needs no allocation.
#[derive(Debug)]
pub(crate) struct ServerOrder {
    first: usize,
    others: Vec<usize>,
}

impl ServerOrder {
    pub(crate) fn only(first: usize) -> Self {
        ServerOrder { first, others: Vec::new() }
    }

    pub(crate) fn len(&self) -> usize {
        1 + self.others.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = usize> {
        std::iter::once(self.first).chain(self.others.iter().copied())
    }

    fn get(&self, position: usize) -> Option<usize> {
        match position.checked_sub(1) {
            None => Some(self.first),
            Some(position) => self.others.get(position).copied(),
        }
    }
}

impl FromIterator<usize> for ServerOrder {
    fn from_iter<I: IntoIterator<Item = usize>>(indexes: I) -> Self {
        let mut indexes = indexes.into_iter();
        let first = indexes.next().unwrap_or_default();
        ServerOrder { first, others: indexes.collect() }
    }
}

/// The servers of a client, and the order in which they are tried for a request.
#[derive(Debug)]
pub(crate) struct Router {
    servers: Servers,
    /// A hash of each server's address.
    hashes: Vec<u64>,
    /// The ring, if ids are placed on it.
    ring: Option<HashRing>,
    total_timeout: Option<Duration>,
}

impl Router {
    pub(crate) fn new(servers: Servers) -> Self {
        let hash = |server: &Address| stable_hash(server.to_string().as_bytes());
        let hashes = servers.addresses().map(hash).collect();
        let is_on_ring = servers.selected() == Selection::ByKeyOnRing;
        let ring = is_on_ring.then(|| HashRing::new(servers.addresses()));
        let total_timeout = servers.options().first().and_then(|server| server.total_timeout);
        Router { servers, hashes, ring, total_timeout }
    }

    /// The addresses of the servers, in order.
    pub(crate) fn addresses(&self) -> impl ExactSizeIterator<Item = &Address> + Clone {
        self.servers.options().iter().map(|server| server.address())
    }

    /// The server, if there is only one.
    pub(crate) fn only_server(&self) -> Option<&Address> {
        self.addresses().next().filter(|_| self.hashes.len() == 1)
    }

    /// The measurement observer, from the options of the first server.
    pub(crate) fn measures(&self) -> &Measures {
        self.servers.options().first().map_or(Measures::none(), |server| &server.measures)
    }

    /// The limit of a call that starts now, and the number of retry rounds over the servers.
    pub(crate) fn policy(&self, now: Instant) -> (Limit, u32) {
        let rounds = self.servers.options().first().map_or(0, |server| server.retry.attempts());
        (Limit::after(Deadline::Total, self.total_timeout, now), rounds)
    }

    pub(crate) fn set_total_timeout(&mut self, timeout: Option<Duration>) {
        self.total_timeout = timeout;
    }

    /// The servers that a request may go to, in order of preference: only its job's own, if that is named.
    pub(crate) fn order_for<R: Request>(&self, turn: usize, request: &R) -> Result<ServerOrder> {
        let own = request.handle().map(|handle| handle.position_in(self.addresses()));
        let order = || self.order(turn, request.route());
        Ok(own.transpose()?.flatten().map_or_else(order, ServerOrder::only))
    }

    /// The indexes of all servers in order of preference. `turn` counts the requests.
    pub(crate) fn order(&self, turn: usize, unique: Option<&[u8]>) -> ServerOrder {
        let count = self.hashes.len();
        if count == 1 {
            return ServerOrder::only(0);
        }
        let rotated = || (0..count).map(|n| (turn.wrapping_add(n)) % count).collect();
        match (self.servers.selected(), unique) {
            (Selection::InOrder, _) => (0..count).collect(),
            (Selection::ByKeyOnRing, Some(unique)) => match &self.ring {
                Some(ring) => ring.order(unique).into_iter().collect(),
                None => rotated(),
            },
            (Selection::RoundRobin, _) | (Selection::ByKey | Selection::ByKeyOnRing, None) => {
                rotated()
            }
            (Selection::ByKey, Some(unique)) => {
                let key = stable_hash(unique);
                let wants = |&server: &usize| {
                    Reverse(self.hashes.get(server).map(|hash| affinity(*hash, key)))
                };
                let mut order: Vec<usize> = (0..count).collect();
                order.sort_by_key(wants);
                order.into_iter().collect()
            }
        }
    }
}

/// Whether a failed request may be resent, to this server or another.
pub(crate) fn may_repeat(error: &Error, idempotent: bool) -> bool {
    let of_connection = matches!(
        error.kind(),
        ErrorKind::Connect
            | ErrorKind::ConnectionLost
            | ErrorKind::Timeout(Deadline::Connect | Deadline::Write | Deadline::Reply)
    );
    match error.fate() {
        Fate::NotSent => of_connection,
        Fate::Unknown => of_connection && idempotent,
        Fate::Refused => false,
    }
}

/// Minimum pause between two rounds over the servers, so that a round that fails at once does not spin.
pub(crate) const LEAST_WAIT: Duration = Duration::from_millis(1);

/// The error when no server was tried.
pub(crate) fn no_server() -> Error {
    Error::new(ErrorKind::ConnectionLost, Fate::NotSent, "no server could be reached")
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use queue_core::SLOW;

    use super::*;
    use crate::RetryPolicy;

    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    const SECOND: Duration = Duration::from_secs(1);

    fn router(selection: Selection, servers: &str) -> Router {
        Router::new(servers.parse::<Servers>().unwrap().selection(selection))
    }

    fn order(router: &Router, turn: usize, unique: Option<&[u8]>) -> Vec<usize> {
        router.order(turn, unique).iter().collect()
    }

    #[test]
    fn the_first_server_has_the_policy_until_another_total_timeout_is_set() {
        let first: ConnectOptions = "a".parse().unwrap();
        let first = first.total_timeout(Some(SECOND)).retry(RetryPolicy::new(7));
        let mut router = Router::new(Servers::new([first, "b".parse().unwrap()]).unwrap());
        let (limit, rounds) = router.policy(*START);
        assert_eq!((limit.at, rounds), (Some(*START + SECOND), 7));
        router.set_total_timeout(None);
        assert_eq!(router.policy(*START).0.at, None);
    }

    #[test]
    fn in_order_starts_at_the_first_and_round_robin_rotates() {
        let in_order = router(Selection::InOrder, "a,b,c");
        let round = router(Selection::RoundRobin, "a,b,c");
        assert_eq!(order(&in_order, 7, None), [0, 1, 2]);
        assert_eq!(order(&round, 0, None), [0, 1, 2]);
        assert_eq!(order(&round, 1, Some(b"u")), [1, 2, 0]);
        assert_eq!(order(&round, usize::MAX, None)[0], usize::MAX % 3);
        assert_eq!(order(&router(Selection::RoundRobin, "a"), 7, None), [0]);
    }

    #[test]
    fn an_id_keeps_its_server_wherever_it_stands_in_the_list() {
        let one = router(Selection::ByKey, "a,b,c");
        let other = router(Selection::ByKey, "c,a,b");
        let tried = |router: &Router, id: &str| {
            let order = router.order(0, Some(id.as_bytes()));
            order.iter().map(|index| router.hashes[index]).collect::<Vec<_>>()
        };
        for id in 0..100 {
            assert_eq!(tried(&one, &id.to_string()), tried(&other, &id.to_string()));
        }
    }

    #[test]
    fn a_missing_server_moves_only_its_own_ids_and_all_get_a_share() {
        let three = router(Selection::ByKey, "a,b,c");
        let two = router(Selection::ByKey, "a,b");
        let mut share = [0; 3];
        for id in 0..3000 {
            let id = format!("job-{id}");
            let first = order(&three, 0, Some(id.as_bytes()));
            share[first[0]] += 1;
            let rest: Vec<usize> = first.into_iter().filter(|index| *index != 2).collect();
            assert_eq!(order(&two, 0, Some(id.as_bytes())), rest);
        }
        assert!(share.iter().all(|count| (800..1200).contains(count)), "{share:?}");
    }

    fn lost(fate: Fate) -> Error {
        Error::new(ErrorKind::ConnectionLost, fate, "gone")
    }

    /// The attempts of a call that may go to two servers.
    fn over_two(rounds: u32, idempotent: bool) -> RouteAttempts {
        RouteAttempts::new(ServerOrder::from_iter([0, 1]), rounds, idempotent)
    }

    fn step(attempts: &mut RouteAttempts, away: impl Fn(usize) -> Option<Duration>) -> RouteStep {
        attempts.step(away, |_| false, Limit::never(), *START)
    }

    fn tried(attempts: &mut RouteAttempts) -> Option<usize> {
        match step(attempts, |_| None) {
            RouteStep::Try(index) => Some(index),
            _ => None,
        }
    }

    #[test]
    fn unsent_requests_try_every_server_in_every_round() {
        let mut attempts = RouteAttempts::new(ServerOrder::from_iter([1, 0]), 1, false);
        for expected in [Some(1), Some(0), None, Some(1), Some(0), None] {
            let index = tried(&mut attempts);
            assert_eq!(index, expected);
            if let Some(index) = index {
                attempts.failed(index, lost(Fate::NotSent), *START).unwrap();
            }
        }
    }

    #[test]
    fn a_call_ends_after_its_rounds() {
        let mut attempts = RouteAttempts::new(ServerOrder::only(7), 2, false);
        for is_last in [false, false, true] {
            assert_eq!(tried(&mut attempts), Some(7));
            attempts.failed(7, lost(Fate::NotSent), *START).unwrap();
            match step(&mut attempts, |_| None) {
                RouteStep::GiveUp(error) => {
                    assert_eq!((error.fate(), is_last), (Fate::NotSent, true));
                }
                RouteStep::Wait(wait) => assert_eq!((wait, is_last), (LEAST_WAIT, false)),
                RouteStep::Try(index) => panic!("{index}"),
            }
        }
    }

    #[test]
    fn ids_on_a_ring_go_where_the_ring_says_and_others_in_turn() {
        let on_ring = router(Selection::ByKeyOnRing, "a,b,c");
        let ring = HashRing::new("a,b,c".parse::<Servers>().unwrap().addresses());
        for id in 0..100 {
            let id = id.to_string();
            assert_eq!(order(&on_ring, 0, Some(id.as_bytes())), ring.order(id.as_bytes()));
        }
        assert_eq!(order(&on_ring, 1, None), [1, 2, 0]);
    }

    #[test]
    fn a_doubtful_server_is_tried_behind_the_others_unless_it_is_the_only_one() {
        let step = |attempts: &mut RouteAttempts, away: bool| {
            let wait = away.then_some(SLOW);
            match attempts.step(|_| wait, |index| index == 0, Limit::never(), *START) {
                RouteStep::Try(index) => index,
                other => panic!("{other:?}"),
            }
        };
        let mut attempts = over_two(0, true);
        for expected in [1, 1, 0, 0] {
            assert_eq!(step(&mut attempts, false), expected, "each is tried twice");
            attempts.failed(expected, lost(Fate::Unknown), *START).unwrap();
        }
        let mut only = RouteAttempts::new(ServerOrder::only(0), 0, false);
        assert_eq!(step(&mut only, true), 0);
    }

    #[test]
    fn servers_that_take_long_to_connect_share_the_rest_of_the_time() {
        let total = Limit::after(Deadline::Total, Some(3000 * SECOND), *START);
        let mut attempts = RouteAttempts::new(ServerOrder::from_iter([0, 1, 2]), 0, false);
        for server in [0, 1] {
            assert_eq!(tried(&mut attempts), Some(server));
            attempts.failed(server, Error::timed_out(Deadline::Connect), *START).unwrap();
        }
        assert_eq!(tried(&mut attempts), Some(2));
        let now = *START + 600 * SECOND;
        let third = attempts.time(total, now).connecting;
        assert_eq!(third.at, Some(now + 800 * SECOND), "one of three shares of what is left");
        let mut only = RouteAttempts::new(ServerOrder::only(0), 0, false);
        assert_eq!(tried(&mut only), Some(0));
        let whole = only.time(total, now);
        assert_eq!((whole.connecting.at, whole.total.at), (total.at, total.at));
    }

    #[test]
    fn only_a_new_call_hurries_and_only_if_every_server_is_away() {
        let mut call = over_two(1, false);
        assert!(call.wants_haste(|_| true) && !call.wants_haste(|_| true));
        let mut call = over_two(1, false);
        assert!(!call.wants_haste(|index| index == 0) && !call.wants_haste(|_| true));
    }

    #[test]
    fn the_failed_server_learns_the_fate_of_its_request() {
        let events = |idempotent: bool, fate: Fate, next: usize| {
            let (send, receive) = std::sync::mpsc::channel();
            let options: ConnectOptions = "server:1".parse().unwrap();
            let server = options.on_event(move |event| send.send(event.clone()).unwrap());
            let mut attempts = RouteAttempts::new(ServerOrder::from_iter([1, 2]), 1, idempotent);
            assert_eq!((attempts.failed_at(), attempts.news(1)), (None, None));
            attempts.failed(1, lost(fate), *START).unwrap();
            assert_eq!(attempts.failed_at(), Some(1));
            let news = attempts.news(next);
            assert_eq!(attempts.news(next), None, "it is told once");
            if let Some((failed, news)) = news {
                assert_eq!(failed, 1);
                news.notify(&server);
            }
            drop(server);
            receive.iter().map(|event| event.what.to_string()).collect::<Vec<_>>()
        };
        let resent = &ClientEventKind::Resent.to_string();
        let moved = &ClientEventKind::Moved.to_string();
        let nothing: [&str; 0] = [];
        assert_eq!(events(false, Fate::NotSent, 1), nothing, "a retry is nothing special");
        assert_eq!(events(false, Fate::NotSent, 2), [moved.as_str()]);
        assert_eq!(events(true, Fate::Unknown, 1), [resent.as_str()]);
        assert_eq!(events(true, Fate::Unknown, 2), [resent.as_str(), moved]);
    }

    #[test]
    fn the_fate_of_a_call_is_unknown_when_that_of_one_attempt_is() {
        let mut attempts = over_two(0, true);
        attempts.failed(0, lost(Fate::Unknown), *START).unwrap();
        for _ in 0..3 {
            if let Some(index) = tried(&mut attempts) {
                attempts.failed(index, lost(Fate::NotSent), *START).unwrap();
            }
        }
        let RouteStep::GiveUp(error) = step(&mut attempts, |_| None) else { panic!() };
        assert_eq!(error.fate(), Fate::Unknown);
        let refused = Error::refused(ErrorKind::QueueFull, "QUEUE_ERROR", "full");
        let error = attempts.failed(1, refused, *START).unwrap_err();
        assert_eq!((error.kind(), error.fate()), (ErrorKind::QueueFull, Fate::Unknown));
    }

    #[test]
    fn a_timeout_in_a_later_attempt_reports_the_earlier_failure() {
        let mut attempts = over_two(0, false);
        attempts.failed(0, lost(Fate::NotSent), *START).unwrap();
        let error = attempts.failed(1, Error::timed_out(Deadline::Total), *START).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Timeout(Deadline::Total));
        assert!(error.to_string().ends_with(&lost(Fate::NotSent).to_string()), "{error}");
    }

    #[test]
    fn a_call_whose_time_has_passed_tries_no_other_server() {
        let total = Limit::after(Deadline::Total, Some(SECOND), *START);
        let late = *START + SECOND;
        let step =
            |attempts: &mut RouteAttempts, now| attempts.step(|_| None, |_| false, total, now);
        let mut attempts = over_two(1, false);
        let first = step(&mut attempts, late);
        assert!(matches!(first, RouteStep::Try(0)), "it has the error of one: {first:?}");
        attempts.failed(0, lost(Fate::NotSent), late).unwrap();
        assert!(matches!(step(&mut attempts, late), RouteStep::GiveUp(_)));
        let mut attempts = over_two(1, false);
        attempts.failed(0, lost(Fate::NotSent), *START).unwrap();
        assert!(matches!(step(&mut attempts, *START), RouteStep::Try(0)));
    }

    #[test]
    fn a_quarantined_server_is_passed_over_and_then_waited_for() {
        let wait = Duration::from_secs(3);
        let first_away = |index| (index == 0).then_some(wait);
        for rounds in [1, 0] {
            let step = step(&mut over_two(rounds, false), first_away);
            assert!(matches!(step, RouteStep::Try(1)));
        }
        let longer = |index| Some(if index == 0 { 2 * wait } else { wait });
        let all_away = |_| Some(wait);
        for first in
            [step(&mut over_two(1, false), longer), step(&mut over_two(1, false), all_away)]
        {
            assert!(matches!(first, RouteStep::Wait(time) if time == wait), "the first to be back");
        }
        let total = Limit::after(Deadline::Total, Some(wait), *START);
        let last = over_two(1, false).step(longer, |_| false, total, *START + 2 * SECOND);
        assert!(matches!(last, RouteStep::Wait(SECOND)), "no longer than the call: {last:?}");
        let mut never = RouteAttempts::new(ServerOrder::only(0), 0, false);
        assert!(matches!(step(&mut never, all_away), RouteStep::Try(0)));
    }

    #[test]
    fn a_server_that_takes_long_to_connect_is_tried_last_and_then_waited_for() {
        let late = || Error::timed_out(Deadline::Connect);
        let mut attempts = over_two(0, false);
        assert_eq!(tried(&mut attempts), Some(0));
        let time = attempts.time(Limit::never(), *START);
        assert_eq!(time.connecting.at, Some(*START + SLOW));
        attempts.failed(0, late(), *START).unwrap();
        assert_eq!(tried(&mut attempts), Some(1));
        attempts.failed(1, lost(Fate::NotSent), *START).unwrap();
        assert_eq!(tried(&mut attempts), Some(0));
        assert_eq!(attempts.time(Limit::never(), *START).connecting.at, None);
        attempts.failed(0, late(), *START).unwrap();
        assert_eq!(tried(&mut attempts), None);
        let mut attempts = over_two(0, false);
        for server in [0, 1] {
            assert_eq!(tried(&mut attempts), Some(server));
            attempts.failed(server, late(), *START).unwrap();
        }
        let away = |index: usize| (index == 0).then_some(SLOW);
        let step = step(&mut attempts, away);
        assert!(matches!(step, RouteStep::GiveUp(_)), "its attempt has failed meanwhile: {step:?}");
    }
}
