//! When a server may be tried, and which of its connections is known.

use std::time::{Duration, Instant};

use crate::{Backoff, Deadline, Error, Io, Pulse, RetryPolicy, after, earliest};

/// A role's view of the server of its connection: whether the connection is new, how long an attempt may take,
/// and when the next one may start.
///
/// Consecutive failures increase the time between attempts, with full jitter, until an exchange has succeeded or a new
/// request waits: a server that accepts and then closes counts as failing.
#[derive(Clone, Debug)]
pub struct Health {
    backoff: Backoff,
    connect_timeout: Option<Duration>,
    epoch: u64,
    failures: u32,
    failed_at: Option<Instant>,
    not_before: Option<Instant>,
    pub(super) dialing: Option<Instant>,
}

/// A server that answers takes less time than this for a connection. Callers who have another server do not wait longer.
pub const SLOW: Duration = Duration::from_secs(1);

/// How long a connection lasts at least that counts as good without having been of use.
const LASTED: Duration = Duration::from_secs(1);

impl Health {
    /// A server that was not tried yet. With `None`, attempts have no time limit.
    #[must_use]
    pub fn new(retry: RetryPolicy, connect_timeout: Option<Duration>) -> Self {
        Health {
            backoff: retry.delays(),
            connect_timeout,
            epoch: 0,
            failures: 0,
            failed_at: None,
            not_before: None,
            dialing: None,
        }
    }

    /// Whether there is a new connection; reported once for each.
    pub fn is_new<F>(&mut self, io: &Io<F>) -> bool {
        let is_new = io.is_open() && self.epoch != io.epoch();
        if is_new {
            (self.epoch, self.dialing) = (io.epoch(), None);
        }
        is_new
    }

    /// What to do about a missing connection: make one, or wait until that is allowed.
    ///
    /// An attempt that takes longer than the connect timeout is a failure. The pump gives it until then, so the pump's
    /// report comes first.
    pub fn dial(&mut self, server: usize, now: Instant) -> Pulse {
        if self.is_overdue(now) {
            self.failed(now);
        }
        if let Some(at) = self.quarantine(now) {
            return Pulse::Close(Some(at));
        }
        self.attempt(server, now)
    }

    /// Makes an attempt to connect even if it should wait, for callers that have no other server.
    pub fn attempt(&mut self, server: usize, now: Instant) -> Pulse {
        self.dialing.get_or_insert(now);
        Pulse::Dial { server, by: self.give_up_at(), ask: None }
    }

    /// The connection for a call that must end by `by`. Its first attempt does not wait for the delays of the previous
    /// call, and its own delays grow from the shortest.
    pub fn dial_for_call(&mut self, is_first: bool, by: Option<Instant>, now: Instant) -> Pulse {
        if is_first {
            self.backoff.reset();
        }
        let pulse = if is_first { self.attempt(0, now) } else { self.dial(0, now) };
        match pulse {
            Pulse::Dial { server, by: within, ask } => {
                Pulse::Dial { server, by: earliest([within, by]), ask }
            }
            Pulse::Close(until) => Pulse::Close(earliest([until, by])),
            other => other,
        }
    }

    /// Whether the current attempt has exceeded its time limit without a result.
    #[must_use]
    pub fn is_overdue(&self, now: Instant) -> bool {
        self.give_up_at().is_some_and(|at| at < now)
    }

    /// The error of an attempt that has.
    #[must_use]
    pub fn overdue(&self) -> Error {
        Error::timed_out_after(Deadline::Connect, self.connect_timeout)
    }

    /// Whether the current attempt started before `since`: on behalf of an earlier call, so its failure must not be
    /// attributed to the current one.
    #[must_use]
    pub fn is_dialing_since_before(&self, since: Instant) -> bool {
        self.dialing.is_some_and(|at| at < since)
    }

    /// When the current attempt has to end.
    fn give_up_at(&self) -> Option<Instant> {
        self.give_up_after(self.dialing?)
    }

    /// When an attempt that starts now has to end.
    pub(super) fn give_up_after(&self, now: Instant) -> Option<Instant> {
        now.checked_add(self.connect_timeout?)
    }

    /// An attempt failed, or a connection was lost before an exchange had succeeded on it.
    pub fn failed(&mut self, now: Instant) {
        self.dialing = None;
        self.failures = self.failures.saturating_add(1);
        self.failed_at = Some(now);
        self.not_before = Some(after(now, self.backoff.next_delay()));
    }

