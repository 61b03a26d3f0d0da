//! Deadlines with names, so that an error can say which one passed.

use std::{
    fmt::Debug,
    time::{Duration, Instant},
};

use crate::{Error, Scheme, now};

/// By when a step has to be done.
pub trait Until: Copy {
    /// What is left; zero when it is over, `None` when there is no limit.
    fn remaining(self) -> Option<Duration>;
}

impl Until for Option<Instant> {
    fn remaining(self) -> Option<Duration> {
        self.map(|at| at.saturating_duration_since(now()))
    }
}

impl<S: Sdk> Until for Limit<S> {
    fn remaining(self) -> Option<Duration> {
        self.at.remaining()
    }
}

/// What a client calls its deadlines, and the errors it makes of failures.
pub trait Sdk: Copy + Debug + 'static {
    /// The names of its deadlines.
    type Deadline: Copy + Debug + Send;
    /// Its error.
    type Error;
    /// The name of the deadline of a whole call.
    const TOTAL: Self::Deadline;
    /// How its addresses are written.
    const SCHEME: Scheme;

    /// A deadline has passed; `detail` says more about what was going on.
    fn timed_out(which: Self::Deadline, detail: Option<String>) -> Self::Error;

    /// No connection could be made.
    fn failed(error: Error) -> Self::Error;
}

/// How many bytes of a long write one write deadline covers; the next ones have the same time again. So the time of a
/// write grows with its length, and a peer that takes a byte now and then does not put off the end for ever.
pub const WRITE_STEP: usize = 64 * 1024;

/// A point in time by which one step has to be done.
#[derive(Clone, Copy, Debug)]
pub struct Limit<S: Sdk> {
    /// The point in time; `None` waits for ever.
    pub at: Option<Instant>,
    which: S::Deadline,
}

impl<S: Sdk> Limit<S> {
    /// No limit.
    #[must_use]
    pub fn never() -> Self {
        Limit { at: None, which: S::TOTAL }
    }

    /// A limit of its own that starts now; `None`, or a duration too long for the clock, waits for ever.
    #[must_use]
    pub fn of(which: S::Deadline, wait: Option<Duration>) -> Self {
        Limit { at: wait.and_then(|wait| now().checked_add(wait)), which }
    }

    /// This point in time, under this name.
    #[must_use]
    pub fn until(which: S::Deadline, at: Option<Instant>) -> Self {
        Limit { at, which }
    }

    /// A step within this one.
    #[must_use]
    pub fn step(self, which: S::Deadline, wait: Option<Duration>) -> Self {
        self.sooner(Limit::of(which, wait))
    }

    /// The one of the two that passes first.
    #[must_use]
    pub fn sooner(self, other: Self) -> Self {
        match (self.at, other.at) {
            (Some(mine), Some(theirs)) if mine <= theirs => self,
            (Some(_), None) => self,
            _ => other,
        }
    }

    /// The same step, but no longer than `wait` from now.
    #[must_use]
    pub fn shorter(self, wait: Duration) -> Self {
        self.step(self.which, Some(wait))
    }

    /// One of so many equal shares of what is left.
    #[must_use]
    pub fn share(self, shares: usize) -> Self {
        let shares = u32::try_from(shares.max(1)).unwrap_or(u32::MAX);
        self.remaining().map_or(self, |left| self.shorter(left / shares))
    }

    /// The same point in time under another name.
    #[must_use]
    pub fn named(self, which: S::Deadline) -> Self {
        Limit { which, ..self }
    }

    /// What is left; zero when the limit has passed, `None` when there is no limit.
    #[must_use]
    pub fn remaining(self) -> Option<Duration> {
        self.at.remaining()
    }

    /// Whether the limit has passed.
    #[must_use]
    pub fn has_passed(self) -> bool {
        self.remaining().is_some_and(|left| left.is_zero())
    }

    /// The error that names this limit.
    #[must_use]
    pub fn error(self) -> S::Error {
        S::timed_out(self.which, None)
    }

    /// The same, with what was going on.
    #[must_use]
    pub fn error_while(self, detail: impl Into<String>) -> S::Error {
        S::timed_out(self.which, Some(detail.into()))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    #[derive(Clone, Copy, Debug)]
    pub(crate) struct Test;

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum Deadline {
        Connect,
        Total,
    }

    #[derive(Debug)]
    pub(crate) enum Failure {
        TimedOut(Deadline, Option<String>),
        Failed(Error),
    }

    impl Sdk for Test {
        type Deadline = Deadline;
        type Error = Failure;
        const TOTAL: Deadline = Deadline::Total;
        const SCHEME: Scheme = Scheme {
            server: "queued",
            plain: "queue",
            tls: "queues",
            port: 7,
            tls_port: 8,
            others: &[],
        };

        fn timed_out(which: Deadline, detail: Option<String>) -> Failure {
            Failure::TimedOut(which, detail)
        }

        fn failed(error: Error) -> Failure {
            Failure::Failed(error)
        }
    }

    #[test]
    fn a_step_ends_with_the_whole_that_it_is_part_of() {
        let short = Some(Duration::from_secs(10));
        let long = Some(Duration::from_secs(1000));
        let name = |limit: Limit<Test>| match limit.error() {
            Failure::TimedOut(which, None) => which,
            Failure::TimedOut(..) => panic!("there is no detail"),
            Failure::Failed(error) => panic!("{error}"),
        };
        assert_eq!(
            name(Limit::of(Deadline::Total, short).step(Deadline::Connect, long)),
            Deadline::Total
        );
        assert_eq!(
            name(Limit::of(Deadline::Total, long).step(Deadline::Connect, short)),
            Deadline::Connect
        );
        assert_eq!(
            name(Limit::of(Deadline::Total, short).step(Deadline::Connect, None)),
            Deadline::Total
        );
        assert_eq!(name(Limit::never().step(Deadline::Connect, short)), Deadline::Connect);
        assert!(Limit::<Test>::never().step(Deadline::Connect, Some(Duration::MAX)).at.is_none());
        assert!(Limit::<Test>::never().shorter(Duration::ZERO).has_passed());
    }
}
