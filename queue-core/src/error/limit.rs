//! Named deadlines, so that an error can say which one passed.

use std::{
    fmt,
    time::{Duration, Instant},
};

use crate::{Deadline, Error, now};

/// When a step has to be done.
pub trait Until: Copy {
    /// The remaining time; zero once it has passed, `None` when there is no limit.
    fn remaining(self) -> Option<Duration>;
}

impl Until for Option<Instant> {
    fn remaining(self) -> Option<Duration> {
        self.map(|at| at.saturating_duration_since(now()))
    }
}

impl Until for Limit {
    fn remaining(self) -> Option<Duration> {
        self.at.remaining()
    }
}

/// Number of bytes of a long write covered by one write deadline; the next bytes get the same time again. So the time
/// for a write grows with its length, but a peer that accepts a byte now and then cannot delay the end forever.
pub const WRITE_STEP: usize = 64 * 1024;

/// When a step has to be done, with the name of its deadline for the error.
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    /// The point in time; `None` waits indefinitely.
    pub at: Option<Instant>,
    which: Deadline,
}

impl Limit {
    /// No limit.
    #[must_use]
    pub fn never() -> Self {
        Self::until(Deadline::Total, None)
    }

    /// A separate limit that starts now; `None`, or a duration too long for the clock, waits indefinitely.
    #[must_use]
    pub fn of(which: Deadline, wait: Option<Duration>) -> Self {
        Self::until(which, wait.and_then(|wait| now().checked_add(wait)))
    }

    /// A limit at this point in time, with this name.
    #[must_use]
    pub fn until(which: Deadline, at: Option<Instant>) -> Self {
        Limit { at, which }
    }

    /// A limit of a step within this one.
    #[must_use]
    pub fn step(self, which: Deadline, wait: Option<Duration>) -> Self {
        self.sooner(Limit::of(which, wait))
    }

    /// The earlier of the two.
    #[must_use]
    pub fn sooner(self, other: Self) -> Self {
        match (self.at, other.at) {
            (Some(mine), Some(theirs)) if mine <= theirs => self,
            (Some(_), None) => self,
            _ => other,
        }
    }

    /// The same step, limited to `wait` from now.
    #[must_use]
    pub fn shorter(self, wait: Duration) -> Self {
        self.step(self.which, Some(wait))
    }

    /// One of this many equal shares of the remaining time.
    #[must_use]
    pub fn share(self, shares: usize) -> Self {
        let shares = u32::try_from(shares.max(1)).unwrap_or(u32::MAX);
        self.remaining().map_or(self, |left| self.shorter(left / shares))
    }

    /// The same point in time under another name.
    #[must_use]
    pub fn named(self, which: Deadline) -> Self {
        Limit { which, ..self }
    }

    /// The remaining time; zero if the limit has passed, `None` if there is no limit.
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
    pub fn error(self) -> Error {
        Error::timed_out(self.which)
    }

    /// The same, with a description of the step.
    #[must_use]
    pub fn error_while(self, detail: impl fmt::Display) -> Error {
        self.error().with_detail(detail)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    #[test]
    fn a_step_ends_with_the_whole_that_it_is_part_of() {
        let short = Some(Duration::from_secs(10));
        let long = Some(Duration::from_secs(1000));
        let name = |limit: Limit| match limit.error().kind() {
            ErrorKind::Timeout(which) => *which,
            other => panic!("{other:?}"),
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
        assert_eq!(name(Limit::of(Deadline::Total, short).named(Deadline::Job)), Deadline::Job);
        assert!(Limit::never().step(Deadline::Connect, Some(Duration::MAX)).at.is_none());
        assert!(Limit::never().shorter(Duration::ZERO).has_passed());
    }

    #[test]
    fn what_is_left_is_counted_down_and_shared() {
        fn left(until: impl Until) -> Option<Duration> {
            until.remaining()
        }
        let hour = Duration::from_secs(3600);
        let limit = Limit::of(Deadline::Total, Some(hour));
        assert!(left(limit).is_some_and(|left| left > hour / 2 && left <= hour));
        assert!(left(limit.share(2)).is_some_and(|left| left > hour / 4 && left <= hour / 2));
        assert_eq!((left(Limit::never()), left(Limit::never().share(2))), (None, None));
        assert_eq!(left(limit.shorter(Duration::ZERO)), Some(Duration::ZERO));
    }

    #[test]
    fn an_error_names_its_limit_and_what_was_going_on() {
        let limit = Limit::of(Deadline::Connect, Some(Duration::ZERO));
        let error = limit.error_while("the name h was not resolved in time");
        assert_eq!(
            error.to_string(),
            "no connection within the connect timeout: the name h was not resolved in time"
        );
    }
}
