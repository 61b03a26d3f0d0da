//! Named deadlines, so that an error can say which one passed.

use std::{
    fmt,
    time::{Duration, Instant},
};

use crate::{Deadline, Error, SLOW, now};

/// Number of bytes of a long write covered by one write deadline; the next bytes get the same time again. So the time
/// for a write grows with its length, but a peer that accepts a byte now and then cannot delay the end forever.
pub(crate) const WRITE_STEP: usize = 64 * 1024;

/// When a step has to be done, with the name of its deadline for the error.
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    /// The point in time; `None` waits indefinitely.
    pub at: Option<Instant>,
    which: Deadline,
    /// Its length, if it is one that was chosen.
    length: Option<Duration>,
}

impl Limit {
    /// No limit.
    #[must_use]
    pub fn never() -> Self {
        Self::until(Deadline::Total, None)
    }

    /// A separate limit that starts at the current time of the clock; as [`after`](Self::after) otherwise.
    #[must_use]
    pub fn of(which: Deadline, wait: Option<Duration>) -> Self {
        Self::after(which, wait, now())
    }

    /// A separate limit that starts at `now`; `None`, or a duration too long for the clock, waits indefinitely.
    #[must_use]
    pub fn after(which: Deadline, wait: Option<Duration>, now: Instant) -> Self {
        let at = wait.and_then(|wait| now.checked_add(wait));
        Limit { length: wait, ..Self::until(which, at) }
    }

    /// A limit at this point in time, with this name.
    #[must_use]
    pub fn until(which: Deadline, at: Option<Instant>) -> Self {
        Limit { at, which, length: None }
    }

    /// A limit of a step within this one that starts at `now`.
    #[must_use]
    pub fn step(self, which: Deadline, wait: Option<Duration>, now: Instant) -> Self {
        self.sooner(Limit::after(which, wait, now))
    }

    /// The earlier of the two.
    #[must_use]
    pub fn sooner(self, other: Self) -> Self {
        let is_sooner = |mine| other.at.is_none_or(|theirs| mine <= theirs);
        if self.at.is_some_and(is_sooner) { self } else { other }
    }

    /// One of this many equal shares of the remaining time.
    #[must_use]
    pub fn share(self, shares: usize, now: Instant) -> Self {
        let shares = u32::try_from(shares.max(1)).unwrap_or(u32::MAX);
        let share = self.remaining(now).and_then(|left| now.checked_add(left / shares));
        self.sooner(Self::until(self.which, share))
    }

    /// The limit of an attempt to connect to one of several servers within this limit. Its `others` need their shares
    /// of the time; while some are `untried`, the attempt may take no longer than [`SLOW`].
    #[must_use]
    pub fn connecting(self, untried: usize, others: usize, now: Instant) -> Self {
        let share = match others {
            0 => self,
            _ => self.share(others + 1, now).named(Deadline::Connect),
        };
        match untried {
            0 => share,
            _ => share.step(Deadline::Connect, Some(SLOW), now),
        }
    }

    /// The same point in time under another name.
    #[must_use]
    pub fn named(self, which: Deadline) -> Self {
        Limit { which, ..self }
    }

    /// The remaining time; zero if the limit has passed, `None` if there is no limit.
    #[must_use]
    pub fn remaining(self, now: Instant) -> Option<Duration> {
        self.at.map(|at| at.saturating_duration_since(now))
    }

    /// Whether the limit has passed.
    #[must_use]
    pub fn has_passed(self, now: Instant) -> bool {
        self.at.is_some_and(|at| at <= now)
    }

    /// The error that names this limit.
    #[must_use]
    pub fn error(self) -> Error {
        Error::timed_out_after(self.which, self.length)
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
        let now = now();
        let short = Some(Duration::from_secs(10));
        let long = Some(Duration::from_secs(1000));
        let name = |limit: Limit| match limit.error().kind() {
            ErrorKind::Timeout(which) => *which,
            other => panic!("{other:?}"),
        };
        assert_eq!(
            name(Limit::after(Deadline::Total, short, now).step(Deadline::Connect, long, now)),
            Deadline::Total
        );
        assert_eq!(
            name(Limit::after(Deadline::Total, long, now).step(Deadline::Connect, short, now)),
            Deadline::Connect
        );
        assert_eq!(
            name(Limit::after(Deadline::Total, short, now).step(Deadline::Connect, None, now)),
            Deadline::Total
        );
        assert_eq!(name(Limit::never().step(Deadline::Connect, short, now)), Deadline::Connect);
        assert_eq!(name(Limit::of(Deadline::Total, short).named(Deadline::Job)), Deadline::Job);
        assert!(Limit::never().step(Deadline::Connect, Some(Duration::MAX), now).at.is_none());
    }

    #[test]
    fn the_remaining_time_is_counted_down_and_shared() {
        let (hour, start) = (Duration::from_secs(3600), now());
        let limit = Limit::after(Deadline::Total, Some(hour), start);
        let later = start + hour / 4;
        assert_eq!(
            [start, later].map(|now| limit.remaining(now)),
            [Some(hour), Some(hour / 4 * 3)]
        );
        assert_eq!(limit.share(3, later).at, Some(start + hour / 2));
        assert_eq!(
            (Limit::never().remaining(later), Limit::never().share(2, later).at),
            (None, None)
        );
        let end = start + hour;
        assert_eq!([later, end, end + hour].map(|now| limit.has_passed(now)), [false, true, true]);
        assert_eq!(limit.remaining(end + hour), Some(Duration::ZERO));
    }

    #[test]
    fn connecting_leaves_time_for_untried_servers() {
        let (minute, start) = (Duration::from_secs(60), now());
        let limit = |length| Limit::after(Deadline::Total, Some(length), start);
        for (length, untried, others, expected, which) in [
            (minute, 0, 0, minute, Deadline::Total),
            (minute, 0, 2, minute / 3, Deadline::Connect),
            (minute, 1, 2, SLOW, Deadline::Connect),
            (minute, 1, 0, SLOW, Deadline::Connect),
            (SLOW, 1, 1, SLOW / 2, Deadline::Connect),
        ] {
            let connecting = limit(length).connecting(untried, others, start);
            assert_eq!(connecting.remaining(start), Some(expected), "{untried} of {others}");
            assert_eq!(connecting.error().kind(), &ErrorKind::Timeout(which));
        }
        assert_eq!(Limit::never().connecting(0, 2, start).at, None);
    }

    #[test]
    fn an_error_names_its_limit_and_operation() {
        let limit = Limit::of(Deadline::Connect, Some(Duration::ZERO));
        let error = limit.error_while("the name h was not resolved in time");
        assert_eq!(
            error.to_string(),
            "no connection within the connect timeout of 0 ms: the name h was not resolved in time"
        );
        let total = Limit::of(Deadline::Total, Some(Duration::from_secs(90)));
        let of_total = "not done within the total timeout of 90 s";
        assert_eq!(total.sooner(Limit::never()).error().to_string(), of_total);
        // A share is not a limit set by the user.
        let share = total.share(3, now()).named(Deadline::Connect);
        assert_eq!(share.error().to_string(), "no connection within the connect timeout");
    }
}