    /// A request is waiting for the server: it may be retried once the shortest delay has passed since its last
    /// failure, however long the current delay is. The delays after that grow from the shortest again.
    pub fn hurry(&mut self, now: Instant) {
        self.backoff.reset();
        let soon = self.failed_at.map(|at| after(at, self.backoff.base()));
        let soon = soon.map_or(now, |soon| soon.max(now));
        self.not_before = self.not_before.map(|at| at.min(soon));
    }

    /// A connection that had served was lost: the next one may be made at once.
    pub fn lost(&mut self) {
        self.dialing = None;
    }

    /// The pump is gone: the next one numbers its connections from the start.
    pub fn abandoned(&mut self) {
        (self.epoch, self.dialing) = (0, None);
    }

    /// Whether a connection that was made then is a good one by now, even if the server has done nothing on it: one that
    /// accepts, answers and then closes is not.
    #[must_use]
    pub fn has_lasted(since: Instant, now: Instant) -> bool {
        now.saturating_duration_since(since) >= LASTED
    }

    /// An exchange succeeded.
    pub fn proven(&mut self) {
        if self.failures > 0 {
            self.backoff.reset();
            self.failures = 0;
        }
        self.not_before = None;
    }

    /// Whether a call with this policy would have failed by now: it has used up its retries without reaching the server.
    #[must_use]
    pub fn has_failed_for(&self, retry: &RetryPolicy) -> bool {
        self.failures > retry.attempts()
    }

    /// The number of consecutive failures.
    #[must_use]
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// When the server may first be tried: of several failed servers, the one with the earliest time is tried first.
    #[must_use]
    pub fn not_before(&self) -> Option<Instant> {
        self.not_before
    }

    /// Until when the server must not be tried.
    #[must_use]
    pub fn quarantine(&self, now: Instant) -> Option<Instant> {
        self.not_before.filter(|at| *at > now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn dials(server: usize, by: Option<Instant>) -> Pulse {
        Pulse::Dial { server, by, ask: None }
    }

    fn health() -> Health {
        Health::new(RetryPolicy::default().seed(1).backoff(SECOND, 8 * SECOND), Some(5 * SECOND))
    }

    #[test]
    fn a_call_during_a_long_delay_waits_for_the_shortest_at_most() {
        let (mut health, start) = (health(), Instant::now());
        for _ in 0..100 {
            health.failed(start);
        }
        health.hurry(start);
        assert!(health.quarantine(start).unwrap() <= start + SECOND);
        assert_eq!(health.quarantine(start + SECOND), None);
        health.failed(start + SECOND);
        health.hurry(start + 9 * SECOND);
        assert_eq!(health.quarantine(start + 9 * SECOND), None);
    }

    #[test]
    fn the_delays_of_a_call_do_not_begin_with_those_of_earlier_ones() {
        for seed in 0..100 {
            let retry = RetryPolicy::new(3).seed(seed).backoff(SECOND, 600 * SECOND);
            let (mut health, mut now) = (Health::new(retry, None), Instant::now());
            let mut fail = |health: &mut Health, most: u32| {
                health.failed(now);
                let wait = health.quarantine(now).map_or(Duration::ZERO, |at| at - now);
                assert!(wait <= most * SECOND, "seed {seed}: {wait:?} instead of {most} s");
                now += wait;
                now
            };
            for _ in 0..10 {
                let mut now = fail(&mut health, 8);
                health.hurry(now);
                for most in [1, 2, 4] {
                    now = fail(&mut health, most);
                }
                health.dial_for_call(true, None, now);
                for most in [1, 2, 4] {
                    now = fail(&mut health, most);
                    health.dial_for_call(false, None, now);
                }
            }
        }
    }

    #[test]
    fn the_only_server_is_tried_during_its_delay() {
        let (mut health, start) = (health(), Instant::now());
        health.failed(start);
        let wait = health.quarantine(start);
        assert_eq!(health.dial(0, start), Pulse::Close(wait));
        assert_eq!(health.attempt(0, start), dials(0, Some(start + 5 * SECOND)));
        assert!(!health.is_overdue(start + 5 * SECOND) && health.is_overdue(start + 6 * SECOND));
        assert_eq!(health.quarantine(start), wait, "others need not try it");
    }

    #[test]
    fn durations_beyond_the_clock_never_end() {
        let retry = RetryPolicy::default().backoff(Duration::MAX, Duration::MAX);
        let mut health = Health::new(retry, Some(Duration::MAX));
        let now = Instant::now();
        assert_eq!(health.dial(0, now), dials(0, None));
        for seed in 0..100 {
            let mut health = Health::new(retry.seed(seed), None);
            health.failed(now);
            assert!(health.quarantine(now).is_some(), "seed {seed}");
            health.hurry(now);
            assert!(health.quarantine(now).is_some(), "seed {seed}");
        }
    }
}
